// SPDX-License-Identifier: Apache-2.0
// The loops over elements in exchanges, compiled once for each instruction set.
#ifndef BERTH_COMM_LOOPS_H
#define BERTH_COMM_LOOPS_H

#include <stddef.h>
#include <stdint.h>

// bf16 is uint16_t. No two arrays overlap.
struct loops {
    void (*widen)(float *to, const uint16_t *from, int64_t count);
    void (*narrow)(uint16_t *to, const float *from, int64_t count); // to nearest, ties to even
    void (*add)(float *to, const float *from, int64_t count);
    void (*add_narrow)(float *to, const uint16_t *from, int64_t count);
};

// The loops for the best instruction set that the processor has.
const struct loops *loops_best(void);

#endif
