// SPDX-License-Identifier: Apache-2.0
// GELU, its gradient, and column sums (the gradients of biases).
#ifndef BERTH_CPU_KERNELS_GELU_H
#define BERTH_CPU_KERNELS_GELU_H

#include "cpu/kernels/math.h"

static void gelu_forward(struct mat y, struct mat u, enum activation activation) {
    for (int64_t row = 0; row < u.rows; row++) {
        for (int64_t c = 0; c < u.cols; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, u.cols, KERNEL_COLUMNS);
            float x[KERNEL_COLUMNS];
            load(x, u, row, c, count);
            if (activation == ACTIVATION_GELU_ERF) {
#pragma omp simd
                for (int64_t i = 0; i < count; i++) {
                    x[i] = gelu_erf(x[i]);
                }
            } else {
#pragma omp simd
                for (int64_t i = 0; i < count; i++) {
                    x[i] = gelu_tanh(x[i]);
                }
            }
            store(y, row, c, x, count);
        }
    }
}

static void gelu_backward(struct mat du, struct mat u, enum activation activation, float *sums) {
    memset(sums, 0, (size_t)du.cols * sizeof *sums);
    for (int64_t row = 0; row < u.rows; row++) {
        for (int64_t c = 0; c < u.cols; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, u.cols, KERNEL_COLUMNS);
            float x[KERNEL_COLUMNS], g[KERNEL_COLUMNS];
            float *restrict sum = sums + c;
            load(x, u, row, c, count);
            load(g, du, row, c, count);
            if (activation == ACTIVATION_GELU_ERF) {
#pragma omp simd
                for (int64_t i = 0; i < count; i++) {
                    g[i] *= gelu_erf_slope(x[i]);
                }
            } else {
#pragma omp simd
                for (int64_t i = 0; i < count; i++) {
                    g[i] *= gelu_tanh_slope(x[i]);
                }
            }
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
