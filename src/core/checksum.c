// SPDX-License-Identifier: Apache-2.0
// Fletcher's two sums, in lanes that are added by vector instructions. The loop is written once and
// inlined into one function per instruction set.
//
// A lane's sum is high + 2^33 low. If the word in the n-th block from the end changes by d, the sum
// changes by d (n + 2^33). As 0 < |d| < 2^32 and n < 2^32, that is no multiple of 2^64: d and n
// have at most 31 factors of two each, and n + 2^33 has as many as n. If two words of a lane that
// are k blocks apart and differ by d are swapped, the sum changes by d k.
#include "core/checksum.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = CHECKSUM_LANES, GROUP = 4, PIECE = 256 }; // lanes of a group, blocks of a piece

struct lanes {
    uint64_t low[LANES], high[LANES];
};

// A few lanes at a time, whose sums stay in registers, over a piece that stays in the first-level
// cache. Vectors of the compiler, because it may keep the sums of arrays in memory.
typedef uint32_t group_words __attribute__((vector_size(GROUP * sizeof(uint32_t))));
typedef uint64_t group_sums __attribute__((vector_size(GROUP * sizeof(uint64_t))));

INLINE void add_group(struct lanes *lanes, size_t group, const char *data, size_t blocks) {
    group_sums low, high;
    memcpy(&low, lanes->low + group, sizeof low);
    memcpy(&high, lanes->high + group, sizeof high);
    for (size_t block = 0; block < blocks; block++) {
        group_words words;
        memcpy(&words, data + (block * LANES + group) * sizeof(uint32_t), sizeof words);
        low += __builtin_convertvector(words, group_sums);
        high += low;
    }
    memcpy(lanes->low + group, &low, sizeof low);
    memcpy(lanes->high + group, &high, sizeof high);
}

INLINE void add(struct lanes *lanes, const char *data, size_t blocks) {
    while (blocks > 0) {
        const size_t count = blocks < PIECE ? blocks : PIECE;
        for (size_t group = 0; group < LANES; group += GROUP) {
            add_group(lanes, group, data, count);
        }
        data += count * LANES * sizeof(uint32_t);
        blocks -= count;
    }
}

typedef void add_blocks(struct lanes *lanes, const void *data, size_t blocks);

#define ADD(set, attributes)                                                                       \
    attributes static void add_##set(struct lanes *lanes, const void *data, size_t blocks) {       \
        add(lanes, data, blocks);                                                                  \
    }

ADD(generic, )
#ifdef __x86_64__
ADD(avx2, __attribute__((target("avx2"))))
ADD(avx512, __attribute__((target("avx512f,avx512bw,avx512vl"))))
#endif

static add_blocks *best_add_blocks(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return add_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return add_avx2;
    }
#endif
    return add_generic;
}

uint64_t checksum_bytes(const void *data, size_t bytes) {
    struct lanes lanes = {0};
    add_blocks *const add_function = best_add_blocks();
    uint32_t rest[LANES] = {0};
    const size_t blocks = bytes / sizeof rest;
    add_function(&lanes, data, blocks);
    memcpy(rest, (const char *)data + blocks * sizeof rest, bytes % sizeof rest);
    add_function(&lanes, rest, 1);
    uint64_t sum = bytes;
    for (int i = 0; i < LANES; i++) {
        sum = checksum_add(sum, lanes.high[i] + (lanes.low[i] << 33));
    }
    return sum;
}
