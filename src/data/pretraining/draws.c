// SPDX-License-Identifier: Apache-2.0
// The random draws of instances.c and masking.c. One of two generators makes them: CPython's, whose
// order of draws is part of the published result, or that of core/rng.h, which is faster.
#include "data/pretraining/draws.h"

struct draws draws_begin(uint64_t seed, uint32_t stream, int is_python) {
    struct draws draws = {.is_python = is_python, .seed = seed, .stream = stream, .used = 4};
    python_random_seed(&draws.python, seed);
    return draws;
}

static uint32_t draw(struct draws *draws) {
    if (draws->used == 4) {
        const uint32_t counter[4] = {(uint32_t)draws->blocks, (uint32_t)(draws->blocks >> 32),
                                     draws->stream, 0x494E5354u};
        draws->block = rng_philox(draws->seed, counter);
        draws->blocks++;
        draws->used = 0;
    }
    return draws->block.word[draws->used++];
}

uint32_t draws_below(struct draws *draws, uint32_t bound) {
    if (draws->is_python) {
        return (uint32_t)python_random_below(&draws->python, bound);
    }
    uint64_t product = (uint64_t)draw(draws) * bound;
    if ((uint32_t)product < bound) {
        uint32_t threshold = (uint32_t)-bound % bound;
        while ((uint32_t)product < threshold) {
            product = (uint64_t)draw(draws) * bound;
        }
    }
    return (uint32_t)(product >> 32);
}

double draws_real(struct draws *draws) {
    return draws->is_python ? python_random_real(&draws->python) : (double)draw(draws) * 0x1p-32;
}

size_t draws_heads(struct draws *draws, size_t tosses) {
    enum { BITS = 32 };
    size_t heads = 0;
    for (; draws->is_python && tosses > 0; tosses--) {
        heads += draws_real(draws) < 0.5;
    }
    for (; tosses >= BITS; tosses -= BITS) {
        heads += (size_t)__builtin_popcount(draw(draws));
    }
    return tosses > 0 ? heads + (size_t)__builtin_popcount(draw(draws) >> (BITS - tosses)) : heads;
}

void draws_shuffle(struct draws *draws, uint32_t *numbers, size_t count) {
    for (size_t i = count; i-- > 1;) {
        uint32_t j = draws_below(draws, (uint32_t)i + 1), number = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = number;
    }
}
