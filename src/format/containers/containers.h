// SPDX-License-Identifier: Apache-2.0
// The formats of weights that can be read, as one table (format/tensors/tensor_file.h).
//
// A new container is one source file with a struct tensor_format, and a row in containers.c.
#ifndef BERTH_FORMAT_CONTAINERS_H
#define BERTH_FORMAT_CONTAINERS_H

#include "format/tensors/tensor_file.h"

// Opens the file by the first format that recognises it. One of no known format is BERTH_BAD_DATA,
// naming what is known.
enum berth_status tensor_file_open(struct tensor_file *file, const char *path,
                                   struct berth_error *error);
// What the first format that finds anything in the folder finds; *path NULL: none does.
enum berth_status tensor_file_find_in(const char *folder, char **path, struct berth_error *error);

#endif
