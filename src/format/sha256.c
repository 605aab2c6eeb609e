// SPDX-License-Identifier: Apache-2.0
// SHA-256, the digest of manifests.
#include "format/sha256.h"

#include "format/digest.h"

enum berth_status sha256_memory(const void *bytes, size_t length, char hex[SHA256_HEX_SIZE],
                                struct berth_error *error) {
    return digest_memory(DIGEST_SHA256, bytes, length, hex, error);
}

enum berth_status sha256_file(const char *path, char hex[SHA256_HEX_SIZE],
                              struct berth_error *error) {
    return digest_file(DIGEST_SHA256, path, hex, error);
}
