// SPDX-License-Identifier: Apache-2.0
// The operands of one layer's operations, and of the heads' and the optimizer's, for the
// measurements in bench_ops.c.
#ifndef BERTH_TRAIN_BENCH_LAYER_H
#define BERTH_TRAIN_BENCH_LAYER_H

#include "core/arena.h"
#include "core/device_batch.h"
#include "data/batches/packer.h"
#include "train/bench/bench_ops.h"

struct bench_layer {
    struct device *dev;
    struct bench_geometry g;
    struct arena memory; // device memory
    struct packer packer;
    struct device_batch device_batch;
    struct batch batch;     // on the device; 15 % of the tokens are masked
    int64_t masked, pooled; // rows of matrices with one row per masked token; per sequence

    struct mat x, x2, wide, wide2, qkv, dqkv, f32, f32_2, logits, dlogits, none;
    struct mat word_logits, dword_logits;    // [masked, V] f32 and in the compute dtype
    struct mat words;                        // [V, H] the word table, as the decoder's operand
    struct mat w, w_wide, w_back, w_qkv, dw; // weights [H, H], [I, H], [H, I], [3H, H]; dw has the
                                             // shape of any of them
    struct mat tables;                       // [V, H] f32
    float *rstd, *lse, *bias, *dbias, *losses, *word_bias, *pattern;
    float *optimizer[4];
    struct mat compute_copy, copy; // [1, parameter_count] for adamw, empty in f32; for convert
    int64_t parameter_count;
    struct device_range *range; // the whole table
    int64_t *blocks;            // [2], for the range
    double *sums;
    struct grad_stats *stats, *found;
    struct lamb_stats *lamb;
};

// Fills all operands of products with random numbers. Call bench_layer_close even on failure.
// Errors: out of memory, the device's.
enum berth_status bench_layer_open(struct bench_layer *b, struct device *dev,
                                   const struct bench_geometry *geometry,
                                   struct berth_error *error);
void bench_layer_close(struct bench_layer *b);

#endif
