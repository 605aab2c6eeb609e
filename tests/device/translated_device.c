// SPDX-License-Identifier: Apache-2.0
#include "translated_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(name) #name,
const char *const device_operation_names[OPERATION_COUNT] = {DEVICE_OPERATIONS(NAME)};
#undef NAME
_Static_assert(offsetof(struct device, measure_peak) ==
                   offsetof(struct device, embed_forward) + OPERATION_COUNT * sizeof(void *),
               "DEVICE_OPERATIONS has every operation");

// --- blocks -------------------------------------------------------------------------------------

void translated_add(struct translated_device *translated, struct translated_block block) {
    if (translated->count == translated->capacity) {
        translated->capacity = 2 * translated->capacity + 16;
        translated->blocks =
            realloc(translated->blocks, translated->capacity * sizeof *translated->blocks);
        if (translated->blocks == NULL) {
            abort();
        }
    }
    translated->blocks[translated->count++] = block;
}

struct translated_block *translated_find(struct translated_device *translated,
                                         const void *address) {
    for (size_t i = 0; i < translated->count; i++) {
        struct translated_block *block = &translated->blocks[i];
        if ((uintptr_t)address - (uintptr_t)block->address <= block->bytes) {
            return block;
        }
    }
    return NULL;
}

void *translated_memory(struct translated_device *translated, const char *operation,
                        const char *operand, const void *address, size_t bytes) {
    if (address == NULL) {
        return NULL;
    }
    const struct translated_block *block = translated_find(translated, address);
    if (block == NULL) {
        fprintf(stderr, "%s: %s is not in the device's memory\n", operation, operand);
        abort();
    }
    size_t offset = (size_t)((const char *)address - block->address);
    if (bytes > block->bytes - offset) {
        fprintf(stderr, "%s: %s reaches %zu bytes past the end of its block\n", operation, operand,
                bytes - (block->bytes - offset));
        abort();
    }
    return block->memory + offset;
}

// --- operands -----------------------------------------------------------------------------------

// An operation under way.
struct call {
    struct translated_device *translated;
    struct device *inner;
    const char *operation;
};

static struct call call_begin(struct device *dev, enum device_operation operation) {
    struct translated_device *translated = dev->state;
    translated->calls[operation]++;
    if (translated->before != NULL) {
        translated->before(translated);
    }
    return (struct call){translated, translated->inner, device_operation_names[operation]};
}

static void call_end(const struct call *call) {
    if (call->translated->after != NULL) {
        call->translated->after(call->translated);
    }
}

static void *memory_of(const struct call *call, const char *operand, const void *address,
                       size_t bytes) {
    return translated_memory(call->translated, call->operation, operand, address, bytes);
}

static void *mat_memory(const struct call *call, const char *operand, struct mat m) {
    int64_t reach = m.rows > 0 ? (m.rows - 1) * m.stride + m.cols : 0;
    if (m.data != NULL && (m.rows < 0 || m.cols < 0 || m.stride < m.cols)) {
        fprintf(stderr, "%s: %s has no shape\n", call->operation, operand);
        abort();
    }
    return memory_of(call, operand, m.data, (size_t)reach * dtype_size(m.dtype));
}

// Each replaces an operand of the operation `call`.
#define MAT(m) ((m).data = mat_memory(&call, #m, (m)))
#define VECTOR(x, count) ((x) = memory_of(&call, #x, (x), (size_t)(count) * sizeof *(x)))

static struct batch batch_of(struct call call, const struct batch *batch) {
    struct batch b = *batch;
    VECTOR(b.ids, b.row_count);
    VECTOR(b.type_ids, b.row_count);
    VECTOR(b.positions, b.row_count);
    VECTOR(b.sequences, b.row_count);
    VECTOR(b.word_rows, b.token_count);
    VECTOR(b.cu_seqlens, b.sequence_count + 1);
    VECTOR(b.places, b.sequence_count);
    VECTOR(b.start_positions, b.sequence_count);
    VECTOR(b.end_positions, b.sequence_count);
    VECTOR(b.labels, b.sequence_count);
    VECTOR(b.targets, b.sequence_count);
    VECTOR(b.masked_rows, b.masked_count);
    VECTOR(b.masked_labels, b.masked_count);
    return b;
}

// Begins and ends an operation, with `call` in between.
#define BEGIN(name) struct call call = call_begin(dev, OPERATION_##name)
#define END(name, ...)                                                                             \
    call.inner->name(call.inner, __VA_ARGS__);                                                     \
    call_end(&call)

// --- operations ---------------------------------------------------------------------------------

static void embed_forward(struct device *dev, const struct embed_args *args,
                          const struct batch *batch) {
    BEGIN(embed_forward);
    struct embed_args a = *args;
    const struct batch b = batch_of(call, batch);
    MAT(a.y);
    MAT(a.y_compute);
    MAT(a.xhat);
    VECTOR(a.rstd, a.y.rows);
    MAT(a.word);
    MAT(a.position);
    MAT(a.type);
    VECTOR(a.gamma, a.y.cols);
    VECTOR(a.beta, a.y.cols);
    END(embed_forward, &a, &b);
}

// Checks what a device that adds word by word relies on.
static void check_word_rows(const struct call *call, const struct batch *batch) {
    const int32_t *rows = batch->word_rows, *ids = batch->ids;
    int sorted = rows != NULL;
    for (int64_t i = 1; sorted && i < batch->token_count; i++) {
        sorted = ids[rows[i - 1]] < ids[rows[i]] ||
                 (ids[rows[i - 1]] == ids[rows[i]] && rows[i - 1] < rows[i]);
    }
    if (!sorted) {
        fprintf(stderr, "%s: the rows are not sorted by word\n", call->operation);
        abort();
    }
}

static void embed_backward(struct device *dev, const struct embed_grad_args *args,
                           const struct batch *batch) {
    BEGIN(embed_backward);
    struct embed_grad_args a = *args;
    const struct batch b = batch_of(call, batch);
    if (dev->wants_word_rows && call.inner->is_host) {
        check_word_rows(&call, &b);
    }
    MAT(a.dy);
    MAT(a.dy2);
    MAT(a.xhat);
    VECTOR(a.rstd, a.dy.rows);
    VECTOR(a.gamma, a.dy.cols);
    MAT(a.dword);
    MAT(a.dposition);
    MAT(a.dtype_table);
    VECTOR(a.dgamma, a.dy.cols);
    VECTOR(a.dbeta, a.dy.cols);
    MAT(a.scratch);
    END(embed_backward, &a, &b);
}

static void norm_forward(struct device *dev, const struct norm_args *args,
                         const struct batch *batch) {
    BEGIN(norm_forward);
    struct norm_args a = *args;
    const struct batch b = batch_of(call, batch);
    MAT(a.y);
    MAT(a.y_compute);
    MAT(a.xhat);
    VECTOR(a.rstd, a.y.rows);
    MAT(a.x);
    MAT(a.residual);
    VECTOR(a.gamma, a.y.cols);
    VECTOR(a.beta, a.y.cols);
    MAT(a.sum);
    END(norm_forward, &a, &b);
}

static void norm_backward(struct device *dev, const struct norm_grad_args *args,
                          const struct batch *batch) {
    BEGIN(norm_backward);
    struct norm_grad_args a = *args;
    const struct batch b = batch_of(call, batch);
    MAT(a.dresidual);
    MAT(a.dx);
    VECTOR(a.dbias, a.dy.cols);
    MAT(a.dy);
    MAT(a.dy2);
    MAT(a.xhat);
    VECTOR(a.rstd, a.dy.rows);
    VECTOR(a.gamma, a.dy.cols);
    VECTOR(a.dgamma, a.dy.cols);
    VECTOR(a.dbeta, a.dy.cols);
    MAT(a.dsum);
    END(norm_backward, &a, &b);
}

static void linear_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                           const float *bias) {
    BEGIN(linear_forward);
    MAT(y);
    MAT(x);
    MAT(w);
    VECTOR(bias, y.cols);
    END(linear_forward, y, x, w, bias);
}

static void linear_gelu_forward(struct device *dev, struct mat y, struct mat u, struct mat x,
                                struct mat w, const float *bias, enum activation activation) {
    BEGIN(linear_gelu_forward);
    MAT(y);
    MAT(u);
    MAT(x);
    MAT(w);
    VECTOR(bias, y.cols);
    END(linear_gelu_forward, y, u, x, w, bias, activation);
}

static void linear_backward_input(struct device *dev, struct mat dx, struct mat dy, struct mat w) {
    BEGIN(linear_backward_input);
    MAT(dx);
    MAT(dy);
    MAT(w);
    END(linear_backward_input, dx, dy, w);
}

static void linear_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat dy,
                                 struct mat w, struct mat u, enum activation activation) {
    BEGIN(linear_gelu_backward);
    MAT(du);
    VECTOR(dbias, du.cols);
    MAT(dy);
    MAT(w);
    MAT(u);
    END(linear_gelu_backward, du, dbias, dy, w, u, activation);
}

static void linear_backward_weight(struct device *dev, struct mat dw, float *dbias, struct mat dy,
                                   struct mat x) {
    BEGIN(linear_backward_weight);
    MAT(dw);
    VECTOR(dbias, dy.cols);
    MAT(dy);
    MAT(x);
    END(linear_backward_weight, dw, dbias, dy, x);
}

static void attention_forward(struct device *dev, const struct attention_args *args,
                              const struct batch *batch) {
    BEGIN(attention_forward);
    struct attention_args a = *args;
    const struct batch b = batch_of(call, batch);
    MAT(a.context);
    VECTOR(a.lse, a.qkv.rows * a.heads);
    MAT(a.qkv);
    END(attention_forward, &a, &b);
}

static void attention_backward(struct device *dev, const struct attention_grad_args *args,
                               const struct batch *batch) {
    BEGIN(attention_backward);
    struct attention_grad_args a = *args;
    const struct batch b = batch_of(call, batch);
    MAT(a.dqkv);
    MAT(a.dcontext);
    MAT(a.context);
    VECTOR(a.lse, a.qkv.rows * a.heads);
    MAT(a.qkv);
    END(attention_backward, &a, &b);
}

static void span_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                      float scale, const struct batch *batch) {
    BEGIN(span_loss);
    const struct batch b = batch_of(call, batch);
    MAT(dlogits);
    VECTOR(losses, b.sequence_count);
    MAT(logits);
    END(span_loss, dlogits, losses, logits, scale, &b);
}

static void gather_rows(struct device *dev, struct mat y, struct mat x, const int32_t *rows,
                        int64_t count) {
    BEGIN(gather_rows);
    MAT(y);
    MAT(x);
    VECTOR(rows, count);
    END(gather_rows, y, x, rows, count);
}

static void scatter_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                         int64_t count) {
    BEGIN(scatter_rows);
    MAT(dx);
    MAT(dy);
    VECTOR(rows, count);
    END(scatter_rows, dx, dy, rows, count);
}

static void scatter_add_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                             int64_t count) {
    BEGIN(scatter_add_rows);
    MAT(dx);
    MAT(dy);
    VECTOR(rows, count);
    END(scatter_add_rows, dx, dy, rows, count);
}

static void gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat u,
                          enum activation activation) {
    BEGIN(gelu_backward);
    MAT(du);
    VECTOR(dbias, du.cols);
    MAT(u);
    END(gelu_backward, du, dbias, u, activation);
}

static void tanh_forward(struct device *dev, struct mat y, struct mat t, struct mat u,
                         struct dropout dropout, const struct batch *batch) {
    BEGIN(tanh_forward);
    const struct batch b = batch_of(call, batch);
    MAT(y);
    MAT(t);
    MAT(u);
    END(tanh_forward, y, t, u, dropout, &b);
}

static void tanh_backward(struct device *dev, struct mat du, struct mat dy, struct mat t,
                          struct dropout dropout, const struct batch *batch) {
    BEGIN(tanh_backward);
    const struct batch b = batch_of(call, batch);
    MAT(du);
    MAT(dy);
    MAT(t);
    END(tanh_backward, du, dy, t, dropout, &b);
}

static void class_loss(struct device *dev, struct mat dlogits, float *losses, unsigned char *hits,
                       struct mat logits, float scale, const int32_t *labels, int64_t count) {
    BEGIN(class_loss);
    MAT(dlogits);
    VECTOR(losses, count);
    VECTOR(hits, count);
    MAT(logits);
    VECTOR(labels, count);
    END(class_loss, dlogits, losses, hits, logits, scale, labels, count);
}

static void squared_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                         float scale, const float *targets, int64_t count) {
    BEGIN(squared_loss);
    MAT(dlogits);
    VECTOR(losses, count);
    MAT(logits);
    VECTOR(targets, count);
    END(squared_loss, dlogits, losses, logits, scale, targets, count);
}

static void sigmoid_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                         float scale, const float *targets, int64_t count) {
    BEGIN(sigmoid_loss);
    const int64_t shares = count * logits.cols;
    MAT(dlogits);
    VECTOR(losses, count);
    MAT(logits);
    VECTOR(targets, shares);
    END(sigmoid_loss, dlogits, losses, logits, scale, targets, count);
}

static void add_losses(struct device *dev, double *sum, const float *losses, int64_t count,
                       double weight) {
    BEGIN(add_losses);
    VECTOR(sum, 1);
    VECTOR(losses, count);
    END(add_losses, sum, losses, count, weight);
}

// How far the ranges extend in the buffers of the table, in those of the moments, and in sums.
struct reach {
    int64_t table, moments, blocks, tensors;
};

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// The ranges are in the inner device's memory, which the host may not be able to access. Then only
// the existence of the buffers can be checked.
static struct reach reach_of(const struct call *call, const struct device_range *ranges,
                             int64_t count) {
    struct reach reach = {0};
    for (int64_t i = 0; call->inner->is_host && i < count; i++) {
        const struct device_range *range = &ranges[i];
        const int64_t blocks = device_sum_blocks(range->count);
        reach.table = larger(reach.table, range->first + range->count);
        reach.moments = larger(reach.moments, range->at + range->count);
        reach.blocks = larger(reach.blocks, range->block + blocks);
        reach.tensors = larger(reach.tensors, range->tensor + 1);
    }
    return reach;
}

static void squares(struct device *dev, double *sums, const float *values,
                    const struct device_range *ranges, int64_t range_count) {
    BEGIN(squares);
    VECTOR(ranges, range_count);
    const struct reach reach = reach_of(&call, ranges, range_count);
    VECTOR(sums, reach.blocks);
    VECTOR(values, reach.table);
    END(squares, sums, values, ranges, range_count);
}

static void norms(struct device *dev, struct grad_stats *stats, const double *sums,
                  const int64_t *blocks, int64_t groups, double scale) {
    BEGIN(norms);
    VECTOR(stats, groups);
    VECTOR(blocks, groups + 1);
    VECTOR(sums, call.inner->is_host ? blocks[groups] : 0);
    END(norms, stats, sums, blocks, groups, scale);
}

static struct adamw_args adamw_args_of(struct call call, const struct adamw_args *args) {
    struct adamw_args a = *args;
    VECTOR(a.ranges, a.range_count);
    const struct reach reach = reach_of(&call, a.ranges, a.range_count);
    VECTOR(a.parameters, reach.table);
    VECTOR(a.gradients, reach.table);
    VECTOR(a.first_moment, reach.moments);
    VECTOR(a.second_moment, reach.moments);
    MAT(a.compute);
    VECTOR(a.stats, 1);
    VECTOR(a.tensor_stats, reach.tensors);
    return a;
}

static void adamw(struct device *dev, const struct adamw_args *args) {
    BEGIN(adamw);
    const struct adamw_args a = adamw_args_of(call, args);
    END(adamw, &a);
}

static void lamb_moments(struct device *dev, const struct adamw_args *args, double *sums) {
    BEGIN(lamb_moments);
    const struct adamw_args a = adamw_args_of(call, args);
    VECTOR(sums, 2 * reach_of(&call, a.ranges, a.range_count).blocks);
    END(lamb_moments, &a, sums);
}

static void lamb_apply(struct device *dev, const struct lamb_args *args) {
    BEGIN(lamb_apply);
    struct lamb_args a = *args;
    a.adam = adamw_args_of(call, &args->adam);
    const struct reach reach = reach_of(&call, a.adam.ranges, a.adam.range_count);
    VECTOR(a.sums, 2 * reach.blocks);
    VECTOR(a.tensor_blocks, reach.tensors + 1);
    VECTOR(a.stats, reach.tensors);
    END(lamb_apply, &a);
}

static void convert(struct device *dev, struct mat to, const float *from) {
    BEGIN(convert);
    MAT(to);
    VECTOR(from, to.rows * to.cols);
    END(convert, to, from);
}

// --- forwarded operations ------------------------------------------------------------------------

static struct device *inner_of(struct device *dev) {
    return ((struct translated_device *)dev->state)->inner;
}

static const char *describe(struct device *dev) {
    return inner_of(dev)->describe(inner_of(dev));
}

static size_t workspace_bytes(struct device *dev, const struct device_shape *shape) {
    return inner_of(dev)->workspace_bytes(inner_of(dev), shape);
}

static enum berth_status reserve(struct device *dev, const struct device_shape *shape,
                                 struct berth_error *error) {
    return inner_of(dev)->reserve(inner_of(dev), shape, error);
}

static enum berth_status status(struct device *dev, struct berth_error *error) {
    return inner_of(dev)->status(inner_of(dev), error);
}

static void mark(struct device *dev, enum device_phase phase) {
    inner_of(dev)->mark(inner_of(dev), phase);
}

static void times(struct device *dev, double seconds[DEVICE_PHASES]) {
    inner_of(dev)->times(inner_of(dev), seconds);
}

static double measure_peak(struct device *dev, enum dtype dtype, double seconds) {
    return inner_of(dev)->measure_peak(inner_of(dev), dtype, seconds);
}

void translated_init(struct translated_device *translated, struct device *inner) {
#define FIELD(name) .name = name,
    *translated = (struct translated_device){
        .inner = inner,
        .device = {.name = inner->name,
                   .describe = describe,
                   .workspace_bytes = workspace_bytes,
                   .reserve = reserve,
                   .status = status,
                   .mark = mark,
                   .times = times,
                   .dtypes = inner->dtypes,
                   .fast_dtype = inner->fast_dtype,
                   .wants_word_rows = inner->wants_word_rows,
                   DEVICE_OPERATIONS(FIELD).measure_peak =
                       inner->measure_peak == NULL ? NULL : measure_peak}};
#undef FIELD
    translated->device.state = translated;
}

void translated_done(struct translated_device *translated) {
    free(translated->blocks);
}
