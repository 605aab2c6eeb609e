// SPDX-License-Identifier: Apache-2.0
// The activation functions and their derivatives in double, for the tests of operations and of
// whole models.
#include "reference_activations.h"

#include <math.h>

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double tanh_inside(double x) {
    return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

#define LAPLACE_WIDTH (0.282095 * sqrt(2.0))

double reference_activation(double x, enum activation activation) {
    switch (activation) {
    case ACTIVATION_GELU_ERF:
        return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh_inside(x));
    case ACTIVATION_GELU_CLIPPED:
        return fmax(-10, fmin(10, reference_activation(x, ACTIVATION_GELU_ERF)));
    case ACTIVATION_GELU_QUICK:
        return x * sigmoid(1.702 * x);
    case ACTIVATION_RELU:
        return fmax(x, 0);
    case ACTIVATION_RELU_SQUARED:
        return fmax(x, 0) * fmax(x, 0);
    case ACTIVATION_RELU6:
        return fmin(fmax(x, 0), 6);
    case ACTIVATION_RELU_LEAKY:
        return fmax(x, 0) + 0.01 * fmin(x, 0);
    case ACTIVATION_SILU:
        return x * sigmoid(x);
    case ACTIVATION_HARD_SWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    case ACTIVATION_MISH:
        return x * tanh(log1p(exp(x)));
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_SIGMOID:
        return sigmoid(x);
    case ACTIVATION_LAPLACE:
        return 0.5 * (1 + erf((x - 0.707107) / LAPLACE_WIDTH));
    case ACTIVATION_LINEAR:
        return x;
    default:
        return NAN;
    }
}

double reference_activation_slope(double x, enum activation activation) {
    double s = sigmoid(x), t = tanh_inside(x), z = (x - 0.707107) / LAPLACE_WIDTH;
    switch (activation) {
    case ACTIVATION_GELU_ERF:
        return 0.5 * (1 + erf(x / sqrt(2.0))) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
    case ACTIVATION_GELU_TANH:
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    case ACTIVATION_GELU_CLIPPED:
        return fabs(reference_activation(x, ACTIVATION_GELU_ERF)) > 10
                   ? 0
                   : reference_activation_slope(x, ACTIVATION_GELU_ERF);
    case ACTIVATION_GELU_QUICK:
        s = sigmoid(1.702 * x);
        return s + 1.702 * x * s * (1 - s);
    case ACTIVATION_RELU:
        return x > 0;
    case ACTIVATION_RELU_SQUARED:
        return 2 * fmax(x, 0);
    case ACTIVATION_RELU6:
        return x > 0 && x < 6;
    case ACTIVATION_RELU_LEAKY:
        return x > 0 ? 1 : 0.01;
    case ACTIVATION_SILU:
        return s + x * s * (1 - s);
    case ACTIVATION_HARD_SWISH:
        return x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1;
    case ACTIVATION_MISH:
        t = tanh(log1p(exp(x)));
        return t + x * (1 - t * t) * s;
    case ACTIVATION_TANH:
        return 1 - tanh(x) * tanh(x);
    case ACTIVATION_SIGMOID:
        return s * (1 - s);
    case ACTIVATION_LAPLACE:
        return exp(-z * z) / sqrt(M_PI) / LAPLACE_WIDTH;
    case ACTIVATION_LINEAR:
        return 1;
    default:
        return NAN;
    }
}
