// SPDX-License-Identifier: Apache-2.0
// The loops of loops.h for each instruction set. Each loop is written once, as a function that is
// inlined into one function for each set, and the best set is chosen once per process. numbers.c
// calls them while ranges are exchanged.
#include "comm/loops.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE void widen_bf16(float *restrict to, const uint16_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] = float_of((uint32_t)from[i] << 16);
    }
}

INLINE void narrow_bf16(uint16_t *restrict to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of(from[i]);
        const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
        const uint32_t quiet = bits | 0x400000; // NaN stays NaN
        to[i] = (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
    }
}

INLINE void add(float *restrict to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

INLINE void add_bf16(float *restrict to, const uint16_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] += float_of((uint32_t)from[i] << 16);
    }
}

// f16 has 10 bits of mantissa and a bias of 15; f32 has 23 and 127.
#define F16_SHIFT 13
#define F16_BIAS ((127u - 15u) << 23)

INLINE float float_of_f16(uint16_t half) {
    const uint32_t magnitude = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t normal = (magnitude << F16_SHIFT) + F16_BIAS;
    const uint32_t infinite = magnitude << F16_SHIFT | 0x7f800000u; // or NaN
    const uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    return float_of(sign | (magnitude < 0x400u     ? subnormal
                            : magnitude >= 0x7c00u ? infinite
                                                   : normal));
}

INLINE uint16_t f16_of_float(float value) {
    const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
    const uint32_t half_less_one = (1u << (F16_SHIFT - 1)) - 1;
    const uint32_t normal =
        (magnitude - F16_BIAS + half_less_one + (magnitude >> F16_SHIFT & 1)) >> F16_SHIFT;
    // An addend of 0.5, whose last bit is 2^-24 as that of subnormal f16, rounds to that.
    const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    const uint32_t number = magnitude < bits_of(0x1p-14f) ? subnormal : normal;
    const uint32_t finite = magnitude < bits_of(65520.0f) ? number : 0x7c00u;
    return (uint16_t)(bits >> 16 & 0x8000u) |
           (uint16_t)(magnitude > 0x7f800000u ? 0x7e00u : finite); // NaN stays NaN
}

INLINE void widen_f16(float *restrict to, const uint16_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] = float_of_f16(from[i]);
    }
}

INLINE void narrow_f16(uint16_t *restrict to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] = f16_of_float(from[i]);
    }
}

INLINE void add_f16(float *restrict to, const uint16_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] += float_of_f16(from[i]);
    }
}

#define LOOP(name, set, attributes, to_type, from_type)                                            \
    attributes static void name##_##set(to_type *to, const from_type *from, int64_t count) {       \
        name(to, from, count);                                                                     \
    }
#define LOOPS(set, attributes)                                                                     \
    LOOP(widen_bf16, set, attributes, float, uint16_t)                                             \
    LOOP(narrow_bf16, set, attributes, uint16_t, float)                                            \
    LOOP(add, set, attributes, float, float)                                                       \
    LOOP(add_bf16, set, attributes, float, uint16_t)                                               \
    LOOP(widen_f16, set, attributes, float, uint16_t)                                              \
    LOOP(narrow_f16, set, attributes, uint16_t, float)                                             \
    LOOP(add_f16, set, attributes, float, uint16_t)                                                \
    static const struct loops loops_##set = {                                                      \
        widen_bf16_##set, narrow_bf16_##set, add_##set,    add_bf16_##set,                         \
        widen_f16_##set,  narrow_f16_##set,  add_f16_##set}

LOOPS(generic, );
#ifdef __x86_64__
LOOPS(avx2, __attribute__((target("avx2"))));
LOOPS(avx512, __attribute__((target("avx512f,avx512bw,avx512vl"))));
#endif

const struct loops *loops_best(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return &loops_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return &loops_avx2;
    }
#endif
    return &loops_generic;
}
