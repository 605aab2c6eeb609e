// SPDX-License-Identifier: Apache-2.0
// Recognises compressed files, which readers of plain text do not decompress. They get an error
// that names the format and the program for it, instead of nonsense words.
#ifndef BERTH_CORE_COMPRESSED_H
#define BERTH_CORE_COMPRESSED_H

#include "core/error.h"

#include <stddef.h>

enum { COMPRESSED_HEAD = 10 };

// BERTH_BAD_DATA if the file `path` begins as a compressed file does: the message says how to
// decompress it. `head` are its first bytes, COMPRESSED_HEAD or all.
enum berth_status compressed_refuse(const char *path, const char *head, size_t length,
                                    struct berth_error *error);
// The same of a file that has not been read. BERTH_OK if it cannot be.
enum berth_status compressed_refuse_file(const char *path, struct berth_error *error);

#endif
