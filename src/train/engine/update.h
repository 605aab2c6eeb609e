// SPDX-License-Identifier: Apache-2.0
// One update: forward and backward over its micro-batches, the gradient norm, then the optimizer's
// step.
//
//   loss of an update = sum of its sequences' losses / their count   (loss_average "update")
//                     = mean over micro-batches of their means       (loss_average "micro")
// For the pre-training head, the same for its masked tokens' losses is added.
//
// The sequences are divided into parts (division.h), each computed by itself, and the parts'
// gradients are added along one fixed binary tree over their numbers. A rank computes one part or
// several neighbours. Dropout, divisors and sums follow from a sequence's place in the update, so
// the update is the same, whoever computes its parts: with equal parts, powers of two, to the bit.
//
// The device and the other ranks are waited for once, after the last micro-batch: that one answer
// holds norm, loss, overflow, status and whether to stop.
#ifndef BERTH_TRAIN_UPDATE_H
#define BERTH_TRAIN_UPDATE_H

#include "train/engine/all_reduce.h"
#include "train/engine/batching.h"
#include "train/engine/division.h"
#include "train/engine/engine.h"
#include "train/engine/replica_check.h"
#include "train/optimizer/optimizer_plan.h"

#include <stdint.h>

// Rules that apply to all updates of a run.
struct update_rules {
    struct optimizer optimizer;
    int micro_average; // loss_average "micro"
    uint64_t seed;
    double hidden_dropout, attention_dropout, head_dropout;
    // Of training on classes (device.h's class_rule); weights NULL: the plain loss. Borrowed,
    // [num_labels].
    const double *class_weights;
    double label_smoothing;
    int parts; // of an update; a multiple of the number of ranks; 0: one for each rank
    struct all_reduce_rules exchange; // gradients travel in f32 where `parts` is set
    int64_t check_every; // updates between comparisons of the ranks (replica_check.h); 0: no checks
};
// Gradients travel in the type to compute in, unless the config names another.
struct update_rules update_rules_of(const struct berth_config *config,
                                    const struct bert_config *shape, enum dtype compute);
// The type that gradients travel in.
enum dtype update_wire(const struct update_rules *rules);

// What makes updates on an engine: the rules, the optimizer's plan for them, what the ranks
// all_reduce, and sums of the gradients of parts that were computed one after the other.
struct updater {
    struct engine *engine;
    struct update_rules rules;
    struct optimizer_plan plan;
    struct all_reduce all_reduce;
    struct replica_check check;
    struct division division;
    double
        *counts;   // [2 * parts + 1]: predicted times and micro-batches of the parts, masked tokens
    int own_parts; // of this rank
    int level_count;
    size_t announced, previous; // ranges whose gradients were announced, and the last of them
    float *class_weights;       // [num_labels] in device memory; NULL: none
    // [own_parts - 1][ENGINE_LOSSES] in device memory: the losses of all parts of this rank but the
    // last, whose are in engine->sums; NULL: there is one part.
    double *earlier_losses;
    double *part_losses; // [own_parts][ENGINE_LOSSES] on the host
    float **levels;      // [level_count][total] in device memory: sums of 1, 2, 4, ... parts
};

// Bytes of device memory for the sums of parts, of a rank with so many.
size_t updater_level_bytes(const struct param_table *table, int own_parts);

// Borrows the engine, whose state has gradients and moments, for updates of up to `sequences`. The
// updater must not move. updater_done frees, also after a failure; with several ranks
// updater_finish comes first, then the communicator is closed (all_reduce_finish). Both do nothing
// if it is zeroed.
enum berth_status updater_init(struct updater *updater, struct engine *engine,
                               const struct update_rules *rules, int64_t sequences,
                               struct berth_error *error);
void updater_finish(struct updater *updater);
void updater_done(struct updater *updater);

struct update_args {
    const struct batching *batching;
    const struct packer_source *source;
    const uint32_t *order; // the sequences of the update, over all ranks that know the same
    size_t count;
    size_t others;   // sequences that only the other ranks know, each as many as this one; else 0
    int64_t step;    // from 0; keys the dropout
    int64_t skipped; // of those before: their corrections of the moments' bias do not count
    double learning_rate;
    double loss_scale; // multiplies the loss's gradient and is divided out by the optimizer; 0
                       // means 1
    double loss_limit, grad_norm_limit; // above one of them nothing is changed; 0: no limit
    const volatile int *stop;           // may be NULL; 2: leave between two micro-batches
};

struct update_result {
    double loss;
    double masked_loss;     // the masked tokens' part of the loss
    double grad_norm;       // before clipping, unscaled; not finite: nothing was changed
    int exceeds_limit;      // 1: above a limit, so that nothing was changed
    int64_t tokens, masked; // of all ranks
    double total_flops;     // needed, of all ranks
    double required_flops;  // of this rank's parts, as are the next
    int64_t micro_batches;
    double imbalance; // of the parts' predicted times: the largest by their mean
    // By the device's marks. An update that a GPU still computes as update_run returns gives the
    // seconds of its step to the next update.
    double forward_seconds, backward_seconds, step_seconds;
    int stop;    // maximum of *stop over the ranks, read once
    int aborted; // 1: left early, between two micro-batches; the weights are unchanged
};

// A gradient or loss that is not finite is not an error: the weights stay unchanged and the caller
// decides (nonfinite.h finds the cause). Errors are those of the device and the ranks.
enum berth_status update_run(struct updater *updater, const struct update_args *args,
                             struct update_result *result, struct berth_error *error);

// All ranks, between updates: the state after `updates` updates is what was written, and the same
// on all ranks. Does nothing without check_every. Errors as of replica_check_end, which each update
// that begins to write the state returns as well.
enum berth_status update_check(struct updater *updater, int64_t updates, struct berth_error *error);

// Clears the gradients of an update that was not finite or was held, before another one is run.
void update_discard(struct updater *updater);

// All ranks, before and after other values are read into the state, between updates: the first
// waits for weights that are on their way.
void update_suspend(struct updater *updater);
enum berth_status update_resume(struct updater *updater, struct berth_error *error);

#endif
