// SPDX-License-Identifier: Apache-2.0
// The table of the weight formats that Berth reads (format/tensors/tensor_file.h).
//
// A new container is one source file with a struct tensor_format, and a row in containers.c.
#ifndef BERTH_FORMAT_CONTAINERS_H
#define BERTH_FORMAT_CONTAINERS_H

#include "format/tensors/tensor_file.h"

// Opens the file with the first format that recognises it. An unknown format is BERTH_BAD_DATA; the
// message names the known ones.
enum berth_status tensor_file_open(struct tensor_file *file, const char *path,
                                   struct berth_error *error);
// Asks each format in turn for a file in the folder; *path NULL: none finds one.
enum berth_status tensor_file_find_in(const char *folder, char **path, struct berth_error *error);

#endif
