// SPDX-License-Identifier: Apache-2.0
// MT19937 (Matsumoto and Nishimura, 1998), seeded by an array, and the functions that CPython
// builds on its words. Used where a result must be that of a published script.
#include "data/pretraining/python_random.h"

#include "core/memory.h"

#include <string.h>

enum { MIDDLE = 397 };
#define UPPER 0x80000000u
#define TWIST 0x9908b0dfu

// --- words --------------------------------------------------------------------------------------

// Mixes word `i` with the word before it.
static uint32_t mixed(const struct python_random *random, size_t i, uint32_t factor) {
    uint32_t before = random->state[i - 1];
    return random->state[i] ^ (before ^ before >> 30) * factor;
}

static size_t advance(struct python_random *random, size_t i) {
    if (i + 1 < PYTHON_RANDOM_WORDS) {
        return i + 1;
    }
    random->state[0] = random->state[PYTHON_RANDOM_WORDS - 1];
    return 1;
}

void python_random_seed(struct python_random *random, uint64_t seed) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    size_t length = key[1] != 0 ? 2 : 1, i = 1;
    random->state[0] = 19650218u;
    for (uint32_t j = 1; j < PYTHON_RANDOM_WORDS; j++) {
        uint32_t before = random->state[j - 1];
        random->state[j] = 1812433253u * (before ^ before >> 30) + j;
    }
    for (size_t k = 0; k < PYTHON_RANDOM_WORDS; k++) {
        random->state[i] = mixed(random, i, 1664525u) + key[k % length] + (uint32_t)(k % length);
        i = advance(random, i);
    }
    for (size_t k = 1; k < PYTHON_RANDOM_WORDS; k++) {
        random->state[i] = mixed(random, i, 1566083941u) - (uint32_t)i;
        i = advance(random, i);
    }
    random->state[0] = UPPER;
    random->next = PYTHON_RANDOM_WORDS;
}

// getrandbits(32).
static uint32_t next_word(struct python_random *random) {
    if (random->next == PYTHON_RANDOM_WORDS) {
        uint32_t *state = random->state;
        for (size_t i = 0; i < PYTHON_RANDOM_WORDS; i++) {
            uint32_t next = state[(i + 1) % PYTHON_RANDOM_WORDS];
            uint32_t both = (state[i] & UPPER) | (next & ~UPPER);
            state[i] = state[(i + MIDDLE) % PYTHON_RANDOM_WORDS] ^ both >> 1 ^ (both % 2 * TWIST);
        }
        random->next = 0;
    }
    uint32_t word = random->state[random->next++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

// --- numbers ------------------------------------------------------------------------------------

double python_random_real(struct python_random *random) {
    double high = next_word(random) >> 5, low = next_word(random) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

static uint64_t bits_of(struct python_random *random, int count) {
    if (count <= 32) {
        return next_word(random) >> (32 - count);
    }
    uint64_t low = next_word(random);
    return low | (uint64_t)(next_word(random) >> (64 - count)) << 32;
}

uint64_t python_random_below(struct python_random *random, uint64_t bound) {
    int count = 64 - __builtin_clzll(bound);
    uint64_t number = bits_of(random, count);
    while (number >= bound) {
        number = bits_of(random, count);
    }
    return number;
}

int64_t python_random_between(struct python_random *random, int64_t low, int64_t high) {
    return low + (int64_t)python_random_below(random, (uint64_t)(high - low) + 1);
}

void python_random_shuffle(struct python_random *random, uint32_t *numbers, size_t count) {
    for (size_t i = count; i-- > 1;) {
        size_t j = (size_t)python_random_below(random, i + 1);
        uint32_t number = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = number;
    }
}
