// SPDX-License-Identifier: Apache-2.0
// The parts of attention between its matrix products. Padding columns of the square matrices hold
// anything on input and are zero in what is written; padding rows are the caller's affair.
#ifndef BERTH_CPU_KERNELS_SOFTMAX_H
#define BERTH_CPU_KERNELS_SOFTMAX_H

#include "cpu/kernels/dropout.h"

ALWAYS float scaled_maximum(const float *scores, int64_t count, float scale) {
    float most = -INFINITY;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < count; i++) {
        most = scores[i] > most ? scores[i] : most;
    }
    return most * scale;
}

ALWAYS float exp_sum(const float *scores, int64_t count, float scale, float shift) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        sum += exp_of(scores[i] * scale - shift);
    }
    return sum;
}

// p = exp(scale * scores - shift)
ALWAYS void exp_row(float *restrict p, const float *restrict scores, int64_t count, float scale,
                    float shift) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        p[i] = exp_of(scores[i] * scale - shift);
    }
}

ALWAYS void attention_factors(float factor[KERNEL_COLUMNS], const struct attention_rows *rows,
                              int64_t row, int64_t column) {
    dropout_factors(factor, rows->dropout, rows->head, rows->place, (int32_t)row, column);
}

ALWAYS void zero_tail(struct mat m, int64_t row, int64_t from, int64_t to) {
    if (to > from) {
        memset(row_at(m, row, from), 0, (size_t)(to - from) * dtype_size(m.dtype));
    }
}

static void softmax_forward(const struct attention_rows *rows, void *probabilities,
                            const float *scores, float *lse, int64_t lse_stride) {
    const struct mat out = {probabilities, rows->last, rows->padded, rows->stride, rows->dtype};
    const int drop = rows->dropout->threshold != 0;
    for (int64_t row = rows->first; row < rows->last; row++) {
        const float *s = scores + row * rows->stride;
        float most = scaled_maximum(s, rows->length, rows->scale);
        float shift = most + logf(exp_sum(s, rows->length, rows->scale, most));
        if (lse != NULL) {
            lse[row * lse_stride] = shift;
        }
        for (int64_t c = 0; c < rows->length; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, rows->length, KERNEL_COLUMNS);
            float p[KERNEL_COLUMNS], factor[KERNEL_COLUMNS];
            exp_row(p, s + c, count, rows->scale, shift);
            if (drop) {
                attention_factors(factor, rows, row, c);
#pragma omp simd
                for (int64_t i = 0; i < count; i++) {
                    p[i] *= factor[i];
                }
            }
            store(out, row, c, p, count);
        }
        zero_tail(out, row, rows->length, rows->padded);
    }
}

static void softmax_backward(const struct attention_rows *rows, void *probabilities, void *dscores,
                             const float *scores, const float *dprobabilities, const float *lse,
                             int64_t lse_stride, const float *delta) {
    const struct mat out = {probabilities, rows->last, rows->padded, rows->stride, rows->dtype};
    const struct mat ds_out = {dscores, rows->last, rows->padded, rows->stride, rows->dtype};
    const int drop = rows->dropout->threshold != 0;
    for (int64_t row = rows->first; row < rows->last; row++) {
        const float *s = scores + row * rows->stride, *dp = dprobabilities + row * rows->stride;
        const float row_delta = delta[row], scale = rows->scale;
        for (int64_t c = 0; c < rows->length; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, rows->length, KERNEL_COLUMNS);
            float p[KERNEL_COLUMNS], ds[KERNEL_COLUMNS], factor[KERNEL_COLUMNS];
            exp_row(p, s + c, count, scale, lse[row * lse_stride]);
            if (drop) {
                attention_factors(factor, rows, row, c);
#pragma omp simd
                for (int64_t i = 0; i < count; i++) {
                    ds[i] = scale * p[i] * (dp[c + i] * factor[i] - row_delta);
                    p[i] *= factor[i];
                }
            } else {
#pragma omp simd
                for (int64_t i = 0; i < count; i++) {
                    ds[i] = scale * p[i] * (dp[c + i] - row_delta);
                }
            }
            store(out, row, c, p, count);
            store(ds_out, row, c, ds, count);
        }
        zero_tail(out, row, rows->length, rows->padded);
        zero_tail(ds_out, row, rows->length, rows->padded);
    }
}

static void row_dots(float *sums, struct mat x, struct mat y) {
    for (int64_t row = 0; row < x.rows; row++) {
        float sum = 0.0f;
        for (int64_t c = 0; c < x.cols; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, x.cols, KERNEL_COLUMNS);
            float a[KERNEL_COLUMNS], b[KERNEL_COLUMNS];
            load(a, x, row, c, count);
            load(b, y, row, c, count);
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < count; i++) {
                sum += a[i] * b[i];
            }
        }
        sums[row] = sum;
    }
}

#endif
