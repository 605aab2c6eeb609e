// SPDX-License-Identifier: Apache-2.0
// Splits an update into micro-batches: which sequences each has, and their weight in the update's
// loss; and a micro-batch into the batches that pass through the model. Leaves out what is computed
// with them (update.c).
#ifndef BERTH_TRAIN_UPDATE_SPLIT_H
#define BERTH_TRAIN_UPDATE_SPLIT_H

#include "train/engine/update.h"

// The division of one update.
struct update_split {
    struct updater *updater;
    struct engine *engine;
    const struct update_args *args;
    struct bert_dropout dropout;
    // The divisors of the means: the update's sequences and masked tokens, over all parts, each
    // with the weight of its class. 0: each micro-batch has its own divisors, and their means are
    // averaged over the micro-batches; those of masked tokens over the ones that have any. The two
    // numbers of micro-batches are otherwise 1.
    double sequences, masked, micro_batches, masked_micro_batches;
    size_t max_micro_batches; // largest number of a part
};

// Sequences [first, first + count) of the division.
struct micro_batch {
    size_t first, count;
    // The weight of a sequence's loss and of a masked token's loss in the update's loss.
    double sequence_weight, masked_weight;
};

// Called by all ranks: divides the update into parts and finds the divisors.
struct update_split update_split_make(struct updater *updater, const struct update_args *args);

// The micro-batch that begins at `first`, in a part that ends at `end`.
struct micro_batch update_split_next(const struct update_split *split, size_t first, size_t end);
// Cuts a micro-batch into pieces, whole unless its source says otherwise (packer.h), and returns
// their number. Piece i has the sequences [starts[i], starts[i + 1]) of updater->pieces.
size_t update_split_cut(const struct update_split *split, const struct micro_batch *micro);
// Loads piece `index` of the micro-batch that was cut last into the engine, which owns the batch.
const struct batch *update_split_load(const struct update_split *split,
                                      const struct micro_batch *micro, size_t index);

#endif
