// SPDX-License-Identifier: Apache-2.0
// The operations of device/device.h as plain loops in double on dense row-major arrays, with which
// the devices are compared. The formulas are in device/device.h. op_gradients.h checks the
// derivatives by finite differences.
#ifndef BERTH_TESTS_DEVICE_REFERENCE_H
#define BERTH_TESTS_DEVICE_REFERENCE_H

#include "device/device.h"

// The factor of each element of a [rows, columns] site (row of the batch, column): 0, the scale, or
// 1 in the slack and without dropout.
void reference_mask(double *mask, int64_t columns, const struct dropout *dropout,
                    const struct batch *batch);

// y = mask_after * (gamma * xhat + beta), xhat and rstd of s; all [rows, columns].
void reference_norm(double *y, double *xhat, double *rstd, const double *s, const double *gamma,
                    const double *beta, double epsilon, int64_t rows, int64_t columns);
// ds from dy; dgamma and dbeta are added to.
void reference_norm_grad(double *ds, double *dgamma, double *dbeta, const double *dy,
                         const double *xhat, const double *rstd, const double *gamma, int64_t rows,
                         int64_t columns);

// c[m, n] (+)= a * b with op(a)[i, k] = a[i * a_row + k * a_col] and so on.
struct reference_view {
    const double *data;
    int64_t row, col;
};
void reference_multiply(double *c, struct reference_view a, struct reference_view b, int64_t m,
                        int64_t n, int64_t k, int accumulate);

// qkv [length, 3H] of one sequence; factors [length, length] of the head's mask; context [length,
// D] of the head, lse [length].
struct reference_head {
    const double *qkv;
    const double *factors;
    int64_t length, hidden, head, size;
};
void reference_attention(double *context, double *lse, const struct reference_head *h);
// dqkv [length, 3H]: the head's columns are written.
void reference_attention_grad(double *dqkv, const double *dcontext, const struct reference_head *h);

// t = tanh(u), y = mask * t, and back.
void reference_tanh(double *y, double *t, const double *u, const double *mask, int64_t count);
void reference_tanh_grad(double *du, const double *dy, const double *t, const double *mask,
                         int64_t count);

// -log softmax(x[0..length))[label], 0 for a label outside; gradient may be NULL.
double reference_cross_entropy(double *gradient, const double *x, int64_t length, int64_t label);
// (x - target)^2, 0 for a target that is NaN; gradient may be NULL.
double reference_squared(double *gradient, double x, double target);
// The sum over the classes k of -log softmax(x)[k] times weights[k] * (smoothing / classes, and 1 -
// smoothing more for the label's); 0 for a label outside.
struct reference_shares {
    const double *weights;
    double smoothing;
    int64_t label;
};
double reference_weighted(double *gradient, const double *x, int64_t classes,
                          const struct reference_shares *shares);
// The mean over the labels of -(w t log s(x) + (1 - t) log(1 - s(x))), w = positive_weight; 0
// when the first target is NaN.
double reference_sigmoid(double *gradient, const double *x, const double *targets, int64_t labels,
                         double positive_weight);
// One half of the loss of one sequence: cross entropy / 2; gradient may be NULL.
double reference_span_half(double *gradient, const double *x, int64_t length, int64_t label);

#endif
