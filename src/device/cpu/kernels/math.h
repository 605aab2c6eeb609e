// SPDX-License-Identifier: Apache-2.0
// Scalar mathematics written so that compilers turn loops over it into vector code: no branches, no
// calls, no tables. Included in the kernels of each instruction set.
//
// Every function has the same bits on all processors with fused multiply-adds: they are named
// (fused), never left to the compiler, and everything else is one rounded operation after the
// other. Without the instruction a generic kernel rounds twice and has bits of its own.
//
// Accuracy: exp 1e-7 relative on [-87, 88]; erf 1.5e-7 absolute. Leaves out correct rounding and
// errno.
#ifndef BERTH_CPU_KERNELS_MATH_H
#define BERTH_CPU_KERNELS_MATH_H

#include "core/mat.h"
#include "core/portable_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define KERNELS_FUSE 1
#else
#define KERNELS_FUSE 0
#endif

// x y + z, rounded once where KERNELS_FUSE.
ALWAYS_INLINE float fused(float x, float y, float z) {
#if KERNELS_FUSE
    return __builtin_fmaf(x, y, z);
#else
    return x * y + z;
#endif
}

ALWAYS_INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ALWAYS_INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

ALWAYS_INLINE float bf16_to_float(uint16_t x) {
    return float_of((uint32_t)x << 16);
}

// Round to nearest, ties to even; a NaN stays a NaN.
ALWAYS_INLINE uint16_t bf16_of(float x) {
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    uint32_t nan = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

// For x up to 88; 1e-38 below -87; a NaN stays a NaN. x / ln 2 = n + r, and a minimax polynomial
// gives 2^r on [-1/2, 1/2].
ALWAYS_INLINE float exp_negative(float x) {
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    x = -87.0f > x ? -87.0f : x;
    float n = fused(x, 1.44269504088896341f, magic);
    uint32_t exponent = bits_of(n) << 23;
    n -= magic;
    float r = fused(n, -0.693359375f, x);
    r = fused(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fused(p, r, 1.3981999507e-3f);
    p = fused(p, r, 8.3334519073e-3f);
    p = fused(p, r, 4.1665795894e-2f);
    p = fused(p, r, 1.6666665459e-1f);
    p = fused(p, r, 5.0000001201e-1f);
    p = fused(p, r * r, r) + 1.0f;
    return float_of(bits_of(p) + exponent);
}

ALWAYS_INLINE float exp_of(float x) {
    return exp_negative(88.0f < x ? 88.0f : x);
}

// Rational approximation x P(x^2) / Q(x^2) on [-4, 4], constant outside.
ALWAYS_INLINE float erf_of(float x) {
    float z = x < 4.0f ? x : 4.0f;
    z = z > -4.0f ? z : -4.0f;
    float s = z * z;
    float p = -2.72614225801306e-10f;
    p = fused(p, s, 2.77068142495902e-08f);
    p = fused(p, s, -2.10102402082508e-06f);
    p = fused(p, s, -5.69250639462346e-05f);
    p = fused(p, s, -7.34990630326855e-04f);
    p = fused(p, s, -2.95459980854025e-03f);
    p = fused(p, s, -1.60960333262415e-02f);
    float q = -1.45660718464996e-05f;
    q = fused(q, s, -2.13374055278905e-04f);
    q = fused(q, s, -1.68282697438203e-03f);
    q = fused(q, s, -7.37332916720468e-03f);
    q = fused(q, s, -1.42647390514189e-02f);
    return z * p / q;
}

ALWAYS_INLINE float tanh_of(float x) {
    float e = exp_of(2.0f * x);
    return 1.0f - 2.0f / (e + 1.0f);
}

ALWAYS_INLINE float sigmoid_of(float x) {
    return 1.0f / (1.0f + exp_of(-x));
}

// --- chunks of rows -----------------------------------------------------------------------------

ALWAYS_INLINE void *row_at(struct mat m, int64_t row, int64_t column) {
    return (char *)m.data + (size_t)(row * m.stride + column) * dtype_size(m.dtype);
}

#if defined(__AVX512F__)
#include <immintrin.h>

ALWAYS_INLINE __mmask16 lanes_left(int64_t left) {
    return left < 16 ? (__mmask16)((1u << left) - 1u) : (__mmask16)0xFFFF;
}
#endif

#if defined(__AVX512BF16__)
ALWAYS_INLINE void load_bf16(float *restrict to, const uint16_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i += 16) {
        __mmask16 mask = lanes_left(count - i);
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + i));
        _mm512_mask_storeu_epi32(to + i, mask, _mm512_slli_epi32(wide, 16));
    }
}

ALWAYS_INLINE void store_bf16(uint16_t *to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i += 16) {
        __mmask16 mask = lanes_left(count - i);
        __m256bh half = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + i));
        _mm256_mask_storeu_epi16(to + i, mask, (__m256i)half);
    }
}
#else
ALWAYS_INLINE void load_bf16(float *restrict to, const uint16_t *from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        to[i] = bf16_to_float(from[i]);
    }
}

ALWAYS_INLINE void store_bf16(uint16_t *to, const float *restrict from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        to[i] = bf16_of(from[i]);
    }
}
#endif

// Prefetches the cache lines of a chunk of a row, for writing if `writes`. Chunks of a few columns
// of many rows are too scattered for the hardware prefetcher.
ALWAYS_INLINE void prefetch(struct mat m, int64_t row, int64_t column, int64_t count, int writes) {
    const char *from = row_at(m, row, column), *end = row_at(m, row, column + count);
    for (const char *line = from - (uintptr_t)from % 64; line < end; line += 64) {
        if (writes) {
            __builtin_prefetch(line, 1);
        } else {
            __builtin_prefetch(line, 0);
        }
    }
}

ALWAYS_INLINE void prefetch_rows(const char *row, int64_t stride, int rows, int64_t bytes,
                                 int writes) {
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++, row += stride) {
#pragma GCC unroll 4
        for (int64_t at = 0; at < bytes + 63; at += 64) {
            const char *line = row + (at < bytes ? at : bytes - 1);
            if (writes) {
                __builtin_prefetch(line, 1);
            } else {
                __builtin_prefetch(line, 0);
            }
        }
    }
}

// The same for a block of rows, whose size the compiler knows; it may extend past the matrix. It
// has no branches, because nothing is multiplied while a product's next block is prepared.
ALWAYS_INLINE void prefetch_block(struct mat m, int64_t row, int64_t column, int rows, int columns,
                                  int writes) {
    const char *first = row_at(m, row, column);
    if (m.dtype == DTYPE_F32) {
        prefetch_rows(first, m.stride * 4, rows, columns * 4, writes);
    } else {
        prefetch_rows(first, m.stride * 2, rows, columns * 2, writes);
    }
}

// memcpy for rows: short, and mostly whole blocks, which the compiler copies in registers.
ALWAYS_INLINE void copy_bytes(void *to, const void *from, size_t bytes) {
    size_t i = 0;
    for (; i + 64 <= bytes; i += 64) {
        memcpy((char *)to + i, (const char *)from + i, 64);
    }
    if (i < bytes) {
        memcpy((char *)to + i, (const char *)from + i, bytes - i);
    }
}

ALWAYS_INLINE void load(float *restrict to, struct mat m, int64_t row, int64_t column,
                        int64_t count) {
    const void *from = row_at(m, row, column);
    if (m.dtype == DTYPE_F32) {
        copy_bytes(to, from, (size_t)count * sizeof *to);
    } else {
        load_bf16(to, from, count);
    }
}

ALWAYS_INLINE void load_added(float *restrict to, struct mat m, int64_t row, int64_t column,
                              int64_t count) {
    const void *from = row_at(m, row, column);
    if (m.dtype == DTYPE_F32) {
        const float *single = from;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            to[i] += single[i];
        }
        return;
    }
    const uint16_t *half = from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        to[i] += bf16_to_float(half[i]);
    }
}

ALWAYS_INLINE void store(struct mat m, int64_t row, int64_t column, const float *restrict from,
                         int64_t count) {
    void *to = row_at(m, row, column);
    if (m.dtype == DTYPE_F32) {
        copy_bytes(to, from, (size_t)count * sizeof *from);
        return;
    }
    store_bf16(to, from, count);
}

// Loops over chunks of rows process whole vectors: past the end of the chunk, but within its
// buffer. A vector is what a register holds: GCC keeps longer ones in memory.
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

// A sum over a row is that of SUM_LANES partial sums, whatever the width of a vector: column c
// belongs to the partial sum c % SUM_LANES.
#define SUM_LANES 16
enum { SUM_VECTORS = SUM_LANES / LANES };

ALWAYS_INLINE int64_t lanes_of(int64_t count) {
    return (count + LANES - 1) / LANES * LANES;
}

ALWAYS_INLINE int64_t chunk_length(int64_t from, int64_t end, int64_t limit) {
    return end - from < limit ? end - from : limit;
}

#endif
