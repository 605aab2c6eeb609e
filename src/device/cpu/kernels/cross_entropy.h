// SPDX-License-Identifier: Apache-2.0
// The cross entropy over the columns of a row and its gradient, from two classes to a whole
// vocabulary, in vectors. cpu/loss.c calls it for each row and chooses the weights and labels.
#ifndef BERTH_CPU_KERNELS_CROSS_ENTROPY_H
#define BERTH_CPU_KERNELS_CROSS_ENTROPY_H

#include "device/cpu/kernels/math.h"

// Loads `count` columns of a row into x; what they lack of SUM_LANES is so low that it adds
// nothing.
ALWAYS_INLINE void load_logits(float *restrict x, struct mat logits, int64_t row, int64_t column,
                               int64_t count) {
    load(x, logits, row, column, count);
    for (int64_t i = count; i % SUM_LANES != 0; i++) {
        x[i] = -1e30f;
    }
}

ALWAYS_INLINE float largest_logit(struct mat logits, int64_t row) {
    float lane[SUM_LANES], x[KERNEL_COLUMNS], max = -1e30f;
    for (int i = 0; i < SUM_LANES; i++) {
        lane[i] = -1e30f;
    }
    for (int64_t c = 0; c < logits.cols; c += KERNEL_COLUMNS) {
        const int64_t count = chunk_length(c, logits.cols, KERNEL_COLUMNS);
        load_logits(x, logits, row, c, count);
        for (int64_t v = 0; v < count; v += SUM_LANES) {
#pragma omp simd
            for (int i = 0; i < SUM_LANES; i++) {
                lane[i] = lane[i] > x[v + i] ? lane[i] : x[v + i];
            }
        }
    }
    for (int i = 0; i < SUM_LANES; i++) {
        max = lane[i] > max ? lane[i] : max;
    }
    return max;
}

// The sum of exp(x - shift) over a row, in double: near 1 its digits determine a small loss.
ALWAYS_INLINE double sum_of_exps(struct mat logits, int64_t row, float shift) {
    float x[KERNEL_COLUMNS];
    double lane[SUM_LANES] = {0}, sum = 0.0;
    for (int64_t c = 0; c < logits.cols; c += KERNEL_COLUMNS) {
        const int64_t count = chunk_length(c, logits.cols, KERNEL_COLUMNS);
        load_logits(x, logits, row, c, count);
        for (int64_t v = 0; v < count; v += SUM_LANES) {
#pragma omp simd
            for (int i = 0; i < SUM_LANES; i++) {
                lane[i] += (double)exp_negative(x[v + i] - shift);
            }
        }
    }
    for (int i = 0; i < SUM_LANES; i++) {
        sum += lane[i];
    }
    return sum;
}

// gradient = factor * exp(logits - shift) for a row. Chunks are read before they are written: the
// gradient may be in the logits' memory.
ALWAYS_INLINE void scaled_exps(struct mat gradient, struct mat logits, int64_t row, float shift,
                               float factor) {
    float x[KERNEL_COLUMNS];
    for (int64_t c = 0; c < logits.cols; c += KERNEL_COLUMNS) {
        const int64_t count = chunk_length(c, logits.cols, KERNEL_COLUMNS);
        load_logits(x, logits, row, c, count);
        for (int64_t v = 0; v < count; v += SUM_LANES) {
#pragma omp simd
            for (int i = 0; i < SUM_LANES; i++) {
                x[v + i] = factor * exp_negative(x[v + i] - shift);
            }
        }
        store(gradient, row, c, x, count);
    }
}

static void zero_row(struct mat m, int64_t row) {
    memset(row_at(m, row, 0), 0, (size_t)m.cols * dtype_size(m.dtype));
}

static double cross_entropy(struct mat dlogits, struct mat logits, int64_t row, int32_t label,
                            float scale) {
    if (label < 0 || label >= logits.cols) {
        if (!mat_is_empty(dlogits)) {
            zero_row(dlogits, row);
        }
        return 0.0;
    }
    const float max = largest_logit(logits, row);
    const double sum = sum_of_exps(logits, row, max);
    float wanted;
    load(&wanted, logits, row, label, 1);
    if (!mat_is_empty(dlogits)) {
        scaled_exps(dlogits, logits, row, max, (float)((double)scale / sum));
        // p - 1 from the sum of the others, which keeps its digits where p is nearly 1.
        const double others = sum - (double)exp_negative(wanted - max);
        const float slope = (float)(-(double)scale * others / sum);
        store(dlogits, row, label, &slope, 1);
    }
    return (double)max + math_log(sum) - (double)wanted;
}

#endif
