// SPDX-License-Identifier: Apache-2.0
// The parts of attention between its matrix products. Rows are computed in whole vectors: results
// past the length are finite and are multiplied only with zero rows of the other operand. The
// caller handles padding rows.
#ifndef BERTH_CPU_KERNELS_SOFTMAX_H
#define BERTH_CPU_KERNELS_SOFTMAX_H

#include "cpu/kernels/dropout.h"

#define LOG2_E 1.44269504088896341f

// Rows whose steps are computed side by side: each step of a row waits for the step before.
#define SOFTMAX_ROWS 8

// The rows of a group, and what the passes over them share.
struct softmax_group {
    const struct attention_rows *rows;
    int64_t first, count;        // rows of the matrices
    float scale;                 // scores to exponents of 2
    float shift[SOFTMAX_ROWS];   // subtracted from these
    float inverse[SOFTMAX_ROWS]; // of the sum of the powers
};

// Far below all other scores.
#define NO_SCORE (-1e30f)

// Sets what a row holds past the length: nothing was written there.
ALWAYS void set_tail(float *row, int64_t length, float value) {
    const int64_t whole = length / LANES * LANES;
    if (whole < length) {
        lanes_store(row + whole, lanes_first(lanes_load(row + whole), length - whole, value));
    }
}

ALWAYS float row_most(const float *scores, int64_t length) {
    lanes most = lanes_load(scores);
    for (int64_t c = LANES; c < length; c += LANES) {
        most = lanes_larger(lanes_load(scores + c), most);
    }
    return lanes_most(most);
}

// The powers replace the scores; returns their sum.
ALWAYS float row_powers(float *scores, int64_t length, float scale, float shift) {
    lanes sum = {0};
    for (int64_t c = 0; c < length; c += LANES) {
        const lanes power = lanes_exp2(lanes_load(scores + c) * scale - shift);
        sum += power;
        lanes_store(scores + c, power);
    }
    return lanes_sum(sum);
}

// Which of the columns [column, column + KERNEL_COLUMNS) of each row the dropout keeps.
ALWAYS void group_bits(uint16_t kept[SOFTMAX_ROWS][KERNEL_COLUMNS / LANES],
                       const struct softmax_group *group, int64_t column) {
    const struct attention_rows *rows = group->rows;
    const struct dropout_columns columns =
        dropout_columns(rows->dropout, rows->head, rows->place, column);
    const int32_t position = (int32_t)(rows->first + group->first);
    for (int64_t i = 0; i < group->count; i += DRAWN_ROWS) { // SOFTMAX_ROWS is a multiple
        dropout_bits(&kept[i], &columns, position + (int32_t)i, DRAWN_ROWS);
    }
}

ALWAYS float keep_scale(const struct attention_rows *rows) {
    return rows->dropout->threshold == 0 ? 1.0f : rng_dropout_scale(rows->dropout->threshold);
}

ALWAYS lanes keep(lanes x, const uint16_t *kept, int64_t column, int drops) {
    return drops ? lanes_kept(x, kept[column / LANES]) : x;
}

// The probabilities after the dropout, from the powers.
ALWAYS void group_probabilities(const struct softmax_group *group, struct mat out,
                                const float *powers, int drops, enum dtype dtype) {
    const int64_t length = group->rows->length, stride = group->rows->stride;
    const float factor = keep_scale(group->rows);
    for (int64_t column = 0; column < length; column += KERNEL_COLUMNS) {
        uint16_t kept[SOFTMAX_ROWS][KERNEL_COLUMNS / LANES];
        if (drops) {
            group_bits(kept, group, column);
        }
        const int64_t count = piece(column, length, KERNEL_COLUMNS);
        for (int64_t i = 0; i < group->count; i++) {
            const float *from = powers + (group->first + i) * stride + column;
            const float inverse = group->inverse[i] * factor;
            for (int64_t c = 0; c < count; c += LANES) {
                const lanes p = keep(lanes_load(from + c) * inverse, kept[i], c, drops);
                lanes_to(row_at(out, group->first + i, column + c), p, dtype, LANES);
            }
        }
    }
}

ALWAYS void forward_group(struct softmax_group *group, struct mat out, float *scores, float *lse,
                          int64_t lse_stride) {
    const struct attention_rows *rows = group->rows;
    for (int64_t i = 0; i < group->count; i++) {
        float *s = scores + (group->first + i) * rows->stride;
        set_tail(s, rows->length, NO_SCORE);
        group->shift[i] = row_most(s, rows->length) * group->scale;
    }
    float sums[LANES], logarithms[LANES];
    lanes_store(sums, lanes_all(1.0f));
    for (int64_t i = 0; i < group->count; i++) {
        float *s = scores + (group->first + i) * rows->stride;
        sums[i] = row_powers(s, rows->length, group->scale, group->shift[i]);
        group->inverse[i] = 1.0f / sums[i];
    }
    lanes_store(logarithms, lanes_log(lanes_load(sums)));
    for (int64_t i = 0; i < group->count && lse != NULL; i++) {
        lse[(group->first + i) * lse_stride] = group->shift[i] / LOG2_E + logarithms[i];
    }
    const int drops = rows->dropout->threshold != 0;
    if (rows->dtype == DTYPE_F32) {
        group_probabilities(group, out, scores, drops, DTYPE_F32);
    } else if (drops) {
        group_probabilities(group, out, scores, 1, DTYPE_BF16);
    } else {
        group_probabilities(group, out, scores, 0, DTYPE_BF16);
    }
}

ALWAYS struct softmax_group group_of(const struct attention_rows *rows, int64_t first) {
    return (struct softmax_group){.rows = rows,
                                  .first = first,
                                  .count = piece(first, rows->count, SOFTMAX_ROWS),
                                  .scale = rows->scale * LOG2_E};
}

static void softmax_forward(const struct attention_rows *rows, void *probabilities, float *scores,
                            float *lse, int64_t lse_stride) {
    const struct mat out = {probabilities, rows->count, rows->stride, rows->stride, rows->dtype};
    for (int64_t row = 0; row < rows->count; row += SOFTMAX_ROWS) {
        struct softmax_group group = group_of(rows, row);
        forward_group(&group, out, scores, lse, lse_stride);
    }
}

// Where the backward pass of a group reads and writes.
struct softmax_slopes {
    struct mat p, ds;
    float *scores, *dp; // replaced by P, and by dPd where it is kept
};

// P, its dropout, and the row's sum of P * dP, by which all of its slopes are moved.
ALWAYS void row_slopes(const struct softmax_group *group, const struct softmax_slopes *slopes,
                       int64_t i, int64_t column, const uint16_t *kept, lanes *dots, int drops,
                       enum dtype dtype) {
    const struct attention_rows *rows = group->rows;
    const int64_t row = group->first + i, at = row * rows->stride + column;
    const int64_t count = piece(column, rows->length, KERNEL_COLUMNS);
    const float factor = keep_scale(rows);
    lanes dot = *dots;
    for (int64_t c = 0; c < count; c += LANES) {
        const lanes p =
            lanes_exp2(lanes_load(slopes->scores + at + c) * group->scale - group->shift[i]);
        const lanes dp = keep(lanes_load(slopes->dp + at + c), kept, c, drops);
        dot += p * dp;
        lanes_store(slopes->scores + at + c, p);
        lanes_store(slopes->dp + at + c, dp);
        lanes_to(row_at(slopes->p, row, column + c), keep(p * factor, kept, c, drops), dtype,
                 LANES);
    }
    *dots = dot;
}

ALWAYS void row_dscores(const struct softmax_group *group, const struct softmax_slopes *slopes,
                        int64_t i, float dot, enum dtype dtype) {
    const struct attention_rows *rows = group->rows;
    const int64_t row = group->first + i, at = row * rows->stride;
    const float slope = rows->scale * keep_scale(rows);
    for (int64_t c = 0; c < rows->length; c += LANES) {
        const lanes p = lanes_load(slopes->scores + at + c);
        const lanes dp = lanes_load(slopes->dp + at + c);
        lanes_to(row_at(slopes->ds, row, c), p * (dp * slope - dot * slope), dtype, LANES);
    }
}

ALWAYS void backward_group(const struct softmax_group *group, const struct softmax_slopes *slopes,
                           int drops, enum dtype dtype) {
    lanes dots[SOFTMAX_ROWS] = {{0}};
    for (int64_t column = 0; column < group->rows->length; column += KERNEL_COLUMNS) {
        uint16_t kept[SOFTMAX_ROWS][KERNEL_COLUMNS / LANES];
        if (drops) {
            group_bits(kept, group, column);
        }
        for (int64_t i = 0; i < group->count; i++) {
            row_slopes(group, slopes, i, column, kept[i], &dots[i], drops, dtype);
        }
    }
    for (int64_t i = 0; i < group->count; i++) {
        row_dscores(group, slopes, i, lanes_sum(dots[i]), dtype);
    }
}

static void softmax_backward(const struct attention_rows *rows, void *probabilities, void *dscores,
                             float *scores, float *dprobabilities, const float *lse,
                             int64_t lse_stride) {
    const struct softmax_slopes slopes = {
        .p = {probabilities, rows->count, rows->stride, rows->stride, rows->dtype},
        .ds = {dscores, rows->count, rows->stride, rows->stride, rows->dtype},
        .scores = scores,
        .dp = dprobabilities};
    const int drops = rows->dropout->threshold != 0;
    for (int64_t row = 0; row < rows->count; row += SOFTMAX_ROWS) {
        struct softmax_group group = group_of(rows, row);
        for (int64_t i = 0; i < group.count; i++) {
            set_tail(scores + (row + i) * rows->stride, rows->length, NO_SCORE);
            set_tail(dprobabilities + (row + i) * rows->stride, rows->length, 0.0f);
            group.shift[i] = lse[(row + i) * lse_stride] * LOG2_E;
        }
        if (rows->dtype == DTYPE_F32) {
            backward_group(&group, &slopes, drops, DTYPE_F32);
        } else if (drops) {
            backward_group(&group, &slopes, 1, DTYPE_BF16);
        } else {
            backward_group(&group, &slopes, 0, DTYPE_BF16);
        }
    }
}

#endif
