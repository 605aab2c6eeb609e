// SPDX-License-Identifier: Apache-2.0
// Each loop is written once, as a function that is inlined into one function for each instruction
// set.
#include "comm/loops.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE void widen(float *restrict to, const uint16_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] = float_of((uint32_t)from[i] << 16);
    }
}

INLINE void narrow(uint16_t *restrict to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
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

INLINE void add_narrow(float *restrict to, const uint16_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] += float_of((uint32_t)from[i] << 16);
    }
}

#define LOOPS(set, attributes)                                                                     \
    attributes static void widen_##set(float *to, const uint16_t *from, int64_t count) {           \
        widen(to, from, count);                                                                    \
    }                                                                                              \
    attributes static void narrow_##set(uint16_t *to, const float *from, int64_t count) {          \
        narrow(to, from, count);                                                                   \
    }                                                                                              \
    attributes static void add_##set(float *to, const float *from, int64_t count) {                \
        add(to, from, count);                                                                      \
    }                                                                                              \
    attributes static void add_narrow_##set(float *to, const uint16_t *from, int64_t count) {      \
        add_narrow(to, from, count);                                                               \
    }                                                                                              \
    static const struct loops loops_##set = {widen_##set, narrow_##set, add_##set, add_narrow_##set}

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
