// SPDX-License-Identifier: Apache-2.0
// An update cut into micro-batches: which sequences each takes, and what they weigh in the update's
// loss. Not here: what is done with them (update.c).
#ifndef BERTH_TRAIN_UPDATE_SPLIT_H
#define BERTH_TRAIN_UPDATE_SPLIT_H

#include "train/engine/update.h"

// The state of one update.
struct update_split {
    struct updater *updater;
    struct engine *engine;
    const struct update_args *args;
    struct bert_dropout dropout;
    // What the means divide by: the update's sequences and masked tokens, over all parts, each with
    // the weight of its class; 0: those of each micro-batch, whose means are averaged over
    // `micro_batches`, else 1.
    double sequences, masked, micro_batches;
    size_t max_micro_batches; // micro-batches of a part, at most
};

// Sequences [first, first + count) of the division.
struct micro_batch {
    size_t first, count;
    // The weight of a sequence's loss and of a masked token's loss in the update's loss.
    double sequence_weight, masked_weight;
};

// All ranks: divides the update into parts and finds what the means divide by.
struct update_split update_split_make(struct updater *updater, const struct update_args *args);

// The micro-batch that begins at `first`, of a part that ends at `end`.
struct micro_batch update_split_next(const struct update_split *split, size_t first, size_t end);
// Loads it into the engine, which owns the batch.
const struct batch *update_split_load(const struct update_split *split,
                                      const struct micro_batch *micro);

#endif
