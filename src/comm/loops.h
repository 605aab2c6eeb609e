// SPDX-License-Identifier: Apache-2.0
// The loops over elements of exchanges, compiled once for each instruction set.
#ifndef BERTH_COMM_LOOPS_H
#define BERTH_COMM_LOOPS_H

#include <stddef.h>
#include <stdint.h>

enum { CHECKSUM_WORDS = 8 };

// Fletcher's two sums, in lanes that are added by one vector instruction.
struct checksum_lanes {
    uint64_t low[CHECKSUM_WORDS], high[CHECKSUM_WORDS];
};

// bf16 is uint16_t. No two arrays overlap.
struct loops {
    void (*widen)(float *to, const uint16_t *from, int64_t count);
    void (*narrow)(uint16_t *to, const float *from, int64_t count); // to nearest even
    void (*add)(float *to, const float *from, int64_t count);
    void (*add_narrow)(float *to, const uint16_t *from, int64_t count);
    // Adds `blocks` times CHECKSUM_WORDS words.
    void (*add_words)(struct checksum_lanes *lanes, const void *data, size_t blocks);
};

// Those of the best instruction set that the processor has.
const struct loops *loops_best(void);

#endif
