// SPDX-License-Identifier: Apache-2.0
// The random numbers of CPython 3's random.Random (a Mersenne Twister), to reproduce the output of
// Python scripts bit for bit. Drawn from by draws.c, and by shard_stream.c for the order of files
// of NVIDIA's run_pretraining.
#ifndef BERTH_DATA_PYTHON_RANDOM_H
#define BERTH_DATA_PYTHON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

enum { PYTHON_RANDOM_WORDS = 624 };

struct python_random {
    uint32_t state[PYTHON_RANDOM_WORDS];
    int next; // index of the next word; PYTHON_RANDOM_WORDS: all are used
};

// random.Random(seed); Python takes the magnitude of a negative seed.
void python_random_seed(struct python_random *random, uint64_t seed);
// random(): [0, 1) in steps of 2^-53.
double python_random_real(struct python_random *random);
// randrange(bound) for a bound of 1 or more.
uint64_t python_random_below(struct python_random *random, uint64_t bound);
// randint(low, high), both included, low <= high.
int64_t python_random_between(struct python_random *random, int64_t low, int64_t high);
// shuffle() of count numbers.
void python_random_shuffle(struct python_random *random, uint32_t *numbers, size_t count);

#endif
