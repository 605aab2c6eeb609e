// SPDX-License-Identifier: Apache-2.0
// The table of rows, and the references of a model's layers and heads. Those of losses and of
// updates are in op_losses.c and op_updates.c.
#include "op_rows.h"

#include "core/int8.h"
#include "reference.h"
#include "reference_activations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct reference_view rows_of(const double *data, int64_t cols) {
    return (struct reference_view){data, cols, 1};
}

static struct reference_view columns_of(const double *data, int64_t cols) {
    return (struct reference_view){data, 1, cols};
}

// sums[column] += the numbers of [rows, cols].
static void add_columns(double *sums, const double *x, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows * cols; i++) {
        sums[i % cols] += x[i];
    }
}

// --- layer norm and embedding -------------------------------------------------------------------

static double *mask_of(const struct op_case *c, enum rng_site site) {
    const struct dropout dropout = op_dropout(&c->call, site);
    double *mask = malloc((size_t)(SIZE(ROWS) * SIZE(HIDDEN)) * sizeof *mask);
    reference_mask(mask, SIZE(HIDDEN), &dropout, &c->call.batch);
    return mask;
}

static void copy_to(double *to, const double *from, int64_t count) {
    if (to != NULL) {
        memcpy(to, from, (size_t)count * sizeof *to);
    }
}

static double word_of(const struct op_case *c, int64_t id, int64_t column) {
    const int64_t hidden = SIZE(HIDDEN), at = id * hidden + column;
    return c->x[4] != NULL
               ? c->x[4][at]
               : c->x[9][at] * c->x[10][id * int8_groups(hidden) + column / int8_group(hidden)];
}

static void embed_forward(struct op_case *c) {
    double **x = c->x, *mask = mask_of(c, RNG_SITE_EMBEDDING);
    const struct batch *batch = &c->call.batch;
    const int64_t hidden = SIZE(HIDDEN), count = SIZE(ROWS) * hidden;
    double *s = malloc((size_t)count * sizeof *s);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = i / hidden, col = i % hidden;
        s[i] = word_of(c, batch->ids[row], col) + x[5][batch->positions[row] * hidden + col] +
               x[6][batch->type_ids[row] * hidden + col];
    }
    reference_norm(x[0], x[2], x[3], s, x[7], x[8], 1e-5, SIZE(ROWS), hidden);
    for (int64_t i = 0; i < count; i++) {
        x[0][i] *= mask[i];
    }
    copy_to(x[1], x[0], count);
    free(s);
    free(mask);
}

static void embed_backward(struct op_case *c) {
    double **x = c->x, *mask = mask_of(c, RNG_SITE_EMBEDDING);
    const struct batch *batch = &c->call.batch;
    const int64_t hidden = SIZE(HIDDEN), count = SIZE(ROWS) * hidden;
    double *ds = malloc((size_t)count * sizeof *ds);
    for (int64_t i = 0; i < count; i++) {
        mask[i] *= x[0][i] + x[1][i];
    }
    reference_norm_grad(ds, x[8], x[9], mask, x[2], x[3], x[4], SIZE(ROWS), hidden);
    for (int64_t i = 0; i < batch->token_count * hidden; i++) {
        const int64_t row = i / hidden, col = i % hidden;
        x[5][batch->ids[row] * hidden + col] += ds[i];
        x[6][batch->positions[row] * hidden + col] += ds[i];
        x[7][batch->type_ids[row] * hidden + col] += ds[i];
    }
    free(ds);
    free(mask);
}

static void norm_forward(struct op_case *c) {
    double **x = c->x, *s = mask_of(c, RNG_SITE_OUTPUT);
    const int64_t count = SIZE(ROWS) * SIZE(HIDDEN);
    for (int64_t i = 0; i < count; i++) {
        s[i] = (x[4] != NULL ? x[4][i] * s[i] : 0) + x[5][i];
    }
    reference_norm(x[0], x[2], x[3], s, x[6], x[7], 1e-5, SIZE(ROWS), SIZE(HIDDEN));
    copy_to(x[1], x[0], count);
    copy_to(x[8], s, count);
    free(s);
}

static void norm_backward(struct op_case *c) {
    double **x = c->x, *mask = mask_of(c, RNG_SITE_OUTPUT);
    const int64_t count = SIZE(ROWS) * SIZE(HIDDEN);
    for (int64_t i = 0; x[4] != NULL && i < count; i++) {
        x[3][i] += x[4][i];
    }
    reference_norm_grad(x[0], x[8], x[9], x[3], x[5], x[6], x[7], SIZE(ROWS), SIZE(HIDDEN));
    for (int64_t i = 0; i < count; i++) {
        x[0][i] += x[10] != NULL ? x[10][i] : 0;
        mask[i] *= x[0][i];
    }
    if (x[1] != NULL) {
        copy_to(x[1], mask, count);
        add_columns(x[2], mask, SIZE(ROWS), SIZE(HIDDEN));
    }
    free(mask);
}

// --- linear layers ------------------------------------------------------------------------------

// y = x w^T + bias
static void multiply(const struct op_case *c, double *y, const double *x, const double *w,
                     const double *bias) {
    reference_multiply(y, rows_of(x, SIZE(K)), columns_of(w, SIZE(K)), SIZE(T), SIZE(N), SIZE(K),
                       0);
    for (int64_t i = 0; bias != NULL && i < SIZE(T) * SIZE(N); i++) {
        y[i] += bias[i % SIZE(N)];
    }
}

static void linear_forward(struct op_case *c) {
    multiply(c, c->x[0], c->x[1], c->x[2], c->x[3]);
}

static void linear_gelu_forward(struct op_case *c) {
    double **x = c->x;
    multiply(c, x[0], x[2], x[3], x[4]);
    copy_to(x[1], x[0], SIZE(T) * SIZE(N));
    for (int64_t i = 0; i < SIZE(T) * SIZE(N); i++) {
        x[0][i] = reference_activation(x[0][i], c->call.activation);
    }
}

static void linear_int8_forward(struct op_case *c) {
    multiply(c, c->x[0], c->x[1], c->x[2], c->x[3]);
    for (int64_t i = 0; i < SIZE(T) * SIZE(N); i++) {
        c->x[0][i] = reference_activation(c->x[0][i], c->call.activation);
    }
}

static void linear_packed_forward(struct op_case *c) {
    linear_int8_forward(c);
}

// 4 for a wide column, whose numbers are four times as large, else 1.
static int64_t times_of(const struct int8_matrix *w, int64_t column) {
    int64_t times = 1;
    for (int64_t i = 0; i < w->wide; i++) {
        times = op_wide_column(w, i) == column ? 4 : times;
    }
    return times;
}

// Numbers that int8 represents exactly: in a row of x from -128 to 127 steps, four times as much in
// wide columns; in a group of w from -127 steps on. Both ends of the range occur; the other numbers
// are positive, because the activation of a sum far below 0 is less precise than the tolerance.
static void prepare_int8(struct op_case *c, int mode) {
    const struct int8_matrix w = op_int8_matrix(&c->call, 2);
    const int64_t columns = SIZE(K), group = int8_group(columns);
    for (int64_t i = 0; i < op_real_rows(&c->call, OP_T) * columns; i++) {
        const int64_t column = i % columns;
        const double steps = column == 0             ? -128
                             : column == columns - 1 ? 127
                                                     : floor(127 * fabs(c->x[1][i]));
        c->x[1][i] = steps * (double)times_of(&w, column) / 128;
    }
    for (int64_t i = 0; i < SIZE(N) * columns; i++) {
        c->x[2][i] = (i % columns % group == 0 ? -127 : floor(254 * fabs(c->x[2][i]))) / 512;
    }
}

static void linear_backward_input(struct op_case *c) {
    reference_multiply(c->x[0], rows_of(c->x[1], SIZE(N)), rows_of(c->x[2], SIZE(K)), SIZE(T),
                       SIZE(K), SIZE(N), 0);
}

static void linear_backward_weight(struct op_case *c) {
    double **x = c->x;
    reference_multiply(x[0], columns_of(x[2], SIZE(N)), rows_of(x[3], SIZE(K)), SIZE(N), SIZE(K),
                       op_real_rows(&c->call, OP_T), 1);
    if (x[1] != NULL) {
        add_columns(x[1], x[2], SIZE(T), SIZE(N));
    }
}

static void activation_gradient(struct op_case *c, double *du, double *dbias, const double *u) {
    for (int64_t i = 0; i < SIZE(T) * SIZE(N); i++) {
        du[i] *= reference_activation_slope(u[i], c->call.activation);
    }
    add_columns(dbias, du, SIZE(T), SIZE(N));
}

// dz v, the gradient of f(u)
static void through_v(double *gradient, const struct op_case *c) {
    reference_multiply(gradient, rows_of(c->x[2], SIZE(K)), rows_of(c->x[3], SIZE(N)), SIZE(T),
                       SIZE(N), SIZE(K), 0);
}

static void linear_gelu_backward(struct op_case *c) {
    through_v(c->x[0], c);
    activation_gradient(c, c->x[0], c->x[1], c->x[4]);
}

static void gelu_backward(struct op_case *c) {
    activation_gradient(c, c->x[0], c->x[1], c->x[2]);
}

static void du_itself(double *gradient, const struct op_case *c) {
    copy_to(gradient, c->x[0], SIZE(T) * SIZE(N));
}

// --- attention ----------------------------------------------------------------------------------

// Called for every head of every sequence.
typedef void head_function(struct op_case *c, const struct reference_head *h, int64_t first);

static void for_each_head(struct op_case *c, const double *qkv, head_function *each) {
    const struct batch *batch = &c->call.batch;
    const struct dropout dropout = op_dropout(&c->call, RNG_SITE_ATTENTION);
    for (int64_t at = 0; at < batch->sequence_count * SIZE(HEADS); at++) {
        const int64_t s = at / SIZE(HEADS), head = at % SIZE(HEADS), first = batch->cu_seqlens[s];
        const int64_t length = batch->cu_seqlens[s + 1] - first;
        double *factors = malloc((size_t)(length * length) * sizeof *factors);
        for (int64_t i = 0; i < length * length; i++) {
            const int kept = dropout.threshold == 0 ||
                             rng_dropout_keeps(&dropout, (uint32_t)head, batch->global_indices[s],
                                               (int32_t)(i / length), (int32_t)(i % length));
            factors[i] = kept ? (double)rng_dropout_scale(dropout.threshold) : 0;
        }
        const struct reference_head h = {
            qkv + first * SIZE(QKV),   factors, length, SIZE(HIDDEN), head,
            SIZE(HIDDEN) / SIZE(HEADS)};
        each(c, &h, first);
        free(factors);
    }
}

// Computes the context and the log-sum-exp (may be NULL) of a head.
static void head_to(const struct op_case *c, double *context, double *sums,
                    const struct reference_head *h, int64_t first) {
    double *out = malloc((size_t)(h->length * (h->size + 1)) * sizeof *out);
    double *lse = out + h->length * h->size;
    reference_attention(out, lse, h);
    for (int64_t i = 0; i < h->length; i++) {
        copy_to(context + (first + i) * h->hidden + h->head * h->size, out + i * h->size, h->size);
        if (sums != NULL) {
            sums[(first + i) * SIZE(HEADS) + h->head] = lse[i];
        }
    }
    free(out);
}

static void head_forward(struct op_case *c, const struct reference_head *h, int64_t first) {
    head_to(c, c->x[0], c->x[1], h, first);
}

static void head_prepare(struct op_case *c, const struct reference_head *h, int64_t first) {
    head_to(c, c->x[2], c->x[3], h, first);
}

static void head_backward(struct op_case *c, const struct reference_head *h, int64_t first) {
    double *dout = malloc((size_t)(h->length * h->size) * sizeof *dout);
    for (int64_t i = 0; i < h->length; i++) {
        copy_to(dout + i * h->size, c->x[1] + (first + i) * h->hidden + h->head * h->size, h->size);
    }
    reference_attention_grad(c->x[0] + first * 3 * h->hidden, dout, h);
    free(dout);
}

static void attention_forward(struct op_case *c) {
    for_each_head(c, c->x[2], head_forward);
    if (c->x[3] != NULL && c->call.threshold != 0) {
        const int64_t count = SIZE(ROWS) * SIZE(MASKS);
        uint16_t *masks = malloc((size_t)count * sizeof *masks);
        for (int64_t i = 0; i < count; i++) {
            masks[i] = (uint16_t)c->x[3][i];
        }
        op_masks(&c->call, masks);
        for (int64_t i = 0; i < count; i++) {
            c->x[3][i] = masks[i];
        }
        free(masks);
    }
}

static void attention_backward(struct op_case *c) {
    for_each_head(c, c->x[4], head_backward);
}

// The backward pass needs the context and the log-sum-exp of these queries, keys and values.
static void prepare_attention(struct op_case *c, int mode) {
    for_each_head(c, c->x[4], head_prepare);
}

// --- heads --------------------------------------------------------------------------------------

static void gather_rows(struct op_case *c) {
    const int32_t *rows = data_of(c, 2);
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        copy_to(c->x[0] + i * SIZE(HIDDEN), c->x[1] + rows[i] * SIZE(HIDDEN), SIZE(HIDDEN));
    }
}

static void scatter_add_rows(struct op_case *c) {
    const int32_t *rows = data_of(c, 2);
    for (int64_t i = 0; i < SIZE(COUNT) * SIZE(HIDDEN); i++) {
        c->x[0][rows[i / SIZE(HIDDEN)] * SIZE(HIDDEN) + i % SIZE(HIDDEN)] += c->x[1][i];
    }
}

static void scatter_rows(struct op_case *c) {
    memset(c->x[0], 0, (size_t)(SIZE(ROWS) * SIZE(HIDDEN)) * sizeof(double));
    scatter_add_rows(c);
}

// The mask of the first tokens' rows.
static double *first_mask(const struct op_case *c) {
    double *mask = mask_of(c, RNG_SITE_HEAD);
    for (int64_t i = 0; i < c->call.batch.sequence_count; i++) {
        memmove(mask + i * SIZE(HIDDEN), mask + c->call.batch.cu_seqlens[i] * SIZE(HIDDEN),
                (size_t)SIZE(HIDDEN) * sizeof *mask);
    }
    return mask;
}

static void drop_rows(struct op_case *c) {
    double *mask = mask_of(c, RNG_SITE_HEAD);
    for (int64_t i = 0; i < SIZE(ROWS) * SIZE(HIDDEN); i++) {
        c->x[0][i] = mask[i] * c->x[1][i];
    }
    free(mask);
}

static void drop_first_rows(struct op_case *c) {
    double *mask = first_mask(c);
    for (int64_t i = 0; i < SIZE(COUNT) * SIZE(HIDDEN); i++) {
        c->x[0][i] = mask[i] * c->x[1][i];
    }
    free(mask);
}

static void tanh_forward(struct op_case *c) {
    double *mask = first_mask(c);
    reference_tanh(c->x[0], c->x[1], c->x[2], mask, SIZE(COUNT) * SIZE(HIDDEN));
    free(mask);
}

static void tanh_backward(struct op_case *c) {
    double *mask = first_mask(c);
    reference_tanh_grad(c->x[0], c->x[1], c->x[2], mask, SIZE(COUNT) * SIZE(HIDDEN));
    free(mask);
}

// --- the rows -----------------------------------------------------------------------------------

#define ROW(name_) .name = #name_, .reference = name_
#define OP_ROW(name_) .name = #name_, .reference = op_##name_ // of op_rows.h

const struct op_row op_rows[] = {
    {ROW(embed_forward), .drops = 1},
    {ROW(embed_backward), .drops = 1, .forward = "embed_forward"},
    {ROW(norm_forward), .drops = 1},
    {ROW(norm_backward), .drops = 1, .forward = "norm_forward"},
    {ROW(linear_forward)},
    {ROW(linear_gelu_forward), .activates = 1, .f32 = 6e-6, .half = 7.5e-3},
    {ROW(linear_gelu_backward), .activates = 1, .f32 = 6e-6, .half = 7.5e-3, .rounds = 1,
     .forward = "linear_gelu_forward", .upstream = through_v},
    {ROW(linear_backward_input), .forward = "linear_forward"},
    {ROW(linear_backward_weight), .forward = "linear_forward"},
    {ROW(attention_forward), .drops = 1},
    {ROW(attention_backward), .prepare = prepare_attention, .drops = 1, .f32 = 1e-5, .half = 1.2e-2,
     .forward = "attention_forward"},
    {OP_ROW(span_loss), .forward = "span_loss"},
    {ROW(gather_rows), .f32 = OP_EXACTLY, .half = OP_EXACTLY},
    {ROW(scatter_rows), .f32 = OP_EXACTLY, .half = OP_EXACTLY, .forward = "gather_rows"},
    {ROW(scatter_add_rows), .f32 = 4e-7, .forward = "gather_rows"},
    {ROW(gelu_backward), .activates = 1, .forward = "linear_gelu_forward", .upstream = du_itself},
    {ROW(drop_rows), .drops = 1, .f32 = 2e-7},
    {ROW(drop_first_rows), .drops = 1, .f32 = 2e-7},
    {ROW(tanh_forward), .drops = 1, .f32 = 4e-7},
    {ROW(tanh_backward), .drops = 1, .f32 = 4e-7, .forward = "tanh_forward"},
    {OP_ROW(class_loss), .prepare = op_prepare_classes, .modes = 2, .f32 = 2e-6,
     .forward = "class_loss"},
    {OP_ROW(weighted_loss), .prepare = op_prepare_weighted, .f32 = 4e-7,
     .forward = "weighted_loss"},
    {OP_ROW(squared_loss), .prepare = op_prepare_targets, .f32 = 4e-7, .forward = "squared_loss"},
    {OP_ROW(sigmoid_loss), .prepare = op_prepare_targets, .f32 = 4e-7, .forward = "sigmoid_loss"},
    {OP_ROW(pool_forward), .f32 = 4e-7},
    {OP_ROW(pool_backward), .f32 = 4e-7, .forward = "pool_forward"},
    {OP_ROW(normalize_forward), .prepare = op_prepare_lengths, .modes = 2, .f32 = 4e-7},
    {OP_ROW(normalize_backward), .f32 = 4e-7, .forward = "normalize_forward"},
    {OP_ROW(similarity_loss), .prepare = op_prepare_triplets, .f32 = 2e-6,
     .forward = "similarity_loss"},
    {OP_ROW(add_losses), .f64 = 1e-14},
    {OP_ROW(squares), .prepare = op_prepare_infinity, .modes = 2},
    {OP_ROW(norms)},
    {OP_ROW(adamw), .prepare = op_prepare_adamw, .modes = ADAMW_MODES},
    {OP_ROW(lamb_moments), .prepare = op_prepare_lamb_moments, .modes = 2, .f64 = 2e-6},
    {OP_ROW(lamb_apply), .prepare = op_prepare_lamb_apply, .modes = LAMB_MODES},
    {OP_ROW(add), .f32 = OP_EXACTLY},
    {OP_ROW(convert), .f32 = OP_EXACTLY, .half = OP_EXACTLY},
    {OP_ROW(checksums)},
    {ROW(linear_int8_forward), .prepare = prepare_int8, .activates = 1, .f32 = 6e-6,
     .half = 7.5e-3},
    {ROW(linear_packed_forward), .activates = 1, .f32 = 6e-6, .half = 7.5e-3},
};
const int op_row_count = sizeof op_rows / sizeof *op_rows;
