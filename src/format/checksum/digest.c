// SPDX-License-Identifier: Apache-2.0
// Digests through libcrypto; no other file includes it.
#include "format/checksum/digest.h"

#include "core/file.h"
#include "core/memory.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define PIECE_SIZE ((size_t)1 << 20)

static const struct {
    const char *name;
    const EVP_MD *(*algorithm)(void);
    size_t bytes;
} kinds[] = {[DIGEST_SHA256] = {"SHA-256", EVP_sha256, 32},
             [DIGEST_GIT_BLOB] = {"git's SHA-1", EVP_sha1, 20},
             [DIGEST_MD5] = {"MD5", EVP_md5, 16}};

const char *digest_name(enum digest_kind kind) {
    return kinds[kind].name;
}

size_t digest_length(enum digest_kind kind) {
    return 2 * kinds[kind].bytes;
}

int digest_is_hex(enum digest_kind kind, const char *text) {
    return strspn(text, "0123456789abcdef") == digest_length(kind) &&
           text[digest_length(kind)] == '\0';
}

static enum berth_status library_failed(enum digest_kind kind, struct berth_error *error) {
    return error_set(error, BERTH_INTERNAL, "libcrypto cannot compute %s", kinds[kind].name);
}

static enum berth_status update(EVP_MD_CTX *context, enum digest_kind kind, const void *bytes,
                                size_t length, struct berth_error *error) {
    return EVP_DigestUpdate(context, bytes, length) == 1 ? BERTH_OK : library_failed(kind, error);
}

// `length` is the length of the content.
static enum berth_status begin(EVP_MD_CTX **context, enum digest_kind kind, uint64_t length,
                               struct berth_error *error) {
    *context = EVP_MD_CTX_new();
    if (*context == NULL) {
        return error_set(error, BERTH_NO_MEMORY, "out of memory for a %s digest", kinds[kind].name);
    }
    enum berth_status status = EVP_DigestInit_ex(*context, kinds[kind].algorithm(), NULL) == 1
                                   ? BERTH_OK
                                   : library_failed(kind, error);
    if (status == BERTH_OK && kind == DIGEST_GIT_BLOB) {
        char head[32];
        int used = snprintf(head, sizeof head, "blob %" PRIu64, length);
        status = update(*context, kind, head, (size_t)used + 1, error);
    }
    if (status != BERTH_OK) {
        EVP_MD_CTX_free(*context);
        *context = NULL;
    }
    return status;
}

static enum berth_status finish(EVP_MD_CTX *context, enum digest_kind kind,
                                char hex[DIGEST_HEX_SIZE], struct berth_error *error) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (EVP_DigestFinal_ex(context, digest, NULL) != 1) {
        return library_failed(kind, error);
    }
    for (size_t i = 0; i < kinds[kind].bytes; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    return BERTH_OK;
}

enum berth_status digest_memory(enum digest_kind kind, const void *bytes, size_t length,
                                char hex[DIGEST_HEX_SIZE], struct berth_error *error) {
    EVP_MD_CTX *context;
    TRY(begin(&context, kind, length, error));
    enum berth_status status = update(context, kind, bytes, length, error);
    status = status == BERTH_OK ? finish(context, kind, hex, error) : status;
    EVP_MD_CTX_free(context);
    return status;
}

static enum berth_status update_from_file(EVP_MD_CTX *context, enum digest_kind kind,
                                          const struct file_reader *reader, char *piece,
                                          struct berth_error *error) {
    for (uint64_t at = 0; at < reader->size; at += PIECE_SIZE) {
        uint64_t rest = reader->size - at;
        size_t bytes = rest < PIECE_SIZE ? (size_t)rest : PIECE_SIZE;
        TRY(file_reader_at(reader, at, piece, bytes, error));
        TRY(update(context, kind, piece, bytes, error));
    }
    return BERTH_OK;
}

enum berth_status digest_file(enum digest_kind kind, const char *path, char hex[DIGEST_HEX_SIZE],
                              struct berth_error *error) {
    struct file_reader reader;
    TRY(file_reader_open(&reader, path, error));
    EVP_MD_CTX *context = NULL;
    enum berth_status status;
    char *piece = memory_new(PIECE_SIZE);
    if (piece == NULL) {
        status = error_no_memory(error, PIECE_SIZE, path);
    } else {
        status = begin(&context, kind, reader.size, error);
    }
    if (status == BERTH_OK) {
        status = update_from_file(context, kind, &reader, piece, error);
        status = status == BERTH_OK ? finish(context, kind, hex, error) : status;
        EVP_MD_CTX_free(context);
    }
    memory_free(piece);
    file_reader_close(&reader);
    return status;
}
