// SPDX-License-Identifier: Apache-2.0
// One update: forward and backward over its micro-batches, the gradient norm, then the optimizer's
// step.
//
//   loss of an update = sum of its sequences' losses / their count   (loss_average "update")
//                     = mean over micro-batches of their means       (loss_average "micro")
// For the pre-training head, the same for its masked tokens' losses is added.
//
// The sequences are divided into parts (division.h), which are computed separately. Their gradients
// are added along one fixed binary tree over the part numbers. A rank computes one part or several
// consecutive ones. Dropout, divisors and sums follow from a sequence's index in the update, so the
// result does not depend on which rank computes a part; it is bit-identical if the numbers of
// ranks and of parts are powers of two and all ranks have equally many parts.
//
// The host waits for the device and the other ranks only once, after the last micro-batch, for
// norm, loss, overflow, status and whether to stop.
#ifndef BERTH_TRAIN_UPDATE_H
#define BERTH_TRAIN_UPDATE_H

#include "train/engine/all_reduce.h"
#include "train/engine/batching.h"
#include "train/engine/division.h"
#include "train/engine/engine.h"
#include "train/engine/replica_check.h"
#include "train/optimizer/optimizer_plan.h"

#include <stdatomic.h>
#include <stdint.h>

// Rules that apply to all updates of a run.
struct update_rules {
    struct optimizer optimizer;
    int micro_average; // loss_average "micro"
    uint64_t seed;
    double hidden_dropout, attention_dropout, head_dropout;
    // For classes (class_weighting in device.h); weights NULL: the plain loss. Borrowed,
    // [num_labels].
    const double *class_weights;
    double label_smoothing;
    double positive_weight; // of a label that applies (sigmoid_loss in device.h)
    int parts;              // of an update; a multiple of the number of ranks; 0: one for each rank
    struct all_reduce_rules exchange; // gradients travel in f32 where `parts` is set
    int64_t check_every; // updates between comparisons of the ranks (replica_check.h); 0: no checks
};

// The type that gradients travel in.
enum dtype update_wire(const struct update_rules *rules);

// The batches of a micro-batch that pass through the model one after another.
struct pieces {
    size_t *starts; // [texts + 2] of the sequences
    // [texts] of each sequence, if there are pieces: its index in the source, and in the update.
    uint32_t *texts;
    int64_t *indices;
};

// Makes updates on an engine: the rules, the optimizer's plan, the exchange between ranks, and the
// gradient sums of parts that this rank computes one after another.
//
// Between two updates all gradients and partial sums are zero, the weights are those after the last
// update that was applied (one that changed nothing leaves its gradients until update_discard), and
// the engine's model waits for this updater before it reads weights
// that are still being gathered. Only the functions below write to the updater and, while a run is
// training, to the engine's gradients. updater_check says what else is true.
struct updater {
    struct engine *engine;
    struct update_rules rules;
    struct optimizer_plan plan;
    struct all_reduce all_reduce;
    struct replica_check check;
    struct division division;
    struct pieces pieces;
    double *counts; // [2 * parts + 1]: predicted times and micro-batches of the parts, then the
                    // masked tokens or, for micro_average, the micro-batches that have some
    int own_parts;  // of this rank
    int level_count;
    size_t announced, previous; // number of ranges announced, and the last of them
    float *class_weights;       // [num_labels] in device memory; NULL: none
    // [own_parts - 1][ENGINE_LOSSES] in device memory: losses of this rank's parts except the last,
    // whose losses are in engine->sums; NULL: there is one part.
    double *earlier_losses;
    double *part_losses; // [own_parts][ENGINE_LOSSES] on the host
    float **levels;      // [level_count][total] in device memory: sums of 1, 2, 4, ... parts
};

// Bytes of device memory for the gradient sums of a rank with this many parts.
size_t updater_level_bytes(const struct param_table *table, int own_parts);

// Borrows the engine, whose state must have gradients and moments, for updates of up to
// `sequences`. The updater must not move. Call updater_done even after a failure; with several
// ranks first updater_finish, then close the communicator (all_reduce.h). Both have no effect on a
// zeroed updater.
enum berth_status updater_init(struct updater *updater, struct engine *engine,
                               const struct update_rules *rules, int64_t sequences,
                               struct berth_error *error);
// NULL, or what is not true of an open updater (core/check.h).
const char *updater_check(const struct updater *updater);
void updater_finish(struct updater *updater);
void updater_done(struct updater *updater);

struct update_args {
    const struct batching *batching;
    const struct packer_source *source;
    const uint32_t *order; // the sequences of the update that this rank knows
    size_t count;
    size_t others; // sequences that only other ranks know, if each knows only its own, equally
                   // many; else 0
    int64_t step;  // from 0; keys the dropout
    int64_t without_moments; // earlier updates that the moments, and bias correction, do not count
    double rate;
    double loss_scale; // multiplies the loss's gradient and is divided out by the optimizer; 0
                       // means 1
    double loss_limit, grad_norm_limit; // above one of them the update changes nothing; 0: no limit
    const atomic_int *stop;             // may be NULL; at once: abort between two micro-batches
};

struct update_result {
    double loss;
    double masked_loss;     // the masked tokens' part of the loss
    double grad_norm;       // unscaled, before clipping; if not finite, nothing was changed
    int exceeds_limit;      // 1: above a limit, so nothing was changed
    int64_t tokens, masked; // of all ranks
    double total_flops;     // required, of all ranks
    double required_flops;  // of this rank's parts, like what follows
    int64_t micro_batches;
    double imbalance; // largest predicted time of a part / mean
    // Measured by the device's marks. If a GPU is still computing the step when update_run returns,
    // the step's seconds are counted in the next update.
    double forward_seconds, backward_seconds, step_seconds;
    int stop;    // strongest request of all ranks (stop.h), each read once
    int aborted; // 1: aborted between two micro-batches; the weights are unchanged
};

// A non-finite gradient or loss is not an error: the weights stay unchanged and the caller decides
// (nonfinite.c finds the cause). Errors are those of the device and the ranks.
enum berth_status update_run(struct updater *updater, const struct update_args *args,
                             struct update_result *result, struct berth_error *error);

// After an update that was not finite, before it is discarded: writes a sentence about the cause to
// text[size]. It is the first weight that is not finite; else the first module with such an output
// in the forward pass, which is computed again; else the first gradient in the order of the
// backward pass (head, last layer, ...). All ranks call it.
enum berth_status update_find_nonfinite(struct updater *updater, const struct update_args *args,
                                        char *text, size_t size, struct berth_error *error);

// Called by all ranks between updates: checks that the state after `updates` updates is what was
// written, and the same on all ranks. No effect without check_every. Errors as replica_check_end,
// which update_run may also return.
enum berth_status update_check(struct updater *updater, int64_t updates, struct berth_error *error);

// Clears the gradients of an update that changed nothing, before another one is run.
void update_discard(struct updater *updater);

// Called by all ranks between updates, before and after new values are read into the state. The
// first waits for weights that are still being exchanged.
void update_suspend(struct updater *updater);
enum berth_status update_resume(struct updater *updater, struct berth_error *error);

#endif
