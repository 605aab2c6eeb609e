// SPDX-License-Identifier: Apache-2.0
// Where a model computes: the device, the ranks that share the work, the buffers of the model, the
// activations, and the batch on host and device. What an update computes is update.h's, what a
// prediction computes infer.h's; both see the machine through this struct alone.
//
// The same activation memory serves training and inference: they are never in use together.
// Nothing is allocated inside a pass whose shapes were met before (core/device.h).
#ifndef BERTH_TRAIN_ENGINE_H
#define BERTH_TRAIN_ENGINE_H

#include "core/comm.h"
#include "core/device.h"
#include "core/device_batch.h"
#include "core/error.h"
#include "data/batches/packer.h"
#include "model/bert.h"
#include "train/optimizer/state.h"

#include <stddef.h>
#include <stdint.h>

// The largest batches that will come; no tokens: none of that kind.
struct engine_shape {
    struct batch_extent train, infer;
    int gradient_checkpointing; // training computes the layers' activations again
};

struct engine_bytes {
    size_t activations, workspace, batches;
};

struct engine {
    struct state *state; // and its device
    struct comm *comm;
    struct bert model;
    struct bert_activations *training, *inference; // views of `activations`; NULL when not wanted
    void *activations;
    size_t activation_bytes;
    struct packer packer;      // of the batch on the host
    struct device_batch batch; // its copy on the device
    double *losses;            // [ENGINE_LOSSES] sums of an update, in device memory
};

// The sums in engine.losses: of the sequences, and of the masked tokens.
enum engine_loss { ENGINE_SEQUENCE_LOSS, ENGINE_MASKED_LOSS, ENGINE_LOSSES };

// What an engine of this shape takes, without taking it.
enum berth_status engine_measure(const struct state *state, const struct bert_config *config,
                                 const struct engine_shape *shape, struct engine_bytes *bytes,
                                 struct berth_error *error);

// Borrows state and comm. engine_done frees, also after a failure.
enum berth_status engine_init(struct engine *engine, struct state *state, struct comm *comm,
                              const struct bert_config *config, const struct engine_shape *shape,
                              struct berth_error *error);
void engine_done(struct engine *engine);

// Packs the sequences order[0 .. count) of the source with their places in the update
// (packer_fill). engine.packer.batch is then the host's batch; the device's is returned, good until
// the next call. Of the pre-training head, `masked_weight` is the batch's.
struct engine_load {
    const struct packer_source *source;
    const uint32_t *order;
    size_t count;
    const int64_t *places; // [count]; NULL: 0, 1, ...
    float masked_weight;
};
const struct batch *engine_load(struct engine *engine, const struct engine_load *load);

// Needed floating-point operations of the forward pass on the batch that is loaded.
double engine_forward_flops(const struct engine *engine);

#endif
