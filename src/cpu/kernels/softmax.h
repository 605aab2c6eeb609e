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
ALWAYS float row_powers(float *scores, int64_t length, float scale, float shift, enum dtype dtype) {
    lanes sum = {0};
    for (int64_t c = 0; c < length; c += LANES) {
        const lanes power = lanes_exp2(lanes_load(scores + c) * scale - shift, dtype);
        sum += power;
        lanes_store(scores + c, power);
    }
    return lanes_sum(sum);
}

// Which of the columns [column, column + KERNEL_COLUMNS) of each row the dropout keeps.
ALWAYS void group_masks(struct dropout_mask masks[SOFTMAX_ROWS], const struct softmax_group *group,
                        int64_t column) {
    const struct attention_rows *rows = group->rows;
    const struct dropout_columns columns =
        dropout_columns(rows->dropout, rows->head, rows->place, column);
    const int32_t position = (int32_t)(rows->first + group->first);
    for (int64_t i = 0; i < group->count; i += DRAWN_ROWS) { // SOFTMAX_ROWS is a multiple
        dropout_masks(&masks[i], &columns, position + (int32_t)i, DRAWN_ROWS);
    }
}

ALWAYS float keep_scale(const struct attention_rows *rows) {
    return rows->dropout->threshold == 0 ? 1.0f : rng_dropout_scale(rows->dropout->threshold);
}

// x where a piece's columns from c on are kept, else 0; a mask that is NULL keeps everything.
ALWAYS lanes kept_at(lanes x, const struct dropout_mask *mask, int64_t c) {
    return mask == NULL ? x : dropout_kept(x, mask, c / LANES);
}

// A piece of a row whose powers become probabilities after the dropout.
struct powers {
    const float *from;
    float factor;
    const struct dropout_mask *mask; // NULL: keeps everything
};

ALWAYS lanes probabilities_at(const struct powers *powers, int64_t c) {
    return kept_at(lanes_load(powers->from + c) * powers->factor, powers->mask, c);
}

ALWAYS void row_probabilities(void *to, const struct powers *powers, int64_t count,
                              enum dtype dtype) {
    int64_t c = 0;
    for (; c + LANES < count; c += 2 * LANES) {
        lanes_pair_to((char *)to + c * (int64_t)dtype_size(dtype), probabilities_at(powers, c),
                      probabilities_at(powers, c + LANES), dtype);
    }
    if (c < count) {
        lanes_to((char *)to + c * (int64_t)dtype_size(dtype), probabilities_at(powers, c), dtype,
                 LANES);
    }
}

ALWAYS void group_probabilities(const struct softmax_group *group, struct mat out,
                                const float *powers, int drops, enum dtype dtype) {
    const int64_t length = group->rows->length, stride = group->rows->stride;
    const float factor = keep_scale(group->rows);
    for (int64_t column = 0; column < length; column += KERNEL_COLUMNS) {
        struct dropout_mask masks[SOFTMAX_ROWS];
        if (drops) {
            group_masks(masks, group, column);
        }
        const int64_t count = piece(column, length, KERNEL_COLUMNS);
        for (int64_t i = 0; i < group->count; i++) {
            const struct powers row = {.from = powers + (group->first + i) * stride + column,
                                       .factor = group->inverse[i] * factor,
                                       .mask = drops ? &masks[i] : NULL};
            row_probabilities(row_at(out, group->first + i, column), &row, count, dtype);
        }
    }
}

ALWAYS void forward_group(struct softmax_group *group, struct mat out, float *scores, float *lse,
                          int64_t lse_stride, int drops, enum dtype dtype) {
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
        sums[i] = row_powers(s, rows->length, group->scale, group->shift[i], dtype);
        group->inverse[i] = 1.0f / sums[i];
    }
    lanes_store(logarithms, lanes_log(lanes_load(sums)));
    for (int64_t i = 0; i < group->count && lse != NULL; i++) {
        lse[(group->first + i) * lse_stride] = group->shift[i] / LOG2_E + logarithms[i];
    }
    group_probabilities(group, out, scores, drops, dtype);
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
    const int drops = rows->dropout->threshold != 0;
    for (int64_t row = 0; row < rows->count; row += SOFTMAX_ROWS) {
        struct softmax_group group = group_of(rows, row);
        if (rows->dtype == DTYPE_F32) {
            forward_group(&group, out, scores, lse, lse_stride, drops, DTYPE_F32);
        } else if (drops) {
            forward_group(&group, out, scores, lse, lse_stride, 1, DTYPE_BF16);
        } else {
            forward_group(&group, out, scores, lse, lse_stride, 0, DTYPE_BF16);
        }
    }
}

// Where the backward pass of a group reads and writes.
struct softmax_slopes {
    struct mat p, ds;
    float *scores, *dp; // replaced by P, and by dPd where it is kept
};

// A piece of a row of them.
struct slopes_piece {
    float *scores, *dp;
    float scale, shift;              // of the scores, to exponents of 2
    float factor;                    // of what the dropout keeps
    const struct dropout_mask *mask; // NULL: keeps everything
};

// P after the dropout, and the sum of P * dP, by which all slopes of the row are moved.
ALWAYS lanes slopes_at(const struct slopes_piece *piece, int64_t c, lanes *dot, enum dtype dtype) {
    const lanes p = lanes_exp2(lanes_load(piece->scores + c) * piece->scale - piece->shift, dtype);
    const lanes dp = kept_at(lanes_load(piece->dp + c), piece->mask, c);
    *dot += p * dp;
    lanes_store(piece->scores + c, p);
    lanes_store(piece->dp + c, dp);
    return kept_at(p * piece->factor, piece->mask, c);
}

ALWAYS void row_slopes(const struct slopes_piece *piece, void *p, int64_t count, lanes *dots,
                       enum dtype dtype) {
    lanes dot = *dots;
    int64_t c = 0;
    for (; c + LANES < count; c += 2 * LANES) {
        const lanes first = slopes_at(piece, c, &dot, dtype);
        const lanes second = slopes_at(piece, c + LANES, &dot, dtype);
        lanes_pair_to((char *)p + c * (int64_t)dtype_size(dtype), first, second, dtype);
    }
    if (c < count) {
        lanes_to((char *)p + c * (int64_t)dtype_size(dtype), slopes_at(piece, c, &dot, dtype),
                 dtype, LANES);
    }
    *dots = dot;
}

ALWAYS lanes dscores_at(const float *p, const float *dp, float slope, float dot) {
    return lanes_load(p) * (lanes_load(dp) * slope - dot * slope);
}

ALWAYS void row_dscores(const struct softmax_group *group, const struct softmax_slopes *slopes,
                        int64_t i, float dot, enum dtype dtype) {
    const struct attention_rows *rows = group->rows;
    const int64_t row = group->first + i;
    const float *p = slopes->scores + row * rows->stride, *dp = slopes->dp + row * rows->stride;
    const float slope = rows->scale * keep_scale(rows);
    int64_t c = 0;
    for (; c + LANES < rows->length; c += 2 * LANES) {
        lanes_pair_to(row_at(slopes->ds, row, c), dscores_at(p + c, dp + c, slope, dot),
                      dscores_at(p + c + LANES, dp + c + LANES, slope, dot), dtype);
    }
    if (c < rows->length) {
        lanes_to(row_at(slopes->ds, row, c), dscores_at(p + c, dp + c, slope, dot), dtype, LANES);
    }
}

ALWAYS void backward_group(const struct softmax_group *group, const struct softmax_slopes *slopes,
                           int drops, enum dtype dtype) {
    const struct attention_rows *rows = group->rows;
    lanes dots[SOFTMAX_ROWS] = {{0}};
    for (int64_t column = 0; column < rows->length; column += KERNEL_COLUMNS) {
        struct dropout_mask masks[SOFTMAX_ROWS];
        if (drops) {
            group_masks(masks, group, column);
        }
        const int64_t count = piece(column, rows->length, KERNEL_COLUMNS);
        for (int64_t i = 0; i < group->count; i++) {
            const int64_t at = (group->first + i) * rows->stride + column;
            const struct slopes_piece piece = {.scores = slopes->scores + at,
                                               .dp = slopes->dp + at,
                                               .scale = group->scale,
                                               .shift = group->shift[i],
                                               .factor = keep_scale(rows),
                                               .mask = drops ? &masks[i] : NULL};
            row_slopes(&piece, row_at(slopes->p, group->first + i, column), count, &dots[i], dtype);
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
