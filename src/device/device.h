// SPDX-License-Identifier: Apache-2.0
// The device interface: every operation that a model needs, with its formula and shapes. A device
// is a small struct of functions; src/device/cpu/ and src/device/gpu/ implement it.
//
// Letters: T tokens of real sequences, R rows of a batch (T rounded up, see batch.h), H hidden,
// I intermediate, A heads, D = H / A, S sequences, V vocabulary, P positions, C rows of a matrix
// with one row per sequence (C >= S), K classes.
//
// Rules that hold for every operation:
// - Matrices, vectors, and the arrays of a batch (device_batch.h) live in the device's memory.
//   Matrices are row-major with a free row stride. Shapes are correct by construction; a wrong one
//   is a programming error (assert).
// - Operations run in the order in which they are called. Operations and uploads may return before
//   they are done; `download`, `status` and `reserve` wait for all earlier calls. An upload has
//   read the host's memory when it returns, but for that of pinned_new. Argument structs are read
//   before the call returns.
// - "compute dtype" is the dtype of the matrices that feed matrix products (f32, bf16, or f16 on
//   devices that have it). Master weights, gradients of parameters, moments, residual streams,
//   layer-norm statistics, log-sum-exps, losses and reductions are f32 or wider.
// - Gradients of parameters are ADDED to the memory's contents; gradients of activations overwrite
//   it.
// - Slack rows (R - T at the end) may hold any finite values on input. Operations write finite
//   values to them in every output, whatever the memory held before (attention_forward writes
//   zeros). No gradient of a parameter depends on them: the losses and attention_backward write
//   zeros to the slack rows of activation gradients, and every other operation maps zero gradient
//   rows to zero gradient rows. Rows S to C (or count to C) are slack, too; the heads over whole
//   sequences write zeros to them.
// - Results do not depend on the number of threads: reductions are split at fixed points.
// - An operation returns no error. A device keeps the first error (a library refuses a shape, a
//   driver call fails) and does nothing afterwards; `status` returns it. The caller asks once per
//   update.
// - After `reserve`, operations on shapes seen before allocate nothing; a library frees what it
//   allocates within an operation, and workspace_bytes counts it.
#ifndef BERTH_DEVICE_DEVICE_H
#define BERTH_DEVICE_DEVICE_H

#include "berth.h"
#include "core/batch.h"
#include "core/mat.h"
#include "core/pooling.h"
#include "core/rng.h"

#include <stddef.h>
#include <stdint.h>

// The activation between the two linear layers of a feed-forward network, f below: one for each
// hidden_act of transformers (model/config.c has the names). The operations say "gelu", the usual
// one.
enum activation {
    ACTIVATION_GELU_ERF,     // x Phi(x)
    ACTIVATION_GELU_TANH,    // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    ACTIVATION_GELU_CLIPPED, // x Phi(x), cut to [-10, 10]
    ACTIVATION_GELU_QUICK,   // x sigmoid(1.702 x)
    ACTIVATION_RELU,         // max(x, 0)
    ACTIVATION_RELU_SQUARED, // max(x, 0)^2
    ACTIVATION_RELU6,        // max(x, 0), at most 6
    ACTIVATION_RELU_LEAKY,   // x, or 0.01 x below 0
    ACTIVATION_SILU,         // x sigmoid(x)
    ACTIVATION_HARD_SWISH,   // x relu6(x + 3) / 6
    ACTIVATION_MISH,         // x tanh(log(1 + e^x))
    ACTIVATION_TANH,
    ACTIVATION_SIGMOID,
    ACTIVATION_LAPLACE, // (1 + erf((x - 0.707107) / (0.282095 sqrt(2)))) / 2
    ACTIVATION_LINEAR,  // x
    ACTIVATION_COUNT
};

// The loss of an example of texts with embeddings a, b and, of triplets, c, or of a group of such
// examples.
enum similarity_loss {
    SIMILARITY_COSINE,            // (a . b - target)^2
    SIMILARITY_TRIPLET_EUCLIDEAN, // max(0, d(a, b) - d(a, c) + margin), d(u, v) = |u - v + 1e-6|
    SIMILARITY_TRIPLET_COSINE,    // the same with d(u, v) = 1 - u . v
    // The mean over the texts c after the second one of (a . b - a . c - target)^2, with the target
    // at c.
    SIMILARITY_MARGINS,
    // The mean over the example's texts x and their columns of (x - target)^2.
    SIMILARITY_VECTORS,
    // Of a group of n pairs, n log(1 + the sum of exp(factor (p[j] - p[i])) over its pairs i, j
    // with targets t[i] > t[j]), where p[i] = a . b of pair i: CoSENT. The group's first texts come
    // first, then its second texts.
    SIMILARITY_ORDER,
    SIMILARITY_COUNT
};

// The largest shapes of a run; the device sizes its scratch memory from them.
struct device_shape {
    struct batch_extent batch; // the largest
    int64_t hidden;
    int64_t intermediate;
    int64_t heads;
    int64_t types;        // rows of the table of token types
    int64_t outputs;      // of the head, for each token or sequence
    int64_t vocabulary;   // V of the pre-training decoder
    int64_t decoder_rows; // maximum number of rows that it computes logits for; 0: no decoder
    enum dtype compute;
    int training; // 0: forward only
    int int8;     // 1: the encoder's weights are int8 matrices
};

// The phases whose time a device measures.
enum device_phase {
    DEVICE_PHASE_OTHER,
    DEVICE_PHASE_FORWARD,
    DEVICE_PHASE_BACKWARD,
    DEVICE_PHASE_STEP,
    DEVICE_PHASES
};

// The gradient norm that clipping and the optimizer read: in device memory, written by `norms`.
struct grad_stats {
    double sum_squares; // of the unscaled gradient; not finite when any element is not
};

// Sums of squares are added block by block: elements per block, counted from the start of a range.
#define DEVICE_SUM_BLOCK 65536

static inline int64_t device_sum_blocks(int64_t count) {
    return (count + DEVICE_SUM_BLOCK - 1) / DEVICE_SUM_BLOCK;
}

// Elements that an operation on the flat buffers treats alike. Arrays of ranges live in device
// memory; the ranges of an array do not overlap.
struct device_range {
    int64_t first;        // element of the buffers of the whole table
    int64_t moment_first; // index of that element in the moments, which may be partitioned
    int64_t count;        // > 0
    int64_t block;        // index of its first block in an array of sums
    int64_t tensor;       // index of the tensor whose statistics apply
    double weight_decay;
};

// Elements of a buffer with a common checksum. Arrays of these live in device memory.
struct device_checksum_range {
    int64_t first, count;
    int64_t sum; // index of its checksum
};

// The norms of a tensor in a layer-wise update: in device memory, written by lamb_apply.
struct lamb_stats {
    double parameter_norm, update_norm; // |p| before the update, |u|
    double coefficient;                 // the factor on the learning rate
};

struct embed_args {
    struct mat y;             // out [R, H] f32
    struct mat y_compute;     // out [R, H] compute dtype; empty in f32, where y serves both
    struct mat xhat;          // out [R, H] compute dtype, the normalised rows; empty: do not save
    float *rstd;              // out [R]; NULL: do not save
    struct mat word;          // [V, H] f32, or i8 with
    const float *word_scales; // [V, int8_groups(H)] of core/int8.h; else NULL
    struct mat position;      // [P, H] f32
    struct mat type;          // [types, H] f32; H is the embeddings' number of columns
    const float *gamma;       // [H]
    const float *beta;        // [H]
    float epsilon;
    struct dropout dropout;
};

struct embed_grad_args {
    struct mat dy;  // [R, H] f32
    struct mat dy2; // [R, H] f32 or compute dtype, added to dy; may be empty
    struct mat xhat;
    const float *rstd;
    const float *gamma;
    struct mat dword, dposition, dtype_table; // += f32; dtype_table may be empty: not wanted
    float *dgamma, *dbeta;                    // +=
    struct dropout dropout;
    struct mat scratch; // [R, H] f32, overwritten; may be the same memory as dy
};

struct norm_args {
    struct mat y;         // out [R, H] f32; may be the memory of x
    struct mat y_compute; // out [R, H] compute dtype; empty in f32
    struct mat xhat;      // out [R, H] compute dtype; empty: do not save
    float *rstd;          // out [R]; NULL: do not save
    struct mat x;         // [R, H] f32 or compute dtype: the sub-layer's output, bias included;
                          // empty: none
    struct mat residual;  // [R, H] f32
    const float *gamma;
    const float *beta;
    float epsilon;
    struct dropout dropout; // acts on x
    struct mat sum;         // out [R, H] f32: s; empty: do not save
};

struct norm_grad_args {
    struct mat dresidual; // out [R, H] f32: gradient of the residual input; may be the memory of dy
    struct mat dx;  // out [R, H] compute dtype: gradient of x, through the dropout; empty: no x
    float *dbias;   // += [H] column sums of dx in f32 (gradient of the bias inside x)
    struct mat dy;  // [R, H] f32; overwritten where dsum is not empty
    struct mat dy2; // [R, H] f32 or compute dtype, added to dy; may be empty
    struct mat xhat;
    const float *rstd;
    const float *gamma;
    float *dgamma, *dbeta; // +=
    struct dropout dropout;
    struct mat dsum; // [R, H] f32: gradient of s from its other readers; empty: none. May be the
                     // memory of dresidual
};

// The number of words of a row of attention's dropout masks, which the forward pass may store for
// the backward pass. For each sequence, and in it for each head, there is one row per query; bit i
// of word k of a row is set if key 16 k + i is kept. The sequence whose first token is row r begins
// at word r * A * attention_mask_words(batch.max_length).
RNG_FUNCTION int64_t attention_mask_words(int64_t length) {
    return (length + 127) / 128 * 8;
}

struct attention_args {
    struct mat context; // out [R, H] compute dtype
    float *lse;      // out [R * A]: log-sum-exp of the scaled scores, row-major [R, A]; NULL: skip
    uint16_t *masks; // out, if the device keeps masks and there is dropout; NULL: skip
    struct mat qkv;  // [R, 3H] compute dtype: queries, keys, values side by side
    int64_t heads;
    struct dropout dropout; // acts on the probabilities
};

struct attention_grad_args {
    struct mat dqkv;     // out [R, 3H] compute dtype
    struct mat dcontext; // [R, H] compute dtype
    struct mat context;  // as written by the forward operation
    const float *lse;
    const uint16_t *masks; // NULL: draw them again
    struct mat qkv;
    int64_t heads;
    struct dropout dropout;
};

// Class weights and label smoothing, as in torch's CrossEntropyLoss(weight, label_smoothing).
struct class_weighting {
    const float *weights; // [K]
    float smoothing;      // in [0, 1)
};

struct similarity_args {
    struct mat dx; // out [C, H] f32
    float *losses; // out [count]
    struct mat x;  // [C, H] f32: the texts of an example are neighbours
    enum similarity_loss loss;
    float margin;         // of triplets
    float factor;         // of SIMILARITY_ORDER
    float scale;          // of the gradient
    const float *targets; // [count]; the target of an example is at its first text
    struct mat vectors;   // [C, H] f32: targets of SIMILARITY_VECTORS
    int64_t texts;        // of an example
    int64_t group;        // examples of a group; the last one may have fewer. 1, or of
                          // SIMILARITY_ORDER any number
    int64_t count;        // texts
};

struct adamw_args {
    float *parameters;    // f32 master weights of the whole table, updated
    float *gradients;     // f32 of the whole table; those of the ranges are set to zero afterwards
    float *first_moment;  // m, of the whole table or a part of it (device_range.moment_first)
    float *second_moment; // v
    struct mat compute;   // [1, n] compute copy of the table's first n elements; empty: none
    const struct device_range *ranges; // [range_count]; each below or above n as a whole
    int64_t range_count;
    double rate;
    double beta1, beta2, epsilon;
    double correction1, correction2; // 1 - beta^t, or 1 without bias correction
    double gradient_scale;           // gradients are multiplied by it first (1 / loss scale, ...)
    double max_grad_norm;            // <= 0: no clipping
    int exact_clip;                  // 1: clip without adding 1e-6 to the norm
    int epsilon_inside_root;         // 1: sqrt(v + eps) instead of sqrt(v) + eps
    int l2_mode; // 1: decay is added to the gradient (Adam), 0: decoupled (AdamW)
    // Clipping uses the norm of the range's tensor if tensor_stats is given, else *stats; both
    // NULL: no clipping. If the sum is not finite, the update is skipped and the gradients are
    // cleared.
    const struct grad_stats *stats, *tensor_stats;
};

// Weights w[rows, cols] in int8 (core/int8.h), in the device's own layout, for inference. The
// inputs of `wide` columns are much larger than those of the others (int8_finish).
#define DEVICE_INT8_WIDE 8 // at most

struct int8_matrix {
    void *data; // [int8_bytes], zeroed before anything is written
    int64_t rows, cols;
    int64_t wide;
};

// The second half of a layer-wise update.
struct lamb_args {
    struct adamw_args adam; // as given to lamb_moments
    const double *sums;     // as filled by lamb_moments, all blocks of the tensors of the ranges
    const int64_t *tensor_blocks; // [tensors + 1] the first block of each tensor, then their number
    double min_coeff, max_coeff;
    struct lamb_stats *stats; // [tensors] out; not written where the update is skipped
};

// Bytes of the id by which the devices of a job's ranks find each other.
#define DEVICE_PEERS_ID 128

struct comm;
struct comm_range;

// An opener fills the struct and nobody changes it afterwards, except a wrapper, which replaces
// functions and keeps the originals (tests, bench/). One thread at a time calls the functions. What
// is true of every device is in device_check: an optional ability is all of its functions, or none.
struct device {
    const char *name;    // "cpu"
    const char *kernels; // "avx2"; devices of a kind with other kernels compute other last digits,
    int is_portable; // unless both are portable: fp32 and int8 have the bytes that every processor
                     // with fused multiply-adds computes
    void *state;
    int is_host;     // 1: blocks of memory_new are ordinary memory that the host may read and write
    unsigned dtypes; // supported compute dtypes, bits 1 << enum dtype; the bit of i8 stands for the
                     // operations on int8 matrices and an i8 word table in embed_forward
    int threads;     // that the host may use for work around this device's; at least 1
    void *wrapper;   // state of code that has replaced functions of this struct; NULL: none
    enum dtype fast_dtype; // the default of training and prediction
    int wants_word_rows;   // 1: embed_backward reads batch.word_rows
    int keeps_masks;       // 1: attention reads and writes `masks`
    int tf32;              // 1: products of f32 matrices round their operands to TF32
    uint64_t gpu_id; // below 2^40; identifies a GPU of the host, whichever of them a rank sees

    // Short description for people: instruction set, threads, libraries.
    const char *(*describe)(struct device *dev);
    void (*close)(struct device *dev);

    // --- memory -------------------------------------------------------------------------------
    void *(*memory_new)(struct device *dev, size_t bytes); // zeroed; NULL when out of memory
    void (*memory_free)(struct device *dev, void *block, size_t bytes);
    void (*upload)(struct device *dev, void *to, const void *from_host, size_t bytes);
    void (*download)(struct device *dev, void *to_host, const void *from, size_t bytes);
    // Pinned host memory, which the device copies to and from while it computes; NULL when out of
    // memory. An upload from it may read it until the wait for a fetch that was begun later, or any
    // call that waits for all operations. The function is NULL if is_host.
    void *(*pinned_new)(struct device *dev, size_t bytes);
    void (*pinned_free)(struct device *dev, void *block, size_t bytes);
    // Begins to copy `from`, as all earlier calls leave it, concurrently with later operations;
    // returns a number above 0. `from` must not be written until fetch_wait(that number) returns.
    int64_t (*fetch_begin)(struct device *dev, void *to_pinned, const void *from, size_t bytes);
    void (*fetch_wait)(struct device *dev, int64_t fetch);
    // Exchanges with the devices of the job's other ranks, concurrently with operations and without
    // the host; NULL: the device cannot. Either all ranks open the exchange or none; then all make
    // the same calls. peers_id writes an id, which one rank sends to all; it returns NULL, or the
    // reason why the device cannot exchange.
    const char *(*peers_id)(struct device *dev, char id[DEVICE_PEERS_ID]);
    enum berth_status (*peers_open)(struct device *dev, struct comm *comm,
                                    const char id[DEVICE_PEERS_ID], struct berth_error *error);
    void (*peers_close)(struct device *dev); // before comm is closed; no effect if not open
    // As in comm/comm.h, on the result of all earlier calls. Later calls that read or write the
    // range must follow a wait, which does not block the host. A lost rank is an error of the
    // device.
    int64_t (*peers_reduce)(struct device *dev, const struct comm_range *range);
    int64_t (*peers_gather)(struct device *dev, const struct comm_range *range);
    void (*peers_wait)(struct device *dev, int64_t ticket);
    void (*zero)(struct device *dev, void *block, size_t bytes);
    // As zero; if the device supports it, the block takes no memory until it is written again.
    void (*discard)(struct device *dev, void *block, size_t bytes);
    // Bytes that memory_new can still allocate; *limit names the limiting resource. NULL: unknown,
    // or is_host, where the machine's memory is the limit.
    uint64_t (*memory_available)(struct device *dev, const char **limit);
    // Bytes of scratch memory and library caches that `reserve` takes for this shape.
    size_t (*workspace_bytes)(struct device *dev, const struct device_shape *shape);
    enum berth_status (*reserve)(struct device *dev, const struct device_shape *shape,
                                 struct berth_error *error);
    // The first error since the last call, or BERTH_OK.
    enum berth_status (*status)(struct device *dev, struct berth_error *error);
    // Attributes the device's time to this phase from now on.
    void (*mark)(struct device *dev, enum device_phase phase);
    // Returns and resets the seconds of each phase, as far as they are known without waiting: at
    // least the time between the marks before the last wait.
    void (*times)(struct device *dev, double seconds[DEVICE_PHASES]);

    // From here to measure_peak every device has every operation (device_check), and each is a row
    // of operations.inc, in the same order. What a device may lack stands below measure_peak.
    // doc/develop/design.md ("Operation of a device") lists all places of a new operation.

    // --- forward and backward -----------------------------------------------------------------
    // y = dropout(LN(word[ids] + position[positions] + type[type_ids]))
    void (*embed_forward)(struct device *dev, const struct embed_args *args,
                          const struct batch *batch);
    void (*embed_backward)(struct device *dev, const struct embed_grad_args *args,
                           const struct batch *batch);

    // s = residual + dropout(x); xhat = (s - mean(s)) * rstd; y = gamma * xhat + beta
    // rstd = 1 / sqrt(variance + epsilon), population variance over the H columns.
    void (*norm_forward)(struct device *dev, const struct norm_args *args,
                         const struct batch *batch);
    // g = (dy + dy2) * gamma; ds = rstd * (g - mean(g) - xhat * mean(g * xhat)) + dsum;
    // dresidual = ds; dx = dropout'(ds)
    void (*norm_backward)(struct device *dev, const struct norm_grad_args *args,
                          const struct batch *batch);

    // Linear layers: the operands of a product (x, w, dy) are all in the compute dtype, or all f32
    // (the heads).
    // y[R, N] = x[R, K] * w[N, K]^T + bias[N]. y in the operands' dtype or f32, bias f32 or NULL.
    void (*linear_forward)(struct device *dev, struct mat y, struct mat x, struct mat w,
                           const float *bias);
    // u = x * w^T + bias; y = f(u). u and y in the compute dtype; u empty: not saved.
    void (*linear_gelu_forward)(struct device *dev, struct mat y, struct mat u, struct mat x,
                                struct mat w, const float *bias, enum activation activation);
    // dx[R, K] = dy[R, N] * w[N, K]; dx f32 or compute dtype.
    void (*linear_backward_input)(struct device *dev, struct mat dx, struct mat dy, struct mat w);
    // du[R, I] = (dy[R, H] * w[H, I]) * f'(u); dbias[I] += column sums of du.
    void (*linear_gelu_backward)(struct device *dev, struct mat du, float *dbias, struct mat dy,
                                 struct mat w, struct mat u, enum activation activation);
    // dw[N, K] += dy[R, N]^T * x[R, K]; dbias[N] += column sums of dy (NULL: not wanted).
    void (*linear_backward_weight)(struct device *dev, struct mat dw, float *dbias, struct mat dy,
                                   struct mat x);

    // For each sequence s and head a, with q, k, v the slices of qkv:
    // P = softmax(q k^T / sqrt(D)); context = dropout(P) v
    void (*attention_forward)(struct device *dev, const struct attention_args *args,
                              const struct batch *batch);
    void (*attention_backward)(struct device *dev, const struct attention_grad_args *args,
                               const struct batch *batch);

    // For each sequence: losses[s] = (CE(logits[:, 0], start) + CE(logits[:, 1], end)) / 2, cross
    // entropy over the rows of the sequence; dlogits = scale * d(sum of losses) / d(logits).
    // logits and dlogits [R, 2]: logits f32, dlogits f32 or in the compute dtype. A label outside
    // [0, length) is ignored (loss 0 for that half).
    void (*span_loss)(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                      float scale, const struct batch *batch);

    // --- rows that a head reads ---------------------------------------------------------------
    // y[i] = x[rows[i]] for i in [0, count), zeros in the rows of y after these.
    // x [R, H] and y [C, H] of one dtype, f32 or the compute dtype; C >= count.
    void (*gather_rows)(struct device *dev, struct mat y, struct mat x, const int32_t *rows,
                        int64_t count);
    // dx[rows[i]] = dy[i] for i in [0, count), zeros in all other rows of dx.
    // dx [R, H] and dy [C, H] as x and y above. The rows are distinct.
    void (*scatter_rows)(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                         int64_t count);
    // dx[rows[i]] += dy[i] for i in [0, count); as above, except that other rows are unchanged.
    // f32.
    void (*scatter_add_rows)(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                             int64_t count);

    // --- heads over whole sequences: everything in f32 ----------------------------------------
    // du *= f'(u), in-place; dbias[I] += column sums of the result. u and du [C, I] f32.
    void (*gelu_backward)(struct device *dev, struct mat du, float *dbias, struct mat u,
                          enum activation activation);
    // t = tanh(u); y = dropout(t); all [C, H]. Row i is the first token of sequence i: its mask is
    // that of position 0 of the sequence. t may be the memory of u.
    void (*tanh_forward)(struct device *dev, struct mat y, struct mat t, struct mat u,
                         struct dropout dropout, const struct batch *batch);
    // du = dropout'(dy) * (1 - t^2); all [C, H]. du may be the memory of dy.
    void (*tanh_backward)(struct device *dev, struct mat du, struct mat dy, struct mat t,
                          struct dropout dropout, const struct batch *batch);
    // y = dropout(x); all [R, H] f32, the slack rows unmasked. y may be the memory of x. It is its
    // own backward pass.
    void (*drop_rows)(struct device *dev, struct mat y, struct mat x, struct dropout dropout,
                      const struct batch *batch);
    // y = dropout(x); all [C, H], with the rows and masks of tanh_forward. y may be the memory of
    // x. It is its own backward pass.
    void (*drop_first_rows)(struct device *dev, struct mat y, struct mat x, struct dropout dropout,
                            const struct batch *batch);
    // losses[i] = -log softmax(logits[i])[labels[i]] for i in [0, count);
    // hits[i] = 1 where the label is the first of the largest logits of its row and none of them is
    // NaN, else 0; NULL: not wanted.
    // dlogits = scale * d(sum of losses) / d(logits); empty: losses only. logits [C, K] f32, C >=
    // count; dlogits [C, K] f32, where it may be the memory of the logits, or in the compute dtype.
    // A label outside [0, K) is ignored (loss and gradient 0, no hit). labels NULL: that of row i
    // is i.
    void (*class_loss)(struct device *dev, struct mat dlogits, float *losses, unsigned char *hits,
                       struct mat logits, float scale, const int32_t *labels, int64_t count);
    // losses[i] = sum over k of t[k] * -log softmax(logits[i])[k] for i in [0, count), where t[k] =
    // weights[k] * (smoothing / K + (k == labels[i] ? 1 - smoothing : 0)); otherwise as class_loss
    // without hits. weights [K] in device memory. For few classes.
    void (*weighted_loss)(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                          float scale, const struct class_weighting *weighting,
                          const int32_t *labels, int64_t count);
    // losses[i] = (logits[i, 0] - targets[i])^2 for i in [0, count); dlogits as in class_loss;
    // logits and dlogits [C, 1]. A target that is NaN is ignored (loss and gradient 0).
    void (*squared_loss)(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                         float scale, const float *targets, int64_t count);
    // losses[i] = mean over k of -(w t log s(x) + (1 - t) log(1 - s(x))), x = logits[i, k], t =
    // targets[i * K + k] from 0 to 1, s(x) = 1 / (1 + e^-x), w = positive_weight; dlogits as in
    // class_loss. A row whose first target is NaN is ignored (loss and gradient 0).
    void (*sigmoid_loss)(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                         float scale, float positive_weight, const float *targets, int64_t count);

    // --- sentence embeddings: everything in f32 -----------------------------------------------
    // y[s] = the pooled rows of sequence s, for s in [0, S), zeros in the rows of y after these.
    // x [R, H], y [C, H].
    void (*pool_forward)(struct device *dev, struct mat y, struct mat x, enum berth_pooling pooling,
                         const struct batch *batch);
    // dx = the gradient of x. Only BERTH_POOL_MAX reads x: dy goes to the first of the rows with
    // the largest number. dx may be the memory of x.
    void (*pool_backward)(struct device *dev, struct mat dx, struct mat dy, struct mat x,
                          enum berth_pooling pooling, const struct batch *batch);
    // lengths[i] = max(|x[i]|, 1e-12); y[i] = radius x[i] / lengths[i] for i in [0, count), zeros
    // in the rows of y after these. x and y [C, H].
    void (*normalize_forward)(struct device *dev, struct mat y, float *lengths, struct mat x,
                              float radius, int64_t count);
    // dx[i] += (radius dy[i] - (y[i] . dy[i]) / radius y[i]) / lengths[i]; zeros as above.
    void (*normalize_backward)(struct device *dev, struct mat dx, struct mat dy, struct mat y,
                               const float *lengths, float radius, int64_t count);
    // The loss of each example, or group, in losses[i] of its first text (of SIMILARITY_VECTORS,
    // each text's share in its own), 0 for the other texts and for those that are no whole example;
    // dx = scale * d(sum of losses) / dx, zeros after `count`.
    void (*similarity_loss)(struct device *dev, const struct similarity_args *args);

    // *sum += weight * (losses[0] + losses[1] + ... + losses[count - 1]), added in this order.
    void (*add_losses)(struct device *dev, double *sum, const float *losses, int64_t count,
                       double weight);

    // --- optimizer ----------------------------------------------------------------------------
    // sums[range.block + i] = sum of squares of block i of the range, for values of the whole
    // table.
    void (*squares)(struct device *dev, double *sums, const float *values,
                    const struct device_range *ranges, int64_t range_count);
    // stats[g].sum_squares = scale^2 * (sums[blocks[g]] + ... + sums[blocks[g + 1] - 1]), added in
    // this order. blocks [groups + 1].
    void (*norms)(struct device *dev, struct grad_stats *stats, const double *sums,
                  const int64_t *blocks, int64_t groups, double scale);
    // g = gradient_scale * min(1, max_grad_norm / (norm + 1e-6)) * gradient;
    // m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
    // p -= lr * (m / correction1 / (sqrt(v / correction2) + eps) + weight_decay * p)
    // (1e-6 only without exact_clip)
    void (*adamw)(struct device *dev, const struct adamw_args *args);
    // g, m, v as adamw; u = m / correction1 / (sqrt(v / correction2) + eps) + weight_decay * p;
    // p -= lr * coefficient * u, coefficient = |p| / |u| of the tensor cut to [min_coeff,
    // max_coeff] where both norms are above 0, else 1. l2_mode 0. Two operations, because ranks
    // that share a tensor exchange its sums between them: lamb_moments updates m and v, clears g,
    // and writes the sums of squares of p and u over block i of each range into
    // sums[2 * (range.block + i)] and the one after it; lamb_apply updates p.
    void (*lamb_moments)(struct device *dev, const struct adamw_args *args, double *sums);
    void (*lamb_apply)(struct device *dev, const struct lamb_args *args);
    // to[i] += from[i], count elements
    void (*add)(struct device *dev, float *to, const float *from, int64_t count);
    // to[i] = from[i] in the dtype of `to`, count elements
    void (*convert)(struct device *dev, struct mat to, const float *from);
    // sums[range.sum] = checksum_bytes (core/checksum.h) of the elements of each range. values
    // [1, n]. Ranges of about DEVICE_SUM_BLOCK elements keep a device busy.
    void (*checksums)(struct device *dev, uint64_t *sums, struct mat values,
                      const struct device_checksum_range *ranges, int64_t count);

    // FLOP/s of multiply-adds in this dtype, measured over about `seconds`; NaN: it cannot be
    // measured now, as where memory is short. NULL: unknown.
    double (*measure_peak)(struct device *dev, enum dtype dtype, double seconds);

    // --- int8, for inference; NULL where dtypes lacks i8 --------------------------------------
    size_t (*int8_bytes)(struct device *dev, const struct int8_matrix *shape);
    // Writes the rows w, in host memory, as rows [first, first + w.rows). f32 is quantized; i8,
    // from -127 to 127, has scales[w.rows, int8_groups(w.cols)] (core/int8.h).
    void (*int8_pack)(struct device *dev, const struct int8_matrix *to, int64_t first, struct mat w,
                      const float *scales);
    // Called once, after all rows have been written, with the wide columns: columns[to->wide],
    // ascending, in host memory; NULL if there are none.
    void (*int8_finish)(struct device *dev, const struct int8_matrix *to, const int32_t *columns);
    // y = f(x * w^T + bias). x in the compute dtype, y there or in f32. Each row of x is quantized
    // to 8 bits, with its own range; sums are integers.
    void (*linear_int8_forward)(struct device *dev, struct mat y, struct mat x,
                                const struct int8_matrix *w, const float *bias,
                                enum activation activation);

    // --- packed weights, for inference; NULL where the device has no layout of its own ---------
    // Whether weights of this shape and dtype can be packed.
    int (*packs)(struct device *dev, struct mat w);
    // Rearranges w [N, K] in place. Only linear_packed_forward can read it afterwards.
    void (*pack)(struct device *dev, struct mat w);
    // y = f(x * w^T + bias), with the numbers of linear_forward.
    void (*linear_packed_forward)(struct device *dev, struct mat y, struct mat x, struct mat w,
                                  const float *bias, enum activation activation);
};

struct device_options {
    int threads; // 0: all processors that the process may use
    // NULL or "auto": the best of the processor's; "generic", "fma", "avx2", "avx512",
    // "avx512bf16", "amx" and "neonbf16" force one.
    const char *instructions;
    // Index of the GPU among those of its kind that the process sees; -1: assigned in turn by
    // local_rank
    int index;
    int local_rank;  // among the ranks of this host
    int ranks;       // of the job; several: memory to exchange with other ranks' devices is counted
    int local_ranks; // of these, on this host
    int tf32;        // 1: products of f32 matrices in TF32, where the device has it
};

// NULL, or what is not true of an open device (core/check.h).
const char *device_check(const struct device *device);

// The error after memory_new(bytes) has failed: the device's own, or BERTH_NO_MEMORY with its name
// and the memory that it still has.
enum berth_status device_no_memory(struct device *device, size_t bytes, const char *purpose,
                                   struct berth_error *error);

// Opens the device of that kind; the caller closes it with device->close.
enum berth_status device_cpu_open(const struct device_options *options, struct device **device,
                                  struct berth_error *error);

// Kinds of GPUs: "cuda", "hip", and "emulated" (the GPU's kernels run by the host, slowly); the
// last is NULL.
extern const char *const device_gpu_kinds[];
// BERTH_UNAVAILABLE: no such device, no driver for it, or no module of Berth.
enum berth_status device_gpu_open(const char *kind, const struct device_options *options,
                                  struct device **device, struct berth_error *error);
// Whether Berth's module for GPUs of that kind is installed.
int device_gpu_has_module(const char *kind);
// What a GPU of that kind needs besides the module and is missing, as far as it is known without
// opening the module; NULL: there may be one. The emulation needs only its module.
const char *device_gpu_missing(const char *kind);
// Describes the GPU with that index; *count = the number of them. Errors as those of
// device_gpu_open.
enum berth_status device_gpu_describe(const char *kind, int index, int *count, char text[160],
                                      struct berth_error *error);

#endif
