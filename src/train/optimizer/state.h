// SPDX-License-Identifier: Apache-2.0
// The buffers of a run, with the layout of the parameter table and in device memory: master
// weights, their copy in the compute dtype, gradients and the two moments.
//
// Leaves out: activations (engine.h) and everything that is not a number of the model.
#ifndef BERTH_TRAIN_STATE_H
#define BERTH_TRAIN_STATE_H

#include "core/comm.h"
#include "core/device.h"
#include "core/error.h"
#include "format/checksum/digest.h"
#include "model/bert.h"
#include "model/params.h"
#include "train/optimizer/partition.h"

#include <stddef.h>

// How the ranks of a job divide the state, by ZeRO's stages: 0 nothing; 1 the moments and, where
// there is a compute copy, the master weights of the layers' matrices, which only their owner
// reads; 2 the gradients as well. Master weights and gradients keep the table's layout, but take
// memory only where they are in use (device->discard).
struct state_sharding {
    int rank, size, stage;
    int by_tensor; // as in struct partition_rule
};
struct partition_rule state_partition_rule(const struct state_sharding *sharding);

struct state {
    struct device *device;
    const struct param_table *table;
    enum dtype compute;
    float *master;              // f32 [total]; zero where another rank keeps them
    void *copy;                 // compute dtype [matrix_count]; NULL in f32, where master is used
    int is_int8;                // 1: weights in int8, for inference: what they replace
    struct int8_weights int8;   // of master takes no memory, and there is no copy
    int is_packed;              // 1: the layers' matrices are packed, for inference (bert_pack)
    float *gradients;           // f32 [total]; NULL for inference, like the moments
    float *moment1, *moment2;   // f32 [partition.elements]
    struct partition partition; // whose moments this process holds; empty for inference
    struct partition own;       // what it writes of a checkpoint: its part, whatever the stage
    struct state_sharding sharding; // of inference: size 1
    int is_compared;                // 1: loading weights makes their digest, as in a divided state
    char digest[DIGEST_HEX_SIZE];   // of all weights, as they were loaded
};

// Bytes of each kind of buffer, for the plan.
struct state_bytes {
    size_t weights, copy, gradients, moments;
};
struct state_bytes state_measure(const struct param_table *table, enum dtype compute, int training);
// Of inference with weights in int8, which count as the copy.
struct state_bytes state_measure_int8(const struct param_table *table, struct device *device);
// What one rank's take in memory: `moments` of its part in stages 1 and 2, and so `weights` in a
// run with a compute copy, except head, tables and vectors, which all ranks read in f32;
// `gradients` in stage 2 of its part, of the range that is computed and of the one that is
// exchanged.
struct state_bytes state_measure_sharded(const struct param_table *table, enum dtype compute,
                                         const struct state_sharding *sharding);

// Takes the buffers, zeroed, of a process that trains alone, or for inference.
enum berth_status state_init(struct state *state, struct device *device,
                             const struct param_table *table, enum dtype compute, int training,
                             struct berth_error *error);
// For inference with weights in int8.
enum berth_status state_init_int8(struct state *state, struct device *device,
                                  const struct param_table *table, enum dtype compute,
                                  struct berth_error *error);
// The same for training by several ranks.
enum berth_status state_init_sharded(struct state *state, struct device *device,
                                     const struct param_table *table, enum dtype compute,
                                     const struct state_sharding *sharding,
                                     struct berth_error *error);
void state_done(struct state *state);

// That of the products of the encoder.
static inline enum dtype state_product_dtype(const struct state *state) {
    return state->is_int8 ? DTYPE_I8 : state->compute;
}

// The model that computes with these buffers.
struct bert state_model(const struct state *state, const struct bert_config *config);

// The compute copy as [1, matrix_count]; empty in f32.
struct mat state_copy(const struct state *state);

// Gives the host access to one of the f32 buffers [total]: the buffer itself if the device's memory
// is the host's, otherwise a copy, which is read from the device if `filled`. Call state_release
// afterwards.
enum berth_status state_borrow(const struct state *state, const float *buffer, int filled,
                               float **host, struct berth_error *error);
void state_release(const struct state *state, const float *buffer, float *host);

// All ranks compare the digests of their weights, which they read from `source`: files may differ
// from host to host, and ranks would then mix two models. BERTH_BAD_DATA on all of them
// (comm_settle).
enum berth_status state_compare_ranks(const struct state *state, struct comm *comm,
                                      const char *source, struct berth_error *error);

// Writes borrowed weights, changed by the caller, back to the device, and their compute copy; drops
// those that this rank does not keep.
void state_set_weights(struct state *state, const float *host);

// Loads the weights through a sink: each parameter's compute copy is written, and of its master
// weights this rank keeps what it reads, so memory for one parameter is enough beside those.
struct state_loader {
    struct state *state;
    const char *source; // of the weights, for messages; borrowed
    float *staging; // [bytes / 4] on the host, of the largest parameter; NULL: the device's memory
                    // is the host's
    size_t bytes;
};
// Bytes of staging memory; of weights in int8, the memory of master that they take while they are
// loaded.
size_t state_loader_bytes(const struct state *state);
// state_loader_done frees, also after a failure. The sink borrows the loader, which must not move.
// For training it refuses a weight that is not finite (BERTH_BAD_DATA), because no update mends it.
enum berth_status state_loader_init(struct state_loader *loader, struct state *state,
                                    const char *source, struct berth_error *error);
struct param_sink state_loader_sink(struct state_loader *loader);
// Called once all parameters are loaded. The weights of inference become those of int8, or packed.
enum berth_status state_loader_finish(struct state_loader *loader, const struct bert_config *config,
                                      struct berth_error *error);
void state_loader_done(struct state_loader *loader);

#endif
