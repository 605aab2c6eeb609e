// SPDX-License-Identifier: Apache-2.0
// Digests through libcrypto; no other file includes it. Files are read in blocks and hashed as they
// pass, so a digest costs no memory; what a digest is compared with is left to the caller
// (manifest.c, hub_blob.c, checkpoints).
#include "format/checksum/digest.h"

#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define BUFFER_SIZE ((size_t)1 << 20)

static const struct {
    const char *name;
    const EVP_MD *(*algorithm)(void);
    size_t bytes;
} algorithms[] = {[DIGEST_SHA256] = {"SHA-256", EVP_sha256, 32},
                  [DIGEST_GIT_BLOB] = {"git SHA-1", EVP_sha1, 20},
                  [DIGEST_MD5] = {"MD5", EVP_md5, 16}};

const char *digest_name(enum digest_kind kind) {
    return algorithms[kind].name;
}

size_t digest_length(enum digest_kind kind) {
    return 2 * algorithms[kind].bytes;
}

int digest_is_hex(enum digest_kind kind, const char *text) {
    return strspn(text, "0123456789abcdef") == digest_length(kind) &&
           text[digest_length(kind)] == '\0';
}

static enum berth_status no_memory(enum digest_kind kind, struct berth_error *error) {
    return error_set(error, BERTH_NO_MEMORY, "out of memory for a %s digest",
                     algorithms[kind].name);
}

// Whether libcrypto succeeds. `length` is the length of the content. Clears errno.
static int begin(EVP_MD_CTX *context, enum digest_kind kind, uint64_t length) {
    char head[32];
    const int used = snprintf(head, sizeof head, "blob %" PRIu64, length);
    errno = 0;
    return EVP_DigestInit_ex(context, algorithms[kind].algorithm(), NULL) == 1 &&
           (kind != DIGEST_GIT_BLOB || EVP_DigestUpdate(context, head, (size_t)used + 1) == 1);
}

// `succeeded`: whether libcrypto has so far; if not, errno is that of its failed call.
static enum berth_status finish(EVP_MD_CTX *context, enum digest_kind kind, int succeeded,
                                char hex[DIGEST_HEX_SIZE], struct berth_error *error) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (!succeeded || EVP_DigestFinal_ex(context, digest, NULL) != 1) {
        // libcrypto's own queue of errors may have had no memory for the reason.
        return errno == ENOMEM ? no_memory(kind, error)
                               : error_set(error, BERTH_INTERNAL, "libcrypto cannot compute %s",
                                           algorithms[kind].name);
    }
    for (size_t i = 0; i < algorithms[kind].bytes; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    return BERTH_OK;
}

struct digest {
    EVP_MD_CTX *context;
    enum digest_kind kind;
    int succeeded;
};

enum berth_status digest_open(enum digest_kind kind, struct digest **digest,
                              struct berth_error *error) {
    struct digest *new = memory_new(sizeof *new);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (new == NULL || context == NULL) {
        memory_free(new);
        EVP_MD_CTX_free(context);
        return no_memory(kind, error);
    }
    *new = (struct digest){context, kind, begin(context, kind, 0)};
    *digest = new;
    return BERTH_OK;
}

void digest_add(struct digest *digest, const void *bytes, size_t length) {
    digest->succeeded = digest->succeeded && EVP_DigestUpdate(digest->context, bytes, length) == 1;
}

enum berth_status digest_close(struct digest *digest, char hex[DIGEST_HEX_SIZE],
                               struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    if (digest != NULL && hex != NULL) {
        status = finish(digest->context, digest->kind, digest->succeeded, hex, error);
    }
    if (digest != NULL) {
        EVP_MD_CTX_free(digest->context);
    }
    memory_free(digest);
    return status;
}

enum berth_status digest_memory(enum digest_kind kind, const void *bytes, size_t length,
                                char hex[DIGEST_HEX_SIZE], struct berth_error *error) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context == NULL) {
        return no_memory(kind, error);
    }
    const int succeeded =
        begin(context, kind, length) && EVP_DigestUpdate(context, bytes, length) == 1;
    const enum berth_status status = finish(context, kind, succeeded, hex, error);
    EVP_MD_CTX_free(context);
    return status;
}

static enum berth_status digest_reader(EVP_MD_CTX *context, enum digest_kind kind,
                                       const struct file_reader *reader, char *buffer,
                                       char hex[DIGEST_HEX_SIZE], struct berth_error *error) {
    int succeeded = begin(context, kind, reader->size);
    for (uint64_t offset = 0; succeeded && offset < reader->size; offset += BUFFER_SIZE) {
        uint64_t rest = reader->size - offset;
        size_t bytes = rest < BUFFER_SIZE ? (size_t)rest : BUFFER_SIZE;
        TRY(file_reader_at(reader, offset, buffer, bytes, error));
        succeeded = EVP_DigestUpdate(context, buffer, bytes) == 1;
    }
    return finish(context, kind, succeeded, hex, error);
}

enum berth_status digest_file(enum digest_kind kind, const char *path, char hex[DIGEST_HEX_SIZE],
                              struct berth_error *error) {
    struct file_reader reader;
    TRY(file_reader_open(&reader, path, error));
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    char *buffer = memory_new(BUFFER_SIZE);
    const enum berth_status status = buffer != NULL && context != NULL
                                         ? digest_reader(context, kind, &reader, buffer, hex, error)
                                         : no_memory(kind, error);
    memory_free(buffer);
    EVP_MD_CTX_free(context);
    file_reader_close(&reader);
    return status;
}

enum berth_status digest_measure(const char *path, uint64_t *bytes, char hex[DIGEST_HEX_SIZE],
                                 struct berth_error *error) {
    struct file_reader reader;
    TRY(file_reader_open(&reader, path, error));
    *bytes = reader.size;
    file_reader_close(&reader);
    return digest_file(DIGEST_SHA256, path, hex, error);
}
