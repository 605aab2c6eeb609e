// SPDX-License-Identifier: Apache-2.0
// Reads and writes TensorFlow's checkpoints of version 2 ("bundles"): PREFIX.index, a sorted table
// (sorted_table.h) from tensor names to type, shape, offset and checksum;
// PREFIX.data-00000-of-00001 and so on, the tensors' bytes; and in the same folder the text file
// `checkpoint`, which names the newest PREFIX.
//
// A bundle is opened through its .index file. doc/formats.md has the rules.
#ifndef BERTH_FORMAT_TENSORFLOW_H
#define BERTH_FORMAT_TENSORFLOW_H

#include "core/error.h"
#include "core/file.h"
#include "format/tensors/tensor_file.h"

#include <stddef.h>
#include <stdint.h>

// Reading. Each tensor's checksum is verified before its first byte is returned. Tensors of strings
// (an object graph) are listed as "STRING", but not read.
extern const struct tensor_format tensorflow_format;

// Finds the .index file of the folder's newest bundle, newly allocated: the one that `checkpoint`
// names, else the only one. *path is NULL when there is none; several bundles of which `checkpoint`
// names none are BERTH_NO_INPUT.
enum berth_status tensorflow_find(const char *folder, char **path, struct berth_error *error);

// --- writing ------------------------------------------------------------------------------------

// A bundle in progress, written tensor by tensor, so that only one need be in memory. Commit first
// removes an old index under PREFIX, then publishes the data, the index and `checkpoint`, in this
// order, so that an index never belongs to other data.
struct tensorflow_writer {
    char *prefix;
    struct file_writer data;
    uint64_t data_bytes;
    struct tensorflow_index_entry *tensors;
    size_t count, capacity;
};
enum berth_status tensorflow_writer_open(struct tensorflow_writer *writer, const char *prefix,
                                         struct berth_error *error);
// Writes a tensor's bytes immediately. Names may come in any order; they are distinct, not empty
// and at most 1024 bytes. After a failure, call abort.
enum berth_status tensorflow_writer_put(struct tensorflow_writer *writer,
                                        const struct tensor_out *tensor, struct berth_error *error);
// A commit that fails aborts.
enum berth_status tensorflow_writer_commit(struct tensorflow_writer *writer,
                                           struct berth_error *error);
void tensorflow_writer_abort(struct tensorflow_writer *writer); // allowed after commit

// Writes a whole bundle, with the tensors sorted by name as in TensorFlow's files.
enum berth_status tensorflow_write(const char *prefix, const struct tensor_out *tensors,
                                   size_t count, struct berth_error *error);

// TensorFlow's number of a data type that can be written, 0 for others.
unsigned tensorflow_dtype_number(enum tensor_dtype dtype);

#endif
