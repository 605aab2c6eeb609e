// SPDX-License-Identifier: Apache-2.0
// GELU, its gradient, and column sums (the gradients of biases).
#ifndef BERTH_CPU_KERNELS_GELU_H
#define BERTH_CPU_KERNELS_GELU_H

#include "cpu/kernels/math.h"

// Pieces of rows are computed in whole vectors: what lies past `count` is defined, and left alone.
ALWAYS void gelu_piece(float *restrict x, int64_t count, enum activation activation) {
    for (int64_t v = 0; v < count; v += LANES) {
        float *restrict lane = x + v;
        if (activation == ACTIVATION_GELU_ERF) {
#pragma omp simd
            for (int i = 0; i < LANES; i++) {
                lane[i] = gelu_erf(lane[i]);
            }
        } else {
#pragma omp simd
            for (int i = 0; i < LANES; i++) {
                lane[i] = gelu_tanh(lane[i]);
            }
        }
    }
}

// g *= gelu'(x)
ALWAYS void gelu_slope_piece(float *restrict g, const float *restrict x, int64_t count,
                             enum activation activation) {
    for (int64_t v = 0; v < count; v += LANES) {
        const float *restrict from = x + v;
        float *restrict lane = g + v;
        if (activation == ACTIVATION_GELU_ERF) {
#pragma omp simd
            for (int i = 0; i < LANES; i++) {
                lane[i] *= gelu_erf_slope(from[i]);
            }
        } else {
#pragma omp simd
            for (int i = 0; i < LANES; i++) {
                lane[i] *= gelu_tanh_slope(from[i]);
            }
        }
    }
}

static void gelu_forward(struct mat y, struct mat u, enum activation activation) {
    float x[KERNEL_COLUMNS] = {0};
    for (int64_t row = 0; row < u.rows; row++) {
        for (int64_t c = 0; c < u.cols; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, u.cols, KERNEL_COLUMNS);
            load(x, u, row, c, count);
            gelu_piece(x, count, activation);
            store(y, row, c, x, count);
        }
    }
}

static void gelu_backward(struct mat du, struct mat u, enum activation activation, float *sums) {
    float x[KERNEL_COLUMNS] = {0}, g[KERNEL_COLUMNS] = {0};
    memset(sums, 0, (size_t)du.cols * sizeof *sums);
    for (int64_t row = 0; row < u.rows; row++) {
        for (int64_t c = 0; c < u.cols; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, u.cols, KERNEL_COLUMNS);
            float *restrict sum = sums + c;
            load(x, u, row, c, count);
            load(g, du, row, c, count);
            gelu_slope_piece(g, x, count, activation);
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                sum[i] += g[i];
            }
            store(du, row, c, g, count);
        }
    }
}

static void column_sums(struct mat x, float *sums) {
    memset(sums, 0, (size_t)x.cols * sizeof *sums);
    for (int64_t row = 0; row < x.rows; row++) {
        for (int64_t c = 0; c < x.cols; c += KERNEL_COLUMNS) {
            load_added(sums + c, x, row, c, piece(c, x.cols, KERNEL_COLUMNS));
        }
    }
}

static void add(float *restrict total, const float *restrict x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        total[i] += x[i];
    }
}

#endif
