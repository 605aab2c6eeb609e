// SPDX-License-Identifier: Apache-2.0
// The buffers of a run, in device memory and in the layout of the parameter table: master weights,
// their copy in the compute dtype, gradients and the two moments.
//
// Leaves out activations (engine.h).
#ifndef BERTH_TRAIN_STATE_H
#define BERTH_TRAIN_STATE_H

#include "core/error.h"
#include "device/device.h"
#include "model/bert.h"
#include "model/params.h"
#include "train/optimizer/partition.h"

#include <stddef.h>
#include <stdint.h>

// How the ranks of a job divide the state, by ZeRO stage. 0: nothing. 1: the moments and, if there
// is a compute copy, the master weights of the layers' matrices, which only their owner reads. 2:
// also the gradients. Master weights and gradients keep the table's layout, but take memory only
// where they are in use, if the device supports that (device->discard); a GPU keeps them whole.
struct state_sharding {
    int rank, size, stage;
    int by_tensor;       // as in struct partition_rule
    int keeps_gradients; // 1: until the last micro-batch of an update they are whole in stage 2,
                         // too
};
struct partition_rule state_partition_rule(const struct state_sharding *sharding);

struct state {
    struct device *device;
    const struct param_table *table;
    enum dtype compute;
    float *master;              // f32 [total]; zero where only another rank has them
    void *copy;                 // compute dtype [matrix_count]; NULL in f32, where master is used
    int is_int8;                // 1: int8 weights, for inference: the master weights
    struct int8_weights int8;   // that they replace take no memory; there is no copy
    int is_packed;              // 1: the layers' matrices are packed, for inference (bert_pack)
    float *gradients;           // f32 [total]; NULL for inference, like the moments
    float *moment1, *moment2;   // f32 [partition.elements]
    struct partition partition; // of the moments that this rank holds; empty for inference
    struct partition own;       // this rank's part in any stage, which it writes to checkpoints
    struct state_sharding sharding; // for inference: size 1
    int is_compared;                // 1: loading weights also makes their checksum
    uint64_t checksum;              // of all weights as loaded, in any order
};

// Bytes of each kind of buffer, for the plan.
struct state_bytes {
    size_t weights, copy, gradients, moments;
};
struct state_bytes state_measure(const struct param_table *table, enum dtype compute, int training);
// For inference with int8 weights, which count as the copy.
struct state_bytes state_measure_int8(const struct param_table *table, struct device *device);
// The memory of one rank. In stages 1 and 2 `moments` are those of its part. On the host, with a
// compute copy so are `weights`, except head, tables and vectors, which all ranks read in f32; and
// in stage 2, unless they are kept, `gradients` are those of its part, of the range being computed
// and of the range being exchanged.
struct state_bytes state_measure_sharded(const struct param_table *table,
                                         const struct device *device, enum dtype compute,
                                         const struct state_sharding *sharding);

// Allocates zeroed buffers for inference, or for training by a single process.
enum berth_status state_init(struct state *state, struct device *device,
                             const struct param_table *table, enum dtype compute, int training,
                             struct berth_error *error);
// The same for inference with int8 weights.
enum berth_status state_init_int8(struct state *state, struct device *device,
                                  const struct param_table *table, enum dtype compute,
                                  struct berth_error *error);
// The same for training by several ranks.
enum berth_status state_init_sharded(struct state *state, struct device *device,
                                     const struct param_table *table, enum dtype compute,
                                     const struct state_sharding *sharding,
                                     struct berth_error *error);
void state_done(struct state *state);

// The dtype of the encoder's matrix products.
static inline enum dtype state_product_dtype(const struct state *state) {
    return state->is_int8 ? DTYPE_I8 : state->compute;
}

// A model that computes with these buffers.
struct bert state_model(const struct state *state, const struct bert_config *config);

// The compute copy as [1, matrix_count]; empty in f32.
struct mat state_copy(const struct state *state);

// Gives the host access to one of the f32 buffers [total]: to the buffer itself if the device's
// memory is the host's, else to a copy. Call state_release afterwards.
enum berth_status state_borrow(const struct state *state, const float *buffer, float **host,
                               struct berth_error *error);
void state_release(const struct state *state, const float *buffer, float *host);

// Writes borrowed weights, which the caller has changed, back to the device and updates the compute
// copy. Discards weights that this rank does not keep.
void state_set_weights(struct state *state, const float *host);

// Loads the weights one parameter at a time through a sink: writes the compute copy and keeps only
// the master weights that this rank reads, so memory for one more parameter is enough.
struct state_loader {
    struct state *state;
    const char *source; // of the weights, for messages; borrowed
    float *staging; // [bytes / 4] on the host, of the largest parameter; NULL: the device's memory
                    // is the host's
    size_t bytes;
};
// Bytes of staging memory; for int8 weights, the master memory that the largest parameter takes
// while it is loaded.
size_t state_loader_bytes(const struct state *state);
// Call state_loader_done even after a failure. The sink borrows the loader, which must not move.
// For training it refuses a non-finite weight (BERTH_BAD_DATA), because no update can repair it.
enum berth_status state_loader_init(struct state_loader *loader, struct state *state,
                                    const char *source, struct berth_error *error);
struct param_sink state_loader_sink(struct state_loader *loader);
// Call after all parameters were loaded. For inference it finishes int8 weights or packs the
// matrices.
enum berth_status state_loader_finish(struct state_loader *loader, const struct bert_config *config,
                                      struct berth_error *error);
void state_loader_done(struct state_loader *loader);

#endif
