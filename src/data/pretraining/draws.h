// SPDX-License-Identifier: Apache-2.0
// The random numbers for pre-training instances: those of CPython's random.Random, or those of a
// counter (core/rng.h), which is faster.
#ifndef BERTH_DATA_DRAWS_H
#define BERTH_DATA_DRAWS_H

#include "core/rng.h"
#include "data/pretraining/python_random.h"

#include <stddef.h>
#include <stdint.h>

struct draws {
    int is_python;
    struct python_random python;
    uint64_t seed, blocks; // of the counter
    uint32_t stream;
    struct rng_block block;
    int used; // words used of the block
};

// Numbers of other streams are independent; CPython's have no streams.
struct draws draws_begin(uint64_t seed, uint32_t stream, int is_python);
// Uniform in [0, bound), without bias.
uint32_t draws_below(struct draws *draws, uint32_t bound);
// Uniform in [0, 1).
double draws_real(struct draws *draws);
// The number of heads among tosses of a coin: with CPython's numbers a real each, else a bit each.
size_t draws_heads(struct draws *draws, size_t tosses);
void draws_shuffle(struct draws *draws, uint32_t *numbers, size_t count);

#endif
