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
    float lane[LANES];
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
    return most_of_lanes(lane);
}

// p = exp(scale * scores - shift), added to the lanes of the sum. p may be the memory of the
// scores.
ALWAYS void exp_piece(float *p, const float *scores, int64_t count, float scale, float shift,
                      float lane[LANES]) {
    for (int64_t v = 0; v < count; v += LANES) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            float e = exp_negative(scores[v + i] * scale - shift);
            lane[i] += e;
            p[v + i] = e;
        }
    }
}

ALWAYS void attention_factors(float factor[KERNEL_COLUMNS], const struct attention_rows *rows,
                              int64_t row, int64_t column) {
    dropout_factors(factor, rows->dropout, rows->head, rows->place, (int32_t)(rows->first + row),
                    column);
}

// The row's probabilities after the dropout, from its exponentials.
ALWAYS void keep_row(struct mat out, int64_t row, const float *e, const struct attention_rows *rows,
                     float inverse) {
    for (int64_t c = 0; c < rows->length; c += KERNEL_COLUMNS) {
        const int64_t count = piece(c, rows->length, KERNEL_COLUMNS);
        float p[KERNEL_COLUMNS], factor[KERNEL_COLUMNS];
        if (rows->dropout->threshold != 0) {
            attention_factors(factor, rows, row, c);
        } else {
            for (int i = 0; i < KERNEL_COLUMNS; i++) {
                factor[i] = 1.0f;
            }
        }
        for (int64_t v = 0; v < count; v += LANES) {
#pragma omp simd
            for (int i = 0; i < LANES; i++) {
                p[v + i] = e[c + v + i] * inverse * factor[v + i];
            }
        }
        store(out, row, c, p, lanes_of(count));
    }
}

// Rows whose steps are computed side by side: each step of a row waits for the step before.
#define SOFTMAX_ROWS 8

static void softmax_group(const struct attention_rows *rows, struct mat out, float *scores,
                          float *lse, int64_t lse_stride, int64_t first, int64_t last) {
    float most[SOFTMAX_ROWS], lanes[SOFTMAX_ROWS][LANES] = {{0}};
    for (int64_t row = first; row < last; row++) {
        float *s = scores + row * rows->stride;
        mask_tail(s, rows->length);
        most[row - first] = maximum(s, rows->length) * rows->scale;
    }
    for (int64_t row = first; row < last; row++) {
        float *s = scores + row * rows->stride;
        exp_piece(s, s, rows->length, rows->scale, most[row - first], lanes[row - first]);
    }
    for (int64_t row = first; row < last; row++) {
        const float sum = sum_of_lanes(lanes[row - first]);
        if (lse != NULL) {
            lse[row * lse_stride] = most[row - first] + logf(sum);
        }
        keep_row(out, row, scores + row * rows->stride, rows, 1.0f / sum);
    }
}

static void softmax_forward(const struct attention_rows *rows, void *probabilities, float *scores,
                            float *lse, int64_t lse_stride) {
    const struct mat out = {probabilities, rows->count, rows->stride, rows->stride, rows->dtype};
    for (int64_t row = 0; row < rows->count; row += SOFTMAX_ROWS) {
        softmax_group(rows, out, scores, lse, lse_stride, row,
                      row + piece(row, rows->count, SOFTMAX_ROWS));
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
    const struct mat out = {probabilities, rows->count, rows->stride, rows->stride, rows->dtype};
    const struct mat ds_out = {dscores, rows->count, rows->stride, rows->stride, rows->dtype};
    for (int64_t row = 0; row < rows->count; row++) {
        float *s = scores + row * rows->stride;
        const float *dp = dprobabilities + row * rows->stride;
        mask_tail(s, rows->length);
        for (int64_t c = 0; c < rows->length; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, rows->length, KERNEL_COLUMNS);
            float p[KERNEL_COLUMNS], ds[KERNEL_COLUMNS], factor[KERNEL_COLUMNS],
                unused[LANES] = {0};
            exp_piece(p, s + c, count, rows->scale, lse[row * lse_stride], unused);
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
