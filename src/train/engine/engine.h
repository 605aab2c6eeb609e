// SPDX-License-Identifier: Apache-2.0
// What a model runs on: the device, the ranks that divide the work, the model's buffers, the
// activations, and the batch on host and device. Leaves out the computation of an update (update.h)
// and of a prediction (infer.h), which use all of this only through struct engine.
//
// Training and inference share the same activation memory, because they are never in use together.
// A pass whose shapes occurred before allocates nothing (device/device.h).
#ifndef BERTH_TRAIN_ENGINE_H
#define BERTH_TRAIN_ENGINE_H

#include "comm/comm.h"
#include "core/error.h"
#include "data/batches/packer.h"
#include "device/device.h"
#include "device/device_batch.h"
#include "model/bert.h"
#include "train/optimizer/state.h"

#include <stddef.h>
#include <stdint.h>

// The largest batches to expect; tokens 0: no such batches.
struct engine_shape {
    struct batch_extent train, infer;
    int gradient_checkpointing; // training recomputes the layers' activations
    double attention_dropout;   // probability in training
};

struct engine_bytes {
    size_t activations, workspace, batches;
};

struct profile;

struct engine {
    struct state *state; // includes the device
    struct comm *comm;
    struct bert model;
    struct bert_activations *training, *inference; // views of `activations`; NULL if unused
    void *activations;
    size_t activation_bytes;
    struct packer packer;      // holds the batch on the host
    struct device_batch batch; // its copy on the device
    struct engine_sums *sums;  // in device memory
    struct profile *profile;   // of the updates; NULL: none
};

enum engine_loss { ENGINE_SEQUENCE_LOSS, ENGINE_MASKED_LOSS, ENGINE_LOSSES };

// What the host fetches at the end of an update, in one copy.
struct engine_sums {
    double losses[ENGINE_LOSSES];
    struct grad_stats norm; // of all gradients
};

enum berth_status engine_measure(const struct state *state, const struct bert_config *config,
                                 const struct engine_shape *shape, struct engine_bytes *bytes,
                                 struct berth_error *error);

// Borrows state and comm. Call engine_done even on failure.
enum berth_status engine_init(struct engine *engine, struct state *state, struct comm *comm,
                              const struct bert_config *config, const struct engine_shape *shape,
                              struct berth_error *error);
void engine_done(struct engine *engine);

// Packs the sequences order[0 .. count) of the source, with their indices in the update
// (packer_fill), into engine.packer.batch. Returns the device's copy of that batch, which is valid
// until the next call. `masked_weight` is the batch's, for the pre-training head.
struct engine_load {
    const struct packer_source *source;
    const uint32_t *order;
    size_t count;
    const int64_t *indices; // [count]; NULL: 0, 1, ...
    float masked_weight;
};
const struct batch *engine_load(struct engine *engine, const struct engine_load *load);

// Floating-point operations required for the forward pass on the loaded batch.
double engine_forward_flops(const struct engine *engine);

#endif
