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

// Integers and targets of a batch: in a block, or in the host's memory, where the callers of today
// keep them.
static void *array_of(const struct call *call, const char *operand, const void *address,
                      size_t bytes) {
    if (translated_find(call->translated, address) == NULL) {
        return (void *)(uintptr_t)address;
    }
    return memory_of(call, operand, address, bytes);
}

// Each replaces an operand of the operation `call`.
#define MAT(m) ((m).data = mat_memory(&call, #m, (m)))
#define VECTOR(x, count) ((x) = memory_of(&call, #x, (x), (size_t)(count) * sizeof *(x)))
#define ARRAY(x, count) ((x) = array_of(&call, #x, (x), (size_t)(count) * sizeof *(x)))

static struct batch batch_of(struct call call, const struct batch *batch) {
    struct batch b = *batch;
    ARRAY(b.ids, b.row_count);
    ARRAY(b.type_ids, b.row_count);
    ARRAY(b.positions, b.row_count);
    ARRAY(b.sequences, b.row_count);
    ARRAY(b.cu_seqlens, b.sequence_count + 1);
    ARRAY(b.places, b.sequence_count);
    ARRAY(b.start_positions, b.sequence_count);
    ARRAY(b.end_positions, b.sequence_count);
    ARRAY(b.labels, b.sequence_count);
    ARRAY(b.targets, b.sequence_count);
    ARRAY(b.masked_rows, b.masked_count);
    ARRAY(b.masked_labels, b.masked_count);
    return b;
}

// Begins an operation and ends it: `call` between the two.
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

static void embed_backward(struct device *dev, const struct embed_grad_args *args,
                           const struct batch *batch) {
    BEGIN(embed_backward);
    struct embed_grad_args a = *args;
    const struct batch b = batch_of(call, batch);
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
    ARRAY(rows, count);
    END(gather_rows, y, x, rows, count);
}

static void scatter_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                         int64_t count) {
    BEGIN(scatter_rows);
    MAT(dx);
    MAT(dy);
    ARRAY(rows, count);
    END(scatter_rows, dx, dy, rows, count);
}

static void scatter_add_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                             int64_t count) {
    BEGIN(scatter_add_rows);
    MAT(dx);
    MAT(dy);
    ARRAY(rows, count);
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
    ARRAY(labels, count);
    END(class_loss, dlogits, losses, hits, logits, scale, labels, count);
}

static void squared_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                         float scale, const float *targets, int64_t count) {
    BEGIN(squared_loss);
    MAT(dlogits);
    VECTOR(losses, count);
    MAT(logits);
    ARRAY(targets, count);
    END(squared_loss, dlogits, losses, logits, scale, targets, count);
}

static void grad_norm(struct device *dev, struct grad_stats *stats, const float *gradients,
                      int64_t count, double gradient_scale) {
    BEGIN(grad_norm);
    VECTOR(stats, 1);
    VECTOR(gradients, count);
    END(grad_norm, stats, gradients, count, gradient_scale);
}

static struct adamw_args adamw_args_of(struct call call, const struct adamw_args *args) {
    struct adamw_args a = *args;
    VECTOR(a.parameters, a.count);
    VECTOR(a.gradients, a.count);
    VECTOR(a.first_moment, a.count);
    VECTOR(a.second_moment, a.count);
    MAT(a.compute);
    VECTOR(a.stats, 1);
    return a;
}

static void adamw(struct device *dev, const struct adamw_args *args) {
    BEGIN(adamw);
    const struct adamw_args a = adamw_args_of(call, args);
    END(adamw, &a);
}

static void lamb(struct device *dev, const struct lamb_args *args) {
    BEGIN(lamb);
    struct lamb_args a = *args;
    a.adam = adamw_args_of(call, &args->adam);
    VECTOR(a.result, 1);
    END(lamb, &a);
}

static void convert(struct device *dev, struct mat to, const float *from) {
    BEGIN(convert);
    MAT(to);
    VECTOR(from, to.rows * to.cols);
    END(convert, to, from);
}

// --- what is passed on --------------------------------------------------------------------------

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
                   DEVICE_OPERATIONS(FIELD).measure_peak =
                       inner->measure_peak == NULL ? NULL : measure_peak}};
#undef FIELD
    translated->device.state = translated;
}

void translated_done(struct translated_device *translated) {
    free(translated->blocks);
}
