// SPDX-License-Identifier: Apache-2.0
// SHA-256 of files and memory, for the manifests of checkpoints.
#ifndef BERTH_FORMAT_SHA256_H
#define BERTH_FORMAT_SHA256_H

#include "core/error.h"

#include <stddef.h>

#define SHA256_HEX_SIZE 65

enum berth_status sha256_memory(const void *bytes, size_t length, char hex[SHA256_HEX_SIZE],
                                struct berth_error *error);
enum berth_status sha256_file(const char *path, char hex[SHA256_HEX_SIZE],
                              struct berth_error *error);

#endif
