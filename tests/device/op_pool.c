// SPDX-License-Identifier: Apache-2.0
// Tests the rows of first tokens and the pooler's tanh against plain loops. These operations
// support only f32, so the second dtype of the table selects results in the memory of an input.
#include "op_cases.h"
#include "reference.h"

enum { SLACK = 3 }; // rows after those of the sequences

static int64_t rows_of(const struct op_run *run) {
    return run->batch.sequence_count + SLACK;
}

static int in_place(const struct op_run *run) {
    return run->compute != DTYPE_F32;
}

// One row per sequence, with garbage after them.
static struct mat pooled_input(struct op_run *run, int64_t cols, double size) {
    struct mat m = op_input(run, rows_of(run), cols, DTYPE_F32, size);
    for (int64_t i = run->batch.sequence_count * cols; i < m.rows * cols; i++) {
        op_set_number(m, i / cols, i % cols, i % 2 ? 3000 : -20);
    }
    return m;
}

// The first tokens, the last sequence's first.
static int32_t *first_rows(struct op_run *run) {
    const int64_t count = run->batch.sequence_count;
    int32_t *rows = op_keep(run, (size_t)count * sizeof *rows);
    for (int64_t i = 0; i < count; i++) {
        rows[i] = run->batch.cu_seqlens[count - 1 - i];
    }
    return rows;
}

// The mask of the embedding's rows, of which the first tokens' are taken.
static double *first_mask(struct op_run *run, const struct dropout *dropout) {
    const int64_t hidden = run->shape->hidden;
    double *all = op_doubles(run, run->batch.row_count * hidden);
    double *mask = op_doubles(run, run->batch.sequence_count * hidden);
    reference_mask(all, hidden, dropout, &run->batch);
    for (int64_t i = 0; i < run->batch.sequence_count * hidden; i++) {
        mask[i] = all[run->batch.cu_seqlens[i / hidden] * hidden + i % hidden];
    }
    return mask;
}

void op_gather_rows(struct op_run *run) {
    const int64_t count = run->batch.sequence_count, hidden = run->shape->hidden;
    struct mat x = op_activation(run, hidden, DTYPE_F32, 2);
    struct mat y = op_output(run, rows_of(run), hidden, DTYPE_F32);
    const int32_t *rows = first_rows(run);
    double *want = op_doubles(run, count * hidden);
    for (int64_t i = 0; i < count * hidden; i++) {
        want[i] = op_number_at(x, rows[i / hidden], i % hidden);
    }
    run->dev->gather_rows(run->dev, y, x, rows, count);
    op_check(run, "y", y, want, count, 0);
    op_check_zeros(run, "y", y, count);
}

void op_scatter_rows(struct op_run *run) {
    const int64_t count = run->batch.sequence_count, hidden = run->shape->hidden;
    struct mat dy = pooled_input(run, hidden, 2);
    struct mat dx = op_output(run, run->batch.row_count, hidden, DTYPE_F32);
    const int32_t *rows = first_rows(run);
    double *want = op_doubles(run, dx.rows * hidden);
    for (int64_t i = 0; i < count * hidden; i++) {
        want[rows[i / hidden] * hidden + i % hidden] = op_number_at(dy, i / hidden, i % hidden);
    }
    run->dev->scatter_rows(run->dev, dx, dy, rows, count);
    op_check(run, "dx", dx, want, dx.rows, 0);
}

// Adds to the existing values.
void op_scatter_add_rows(struct op_run *run) {
    const int64_t count = run->batch.sequence_count, hidden = run->shape->hidden;
    struct mat dy = pooled_input(run, hidden, 2);
    struct mat dx = op_activation(run, hidden, DTYPE_F32, 2);
    const int32_t *rows = first_rows(run);
    double *want = op_dense(run, dx);
    for (int64_t i = 0; i < count * hidden; i++) {
        want[rows[i / hidden] * hidden + i % hidden] += op_number_at(dy, i / hidden, i % hidden);
    }
    run->dev->scatter_add_rows(run->dev, dx, dy, rows, count);
    op_check(run, "dx", dx, want, dx.rows, 4e-7);
}

void op_tanh_forward(struct op_run *run) {
    const int64_t count = run->batch.sequence_count, hidden = run->shape->hidden;
    const struct dropout dropout = op_dropout(run, RNG_SITE_HEAD);
    struct mat u = pooled_input(run, hidden, 4);
    struct mat t = in_place(run) ? u : op_output(run, rows_of(run), hidden, DTYPE_F32);
    struct mat y = op_output(run, rows_of(run), hidden, DTYPE_F32);
    double *y_want = op_doubles(run, count * hidden), *t_want = op_doubles(run, count * hidden);
    reference_tanh(y_want, t_want, op_dense(run, u), first_mask(run, &dropout), count * hidden);
    run->dev->tanh_forward(run->dev, y, t, u, dropout, &run->batch);
    op_check(run, "t", t, t_want, count, 4e-7);
    op_check(run, "y", y, y_want, count, 4e-7);
    op_check_zeros(run, "t", t, count);
    op_check_zeros(run, "y", y, count);
}

void op_tanh_backward(struct op_run *run) {
    const int64_t count = run->batch.sequence_count, hidden = run->shape->hidden;
    const struct dropout dropout = op_dropout(run, RNG_SITE_HEAD);
    struct mat dy = pooled_input(run, hidden, 2), t = pooled_input(run, hidden, 1);
    struct mat du = in_place(run) ? dy : op_output(run, rows_of(run), hidden, DTYPE_F32);
    double *want = op_doubles(run, count * hidden);
    reference_tanh_grad(want, op_dense(run, dy), op_dense(run, t), first_mask(run, &dropout),
                        count * hidden);
    run->dev->tanh_backward(run->dev, du, dy, t, dropout, &run->batch);
    op_check(run, "du", du, want, count, 4e-7);
    op_check_zeros(run, "du", du, count);
}
