// SPDX-License-Identifier: Apache-2.0
// Tests every derivative of reference.c against its forward function by finite differences in
// double: for a random weighting w, d(sum w * f(x)) / dx is compared with the central difference.
#include "core/harness.h"
#include "reference.h"
#include "reference_activations.h"

#include <math.h>
#include <string.h>

static double random_of(uint64_t *index) {
    return (double)rng_draw(7, 1, index) / 2147483648.0 - 1.0;
}

static void fill(double *x, int64_t count, uint64_t *index) {
    for (int64_t i = 0; i < count; i++) {
        x[i] = random_of(index);
    }
}

static void close_to(double found, double expected) {
    if (fabs(found - expected) > 1e-6 * (1 + fabs(expected))) {
        fail_msg("derivative is %.12g, the finite difference %.12g", found, expected);
    }
}

#define STEP 1e-5

// gradient[i] against the central difference of `value` in x[i], which it looks at.
static void check(double *x, int count, const double *gradient,
                  double (*value)(const void *context), const void *context) {
    for (int i = 0; i < count; i++) {
        double kept = x[i];
        x[i] = kept + STEP;
        double up = value(context);
        x[i] = kept - STEP;
        double down = value(context);
        x[i] = kept;
        close_to(gradient[i], (up - down) / (2 * STEP));
    }
}

static void activation_slope(void **state) {
    for (int kind = 0; kind < ACTIVATION_COUNT; kind++) {
        for (double x = -13; x < 13; x += 0.37) { // the kinks lie between
            double up = reference_activation(x + STEP, (enum activation)kind);
            double down = reference_activation(x - STEP, (enum activation)kind);
            close_to(reference_activation_slope(x, (enum activation)kind),
                     (up - down) / (2 * STEP));
        }
    }
}

enum { ROWS = 3, COLUMNS = 7 };

struct norm {
    double s[ROWS * COLUMNS], gamma[COLUMNS], beta[COLUMNS], weight[ROWS * COLUMNS];
};

static double norm_value(const void *context) {
    const struct norm *norm = context;
    double y[ROWS * COLUMNS], xhat[ROWS * COLUMNS], rstd[ROWS], sum = 0;
    reference_norm(y, xhat, rstd, norm->s, norm->gamma, norm->beta, 1e-3, ROWS, COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        sum += norm->weight[i] * y[i];
    }
    return sum;
}

static void norm_gradient(void **state) {
    uint64_t index = 0;
    struct norm norm;
    double y[ROWS * COLUMNS], xhat[ROWS * COLUMNS], rstd[ROWS], ds[ROWS * COLUMNS];
    double dgamma[COLUMNS] = {0}, dbeta[COLUMNS] = {0};
    fill(norm.s, ROWS * COLUMNS, &index);
    fill(norm.gamma, COLUMNS, &index);
    fill(norm.beta, COLUMNS, &index);
    fill(norm.weight, ROWS * COLUMNS, &index);
    reference_norm(y, xhat, rstd, norm.s, norm.gamma, norm.beta, 1e-3, ROWS, COLUMNS);
    reference_norm_grad(ds, dgamma, dbeta, norm.weight, xhat, rstd, norm.gamma, ROWS, COLUMNS);
    check(norm.s, ROWS * COLUMNS, ds, norm_value, &norm);
    check(norm.gamma, COLUMNS, dgamma, norm_value, &norm);
    check(norm.beta, COLUMNS, dbeta, norm_value, &norm);
}

enum { LENGTH = 5, HIDDEN = 6, HEAD = 1, SIZE = 3, QKV = LENGTH * 3 * HIDDEN };

struct weighted_head {
    struct reference_head head;
    const double *weight;
};

static double attention_value(const void *context) {
    const struct weighted_head *weighted = context;
    double out[LENGTH * SIZE], lse[LENGTH], sum = 0;
    reference_attention(out, lse, &weighted->head);
    for (int i = 0; i < LENGTH * SIZE; i++) {
        sum += weighted->weight[i] * out[i];
    }
    return sum;
}

static void attention_gradient(void **state) {
    uint64_t index = 0;
    double qkv[QKV], dqkv[QKV] = {0}, factors[LENGTH * LENGTH], weight[LENGTH * SIZE];
    fill(qkv, QKV, &index);
    fill(weight, LENGTH * SIZE, &index);
    for (int i = 0; i < LENGTH * LENGTH; i++) {
        factors[i] = i % 4 == 0 ? 0 : 4.0 / 3;
    }
    const struct weighted_head weighted = {{qkv, factors, LENGTH, HIDDEN, HEAD, SIZE}, weight};
    reference_attention_grad(dqkv, weight, &weighted.head);
    check(qkv, QKV, dqkv, attention_value, &weighted);
}

// A loss over `count` logits.
struct loss {
    double (*of)(double *gradient, const double *logits, int64_t count, int64_t label);
    double logits[9];
    int count, label;
};

static double loss_value(const void *context) {
    const struct loss *loss = context;
    return loss->of(NULL, loss->logits, loss->count, loss->label);
}

static void check_loss(struct loss loss) {
    uint64_t index = 0;
    double gradient[9];
    fill(loss.logits, loss.count, &index);
    for (loss.label = -1; loss.label <= loss.count; loss.label++) {
        loss.of(gradient, loss.logits, loss.count, loss.label);
        check(loss.logits, loss.count, gradient, loss_value, &loss);
    }
}

static void span_gradient(void **state) {
    check_loss((struct loss){.of = reference_span_half, .count = 9});
}

static void class_gradient(void **state) {
    check_loss((struct loss){.of = reference_cross_entropy, .count = 5});
}

static void squared_gradient(void **state) {
    for (double x = -3; x < 3; x += 0.37) {
        for (int missing = 0; missing < 2; missing++) {
            double gradient, target = missing ? (double)NAN : 0.7;
            reference_squared(&gradient, x, target);
            double up = reference_squared(NULL, x + STEP, target);
            double down = reference_squared(NULL, x - STEP, target);
            close_to(gradient, (up - down) / (2 * STEP));
        }
    }
}

struct labels {
    double logits[4];
    float targets[4];
};

static double labels_value(const void *context) {
    const struct labels *labels = context;
    return reference_sigmoid(NULL, labels->logits, labels->targets, 4);
}

static void sigmoid_gradient(void **state) {
    struct labels labels = {{-3, 0.2, 1.7, 4}, {0, 1, 0.3f, 1}};
    double gradient[4];
    for (int missing = 0; missing < 2; missing++) {
        labels.targets[0] = missing ? NAN : 0;
        reference_sigmoid(gradient, labels.logits, labels.targets, 4);
        check(labels.logits, 4, gradient, labels_value, &labels);
    }
}

// du = mask dy (1 - t^2) for y = mask tanh(u)
static void tanh_gradient(void **state) {
    for (double u = -5; u < 5; u += 0.37) {
        for (int kept = 0; kept < 2; kept++) {
            const double mask = kept * 4.0 / 3, dy = 0.6, points[3] = {u, u + STEP, u - STEP};
            double y[3], t[3], du;
            const double masks[3] = {mask, mask, mask};
            reference_tanh(y, t, points, masks, 3);
            reference_tanh_grad(&du, &dy, t, masks, 1);
            close_to(du, dy * (y[1] - y[2]) / (2 * STEP));
        }
    }
}

enum { R = 3, K = 4, N = 2 };

struct product {
    double x[R * K], w[N * K], dy[R * N];
};

static double product_value(const void *context) {
    const struct product *product = context;
    double y[R * N], sum = 0;
    reference_multiply(y, (struct reference_view){product->x, K, 1},
                       (struct reference_view){product->w, 1, K}, R, N, K, 0);
    for (int i = 0; i < R * N; i++) {
        sum += product->dy[i] * y[i];
    }
    return sum;
}

// y = x w^T: dx = dy w and dw = dy^T x, as the device tests build them from reference_multiply.
static void linear_gradient(void **state) {
    uint64_t index = 0;
    struct product p;
    double dx[R * K], dw[N * K] = {0};
    fill(p.x, R * K, &index);
    fill(p.w, N * K, &index);
    fill(p.dy, R * N, &index);
    reference_multiply(dx, (struct reference_view){p.dy, N, 1}, (struct reference_view){p.w, K, 1},
                       R, K, N, 0);
    reference_multiply(dw, (struct reference_view){p.dy, 1, N}, (struct reference_view){p.x, K, 1},
                       N, K, R, 1);
    check(p.x, R * K, dx, product_value, &p);
    check(p.w, N * K, dw, product_value, &p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activation_slope),   cmocka_unit_test(norm_gradient),
        cmocka_unit_test(attention_gradient), cmocka_unit_test(span_gradient),
        cmocka_unit_test(linear_gradient),    cmocka_unit_test(class_gradient),
        cmocka_unit_test(squared_gradient),   cmocka_unit_test(tanh_gradient),
        cmocka_unit_test(sigmoid_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
