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

// Writes a whole bundle, with the tensors sorted by name as in TensorFlow's files. Names are
// distinct, not empty and at most 1024 bytes. First removes an old index under PREFIX, then
// publishes the data, the index and `checkpoint`, in this order, so that an index never belongs to
// other data.
enum berth_status tensorflow_write(const char *prefix, const struct tensor_out *tensors,
                                   size_t count, struct berth_error *error);

// TensorFlow's number of a data type that can be written, 0 for others.
unsigned tensorflow_dtype_number(enum tensor_dtype dtype);

#endif
