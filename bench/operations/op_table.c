// SPDX-License-Identifier: Apache-2.0
// The rows of the table of operations: for each one a function that calls it on given operands, and
// where a model uses it. The program bench_operations goes through them to measure, the tests of
// devices to compare with float64; sizes and costs are op_call.c's.
#include "bench/operations/op_call.h"

#include <string.h>

// --- calls --------------------------------------------------------------------------------------

static void embed_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct embed_args args = {.y = m[0],
                                    .y_compute = m[1],
                                    .xhat = m[2],
                                    .rstd = m[3].data,
                                    .word = mat_is_empty(m[4]) ? m[9] : m[4],
                                    .word_scales = m[10].data,
                                    .position = m[5],
                                    .type = m[6],
                                    .gamma = m[7].data,
                                    .beta = m[8].data,
                                    .epsilon = 1e-5f,
                                    .dropout = op_dropout(c, RNG_SITE_EMBEDDING)};
    dev->embed_forward(dev, &args, &c->batch);
}

static void embed_backward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct embed_grad_args args = {.dy = m[0],
                                         .dy2 = m[1],
                                         .xhat = m[2],
                                         .rstd = m[3].data,
                                         .gamma = m[4].data,
                                         .dword = m[5],
                                         .dposition = m[6],
                                         .dtype_table = m[7],
                                         .dgamma = m[8].data,
                                         .dbeta = m[9].data,
                                         .dropout = op_dropout(c, RNG_SITE_EMBEDDING),
                                         .scratch = m[10]};
    dev->embed_backward(dev, &args, &c->batch);
}

static void norm_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct norm_args args = {.y = m[0],
                                   .y_compute = m[1],
                                   .xhat = m[2],
                                   .rstd = m[3].data,
                                   .x = m[4],
                                   .residual = m[5],
                                   .gamma = m[6].data,
                                   .beta = m[7].data,
                                   .epsilon = 1e-5f,
                                   .dropout = op_dropout(c, RNG_SITE_OUTPUT),
                                   .sum = m[8]};
    dev->norm_forward(dev, &args, &c->batch);
}

static void norm_backward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct norm_grad_args args = {.dresidual = m[0],
                                        .dx = m[1],
                                        .dbias = m[2].data,
                                        .dy = m[3],
                                        .dy2 = m[4],
                                        .xhat = m[5],
                                        .rstd = m[6].data,
                                        .gamma = m[7].data,
                                        .dgamma = m[8].data,
                                        .dbeta = m[9].data,
                                        .dropout = op_dropout(c, RNG_SITE_OUTPUT),
                                        .dsum = m[10]};
    dev->norm_backward(dev, &args, &c->batch);
}

static void linear_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->linear_forward(dev, m[0], m[1], m[2], m[3].data);
}

static void linear_int8_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct int8_matrix w = op_int8_matrix(c, 2);
    dev->linear_int8_forward(dev, m[0], m[1], &w, m[3].data, c->activation);
}

static void linear_packed_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->linear_packed_forward(dev, m[0], m[1], m[2], m[3].data, c->activation);
}

static void linear_gelu_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->linear_gelu_forward(dev, m[0], m[1], m[2], m[3], m[4].data, c->activation);
}

static void linear_backward_input(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->linear_backward_input(dev, m[0], m[1], m[2]);
}

static void linear_gelu_backward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->linear_gelu_backward(dev, m[0], m[1].data, m[2], m[3], m[4], c->activation);
}

static void linear_backward_weight(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->linear_backward_weight(dev, m[0], m[1].data, m[2], m[3]);
}

static void attention_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct attention_args args = {.context = m[0],
                                        .lse = m[1].data,
                                        .masks = m[3].data,
                                        .qkv = m[2],
                                        .heads = c->geometry->heads,
                                        .dropout = op_dropout(c, RNG_SITE_ATTENTION)};
    dev->attention_forward(dev, &args, &c->batch);
}

static void attention_backward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct attention_grad_args args = {.dqkv = m[0],
                                             .dcontext = m[1],
                                             .context = m[2],
                                             .lse = m[3].data,
                                             .masks = m[5].data,
                                             .qkv = m[4],
                                             .heads = c->geometry->heads,
                                             .dropout = op_dropout(c, RNG_SITE_ATTENTION)};
    dev->attention_backward(dev, &args, &c->batch);
}

static void span_loss(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->span_loss(dev, m[0], m[1].data, m[2], c->scale, &c->batch);
}

static void gather_rows(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->gather_rows(dev, m[0], m[1], m[2].data, c->sizes[OP_COUNT]);
}

static void scatter_rows(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->scatter_rows(dev, m[0], m[1], m[2].data, c->sizes[OP_COUNT]);
}

static void scatter_add_rows(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->scatter_add_rows(dev, m[0], m[1], m[2].data, c->sizes[OP_COUNT]);
}

static void gelu_backward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->gelu_backward(dev, m[0], m[1].data, m[2], c->activation);
}

static void drop_rows(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->drop_rows(dev, m[0], m[1], op_dropout(c, RNG_SITE_HEAD), &c->batch);
}

static void drop_first_rows(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->drop_first_rows(dev, m[0], m[1], op_dropout(c, RNG_SITE_HEAD), &c->batch);
}

static void tanh_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->tanh_forward(dev, m[0], m[1], m[2], op_dropout(c, RNG_SITE_HEAD), &c->batch);
}

static void tanh_backward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->tanh_backward(dev, m[0], m[1], m[2], op_dropout(c, RNG_SITE_HEAD), &c->batch);
}

static void class_loss(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->class_loss(dev, m[0], m[1].data, m[2].data, m[3], c->scale, m[4].data, c->sizes[OP_COUNT]);
}

static void weighted_loss(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct class_weighting weighting = {.weights = m[3].data, .smoothing = OP_SMOOTHING};
    dev->weighted_loss(dev, m[0], m[1].data, m[2], c->scale, &weighting, m[4].data,
                       c->sizes[OP_COUNT]);
}

static void squared_loss(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->squared_loss(dev, m[0], m[1].data, m[2], c->scale, m[3].data, c->sizes[OP_COUNT]);
}

static void sigmoid_loss(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->sigmoid_loss(dev, m[0], m[1].data, m[2], c->scale, op_positive_weight(c), m[3].data,
                      c->sizes[OP_COUNT]);
}

// A variant is a pooling.
static void pool_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->pool_forward(dev, m[0], m[1], (enum berth_pooling)c->variant, &c->batch);
}

static void pool_backward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->pool_backward(dev, m[0], m[1], m[2], (enum berth_pooling)c->variant, &c->batch);
}

static void normalize_forward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->normalize_forward(dev, m[0], m[1].data, m[2], OP_RADIUS, c->sizes[OP_COUNT]);
}

static void normalize_backward(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->normalize_backward(dev, m[0], m[1], m[2], m[3].data, OP_RADIUS, c->sizes[OP_COUNT]);
}

// A variant is a loss.
static void similarity_loss(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    const struct similarity_args args = {.dx = m[0],
                                         .losses = m[1].data,
                                         .x = m[2],
                                         .loss = (enum similarity_loss)c->variant,
                                         .margin = OP_MARGIN,
                                         .factor = OP_FACTOR,
                                         .scale = c->scale,
                                         .targets = m[3].data,
                                         .vectors = m[4],
                                         .texts = op_similarity_texts(c->variant),
                                         .group = c->variant == SIMILARITY_ORDER ? OP_GROUP : 1,
                                         .count = c->sizes[OP_COUNT]};
    dev->similarity_loss(dev, &args);
}

static void add_losses(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->add_losses(dev, m[0].data, m[1].data, c->sizes[OP_COUNT], 0.125);
}

static void squares(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->squares(dev, m[0].data, m[1].data, m[2].data, c->sizes[OP_RANGES]);
}

static void norms(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->norms(dev, m[0].data, m[1].data, m[2].data, c->sizes[OP_TENSORS], 0.5);
}

static struct adamw_args adamw_args_of(const struct op_call *c) {
    const struct mat *m = c->operands;
    struct adamw_args args = c->adam;
    args.parameters = m[0].data;
    args.gradients = m[1].data;
    args.first_moment = m[2].data;
    args.second_moment = m[3].data;
    args.compute = m[4];
    args.ranges = m[5].data;
    args.range_count = c->sizes[OP_RANGES];
    args.stats = m[6].data;
    args.tensor_stats = m[7].data;
    return args;
}

static void adamw(struct device *dev, const struct op_call *c) {
    const struct adamw_args args = adamw_args_of(c);
    dev->adamw(dev, &args);
}

static void lamb_moments(struct device *dev, const struct op_call *c) {
    const struct adamw_args args = adamw_args_of(c);
    dev->lamb_moments(dev, &args, c->operands[8].data);
}

static void lamb_apply(struct device *dev, const struct op_call *c) {
    const struct lamb_args args = {.adam = adamw_args_of(c),
                                   .sums = c->operands[8].data,
                                   .tensor_blocks = c->operands[9].data,
                                   .min_coeff = c->min_coeff,
                                   .max_coeff = c->max_coeff,
                                   .stats = c->operands[10].data};
    dev->lamb_apply(dev, &args);
}

static void add(struct device *dev, const struct op_call *c) {
    dev->add(dev, c->operands[0].data, c->operands[1].data, c->sizes[OP_TABLE]);
}

static void convert(struct device *dev, const struct op_call *c) {
    dev->convert(dev, c->operands[0], c->operands[1].data);
}

static void checksums(struct device *dev, const struct op_call *c) {
    const struct mat *m = c->operands;
    dev->checksums(dev, m[0].data, m[1], m[2].data, c->sizes[OP_PARTS]);
}

// --- operands that are not random numbers --------------------------------------------------------

// Distinct rows of the batch, the last one first.
static void set_rows(const struct op_call *c, void *host) {
    const int64_t count = c->sizes[OP_COUNT];
    for (int64_t i = 0; i < count; i++) {
        ((int32_t *)host)[i] = (int32_t)((count - 1 - i) * (c->batch.token_count / count));
    }
}

static void set_masks(const struct op_call *c, void *host) {
    op_masks(c, host);
}

static void set_labels(const struct op_call *c, void *host) {
    for (int64_t i = 0; i < c->sizes[OP_COUNT]; i++) {
        ((int32_t *)host)[i] = (int32_t)((i * 50 + 1) % c->sizes[OP_N]);
    }
}

static void set_ranges(const struct op_call *c, void *host) {
    memcpy(host, c->geometry->ranges, (size_t)c->sizes[OP_RANGES] * sizeof(struct device_range));
}

// The last one has the first sum.
static void set_parts(const struct op_call *c, void *host) {
    struct device_checksum_range *parts = host;
    const int64_t table = c->sizes[OP_TABLE], size = op_part_size(table),
                  count = c->sizes[OP_PARTS];
    for (int64_t i = 0; i < count; i++) {
        const int64_t left = table - i * size;
        parts[i] =
            (struct device_checksum_range){i * size, left < size ? left : size, count - 1 - i};
    }
}

static void set_tensor_blocks(const struct op_call *c, void *host) {
    int64_t *first = host;
    for (int64_t r = 0; r < c->sizes[OP_RANGES]; r++) {
        const struct device_range *range = &c->geometry->ranges[r];
        first[range->tensor + 1] = range->block + device_sum_blocks(range->count);
    }
}

// --- the table ----------------------------------------------------------------------------------

#define V OP_VARIANT
#define X(name_, role_, type_, rows_, cols_, ...)                                                  \
    {                                                                                              \
        .name = #name_, .role = OP_##role_, .type = OP_##type_, .rows = OP_##rows_,                \
        .cols = OP_##cols_, __VA_ARGS__                                                            \
    }
#define OP(name_) .name = #name_, .call = name_
#define PRODUCT .flops = 2, .flop_sizes = {OP_T, OP_N, OP_K}
#define USE(name_, t_, n_, k_, ...)                                                                \
    { .name = name_, .t = OP_##t_, .n = OP_##n_, .k = OP_##k_, __VA_ARGS__ }
#define PLAIN .activation = ACTIVATION_LINEAR
#define WIDE_COLUMNS .variant = 1 // as in op_int8_matrix
#define RANGES X(ranges, IN, RANGE, ONE, RANGES, .set = set_ranges)
#define TENSOR_BLOCKS X(blocks, IN, INT64, ONE, TENSOR_BOUNDS, .set = set_tensor_blocks)
#define STATS                                                                                      \
    X(stats, IN, F64, ONE, ONE, .shift = 4),                                                       \
        X(tensor_stats, IN, F64, TENSORS, ONE, .size = 3, .shift = 4, .dense = 1, .only = V(1))

const struct op op_table[] = {
    {OP(embed_forward),
     .operands = {X(y, OUT, F32, ROWS, HIDDEN), X(y_compute, OUT, COMPUTE, ROWS, HIDDEN, .copy = 1),
                  X(xhat, OUT, COMPUTE, ROWS, HIDDEN), X(rstd, OUT, F32, ROWS, ONE, .dense = 1),
                  X(word, IN, F32, VOCABULARY, HIDDEN, .reached = OP_ROWS, .only = V(0)),
                  X(position, IN, F32, LENGTH, HIDDEN, .reached = OP_ROWS),
                  X(type, IN, F32, TWO, HIDDEN, .reached = OP_ROWS),
                  X(gamma, IN, F32, ONE, HIDDEN, .size = 0.3, .shift = 1),
                  X(beta, IN, F32, ONE, HIDDEN, .size = 0.3),
                  X(codes, IN, CODE, VOCABULARY, HIDDEN, .size = 127, .reached = OP_ROWS,
                    .only = V(1)),
                  X(scales, IN, F32, VOCABULARY, GROUPS, .size = 0.005, .shift = 0.006, .dense = 1,
                    .reached = OP_ROWS, .only = V(1))},
     .variants = 2,
     .uses = {USE("embed forward", NONE, NONE, NONE),
              USE("embed forward in int8", NONE, NONE, NONE, .variant = 1)}},
    {OP(embed_backward),
     .operands = {X(dy, GRADIENT, F32, ROWS, HIDDEN), X(dy2, GRADIENT, COMPUTE, ROWS, HIDDEN),
                  X(xhat, IN, COMPUTE, ROWS, HIDDEN, .size = 1.5),
                  X(rstd, IN, F32, ROWS, ONE, .size = 0.5, .shift = 1, .dense = 1),
                  X(gamma, IN, F32, ONE, HIDDEN, .size = 0.5, .shift = 1),
                  X(dword, ADD, F32, VOCABULARY, HIDDEN, .reached = OP_ROWS),
                  X(dposition, ADD, F32, LENGTH, HIDDEN), X(dtype, ADD, F32, TWO, HIDDEN),
                  X(dgamma, ADD, F32, ONE, HIDDEN), X(dbeta, ADD, F32, ONE, HIDDEN),
                  X(scratch, SCRATCH, F32, ROWS, HIDDEN, .shared = V(1), .with = 0)},
     .variants = 2, .uses = {USE("embed backward", NONE, NONE, NONE)}},
    {OP(norm_forward),
     .operands = {X(y, OUT, F32, ROWS, HIDDEN, .shared = V(1), .with = 4),
                  X(y_compute, OUT, COMPUTE, ROWS, HIDDEN, .copy = 1),
                  X(xhat, OUT, COMPUTE, ROWS, HIDDEN), X(rstd, OUT, F32, ROWS, ONE, .dense = 1),
                  X(x, IN, COMPUTE, ROWS, HIDDEN, .size = 2, .only = V(0) | V(1), .f32 = V(1)),
                  X(residual, IN, F32, ROWS, HIDDEN, .size = 2),
                  X(gamma, IN, F32, ONE, HIDDEN, .size = 0.3, .shift = 1),
                  X(beta, IN, F32, ONE, HIDDEN, .size = 0.3),
                  X(sum, OUT, F32, ROWS, HIDDEN, .only = V(1) | V(2))},
     .variants = 3, .uses = {USE("norm forward", NONE, NONE, NONE)}},
    {OP(norm_backward),
     .operands = {X(dresidual, OUT_ZERO, F32, ROWS, HIDDEN),
                  X(dx, OUT_ZERO, COMPUTE, ROWS, HIDDEN, .only = V(0) | V(1) | V(3)),
                  X(dbias, ADD, F32, ONE, HIDDEN, .only = V(0) | V(1) | V(3)),
                  X(dy, GRADIENT, F32, ROWS, HIDDEN, .shared = V(3), .with = 0),
                  X(dy2, GRADIENT, COMPUTE, ROWS, HIDDEN, .only = V(3)),
                  X(xhat, IN, COMPUTE, ROWS, HIDDEN, .size = 1.5),
                  X(rstd, IN, F32, ROWS, ONE, .size = 0.5, .shift = 1, .dense = 1),
                  X(gamma, IN, F32, ONE, HIDDEN, .size = 0.5, .shift = 1),
                  X(dgamma, ADD, F32, ONE, HIDDEN), X(dbeta, ADD, F32, ONE, HIDDEN),
                  X(dsum, GRADIENT, F32, ROWS, HIDDEN, .only = V(1) | V(2), .shared = V(1) | V(2))},
     .variants = 4, .uses = {USE("norm backward", NONE, NONE, NONE)}},
    {OP(linear_forward),
     .operands = {X(y, OUT, COMPUTE, T, N, .f32 = V(1)), X(x, IN, COMPUTE, T, K),
                  X(w, IN, COMPUTE, N, K, .size = 0.5), X(bias, IN, F32, ONE, N, .only = V(0))},
     .variants = 2, PRODUCT,
     .uses = {USE("qkv forward", ROWS, QKV, HIDDEN),
              USE("projection forward", ROWS, HIDDEN, HIDDEN),
              USE("output forward", ROWS, HIDDEN, WIDE),
              USE("span head forward", ROWS, TWO, HIDDEN, .variant = 1),
              USE("decoder forward", MASKED_ROWS, VOCABULARY, HIDDEN, .variant = 1)}},
    {OP(linear_gelu_forward),
     .operands = {X(y, OUT, COMPUTE, T, N), X(u, OUT, COMPUTE, T, N, .only = V(0)),
                  X(x, IN, COMPUTE, T, K), X(w, IN, COMPUTE, N, K, .size = 0.5),
                  X(bias, IN, F32, ONE, N)},
     .variants = 2, PRODUCT, .uses = {USE("inner + gelu forward", ROWS, WIDE, HIDDEN)}},
    {OP(linear_gelu_backward),
     .operands = {X(du, OUT_ZERO, COMPUTE, T, N), X(dbias, ADD, F32, ONE, N),
                  X(dz, GRADIENT, COMPUTE, T, K), X(v, IN, COMPUTE, K, N, .size = 0.5),
                  X(u, IN, COMPUTE, T, N, .size = 4)},
     PRODUCT, .uses = {USE("output backward input + gelu", ROWS, WIDE, HIDDEN)}},
    {OP(linear_backward_input),
     .operands = {X(dx, OUT_ZERO, COMPUTE, T, K, .f32 = V(1)), X(dy, GRADIENT, COMPUTE, T, N),
                  X(w, IN, COMPUTE, N, K, .size = 0.5)},
     .variants = 2, PRODUCT,
     .uses = {USE("inner backward input", ROWS, WIDE, HIDDEN),
              USE("projection backward input", ROWS, HIDDEN, HIDDEN),
              USE("qkv backward input", ROWS, QKV, HIDDEN),
              USE("decoder backward input", MASKED_ROWS, VOCABULARY, HIDDEN, .variant = 1)}},
    {OP(linear_backward_weight),
     .operands = {X(dw, ADD, F32, N, K), X(dbias, ADD, F32, ONE, N, .only = V(0)),
                  X(dy, GRADIENT, COMPUTE, T, N), X(x, IN, COMPUTE, T, K)},
     .variants = 2, PRODUCT,
     .uses = {USE("qkv backward weight + bias", ROWS, QKV, HIDDEN),
              USE("output backward weight", ROWS, HIDDEN, WIDE, .variant = 1),
              USE("inner backward weight", ROWS, WIDE, HIDDEN, .variant = 1),
              USE("projection backward weight", ROWS, HIDDEN, HIDDEN, .variant = 1),
              USE("decoder backward weight + bias", MASKED_ROWS, VOCABULARY, HIDDEN)}},
    {OP(attention_forward),
     .operands = {X(context, OUT_ZERO, COMPUTE, ROWS, HIDDEN),
                  X(lse, OUT, F32, ROWS, HEADS, .dense = 1, .only = V(0) | V(1)),
                  X(qkv, IN, COMPUTE, ROWS, QKV, .size = 1.5),
                  X(masks, OUT_KEPT, MASK, ROWS, MASKS, .size = 3e4, .shift = 3e4, .dense = 1,
                    .only = V(1))},
     .variants = 3, .flops = 4, .flop_sizes = {OP_ROWS, OP_LENGTH, OP_HIDDEN},
     .uses = {USE("attention forward", NONE, NONE, NONE, .variant = 1)}},
    {OP(attention_backward),
     .operands = {X(dqkv, OUT_ZERO, COMPUTE, ROWS, QKV),
                  X(dcontext, GRADIENT, COMPUTE, ROWS, HIDDEN),
                  X(context, IN, COMPUTE, ROWS, HIDDEN), X(lse, IN, F32, ROWS, HEADS, .dense = 1),
                  X(qkv, IN, COMPUTE, ROWS, QKV, .size = 1.5),
                  X(masks, IN, MASK, ROWS, MASKS, .set = set_masks, .only = V(1))},
     .variants = 2, .flops = 8, .flop_sizes = {OP_ROWS, OP_LENGTH, OP_HIDDEN},
     .uses = {USE("attention backward", NONE, NONE, NONE, .variant = 1)}},
    {OP(span_loss),
     .operands = {X(dlogits, OUT_ZERO, COMPUTE, ROWS, TWO), X(losses, OUT, F32, ONE, COUNT),
                  X(logits, IN, F32, ROWS, TWO, .size = 8)},
     .uses = {USE("span loss", SEQUENCE_ROWS, NONE, NONE)}},
    {OP(gather_rows),
     .operands = {X(y, OUT_ZERO, COMPUTE, T, HIDDEN, .f32 = V(0)),
                  X(x, IN, COMPUTE, ROWS, HIDDEN, .size = 2, .reached = OP_T, .f32 = V(0)),
                  X(rows, IN, INT32, ONE, COUNT, .set = set_rows)},
     .variants = 2,
     .uses = {USE("gather masked rows", MASKED_ROWS, NONE, NONE),
              USE("gather masked rows of the context", MASKED_ROWS, NONE, NONE, .variant = 1)}},
    {OP(scatter_rows),
     .operands = {X(dx, OUT_ZERO, COMPUTE, ROWS, HIDDEN, .f32 = V(0)),
                  X(dy, IN, COMPUTE, T, HIDDEN, .size = 2, .f32 = V(0)),
                  X(rows, IN, INT32, ONE, COUNT, .set = set_rows)},
     .variants = 2,
     .uses = {USE("scatter masked rows", MASKED_ROWS, NONE, NONE),
              USE("scatter masked rows of the context", MASKED_ROWS, NONE, NONE, .variant = 1)}},
    {OP(scatter_add_rows),
     .operands = {X(dx, ADD_ZERO, F32, ROWS, HIDDEN, .size = 2, .reached = OP_T),
                  X(dy, IN, F32, T, HIDDEN, .size = 2),
                  X(rows, IN, INT32, ONE, COUNT, .set = set_rows)},
     .uses = {USE("scatter and add masked rows", MASKED_ROWS, NONE, NONE)}},
    {OP(gelu_backward),
     .operands = {X(du, ADD_ZERO, F32, T, N, .size = 2), X(dbias, ADD, F32, ONE, N),
                  X(u, IN, F32, T, N, .size = 4)},
     .uses = {USE("transform's gelu backward", MASKED_ROWS, HIDDEN, HIDDEN)}},
    {OP(drop_rows),
     .operands = {X(y, OUT, F32, ROWS, HIDDEN, .shared = V(1), .with = 1),
                  X(x, IN, F32, ROWS, HIDDEN, .size = 2)},
     .variants = 2, .uses = {USE("dropout of tokens", NONE, NONE, NONE)}},
    {OP(drop_first_rows),
     .operands = {X(y, OUT_ZERO, F32, T, HIDDEN, .shared = V(1), .with = 1),
                  X(x, IN, F32, T, HIDDEN, .size = 2)},
     .variants = 2,
     .uses = {USE("dropout of first rows", SEQUENCE_ROWS, NONE, NONE, .variant = 1)}},
    {OP(tanh_forward),
     .operands = {X(y, OUT_ZERO, F32, T, HIDDEN),
                  X(t, OUT_ZERO, F32, T, HIDDEN, .shared = V(1), .with = 2),
                  X(u, IN, F32, T, HIDDEN, .size = 4)},
     .variants = 2,
     .uses = {USE("pooler's tanh forward", SEQUENCE_ROWS, NONE, NONE, .variant = 1)}},
    {OP(tanh_backward),
     .operands = {X(du, OUT_ZERO, F32, T, HIDDEN, .shared = V(1), .with = 1),
                  X(dy, IN, F32, T, HIDDEN, .size = 2), X(t, IN, F32, T, HIDDEN)},
     .variants = 2,
     .uses = {USE("pooler's tanh backward", SEQUENCE_ROWS, NONE, NONE, .variant = 1)}},
    {OP(class_loss),
     .operands = {X(dlogits, OUT_ZERO, COMPUTE, T, N, .only = V(0) | V(2) | V(3),
                    .f32 = V(2) | V(3), .shared = V(0), .with = 3),
                  X(losses, OUT, F32, ONE, COUNT),
                  X(hits, OUT, BYTE, ONE, COUNT, .only = V(1) | V(2)),
                  X(logits, IN, F32, T, N, .size = 8),
                  X(labels, IN, INT32, ONE, COUNT, .set = set_labels, .only = V(0) | V(1) | V(2))},
     .variants = 4,
     .uses = {USE("word loss", MASKED_ROWS, VOCABULARY, NONE),
              USE("class loss", SEQUENCE_ROWS, CLASSES, NONE),
              USE("loss of negatives", SEQUENCE_ROWS, SEQUENCE_ROWS, NONE, .variant = 3)}},
    {OP(weighted_loss),
     .operands = {X(dlogits, OUT_ZERO, F32, T, N, .only = V(0) | V(1), .shared = V(0), .with = 2),
                  X(losses, OUT, F32, ONE, COUNT), X(logits, IN, F32, T, N, .size = 8),
                  X(weights, IN, F32, ONE, N, .size = 0.5, .shift = 1),
                  X(labels, IN, INT32, ONE, COUNT, .set = set_labels)},
     .variants = 3, .uses = {USE("weighted loss of classes", SEQUENCE_ROWS, CLASSES, NONE)}},
    {OP(squared_loss),
     .operands = {X(dlogits, OUT_ZERO, F32, T, ONE, .only = V(0) | V(1), .shared = V(0), .with = 2),
                  X(losses, OUT, F32, ONE, COUNT), X(logits, IN, F32, T, ONE, .size = 8),
                  X(targets, IN, F32, COUNT, ONE, .size = 5, .dense = 1)},
     .variants = 3, .uses = {USE("squared loss", SEQUENCE_ROWS, NONE, NONE)}},
    {OP(sigmoid_loss),
     .operands = {X(dlogits, OUT_ZERO, F32, T, N, .only = V(0) | V(1), .shared = V(0), .with = 2),
                  X(losses, OUT, F32, ONE, COUNT), X(logits, IN, F32, T, N, .size = 8),
                  X(targets, IN, F32, COUNT, N, .size = 0.5, .shift = 0.5, .dense = 1)},
     .variants = 3,
     .uses = {USE("sigmoid loss", SEQUENCE_ROWS, ONE, NONE),
              USE("sigmoid loss of labels", SEQUENCE_ROWS, CLASSES, NONE)}},
    {OP(pool_forward),
     .operands = {X(y, OUT_ZERO, F32, T, HIDDEN), X(x, IN, F32, ROWS, HIDDEN, .size = 2)},
     .variants = 6, .uses = {USE("pooling forward", SEQUENCE_ROWS, NONE, NONE)}},
    {OP(pool_backward),
     .operands = {X(dx, OUT_ZERO, F32, ROWS, HIDDEN, .shared = V(0) | V(2), .with = 2),
                  X(dy, IN, F32, T, HIDDEN, .size = 2), X(x, IN, F32, ROWS, HIDDEN, .size = 2)},
     .variants = 6, .uses = {USE("pooling backward", SEQUENCE_ROWS, NONE, NONE)}},
    {OP(normalize_forward),
     .operands = {X(y, OUT_ZERO, F32, T, HIDDEN), X(lengths, OUT, F32, ONE, COUNT),
                  X(x, IN, F32, T, HIDDEN, .size = 2)},
     .uses = {USE("length of embeddings", SEQUENCE_ROWS, NONE, NONE)}},
    {OP(normalize_backward),
     .operands = {X(dx, ADD_ZERO, F32, T, HIDDEN), X(dy, IN, F32, T, HIDDEN, .size = 2),
                  X(y, IN, F32, T, HIDDEN),
                  X(lengths, IN, F32, ONE, COUNT, .size = 0.5, .shift = 1)},
     .uses = {USE("length of embeddings, backward", SEQUENCE_ROWS, NONE, NONE)}},
    {OP(similarity_loss),
     .operands = {X(dx, OUT_ZERO, F32, T, HIDDEN), X(losses, OUT, F32, ONE, COUNT),
                  X(x, IN, F32, T, HIDDEN, .size = 0.5),
                  X(targets, IN, F32, ONE, COUNT,
                    .only = V(SIMILARITY_COSINE) | V(SIMILARITY_MARGINS) | V(SIMILARITY_ORDER)),
                  X(vectors, IN, F32, T, HIDDEN, .only = V(SIMILARITY_VECTORS))},
     .variants = SIMILARITY_COUNT,
     .uses = {USE("similarity loss", SEQUENCE_ROWS, NONE, NONE),
              USE("loss of triplets", SEQUENCE_ROWS, NONE, NONE, .variant = 1)}},
    {OP(add_losses),
     .operands = {X(sum, ADD, F64, ONE, ONE, .shift = 3),
                  X(losses, IN, F32, ONE, COUNT, .shift = 2)},
     .uses = {USE("sum of losses", SEQUENCE_ROWS, NONE, NONE),
              USE("sum of masked losses", MASKED_ROWS, NONE, NONE)}},
    {OP(squares),
     .operands = {X(sums, OUT, F64, ONE, BLOCKS), X(values, IN, F32, ONE, TABLE, .size = 3),
                  RANGES},
     .uses = {USE("gradient norm (one layer)", NONE, NONE, NONE)}},
    {OP(norms),
     .operands = {X(tensor_stats, OUT, F64, TENSORS, ONE, .dense = 1),
                  X(sums, IN, F64, ONE, BLOCKS, .shift = 2), TENSOR_BLOCKS},
     .uses = {USE("sum of gradient norms", NONE, NONE, NONE)}},
    {OP(adamw),
     .operands = {X(parameters, ADD, F32, ONE, TABLE), X(gradients, ADD, F32, ONE, TABLE),
                  X(first_moment, ADD, F32, ONE, MOMENTS),
                  X(second_moment, ADD, F32, ONE, MOMENTS, .size = 0.1, .shift = 0.11),
                  X(compute, OUT_KEPT, COMPUTE, ONE, TABLE, .copy = 1), RANGES, STATS},
     .variants = 2, .uses = {USE("adamw (one layer)", NONE, NONE, NONE)}},
    {OP(lamb_moments),
     .operands = {X(parameters, IN, F32, ONE, TABLE), X(gradients, ADD, F32, ONE, TABLE),
                  X(first_moment, ADD, F32, ONE, MOMENTS),
                  X(second_moment, ADD, F32, ONE, MOMENTS, .size = 0.1, .shift = 0.11),
                  X(compute, KEPT, COMPUTE, ONE, TABLE, .copy = 1), RANGES, STATS,
                  X(sums, OUT_KEPT, F64, BLOCKS, TWO, .shift = 2, .dense = 1)},
     .variants = 2, .uses = {USE("lamb moments (one layer)", NONE, NONE, NONE)}},
    {OP(lamb_apply),
     .operands = {X(parameters, ADD, F32, ONE, TABLE), X(gradients, KEPT, F32, ONE, TABLE),
                  X(first_moment, IN, F32, ONE, MOMENTS),
                  X(second_moment, IN, F32, ONE, MOMENTS, .size = 0.1, .shift = 0.11),
                  X(compute, OUT_KEPT, COMPUTE, ONE, TABLE, .copy = 1), RANGES, STATS,
                  X(sums, IN, F64, BLOCKS, TWO, .shift = 2, .dense = 1), TENSOR_BLOCKS,
                  X(lamb, OUT_KEPT, F64, TENSORS, THREE, .dense = 1)},
     .variants = 2, .uses = {USE("lamb apply (one layer)", NONE, NONE, NONE)}},
    {OP(add),
     .operands = {X(to, ADD, F32, ONE, TABLE, .dense = 1),
                  X(from, IN, F32, ONE, TABLE, .dense = 1)},
     .uses = {USE("add (one layer)", NONE, NONE, NONE)}},
    {OP(convert),
     .operands = {X(to, OUT, COMPUTE, ONE, TABLE), X(from, IN, F32, ONE, TABLE, .size = 100)},
     .uses = {USE("convert (one layer)", NONE, NONE, NONE)}},
    {OP(checksums),
     .operands = {X(sums, OUT, HALF_SUM, PARTS, TWO, .dense = 1),
                  X(values, IN, COMPUTE, ONE, TABLE, .size = 3),
                  X(parts, IN, PART, ONE, PARTS, .set = set_parts)},
     .uses = {USE("checksums (one layer)", NONE, NONE, NONE)}},
    {OP(linear_int8_forward),
     .operands = {X(y, OUT, COMPUTE, T, N, .f32 = V(2)), X(x, IN, COMPUTE, T, K),
                  X(w, IN, INT8, N, K, .size = 0.5), X(bias, IN, F32, ONE, N, .only = V(0) | V(1))},
     .variants = 3, PRODUCT,
     .uses = {USE("qkv forward in int8", ROWS, QKV, HIDDEN, WIDE_COLUMNS, PLAIN),
              USE("projection forward in int8", ROWS, HIDDEN, HIDDEN, PLAIN),
              USE("inner + GELU forward in int8", ROWS, WIDE, HIDDEN, WIDE_COLUMNS),
              USE("output forward in int8", ROWS, HIDDEN, WIDE, PLAIN)}},
    {OP(linear_packed_forward),
     .operands = {X(y, OUT, COMPUTE, T, N, .f32 = V(1)), X(x, IN, COMPUTE, T, K),
                  X(w, IN, PACKED, N, K, .size = 0.5, .dense = 1),
                  X(bias, IN, F32, ONE, N, .only = V(0))},
     .variants = 2, PRODUCT,
     .uses = {USE("qkv forward, packed", ROWS, QKV, HIDDEN, PLAIN),
              USE("projection forward, packed", ROWS, HIDDEN, HIDDEN, PLAIN),
              USE("inner + GELU forward, packed", ROWS, WIDE, HIDDEN),
              USE("output forward, packed", ROWS, HIDDEN, WIDE, PLAIN)}},
};
const int op_count = sizeof op_table / sizeof *op_table;
