// SPDX-License-Identifier: Apache-2.0
// One call of an operation of op_table.h: its sizes, the shapes of its operands, and what it costs.
// Its operands lie where the caller puts them.
#ifndef BERTH_TRAIN_BENCH_OP_CALL_H
#define BERTH_TRAIN_BENCH_OP_CALL_H

#include "train/bench/op_table.h"

// One operation as it is called.
struct op_call {
    const struct op *op;
    int variant;
    const struct op_geometry *geometry;
    struct batch batch; // of the device
    int64_t sizes[OP_SIZES];
    struct mat operands[OP_OPERANDS]; // of the device; empty: not there
    uint32_t threshold;               // of dropout
    enum activation activation;
    float scale;            // of losses
    struct adamw_args adam; // numbers of an update; the buffers are operands
    double min_coeff, max_coeff;
};

// Elements of each part but the last that op_call's OP_PARTS divide the flat buffers into.
int64_t op_part_size(int64_t table);

// Everything but the operands, with the numbers of an ordinary update.
void op_call_init(struct op_call *call, const struct op *op, const struct op_use *use,
                  const struct op_geometry *geometry, const struct batch *batch);

struct dropout op_dropout(const struct op_call *call, enum rng_site site);
// The masks of the call's attention, of a batch in the host's memory.
void op_masks(const struct op_call *call, uint16_t *masks);
int op_has(const struct op_call *call, int operand);
// The number of the operand whose memory it shares, or its own.
int op_memory_of(const struct op_call *call, int operand);
// Its shape without gaps and without data; the dtype only of OP_F32 and OP_COMPUTE.
struct mat op_shape(const struct op_call *call, int operand);
// What it takes of the device's memory.
size_t op_operand_bytes(struct device *dev, const struct op_call *call, int operand);
// Whether the device has the operation, for operands of these shapes.
int op_is_offered(struct device *dev, const struct op_call *call);
int op_reads_int8(const struct op *op, int variant);
struct int8_matrix op_int8_matrix(const struct op_call *call, int operand);
// The i-th of its wide columns.
static inline int32_t op_wide_column(const struct int8_matrix *matrix, int64_t i) {
    return (int32_t)(i * matrix->cols / DEVICE_INT8_WIDE);
}
// Writes the weights of an int8_matrix, whose memory is zero; `numbers` are in host memory, without
// gaps.
void op_write_int8(struct device *dev, const struct op_call *call, int operand,
                   const float *numbers);
// The rows of that size that are no slack.
int64_t op_real_rows(const struct op_call *call, enum op_size rows);

int op_is_product(const struct op *op);
// What a call must at least compute, and move when nothing is in a cache.
double op_flops(const struct op_call *call);
double op_bytes(const struct op_call *call);

#endif
