// SPDX-License-Identifier: Apache-2.0
// Tests linear layers, with and without GELU, against double loops.
#include "op_cases.h"
#include "reference.h"
#include "reference_activations.h"

struct linear_case {
    int64_t rows, tokens, in, out;
    struct mat x, w;
    float *bias;
    double *want; // x w^T + bias
};

static struct linear_case linear_case_new(struct op_run *run, int64_t in, int64_t out) {
    struct linear_case l = {
        .rows = run->batch.row_count, .tokens = run->batch.token_count, .in = in, .out = out};
    l.x = op_activation(run, in, run->compute, 1);
    l.w = op_input(run, out, in, run->compute, 0.5);
    l.bias = op_vector(run, out, 1, 0);
    l.want = op_doubles(run, l.rows * out);
    reference_multiply(l.want, (struct reference_view){op_dense(run, l.x), in, 1},
                       (struct reference_view){op_dense(run, l.w), 1, in}, l.rows, out, in, 0);
    for (int64_t i = 0; i < l.rows * out; i++) {
        l.want[i] += (double)l.bias[i % out];
    }
    return l;
}

void op_linear_forward(struct op_run *run) {
    struct linear_case l = linear_case_new(run, run->shape->hidden, run->shape->intermediate);
    struct mat y = op_output(run, l.rows, l.out, run->compute);
    struct mat y32 = op_output(run, l.rows, 2, DTYPE_F32);
    run->dev->linear_forward(run->dev, y, l.x, l.w, l.bias);
    run->dev->linear_forward(run->dev, y32, l.x, mat_rows(l.w, 0, 2), NULL);
    double *want32 = op_doubles(run, l.rows * 2);
    for (int64_t i = 0; i < l.rows * 2; i++) {
        want32[i] = l.want[i / 2 * l.out + i % 2] - (double)l.bias[i % 2];
    }
    op_check(run, "y", y, l.want, l.tokens, op_tolerance(run->compute));
    op_check(run, "y f32", y32, want32, l.tokens, 4e-6);
    op_check_slack(run, "y", y, 0);
}

void op_linear_gelu_forward(struct op_run *run) {
    struct linear_case l = linear_case_new(run, run->shape->hidden, run->shape->intermediate);
    struct mat y = op_output(run, l.rows, l.out, run->compute);
    struct mat u = op_output(run, l.rows, l.out, run->compute), none = {0};
    run->dev->linear_gelu_forward(run->dev, y, u, l.x, l.w, l.bias, run->activation);
    op_check(run, "u", u, l.want, l.tokens, op_tolerance(run->compute));
    for (int64_t i = 0; i < l.rows * l.out; i++) {
        l.want[i] = reference_activation(l.want[i], run->activation);
    }
    op_check(run, "y", y, l.want, l.tokens, 1.5 * op_tolerance(run->compute));
    op_check_slack(run, "y", y, 0);
    struct mat y2 = op_output(run, l.rows, l.out, run->compute);
    run->dev->linear_gelu_forward(run->dev, y2, none, l.x, l.w, l.bias, run->activation);
    op_check(run, "y without u", y2, l.want, l.tokens, 1.5 * op_tolerance(run->compute));
}

void op_linear_backward_input(struct op_run *run) {
    const int64_t out = run->shape->intermediate, in = run->shape->hidden;
    const int64_t rows = run->batch.row_count;
    struct mat dy = op_gradient(run, out, run->compute, 1);
    struct mat w = op_input(run, out, in, run->compute, 0.5);
    struct mat dx = op_output(run, rows, in, run->compute),
               dx32 = op_output(run, rows, in, DTYPE_F32);
    double *want = op_doubles(run, rows * in);
    reference_multiply(want, (struct reference_view){op_dense(run, dy), out, 1},
                       (struct reference_view){op_dense(run, w), in, 1}, rows, in, out, 0);
    run->dev->linear_backward_input(run->dev, dx, dy, w);
    run->dev->linear_backward_input(run->dev, dx32, dy, w);
    op_check(run, "dx", dx, want, run->batch.token_count, op_tolerance(run->compute));
    op_check(run, "dx f32", dx32, want, run->batch.token_count, 4e-6);
    op_check_slack(run, "dx", dx, 1);
    op_check_slack(run, "dx f32", dx32, 1);
}

void op_linear_gelu_backward(struct op_run *run) {
    const int64_t wide = run->shape->intermediate, hidden = run->shape->hidden;
    const int64_t rows = run->batch.row_count;
    struct mat dy = op_gradient(run, hidden, run->compute, 1);
    struct mat w = op_input(run, hidden, wide, run->compute, 0.5);
    struct mat u = op_activation(run, wide, run->compute, 4);
    struct mat du = op_output(run, rows, wide, run->compute);
    float *dbias = op_vector(run, wide, 1, 0);
    double *want = op_doubles(run, rows * wide), *dbias_want = op_dense_vector(run, dbias, wide);
    reference_multiply(want, (struct reference_view){op_dense(run, dy), hidden, 1},
                       (struct reference_view){op_dense(run, w), wide, 1}, rows, wide, hidden, 0);
    for (int64_t i = 0; i < rows * wide; i++) {
        want[i] *= reference_activation_slope(op_number_at(u, i / wide, i % wide), run->activation);
        dbias_want[i % wide] += want[i];
    }
    run->dev->linear_gelu_backward(run->dev, du, dbias, dy, w, u, run->activation);
    op_check(run, "du", du, want, run->batch.token_count, 1.5 * op_tolerance(run->compute));
    op_check_slack(run, "du", du, 1);
    op_check_vector(run, "dbias", dbias, dbias_want, wide, op_tolerance(run->compute));
}

void op_linear_backward_weight(struct op_run *run) {
    const int64_t out = 3 * run->shape->hidden, in = run->shape->intermediate;
    const int64_t rows = run->batch.row_count;
    struct mat dy = op_gradient(run, out, run->compute, 1);
    struct mat x = op_activation(run, in, run->compute, 1);
    struct mat dw = op_input(run, out, in, DTYPE_F32, 1);
    float *dbias = op_vector(run, out, 1, 0);
    double *want = op_dense(run, dw), *dbias_want = op_dense_vector(run, dbias, out);
    reference_multiply(want, (struct reference_view){op_dense(run, dy), 1, out},
                       (struct reference_view){op_dense(run, x), in, 1}, out, in, rows, 1);
    for (int64_t i = 0; i < rows * out; i++) {
        dbias_want[i % out] += op_number_at(dy, i / out, i % out);
    }
    run->dev->linear_backward_weight(run->dev, dw, dbias, dy, x);
    op_check(run, "dw", dw, want, out, 4e-6);
    op_check_vector(run, "dbias", dbias, dbias_want, out, 4e-6);
}

void op_gelu_backward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, wide = run->shape->intermediate;
    struct mat du = op_input(run, rows, wide, DTYPE_F32, 2);
    struct mat u = op_input(run, rows, wide, DTYPE_F32, 4);
    float *dbias = op_vector(run, wide, 1, 0);
    double *want = op_dense(run, du), *sums = op_dense_vector(run, dbias, wide);
    for (int64_t i = 0; i < rows * wide; i++) {
        want[i] *= reference_activation_slope(op_number_at(u, i / wide, i % wide), run->activation);
        sums[i % wide] += want[i];
    }
    run->dev->gelu_backward(run->dev, du, dbias, u, run->activation);
    op_check(run, "du", du, want, rows, op_tolerance(DTYPE_F32));
    op_check_vector(run, "dbias", dbias, sums, wide, 2e-6);
}
