// SPDX-License-Identifier: Apache-2.0
// AMX's tiles: eight registers of 16 rows of 64 bytes. They are emulated where `tiles` is given,
// for tests on processors without them; the compiler knows whether it is NULL. The numbers of tiles
// are literals, because they are part of the instructions.
//
// GCC's own functions do not say that a tile is read from memory; hence these.
#ifndef BERTH_CPU_KERNELS_TILES_H
#define BERTH_CPU_KERNELS_TILES_H

#include "device/cpu/kernels/math.h"

enum { TILES = 8, TILE_ROWS = 16, TILE_WORDS = 16 };

// Emulated tiles.
struct tiles {
    uint32_t of[TILES][TILE_ROWS][TILE_WORDS];
};

// What LDTILECFG reads.
struct tile_configuration {
    uint8_t palette, start_row, unused[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

ALWAYS_INLINE void configure_tiles(struct tiles *tiles) {
    if (tiles != NULL) {
        return;
    }
    struct tile_configuration configuration = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        configuration.row_bytes[i] = TILE_WORDS * sizeof(uint32_t);
        configuration.rows[i] = TILE_ROWS;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(configuration));
}

// Threads that keep nothing in tiles are cheaper to switch.
ALWAYS_INLINE void release_tiles(struct tiles *tiles) {
    if (tiles == NULL) {
        __asm__ volatile("tilerelease");
    }
}

#define TILE_ZERO(tiles, n)                                                                        \
    do {                                                                                           \
        if ((tiles) != NULL) {                                                                     \
            memset((tiles)->of[n], 0, sizeof(tiles)->of[n]);                                       \
        } else {                                                                                   \
            __asm__ volatile("tilezero %%tmm" #n ::);                                              \
        }                                                                                          \
    } while (0)

// Rows `stride` bytes apart.
#define TILE_LOAD(tiles, n, from, stride)                                                          \
    do {                                                                                           \
        if ((tiles) != NULL) {                                                                     \
            emulated_load((tiles)->of[n], from, stride);                                           \
        } else {                                                                                   \
            __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #n ::"r"((const char *)(from)),          \
                             "r"((int64_t)(stride))                                                \
                             : "memory");                                                          \
        }                                                                                          \
    } while (0)

#define TILE_STORE(tiles, n, to, stride)                                                           \
    do {                                                                                           \
        if ((tiles) != NULL) {                                                                     \
            emulated_store(to, stride, (tiles)->of[n]);                                            \
        } else {                                                                                   \
            __asm__ volatile("tilestored %%tmm" #n ", (%0,%1,1)" ::"r"((char *)(to)),              \
                             "r"((int64_t)(stride))                                                \
                             : "memory");                                                          \
        }                                                                                          \
    } while (0)

// sums += a b, of pairs of bf16: a has rows of 16 words of the depth, b 16 words of the depth for
// each of 16 columns.
#define TILE_MULTIPLY(tiles, sums, a, b)                                                           \
    do {                                                                                           \
        if ((tiles) != NULL) {                                                                     \
            emulated_multiply((tiles)->of[sums], (tiles)->of[a], (tiles)->of[b]);                  \
        } else {                                                                                   \
            __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sums ::);                \
        }                                                                                          \
    } while (0)

// sums += a b, of integers: unsigned bytes of a and signed bytes of b, four to a word.
#define TILE_MULTIPLY_BYTES(tiles, sums, a, b)                                                     \
    do {                                                                                           \
        if ((tiles) != NULL) {                                                                     \
            emulated_multiply_bytes((tiles)->of[sums], (tiles)->of[a], (tiles)->of[b]);            \
        } else {                                                                                   \
            __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #sums ::);                  \
        }                                                                                          \
    } while (0)

ALWAYS_INLINE void emulated_load(uint32_t tile[TILE_ROWS][TILE_WORDS], const void *from,
                                 int64_t stride) {
    for (int i = 0; i < TILE_ROWS; i++) {
        memcpy(tile[i], (const char *)from + i * stride, sizeof tile[i]);
    }
}

ALWAYS_INLINE void emulated_store(void *to, int64_t stride, uint32_t tile[TILE_ROWS][TILE_WORDS]) {
    for (int i = 0; i < TILE_ROWS; i++) {
        memcpy((char *)to + i * stride, tile[i], sizeof tile[i]);
    }
}

ALWAYS_INLINE __m512 low_halves(__m512i words) {
    return (__m512)_mm512_slli_epi32(words, 16);
}

ALWAYS_INLINE __m512 high_halves(__m512i words) {
    return (__m512)_mm512_and_si512(words, _mm512_set1_epi32((int)0xFFFF0000));
}

// As Intel's manual describes TDPBF16PS: products of the even and of the odd depth are summed
// apart, and both sums are added to the tile's. Leaves out that denormals count as 0.
ALWAYS_INLINE void emulated_multiply(uint32_t sums[TILE_ROWS][TILE_WORDS],
                                     uint32_t a[TILE_ROWS][TILE_WORDS],
                                     uint32_t b[TILE_ROWS][TILE_WORDS]) {
    for (int i = 0; i < TILE_ROWS; i++) {
        __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
        for (int k = 0; k < TILE_WORDS; k++) {
            const __m512i word = _mm512_set1_epi32((int)a[i][k]), row = _mm512_loadu_si512(b[k]);
            even = _mm512_fmadd_ps(low_halves(word), low_halves(row), even);
            odd = _mm512_fmadd_ps(high_halves(word), high_halves(row), odd);
        }
        const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(sums[i]), _mm512_add_ps(even, odd));
        _mm512_storeu_ps(sums[i], sum);
    }
}

// As TDPBUSD.
ALWAYS_INLINE void emulated_multiply_bytes(uint32_t sums[TILE_ROWS][TILE_WORDS],
                                           uint32_t a[TILE_ROWS][TILE_WORDS],
                                           uint32_t b[TILE_ROWS][TILE_WORDS]) {
    for (int i = 0; i < TILE_ROWS; i++) {
        for (int k = 0; k < TILE_WORDS; k++) {
            for (int shift = 0; shift < 32; shift += 8) {
                const int32_t factor = (int32_t)(a[i][k] >> shift & 255);
                for (int j = 0; j < TILE_WORDS; j++) {
                    sums[i][j] += (uint32_t)(factor * (int32_t)(signed char)(b[k][j] >> shift));
                }
            }
        }
    }
}

#endif
