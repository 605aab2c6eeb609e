// SPDX-License-Identifier: Apache-2.0
// One pass over a batch, shared by encoder (bert.c) and heads (heads.c): the used rows of every
// buffer, weights and gradients by offset, and dropout by site.
#ifndef BERTH_MODEL_PASS_H
#define BERTH_MODEL_PASS_H

#include "model/activations.h"
#include "model/architectures.h"

#include <assert.h>

// The state of one forward or backward pass.
struct pass {
    const struct bert *model;
    struct bert_activations *activations;
    const struct batch *batch;
    const struct bert_dropout *dropout;
    const struct batch *head; // the rows that the head reads: `batch`, or some of its rows
};

// The rows of a buffer that this batch uses.
static inline struct mat used(const struct pass *pass, struct mat buffer) {
    return mat_is_empty(buffer) ? buffer : mat_rows(buffer, 0, pass->batch->row_count);
}

static inline struct mat used_operand(const struct pass *pass, const struct norm_buffers *norm) {
    return used(pass, norm_operand(norm));
}

static inline struct mat weight(const struct bert *model, int64_t offset, int64_t rows,
                                int64_t cols) {
    assert(offset + rows * cols <= model->table->matrix_count);
    char *data = (char *)model->weights.compute + (size_t)offset * dtype_size(model->compute);
    return mat_of(data, rows, cols, model->compute);
}

static inline const float *vector(const struct bert *model, int64_t offset) {
    return model->weights.master + offset;
}

// A matrix of master weights.
static inline struct mat table(const struct bert *model, int64_t offset, int64_t rows,
                               int64_t cols) {
    return mat_of((void *)vector(model, offset), rows, cols, DTYPE_F32);
}

static inline float *gradient(const struct bert *model, int64_t offset) {
    return model->weights.gradients + offset;
}

static inline struct mat gradient_mat(const struct bert *model, int64_t offset, int64_t rows,
                                      int64_t cols) {
    return mat_of(gradient(model, offset), rows, cols, DTYPE_F32);
}

static inline struct dropout dropout_at(const struct pass *pass, enum rng_site site,
                                        int64_t layer) {
    const struct bert_dropout *dropout = pass->dropout;
    if (!dropout) {
        return (struct dropout){.site = site};
    }
    const int is_kept = site == RNG_SITE_ATTENTION_OUTPUT &&
                        bert_architecture(pass->model->config)->attention_output_is_kept;
    double probability = is_kept                      ? 0
                         : site == RNG_SITE_ATTENTION ? dropout->attention_probability
                         : site == RNG_SITE_HEAD      ? dropout->head_probability
                                                      : dropout->hidden_probability;
    return (struct dropout){
        .seed = dropout->seed,
        .step = dropout->step,
        .layer = (uint32_t)layer,
        .site = site,
        .threshold = rng_dropout_threshold(probability),
    };
}

// The input of layer `index`, which is the output of the previous one; for index = L the input of
// the head.
static inline const struct norm_buffers *layer_input(const struct bert_activations *activations,
                                                     int64_t index) {
    return index > 0                      ? &activations->layers[index - 1].output_norm
           : activations->has_first_input ? &activations->first_input
                                          : &activations->embedding;
}

static inline struct mat last_output(const struct pass *pass) {
    return used(pass, layer_input(pass->activations, pass->model->config->num_hidden_layers)->y);
}

#endif
