// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of (key, counter), so a dropout mask can be
// recomputed anywhere, in any order, on any device, and a resumed run draws the same numbers.
#ifndef BERTH_CORE_RNG_H
#define BERTH_CORE_RNG_H

#include <stddef.h>
#include <stdint.h>

// Kernels draw the same numbers.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define RNG_FUNCTION static __host__ __device__ inline
#else
#define RNG_FUNCTION static inline
#endif

struct rng_block {
    uint32_t word[4];
};

// a * b. In the middle of 32-bit operations CUDA's compiler would multiply 64-bit numbers.
RNG_FUNCTION uint64_t rng_product(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
    uint64_t product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
#else
    return (uint64_t)a * b;
#endif
}

RNG_FUNCTION struct rng_block rng_philox(uint64_t key, const uint32_t counter[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = rng_product(0xD2511F53u, c0), product1 = rng_product(0xCD9E8D57u, c2);
        uint32_t n0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)product1;
        c3 = (uint32_t)product0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct rng_block block = {{c0, c1, c2, c3}};
    return block;
}

// Where dropout acts. The key of a mask is the seed XORed with its site (rng_dropout_key).
enum rng_site {
    RNG_SITE_EMBEDDING,
    RNG_SITE_ATTENTION,
    RNG_SITE_ATTENTION_OUTPUT,
    RNG_SITE_OUTPUT,
    RNG_SITE_HEAD
};

// A dropout mask: it says which elements of a [rows, columns] site are dropped.
//   key     = seed ^ (site << 32 | layer << 40 | head << 52), one per head for attention
//   counter = { column block, position of the row in its sequence, index of the sequence, step }
// Element (row, column) uses 16-bit slot `slot` of the block with counter word 0 =
// column / 128 * 16 + column % 16, where slot = column / 16 % 8 (two slots per word, the low half
// first), and is dropped when they are below `threshold`. This order lets 16 SIMD lanes, or 16
// threads, each draw one block and cover 128 neighbouring columns without a shuffle.
// For attention a row is a query, a column a key position, both counted within the sequence.
struct dropout {
    uint64_t seed;
    uint32_t step; // update number, the same in all its micro-batches
    uint32_t layer;
    enum rng_site site;
    uint32_t threshold; // round(p * 65536); 0: no dropout
};

RNG_FUNCTION uint64_t rng_dropout_key(const struct dropout *dropout, uint32_t head) {
    return dropout->seed ^
           ((uint64_t)dropout->site << 32 | (uint64_t)dropout->layer << 40 | (uint64_t)head << 52);
}

static inline uint32_t rng_dropout_threshold(double probability) {
    return (uint32_t)(probability * 65536.0 + 0.5);
}

// The factor on kept elements: 1 / (1 - threshold / 65536).
RNG_FUNCTION float rng_dropout_scale(uint32_t threshold) {
    return 65536.0f / (65536.0f - (float)threshold);
}

// 1 when the element is kept. This is the definition; devices compute many elements at a time.
RNG_FUNCTION int rng_dropout_keeps(const struct dropout *dropout, uint32_t head,
                                   int64_t global_index, int32_t position, int32_t column) {
    uint32_t counter[4] = {(uint32_t)(column / 128 * 16 + column % 16), (uint32_t)position,
                           (uint32_t)global_index, dropout->step};
    struct rng_block block = rng_philox(rng_dropout_key(dropout, head), counter);
    int slot = column / 16 % 8;
    uint32_t bits = block.word[slot / 2] >> (16 * (slot % 2)) & 0xFFFFu;
    return bits >= dropout->threshold;
}

// Sequential draws for host code (initial weights, shuffles): draw number `*index` of a stream.
static inline uint32_t rng_draw(uint64_t seed, uint32_t stream, uint64_t *index) {
    uint32_t counter[4] = {(uint32_t)(*index / 4), (uint32_t)(*index / 4 >> 32), stream,
                           0x48534F54u};
    uint32_t word = rng_philox(seed, counter).word[*index % 4];
    ++*index;
    return word;
}

// Uniform in [0, bound), without bias.
static inline uint32_t rng_below(uint64_t seed, uint32_t stream, uint64_t *index, uint32_t bound) {
    uint32_t limit = UINT32_MAX - UINT32_MAX % bound;
    uint32_t word;
    do {
        word = rng_draw(seed, stream, index);
    } while (word >= limit);
    return word % bound;
}

// Puts the numbers in a random order, using the stream's draws from index 0.
static inline void rng_shuffle(uint64_t seed, uint32_t stream, uint32_t *numbers, size_t count) {
    uint64_t index = 0;
    for (size_t i = count; i-- > 1;) {
        const uint32_t j = rng_below(seed, stream, &index, (uint32_t)i + 1), number = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = number;
    }
}

#endif
