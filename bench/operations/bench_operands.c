// SPDX-License-Identifier: Apache-2.0
// Makes the operands of one operation in a device's memory: a batch of given lengths, matrices of
// random numbers, in the types that the call reads. bench_ops.c has them made before each
// measurement; their shapes are said by op_call.h.
#include "bench/operations/bench_operands.h"

#include "core/error.h"
#include "core/memory.h"

// --- the batch ----------------------------------------------------------------------------------

// A source of sequences of equal length with the same masked positions and words from the whole
// vocabulary.
struct synthetic {
    const struct bench_geometry *g;
    int32_t *ids;        // [rows]
    int8_t *type_ids;    // [length]
    uint16_t *positions; // [masked]
    int32_t masked;      // of a sequence
};

static struct packer_sequence get(const void *data, size_t index) {
    const struct synthetic *synthetic = data;
    const int64_t first = (int64_t)index * synthetic->g->length, left = synthetic->g->rows - first;
    const int64_t length = left < synthetic->g->length ? left : synthetic->g->length;
    return (struct packer_sequence){.ids = synthetic->ids + first,
                                    .type_ids = synthetic->type_ids,
                                    .length = (int32_t)length,
                                    .masked_positions = synthetic->positions,
                                    .masked_labels = synthetic->ids + first,
                                    .masked_count =
                                        length == synthetic->g->length ? synthetic->masked : 0};
}

static enum berth_status fill_synthetic(struct synthetic *synthetic, struct berth_error *error) {
    const int64_t rows = synthetic->g->rows, length = synthetic->g->length;
    synthetic->masked = length > 6 ? (int32_t)(length * 15 / 100) : 1;
    synthetic->ids = memory_array((size_t)rows, sizeof *synthetic->ids);
    synthetic->type_ids = memory_array_zeroed((size_t)length, sizeof *synthetic->type_ids);
    synthetic->positions = memory_array((size_t)synthetic->masked, sizeof *synthetic->positions);
    if (synthetic->ids == NULL || synthetic->type_ids == NULL || synthetic->positions == NULL) {
        return error_no_memory(error, (size_t)rows * sizeof *synthetic->ids,
                               "the benchmark's batch");
    }
    for (int64_t row = 0; row < rows; row++) {
        synthetic->ids[row] = (int32_t)(row * 7919 % synthetic->g->vocabulary);
    }
    for (int32_t i = 0; i < synthetic->masked; i++) {
        synthetic->positions[i] = (uint16_t)(i * length / synthetic->masked);
    }
    return BERTH_OK;
}

static enum berth_status pack(struct bench_operands *b, const struct synthetic *synthetic,
                              struct berth_error *error) {
    const size_t count = (size_t)((b->g->rows + b->g->length - 1) / b->g->length);
    const struct packer_source source = {.get = get, .data = synthetic, .count = count};
    uint32_t *order = memory_array(count, sizeof *order);
    if (order == NULL) {
        return error_no_memory(error, count * sizeof *order, "the benchmark's batch");
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    const struct batch_extent extent = packer_extent(&source, order, count);
    enum berth_status status;
    TRY_DONE(packer_init(&b->packer, &extent, b->dev->wants_word_rows, error));
    TRY_DONE(device_batch_init(&b->device_batch, b->dev, &extent, error));
    packer_fill(&b->packer, &source, order, NULL, count);
    b->batch = *device_batch_upload(&b->device_batch, &b->packer.batch);
done:
    memory_free(order);
    return status;
}

// --- the operands -------------------------------------------------------------------------------

enum { PATTERN = 4096 }; // length of the random numbers that repeat in every operand

// Only measures if the arena has no memory yet.
static void carve(struct bench_operands *b, struct op_call *call) {
    b->memory.used = 0;
    b->pattern = arena_alloc(&b->memory, PATTERN * sizeof *b->pattern);
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (op_has(call, i) && op_memory_of(call, i) == i) {
            call->operands[i] = op_shape(call, i);
            call->operands[i].data = arena_alloc(&b->memory, op_operand_bytes(b->dev, call, i));
        }
    }
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (op_has(call, i) && op_memory_of(call, i) != i) {
            call->operands[i] = call->operands[op_memory_of(call, i)];
        }
    }
}

static void call_init(const struct bench_operands *b, const struct op *op, const struct op_use *use,
                      struct op_call *call) {
    op_call_init(call, op, use, &b->geometry, &b->batch);
    call->threshold = rng_dropout_threshold(0.1);
}

static void random_pattern(float numbers[PATTERN], const struct op_operand *o) {
    uint64_t index = 0;
    for (int i = 0; i < PATTERN; i++) {
        const double x = (double)rng_draw(5, 3, &index) / 2147483648.0 - 1.0;
        numbers[i] = (float)(o->shift + (o->size == 0 ? 1 : o->size) * x);
    }
}

static void fill_numbers(struct bench_operands *b, const struct op_operand *o, struct mat m) {
    const int64_t count = m.rows * m.cols;
    float numbers[PATTERN];
    random_pattern(numbers, o);
    b->dev->upload(b->dev, b->pattern, numbers, sizeof numbers);
    for (int64_t i = 0; i < count; i += PATTERN) {
        const int64_t chunk = count - i < PATTERN ? count - i : PATTERN;
        const struct mat all = mat_of(m.data, 1, count, m.dtype);
        b->dev->convert(b->dev, mat_columns(all, i, chunk), b->pattern);
    }
}

static enum berth_status fill_int8(struct bench_operands *b, const struct op_call *call,
                                   int operand, struct berth_error *error) {
    const struct mat m = call->operands[operand];
    const size_t count = (size_t)(m.rows * m.cols);
    float pattern[PATTERN], *numbers = memory_array(count, sizeof *numbers);
    if (numbers == NULL) {
        return error_no_memory(error, count * sizeof *numbers, "the benchmark's operands");
    }
    random_pattern(pattern, &call->op->operands[operand]);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = pattern[i % PATTERN];
    }
    b->dev->zero(b->dev, m.data, op_operand_bytes(b->dev, call, operand));
    op_write_int8(b->dev, call, operand, numbers);
    memory_free(numbers);
    return BERTH_OK;
}

// Fills operands whose elements are not those of matrices.
static enum berth_status fill_elements(struct bench_operands *b, const struct op_call *call,
                                       int operand, struct berth_error *error) {
    const struct op_operand *o = &call->op->operands[operand];
    const size_t bytes = op_operand_bytes(b->dev, call, operand);
    void *host = memory_array_zeroed(1, bytes);
    if (host == NULL) {
        return error_no_memory(error, bytes, "the benchmark's operands");
    }
    for (size_t i = 0; o->type == OP_F64 && i < bytes / sizeof(double); i++) {
        ((double *)host)[i] = o->shift;
    }
    for (size_t i = 0; o->type == OP_CODE && i < bytes; i++) {
        ((signed char *)host)[i] = (signed char)(i * 7 % 255 - 127);
    }
    if (o->set != NULL) {
        struct op_call of_host = *call;
        of_host.batch = b->packer.batch; // the call's own batch is in device memory
        o->set(&of_host, host);
    }
    b->dev->upload(b->dev, call->operands[operand].data, host, bytes);
    memory_free(host);
    return BERTH_OK;
}

static enum berth_status fill(struct bench_operands *b, const struct op_call *call, int operand,
                              struct berth_error *error) {
    const struct op_operand *o = &call->op->operands[operand];
    if (o->type == OP_INT8) {
        return fill_int8(b, call, operand, error);
    }
    if (o->type > OP_PACKED) {
        return fill_elements(b, call, operand, error);
    }
    fill_numbers(b, o, call->operands[operand]);
    if (o->type == OP_PACKED) {
        b->dev->pack(b->dev, call->operands[operand]);
    }
    return BERTH_OK;
}

int bench_operands_offer(const struct bench_operands *b, const struct op *op,
                         const struct op_use *use) {
    struct op_call call;
    call_init(b, op, use, &call);
    return op_is_offered(b->dev, &call);
}

enum berth_status bench_operands_make(struct bench_operands *b, const struct op *op,
                                      const struct op_use *use, struct op_call *call,
                                      struct berth_error *error) {
    call_init(b, op, use, call);
    carve(b, call);
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (mat_is_empty(call->operands[i])) {
            continue;
        }
        TRY(fill(b, call, i, error));
    }
    return BERTH_OK;
}

// --- opening ------------------------------------------------------------------------------------

static size_t largest_bytes(struct bench_operands *b) {
    size_t peak = 0;
    for (int i = 0; i < op_count; i++) {
        for (const struct op_use *use = op_table[i].uses; use->name != NULL; use++) {
            struct op_call call;
            if (!bench_operands_offer(b, &op_table[i], use)) {
                continue;
            }
            call_init(b, &op_table[i], use, &call);
            carve(b, &call);
            peak = b->memory.used > peak ? b->memory.used : peak;
        }
    }
    return peak;
}

enum berth_status bench_operands_open(struct bench_operands *b, struct device *dev,
                                      const struct bench_geometry *g, struct berth_error *error) {
    *b = (struct bench_operands){.dev = dev, .g = g};
    struct synthetic synthetic = {.g = b->g};
    enum berth_status status = fill_synthetic(&synthetic, error);
    if (status == BERTH_OK) {
        status = pack(b, &synthetic, error);
    }
    memory_free(synthetic.ids);
    memory_free(synthetic.type_ids);
    memory_free(synthetic.positions);
    TRY(status);
    b->range = (struct device_range){
        .count = 4 * g->hidden * g->hidden + 2 * g->hidden * g->intermediate, .weight_decay = 0.01};
    b->geometry = (struct op_geometry){.hidden = g->hidden,
                                       .intermediate = g->intermediate,
                                       .heads = g->heads,
                                       .keeps_masks = dev->keeps_masks,
                                       .vocabulary = g->vocabulary,
                                       .masked = b->batch.masked_count,
                                       .sequence_rows = batch_round(b->batch.sequence_count),
                                       .masked_rows = batch_round(b->batch.masked_count),
                                       .table = b->range.count,
                                       .ranges = &b->range,
                                       .range_count = 1,
                                       .compute = g->compute};
    const struct device_shape shape = {
        .batch = {b->batch.row_count, b->batch.sequence_count, b->batch.masked_count, g->length},
        .hidden = g->hidden,
        .intermediate = g->intermediate,
        .heads = g->heads,
        .vocabulary = g->vocabulary,
        .decoder_rows = b->geometry.masked_rows,
        .compute = g->compute,
        .training = 1,
        .int8 = (dev->dtypes >> DTYPE_I8 & 1) != 0};
    b->memory.size = largest_bytes(b);
    b->memory.base = b->dev->memory_new(b->dev, b->memory.size);
    if (b->memory.base == NULL) {
        return error_no_memory(error, b->memory.size, "the benchmark's operands");
    }
    return b->dev->reserve(b->dev, &shape, error);
}

void bench_operands_close(struct bench_operands *b) {
    if (b->memory.base != NULL) {
        b->dev->memory_free(b->dev, b->memory.base, b->memory.size);
    }
    device_batch_done(&b->device_batch);
    packer_done(&b->packer);
}
