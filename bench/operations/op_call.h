// SPDX-License-Identifier: Apache-2.0
// One call of an operation of op_table.h: its sizes, the shapes of its operands, and what it costs.
// The caller provides the memory of its operands. The table's rows and the tests of devices use it.
#ifndef BERTH_BENCH_OP_CALL_H
#define BERTH_BENCH_OP_CALL_H

#include "bench/operations/op_table.h"

// One operation as it is called.
struct op_call {
    const struct op *op;
    int variant;
    const struct op_geometry *geometry;
    struct batch batch; // of the device
    int64_t sizes[OP_SIZES];
    struct mat operands[OP_OPERANDS]; // of the device; empty: absent
    uint32_t threshold;               // of dropout
    enum activation activation;
    float scale;            // of losses
    struct adamw_args adam; // numbers of an update; the buffers are operands
    double min_coeff, max_coeff;
};

// Elements of each of the OP_PARTS parts of the flat buffers, except the last.
int64_t op_part_size(int64_t table);

// Sets everything but the operands, with the numbers of an ordinary update.
void op_call_init(struct op_call *call, const struct op *op, const struct op_use *use,
                  const struct op_geometry *geometry, const struct batch *batch);

struct dropout op_dropout(const struct op_call *call, enum rng_site site);
// Of sigmoid_loss: 1 in its first variant.
static inline float op_positive_weight(const struct op_call *call) {
    return 1 + 0.75f * (float)call->variant;
}
// Computes the attention masks of the call; its batch must be in host memory.
void op_masks(const struct op_call *call, uint16_t *masks);
int op_has(const struct op_call *call, int operand);
// The operand whose memory this one shares, or itself.
int op_memory_of(const struct op_call *call, int operand);
// Its shape without gaps and without data; the dtype only of OP_F32 and OP_COMPUTE.
struct mat op_shape(const struct op_call *call, int operand);
// Its bytes in device memory.
size_t op_operand_bytes(struct device *dev, const struct op_call *call, int operand);
// Whether the device supports the operation for operands of these shapes.
int op_is_offered(struct device *dev, const struct op_call *call);
int op_reads_int8(const struct op *op, int variant);
struct int8_matrix op_int8_matrix(const struct op_call *call, int operand);
// Its i-th wide column.
static inline int32_t op_wide_column(const struct int8_matrix *matrix, int64_t i) {
    return (int32_t)(i * matrix->cols / DEVICE_INT8_WIDE);
}
// Writes the weights of an int8_matrix, whose memory must be zero; `numbers` are contiguous in host
// memory.
void op_write_int8(struct device *dev, const struct op_call *call, int operand,
                   const float *numbers);
// The rows of that size that are not slack.
int64_t op_real_rows(const struct op_call *call, enum op_size rows);

int op_is_product(const struct op *op);
// The least that a call must compute, and move without caches.
double op_flops(const struct op_call *call);
double op_bytes(const struct op_call *call);

#endif
