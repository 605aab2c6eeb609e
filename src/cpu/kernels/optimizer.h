// SPDX-License-Identifier: Apache-2.0
// Conversions, the sum of squares and the optimizer's update: one pass over memory each.
#ifndef BERTH_CPU_KERNELS_OPTIMIZER_H
#define BERTH_CPU_KERNELS_OPTIMIZER_H

#include "cpu/kernels/math.h"

static void copy(struct mat to, struct mat from) {
    for (int64_t row = 0; row < from.rows; row++) {
        if (to.dtype == from.dtype) {
            copy_bytes(row_at(to, row, 0), row_at(from, row, 0),
                       (size_t)from.cols * dtype_size(from.dtype));
            continue;
        }
        for (int64_t c = 0; c < from.cols; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, from.cols, KERNEL_COLUMNS);
            float x[KERNEL_COLUMNS];
            load(x, from, row, c, count);
            store(to, row, c, x, count);
        }
    }
}

static double sum_squares(const float *x, int64_t count) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

// The scalars of one update in the width of the loop.
struct adamw_factors {
    float gradient, decay_into_gradient, beta1, beta2, rest1, rest2, inverse1, inverse2, epsilon;
    float rate, decay;
};

ALWAYS void adamw_piece(const struct adamw_factors *f, float *restrict p, float *restrict g,
                        float *restrict m, float *restrict v, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float gradient = g[i] * f->gradient + f->decay_into_gradient * p[i];
        m[i] = f->beta1 * m[i] + f->rest1 * gradient;
        v[i] = f->beta2 * v[i] + f->rest2 * gradient * gradient;
        float step = m[i] * f->inverse1 / (sqrtf(v[i] * f->inverse2) + f->epsilon);
        p[i] -= f->rate * (step + f->decay * p[i]);
        g[i] = 0.0f;
    }
}

static void adamw(const struct adamw_args *args, double factor, int64_t first, int64_t last) {
    const double decay = args->weight_decay;
    const struct adamw_factors f = {
        .gradient = (float)factor,
        .decay_into_gradient = args->l2_mode ? (float)decay : 0.0f,
        .beta1 = (float)args->beta1,
        .beta2 = (float)args->beta2,
        .rest1 = (float)(1.0 - args->beta1),
        .rest2 = (float)(1.0 - args->beta2),
        .inverse1 = (float)(1.0 / args->correction1),
        .inverse2 = (float)(1.0 / args->correction2),
        .epsilon = (float)args->epsilon,
        .rate = (float)args->learning_rate,
        .decay = args->l2_mode ? 0.0f : (float)decay,
    };
    for (int64_t i = first; i < last; i += 1024) {
        int64_t count = piece(i, last, 1024);
        adamw_piece(&f, args->parameters + i, args->gradients + i, args->first_moment + i,
                    args->second_moment + i, count);
        if (!mat_is_empty(args->compute)) {
            store(args->compute, 0, i, args->parameters + i, count);
        }
    }
}

#endif
