// SPDX-License-Identifier: Apache-2.0
// Batch arithmetic: which sequences belong to update number n, and how an update is divided into
// micro-batches.
//
// An epoch has ceil(features / train_batch_size) updates; dataloader_drop_last drops the last,
// smaller one. The order of an epoch depends only on seed and epoch number. So the step determines
// the position of a run: step / updates_per_epoch is the epoch, the remainder the update within it.
// In pre-training, updates continue across epochs: all have train_batch_size sequences, the first
// of update n is number n * train_batch_size of the stream (data/pretraining/shard_stream.h), and
// an epoch may end within an update.
#ifndef BERTH_TRAIN_BATCHING_H
#define BERTH_TRAIN_BATCHING_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "model/config.h"
#include "settings/engine.h"

#include <stdint.h>

// Tokens of a micro-batch if the user sets no micro-batch size: enough for the matrix products to
// run at full speed, few enough for the activations of a large model.
#define BATCHING_TOKENS 8192

// a / b, rounded up; a >= 0, b > 0.
static inline int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

struct batching {
    uint64_t seed;
    int64_t features;
    int64_t update_sequences; // train_batch_size
    // Largest micro-batch; INT64_MAX tokens if sequences are the limit.
    struct batch_extent micro;
    int64_t parts;        // into which an update is divided: virtual_ranks, or the number of ranks
    int64_t accumulation; // micro-batches of a rank in an update; 0: as many as the tokens require
    int64_t updates_per_epoch;
    int64_t total_steps;
    int64_t schedule_steps; // length of the schedule: total_steps, unless steps_rule says otherwise
    int crosses_epochs;
};

// The number of parts of an update: config->virtual_ranks, a multiple of the number of ranks, or
// one for each rank.
enum berth_status batching_parts(const struct engine_settings *settings, int64_t ranks,
                                 int64_t *parts, struct berth_error *error);

// What a run asks for. has_total: train_batch_size was chosen; else the other two determine it.
struct batching_request {
    const struct engine_settings *settings;
    uint64_t seed;
    int has_total;
};

// Computes sizes from train_batch_size, per_device_train_batch_size and
// gradient_accumulation_steps: any two determine the third. If all three are given and disagree
// with these and the number of ranks, BERTH_CONFIG names all four. max_steps > 0 determines the
// number of updates, otherwise num_train_epochs. With virtual_ranks V, a derived micro-batch has
// the same size for any number of ranks: that of V ranks, rounded up.
enum berth_status batching_resolve(struct batching *batching,
                                   const struct batching_request *request, int64_t features,
                                   int64_t ranks, struct berth_error *error);

// Adjusts the resolved sizes to groups of `group` items (packer.h). BERTH_CONFIG if updates, or the
// requested micro-batches, are not a whole number of groups.
enum berth_status batching_round_to_groups(struct batching *batching,
                                           const struct engine_settings *settings, int64_t group,
                                           int64_t ranks, struct berth_error *error);

// dataloader_drop_last: drops the smaller update at the end of an epoch. BERTH_CONFIG if an epoch
// is smaller than an update.
enum berth_status batching_drop_last(struct batching *batching,
                                     const struct engine_settings *settings,
                                     struct berth_error *error);

// Sets the number of updates of an epoch, of which those at the end of a data set may be smaller:
// its number of sequences becomes that of as many whole updates.
enum berth_status batching_set_updates(struct batching *batching,
                                       const struct engine_settings *settings, int64_t updates,
                                       struct berth_error *error);

// Turns resolved sizes into those of updates that continue across epochs. Micro-batches limited by
// tokens also get a limit on sequences and masked tokens (`max_predictions` per sequence), because
// these are not known in advance.
enum berth_status batching_cross_epochs(struct batching *batching,
                                        const struct engine_settings *settings,
                                        int64_t max_predictions, struct berth_error *error);

// Applies steps_rule to the resolved sizes: sets the length of the schedule and, for the rule
// "examples", that of the run. `examples` is the number of examples of an epoch before they are cut
// into windows. BERTH_USAGE for an unknown rule.
enum berth_status batching_apply_steps_rule(struct batching *batching,
                                            const struct engine_settings *settings,
                                            int64_t examples, struct berth_error *error);

// The number of completed epochs after `step` updates, and whether one ended within the last
// update. As in the Trainer, a part of an epoch is counted in micro-batches, of which the last
// update may have fewer; micro-batches limited by tokens are not counted.
double batching_epochs(const struct batching *batching, int64_t step);
int batching_ends_epoch(const struct batching *batching, int64_t step);

// The sequences of an update: order[first .. first + count) of its epoch.
struct update_slice {
    int64_t epoch;  // from 0
    int64_t update; // within the epoch, from 0
    size_t first, count;
};
struct update_slice batching_slice(const struct batching *batching, int64_t step);

// The number of sequences from order[0 .. count) that form the next micro-batch.
size_t batching_fit(const struct batching *batching, const struct packer_source *source,
                    const uint32_t *order, size_t count);

// The largest number of sequences that one of `parts` parts of an update may get. If micro-batches
// are limited by sequences, it is an equal division, so that all parts have equally many
// micro-batches.
size_t batching_max_part_sequences(const struct batching *batching, size_t count, size_t parts);

// A rank, and the model whose predicted times decide how updates are divided (division.h).
struct batching_rank {
    const struct bert_config *config;
    int rank, size;
};
// The largest micro-batch that a rank computes in the run, found by walking through all updates,
// and the largest number of its micro-batches in an update.
struct batching_worst {
    struct batch_extent micro;
    int64_t micro_batches;
};
enum berth_status batching_find_worst(const struct batching *batching,
                                      const struct packer_source *source,
                                      const struct batching_rank *rank,
                                      struct batching_worst *worst, struct berth_error *error);

#endif
