// SPDX-License-Identifier: Apache-2.0
// The activation functions and their slopes, as enum activation (device/device.h) defines them.
// Where a function has a kink its slope there is PyTorch's.
#ifndef BERTH_GPU_ACTIVATIONS_H
#define BERTH_GPU_ACTIVATIONS_H

#include "device/gpu/kernel.h"

DEVICE float sigmoid_of(float x) {
    return 1.0f / (1.0f + gpu_exp(-x));
}

// x Phi(x)
DEVICE float gelu(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

// Phi(x) + x phi(x)
DEVICE float gelu_slope(float x) {
    return 0.5f * (1.0f + erff(x * 0.70710678118654752f)) +
           x * 0.39894228040143268f * gpu_exp(-0.5f * x * x);
}

// For 16-bit numbers: Phi(-|x|) = e^(-x^2 / 2) (c1 t + ... + c6 t^6) with t = 1 / (1 + p |x|),
// within 2e-7, and within 2e-5 of its value.
struct gelu_tail {
    float exponential, polynomial; // e^(-x^2 / 2), and c1 t + ... + c6 t^6
};

DEVICE struct gelu_tail gelu_tail_of(float x) {
    const float t = gpu_reciprocal(1.0f + 0.2979f * fabsf(x));
    float sum = -0.08127923976428392f;
    sum = sum * t + 0.23428099330162888f;
    sum = sum * t - 0.035822413737716725f;
    sum = sum * t + 0.1524628225679669f;
    sum = sum * t + 0.11096507875325394f;
    sum = sum * t + 0.11939257993502361f;
    return {gpu_exp2(x * -0.72134752044448170f * x), sum * t};
}

// |x|, but where e^(-x^2 / 2) is 0 a number: infinity times that is none.
DEVICE float gelu_size(float x) {
    return fminf(fabsf(x), 16.0f);
}

DEVICE float approximate_gelu(float x) {
    const struct gelu_tail tail = gelu_tail_of(x);
    return fmaxf(x, 0.0f) - gelu_size(x) * (tail.exponential * tail.polynomial);
}

DEVICE float approximate_gelu_slope(float x) {
    const struct gelu_tail tail = gelu_tail_of(x);
    const float below = // the slope at -|x|
        tail.exponential * (tail.polynomial - gelu_size(x) * 0.39894228040143268f);
    return x > 0.0f ? 1.0f - below : below;
}

// tanh(sqrt(2 / pi) (x + 0.044715 x^3))
DEVICE float gelu_tanh_part(float x) {
    return tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x));
}

DEVICE float gelu_tanh_slope(float x) {
    const float t = gelu_tanh_part(x);
    const float tanh_slope =
        (1.0f - t * t) * 0.79788456080286536f * (1.0f + 3.0f * 0.044715f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * tanh_slope;
}

DEVICE float relu6(float x) {
    return fminf(fmaxf(x, 0.0f), 6.0f);
}

// With e = e^x, tanh(log(1 + e)) = n / (n + 2) where n = e (e + 2). Above 20 it is 1 in single
// precision; x is limited to 20 because the square of e must not overflow.
DEVICE float mish_exponential(float x) {
    return gpu_exp(fminf(x, 20.0f));
}

DEVICE float mish(float x) {
    const float e = mish_exponential(x), n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
}

DEVICE float mish_slope(float x) {
    const float e = mish_exponential(x), n = e * (e + 2.0f), m = n + 2.0f;
    return n / m + x * (4.0f * (n + 1.0f) / m / m) * (e / (1.0f + e));
}

#define LAPLACE_SCALE (1.0f / (0.282095f * 1.41421356237309505f))

DEVICE float laplace(float x) {
    return 0.5f * (1.0f + erff((x - 0.707107f) * LAPLACE_SCALE));
}

DEVICE float laplace_slope(float x) {
    const float z = (x - 0.707107f) * LAPLACE_SCALE;
    return gpu_exp(-z * z) * (0.56418958354775629f * LAPLACE_SCALE); // 1 / sqrt(pi)
}

DEVICE float activation_of(float x, enum activation activation) {
    switch (activation) {
    case ACTIVATION_GELU_ERF:
        return gelu(x);
    case ACTIVATION_GELU_TANH:
        return 0.5f * x * (1.0f + gelu_tanh_part(x));
    case ACTIVATION_GELU_CLIPPED:
        return fminf(fmaxf(gelu(x), -10.0f), 10.0f);
    case ACTIVATION_GELU_QUICK:
        return x * sigmoid_of(1.702f * x);
    case ACTIVATION_RELU:
        return fmaxf(x, 0.0f);
    case ACTIVATION_RELU_SQUARED:
        return fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
    case ACTIVATION_RELU6:
        return relu6(x);
    case ACTIVATION_RELU_LEAKY:
        return x > 0.0f ? x : 0.01f * x;
    case ACTIVATION_SILU:
        return x * sigmoid_of(x);
    case ACTIVATION_HARD_SWISH:
        return x * relu6(x + 3.0f) / 6.0f;
    case ACTIVATION_MISH:
        return mish(x);
    case ACTIVATION_TANH:
        return tanhf(x);
    case ACTIVATION_SIGMOID:
        return sigmoid_of(x);
    case ACTIVATION_LAPLACE:
        return laplace(x);
    default:
        return x;
    }
}

DEVICE float activation_slope(float x, enum activation activation) {
    switch (activation) {
    case ACTIVATION_GELU_ERF:
        return gelu_slope(x);
    case ACTIVATION_GELU_TANH:
        return gelu_tanh_slope(x);
    case ACTIVATION_GELU_CLIPPED:
        return gelu(x) > 10.0f ? 0.0f : gelu_slope(x);
    case ACTIVATION_GELU_QUICK: {
        const float s = sigmoid_of(1.702f * x);
        return s + 1.702f * x * s * (1.0f - s);
    }
    case ACTIVATION_RELU:
        return x > 0.0f ? 1.0f : 0.0f;
    case ACTIVATION_RELU_SQUARED:
        return 2.0f * fmaxf(x, 0.0f);
    case ACTIVATION_RELU6:
        return x > 0.0f && x < 6.0f ? 1.0f : 0.0f;
    case ACTIVATION_RELU_LEAKY:
        return x > 0.0f ? 1.0f : 0.01f;
    case ACTIVATION_SILU: {
        const float s = sigmoid_of(x);
        return s * (1.0f + x * (1.0f - s));
    }
    case ACTIVATION_HARD_SWISH:
        return x >= 3.0f ? 1.0f : x > -3.0f ? x / 3.0f + 0.5f : 0.0f;
    case ACTIVATION_MISH:
        return mish_slope(x);
    case ACTIVATION_TANH: {
        const float t = tanhf(x);
        return 1.0f - t * t;
    }
    case ACTIVATION_SIGMOID: {
        const float s = sigmoid_of(x);
        return s * (1.0f - s);
    }
    case ACTIVATION_LAPLACE:
        return laplace_slope(x);
    default:
        return 1.0f;
    }
}

#endif
