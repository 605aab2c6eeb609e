// SPDX-License-Identifier: Apache-2.0
// The weights of a model in int8, for inference: the matrices of the layers and the word table, in
// one block of device memory. Everything else stays in the f32 buffer of params.h.
#ifndef BERTH_MODEL_INT8_H
#define BERTH_MODEL_INT8_H

#include "core/error.h"
#include "device/device.h"
#include "model/params.h"
#include "model/weights.h"

struct int8_layer {
    struct int8_matrix qkv, attention, intermediate, output;
};

// The word table may be that of the model's file, where the device is the host.
struct int8_weights {
    struct device *device;
    const struct param_table *table;
    struct int8_layer *layers; // [table->layer_count]
    struct mat words;          // [V, H] i8
    float *word_scales;        // [V, int8_groups(H)] of core/int8.h
    void *block;
    size_t bytes;
    struct weight_integers mapped;
};

// Bytes of the block.
size_t int8_weights_bytes(struct device *device, const struct param_table *table);
// The number of f32 elements that a model with int8 weights does not need.
int64_t int8_replaced_elements(const struct param_table *table);
// Allocates the memory; int8_weights_done frees it, also after a failure.
enum berth_status int8_weights_init(struct int8_weights *weights, struct device *device,
                                    const struct param_table *table, struct berth_error *error);
void int8_weights_done(struct int8_weights *weights);
// Gives the table of positions, which stays in f32, the numbers that int8 has for it: those of a
// file in int8 (api/convert_int8.c).
enum berth_status int8_weights_round(const struct int8_weights *weights, const struct param *param,
                                     float *values, struct berth_error *error);
// Quantizes a parameter; 0: it stays in f32. `values` are in host memory.
int int8_weights_set(struct int8_weights *weights, const struct param *param, const float *values);
// Uses a parameter's integers in its file, the word table without a copy; 0: it does not, so that
// the parameter has to be set.
int int8_weights_take(struct int8_weights *weights, const struct param *param,
                      const struct weights *file, const struct weight *weight);
// Called once, after all parameters have been set; `master` is the buffer with those that stay in
// f32. Finds the wide columns (device/device.h) without any data. The wide inputs of an
// intermediate layer are those with the largest weights in the norm before it. The outliers of the
// residual stream are in about the same columns one norm later, so the next layer's query, key and
// value use these as well. Those of the first layer are the columns with the largest values among
// the normalised embeddings of one word in 31.
enum berth_status int8_weights_finish(struct int8_weights *weights, const float *master,
                                      struct berth_error *error);

#endif
