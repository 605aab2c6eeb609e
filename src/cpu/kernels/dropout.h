// SPDX-License-Identifier: Apache-2.0
// Dropout masks as core/rng.h defines them, 128 columns at a time: 16 lanes each draw one Philox
// block.
#ifndef BERTH_CPU_KERNELS_DROPOUT_H
#define BERTH_CPU_KERNELS_DROPOUT_H

#include "cpu/kernels.h"
#include "cpu/kernels/math.h"

#if defined(__AVX512F__)
#include <immintrin.h>

// High and low halves of the 16 products factor * x.
ALWAYS void philox_products(__m512i *high, __m512i *low, __m512i factor, __m512i x) {
    __m512i even = _mm512_mul_epu32(factor, x);
    __m512i odd = _mm512_mul_epu32(factor, _mm512_srli_epi64(x, 32));
    *low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}

ALWAYS void philox_lanes(uint32_t word[4][16], uint64_t key, const uint32_t counter[4]) {
    __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i c0 = _mm512_add_epi32(_mm512_set1_epi32((int)counter[0]), lanes);
    __m512i c1 = _mm512_set1_epi32((int)counter[1]);
    __m512i c2 = _mm512_set1_epi32((int)counter[2]);
    __m512i c3 = _mm512_set1_epi32((int)counter[3]);
    __m512i k0 = _mm512_set1_epi32((int)(uint32_t)key);
    __m512i k1 = _mm512_set1_epi32((int)(uint32_t)(key >> 32));
    const __m512i factor0 = _mm512_set1_epi32((int)0xD2511F53u);
    const __m512i factor1 = _mm512_set1_epi32((int)0xCD9E8D57u);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        __m512i high0, low0, high1, low1;
        philox_products(&high0, &low0, factor0, c0);
        philox_products(&high1, &low1, factor1, c2);
        c0 = _mm512_ternarylogic_epi32(high1, c1, k0, 0x96);
        c2 = _mm512_ternarylogic_epi32(high0, c3, k1, 0x96);
        c1 = low1;
        c3 = low0;
        k0 = _mm512_add_epi32(k0, _mm512_set1_epi32((int)0x9E3779B9u));
        k1 = _mm512_add_epi32(k1, _mm512_set1_epi32((int)0xBB67AE85u));
    }
    _mm512_storeu_si512(word[0], c0);
    _mm512_storeu_si512(word[1], c1);
    _mm512_storeu_si512(word[2], c2);
    _mm512_storeu_si512(word[3], c3);
}
#else
ALWAYS void philox_lanes(uint32_t word[4][16], uint64_t key, const uint32_t counter[4]) {
    for (uint32_t lane = 0; lane < 16; lane++) {
        const uint32_t own[4] = {counter[0] + lane, counter[1], counter[2], counter[3]};
        struct rng_block block = rng_philox(key, own);
        for (int i = 0; i < 4; i++) {
            word[i][lane] = block.word[i];
        }
    }
}
#endif

// factor[i] = 0 where column + i is dropped, else the scale; column is a multiple of 128.
ALWAYS void dropout_factors(float factor[KERNEL_COLUMNS], const struct dropout *dropout,
                            uint32_t head, int64_t place, int32_t position, int64_t column) {
    uint32_t word[4][16];
    const uint32_t counter[4] = {(uint32_t)(column / 8), (uint32_t)position, (uint32_t)place,
                                 dropout->step};
    philox_lanes(word, rng_dropout_key(dropout, head), counter);
    const float scale = rng_dropout_scale(dropout->threshold);
    const uint32_t threshold = dropout->threshold;
    for (int i = 0; i < 4; i++) {
#pragma omp simd
        for (int lane = 0; lane < 16; lane++) {
            uint32_t low = word[i][lane] & 0xFFFFu;
            uint32_t high = word[i][lane] >> 16;
            factor[i * 32 + lane] = low >= threshold ? scale : 0.0f;
            factor[i * 32 + 16 + lane] = high >= threshold ? scale : 0.0f;
        }
    }
}

// x[i] *= the mask of a row of the batch at columns [column, column + count).
ALWAYS void dropout_apply(float *x, const struct dropout *dropout, const struct batch *batch,
                          int64_t row, int64_t column, int64_t count) {
    int32_t sequence = batch->sequences[row];
    if (dropout->threshold == 0 || sequence < 0) {
        return;
    }
    float factor[KERNEL_COLUMNS];
    dropout_factors(factor, dropout, 0, batch->places[sequence], batch->positions[row], column);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        x[i] *= factor[i];
    }
}

static void drop_row(struct mat y, struct mat x, const struct dropout *dropout, int64_t place,
                     int32_t position) {
    for (int64_t c = 0; c < x.cols; c += KERNEL_COLUMNS) {
        const int64_t count = piece(c, x.cols, KERNEL_COLUMNS);
        float value[KERNEL_COLUMNS], factor[KERNEL_COLUMNS];
        load(value, x, 0, c, count);
        if (dropout->threshold > 0) {
            dropout_factors(factor, dropout, 0, place, position, c);
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                value[i] *= factor[i];
            }
        }
        store(y, 0, c, value, count);
    }
}

#endif
