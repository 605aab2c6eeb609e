// SPDX-License-Identifier: Apache-2.0
// TensorFlow's checkpoints of version 2 ("bundles"): PREFIX.index, a sorted table (sorted_table.h)
// from tensor names to type, shape, place and checksum; PREFIX.data-00000-of-00001 and so on, the
// tensors' bytes; and in the same folder `checkpoint`, a text that names the newest PREFIX.
//
// A bundle is opened by its .index file. Its rules are in doc/formats.md.
#ifndef BERTH_FORMAT_TENSORFLOW_H
#define BERTH_FORMAT_TENSORFLOW_H

#include "core/error.h"
#include "core/file.h"
#include "format/tensors/tensor_file.h"

#include <stddef.h>
#include <stdint.h>

// Reading. Each tensor's checksum is verified before its first byte is handed out. Tensors of text
// (an object graph) are listed as "STRING", but not read.
extern const struct tensor_format tensorflow_format;

// The .index file of the folder's newest bundle, newly allocated: the one that `checkpoint` names,
// else the only one. *path is NULL when there is none; several without a `checkpoint` that names
// one of them are BERTH_NO_INPUT.
enum berth_status tensorflow_find(const char *folder, char **path, struct berth_error *error);

// --- writing ------------------------------------------------------------------------------------

// A bundle while it is written, tensor by tensor, so that no more than one of them need be in
// memory. Under PREFIX stands nothing until commit, then the data, the index, and `checkpoint`, in
// this order; an index that was there before is removed first, so that at no time one stands beside
// data that are not its own.
struct tensorflow_writer {
    char *prefix;
    struct file_writer data;
    uint64_t data_bytes;
    struct tensorflow_written *tensors;
    size_t count, capacity;
};
enum berth_status tensorflow_writer_open(struct tensorflow_writer *writer, const char *prefix,
                                         struct berth_error *error);
// Writes a tensor's bytes now. Names may come in any order, are distinct, not empty and at most
// 1024 bytes. Any failure: abort.
enum berth_status tensorflow_writer_put(struct tensorflow_writer *writer,
                                        const struct tensor_out *tensor, struct berth_error *error);
// A commit that fails has aborted.
enum berth_status tensorflow_writer_commit(struct tensorflow_writer *writer,
                                           struct berth_error *error);
void tensorflow_writer_abort(struct tensorflow_writer *writer); // harmless after commit

// All in one, the tensors in the order of their names as TensorFlow lays them out.
enum berth_status tensorflow_write(const char *prefix, const struct tensor_out *tensors,
                                   size_t count, struct berth_error *error);

// TensorFlow's number of a data type that tensors can be written in, 0 for others.
unsigned tensorflow_dtype_number(enum tensor_dtype dtype);

#endif
