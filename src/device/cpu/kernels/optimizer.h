// SPDX-License-Identifier: Apache-2.0
// The loops of an update over the flat buffers: conversions, the sum of squares and the optimizer's
// formulas, each with one pass over memory. cpu/optimizer.c calls them by blocks, so that sums have
// the same order on any number of threads.
#ifndef BERTH_CPU_KERNELS_OPTIMIZER_H
#define BERTH_CPU_KERNELS_OPTIMIZER_H

#include "device/cpu/kernels/math.h"

static void copy(struct mat to, struct mat from) {
    for (int64_t row = 0; row < from.rows; row++) {
        if (to.dtype == from.dtype) {
            copy_bytes(row_at(to, row, 0), row_at(from, row, 0),
                       (size_t)from.cols * dtype_size(from.dtype));
            continue;
        }
        for (int64_t c = 0; c < from.cols; c += KERNEL_COLUMNS) {
            int64_t count = chunk_length(c, from.cols, KERNEL_COLUMNS);
            float x[KERNEL_COLUMNS];
            load(x, from, row, c, count);
            store(to, row, c, x, count);
        }
    }
}

// Products of two floats are exact in double.
ALWAYS_INLINE double square_of(float x) {
    return (double)x * (double)x;
}

ALWAYS_INLINE double total_of(const double sums[SUM_LANES]) {
    double total = 0.0;
    for (int i = 0; i < SUM_LANES; i++) {
        total += sums[i];
    }
    return total;
}

static double sum_squares(const float *x, int64_t count) {
    double sums[SUM_LANES] = {0};
    int64_t i = 0;
    for (; i + SUM_LANES <= count; i += SUM_LANES) {
#pragma omp simd
        for (int lane = 0; lane < SUM_LANES; lane++) {
            sums[lane] += square_of(x[i + lane]);
        }
    }
    for (int lane = 0; i + lane < count; lane++) {
        sums[lane] += square_of(x[i + lane]);
    }
    return total_of(sums);
}

// The scalars of one update in the width of the loop.
struct adamw_factors {
    float gradient, decay_into_gradient, beta1, beta2, rest1, rest2, inverse1, inverse2;
    float epsilon, inner_epsilon; // added outside and inside the root
    float rate, decay;
};

static struct adamw_factors adamw_factors_of(const struct adamw_range *range, double factor) {
    const struct adamw_args *args = range->args;
    const double decay = range->weight_decay;
    return (struct adamw_factors){
        .gradient = (float)factor,
        .decay_into_gradient = args->l2_mode ? (float)decay : 0.0f,
        .beta1 = (float)args->beta1,
        .beta2 = (float)args->beta2,
        .rest1 = (float)(1.0 - args->beta1),
        .rest2 = (float)(1.0 - args->beta2),
        .inverse1 = (float)(1.0 / args->correction1),
        .inverse2 = (float)(1.0 / args->correction2),
        .epsilon = args->epsilon_inside_root ? 0.0f : (float)args->epsilon,
        .inner_epsilon = args->epsilon_inside_root ? (float)args->epsilon : 0.0f,
        .rate = (float)args->rate,
        .decay = args->l2_mode ? 0.0f : (float)decay,
    };
}

ALWAYS_INLINE void next_moments(const struct adamw_factors *f, float gradient, float *m, float *v) {
    *m = fused(f->beta1, *m, f->rest1 * gradient);
    *v = fused(f->beta2, *v, f->rest2 * gradient * gradient);
}

// The update to multiply by the rate: the quotient of the moments and the decoupled decay.
ALWAYS_INLINE float adamw_update(const struct adamw_factors *f, float p, float m, float v) {
    float root = sqrtf(fused(v, f->inverse2, f->inner_epsilon)) + f->epsilon;
    return fused(f->decay, p, m * f->inverse1 / root);
}

ALWAYS_INLINE void adamw_chunk(const struct adamw_factors *f, float *restrict p, float *restrict g,
                               float *restrict m, float *restrict v, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float gradient = fused(f->decay_into_gradient, p[i], g[i] * f->gradient);
        next_moments(f, gradient, &m[i], &v[i]);
        p[i] = fused(-f->rate, adamw_update(f, p[i], m[i], v[i]), p[i]);
        g[i] = 0.0f;
    }
}

// Elements processed at a time, to fit the caches.
#define ADAMW_CHUNK 1024

static void adamw(const struct adamw_range *range, double factor, int64_t first, int64_t last) {
    const struct adamw_factors f = adamw_factors_of(range, factor);
    for (int64_t i = first; i < last; i += ADAMW_CHUNK) {
        int64_t count = chunk_length(i, last, ADAMW_CHUNK);
        adamw_chunk(&f, range->parameters + i, range->gradients + i, range->first_moment + i,
                    range->second_moment + i, count);
        if (!mat_is_empty(range->compute)) {
            store(range->compute, 0, i, range->parameters + i, count);
        }
    }
}

// The moments of SUM_LANES elements or fewer, each of which belongs to one of the partial sums.
ALWAYS_INLINE void lamb_group(const struct adamw_factors *f, const float *restrict p,
                              float *restrict g, float *restrict m, float *restrict v,
                              int64_t count, double *restrict parameters,
                              double *restrict updates) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        next_moments(f, g[i] * f->gradient, &m[i], &v[i]);
        parameters[i] += square_of(p[i]);
        updates[i] += square_of(adamw_update(f, p[i], m[i], v[i]));
        g[i] = 0.0f;
    }
}

static void lamb_moments(const struct adamw_range *range, double factor, int64_t first,
                         int64_t last, double squares[2]) {
    const struct adamw_factors f = adamw_factors_of(range, factor);
    const float *restrict p = range->parameters;
    float *restrict g = range->gradients;
    float *restrict m = range->first_moment;
    float *restrict v = range->second_moment;
    double parameters[SUM_LANES] = {0}, updates[SUM_LANES] = {0};
    for (int64_t i = first; i < last; i += SUM_LANES) {
        if (last - i >= SUM_LANES) { // a compile-time constant
            lamb_group(&f, p + i, g + i, m + i, v + i, SUM_LANES, parameters, updates);
        } else {
            lamb_group(&f, p + i, g + i, m + i, v + i, last - i, parameters, updates);
        }
    }
    squares[0] = total_of(parameters);
    squares[1] = total_of(updates);
}

static void lamb_apply(const struct adamw_range *range, double rate, int64_t first, int64_t last) {
    const struct adamw_factors f = adamw_factors_of(range, 1.0);
    const float *restrict m = range->first_moment;
    const float *restrict v = range->second_moment;
    for (int64_t i = first; i < last; i += ADAMW_CHUNK) {
        const int64_t count = chunk_length(i, last, ADAMW_CHUNK);
        float *restrict p = range->parameters + i;
#pragma omp simd
        for (int64_t j = 0; j < count; j++) {
            p[j] = fused(-(float)rate, adamw_update(&f, p[j], m[i + j], v[i + j]), p[j]);
        }
        if (!mat_is_empty(range->compute)) {
            store(range->compute, 0, i, p, count);
        }
    }
}

#endif
