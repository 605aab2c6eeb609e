// SPDX-License-Identifier: Apache-2.0
// The operations in double, on the numbers of a case: x[i] is operand i of op_table.
#include "core/int8.h"
#include "op_cases.h"
#include "reference.h"
#include "reference_activations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE(name) (c->call.sizes[OP_##name])

static struct reference_view rows_of(const double *data, int64_t cols) {
    return (struct reference_view){data, cols, 1};
}

static struct reference_view columns_of(const double *data, int64_t cols) {
    return (struct reference_view){data, 1, cols};
}

static const void *data_of(const struct op_case *c, int operand) {
    return c->call.operands[operand].data;
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

// How many times as large as those of others the numbers of a column are.
static int64_t times_of(const struct int8_matrix *w, int64_t column) {
    int64_t times = 1;
    for (int64_t i = 0; i < w->wide; i++) {
        times = op_wide_column(w, i) == column ? 4 : times;
    }
    return times;
}

// Numbers that int8 has exactly: of a row of x from -128 to 127 steps, four times as many in wide
// columns; of a group of w from -127. The ends of the range occur; the others are positive, because
// an activation of sums far below 0 has fewer digits than the tolerance.
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

// Calls `each` for every head of every sequence.
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
                             rng_dropout_keeps(&dropout, (uint32_t)head, batch->places[s],
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

// Into the context and the log-sum-exp (may be NULL).
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

// The context and the log-sum-exp of these queries, keys and values.
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

// --- losses -------------------------------------------------------------------------------------

static void scale_gradient(struct op_case *c, int64_t count) {
    for (int64_t i = 0; c->x[0] != NULL && i < count; i++) {
        c->x[0][i] *= (double)c->call.scale;
    }
}

static double *row_of(double *x, int64_t row, int64_t cols) {
    return x != NULL ? x + row * cols : NULL;
}

static void span_loss(struct op_case *c) {
    const struct batch *batch = &c->call.batch;
    double *halves = malloc((size_t)(2 * batch->max_length) * sizeof *halves);
    double *gradient = halves + batch->max_length;
    memset(c->x[1], 0, (size_t)batch->sequence_count * sizeof(double));
    for (int64_t at = 0; at < 2 * batch->sequence_count; at++) {
        const int64_t s = at / 2, half = at % 2, first = batch->cu_seqlens[s];
        const int64_t length = batch->cu_seqlens[s + 1] - first;
        const int32_t *labels = half ? batch->end_positions : batch->start_positions;
        for (int64_t i = 0; i < length; i++) {
            halves[i] = c->x[2][2 * (first + i) + half];
        }
        c->x[1][s] += reference_span_half(gradient, halves, length, labels[s]);
        for (int64_t i = 0; i < length; i++) {
            c->x[0][2 * (first + i) + half] = gradient[i];
        }
    }
    scale_gradient(c, 2 * batch->token_count);
    free(halves);
}

static int is_hit(const double *logits, int64_t classes, int32_t label) {
    int64_t first = 0;
    for (int64_t k = 1; k < classes; k++) {
        first = logits[k] > logits[first] ? k : first;
    }
    return first == label;
}

static void class_loss(struct op_case *c) {
    double **x = c->x;
    const int32_t *labels = data_of(c, 4);
    const int64_t classes = SIZE(N);
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        const double *logits = x[3] + i * classes;
        const int32_t label = labels != NULL ? labels[i] : (int32_t)i;
        x[1][i] = reference_cross_entropy(row_of(x[0], i, classes), logits, classes, label);
        if (x[2] != NULL) {
            x[2][i] = is_hit(logits, classes, label);
        }
    }
    scale_gradient(c, SIZE(COUNT) * classes);
}

// Mode 0: labels that are ignored, the second too large and the third negative; most labels with
// the largest logit, which in every third row the class before shares, which is no hit, and in
// every other row the class after, which is one. Mode 1: labels that are all but certain.
static void prepare_classes(struct op_case *c, int mode) {
    int32_t *labels = c->call.operands[4].data;
    const int64_t classes = SIZE(N);
    for (int64_t i = 0; labels != NULL && i < SIZE(COUNT); i++) {
        const int64_t label = labels[i], other = i % 3 == 0 ? label - 1 : label + 1;
        double *logits = c->x[3] + i * classes;
        if (mode == 1) {
            logits[label] = 20 + (double)i;
        } else if (i % 4 != 3) {
            logits[label] = 9;
        }
        if (mode == 0 && other >= 0 && other < classes) {
            logits[other] = 9;
        }
        labels[i] = mode == 0 && i == 1 ? (int32_t)classes : mode == 0 && i == 2 ? -1 : labels[i];
    }
}

static void weighted_loss(struct op_case *c) {
    double **x = c->x;
    const int32_t *labels = data_of(c, 4);
    const int64_t classes = SIZE(N);
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        const struct reference_shares shares = {x[3], (double)OP_SMOOTHING, labels[i]};
        x[1][i] =
            reference_weighted(row_of(x[0], i, classes), x[2] + i * classes, classes, &shares);
    }
    scale_gradient(c, SIZE(COUNT) * classes);
}

// Labels that are ignored: the second is too large, the third negative.
static void prepare_weighted(struct op_case *c, int mode) {
    int32_t *labels = c->call.operands[4].data;
    for (int64_t i = 1; i < SIZE(COUNT) && i < 3; i++) {
        labels[i] = i == 1 ? (int32_t)SIZE(N) : -1;
    }
}

static void squared_loss(struct op_case *c) {
    double **x = c->x;
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        x[1][i] = reference_squared(row_of(x[0], i, 1), x[2][i], x[3][i]);
    }
    scale_gradient(c, SIZE(COUNT));
}

static void sigmoid_loss(struct op_case *c) {
    double **x = c->x;
    const int64_t labels = SIZE(N);
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        x[1][i] = reference_sigmoid(row_of(x[0], i, labels), x[2] + i * labels, x[3] + i * labels,
                                    labels);
    }
    scale_gradient(c, SIZE(COUNT) * labels);
}

// The second row has no target; the first target of the first one is 1.
static void prepare_targets(struct op_case *c, int mode) {
    c->x[3][0] = 1;
    if (SIZE(COUNT) > 1) {
        c->x[3][c->call.operands[3].cols] = (double)NAN;
    }
}

// --- sentence embeddings ------------------------------------------------------------------------

// factors[row] of the pooling of a column, of the rows of a sequence; the maximum's is 1 at its
// row.
static void pool_factors(const struct op_case *c, double *factors, const double *column,
                         int64_t length) {
    int64_t most = 0;
    for (int64_t i = 0; i < length; i++) {
        most = column[i * SIZE(HIDDEN)] > column[most * SIZE(HIDDEN)] ? i : most;
    }
    for (int64_t i = 0; i < length; i++) {
        const double n = (double)length;
        const double all[] = {
            1 / n,          i == 0, i == most, 1 / sqrt(n), (double)(2 * (i + 1)) / (n * (n + 1)),
            i + 1 == length};
        factors[i] = all[c->call.variant];
    }
}

// Visits every factor with its elements of the sequences' rows and of the vectors.
static void pool(struct op_case *c, const double *values,
                 void (*visit)(struct op_case *c, int64_t row, int64_t vector, double factor)) {
    const struct batch *batch = &c->call.batch;
    double *factors = malloc((size_t)batch->max_length * sizeof *factors);
    for (int64_t at = 0; at < batch->sequence_count * SIZE(HIDDEN); at++) {
        const int64_t s = at / SIZE(HIDDEN), column = at % SIZE(HIDDEN);
        const int64_t first = batch->cu_seqlens[s], length = batch->cu_seqlens[s + 1] - first;
        pool_factors(c, factors, values + first * SIZE(HIDDEN) + column, length);
        for (int64_t i = 0; i < length; i++) {
            visit(c, (first + i) * SIZE(HIDDEN) + column, at, factors[i]);
        }
    }
    free(factors);
}

static void gather_one(struct op_case *c, int64_t row, int64_t vector, double factor) {
    c->x[0][vector] += factor * c->x[1][row];
}

static void pool_forward(struct op_case *c) {
    memset(c->x[0], 0, (size_t)(SIZE(COUNT) * SIZE(HIDDEN)) * sizeof(double));
    pool(c, c->x[1], gather_one);
}

static void spread_one(struct op_case *c, int64_t row, int64_t vector, double factor) {
    c->x[0][row] = factor * c->x[1][vector];
}

static void pool_backward(struct op_case *c) {
    pool(c, c->x[2], spread_one);
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void normalize_forward(struct op_case *c) {
    const int64_t cols = SIZE(HIDDEN);
    for (int64_t at = 0; at < SIZE(COUNT) * cols; at++) {
        const double *x = c->x[2] + at / cols * cols;
        c->x[1][at / cols] = fmax(sqrt(dot(x, x, cols)), 1e-12);
        c->x[0][at] = (double)OP_RADIUS * c->x[2][at] / c->x[1][at / cols];
    }
}

// A vector without a length has none afterwards.
static void prepare_lengths(struct op_case *c, int mode) {
    memset(c->x[2], 0, (size_t)(mode * SIZE(HIDDEN)) * sizeof(double));
}

static void normalize_backward(struct op_case *c) {
    const int64_t cols = SIZE(HIDDEN);
    const double radius = (double)OP_RADIUS;
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        const double *dy = c->x[1] + i * cols, *y = c->x[2] + i * cols;
        const double along = dot(y, dy, cols) / radius;
        for (int64_t k = 0; k < cols; k++) {
            c->x[0][i * cols + k] = (radius * dy[k] - along * y[k]) / c->x[3][i];
        }
    }
}

static double distance(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (a[i] - b[i] + 1e-6) * (a[i] - b[i] + 1e-6);
    }
    return sqrt(sum);
}

// The rows of one example and of their gradients are `cols` apart.
static double cosine_example(double *dx, const double *x, int64_t cols, double target) {
    const double error = dot(x, x + cols, cols) - target;
    for (int64_t i = 0; i < 2 * cols; i++) {
        dx[i] = 2 * error * x[(i + cols) % (2 * cols)];
    }
    return error * error;
}

static double triplet_example(double *dx, const double *x, int64_t cols, int is_cosine) {
    const double *near = x + cols, *far = x + 2 * cols;
    const double to_near = is_cosine ? 1 - dot(x, near, cols) : distance(x, near, cols);
    const double to_far = is_cosine ? 1 - dot(x, far, cols) : distance(x, far, cols);
    const double loss = to_near - to_far + (double)OP_MARGIN;
    for (int64_t i = 0; i < cols && loss > 0; i++) {
        const double a = (x[i] - near[i] + 1e-6) / to_near, b = (x[i] - far[i] + 1e-6) / to_far;
        dx[i] = is_cosine ? far[i] - near[i] : a - b;
        dx[i + cols] = is_cosine ? -x[i] : -a;
        dx[i + 2 * cols] = is_cosine ? x[i] : b;
    }
    return loss > 0 ? loss : 0;
}

static void similarity_loss(struct op_case *c) {
    const int64_t cols = SIZE(HIDDEN), texts = c->call.variant == 0 ? 2 : 3;
    memset(c->x[0], 0, (size_t)(SIZE(COUNT) * cols) * sizeof(double));
    memset(c->x[1], 0, (size_t)SIZE(COUNT) * sizeof(double));
    for (int64_t i = 0; i + texts <= SIZE(COUNT); i += texts) {
        double *dx = c->x[0] + i * cols, *x = c->x[2] + i * cols;
        c->x[1][i] = c->call.variant == 0 ? cosine_example(dx, x, cols, c->x[3][i])
                                          : triplet_example(dx, x, cols, c->call.variant == 2);
    }
    scale_gradient(c, SIZE(COUNT) * cols);
}

// The second triplet has reached its margin.
static void prepare_triplets(struct op_case *c, int mode) {
    const int64_t cols = SIZE(HIDDEN), at = 3 * cols;
    for (int64_t i = 0; SIZE(COUNT) >= 6 && i < cols; i++) {
        c->x[2][at + cols + i] = c->x[2][at + i];
        c->x[2][at + 2 * cols + i] = -3 * c->x[2][at + i];
    }
}

static void add_losses(struct op_case *c) {
    double sum = 0;
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        sum += c->x[1][i];
    }
    c->x[0][0] += 0.125 * sum;
}

// --- optimizer ----------------------------------------------------------------------------------

static void squares(struct op_case *c) {
    memset(c->x[0], 0, (size_t)SIZE(BLOCKS) * sizeof(double));
    for (int r = 0; r < OP_CASE_RANGES; r++) {
        const struct device_range *range = &c->ranges[r];
        for (int64_t i = 0; i < range->count; i++) {
            const double value = c->x[1][range->first + i];
            c->x[0][range->block + i / DEVICE_SUM_BLOCK] += value * value;
        }
    }
}

static void prepare_infinity(struct op_case *c, int mode) {
    c->x[1][SIZE(TABLE) - 1] = mode == 0 ? 1 : (double)INFINITY;
}

static void norms(struct op_case *c) {
    const int64_t *blocks = data_of(c, 2);
    for (int64_t t = 0; t < SIZE(TENSORS); t++) {
        double sum = 0;
        for (int64_t b = blocks[t]; b < blocks[t + 1]; b++) {
            sum += c->x[1][b];
        }
        c->x[0][t] = 0.25 * sum;
    }
}

static double sum_squares_of(const struct op_case *c, const struct device_range *range) {
    return c->x[7] != NULL ? c->x[7][range->tensor] : c->x[6][0];
}

static int is_skipped(const struct op_case *c) {
    return !isfinite(sum_squares_of(c, &c->ranges[0]));
}

static double factor_of(const struct op_case *c, const struct device_range *range) {
    const struct adamw_args *args = &c->call.adam;
    const double norm = sqrt(sum_squares_of(c, range)) + (args->exact_clip ? 0 : 1e-6);
    return args->gradient_scale *
           (args->max_grad_norm > 0 ? fmin(1, args->max_grad_norm / norm) : 1);
}

// What the rate is multiplied with, of element i of the range with its new moments.
static double update_of(const struct op_case *c, const struct device_range *range, int64_t i) {
    const struct adamw_args *args = &c->call.adam;
    const double m = c->x[2][range->at + i], square = c->x[3][range->at + i] / args->correction2;
    const double root =
        args->epsilon_inside_root ? sqrt(square + args->epsilon) : sqrt(square) + args->epsilon;
    const double decay = args->l2_mode ? 0 : range->weight_decay * c->x[0][range->first + i];
    return m / args->correction1 / root + decay;
}

// New moments; the gradients are cleared also where the update is skipped.
static void update_moments(struct op_case *c, const struct device_range *range) {
    const struct adamw_args *args = &c->call.adam;
    const double factor = factor_of(c, range), decay = args->l2_mode ? range->weight_decay : 0;
    for (int64_t i = 0; i < range->count; i++) {
        double *m = &c->x[2][range->at + i], *v = &c->x[3][range->at + i];
        const double gradient =
            c->x[1][range->first + i] * factor + decay * c->x[0][range->first + i];
        if (!is_skipped(c)) {
            *m = args->beta1 * *m + (1 - args->beta1) * gradient;
            *v = args->beta2 * *v + (1 - args->beta2) * gradient * gradient;
        }
        c->x[1][range->first + i] = 0;
    }
}

static void update_parameters(struct op_case *c, const struct device_range *range, double rate) {
    for (int64_t i = 0; i < range->count; i++) {
        double *p = &c->x[0][range->first + i];
        *p -= rate * update_of(c, range, i);
        if (range->first + i < c->call.operands[4].cols) {
            c->x[4][range->first + i] = *p;
        }
    }
}

static void adamw(struct op_case *c) {
    for (int r = 0; r < OP_CASE_RANGES; r++) {
        update_moments(c, &c->ranges[r]);
        if (!is_skipped(c)) {
            update_parameters(c, &c->ranges[r], c->call.adam.learning_rate);
        }
    }
}

static void skip_update(struct op_case *c) {
    for (int i = 0; i < OP_CASE_RANGES - 1; i++) {
        *(c->x[7] != NULL ? &c->x[7][i] : c->x[6]) = i == 0 ? (double)NAN : (double)INFINITY;
    }
}

enum adamw_mode { DECOUPLED, L2, SKIP, EXACT, ADAMW_MODES };

static void prepare_adamw(struct op_case *c, int mode) {
    struct adamw_args *args = &c->call.adam;
    if (mode == L2) {
        args->l2_mode = 1;
        args->correction1 = args->correction2 = 1;
        args->max_grad_norm = 0;
        if (c->x[4] != NULL) {
            c->call.operands[4].cols = c->ranges[1].first; // of the first tensor only
        }
    } else if (mode == SKIP) {
        skip_update(c);
    } else if (mode == EXACT) {
        args->exact_clip = args->epsilon_inside_root = 1;
        args->max_grad_norm = 1e-5; // a tenth of the norm: 1e-6 more would be a percent
        args->epsilon = 1e-3;
        c->x[6][0] = 1e-8;
    }
}

static void lamb_moments(struct op_case *c) {
    for (int r = 0; r < OP_CASE_RANGES; r++) {
        const struct device_range *range = &c->ranges[r];
        double *sums = c->x[8] + 2 * range->block;
        update_moments(c, range);
        for (int64_t i = 0; !is_skipped(c) && i < range->count; i++) {
            const double p = c->x[0][range->first + i], u = update_of(c, range, i);
            const int64_t block = i / DEVICE_SUM_BLOCK;
            sums[2 * block] = p * p + (i % DEVICE_SUM_BLOCK > 0 ? sums[2 * block] : 0);
            sums[2 * block + 1] = u * u + (i % DEVICE_SUM_BLOCK > 0 ? sums[2 * block + 1] : 0);
        }
    }
}

static void prepare_lamb_moments(struct op_case *c, int mode) {
    c->call.adam.exact_clip = mode == 0;
    if (mode == 1) {
        skip_update(c);
    }
}

static void lamb_apply(struct op_case *c) {
    const int64_t *blocks = data_of(c, 9);
    for (int64_t t = 0; !is_skipped(c) && t < SIZE(TENSORS); t++) {
        double sums[2] = {0}, *found = c->x[10] + 3 * t;
        for (int64_t b = blocks[t]; b < blocks[t + 1]; b++) {
            sums[0] += c->x[8][2 * b];
            sums[1] += c->x[8][2 * b + 1];
        }
        found[0] = sqrt(sums[0]);
        found[1] = sqrt(sums[1]);
        found[2] = 1;
        if (sums[0] > 0 && sums[1] > 0) {
            found[2] = fmin(c->call.max_coeff, fmax(c->call.min_coeff, found[0] / found[1]));
        }
    }
    for (int r = 0; !is_skipped(c) && r < OP_CASE_RANGES; r++) {
        const double coefficient = c->x[10][3 * c->ranges[r].tensor + 2];
        update_parameters(c, &c->ranges[r], c->call.adam.learning_rate * coefficient);
    }
}

enum lamb_mode { FREE, AT_MOST, AT_LEAST, ZERO_PARAMETERS, SKIPPED, LAMB_MODES };

static void prepare_lamb_apply(struct op_case *c, int mode) {
    c->call.min_coeff = mode == AT_LEAST ? 1.9 : 0;
    c->call.max_coeff = mode == AT_MOST ? 0.01 : (double)INFINITY;
    for (int64_t b = 0; mode == ZERO_PARAMETERS && b < SIZE(BLOCKS); b++) {
        c->x[8][2 * b] = 0;
    }
    if (mode == SKIPPED) {
        skip_update(c);
    }
}

static void add(struct op_case *c) {
    for (int64_t i = 0; i < SIZE(TABLE); i++) {
        c->x[0][i] = (double)(float)(c->x[0][i] + c->x[1][i]);
    }
}

static void convert(struct op_case *c) {
    const int64_t count = SIZE(TABLE);
    const struct mat to = mat_of(op_keep(c->run, (size_t)count * 4), 1, count, c->run->compute);
    for (int64_t i = 0; i < count; i++) {
        op_set_number(to, 0, i, c->x[1][i]);
        c->x[0][i] = op_number_at(to, 0, i);
    }
}

// Fletcher's two sums of each lane (core/checksum.c), word by word.
static uint64_t checksum_of(const unsigned char *data, size_t bytes) {
    uint64_t low[16] = {0}, high[16] = {0}, sum = bytes;
    for (size_t at = 0; at < bytes / 64 * 64 + 64; at += 4) {
        uint32_t word = 0;
        for (size_t i = 0; i < 4 && at + i < bytes; i++) {
            word |= (uint32_t)data[at + i] << 8 * i;
        }
        low[at / 4 % 16] += word;
        high[at / 4 % 16] += low[at / 4 % 16];
    }
    for (int lane = 0; lane < 16; lane++) {
        sum = (sum ^ (high[lane] + (low[lane] << 33))) * 0x9E3779B97F4A7C15u;
        sum ^= sum >> 32;
    }
    return sum;
}

static void checksums(struct op_case *c) {
    const struct device_part *parts = data_of(c, 2);
    const size_t size = dtype_size(c->call.operands[1].dtype);
    for (int64_t i = 0; i < SIZE(PARTS); i++) {
        const unsigned char *first =
            (const unsigned char *)data_of(c, 1) + (size_t)parts[i].first * size;
        const uint64_t sum = checksum_of(first, (size_t)parts[i].count * size);
        c->x[0][2 * parts[i].sum] = (double)(uint32_t)sum;
        c->x[0][2 * parts[i].sum + 1] = (double)(sum >> 32);
    }
}

// --- the rows -----------------------------------------------------------------------------------

#define ROW(name_) .name = #name_, .reference = name_

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
    {ROW(span_loss), .forward = "span_loss"},
    {ROW(gather_rows), .f32 = OP_EXACTLY, .half = OP_EXACTLY},
    {ROW(scatter_rows), .f32 = OP_EXACTLY, .half = OP_EXACTLY, .forward = "gather_rows"},
    {ROW(scatter_add_rows), .f32 = 4e-7, .forward = "gather_rows"},
    {ROW(gelu_backward), .activates = 1, .forward = "linear_gelu_forward", .upstream = du_itself},
    {ROW(drop_rows), .drops = 1, .f32 = 2e-7},
    {ROW(tanh_forward), .drops = 1, .f32 = 4e-7},
    {ROW(tanh_backward), .drops = 1, .f32 = 4e-7, .forward = "tanh_forward"},
    {ROW(class_loss), .prepare = prepare_classes, .modes = 2, .f32 = 2e-6, .forward = "class_loss"},
    {ROW(weighted_loss), .prepare = prepare_weighted, .f32 = 4e-7, .forward = "weighted_loss"},
    {ROW(squared_loss), .prepare = prepare_targets, .f32 = 4e-7, .forward = "squared_loss"},
    {ROW(sigmoid_loss), .prepare = prepare_targets, .f32 = 4e-7, .forward = "sigmoid_loss"},
    {ROW(pool_forward), .f32 = 4e-7},
    {ROW(pool_backward), .f32 = 4e-7, .forward = "pool_forward"},
    {ROW(normalize_forward), .prepare = prepare_lengths, .modes = 2, .f32 = 4e-7},
    {ROW(normalize_backward), .f32 = 4e-7, .forward = "normalize_forward"},
    {ROW(similarity_loss), .prepare = prepare_triplets, .f32 = 2e-6, .forward = "similarity_loss"},
    {ROW(add_losses), .f64 = 1e-14},
    {ROW(squares), .prepare = prepare_infinity, .modes = 2},
    {ROW(norms)},
    {ROW(adamw), .prepare = prepare_adamw, .modes = ADAMW_MODES},
    {ROW(lamb_moments), .prepare = prepare_lamb_moments, .modes = 2, .f64 = 2e-6},
    {ROW(lamb_apply), .prepare = prepare_lamb_apply, .modes = LAMB_MODES},
    {ROW(add), .f32 = OP_EXACTLY},
    {ROW(convert), .f32 = OP_EXACTLY, .half = OP_EXACTLY},
    {ROW(checksums)},
    {ROW(linear_int8_forward), .prepare = prepare_int8, .activates = 1, .f32 = 6e-6,
     .half = 7.5e-3},
    {ROW(linear_packed_forward), .activates = 1, .f32 = 6e-6, .half = 7.5e-3},
};
const int op_row_count = sizeof op_rows / sizeof *op_rows;
