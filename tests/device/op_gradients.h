// SPDX-License-Identifier: Apache-2.0
// Checks gradients by finite differences: for random weights w of the outputs of a forward
// operation f, d(sum w * f(x)) / dx is compared, number by number, with what the backward operation
// computes from w. Names say which operand is the gradient of which (op_table.h).
#ifndef BERTH_TESTS_DEVICE_OP_GRADIENTS_H
#define BERTH_TESTS_DEVICE_OP_GRADIENTS_H

#include "op_cases.h"

struct op_gradient {
    const struct op_row *row; // with `forward`
    const struct op_use *use;
    int variant;
    int exact; // the references in double, else the device
};

// Uses the device, shape, dtype (f32), dropout and activation of the run, which records a failure.
void op_gradient_check(struct op_run *run, const struct op_gradient *gradient);

#endif
