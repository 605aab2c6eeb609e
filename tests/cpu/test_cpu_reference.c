// SPDX-License-Identifier: Apache-2.0
// Finite differences in double: every derivative of reference.c against its own forward function.
// For a random weighting w, d(sum w * f(x)) / dx is compared with the central difference.
#include "harness.h"
#include "reference.h"

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

static void gelu_slope(void **state) {
    for (int kind = 0; kind < 2; kind++) {
        for (double x = -6; x < 6; x += 0.37) {
            double up = reference_gelu(x + STEP, (enum activation)kind);
            double down = reference_gelu(x - STEP, (enum activation)kind);
            close_to(reference_gelu_slope(x, (enum activation)kind), (up - down) / (2 * STEP));
        }
    }
}

enum { ROWS = 3, COLUMNS = 7 };

static double norm_value(const double *s, const double *gamma, const double *beta,
                         const double *weight) {
    double y[ROWS * COLUMNS], xhat[ROWS * COLUMNS], rstd[ROWS], sum = 0;
    reference_norm(y, xhat, rstd, s, gamma, beta, 1e-3, ROWS, COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        sum += weight[i] * y[i];
    }
    return sum;
}

static void norm_check(double *x, int count, const double *gradient, const double *s,
                       const double *gamma, const double *beta, const double *weight) {
    for (int i = 0; i < count; i++) {
        double kept = x[i];
        x[i] = kept + STEP;
        double up = norm_value(s, gamma, beta, weight);
        x[i] = kept - STEP;
        double down = norm_value(s, gamma, beta, weight);
        x[i] = kept;
        close_to(gradient[i], (up - down) / (2 * STEP));
    }
}

static void norm_gradient(void **state) {
    uint64_t index = 0;
    double s[ROWS * COLUMNS], gamma[COLUMNS], beta[COLUMNS], weight[ROWS * COLUMNS];
    double y[ROWS * COLUMNS], xhat[ROWS * COLUMNS], rstd[ROWS], ds[ROWS * COLUMNS];
    double dgamma[COLUMNS] = {0}, dbeta[COLUMNS] = {0};
    fill(s, ROWS * COLUMNS, &index);
    fill(gamma, COLUMNS, &index);
    fill(beta, COLUMNS, &index);
    fill(weight, ROWS * COLUMNS, &index);
    reference_norm(y, xhat, rstd, s, gamma, beta, 1e-3, ROWS, COLUMNS);
    reference_norm_grad(ds, dgamma, dbeta, weight, xhat, rstd, gamma, ROWS, COLUMNS);
    norm_check(s, ROWS * COLUMNS, ds, s, gamma, beta, weight);
    norm_check(gamma, COLUMNS, dgamma, s, gamma, beta, weight);
    norm_check(beta, COLUMNS, dbeta, s, gamma, beta, weight);
}

enum { LENGTH = 5, HIDDEN = 6, HEAD = 1, SIZE = 3, QKV = LENGTH * 3 * HIDDEN };

static double attention_value(const struct reference_head *h, const double *weight) {
    double context[LENGTH * SIZE], lse[LENGTH], sum = 0;
    reference_attention(context, lse, h);
    for (int i = 0; i < LENGTH * SIZE; i++) {
        sum += weight[i] * context[i];
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
    const struct reference_head h = {qkv, factors, LENGTH, HIDDEN, HEAD, SIZE};
    reference_attention_grad(dqkv, weight, &h);
    for (int i = 0; i < QKV; i++) {
        double kept = qkv[i];
        qkv[i] = kept + STEP;
        double up = attention_value(&h, weight);
        qkv[i] = kept - STEP;
        double down = attention_value(&h, weight);
        qkv[i] = kept;
        close_to(dqkv[i], (up - down) / (2 * STEP));
    }
}

static void span_gradient(void **state) {
    uint64_t index = 0;
    double x[9], gradient[9];
    fill(x, 9, &index);
    for (int label = -1; label <= 9; label++) {
        reference_span_half(gradient, x, 9, label);
        for (int i = 0; i < 9; i++) {
            double kept = x[i];
            x[i] = kept + STEP;
            double up = reference_span_half(NULL, x, 9, label);
            x[i] = kept - STEP;
            double down = reference_span_half(NULL, x, 9, label);
            x[i] = kept;
            close_to(gradient[i], (up - down) / (2 * STEP));
        }
    }
}

static void class_gradient(void **state) {
    uint64_t index = 0;
    double x[5], gradient[5];
    fill(x, 5, &index);
    for (int label = -1; label <= 5; label++) {
        reference_cross_entropy(gradient, x, 5, label);
        for (int i = 0; i < 5; i++) {
            double kept = x[i];
            x[i] = kept + STEP;
            double up = reference_cross_entropy(NULL, x, 5, label);
            x[i] = kept - STEP;
            double down = reference_cross_entropy(NULL, x, 5, label);
            x[i] = kept;
            close_to(gradient[i], (up - down) / (2 * STEP));
        }
    }
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

// y = x w^T: dx = dy w and dw = dy^T x, as the device tests build them from reference_multiply.
static void linear_gradient(void **state) {
    enum { R = 3, K = 4, N = 2 };
    uint64_t index = 0;
    double x[R * K], w[N * K], dy[R * N], y[R * N], dx[R * K], dw[N * K] = {0};
    fill(x, R * K, &index);
    fill(w, N * K, &index);
    fill(dy, R * N, &index);
    reference_multiply(dx, (struct reference_view){dy, N, 1}, (struct reference_view){w, K, 1}, R,
                       K, N, 0);
    reference_multiply(dw, (struct reference_view){dy, 1, N}, (struct reference_view){x, K, 1}, N,
                       K, R, 1);
    for (int i = 0; i < R * K + N * K; i++) {
        double *value = i < R * K ? &x[i] : &w[i - R * K], kept = *value, sums[2] = {0, 0};
        for (int side = 0; side < 2; side++) {
            *value = kept + (side ? -STEP : STEP);
            reference_multiply(y, (struct reference_view){x, K, 1},
                               (struct reference_view){w, 1, K}, R, N, K, 0);
            for (int j = 0; j < R * N; j++) {
                sums[side] += dy[j] * y[j];
            }
        }
        *value = kept;
        close_to(i < R * K ? dx[i] : dw[i - R * K], (sums[0] - sums[1]) / (2 * STEP));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_slope),         cmocka_unit_test(norm_gradient),
        cmocka_unit_test(attention_gradient), cmocka_unit_test(span_gradient),
        cmocka_unit_test(linear_gradient),    cmocka_unit_test(class_gradient),
        cmocka_unit_test(squared_gradient),   cmocka_unit_test(tanh_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
