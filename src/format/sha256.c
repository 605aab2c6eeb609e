// SPDX-License-Identifier: Apache-2.0
// The only file that includes libcrypto. Files are read in pieces, so their size does not matter.
#include "format/sha256.h"

#include "core/file.h"
#include "core/memory.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>

#define PIECE_SIZE ((size_t)1 << 20)
#define DIGEST_SIZE 32

static enum berth_status library_failed(struct berth_error *error) {
    return error_set(error, BERTH_INTERNAL, "libcrypto cannot compute SHA-256");
}

static enum berth_status begin(EVP_MD_CTX **context, struct berth_error *error) {
    *context = EVP_MD_CTX_new();
    if (*context == NULL) {
        return error_set(error, BERTH_NO_MEMORY, "out of memory for a SHA-256 sum");
    }
    if (EVP_DigestInit_ex(*context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(*context);
        return library_failed(error);
    }
    return BERTH_OK;
}

static enum berth_status finish(EVP_MD_CTX *context, char hex[SHA256_HEX_SIZE],
                                struct berth_error *error) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (EVP_DigestFinal_ex(context, digest, NULL) != 1) {
        return library_failed(error);
    }
    for (size_t i = 0; i < DIGEST_SIZE; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    return BERTH_OK;
}

enum berth_status sha256_memory(const void *bytes, size_t length, char hex[SHA256_HEX_SIZE],
                                struct berth_error *error) {
    EVP_MD_CTX *context;
    TRY(begin(&context, error));
    enum berth_status status = EVP_DigestUpdate(context, bytes, length) == 1
                                   ? finish(context, hex, error)
                                   : library_failed(error);
    EVP_MD_CTX_free(context);
    return status;
}

static enum berth_status update_from_file(EVP_MD_CTX *context, const struct file_reader *reader,
                                          char *piece, struct berth_error *error) {
    for (uint64_t at = 0; at < reader->size; at += PIECE_SIZE) {
        uint64_t rest = reader->size - at;
        size_t bytes = rest < PIECE_SIZE ? (size_t)rest : PIECE_SIZE;
        TRY(file_reader_at(reader, at, piece, bytes, error));
        if (EVP_DigestUpdate(context, piece, bytes) != 1) {
            return library_failed(error);
        }
    }
    return BERTH_OK;
}

enum berth_status sha256_file(const char *path, char hex[SHA256_HEX_SIZE],
                              struct berth_error *error) {
    struct file_reader reader;
    TRY(file_reader_open(&reader, path, error));
    EVP_MD_CTX *context = NULL;
    enum berth_status status;
    char *piece = memory_new(PIECE_SIZE);
    if (piece == NULL) {
        status = error_no_memory(error, PIECE_SIZE, path);
    } else {
        status = begin(&context, error);
    }
    if (status == BERTH_OK) {
        status = update_from_file(context, &reader, piece, error);
        status = status == BERTH_OK ? finish(context, hex, error) : status;
        EVP_MD_CTX_free(context);
    }
    memory_free(piece);
    file_reader_close(&reader);
    return status;
}
