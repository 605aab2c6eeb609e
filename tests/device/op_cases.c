// SPDX-License-Identifier: Apache-2.0
#include "op_cases.h"

const struct op_case op_cases[] = {
    {"embed_forward", op_embed_forward, 1, 0},
    {"embed_backward", op_embed_backward, 1, 0},
    {"norm_forward", op_norm_forward, 1, 0},
    {"norm_backward", op_norm_backward, 1, 0},
    {"norm_sum", op_norm_sum, 1, 0},
    {"norm_stream_backward", op_norm_stream_backward, 1, 0},
    {"linear_forward", op_linear_forward, 0, 0},
    {"linear_gelu_forward", op_linear_gelu_forward, 0, 1},
    {"linear_backward_input", op_linear_backward_input, 0, 0},
    {"linear_gelu_backward", op_linear_gelu_backward, 0, 1},
    {"linear_backward_weight", op_linear_backward_weight, 0, 0},
    {"attention_forward", op_attention_forward, 1, 0},
    {"attention_backward", op_attention_backward, 1, 0},
    {"gather_rows", op_gather_rows, 0, 0},
    {"scatter_rows", op_scatter_rows, 0, 0},
    {"scatter_add_rows", op_scatter_add_rows, 0, 0},
    {"gelu_backward", op_gelu_backward, 0, 1},
    {"tanh_forward", op_tanh_forward, 1, 0},
    {"tanh_backward", op_tanh_backward, 1, 0},
    {"span_loss", op_span_loss, 0, 0},
    {"class_loss", op_class_loss, 0, 0},
    {"sure class_loss", op_sure_class_loss, 0, 0},
    {"squared_loss", op_squared_loss, 0, 0},
    {"sigmoid_loss", op_sigmoid_loss, 0, 0},
    {"add_losses", op_add_losses, 0, 0},
    {"squares", op_squares, 0, 0},
    {"adamw", op_adamw, 0, 0},
    {"lamb", op_lamb, 0, 0},
    {"add", op_add, 0, 0},
    {"convert", op_convert, 0, 0},
};
const int op_case_count = sizeof op_cases / sizeof *op_cases;

void op_case_run(const struct op_case *op, struct op_run *run) {
    int count = 0;
    while (count < SEQUENCES_MAX && run->shape->lengths[count] > 0) {
        count++;
    }
    op_begin(run);
    op_batch(run, run->shape->lengths, count);
    op->run(run);
    op_end(run);
}
