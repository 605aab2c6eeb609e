// SPDX-License-Identifier: Apache-2.0
// Which shard an article goes to: shards of a kind have about as many sentences each, and those for
// testing together their share of all sentences.
//
// Test articles are drawn in an order of the seed until they have that share. Then, of each kind,
// the articles go one after the other, the longest first, to the shard with the fewest sentences so
// far; every shard gets two where there are so many, since random next sentences come from another
// article. NVIDIA's script aims at the same balance with rules of its own, for which it holds all
// articles in memory; here it takes the number of sentences of each.
#ifndef BERTH_DATA_SHARD_PLACES_H
#define BERTH_DATA_SHARD_PLACES_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct shard_plan {
    uint32_t training, test; // shards of each kind; test may be 0, then all is for training
    double test_fraction;    // of the sentences
    uint64_t seed;
};

enum { SHARDS_LIMIT = 4096 }; // of each kind

// Shards in one row: those for training, then those for testing.
static inline size_t shard_count(const struct shard_plan *plan) {
    return (size_t)plan->training + plan->test;
}

#define SHARD_NONE UINT16_MAX // of an article without a sentence
struct shard_places {
    uint16_t *of; // [count] the shard's number in the row
    uint64_t count;
};

// The places of `count` articles with sentences[count] sentences each. Lowers the numbers of shards
// in the plan to what the articles can fill; the caller sees it by comparing. A plan out of range
// (no training shard, more than SHARDS_LIMIT, a fraction outside [0, 1)) is BERTH_CONFIG, no
// sentence at all BERTH_BAD_DATA. shard_places_done frees; nothing is to be freed after a failure.
enum berth_status shard_places_make(struct shard_plan *plan, const uint32_t *sentences,
                                    uint64_t count, struct shard_places *places,
                                    struct berth_error *error);
void shard_places_done(struct shard_places *places);

#endif
