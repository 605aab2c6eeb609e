// SPDX-License-Identifier: Apache-2.0
// Batch arithmetic: which sequences make update number n, and how an update is cut into
// micro-batches.
//
// An epoch has ceil(features / train_batch_size) updates and keeps the last, smaller one; its order
// depends on seed and epoch only. So the place of a run is its step alone: step / updates_per_epoch
// is the epoch, the remainder the update within it. In pre-training updates run on: all have
// train_batch_size sequences, the first of update n being number n * train_batch_size of the stream
// (data/pretraining/shard_stream.h), and an epoch may end within one.
#ifndef BERTH_TRAIN_BATCHING_H
#define BERTH_TRAIN_BATCHING_H

#include "core/error.h"
#include "data/batches/packer.h"

#include <stdint.h>

// Tokens of a micro-batch when the user names no micro-batch size: enough for the matrix products
// to run at full speed, few enough for the activations of a large model.
#define BATCHING_TOKENS 8192

struct batching {
    uint64_t seed;
    int64_t features;
    int64_t update_sequences; // train_batch_size
    // The most in a micro-batch; INT64_MAX tokens when the sequences decide.
    struct batch_extent micro;
    int64_t accumulation; // micro-batches of a full update; 0: as many as the tokens need
    int64_t updates_per_epoch;
    int64_t total_steps;
    int runs_on;
};

// From train_batch_size, per_device_train_batch_size and gradient_accumulation_steps: any two give
// the third; all three must agree (one process), else BERTH_CONFIG naming all four numbers.
// max_steps > 0 decides the number of updates, else num_train_epochs.
enum berth_status batching_resolve(struct batching *batching, const struct berth_config *config,
                                   int64_t features, struct berth_error *error);

// Makes of resolved sizes those of updates that run on. The sequences and masked tokens of a
// micro-batch that only its tokens limit are bounded, too, for they are not known beforehand:
// `max_predictions` of a sequence.
enum berth_status batching_run_on(struct batching *batching, const struct berth_config *config,
                                  int64_t max_predictions, struct berth_error *error);

// Epochs that are over after `step` updates, and whether one ended within the last of them.
double batching_epochs(const struct batching *batching, int64_t step);
int batching_ends_epoch(const struct batching *batching, int64_t step);

// The sequences of an update: order[first .. first + count) of its epoch.
struct update_place {
    int64_t epoch;  // from 0
    int64_t update; // within the epoch, from 0
    size_t first, count;
};
struct update_place batching_place(const struct batching *batching, int64_t step);

// How many of order[0 .. count) make the next micro-batch.
size_t batching_cut(const struct batching *batching, const struct packer_source *source,
                    const uint32_t *order, size_t count);

// The largest micro-batch that the run will meet, found by walking through all of its updates, and
// the most micro-batches of an update.
struct batching_worst {
    struct batch_extent micro;
    int64_t micro_batches;
};
enum berth_status batching_find_worst(const struct batching *batching,
                                      const struct packer_source *source,
                                      struct batching_worst *worst, struct berth_error *error);

#endif
