// SPDX-License-Identifier: Apache-2.0
// The loops over elements in exchanges, compiled once for each instruction set: conversions between
// f32 and the narrow types, and sums. numbers.c applies them block by block.
#ifndef BERTH_COMM_LOOPS_H
#define BERTH_COMM_LOOPS_H

#include <stddef.h>
#include <stdint.h>

// bf16 and f16 are uint16_t. Rounding is to nearest, ties to even. No two arrays overlap.
struct loops {
    void (*widen_bf16)(float *to, const uint16_t *from, int64_t count);
    void (*narrow_bf16)(uint16_t *to, const float *from, int64_t count);
    void (*add)(float *to, const float *from, int64_t count);
    void (*add_bf16)(float *to, const uint16_t *from, int64_t count);
    void (*widen_f16)(float *to, const uint16_t *from, int64_t count);
    void (*narrow_f16)(uint16_t *to, const float *from, int64_t count);
    void (*add_f16)(float *to, const uint16_t *from, int64_t count);
};

// The loops for the best instruction set that the processor has.
const struct loops *loops_best(void);

#endif
