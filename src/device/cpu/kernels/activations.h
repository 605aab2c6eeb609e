// SPDX-License-Identifier: Apache-2.0
// The activation functions, their gradients, and column sums (the gradients of biases). The
// formulas are those of enum activation (device/device.h); where a function has a kink its slope
// there is PyTorch's.
#ifndef BERTH_CPU_KERNELS_ACTIVATIONS_H
#define BERTH_CPU_KERNELS_ACTIVATIONS_H

#include "device/cpu/kernels/gelu_table.h"
#include "device/cpu/kernels/lanes.h"
#include "device/device.h"

// --- one number ---------------------------------------------------------------------------------

// x (1 + tanh(c (x + 0.044715 x^3))) / 2, c = sqrt(2 / pi)
ALWAYS_INLINE float gelu_tanh(float x) {
    float t = tanh_of(0.79788456080286536f * (x + 0.044715f * x * x * x));
    return 0.5f * x * (1.0f + t);
}

ALWAYS_INLINE float gelu_tanh_slope(float x) {
    float t = tanh_of(0.79788456080286536f * (x + 0.044715f * x * x * x));
    float inner = 0.79788456080286536f * (1.0f + 3.0f * 0.044715f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

ALWAYS_INLINE float gelu_quick(float x) {
    return x * sigmoid_of(1.702f * x);
}

ALWAYS_INLINE float gelu_quick_slope(float x) {
    float s = sigmoid_of(1.702f * x);
    return s + 1.702f * x * s * (1.0f - s);
}

ALWAYS_INLINE float relu(float x) {
    return x < 0.0f ? 0.0f : x;
}

ALWAYS_INLINE float relu_slope(float x) {
    return x > 0.0f ? 1.0f : 0.0f;
}

ALWAYS_INLINE float relu_squared(float x) {
    return relu(x) * relu(x);
}

ALWAYS_INLINE float relu_squared_slope(float x) {
    return 2.0f * relu(x);
}

ALWAYS_INLINE float relu6(float x) {
    float y = relu(x);
    return y > 6.0f ? 6.0f : y;
}

ALWAYS_INLINE float relu6_slope(float x) {
    return relu_slope(x) * (x < 6.0f ? 1.0f : 0.0f);
}

ALWAYS_INLINE float relu_leaky(float x) {
    return x > 0.0f ? x : 0.01f * x;
}

ALWAYS_INLINE float relu_leaky_slope(float x) {
    return x > 0.0f ? 1.0f : 0.01f;
}

ALWAYS_INLINE float silu(float x) {
    return x * sigmoid_of(x);
}

ALWAYS_INLINE float silu_slope(float x) {
    float s = sigmoid_of(x);
    return s * (1.0f + x * (1.0f - s));
}

ALWAYS_INLINE float hard_swish(float x) {
    return x * relu6(x + 3.0f) / 6.0f;
}

ALWAYS_INLINE float hard_swish_slope(float x) {
    float inside = x / 3.0f + 0.5f;
    inside = x > -3.0f ? inside : 0.0f;
    return x < 3.0f ? inside : 1.0f;
}

// With e = e^x, tanh(log(1 + e)) = n / (n + 2) where n = e (e + 2). Above 20 it is 1 in single
// precision; x is limited to 20 because the square of e must not overflow.
ALWAYS_INLINE float mish_exponential(float x) {
    return exp_of(x < 20.0f ? x : 20.0f);
}

ALWAYS_INLINE float mish(float x) {
    float e = mish_exponential(x), n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
}

ALWAYS_INLINE float mish_slope(float x) {
    float e = mish_exponential(x), n = e * (e + 2.0f), m = n + 2.0f;
    return n / m + x * (4.0f * (n + 1.0f) / m / m) * (e / (1.0f + e));
}

ALWAYS_INLINE float tanh_slope(float x) {
    float t = tanh_of(x);
    return 1.0f - t * t;
}

ALWAYS_INLINE float sigmoid_slope(float x) {
    float s = sigmoid_of(x);
    return s * (1.0f - s);
}

#define LAPLACE_SCALE (1.0f / (0.282095f * 1.41421356237309505f))

ALWAYS_INLINE float laplace(float x) {
    return 0.5f * (1.0f + erf_of((x - 0.707107f) * LAPLACE_SCALE));
}

ALWAYS_INLINE float laplace_slope(float x) {
    float z = (x - 0.707107f) * LAPLACE_SCALE;
    return exp_negative(-z * z) * (0.56418958354775629f * LAPLACE_SCALE); // 1 / sqrt(pi)
}

ALWAYS_INLINE float identity(float x) {
    return x;
}

ALWAYS_INLINE float identity_slope(float x) {
    (void)x;
    return 1.0f;
}

// --- chunks of rows -----------------------------------------------------------------------------

// NAME_chunk: x = value(x). NAME_slope_chunk: g *= slope(x). Chunks are computed in whole vectors;
// values past `count` are unused.
#define ACTIVATION_CHUNKS(name, value, slope)                                                      \
    static void name##_chunk(float *restrict x, int64_t count) {                                   \
        for (int64_t v = 0; v < count; v += LANES) {                                               \
            float *restrict lane = x + v;                                                          \
            _Pragma("omp simd") for (int i = 0; i < LANES; i++) {                                  \
                lane[i] = value(lane[i]);                                                          \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void name##_slope_chunk(float *restrict g, const float *restrict x, int64_t count) {    \
        for (int64_t v = 0; v < count; v += LANES) {                                               \
            const float *restrict from = x + v;                                                    \
            float *restrict lane = g + v;                                                          \
            _Pragma("omp simd") for (int i = 0; i < LANES; i++) {                                  \
                lane[i] *= slope(from[i]);                                                         \
            }                                                                                      \
        }                                                                                          \
    }

// x is in the polynomial piece around the nearest point, whose index is in the low bits of the
// float. The absolute error is 3e-8, of the slope 1.5e-7, besides rounding.
ALWAYS_INLINE lanes gelu_lookup(const float table[GELU_DEGREE + 1][GELU_PIECES], lanes x) {
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    const lanes size = (lanes)((lane_words)x & 0x7FFFFFFFu), limit = lanes_all(GELU_LIMIT);
    const lanes place = lanes_min(limit, size) * ((GELU_PIECES - 1) / GELU_LIMIT);
    const lanes n = place + magic, r = place - (n - magic);
    lanes y = lanes_lookup(table[GELU_DEGREE], (lane_words)n);
#pragma GCC unroll 7
    for (int k = GELU_DEGREE - 1; k >= 0; k--) {
        y = lanes_fused(y, r, lanes_lookup(table[k], (lane_words)n));
    }
    return y;
}

// x Phi(x)
ALWAYS_INLINE lanes gelu_erf_lanes(lanes x) {
    return lanes_max(x, lanes_all(0.0f)) - gelu_lookup(gelu_tail, x);
}

// Phi(x) + x phi(x)
ALWAYS_INLINE lanes gelu_erf_slope_lanes(lanes x) {
    const lanes slope = gelu_lookup(gelu_slope, x);
    return lanes_chosen(x >= 0.0f, 1.0f - slope, slope);
}

ALWAYS_INLINE lanes gelu_clipped_lanes(lanes x) {
    return lanes_max(lanes_all(-10.0f), lanes_min(lanes_all(10.0f), gelu_erf_lanes(x)));
}

ALWAYS_INLINE lanes gelu_clipped_slope_lanes(lanes x) {
    return lanes_chosen(gelu_erf_lanes(x) > 10.0f, lanes_all(0.0f), gelu_erf_slope_lanes(x));
}

// The chunks of functions of vectors.
#define LANE_CHUNKS(name)                                                                          \
    static void name##_chunk(float *restrict x, int64_t count) {                                   \
        for (int64_t v = 0; v < count; v += LANES) {                                               \
            lanes_store(x + v, name##_lanes(lanes_load(x + v)));                                   \
        }                                                                                          \
    }                                                                                              \
    static void name##_slope_chunk(float *restrict g, const float *restrict x, int64_t count) {    \
        for (int64_t v = 0; v < count; v += LANES) {                                               \
            lanes_store(g + v, lanes_load(g + v) * name##_slope_lanes(lanes_load(x + v)));         \
        }                                                                                          \
    }

LANE_CHUNKS(gelu_erf)
LANE_CHUNKS(gelu_clipped)
ACTIVATION_CHUNKS(gelu_tanh, gelu_tanh, gelu_tanh_slope)
ACTIVATION_CHUNKS(gelu_quick, gelu_quick, gelu_quick_slope)
ACTIVATION_CHUNKS(relu, relu, relu_slope)
ACTIVATION_CHUNKS(relu_squared, relu_squared, relu_squared_slope)
ACTIVATION_CHUNKS(relu6, relu6, relu6_slope)
ACTIVATION_CHUNKS(relu_leaky, relu_leaky, relu_leaky_slope)
ACTIVATION_CHUNKS(silu, silu, silu_slope)
ACTIVATION_CHUNKS(hard_swish, hard_swish, hard_swish_slope)
ACTIVATION_CHUNKS(mish, mish, mish_slope)
ACTIVATION_CHUNKS(tanh, tanh_of, tanh_slope)
ACTIVATION_CHUNKS(sigmoid, sigmoid_of, sigmoid_slope)
ACTIVATION_CHUNKS(laplace, laplace, laplace_slope)
ACTIVATION_CHUNKS(identity, identity, identity_slope)

static const struct activation_row {
    void (*value)(float *restrict x, int64_t count);
    void (*slope)(float *restrict g, const float *restrict x, int64_t count);
} activation_rows[ACTIVATION_COUNT] = {
    [ACTIVATION_GELU_ERF] = {gelu_erf_chunk, gelu_erf_slope_chunk},
    [ACTIVATION_GELU_TANH] = {gelu_tanh_chunk, gelu_tanh_slope_chunk},
    [ACTIVATION_GELU_CLIPPED] = {gelu_clipped_chunk, gelu_clipped_slope_chunk},
    [ACTIVATION_GELU_QUICK] = {gelu_quick_chunk, gelu_quick_slope_chunk},
    [ACTIVATION_RELU] = {relu_chunk, relu_slope_chunk},
    [ACTIVATION_RELU_SQUARED] = {relu_squared_chunk, relu_squared_slope_chunk},
    [ACTIVATION_RELU6] = {relu6_chunk, relu6_slope_chunk},
    [ACTIVATION_RELU_LEAKY] = {relu_leaky_chunk, relu_leaky_slope_chunk},
    [ACTIVATION_SILU] = {silu_chunk, silu_slope_chunk},
    [ACTIVATION_HARD_SWISH] = {hard_swish_chunk, hard_swish_slope_chunk},
    [ACTIVATION_MISH] = {mish_chunk, mish_slope_chunk},
    [ACTIVATION_TANH] = {tanh_chunk, tanh_slope_chunk},
    [ACTIVATION_SIGMOID] = {sigmoid_chunk, sigmoid_slope_chunk},
    [ACTIVATION_LAPLACE] = {laplace_chunk, laplace_slope_chunk},
    [ACTIVATION_LINEAR] = {identity_chunk, identity_slope_chunk},
};

// --- matrices -----------------------------------------------------------------------------------

#define ROWS_AHEAD 4

ALWAYS_INLINE void prefetch_ahead(struct mat m, int64_t row, int64_t column, int64_t count,
                                  int writes) {
    if (row + ROWS_AHEAD < m.rows) {
        prefetch(m, row + ROWS_AHEAD, column, count, writes);
    }
}

static void activation_forward(struct mat y, struct mat u, enum activation activation) {
    float x[KERNEL_COLUMNS] = {0};
    for (int64_t row = 0; row < u.rows; row++) {
        for (int64_t c = 0; c < u.cols; c += KERNEL_COLUMNS) {
            int64_t count = chunk_length(c, u.cols, KERNEL_COLUMNS);
            prefetch_ahead(y, row, c, count, 1);
            load(x, u, row, c, count);
            activation_rows[activation].value(x, count);
            store(y, row, c, x, count);
        }
    }
}

static void activation_backward(struct mat du, struct mat u, enum activation activation,
                                float *sums) {
    float x[KERNEL_COLUMNS] = {0}, g[KERNEL_COLUMNS] = {0};
    memset(sums, 0, (size_t)du.cols * sizeof *sums);
    for (int64_t row = 0; row < u.rows; row++) {
        for (int64_t c = 0; c < u.cols; c += KERNEL_COLUMNS) {
            int64_t count = chunk_length(c, u.cols, KERNEL_COLUMNS);
            float *restrict sum = sums + c;
            prefetch_ahead(u, row, c, count, 0);
            load(x, u, row, c, count);
            load(g, du, row, c, count);
            activation_rows[activation].slope(g, x, count);
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                sum[i] += g[i];
            }
            store(du, row, c, g, count);
        }
    }
}

static void add(float *restrict total, const float *restrict x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        total[i] += x[i];
    }
}

static void activate(float *x, int64_t count, enum activation activation) {
    activation_rows[activation].value(x, count);
}

static void column_sums(struct mat x, float *sums) {
    memset(sums, 0, (size_t)x.cols * sizeof *sums);
    for (int64_t row = 0; row < x.rows; row++) {
        for (int64_t c = 0; c < x.cols; c += KERNEL_COLUMNS) {
            load_added(sums + c, x, row, c, chunk_length(c, x.cols, KERNEL_COLUMNS));
        }
    }
}

#endif
