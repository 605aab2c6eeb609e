// SPDX-License-Identifier: Apache-2.0
// One table of operations, each with a function that makes inputs, runs the operation on a device
// and compares what comes out with reference.c.
#ifndef BERTH_TESTS_CPU_OP_CASES_H
#define BERTH_TESTS_CPU_OP_CASES_H

#include "core/device.h"

#define SEQUENCES_MAX 6

struct case_shape {
    const char *name;
    int32_t lengths[SEQUENCES_MAX]; // ends at 0
    int64_t hidden, heads, intermediate;
};

struct op_run {
    // given
    struct device *dev;
    const struct case_shape *shape;
    enum dtype compute;
    uint32_t threshold; // of dropout
    enum activation activation;
    // found
    uint64_t hash;       // of all bits that the operation wrote
    char complaint[200]; // "" when everything is right
    // during the run
    struct batch batch;
    uint64_t drawn;
    void *blocks[128];
    int block_count;
};

struct op_case {
    const char *name;
    void (*run)(struct op_run *run);
    int drops;     // depends on the dropout
    int activates; // depends on the activation
};

extern const struct op_case op_cases[];
extern const int op_case_count;

// Fills run->batch, calls the operation, frees everything.
void op_case_run(const struct op_case *op, struct op_run *run);

#endif
