// SPDX-License-Identifier: Apache-2.0
// The parts of attention between its matrix products. Rows are computed in whole vectors: values
// past the length are finite and are multiplied only with zero rows of the other operand. The
// caller handles padding rows.
#ifndef BERTH_CPU_KERNELS_SOFTMAX_H
#define BERTH_CPU_KERNELS_SOFTMAX_H

#include "cpu/kernels/dropout.h"

// Sets the scores past the length far below the others.
ALWAYS void mask_tail(float *scores, int64_t length) {
    for (int64_t i = length; i < lanes_of(length); i++) {
        scores[i] = -1e30f;
    }
}

ALWAYS float maximum(const float *x, int64_t count) {
    float lane[LANES], most = -INFINITY;
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        lane[i] = x[i];
    }
    for (int64_t v = LANES; v < count; v += LANES) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            lane[i] = lane[i] > x[v + i] ? lane[i] : x[v + i];
        }
    }
    for (int i = 0; i < LANES; i++) {
        most = lane[i] > most ? lane[i] : most;
    }
    return most;
}

// p = exp(scale * scores - shift); returns the sum. p may be the memory of the scores.
ALWAYS float exp_row(float *p, const float *scores, int64_t count, float scale, float shift) {
    float lane[LANES] = {0}, sum = 0.0f;
    for (int64_t v = 0; v < count; v += LANES) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            float e = exp_negative(scores[v + i] * scale - shift);
            lane[i] += e;
            p[v + i] = e;
        }
    }
    for (int i = 0; i < LANES; i++) {
        sum += lane[i];
    }
    return sum;
}

ALWAYS void attention_factors(float factor[KERNEL_COLUMNS], const struct attention_rows *rows,
                              int64_t row, int64_t column) {
    dropout_factors(factor, rows->dropout, rows->head, rows->place, (int32_t)row, column);
}

static void softmax_forward(const struct attention_rows *rows, void *probabilities, float *scores,
                            float *lse, int64_t lse_stride) {
    const struct mat out = {probabilities, rows->last, rows->stride, rows->stride, rows->dtype};
    const int drop = rows->dropout->threshold != 0;
    for (int64_t row = rows->first; row < rows->last; row++) {
        float *s = scores + row * rows->stride;
        mask_tail(s, rows->length);
        const float most = maximum(s, rows->length) * rows->scale;
        const float sum = exp_row(s, s, rows->length, rows->scale, most);
        if (lse != NULL) {
            lse[row * lse_stride] = most + logf(sum);
        }
        const float inverse = 1.0f / sum;
        for (int64_t c = 0; c < rows->length; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, rows->length, KERNEL_COLUMNS);
            float p[KERNEL_COLUMNS], factor[KERNEL_COLUMNS];
            if (drop) {
                attention_factors(factor, rows, row, c);
            }
            for (int64_t v = 0; v < count; v += LANES) {
#pragma omp simd
                for (int i = 0; i < LANES; i++) {
                    p[v + i] = s[c + v + i] * inverse * (drop ? factor[v + i] : 1.0f);
                }
            }
            store(out, row, c, p, lanes_of(count));
        }
    }
}

// p becomes dropout(p) and ds the gradient of the scores, for `count` columns.
ALWAYS void softmax_slope(float *restrict ds, float *restrict p, const float *restrict dp,
                          const float *restrict factor, int64_t count, float scale, float delta) {
    for (int64_t v = 0; v < count; v += LANES) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            float keep = factor != NULL ? factor[v + i] : 1.0f;
            ds[v + i] = scale * p[v + i] * (dp[v + i] * keep - delta);
            p[v + i] *= keep;
        }
    }
}

static void softmax_backward(const struct attention_rows *rows, void *probabilities, void *dscores,
                             float *scores, const float *dprobabilities, const float *lse,
                             int64_t lse_stride, const float *delta) {
    const struct mat out = {probabilities, rows->last, rows->stride, rows->stride, rows->dtype};
    const struct mat ds_out = {dscores, rows->last, rows->stride, rows->stride, rows->dtype};
    for (int64_t row = rows->first; row < rows->last; row++) {
        float *s = scores + row * rows->stride;
        const float *dp = dprobabilities + row * rows->stride;
        mask_tail(s, rows->length);
        for (int64_t c = 0; c < rows->length; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, rows->length, KERNEL_COLUMNS);
            float p[KERNEL_COLUMNS], ds[KERNEL_COLUMNS], factor[KERNEL_COLUMNS];
            exp_row(p, s + c, count, rows->scale, lse[row * lse_stride]);
            if (rows->dropout->threshold != 0) {
                attention_factors(factor, rows, row, c);
                softmax_slope(ds, p, dp + c, factor, count, rows->scale, delta[row]);
            } else {
                softmax_slope(ds, p, dp + c, NULL, count, rows->scale, delta[row]);
            }
            store(out, row, c, p, lanes_of(count));
            store(ds_out, row, c, ds, lanes_of(count));
        }
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
