// SPDX-License-Identifier: Apache-2.0
// Assigns articles to shards: shards of a kind have about equally many sentences, and the test
// shards together have their share of all sentences.
//
// Test articles are drawn in a random order by the seed until they have that share. Then the
// articles of each kind, longest first, go to the shard with the fewest sentences so far; every
// shard gets two if there are enough, since random next sentences come from another article.
// NVIDIA's script aims at the same balance with other rules and all articles in memory; this needs
// only the number of sentences of each.
#ifndef BERTH_DATA_SHARD_ASSIGNMENT_H
#define BERTH_DATA_SHARD_ASSIGNMENT_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct shard_plan {
    uint32_t training,
        test;             // shards of each kind; with 0 test shards all articles are for training
    double test_fraction; // of the sentences
    uint64_t seed;
};

enum { SHARDS_LIMIT = 4096 }; // of each kind

// The number of shards. They are numbered in one row: training, then test.
static inline size_t shard_count(const struct shard_plan *plan) {
    return (size_t)plan->training + plan->test;
}

#define SHARD_UNASSIGNED UINT16_MAX // of an article without a sentence
struct shard_assignment {
    uint16_t *shards; // [count] the shard's index in the row
    uint64_t count;
};

// Assigns `count` articles with sentences[count] sentences each. Lowers the numbers of shards in
// the plan to what the articles can fill. A plan out of range (no training shard, more than
// SHARDS_LIMIT, a fraction outside [0, 1)) is BERTH_CONFIG; no sentence at all is BERTH_BAD_DATA.
// Free with shard_assignment_done; after a failure there is nothing to free.
enum berth_status shard_assignment_make(struct shard_plan *plan, const uint32_t *sentences,
                                        uint64_t count, struct shard_assignment *assignment,
                                        struct berth_error *error);
void shard_assignment_done(struct shard_assignment *assignment);

#endif
