// SPDX-License-Identifier: Apache-2.0
// Dropout masks as core/rng.h defines them, 128 columns at a time, for which 16 lanes each draw one
// Philox block.
#ifndef BERTH_CPU_KERNELS_DROPOUT_H
#define BERTH_CPU_KERNELS_DROPOUT_H

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/lanes.h"

// Columns of a word of a mask, and Philox blocks of 128 columns.
#define MASK_COLUMNS 16
#define MASK_DRAWS 16

#define PHILOX_FACTOR0 0xD2511F53u
#define PHILOX_FACTOR1 0xCD9E8D57u
#define PHILOX_WEYL0 0x9E3779B9u
#define PHILOX_WEYL1 0xBB67AE85u

// 128 neighbouring columns of the rows of one sequence: what their masks share. Rows differ in one
// word of the counter, which reaches all words after three of the ten rounds.
#if defined(__AVX2__)
#include <immintrin.h>

// Counters in the low halves of 64-bit elements, where they are multiplied. The high halves are
// ignored. Rows that are drawn together: each round of a row depends on the one before, so the
// rounds of several rows, as many as registers hold, and of their even and odd lanes are
// interleaved.
#if defined(__AVX512F__)
typedef __m512i philox_vector;
enum { DRAWN_ROWS = 2 };

ALWAYS_INLINE philox_vector philox_word(uint32_t word) {
    return _mm512_set1_epi32((int)word);
}
ALWAYS_INLINE philox_vector philox_even_lanes(void) {
    return _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
}
ALWAYS_INLINE philox_vector philox_product(philox_vector x, philox_vector y) {
    return _mm512_mul_epu32(x, y);
}
// The high halves of products, in the low halves of their elements, with x and y.
ALWAYS_INLINE philox_vector xor_high(philox_vector product, philox_vector x, philox_vector y) {
    return _mm512_ternarylogic_epi32(_mm512_shuffle_epi32(product, _MM_PERM_DDBB), x, y, 0x96);
}
// Neighbouring lanes.
ALWAYS_INLINE philox_vector philox_lanes(const philox_vector halves[2]) {
    return _mm512_mask_shuffle_epi32(halves[0], 0xAAAA, halves[1], _MM_PERM_CCAA);
}
#else
typedef __m256i philox_vector;
enum { DRAWN_ROWS = 1 };

ALWAYS_INLINE philox_vector philox_word(uint32_t word) {
    return _mm256_set1_epi32((int)word);
}
ALWAYS_INLINE philox_vector philox_even_lanes(void) {
    return _mm256_setr_epi64x(0, 2, 4, 6);
}
ALWAYS_INLINE philox_vector philox_product(philox_vector x, philox_vector y) {
    return _mm256_mul_epu32(x, y);
}
ALWAYS_INLINE philox_vector xor_high(philox_vector product, philox_vector x, philox_vector y) {
    return _mm256_srli_epi64(product, 32) ^ x ^ y;
}
ALWAYS_INLINE philox_vector philox_lanes(const philox_vector halves[2]) {
    return _mm256_blend_epi32(halves[0], _mm256_slli_epi64(halves[1], 32), 0xAA);
}
#endif
enum { DRAWN_LANES = sizeof(philox_vector) / 4, DRAWS = MASK_DRAWS / DRAWN_LANES };

struct philox_half {
    philox_vector c1, c2, c3, next_c2;
};

struct dropout_columns {
    struct philox_half half[DRAWS][2]; // of the even lanes, of the odd ones
    uint64_t key;
    uint32_t first; // the first round's word, but for the position
    uint32_t threshold;
};

ALWAYS_INLINE struct dropout_columns dropout_columns(const struct dropout *dropout, uint32_t head,
                                                     int64_t global_index, int64_t column) {
    const uint64_t key = rng_dropout_key(dropout, head);
    const uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    const uint64_t product = (uint64_t)PHILOX_FACTOR1 * (uint32_t)global_index;
    const philox_vector factor0 = philox_word(PHILOX_FACTOR0),
                        factor1 = philox_word(PHILOX_FACTOR1);
    struct dropout_columns columns = {
        .key = key, .first = (uint32_t)(product >> 32) ^ k0, .threshold = dropout->threshold};
    for (int i = 0; i < 2 * DRAWS; i++) {
        struct philox_half *half = &columns.half[i / 2][i % 2];
        const uint32_t first = (uint32_t)(column / 8) + (uint32_t)(i / 2 * DRAWN_LANES + i % 2);
        philox_vector p0 = philox_product(factor0, philox_even_lanes() + philox_word(first));
        const philox_vector c2 = xor_high(p0, philox_word(dropout->step), philox_word(k1));
        half->c1 = philox_product(factor1, c2);
        half->c2 = p0 ^ philox_word(k1 + PHILOX_WEYL1);
        p0 = philox_product(factor0, xor_high(half->c1, philox_word((uint32_t)product),
                                              philox_word(k0 + PHILOX_WEYL0)));
        half->c3 = p0;
        half->next_c2 = xor_high(p0, philox_word(k1 + 2 * PHILOX_WEYL1), philox_word(0));
    }
    return columns;
}

// The four words of the counters of the rows.
struct philox_words {
    philox_vector c[4][DRAWN_ROWS][2];
};

ALWAYS_INLINE void philox_begin(struct philox_words *w, const struct dropout_columns *columns,
                                int draw, int row, int32_t position) {
    const philox_vector factor1 = philox_word(PHILOX_FACTOR1);
    const philox_vector k0 = philox_word((uint32_t)columns->key + 2 * PHILOX_WEYL0);
    const uint64_t product = (uint64_t)PHILOX_FACTOR0 * (columns->first ^ (uint32_t)position);
    const philox_vector high = philox_word((uint32_t)(product >> 32)),
                        low = philox_word((uint32_t)product);
    for (int odd = 0; odd < 2; odd++) {
        const struct philox_half *half = &columns->half[draw][odd];
        w->c[1][row][odd] = philox_product(factor1, half->c2 ^ high);
        w->c[0][row][odd] = xor_high(w->c[1][row][odd], half->c1, k0);
        w->c[2][row][odd] = half->next_c2 ^ low;
        w->c[3][row][odd] = half->c3;
    }
}

ALWAYS_INLINE void philox_round(struct philox_words *w, int row, int odd, philox_vector k0,
                                philox_vector k1) {
    const philox_vector p0 = philox_product(philox_word(PHILOX_FACTOR0), w->c[0][row][odd]);
    const philox_vector p1 = philox_product(philox_word(PHILOX_FACTOR1), w->c[2][row][odd]);
    w->c[0][row][odd] = xor_high(p1, w->c[1][row][odd], k0);
    w->c[2][row][odd] = xor_high(p0, w->c[3][row][odd], k1);
    w->c[1][row][odd] = p1;
    w->c[3][row][odd] = p0;
}

// Draws some of the lanes for the rows from `position` on; `rows` is at most DRAWN_ROWS.
ALWAYS_INLINE void philox_draw(struct philox_words *w, const struct dropout_columns *columns,
                               int draw, int32_t position, int rows) {
    uint32_t k0 = (uint32_t)columns->key + 2 * PHILOX_WEYL0;
    uint32_t k1 = (uint32_t)(columns->key >> 32) + 3 * PHILOX_WEYL1;
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) {
        philox_begin(w, columns, draw, r, position + r);
    }
#pragma GCC unroll 7
    for (int round = 3; round < 10; round++) {
        k0 += PHILOX_WEYL0;
#pragma GCC unroll 4
        for (int i = 0; i < 2 * rows; i++) {
            philox_round(w, i / 2, i % 2, philox_word(k0), philox_word(k1));
        }
        k1 += PHILOX_WEYL1;
    }
}
#else
struct dropout_columns {
    const struct dropout *dropout;
    uint32_t head, block;
    int64_t global_index;
};

ALWAYS_INLINE struct dropout_columns dropout_columns(const struct dropout *dropout, uint32_t head,
                                                     int64_t global_index, int64_t column) {
    return (struct dropout_columns){dropout, head, (uint32_t)(column / 8), global_index};
}

enum { DRAWN_ROWS = 1 };
#endif

#if defined(__AVX512F__)
// Which of 128 columns of a row are kept: sixteen bits of each column, 0 where it is dropped. Word
// w has those of columns 32 w + i in its low halves and of columns 32 w + 16 + i in its high
// halves. Users compare them, which is faster than moving bits out of mask registers and back.
struct dropout_mask {
    __m512i words[KERNEL_COLUMNS / (2 * LANES)];
};

ALWAYS_INLINE void dropout_mask(struct dropout_mask *mask, const struct dropout_columns *columns,
                                int32_t position) {
    const __m512i most_dropped = _mm512_set1_epi16((short)(columns->threshold - 1));
    struct philox_words w;
    philox_draw(&w, columns, 0, position, 1);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        mask->words[i] = _mm512_subs_epu16(philox_lanes(w.c[i][0]), most_dropped);
    }
}

// The bits of 128 columns of the rows from `position` on, to[r * stride] that of row r.
ALWAYS_INLINE void dropout_bits(uint16_t *to, int64_t stride, const struct dropout_columns *columns,
                                int32_t position, int rows) {
    static const uint16_t order[] = {0, 32, 4, 36, 8, 40, 12, 44, 16, 48, 20, 52, 24, 56, 28, 60,
                                     1, 33, 5, 37, 9, 41, 13, 45, 17, 49, 21, 53, 25, 57, 29, 61};
    const __m512i in_order = _mm512_loadu_si512(order);
    const __m512i threshold = _mm512_set1_epi16((short)columns->threshold);
    struct philox_words w;
    philox_draw(&w, columns, 0, position, rows);
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const __m512i *c = w.c[i][r];
            const __mmask32 kept =
                _mm512_cmpge_epu16_mask(_mm512_permutex2var_epi16(c[0], in_order, c[1]), threshold);
            memcpy(to + r * stride + 2 * i, &kept, sizeof kept);
        }
    }
}

// x where the vector's columns are kept, else 0.
ALWAYS_INLINE lanes dropout_masked(lanes x, const struct dropout_mask *mask, int64_t vector) {
    const __m512i half = philox_word(vector % 2 == 0 ? 0xFFFFu : 0xFFFF0000u);
    return lanes_masked(x, _mm512_test_epi32_mask(mask->words[vector / 2], half));
}
#else
// Which of 128 columns of a row are kept: bit i of bits[v] is that of column 16 v + i.
struct dropout_mask {
    uint16_t bits[KERNEL_COLUMNS / MASK_COLUMNS];
};

#if defined(__AVX2__)
// A bit for each lane: whether the masked half of its word is not 0.
ALWAYS_INLINE uint8_t philox_kept(__m256i excess, uint32_t half) {
    const __m256i own = _mm256_and_si256(excess, philox_word(half));
    const __m256i dropped = _mm256_cmpeq_epi32(own, _mm256_setzero_si256());
    return (uint8_t)~_mm256_movemask_ps(_mm256_castsi256_ps(dropped));
}

ALWAYS_INLINE void dropout_mask(struct dropout_mask *mask, const struct dropout_columns *columns,
                                int32_t position) {
    const __m256i most_dropped = _mm256_set1_epi16((short)(columns->threshold - 1));
    struct philox_words w;
    for (int draw = 0; draw < DRAWS; draw++) {
        philox_draw(&w, columns, draw, position, 1);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const __m256i excess = _mm256_subs_epu16(philox_lanes(w.c[i][0]), most_dropped);
            ((uint8_t *)&mask->bits[2 * i])[draw] = philox_kept(excess, 0xFFFFu);
            ((uint8_t *)&mask->bits[2 * i + 1])[draw] = philox_kept(excess, 0xFFFF0000u);
        }
    }
}
#else
ALWAYS_INLINE void dropout_mask(struct dropout_mask *mask, const struct dropout_columns *columns,
                                int32_t position) {
    const uint32_t threshold = columns->dropout->threshold;
    memset(mask, 0, sizeof *mask);
    for (uint32_t lane = 0; lane < MASK_DRAWS; lane++) {
        const uint32_t counter[4] = {columns->block + lane, (uint32_t)position,
                                     (uint32_t)columns->global_index, columns->dropout->step};
        const struct rng_block block =
            rng_philox(rng_dropout_key(columns->dropout, columns->head), counter);
        for (int j = 0; j < 4; j++) {
            mask->bits[2 * j] |= (uint16_t)(((block.word[j] & 0xFFFFu) >= threshold) << lane);
            mask->bits[2 * j + 1] |= (uint16_t)((block.word[j] >> 16 >= threshold) << lane);
        }
    }
}
#endif

// The bits of 128 columns of the rows from `position` on, to[r * stride] that of row r.
ALWAYS_INLINE void dropout_bits(uint16_t *to, int64_t stride, const struct dropout_columns *columns,
                                int32_t position, int rows) {
    for (int r = 0; r < rows; r++) {
        struct dropout_mask mask;
        dropout_mask(&mask, columns, position + r);
        memcpy(to + r * stride, mask.bits, sizeof mask.bits);
    }
}

// x where the vector's columns are kept, else 0.
ALWAYS_INLINE lanes dropout_masked(lanes x, const struct dropout_mask *mask, int64_t vector) {
    const int64_t column = vector * LANES;
    return lanes_masked(x, (uint32_t)mask->bits[column / MASK_COLUMNS] >> column % MASK_COLUMNS);
}
#endif

static void attention_masks(const struct attention_rows *rows) {
    const int32_t position = (int32_t)rows->first;
    const int64_t stride = rows->mask_stride;
    for (int64_t column = 0; column < rows->length; column += KERNEL_COLUMNS) {
        const struct dropout_columns columns =
            dropout_columns(rows->dropout, rows->head, rows->global_index, column);
        uint16_t *to = rows->masks + column / MASK_COLUMNS;
        int64_t i = 0;
        for (; i + DRAWN_ROWS <= rows->count; i += DRAWN_ROWS) {
            dropout_bits(to + i * stride, stride, &columns, position + (int32_t)i, DRAWN_ROWS);
        }
        for (; i < rows->count; i++) {
            dropout_bits(to + i * stride, stride, &columns, position + (int32_t)i, 1);
        }
    }
}

// x *= the mask of columns [column, column + count) of a row, in whole vectors; column is a
// multiple of 128.
ALWAYS_INLINE void dropout_chunk(float x[KERNEL_COLUMNS], const struct dropout *dropout,
                                 int64_t global_index, int32_t position, int64_t column,
                                 int64_t count) {
    const struct dropout_columns columns = dropout_columns(dropout, 0, global_index, column);
    const float scale = rng_dropout_scale(dropout->threshold);
    struct dropout_mask mask;
    dropout_mask(&mask, &columns, position);
    for (int64_t v = 0; v < count; v += LANES) {
        lanes_store(x + v, dropout_masked(lanes_load(x + v) * scale, &mask, v / LANES));
    }
}

static void drop_row(struct mat y, struct mat x, const struct dropout *dropout,
                     int64_t global_index, int32_t position) {
    float value[KERNEL_COLUMNS] = {0};
    for (int64_t c = 0; c < x.cols; c += KERNEL_COLUMNS) {
        const int64_t count = chunk_length(c, x.cols, KERNEL_COLUMNS);
        load(value, x, 0, c, count);
        if (dropout->threshold > 0) {
            dropout_chunk(value, dropout, global_index, position, c, count);
        }
        store(y, 0, c, value, count);
    }
}

#endif
