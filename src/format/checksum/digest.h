// SPDX-License-Identifier: Apache-2.0
// Digests of files and of memory, as lower-case hexadecimal text: what manifests and the hub's
// cache know a file by. They find damage and files that were exchanged, unlike crc32c.h, which only
// TensorFlow's formats use.
#ifndef BERTH_FORMAT_DIGEST_H
#define BERTH_FORMAT_DIGEST_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum digest_kind {
    DIGEST_SHA256,
    DIGEST_GIT_BLOB, // SHA-1 of "blob LENGTH\0" and the content: git's id of a file
    DIGEST_MD5       // detects accidents only: anybody can make two files with the same MD5
};

#define DIGEST_HEX_SIZE 65 // large enough for all kinds

// digest_name: "SHA-256", ...; digest_length: its number of hexadecimal digits.
const char *digest_name(enum digest_kind kind);
size_t digest_length(enum digest_kind kind);
// Whether `text` is a digest in lower case.
int digest_is_hex(enum digest_kind kind, const char *text);

// A digest of bytes that come piece by piece; not DIGEST_GIT_BLOB, which begins with their length.
struct digest;
enum berth_status digest_open(enum digest_kind kind, struct digest **digest,
                              struct berth_error *error);
void digest_add(struct digest *digest, const void *bytes, size_t length);
// Frees the digest, which may be NULL; without `hex` it only does that. An error of digest_add
// comes out here.
enum berth_status digest_close(struct digest *digest, char hex[DIGEST_HEX_SIZE],
                               struct berth_error *error);

enum berth_status digest_memory(enum digest_kind kind, const void *bytes, size_t length,
                                char hex[DIGEST_HEX_SIZE], struct berth_error *error);
// Reads the file in blocks, so that memory does not grow with it.
enum berth_status digest_file(enum digest_kind kind, const char *path, char hex[DIGEST_HEX_SIZE],
                              struct berth_error *error);
// The size of a file and its SHA-256.
enum berth_status digest_measure(const char *path, uint64_t *bytes, char hex[DIGEST_HEX_SIZE],
                                 struct berth_error *error);

#endif
