// SPDX-License-Identifier: Apache-2.0
// Runs every operation, with all shapes, dtypes and variants, on a device and compares it with the
// references (op_rows.c) and with finite differences (op_gradients.h). Failures are printed and
// counted.
#ifndef BERTH_TESTS_DEVICE_OP_WALK_H
#define BERTH_TESTS_DEVICE_OP_WALK_H

#include "op_cases.h"

// One call of an operation.
struct variant {
    const struct op *op;
    const struct op_row *row;
    const struct op_use *use;
    int variant, mode;
};

typedef void each_function(struct op_run *run, const struct variant *variant, void *context);

// "Several tiles" has three tiles of columns in attention, and tiles of all three sizes in dw. The
// full block has neither slack nor a partial tile. The depth of the fifth shape is multiplied in
// several parts. Rows of the last shape end within a word of two bf16.
enum {
    SHAPE_ONE_BLOCK = 2,
    SHAPE_SEVERAL_TILES = 3,
    SHAPE_DEEP = 4,
    SHAPE_PACKED = 5,
    SHAPE_ODD = 6,
    SHAPES
};
extern const struct case_shape shapes[SHAPES];

// A batch for the run's shape.
void op_walk_begin(struct op_run *run);
// All variants of the shape's operations; all uses for the small shapes.
void op_walk(struct device *dev, const struct case_shape *shape, each_function *each,
             void *context);
// Prints a run's failure, if there is one; `context` points to the int that counts failures.
void op_walk_report(struct op_run *run, const struct variant *variant, void *context);
// The number of failures of one shape, or of all gradients. exact: only of the references.
int op_walk_failures(struct device *dev, const struct case_shape *shape);
int op_walk_gradients(struct device *dev, int exact);

#endif
