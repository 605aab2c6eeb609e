// SPDX-License-Identifier: Apache-2.0
// Operands for measuring the operations of op_table.h: an ordinary batch, and memory that holds the
// operands of one operation at a time. bench_ops.c has them made and timed.
#ifndef BERTH_BENCH_OPERANDS_H
#define BERTH_BENCH_OPERANDS_H

#include "bench/operations/bench_ops.h"
#include "bench/operations/op_call.h"
#include "core/arena.h"
#include "data/batches/packer.h"
#include "device/device_batch.h"

struct bench_operands {
    struct device *dev;
    const struct bench_geometry *g;
    struct op_geometry geometry;
    struct device_range range; // all elements of a layer's matrices
    struct packer packer;
    struct device_batch device_batch;
    struct batch batch;  // on the device; 15 % of the tokens are masked
    struct arena memory; // of the device
    float *pattern;      // in it, before the operands
};

// Call bench_operands_close even after a failure.
enum berth_status bench_operands_open(struct bench_operands *b, struct device *dev,
                                      const struct bench_geometry *geometry,
                                      struct berth_error *error);
void bench_operands_close(struct bench_operands *b);

// Whether the device has the operation.
int bench_operands_offer(const struct bench_operands *b, const struct op *op,
                         const struct op_use *use);
// Makes a call of the operation on random numbers; its operands are valid until the next one.
enum berth_status bench_operands_make(struct bench_operands *b, const struct op *op,
                                      const struct op_use *use, struct op_call *call,
                                      struct berth_error *error);

#endif
