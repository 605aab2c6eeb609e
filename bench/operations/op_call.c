// SPDX-License-Identifier: Apache-2.0
// Says of one call of an operation how large its operands are, which of them it reads and writes,
// and how many operations and bytes it takes at least. The table's rows (op_table.c), the operands
// (bench_operands.c) and the tests of devices ask.
#include "bench/operations/op_call.h"

#include "core/int8.h"

// --- one call -----------------------------------------------------------------------------------

// A block of the buffers, or for small ones about a third, odd so that parts after the first begin
// at odd elements.
int64_t op_part_size(int64_t table) {
    const int64_t third = table / 3 - 1;
    return third < DEVICE_SUM_BLOCK ? third / 2 * 2 + 1 : DEVICE_SUM_BLOCK;
}

static int64_t part_count(int64_t table) {
    const int64_t size = op_part_size(table);
    return (table + size - 1) / size;
}

int64_t op_real_rows(const struct op_call *call, enum op_size rows) {
    switch (rows) {
    case OP_ROWS:
        return call->batch.token_count;
    case OP_SEQUENCE_ROWS:
        return call->batch.sequence_count;
    case OP_MASKED_ROWS:
        return call->geometry->masked;
    case OP_T:
        return call->sizes[OP_COUNT];
    default:
        return call->sizes[rows];
    }
}

void op_call_init(struct op_call *call, const struct op *op, const struct op_use *use,
                  const struct op_geometry *geometry, const struct batch *batch) {
    const struct device_range *last = geometry->ranges + geometry->range_count - 1;
    *call = (struct op_call){
        .op = op,
        .variant = use->variant,
        .geometry = geometry,
        .batch = *batch,
        .sizes = {[OP_ONE] = 1,
                  [OP_TWO] = 2,
                  [OP_THREE] = 3,
                  [OP_ROWS] = batch->row_count,
                  [OP_HIDDEN] = geometry->hidden,
                  [OP_QKV] = 3 * geometry->hidden,
                  [OP_GROUPS] = int8_groups(geometry->hidden),
                  [OP_WIDE] = geometry->intermediate,
                  [OP_HEADS] = geometry->heads,
                  [OP_LENGTH] = batch->max_length,
                  [OP_MASKS] = geometry->keeps_masks
                                   ? geometry->heads * attention_mask_words(batch->max_length)
                                   : 0,
                  [OP_VOCABULARY] = geometry->vocabulary,
                  [OP_SEQUENCE_ROWS] = geometry->sequence_rows,
                  [OP_MASKED_ROWS] = geometry->masked_rows,
                  [OP_CLASSES] = geometry->heads + 1,
                  [OP_TABLE] = geometry->table,
                  [OP_MOMENTS] = last->moment_first + last->count,
                  [OP_RANGES] = geometry->range_count,
                  [OP_BLOCKS] = last->block + device_sum_blocks(last->count),
                  [OP_PARTS] = part_count(geometry->table),
                  [OP_TENSORS] = last->tensor + 1,
                  [OP_TENSOR_BOUNDS] = last->tensor + 2},
        .activation = use->activation,
        .scale = 0.25f,
        .adam = {.rate = 0.01,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .epsilon = 1e-6,
                 .correction1 = 0.271,
                 .correction2 = 0.003,
                 .gradient_scale = 0.5,
                 .max_grad_norm = 1},
        .max_coeff = 10,
    };
    call->sizes[OP_COUNT] = op_real_rows(call, use->t);
    call->sizes[OP_T] = call->sizes[use->t];
    call->sizes[OP_N] = call->sizes[use->n];
    call->sizes[OP_K] = call->sizes[use->k];
}

int op_has(const struct op_call *call, int operand) {
    const struct op_operand *o = &call->op->operands[operand];
    return o->name != NULL && call->sizes[o->cols] > 0 &&
           (o->only == 0 || (o->only & OP_VARIANT(call->variant))) &&
           (!o->copy || call->geometry->compute != DTYPE_F32);
}

static enum dtype dtype_of(const struct op_call *call, const struct op_operand *o) {
    const int is_compute = o->type == OP_COMPUTE || o->type == OP_PACKED;
    return o->type == OP_INT8 || o->type == OP_CODE              ? DTYPE_I8
           : is_compute && !(o->f32 & OP_VARIANT(call->variant)) ? call->geometry->compute
                                                                 : DTYPE_F32;
}

int op_memory_of(const struct op_call *call, int operand) {
    const struct op_operand *o = &call->op->operands[operand];
    const int shares = (o->shared & OP_VARIANT(call->variant)) &&
                       dtype_of(call, o) == dtype_of(call, &call->op->operands[o->with]);
    return shares ? o->with : operand;
}

struct mat op_shape(const struct op_call *call, int operand) {
    const struct op_operand *o = &call->op->operands[operand];
    return mat_of(NULL, call->sizes[o->rows], call->sizes[o->cols], dtype_of(call, o));
}

static size_t op_element_bytes(const struct op_call *call, int operand) {
    const struct op_operand *o = &call->op->operands[operand];
    static const size_t bytes[] = {[OP_F64] = sizeof(double),
                                   [OP_INT32] = sizeof(int32_t),
                                   [OP_INT64] = sizeof(int64_t),
                                   [OP_BYTE] = 1,
                                   [OP_HALF_SUM] = sizeof(uint32_t),
                                   [OP_MASK] = sizeof(uint16_t),
                                   [OP_RANGE] = sizeof(struct device_range),
                                   [OP_PART] = sizeof(struct device_checksum_range)};
    return o->type <= OP_CODE ? dtype_size(dtype_of(call, o)) : bytes[o->type];
}

size_t op_operand_bytes(struct device *dev, const struct op_call *call, int operand) {
    const struct mat shape = op_shape(call, operand);
    if (call->op->operands[operand].type == OP_INT8) {
        const struct int8_matrix matrix = op_int8_matrix(call, operand);
        return dev->int8_bytes(dev, &matrix);
    }
    return (size_t)(shape.rows * shape.cols) * op_element_bytes(call, operand);
}

// --- dropout -----------------------------------------------------------------------------------

struct dropout op_dropout(const struct op_call *c, enum rng_site site) {
    return (struct dropout){0x123456789ABCDEFu, 17, 3, site, c->threshold};
}

// Columns past the length included.
void op_masks(const struct op_call *c, uint16_t *masks) {
    const struct dropout dropout = op_dropout(c, RNG_SITE_ATTENTION);
    const struct batch *batch = &c->batch;
    const int64_t heads = c->sizes[OP_HEADS];
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        const int64_t first = batch->cu_seqlens[s], length = batch->cu_seqlens[s + 1] - first;
        const int64_t words = attention_mask_words(length);
        uint16_t *to = masks + first * heads * attention_mask_words(batch->max_length);
        for (int64_t i = 0; i < heads * length * words; i++) {
            const uint32_t head = (uint32_t)(i / words / length);
            const int32_t query = (int32_t)(i / words % length), key = (int32_t)(i % words * 16);
            to[i] = 0;
            for (int bit = 0; bit < 16; bit++) {
                const int keeps =
                    rng_dropout_keeps(&dropout, head, batch->global_indices[s], query, key + bit);
                to[i] |= (uint16_t)(keeps << bit);
            }
        }
    }
}

// --- layouts of the device ----------------------------------------------------------------------

int op_reads_int8(const struct op *op, int variant) {
    int found = 0;
    for (int i = 0; i < OP_OPERANDS; i++) {
        const struct op_operand *o = &op->operands[i];
        found |= (o->type == OP_INT8 || o->type == OP_CODE) &&
                 (o->only == 0 || (o->only & OP_VARIANT(variant)));
    }
    return found;
}

static int can_pack(struct device *dev, const struct op_call *call) {
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (call->op->operands[i].type == OP_PACKED &&
            (dev->packs == NULL || !dev->packs(dev, op_shape(call, i)))) {
            return 0;
        }
    }
    return 1;
}

int op_is_offered(struct device *dev, const struct op_call *call) {
    const int has_int8 = (dev->dtypes >> DTYPE_I8 & 1) != 0;
    return (has_int8 || !op_reads_int8(call->op, call->variant)) && can_pack(dev, call);
}

struct int8_matrix op_int8_matrix(const struct op_call *call, int operand) {
    const struct mat shape = op_shape(call, operand);
    return (struct int8_matrix){.data = call->operands[operand].data,
                                .rows = shape.rows,
                                .cols = shape.cols,
                                .wide = call->variant > 0 ? DEVICE_INT8_WIDE : 0};
}

void op_write_int8(struct device *dev, const struct op_call *call, int operand,
                   const float *numbers) {
    const struct int8_matrix matrix = op_int8_matrix(call, operand);
    int32_t columns[DEVICE_INT8_WIDE];
    for (int64_t i = 0; i < matrix.wide; i++) {
        columns[i] = op_wide_column(&matrix, i);
    }
    dev->int8_pack(dev, &matrix, 0,
                   mat_of((void *)(uintptr_t)numbers, matrix.rows, matrix.cols, DTYPE_F32), NULL);
    dev->int8_finish(dev, &matrix, matrix.wide > 0 ? columns : NULL);
}

// --- costs --------------------------------------------------------------------------------------

int op_is_product(const struct op *op) {
    return op->flop_sizes[0] == OP_T;
}

double op_flops(const struct op_call *call) {
    double flops = call->op->flops;
    for (int i = 0; i < 3; i++) {
        flops *= (double)call->sizes[call->op->flop_sizes[i]];
    }
    return flops;
}

double op_bytes(const struct op_call *call) {
    double sum = 0;
    for (int i = 0; i < OP_OPERANDS; i++) {
        const struct op_operand *o = &call->op->operands[i];
        if (op_has(call, i)) {
            const int64_t rows = call->sizes[o->reached != OP_NONE ? o->reached : o->rows];
            const int times =
                o->role & OP_SCRATCH ? 2 : ((o->role & OP_IN) != 0) + ((o->role & OP_OUT) != 0);
            sum +=
                (double)((size_t)(rows * call->sizes[o->cols]) * op_element_bytes(call, i)) * times;
        }
    }
    return sum;
}
