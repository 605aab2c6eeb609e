// SPDX-License-Identifier: Apache-2.0
// Random draws for pre-training instances, from CPython's random.Random or from the counter-based
// generator of core/rng.h, which is faster. Only instances.c and masking.c draw from it; masks of a
// training on text come from data/masked/word_masks.h.
#ifndef BERTH_DATA_DRAWS_H
#define BERTH_DATA_DRAWS_H

#include "core/rng.h"
#include "data/pretraining/python_random.h"

#include <stddef.h>
#include <stdint.h>

struct draws {
    int is_python;
    struct python_random python;
    uint64_t seed, blocks; // counter-based: seed, and blocks used so far
    uint32_t stream;
    struct rng_block block;
    int used; // words of the block that are used
};

// Different streams are independent; CPython's generator ignores the stream.
struct draws draws_begin(uint64_t seed, uint32_t stream, int is_python);
// Uniform in [0, bound), without bias.
uint32_t draws_below(struct draws *draws, uint32_t bound);
// Uniform in [0, 1).
double draws_real(struct draws *draws);
// The number of heads in `tosses` coin tosses: one real per toss from CPython's generator,
// otherwise one bit per toss.
size_t draws_heads(struct draws *draws, size_t tosses);
void draws_shuffle(struct draws *draws, uint32_t *numbers, size_t count);

#endif
