// SPDX-License-Identifier: Apache-2.0
// One update: forward and backward over its micro-batches, the norm, then the optimizer's step.
//
//   loss of an update = sum of its sequences' losses / their count   (loss_average "update")
//                     = mean over micro-batches of their means       (loss_average "micro")
// and, of the pre-training head, the same of its masked tokens' losses added to it.
//
// Nothing is allocated inside an update whose shapes were met before (core/device.h). The same
// activation memory serves inference between updates (infer.h).
#ifndef BERTH_TRAIN_TRAINER_H
#define BERTH_TRAIN_TRAINER_H

#include "core/device.h"
#include "core/error.h"
#include "data/packer.h"
#include "model/bert.h"
#include "train/batching.h"
#include "train/optimizer.h"
#include "train/state.h"

#include <stdint.h>

// The numbers of the optimizer and of dropout; fixed for a run.
struct trainer_rules {
    struct optimizer optimizer;
    int micro_average; // loss_average "micro"
    uint64_t seed;
    double hidden_dropout, attention_dropout, head_dropout;
};
// From settings that optimizer_settle has completed.
struct trainer_rules trainer_rules_of(const struct berth_config *config,
                                      const struct bert_config *shape);

// The largest batches that will come, for training and for inference; 0 rows: none of that kind.
struct trainer_shape {
    int64_t train_tokens, train_sequences, train_masked;
    int64_t infer_tokens, infer_sequences, infer_masked;
    int64_t max_length;
    int gradient_checkpointing; // training computes the layers' activations again
};

struct trainer_bytes {
    size_t activations, workspace, batches;
};

struct trainer {
    struct state *state;
    struct bert model;
    struct trainer_rules rules;
    struct bert_activations *training, *inference; // views of `activations`; NULL when not wanted
    void *activations;
    size_t activation_bytes;
    struct packer packer;
    float *losses; // host [sequences or masked tokens]
};

// What a trainer of this shape takes, without taking it.
enum berth_status trainer_measure(const struct state *state, const struct bert_config *config,
                                  const struct trainer_shape *shape, struct trainer_bytes *bytes,
                                  struct berth_error *error);

enum berth_status trainer_init(struct trainer *trainer, struct state *state,
                               const struct bert_config *config, const struct trainer_rules *rules,
                               const struct trainer_shape *shape, struct berth_error *error);
void trainer_done(struct trainer *trainer);

struct update_args {
    const struct batching *batching;
    const struct packer_source *source;
    const uint32_t *order; // the update's sequences
    size_t count;
    int64_t step;    // from 0; keys the dropout
    int64_t skipped; // of those before: their corrections of the moments' bias do not count
    double learning_rate;
    double loss_scale; // the loss's gradient is multiplied with it, the optimizer divides; 0: 1
    const volatile int *stop; // may be NULL; 2 leaves between two micro-batches
};

struct update_result {
    double loss;
    double masked_loss; // the masked tokens' part of the loss
    double grad_norm;   // before clipping, unscaled; not finite: nothing was changed
    int64_t tokens, masked;
    double needed_flops;
    int64_t micro_batches;
    double forward_seconds, backward_seconds, step_seconds;
    int stopped; // left at once: the weights are those before the update
    // Of the first micro-batch (from 0) whose loss is not finite: bert_first_nonfinite; -1: none.
    int64_t nonfinite_place, nonfinite_micro_batch;
};

// A gradient or loss that is not finite is not an error here: the weights stay as they were and the
// caller decides (trainer_blame names the place). Errors are the device's.
enum berth_status trainer_update(struct trainer *trainer, const struct update_args *args,
                                 struct update_result *result, struct berth_error *error);

// Clears the gradients of an update that was not finite, before another one is tried.
void trainer_discard(struct trainer *trainer);

// Where numbers stopped being finite in the update that gave `result`: the first weight that is
// not, else the part of the model whose output was the first that is not in the forward pass, else
// the first gradient in the order of the backward pass (head, last layer, ...). Writes a sentence
// into text[size].
enum berth_status trainer_blame(const struct trainer *trainer, const struct update_result *result,
                                char *text, size_t size, struct berth_error *error);

#endif
