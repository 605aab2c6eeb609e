// SPDX-License-Identifier: Apache-2.0
// The steps of attention between its matrix products. Rows are computed in whole vectors: results
// past the length are finite and are multiplied only with zero rows of the other operand. The
// caller handles slack rows.
#ifndef BERTH_CPU_KERNELS_SOFTMAX_H
#define BERTH_CPU_KERNELS_SOFTMAX_H

#include "device/cpu/kernels/dropout.h"

#define LOG2_E 1.44269504088896341f

// Rows whose steps are interleaved, because each step of a row depends on the one before.
#define SOFTMAX_ROWS 8

// The rows of a group, and what the passes over them share.
struct softmax_group {
    const struct attention_rows *rows;
    int64_t first, count;      // rows of the matrices
    float scale;               // scores to exponents of 2
    float shift[SOFTMAX_ROWS]; // subtracted from these
};

// Far below all other scores.
#define NO_SCORE (-1e30f)

// Sets the elements of a row past the length, which nothing has written.
ALWAYS_INLINE void set_tail(float *row, int64_t length, float value) {
    const int64_t whole = length / LANES * LANES;
    if (whole < length) {
        lanes_store(row + whole, lanes_first(lanes_load(row + whole), length - whole, value));
    }
    for (int64_t c = lanes_of(length); c % SUM_LANES != 0; c += LANES) {
        lanes_store(row + c, lanes_all(value));
    }
}

ALWAYS_INLINE float row_max(const float *scores, int64_t length) {
    lanes max = lanes_load(scores);
    for (int64_t c = LANES; c < length; c += LANES) {
        max = lanes_max(lanes_load(scores + c), max);
    }
    return lanes_reduce_max(max);
}

// The scores of a row, and its mask.
struct row_scores {
    const float *from;
    float scale, shift; // to exponents of 2
    int drops;          // 0: everything is kept
    const uint16_t *mask;
};

ALWAYS_INLINE lanes power_at(const struct row_scores *row, int64_t c, enum dtype dtype) {
    const lanes x = lanes_load(row->from + c);
    return lanes_exp2(lanes_fused(x, lanes_all(row->scale), lanes_all(-row->shift)), dtype);
}

// Those of a vector's columns from c on that are kept.
ALWAYS_INLINE uint32_t bits_at(const struct row_scores *row, int64_t c) {
    const uint32_t all = (1u << LANES) - 1;
    return row->drops ? (uint32_t)row->mask[c / MASK_COLUMNS] >> c % MASK_COLUMNS & all : all;
}

// Those of two vectors' columns, from c and from c + SUM_LANES on.
ALWAYS_INLINE uint32_t pair_bits_at(const struct row_scores *row, int64_t c) {
    return bits_at(row, c) | bits_at(row, c + SUM_LANES) << SUM_LANES;
}

// Writes the powers that the mask keeps; returns the sum of all.
ALWAYS_INLINE float row_powers(void *to, const struct row_scores *row, int64_t length,
                               enum dtype dtype) {
    const int64_t size = (int64_t)dtype_size(dtype);
    struct lane_sums sum = {0};
    int64_t group = 0;
    for (; group + SUM_LANES < length; group += 2 * SUM_LANES) {
        EACH_PART {
            const int64_t c = group + part * LANES;
            const lanes first = power_at(row, c, dtype);
            const lanes second = power_at(row, c + SUM_LANES, dtype);
            sum.part[part] += first + second;
            lanes_pair_masked_to((char *)to + c * size, first, second, pair_bits_at(row, c), dtype);
        }
    }
    if (group < length) {
        EACH_PART {
            const int64_t c = group + part * LANES;
            const lanes last = power_at(row, c, dtype);
            sum.part[part] += last;
            lanes_to((char *)to + c * size, lanes_masked(last, bits_at(row, c)), dtype, LANES);
        }
    }
    return lane_total(sum);
}

ALWAYS_INLINE struct row_scores scores_of(const struct softmax_group *group, int64_t i,
                                          const float *scores, int drops) {
    const struct attention_rows *rows = group->rows;
    const int64_t row = group->first + i;
    return (struct row_scores){.from = scores + row * rows->stride,
                               .scale = group->scale,
                               .shift = group->shift[i],
                               .drops = drops,
                               .mask = drops ? rows->masks + row * rows->mask_stride : NULL};
}

// The outputs of the forward pass.
struct softmax_weights {
    struct mat weights;
    float *factors, *lse;
    int64_t lse_stride;
};

ALWAYS_INLINE void forward_group(struct softmax_group *group, const struct softmax_weights *to,
                                 float *scores, int drops, enum dtype dtype) {
    const struct attention_rows *rows = group->rows;
    enum { ROWS = SOFTMAX_ROWS > LANES ? SOFTMAX_ROWS : LANES };
    float sums[ROWS], logarithms[ROWS];
    for (int64_t i = 0; i < group->count; i++) {
        float *s = scores + (group->first + i) * rows->stride;
        set_tail(s, rows->length, NO_SCORE);
        group->shift[i] = row_max(s, rows->length) * group->scale;
    }
    for (int i = 0; i < ROWS; i += LANES) {
        lanes_store(sums + i, lanes_all(1.0f));
    }
    for (int64_t i = 0; i < group->count; i++) {
        const int64_t at = group->first + i;
        const struct row_scores row = scores_of(group, i, scores, drops);
        sums[i] = row_powers(row_at(to->weights, at, 0), &row, rows->length, dtype);
        to->factors[at] = rows->keep_scale / sums[i];
    }
    for (int i = 0; i < ROWS; i += LANES) {
        lanes_store(logarithms + i, lanes_log(lanes_load(sums + i)));
    }
    for (int64_t i = 0; i < group->count && to->lse != NULL; i++) {
        to->lse[(group->first + i) * to->lse_stride] = group->shift[i] / LOG2_E + logarithms[i];
    }
}

ALWAYS_INLINE struct softmax_group group_of(const struct attention_rows *rows, int64_t first) {
    return (struct softmax_group){.rows = rows,
                                  .first = first,
                                  .count = chunk_length(first, rows->count, SOFTMAX_ROWS),
                                  .scale = rows->scale * LOG2_E};
}

static void softmax_forward(const struct attention_rows *rows, void *weights, float *factors,
                            float *scores, float *lse, int64_t lse_stride) {
    const struct softmax_weights to = {
        .weights = {weights, rows->count, rows->stride, rows->stride, rows->dtype},
        .factors = factors,
        .lse = lse,
        .lse_stride = lse_stride};
    const int drops = rows->masks != NULL;
    for (int64_t row = 0; row < rows->count; row += SOFTMAX_ROWS) {
        struct softmax_group group = group_of(rows, row);
        if (rows->dtype == DTYPE_F32) {
            forward_group(&group, &to, scores, drops, DTYPE_F32);
        } else if (drops) {
            forward_group(&group, &to, scores, 1, DTYPE_BF16);
        } else {
            forward_group(&group, &to, scores, 0, DTYPE_BF16);
        }
    }
}

// The inputs and outputs of the backward pass of a group.
struct softmax_slopes {
    struct mat p, ds;
    float *scores, *dp; // replaced by P times the scale of what is kept, and by P * dP
};

// A row of them.
struct row_slopes {
    struct row_scores scores;
    float *p, *dp; // p is the memory of the scores
};

// Writes P after dropout; returns the sum of P * dP, which shifts all gradients of the row.
ALWAYS_INLINE float row_products(const struct row_slopes *row, void *to, int64_t length,
                                 enum dtype dtype) {
    const int64_t size = (int64_t)dtype_size(dtype);
    const struct row_scores *scores = &row->scores;
    struct lane_sums dot = {0};
    int64_t group = 0;
    for (; group + SUM_LANES < length; group += 2 * SUM_LANES) {
        EACH_PART {
            const int64_t c = group + part * LANES, next = c + SUM_LANES;
            const uint32_t bits = pair_bits_at(scores, c);
            const lanes p[2] = {power_at(scores, c, dtype), power_at(scores, next, dtype)};
            const lanes dp[2] = {lanes_load(row->dp + c), lanes_load(row->dp + next)};
            lanes products[2];
            lanes_pair_products(products, p, dp, bits);
            dot.part[part] += products[0] + products[1];
            lanes_pair_masked_to((char *)to + c * size, p[0], p[1], bits, dtype);
            lanes_store(row->p + c, p[0]);
            lanes_store(row->p + next, p[1]);
            lanes_store(row->dp + c, products[0]);
            lanes_store(row->dp + next, products[1]);
        }
    }
    if (group < length) {
        EACH_PART {
            const int64_t c = group + part * LANES;
            const uint32_t bits = bits_at(scores, c);
            const lanes p = power_at(scores, c, dtype);
            const lanes product = lanes_masked(p * lanes_load(row->dp + c), bits);
            dot.part[part] += product;
            lanes_to((char *)to + c * size, lanes_masked(p, bits), dtype, LANES);
            lanes_store(row->p + c, p);
            lanes_store(row->dp + c, product);
        }
    }
    return lane_total(dot);
}

ALWAYS_INLINE lanes dscores_at(const struct row_slopes *row, int64_t c, float scale, float move) {
    return lanes_fused(lanes_load(row->dp + c), lanes_all(scale), lanes_load(row->p + c) * -move);
}

ALWAYS_INLINE void row_dscores(const struct row_slopes *row, void *to, int64_t length, float scale,
                               float move, enum dtype dtype) {
    const int64_t size = (int64_t)dtype_size(dtype);
    int64_t group = 0;
    for (; group + SUM_LANES < length; group += 2 * SUM_LANES) {
        EACH_PART {
            const int64_t c = group + part * LANES;
            lanes_pair_to((char *)to + c * size, dscores_at(row, c, scale, move),
                          dscores_at(row, c + SUM_LANES, scale, move), dtype);
        }
    }
    if (group < length) {
        EACH_PART {
            const int64_t c = group + part * LANES;
            lanes_to((char *)to + c * size, dscores_at(row, c, scale, move), dtype, LANES);
        }
    }
}

ALWAYS_INLINE struct row_slopes slopes_of(const struct softmax_group *group,
                                          const struct softmax_slopes *slopes, int64_t i,
                                          int drops) {
    const int64_t at = (group->first + i) * group->rows->stride;
    return (struct row_slopes){.scores = scores_of(group, i, slopes->scores, drops),
                               .p = slopes->scores + at,
                               .dp = slopes->dp + at};
}

ALWAYS_INLINE void backward_group(const struct softmax_group *group,
                                  const struct softmax_slopes *slopes, int drops,
                                  enum dtype dtype) {
    const struct attention_rows *rows = group->rows;
    float dots[SOFTMAX_ROWS];
    for (int64_t i = 0; i < group->count; i++) {
        const struct row_slopes row = slopes_of(group, slopes, i, drops);
        dots[i] = row_products(&row, row_at(slopes->p, group->first + i, 0), rows->length, dtype);
    }
    for (int64_t i = 0; i < group->count; i++) {
        const struct row_slopes row = slopes_of(group, slopes, i, drops);
        const float move = dots[i] * rows->scale / rows->keep_scale;
        row_dscores(&row, row_at(slopes->ds, group->first + i, 0), rows->length, rows->scale, move,
                    dtype);
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
    const int drops = rows->masks != NULL;
    const float keep_exponent = (float)math_log((double)rows->keep_scale) * LOG2_E;
    for (int64_t row = 0; row < rows->count; row += SOFTMAX_ROWS) {
        struct softmax_group group = group_of(rows, row);
        for (int64_t i = 0; i < group.count; i++) {
            set_tail(scores + (row + i) * rows->stride, rows->length, NO_SCORE);
            set_tail(dprobabilities + (row + i) * rows->stride, rows->length, 0.0f);
            group.shift[i] = lse[(row + i) * lse_stride] * LOG2_E - keep_exponent;
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
