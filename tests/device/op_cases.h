// SPDX-License-Identifier: Apache-2.0
// A table of operations. Each has a function that makes inputs, runs the operation on a device and
// compares the output with reference.c. There is one file of functions per family.
#ifndef BERTH_TESTS_DEVICE_OP_CASES_H
#define BERTH_TESTS_DEVICE_OP_CASES_H

#include "op_run.h"

struct op_case {
    const char *name;
    void (*run)(struct op_run *run);
    int drops;     // depends on the dropout
    int activates; // depends on the activation
};

extern const struct op_case op_cases[];
extern const int op_case_count;

// Fills run->batch from run->shape, calls the operation, frees everything.
void op_case_run(const struct op_case *op, struct op_run *run);

// op_norm.c
void op_embed_forward(struct op_run *run);
void op_embed_backward(struct op_run *run);
void op_norm_forward(struct op_run *run);
void op_norm_backward(struct op_run *run);
void op_norm_sum(struct op_run *run);
void op_norm_stream_backward(struct op_run *run);
// op_linear.c
void op_linear_forward(struct op_run *run);
void op_linear_gelu_forward(struct op_run *run);
void op_linear_backward_input(struct op_run *run);
void op_linear_gelu_backward(struct op_run *run);
void op_gelu_backward(struct op_run *run);
void op_linear_backward_weight(struct op_run *run);
// op_attention.c
void op_attention_forward(struct op_run *run);
void op_attention_backward(struct op_run *run);
// op_pool.c
void op_gather_rows(struct op_run *run);
void op_scatter_rows(struct op_run *run);
void op_scatter_add_rows(struct op_run *run);
void op_tanh_forward(struct op_run *run);
void op_tanh_backward(struct op_run *run);
// op_loss.c, op_optimizer.c
void op_span_loss(struct op_run *run);
void op_class_loss(struct op_run *run);
void op_sure_class_loss(struct op_run *run);
void op_squared_loss(struct op_run *run);
void op_sigmoid_loss(struct op_run *run);
void op_add_losses(struct op_run *run);
void op_squares(struct op_run *run);
void op_adamw(struct op_run *run);
void op_lamb(struct op_run *run);
void op_convert(struct op_run *run);

#endif
