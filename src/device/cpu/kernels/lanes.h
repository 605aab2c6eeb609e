// SPDX-License-Identifier: Apache-2.0
// The floats of a register as one value, for loops whose sums must stay in registers: GCC's and
// clang's vector types.
//
// Leaves out loops over rows of any length, which compilers turn into vector code (math.h).
#ifndef BERTH_CPU_KERNELS_LANES_H
#define BERTH_CPU_KERNELS_LANES_H

#include "device/cpu/kernels/math.h"

#if defined(__AVX2__) || defined(__FMA__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef uint32_t lane_words __attribute__((vector_size(LANES * 4)));
typedef int32_t lane_integers __attribute__((vector_size(LANES * 4)));
typedef uint16_t lane_halves __attribute__((vector_size(LANES * 2)));

ALWAYS_INLINE lanes lanes_all(float x) {
    return x - (lanes){0};
}

ALWAYS_INLINE lanes lanes_load(const float *from) {
    lanes x;
    memcpy(&x, from, sizeof x);
    return x;
}

ALWAYS_INLINE void lanes_store(float *to, lanes x) {
    memcpy(to, &x, sizeof x);
}

// x y + z, rounded once where KERNELS_FUSE.
ALWAYS_INLINE lanes lanes_fused(lanes x, lanes y, lanes z) {
#if defined(__AVX512F__)
    return (lanes)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif defined(__AVX2__)
    return (lanes)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#elif defined(__FMA__)
    return (lanes)_mm_fmadd_ps((__m128)x, (__m128)y, (__m128)z);
#elif defined(__ARM_FEATURE_FMA)
    return (lanes)vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y);
#else
    return x * y + z;
#endif
}

// The first `count` lanes of x, `other` in those past them.
ALWAYS_INLINE lanes lanes_first(lanes x, int64_t count, float other) {
#if defined(__AVX512F__)
    return (lanes)_mm512_mask_mov_ps(_mm512_set1_ps(other), lanes_left(count), (__m512)x);
#else
    for (int64_t i = count > 0 ? count : 0; i < LANES; i++) {
        x[i] = other;
    }
    return x;
#endif
}

// x where the condition, the result of a comparison, holds, else y.
ALWAYS_INLINE lanes lanes_chosen(lane_integers holds, lanes x, lanes y) {
    return (lanes)((holds & (lane_integers)x) | (~holds & (lane_integers)y));
}

// The element-wise maximum; that of y if either is a NaN.
ALWAYS_INLINE lanes lanes_max(lanes x, lanes y) {
#if defined(__AVX512F__)
    return (lanes)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined(__AVX2__)
    return (lanes)_mm256_max_ps((__m256)x, (__m256)y);
#else
    return lanes_chosen(x > y, x, y);
#endif
}

// The element-wise minimum; that of y if either is a NaN.
ALWAYS_INLINE lanes lanes_min(lanes x, lanes y) {
#if defined(__AVX512F__)
    return (lanes)_mm512_min_ps((__m512)x, (__m512)y);
#elif defined(__AVX2__)
    return (lanes)_mm256_min_ps((__m256)x, (__m256)y);
#else
    return lanes_chosen(x < y, x, y);
#endif
}

// x where the lane's bit is set, else 0. Bits past the lanes are ignored.
ALWAYS_INLINE lanes lanes_masked(lanes x, uint32_t bits) {
#if defined(__AVX512F__)
    return (lanes)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)x);
#else
#if defined(__AVX2__)
    const lane_words bit = {1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7};
#else
    const lane_words bit = {1, 1 << 1, 1 << 2, 1 << 3};
#endif
    return (lanes)((lane_words)x & (lane_words)((bits & bit) == bit));
#endif
}

// Lanes of x and y, which are counted on from those of x.
#if defined(__clang__) || __GNUC__ >= 12
#define LANES_OF_BOTH(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define LANES_OF_BOTH(x, y, ...) __builtin_shuffle(x, y, (lane_words){__VA_ARGS__})
#endif

// The partial sums of a row.
struct lane_sums {
    lanes part[SUM_VECTORS];
};

// Stands before a loop over the parts of SUM_LANES columns.
#define EACH_PART _Pragma("GCC unroll 4") for (int part = 0; part < SUM_VECTORS; part++)

#if defined(__AVX512F__)
#define LANES_IN_ORDER(x, ...) LANES_OF_BOTH(x, x, __VA_ARGS__)

// The total of all partial sums, by halves.
ALWAYS_INLINE float lane_total(struct lane_sums sums) {
    lanes x = sums.part[0];
    x += LANES_IN_ORDER(x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    x += LANES_IN_ORDER(x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    x += LANES_IN_ORDER(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    return x[0] + x[1];
}

ALWAYS_INLINE float lanes_reduce_max(lanes x) {
    x = lanes_max(x, LANES_IN_ORDER(x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    x = lanes_max(x, LANES_IN_ORDER(x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    x = lanes_max(x, LANES_IN_ORDER(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    return x[0] > x[1] ? x[0] : x[1];
}
#else
typedef float four_lanes __attribute__((vector_size(16)));

ALWAYS_INLINE float larger_of(float x, float y) {
    return x > y ? x : y;
}

// The total of all partial sums, by halves.
ALWAYS_INLINE float lane_total(struct lane_sums sums) {
#if defined(__AVX2__)
    const lanes eight = sums.part[0] + sums.part[1];
    const four_lanes sum = (four_lanes)_mm256_castps256_ps128((__m256)eight) +
                           (four_lanes)_mm256_extractf128_ps((__m256)eight, 1);
#else
    const four_lanes sum = (sums.part[0] + sums.part[2]) + (sums.part[1] + sums.part[3]);
#endif
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

ALWAYS_INLINE float lanes_reduce_max(lanes x) {
#if defined(__AVX2__)
    const four_lanes max = (four_lanes)_mm_max_ps(_mm256_castps256_ps128((__m256)x),
                                                  _mm256_extractf128_ps((__m256)x, 1));
#else
    const four_lanes max = x;
#endif
    return larger_of(larger_of(max[0], max[2]), larger_of(max[1], max[3]));
}

ALWAYS_INLINE lanes lanes_of_halves(lane_halves x) {
    return (lanes)(__builtin_convertvector(x, lane_words) << 16);
}

// Rounded as bf16_of does.
ALWAYS_INLINE lane_halves halves_of_lanes(lanes x) {
    const lane_words bits = (lane_words)x, is_nan = (lane_words)(x != x);
    const lane_words rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    const lane_words halves = (rounded & ~is_nan) | ((bits >> 16 | 0x40u) & is_nan);
#if defined(__AVX2__)
    return (lane_halves)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)halves),
                                         _mm256_extracti128_si256((__m256i)halves, 1));
#else
    return __builtin_convertvector(halves, lane_halves);
#endif
}
#endif

// The first `left` of a vector's columns of a matrix, all where `left` is larger, none where it is
// not positive; 0 in the other lanes.
ALWAYS_INLINE lanes lanes_from(const void *from, enum dtype dtype, int64_t left) {
#if defined(__AVX512F__)
    const __mmask16 mask = lanes_left(left);
    if (dtype == DTYPE_F32) {
        return (lanes)_mm512_maskz_loadu_ps(mask, from);
    }
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    return (lanes)_mm512_slli_epi32(wide, 16);
#else
    const size_t count = left > 0 ? (size_t)chunk_length(0, left, LANES) : 0;
    lanes x = {0};
    lane_halves half = {0};
    if (dtype == DTYPE_F32) {
        memcpy(&x, from, count * sizeof(float));
        return x;
    }
    memcpy(&half, from, count * sizeof(uint16_t));
    return lanes_of_halves(half);
#endif
}

ALWAYS_INLINE void lanes_to(void *to, lanes x, enum dtype dtype, int64_t left) {
#if defined(__AVX512F__)
    if (dtype == DTYPE_F32) {
        _mm512_mask_storeu_ps(to, lanes_left(left), (__m512)x);
        return;
    }
#if defined(__AVX512BF16__)
    _mm256_mask_storeu_epi16(to, lanes_left(left), (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
    float lane[LANES];
    lanes_store(lane, x);
    store_bf16(to, lane, chunk_length(0, left, LANES));
#endif
#else
    const size_t count = left > 0 ? (size_t)chunk_length(0, left, LANES) : 0;
    if (dtype == DTYPE_F32) {
        memcpy(to, &x, count * sizeof(float));
    } else {
        const lane_halves half = halves_of_lanes(x);
        memcpy(to, &half, count * sizeof(uint16_t));
    }
#endif
}

// Two vectors whose columns are SUM_LANES apart.
ALWAYS_INLINE void lanes_pair_to(void *to, lanes x, lanes y, enum dtype dtype) {
#if defined(__AVX512BF16__)
    if (dtype == DTYPE_BF16) {
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x));
        return;
    }
#endif
    lanes_to(to, x, dtype, LANES);
    lanes_to((char *)to + SUM_LANES * dtype_size(dtype), y, dtype, LANES);
}

// x times y where the bits of both are set, those of the second vectors SUM_LANES further; else 0.
ALWAYS_INLINE void lanes_pair_products(lanes product[2], const lanes x[2], const lanes y[2],
                                       uint32_t bits) {
#if defined(__AVX512BW__)
    product[0] = (lanes)_mm512_maskz_mul_ps((__mmask16)bits, (__m512)x[0], (__m512)y[0]);
    product[1] = (lanes)_mm512_maskz_mul_ps((__mmask16)_kshiftri_mask32(bits, 16), (__m512)x[1],
                                            (__m512)y[1]);
#else
    product[0] = lanes_masked(x[0] * y[0], bits);
    product[1] = lanes_masked(x[1] * y[1], bits >> SUM_LANES);
#endif
}

// lanes_pair_to where the bits are set; 0 in place of the others.
ALWAYS_INLINE void lanes_pair_masked_to(void *to, lanes x, lanes y, uint32_t bits,
                                        enum dtype dtype) {
#if defined(__AVX512BF16__)
    if (dtype == DTYPE_BF16) {
        _mm512_storeu_si512(to, (__m512i)_mm512_maskz_cvtne2ps_pbh(bits, (__m512)y, (__m512)x));
        return;
    }
#endif
    lanes_pair_to(to, lanes_masked(x, bits), lanes_masked(y, bits >> SUM_LANES), dtype);
}

// 2^r for r in [-1/2, 1/2]: polynomials fitted for the least relative error, 7e-8 for results that
// stay f32 and 3e-6 for those that become bf16, whose digits end at 4e-3.
ALWAYS_INLINE lanes lanes_exp2_fraction(lanes r, enum dtype dtype) {
    lanes p;
    if (dtype == DTYPE_BF16) {
        p = lanes_all(9.582853876e-03f);
        p = lanes_fused(p, r, lanes_all(5.590642616e-02f));
        p = lanes_fused(p, r, lanes_all(2.402409911e-01f));
        p = lanes_fused(p, r, lanes_all(6.931241751e-01f));
    } else {
        p = lanes_all(1.535336050e-04f);
        p = lanes_fused(p, r, lanes_all(1.339887502e-03f));
        p = lanes_fused(p, r, lanes_all(9.618436918e-03f));
        p = lanes_fused(p, r, lanes_all(5.550332367e-02f));
        p = lanes_fused(p, r, lanes_all(2.402264774e-01f));
        p = lanes_fused(p, r, lanes_all(6.931471825e-01f));
    }
    return lanes_fused(p, r, lanes_all(1.0f));
}

// 2^x for x up to 127, 2^-126 below -126; a NaN stays a NaN. `dtype` is what the result will be
// rounded to.
ALWAYS_INLINE lanes lanes_exp2(lanes x, enum dtype dtype) {
    x = lanes_max(lanes_all(-126.0f), x);
#if defined(__AVX512F__)
    const lanes r = (lanes)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT);
    const lanes power = lanes_exp2_fraction(r, dtype);
    return (lanes)_mm512_scalef_ps((__m512)power, (__m512)(x - r));
#else
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    const lanes n = x + magic;
    const lanes power = lanes_exp2_fraction(x - (n - magic), dtype);
    return (lanes)((lane_words)power + ((lane_words)n << 23));
#endif
}

// The natural logarithm of x from 1 to the largest float, 1e-7 relative or absolute, whichever is
// larger: x = 2^n (1 + r) with 1 + r in [sqrt(1/2), sqrt(2)], and log(1 + r) = 2 artanh(z),
// z = r / (2 + r), by the first five terms of its series.
ALWAYS_INLINE lanes lanes_log(lanes x) {
    const lane_words n = ((lane_words)x - (lane_words)lanes_all(0.70710678f)) >> 23;
    const lanes r = (lanes)((lane_words)x - (n << 23)) - 1.0f;
    const lanes z = r / (r + 2.0f), square = z * z;
    lanes p = lanes_all(2.0f / 9.0f);
    p = lanes_fused(p, square, lanes_all(2.0f / 7.0f));
    p = lanes_fused(p, square, lanes_all(2.0f / 5.0f));
    p = lanes_fused(p, square, lanes_all(2.0f / 3.0f));
    p = lanes_fused(p, square, lanes_all(2.0f));
    const lanes whole = __builtin_convertvector((lane_integers)n, lanes);
    return lanes_fused(whole, lanes_all(6.93147181e-01f), z * p);
}

// The number of each lane's index in a table; only the lowest three bits of an index count.
ALWAYS_INLINE lanes lanes_lookup(const float table[8], lane_words index) {
#if defined(__AVX512F__)
    const __m512 twice = _mm512_broadcast_f32x8(_mm256_loadu_ps(table));
    return (lanes)_mm512_permutexvar_ps((__m512i)index, twice);
#elif defined(__AVX2__)
    return (lanes)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
#elif defined(__aarch64__)
    const uint8x16x2_t bytes = vld1q_u8_x2((const uint8_t *)table);
    const lane_words first = (index & 7u) * 0x04040404u + 0x03020100u;
    return (lanes)vqtbl2q_u8(bytes, (uint8x16_t)first);
#else
    lanes x;
    for (int i = 0; i < LANES; i++) {
        x[i] = table[index[i] & 7u];
    }
    return x;
#endif
}

#endif
