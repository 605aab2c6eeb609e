// SPDX-License-Identifier: Apache-2.0
// The operations of bench/operations/op_table.h on a device: random operands, the results of a
// reference in double for the same numbers, and a comparison of both.
//
// Each operation also has a row here, with its reference, its tolerances, and the operation whose
// gradient it is.
#ifndef BERTH_TESTS_DEVICE_OP_CASES_H
#define BERTH_TESTS_DEVICE_OP_CASES_H

#include "bench/operations/op_call.h"
#include "op_run.h"

enum { OP_CASE_RANGES = 3 };
#define OP_EXACTLY 1e-300 // a tolerance

struct op_case {
    struct op_run *run;
    struct op_geometry geometry;
    struct device_range ranges[OP_CASE_RANGES];
    struct op_call call; // its operands are in host memory
    // The numbers of each operand without gaps; NULL for ranges and integers. Inputs are rounded as
    // the device sees them.
    double *x[OP_OPERANDS];
};

struct op_row {
    const char *name; // as in op_table
    // Writes to x what the operation should, slack rows included if they must be zeros.
    void (*reference)(struct op_case *c);
    // Changes operands to special cases; mode < `modes`. NULL: there are none.
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

// Makes one variant of the operation with random operands; call it after op_begin and op_batch. 0:
// the device has no such operation.
int op_case_make(struct op_case *c, struct op_run *run, const struct op *op,
                 const struct op_use *use, int variant);
// Copies x to the operands; outputs become NaN.
void op_case_store(struct op_case *c);
// Calls the operation on the device: reads x and writes its results to x.
void op_case_call(struct op_case *c);
// Fails the run unless the operands become what the reference computes from x.
void op_case_check(struct op_case *c, const struct op_row *row);

#endif
