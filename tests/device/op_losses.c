// SPDX-License-Identifier: Apache-2.0
// The references of losses and of sentence embeddings: pooling, lengths and similarities. Those of
// layers and heads are in op_rows.c.
#include "op_rows.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- losses -------------------------------------------------------------------------------------

static void scale_gradient(struct op_case *c, int64_t count) {
    for (int64_t i = 0; c->x[0] != NULL && i < count; i++) {
        c->x[0][i] *= (double)c->call.scale;
    }
}

static double *row_of(double *x, int64_t row, int64_t cols) {
    return x != NULL ? x + row * cols : NULL;
}

void op_span_loss(struct op_case *c) {
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

void op_class_loss(struct op_case *c) {
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

// Mode 0: the second and third label are ignored, as they are too large and negative. Most labels
// have the largest logit, but share it with another class: in every third row with the previous
// class, so that there is no hit, and in the others with the next class, so that there is one. Mode
// 1: the labels have a probability close to 1.
void op_prepare_classes(struct op_case *c, int mode) {
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

void op_weighted_loss(struct op_case *c) {
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

// The second and third label are ignored, as they are too large and negative.
void op_prepare_weighted(struct op_case *c, int mode) {
    int32_t *labels = c->call.operands[4].data;
    for (int64_t i = 1; i < SIZE(COUNT) && i < 3; i++) {
        labels[i] = i == 1 ? (int32_t)SIZE(N) : -1;
    }
}

void op_squared_loss(struct op_case *c) {
    double **x = c->x;
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        x[1][i] = reference_squared(row_of(x[0], i, 1), x[2][i], x[3][i]);
    }
    scale_gradient(c, SIZE(COUNT));
}

void op_sigmoid_loss(struct op_case *c) {
    double **x = c->x;
    const int64_t labels = SIZE(N);
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        x[1][i] = reference_sigmoid(row_of(x[0], i, labels), x[2] + i * labels, x[3] + i * labels,
                                    labels, (double)op_positive_weight(&c->call));
    }
    scale_gradient(c, SIZE(COUNT) * labels);
}

// The second row has no target; the first target of the first one is 1.
void op_prepare_targets(struct op_case *c, int mode) {
    c->x[3][0] = 1;
    if (SIZE(COUNT) > 1) {
        c->x[3][c->call.operands[3].cols] = (double)NAN;
    }
}

// --- sentence embeddings ------------------------------------------------------------------------

// factors[row]: the weights of a sequence's rows in the pooling of a column; for the maximum, 1 at
// its row.
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

// Visits every factor, with the index of its element in the rows and in the vectors.
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

void op_pool_forward(struct op_case *c) {
    memset(c->x[0], 0, (size_t)(SIZE(COUNT) * SIZE(HIDDEN)) * sizeof(double));
    pool(c, c->x[1], gather_one);
}

static void spread_one(struct op_case *c, int64_t row, int64_t vector, double factor) {
    c->x[0][row] = factor * c->x[1][vector];
}

void op_pool_backward(struct op_case *c) {
    pool(c, c->x[2], spread_one);
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

void op_normalize_forward(struct op_case *c) {
    const int64_t cols = SIZE(HIDDEN);
    for (int64_t at = 0; at < SIZE(COUNT) * cols; at++) {
        const double *x = c->x[2] + at / cols * cols;
        c->x[1][at / cols] = fmax(sqrt(dot(x, x, cols)), 1e-12);
        c->x[0][at] = (double)OP_RADIUS * c->x[2][at] / c->x[1][at / cols];
    }
}

// In mode 1, the first vector is zero, and must stay so.
void op_prepare_lengths(struct op_case *c, int mode) {
    memset(c->x[2], 0, (size_t)(mode * SIZE(HIDDEN)) * sizeof(double));
}

void op_normalize_backward(struct op_case *c) {
    const int64_t cols = SIZE(HIDDEN);
    const double radius = (double)OP_RADIUS;
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        const double *dy = c->x[1] + i * cols, *y = c->x[2] + i * cols;
        const double along = dot(y, dy, cols) / radius;
        for (int64_t k = 0; k < cols; k++) {
            c->x[0][i * cols + k] += (radius * dy[k] - along * y[k]) / c->x[3][i];
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

static double margins_example(double *dx, const double *x, int64_t cols, const double *targets,
                              int64_t texts) {
    const double near = dot(x, x + cols, cols), share = 1 / (double)(texts - 2);
    double loss = 0;
    for (int64_t k = 2; k < texts; k++) {
        const double *far = x + k * cols;
        const double error = near - dot(x, far, cols) - targets[k];
        for (int64_t i = 0; i < cols; i++) {
            dx[i] += 2 * share * error * (x[i + cols] - far[i]);
            dx[i + cols] += 2 * share * error * x[i];
            dx[i + k * cols] = -2 * share * error * x[i];
        }
        loss += share * error * error;
    }
    return loss;
}

// The pairs are (x[i], x[i + count]): n log(1 + the sum over t[i] > t[j] of e^(factor (p[j] -
// p[i])))
static double order_group(double *dx, const double *x, int64_t cols, const double *targets,
                          int64_t count) {
    double sum = 1, products[OP_GROUP], derivatives[OP_GROUP] = {0};
    for (int64_t i = 0; i < count; i++) {
        products[i] = dot(x + i * cols, x + (i + count) * cols, cols);
    }
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < count; j++) {
            if (targets[i] > targets[j]) {
                const double term = exp((double)OP_FACTOR * (products[j] - products[i]));
                sum += term;
                derivatives[j] += term;
                derivatives[i] -= term;
            }
        }
    }
    for (int64_t i = 0; i < count; i++) {
        const double factor = (double)count * (double)OP_FACTOR * derivatives[i] / sum;
        for (int64_t k = 0; k < cols; k++) {
            dx[i * cols + k] = factor * x[(i + count) * cols + k];
            dx[(i + count) * cols + k] = factor * x[i * cols + k];
        }
    }
    return (double)count * log(sum);
}

// The share of one text.
static double vectors_text(double *dx, const double *x, const double *target, int64_t cols,
                           int64_t texts) {
    const double share = 1 / (double)(cols * texts);
    double loss = 0;
    for (int64_t i = 0; i < cols; i++) {
        loss += share * (x[i] - target[i]) * (x[i] - target[i]);
        dx[i] = 2 * share * (x[i] - target[i]);
    }
    return loss;
}

void op_similarity_loss(struct op_case *c) {
    const int64_t cols = SIZE(HIDDEN), texts = op_similarity_texts(c->call.variant);
    const enum similarity_loss loss = (enum similarity_loss)c->call.variant;
    const int64_t group = loss == SIMILARITY_ORDER ? OP_GROUP : 1, examples = SIZE(COUNT) / texts;
    memset(c->x[0], 0, (size_t)(SIZE(COUNT) * cols) * sizeof(double));
    memset(c->x[1], 0, (size_t)SIZE(COUNT) * sizeof(double));
    for (int64_t i = 0; i < examples; i += group) {
        const int64_t row = i * texts, left = examples - i;
        double *dx = c->x[0] + row * cols, *x = c->x[2] + row * cols, *losses = c->x[1] + row;
        if (loss == SIMILARITY_COSINE) {
            losses[0] = cosine_example(dx, x, cols, c->x[3][row]);
        } else if (loss == SIMILARITY_MARGINS) {
            losses[0] = margins_example(dx, x, cols, c->x[3] + row, texts);
        } else if (loss == SIMILARITY_ORDER) {
            losses[0] = order_group(dx, x, cols, c->x[3] + row, left < group ? left : group);
        } else if (loss == SIMILARITY_VECTORS) {
            for (int64_t k = 0; k < texts; k++) {
                losses[k] = vectors_text(dx + k * cols, x + k * cols, c->x[4] + (row + k) * cols,
                                         cols, texts);
            }
        } else {
            losses[0] = triplet_example(dx, x, cols, loss == SIMILARITY_TRIPLET_COSINE);
        }
    }
    scale_gradient(c, SIZE(COUNT) * cols);
}

// The second triplet has reached its margin. The first two pairs of an order have one target.
void op_prepare_triplets(struct op_case *c, int mode) {
    const int64_t cols = SIZE(HIDDEN), at = 3 * cols;
    if (c->call.variant == SIMILARITY_ORDER && SIZE(COUNT) >= 4) {
        c->x[3][1] = c->x[3][0];
    }
    for (int64_t i = 0; op_similarity_texts(c->call.variant) == 3 && SIZE(COUNT) >= 6 && i < cols;
         i++) {
        c->x[2][at + cols + i] = c->x[2][at + i];
        c->x[2][at + 2 * cols + i] = -3 * c->x[2][at + i];
    }
}

void op_add_losses(struct op_case *c) {
    double sum = 0;
    for (int64_t i = 0; i < SIZE(COUNT); i++) {
        sum += c->x[1][i];
    }
    c->x[0][0] += 0.125 * sum;
}
