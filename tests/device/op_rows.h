// SPDX-License-Identifier: Apache-2.0
// References compute the operations in double on the numbers of a case: x[i] is operand i of
// op_table. This is what they share, and those that the table of op_rows.c takes from other files.
#ifndef BERTH_TESTS_DEVICE_OP_ROWS_H
#define BERTH_TESTS_DEVICE_OP_ROWS_H

#include "op_cases.h"

#define SIZE(name) (c->call.sizes[OP_##name]) // of the case c

static inline const void *data_of(const struct op_case *c, int operand) {
    return c->call.operands[operand].data;
}

// --- op_losses.c --------------------------------------------------------------------------------

void op_span_loss(struct op_case *c);
void op_class_loss(struct op_case *c);
void op_weighted_loss(struct op_case *c);
void op_squared_loss(struct op_case *c);
void op_sigmoid_loss(struct op_case *c);
void op_pool_forward(struct op_case *c);
void op_pool_backward(struct op_case *c);
void op_normalize_forward(struct op_case *c);
void op_normalize_backward(struct op_case *c);
void op_similarity_loss(struct op_case *c);
void op_add_losses(struct op_case *c);

void op_prepare_classes(struct op_case *c, int mode);
void op_prepare_weighted(struct op_case *c, int mode);
void op_prepare_targets(struct op_case *c, int mode);
void op_prepare_lengths(struct op_case *c, int mode);
void op_prepare_triplets(struct op_case *c, int mode);

// --- op_updates.c -------------------------------------------------------------------------------

void op_squares(struct op_case *c);
void op_norms(struct op_case *c);
void op_adamw(struct op_case *c);
void op_lamb_moments(struct op_case *c);
void op_lamb_apply(struct op_case *c);
void op_add(struct op_case *c);
void op_convert(struct op_case *c);
void op_checksums(struct op_case *c);

// The modes of op_prepare_adamw and op_prepare_lamb_apply.
enum adamw_mode { DECOUPLED, L2, SKIP, EXACT, ADAMW_MODES };
enum lamb_mode { FREE, AT_MOST, AT_LEAST, ZERO_PARAMETERS, SKIPPED, LAMB_MODES };

void op_prepare_infinity(struct op_case *c, int mode);
void op_prepare_adamw(struct op_case *c, int mode);
void op_prepare_lamb_moments(struct op_case *c, int mode);
void op_prepare_lamb_apply(struct op_case *c, int mode);

#endif
