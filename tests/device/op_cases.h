// SPDX-License-Identifier: Apache-2.0
// The operations of train/bench/op_table.h on a device: operands of random numbers, what a
// reference in double makes of the same numbers, and the comparison of the two.
//
// Each operation has a row here too, with its reference, how near a device must come, and the
// operation whose gradient it is.
#ifndef BERTH_TESTS_DEVICE_OP_CASES_H
#define BERTH_TESTS_DEVICE_OP_CASES_H

#include "op_run.h"
#include "train/bench/op_call.h"

enum { OP_CASE_RANGES = 3 };
#define OP_EXACTLY 1e-300 // a tolerance

struct op_case {
    struct op_run *run;
    struct op_geometry geometry;
    struct device_range ranges[OP_CASE_RANGES];
    struct op_call call; // its operands are in host memory
    // The numbers of the operands without gaps, NULL for ranges and integers. Inputs are those that
    // the device sees.
    double *x[OP_OPERANDS];
};

struct op_row {
    const char *name; // as in op_table
    // Writes what the operation should into x, slack rows included where they are zeros.
    void (*reference)(struct op_case *c);
    // What ordinary numbers leave out; mode is below `modes`. NULL: nothing.
    void (*prepare)(struct op_case *c, int mode);
    int modes;           // 0: one
    double f32, half;    // tolerances, 0: the usual ones
    double f64;          //
    int rounds;          // f32 results are as far off as those in the compute dtype
    int drops;           // depends on the dropout
    int activates;       // depends on the activation
    const char *forward; // NULL: is no gradient
    // The gradient of the forward operation's first operand, where there is no input of its name.
    void (*upstream)(double *gradient, const struct op_case *backward);
};

extern const struct op_row op_rows[];
extern const int op_row_count;

const struct op *op_find(const char *name);
const struct op_row *op_row_find(const char *name);
int op_operand_find(const struct op *op, const char *name); // -1: none

// One variant of the operation with random operands, after op_begin and op_batch; 0: the device
// has no such operation.
int op_case_make(struct op_case *c, struct op_run *run, const struct op *op,
                 const struct op_use *use, int variant);
// From x to the operands; outputs become not-a-number.
void op_case_store(struct op_case *c);
// The operation on the device: from x to x.
void op_case_call(struct op_case *c);
// Complains where the operands are not what the reference makes of x.
void op_case_check(struct op_case *c, const struct op_row *row);

#endif
