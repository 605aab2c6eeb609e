// SPDX-License-Identifier: Apache-2.0
// Gradients by finite differences: for a random weighting w of what a forward operation f writes,
// d(sum w * f(x)) / dx is compared with what the operation of its gradient makes of w, number by
// number. Which operand is the gradient of which follows from their names (op_table.h).
#ifndef BERTH_TESTS_DEVICE_OP_GRADIENTS_H
#define BERTH_TESTS_DEVICE_OP_GRADIENTS_H

#include "op_cases.h"

struct op_gradient {
    const struct op_row *row; // with `forward`
    const struct op_use *use;
    int variant;
    int exact; // the references in double, else the device
};

// The device, shape, dtype (f32), dropout and activation are those of the run, which gets a
// complaint.
void op_gradient_check(struct op_run *run, const struct op_gradient *gradient);

#endif
