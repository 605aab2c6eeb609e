// SPDX-License-Identifier: Apache-2.0
// Replaces the addresses of an operation's operands; see translated_device.h.
#include "translated_device.h"

#include "core/int8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const device_operation_names[OPERATION_COUNT] = {
#define OPERATION(name, ...) #name,
#define OPTIONAL OPERATION
#include "translated_operations.inc"
#undef OPTIONAL
#undef OPERATION
};
_Static_assert(offsetof(struct device, measure_peak) ==
                   offsetof(struct device, embed_forward) + OPERATION_EVERYWHERE * sizeof(void *),
               "translated_operations.inc has every operation");

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
    struct translated_block *ends_there = NULL;
    for (size_t i = 0; i < translated->count; i++) {
        struct translated_block *block = &translated->blocks[i];
        const size_t offset = (uintptr_t)address - (uintptr_t)block->address;
        if (offset < block->bytes) {
            return block;
        }
        ends_there = offset == block->bytes ? block : ends_there;
    }
    return ends_there;
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

// The operation being called.
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

static struct int8_matrix int8_memory(const struct call *call, const struct int8_matrix *matrix) {
    struct int8_matrix own = *matrix;
    own.data = memory_of(call, "matrix", own.data, call->inner->int8_bytes(call->inner, matrix));
    return own;
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
    VECTOR(b.global_indices, b.sequence_count);
    VECTOR(b.start_positions, b.sequence_count);
    VECTOR(b.end_positions, b.sequence_count);
    VECTOR(b.labels, b.sequence_count);
    VECTOR(b.targets, b.sequence_count);
    VECTOR(b.masked_rows, b.masked_count);
    VECTOR(b.masked_labels, b.masked_count);
    return b;
}

// --- operations ---------------------------------------------------------------------------------

// Checks what a device that adds word by word relies on.
static void check_word_rows(const struct device *dev, const struct call *call,
                            const struct batch *batch) {
    const int32_t *rows = batch->word_rows, *ids = batch->ids;
    int sorted = rows != NULL;
    if (!dev->wants_word_rows || !call->inner->is_host) {
        return;
    }
    for (int64_t i = 1; sorted && i < batch->token_count; i++) {
        sorted = ids[rows[i - 1]] < ids[rows[i]] ||
                 (ids[rows[i - 1]] == ids[rows[i]] && rows[i - 1] < rows[i]);
    }
    if (!sorted) {
        fprintf(stderr, "%s: the rows are not sorted by word\n", call->operation);
        abort();
    }
}

// How far the ranges extend: in the table's buffers, in the moments, and in arrays of sums.
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
        reach.moments = larger(reach.moments, range->moment_first + range->count);
        reach.blocks = larger(reach.blocks, range->block + blocks);
        reach.tensors = larger(reach.tensors, range->tensor + 1);
    }
    return reach;
}

// The number of sums that end with the last range's, as far as the host can read the ranges.
static int64_t sums_reached(const struct call *call, const struct device_checksum_range *ranges,
                            int64_t count) {
    int64_t reached = 0;
    for (int64_t i = 0; call->inner->is_host && i < count; i++) {
        reached = larger(reached, ranges[i].sum + 1);
    }
    return reached;
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

#define ARGS(type) struct type a = *args
#define BATCH const struct batch b = batch_of(call, batch)
#define LIST(...) __VA_ARGS__
#define OPERATION(name, parameters, arguments, ...)                                                \
    static void name(struct device *dev, LIST parameters) {                                        \
        const struct call call = call_begin(dev, OPERATION_##name);                                \
        __VA_ARGS__;                                                                               \
        call.inner->name(call.inner, LIST arguments);                                              \
        call_end(&call);                                                                           \
    }
#define OPTIONAL OPERATION
#include "translated_operations.inc"
#undef OPTIONAL
#undef OPERATION

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

static size_t int8_bytes(struct device *dev, const struct int8_matrix *shape) {
    return inner_of(dev)->int8_bytes(inner_of(dev), shape);
}

static int packs(struct device *dev, struct mat w) {
    return inner_of(dev)->packs(inner_of(dev), w);
}

void translated_init(struct translated_device *translated, struct device *inner) {
    *translated = (struct translated_device){
        .inner = inner,
        .device = {
            .name = inner->name,
            .describe = describe,
            .workspace_bytes = workspace_bytes,
            .reserve = reserve,
            .status = status,
            .mark = mark,
            .times = times,
            .dtypes = inner->dtypes,
            .kernels = inner->kernels,
            .fast_dtype = inner->fast_dtype,
            .wants_word_rows = inner->wants_word_rows,
            .keeps_masks = inner->keeps_masks,
            .measure_peak = inner->measure_peak == NULL ? NULL : measure_peak,
            .int8_bytes = inner->int8_bytes == NULL ? NULL : int8_bytes,
            .packs = inner->packs == NULL ? NULL : packs,
#define OPERATION(name, ...) .name = name,
#define OPTIONAL(name, ...) .name = inner->name == NULL ? NULL : name,
#include "translated_operations.inc"
#undef OPTIONAL
#undef OPERATION
        }};
    translated->device.state = translated;
}

void translated_done(struct translated_device *translated) {
    free(translated->blocks);
}
