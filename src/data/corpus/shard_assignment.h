// SPDX-License-Identifier: Apache-2.0
// Assigns articles to shards, so that all training shards have about equally many sentences, all
// test shards likewise, and the test shards together have the requested fraction of all sentences.
//
// Test articles are taken in a random order, which depends on the seed, until they have that
// fraction. Then the training articles and the test articles, longest first, each go to the shard
// with the fewest sentences so far. Every shard gets two articles, because random next sentences
// come from another article; a single training or test article makes one shard. NVIDIA's script
// balances shards by other rules, with all articles in memory; this one needs only the number of
// sentences of each. Files are written later, by text_shards.h.
#ifndef BERTH_DATA_SHARD_ASSIGNMENT_H
#define BERTH_DATA_SHARD_ASSIGNMENT_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct shard_plan {
    uint32_t training,
        test;             // numbers of shards; 0 test shards: all articles are for training
    double test_fraction; // of all sentences
    uint64_t seed;
};

enum { SHARDS_LIMIT = 4096 }; // of training and of test shards

// The number of shards. Their indices run through the training shards, then the test shards.
static inline size_t shard_count(const struct shard_plan *plan) {
    return (size_t)plan->training + plan->test;
}

#define SHARD_UNASSIGNED UINT16_MAX // of an article without a sentence
struct shard_assignment {
    uint16_t *shards; // [count] the index of each article's shard
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
