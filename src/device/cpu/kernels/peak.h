// SPDX-License-Identifier: Apache-2.0
// Loops of independent fused multiply-adds in registers, without memory traffic, to measure the
// processor's peak rate. device_cpu.c times them when a job reports its utilisation.
#ifndef BERTH_CPU_KERNELS_PEAK_H
#define BERTH_CPU_KERNELS_PEAK_H

#include "device/cpu/kernels/math.h"
#include "device/cpu/kernels/sanitizer.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#define PEAK_CHAINS 16

NO_SANITIZE static double peak_f32(int64_t rounds) {
    __m512 sum[PEAK_CHAINS], x = _mm512_set1_ps(0.999999f), y = _mm512_set1_ps(1e-6f);
    for (int i = 0; i < PEAK_CHAINS; i++) {
        sum[i] = _mm512_set1_ps((float)i);
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 16
        for (int i = 0; i < PEAK_CHAINS; i++) {
            sum[i] = _mm512_fmadd_ps(sum[i], x, y);
        }
        __asm__ volatile("" : "+v"(x)); // keeps the loop
    }
    for (int i = 1; i < PEAK_CHAINS; i++) {
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    }
    volatile float sink = _mm512_reduce_add_ps(sum[0]);
    (void)sink;
    return (double)rounds * PEAK_CHAINS * 32;
}
#else
// Plain loops, which the compiler turns into this instruction set's peak.
NO_SANITIZE static double peak_f32(int64_t rounds) {
    enum { CHAINS = 64 };
    float sum[CHAINS], x = 0.999999f;
    for (int i = 0; i < CHAINS; i++) {
        sum[i] = (float)i;
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma omp simd
        for (int i = 0; i < CHAINS; i++) {
            sum[i] = fused(sum[i], x, 1e-6f);
        }
    }
    volatile float sink = sum[0] + sum[CHAINS - 1];
    (void)sink;
    return (double)rounds * CHAINS * 2;
}
#endif

#if defined(__AVX512BF16__)
NO_SANITIZE static double peak_bf16(int64_t rounds) {
    __m512 sum[PEAK_CHAINS];
    __m512i x = _mm512_set1_epi32(0x3C003C00);
    for (int i = 0; i < PEAK_CHAINS; i++) {
        sum[i] = _mm512_set1_ps((float)i);
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 16
        for (int i = 0; i < PEAK_CHAINS; i++) {
            sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)x, (__m512bh)x);
        }
        __asm__ volatile("" : "+v"(x));
    }
    for (int i = 1; i < PEAK_CHAINS; i++) {
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    }
    volatile float sink = _mm512_reduce_add_ps(sum[0]);
    (void)sink;
    return (double)rounds * PEAK_CHAINS * 64;
}
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>

NO_SANITIZE static double peak_bf16(int64_t rounds) {
    enum { CHAINS = 16 };
    float32x4_t sum[CHAINS];
    bfloat16x8_t x = vreinterpretq_bf16_u32(vdupq_n_u32(0x3C003C00));
    for (int i = 0; i < CHAINS; i++) {
        sum[i] = vdupq_n_f32((float)i);
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) {
            sum[i] = vbfdotq_f32(sum[i], x, x);
        }
        __asm__ volatile("" : "+w"(x)); // keeps the loop
    }
    for (int i = 1; i < CHAINS; i++) {
        sum[0] = vaddq_f32(sum[0], sum[i]);
    }
    volatile float sink = vaddvq_f32(sum[0]);
    (void)sink;
    return (double)rounds * CHAINS * 16;
}
#else
// No bf16 instructions: bf16 is computed in f32.
NO_SANITIZE static double peak_bf16(int64_t rounds) {
    return peak_f32(rounds);
}
#endif

#endif
