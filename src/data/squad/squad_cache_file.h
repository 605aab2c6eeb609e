// SPDX-License-Identifier: Apache-2.0
// Shared by the cache's writer and reader; squad_cache.c describes the layout.
#ifndef BERTH_DATA_SQUAD_CACHE_FILE_H
#define BERTH_DATA_SQUAD_CACHE_FILE_H

#include "core/words.h"
#include "data/squad/squad_cache.h"

#define CACHE_MAGIC "BERTHFEA"
#define CACHE_VERSION 2 // raise it when the file or any rule of the features changes
#define CACHE_HEADER_BYTES (8 + 4 + 4 + 32 + 6 * 8)
#define CACHE_FEATURE_BYTES (8 * 4)
#define CACHE_FOOTER_BYTES 4
#define CACHE_WITH_LABELS 1u

// Bytes of a token's id.
static inline size_t cache_id_bytes(const struct squad_cache_key *key) {
    return key->vocabulary <= 1 << 16 ? 2 : 4;
}

static inline void cache_key_bytes(const struct squad_cache_key *key, unsigned char bytes[32]) {
    for (size_t i = 0; i < 32; i++) {
        bytes[i] =
            (unsigned char)(hex_digit(key->hex[2 * i]) << 4 | hex_digit(key->hex[2 * i + 1]));
    }
}

#endif
