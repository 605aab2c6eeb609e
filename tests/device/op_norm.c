// SPDX-License-Identifier: Apache-2.0
// Tests layer norm and embedding, forward and backward, against double loops.
#include "op_cases.h"
#include "reference.h"

struct norm_case {
    struct mat y, y_compute, xhat;
    float *rstd, *gamma, *beta;
    double *expected, *expected_xhat, *expected_rstd;
};

static struct norm_case norm_case_new(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct norm_case n = {.y = op_output(run, rows, hidden, DTYPE_F32)};
    if (run->compute != DTYPE_F32) {
        n.y_compute = op_output(run, rows, hidden, run->compute);
    }
    n.xhat = op_output(run, rows, hidden, run->compute);
    n.rstd = op_vector(run, rows, 0, 0);
    n.gamma = op_vector(run, hidden, 0.3, 1);
    n.beta = op_vector(run, hidden, 0.3, 0);
    n.expected = op_doubles(run, rows * hidden);
    n.expected_xhat = op_doubles(run, rows * hidden);
    n.expected_rstd = op_doubles(run, rows);
    return n;
}

static void norm_case_check(struct op_run *run, struct norm_case *n) {
    const int64_t tokens = run->batch.token_count;
    op_check(run, "y", n->y, n->expected, tokens, 4e-6);
    op_check_slack(run, "y", n->y, 0);
    if (run->compute != DTYPE_F32) {
        op_check(run, "y_compute", n->y_compute, n->expected, tokens, 5e-3);
        op_check_slack(run, "y_compute", n->y_compute, 0);
    }
    op_check(run, "xhat", n->xhat, n->expected_xhat, tokens, op_tolerance(run->compute));
    op_check_slack(run, "xhat", n->xhat, 0);
    op_check_vector(run, "rstd", n->rstd, n->expected_rstd, tokens, 4e-6);
}

static void reference_of(struct op_run *run, struct norm_case *n, const double *s) {
    const int64_t hidden = run->shape->hidden;
    reference_norm(n->expected, n->expected_xhat, n->expected_rstd, s,
                   op_dense_vector(run, n->gamma, hidden), op_dense_vector(run, n->beta, hidden),
                   1e-5, run->batch.row_count, hidden);
}

static struct norm_args norm_args_of(const struct norm_case *n, struct mat residual) {
    return (struct norm_args){.y = n->y,
                              .y_compute = n->y_compute,
                              .xhat = n->xhat,
                              .rstd = n->rstd,
                              .residual = residual,
                              .gamma = n->gamma,
                              .beta = n->beta,
                              .epsilon = 1e-5f};
}

void op_norm_forward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct norm_case n = norm_case_new(run);
    struct mat x = op_activation(run, hidden, run->compute, 2);
    struct norm_args args = norm_args_of(&n, op_activation(run, hidden, DTYPE_F32, 2));
    args.x = x;
    args.dropout = op_dropout(run, RNG_SITE_OUTPUT);
    double *s = op_dense(run, x), *more = op_dense(run, args.residual),
           *mask = op_doubles(run, rows * hidden);
    reference_mask(mask, hidden, &args.dropout, &run->batch);
    for (int64_t i = 0; i < rows * hidden; i++) {
        s[i] = s[i] * mask[i] + more[i];
    }
    reference_of(run, &n, s);
    run->dev->norm_forward(run->dev, &args, &run->batch);
    norm_case_check(run, &n);
}

// The operation also outputs the sum; normalising it separately gives the same bits.
void op_norm_sum(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct norm_case n = norm_case_new(run), again = norm_case_new(run);
    struct norm_args args = norm_args_of(&n, op_activation(run, hidden, DTYPE_F32, 2));
    args.x = op_activation(run, hidden, DTYPE_F32, 2);
    args.dropout = op_dropout(run, RNG_SITE_OUTPUT);
    args.sum = op_output(run, rows, hidden, DTYPE_F32);
    double *s = op_dense(run, args.x), *more = op_dense(run, args.residual),
           *mask = op_doubles(run, rows * hidden);
    reference_mask(mask, hidden, &args.dropout, &run->batch);
    for (int64_t i = 0; i < rows * hidden; i++) {
        s[i] = s[i] * mask[i] + more[i];
    }
    reference_of(run, &n, s);
    n.y = args.y = args.x; // shared
    run->dev->norm_forward(run->dev, &args, &run->batch);
    norm_case_check(run, &n);
    op_check(run, "sum", args.sum, s, run->batch.token_count, 1e-6);
    op_check_slack(run, "sum", args.sum, 0);
    struct norm_args alone = norm_args_of(&again, args.sum);
    alone.gamma = n.gamma;
    alone.beta = n.beta;
    run->dev->norm_forward(run->dev, &alone, &run->batch);
    op_check(run, "y of the sum", again.y, op_dense(run, n.y), rows, 0);
    op_check(run, "xhat of the sum", again.xhat, op_dense(run, n.xhat), rows, 0);
    op_check_vector(run, "rstd of the sum", again.rstd, op_dense_vector(run, n.rstd, rows), rows,
                    0);
}

enum { POSITIONS = 512, TYPES = 2 };

void op_embed_forward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct norm_case n = norm_case_new(run);
    struct mat word = op_input(run, OP_WORDS, hidden, DTYPE_F32, 1);
    struct mat position = op_input(run, POSITIONS, hidden, DTYPE_F32, 1);
    struct mat type = op_input(run, TYPES, hidden, DTYPE_F32, 1);
    const struct embed_args args = {n.y,
                                    n.y_compute,
                                    n.xhat,
                                    n.rstd,
                                    word,
                                    position,
                                    type,
                                    n.gamma,
                                    n.beta,
                                    1e-5f,
                                    op_dropout(run, RNG_SITE_EMBEDDING)};
    double *s = op_doubles(run, rows * hidden), *mask = op_doubles(run, rows * hidden);
    for (int64_t i = 0; i < rows * hidden; i++) {
        int64_t r = i / hidden, c = i % hidden;
        s[i] = op_number_at(word, run->batch.ids[r], c) +
               op_number_at(position, run->batch.positions[r], c) +
               op_number_at(type, run->batch.type_ids[r], c);
    }
    reference_of(run, &n, s);
    reference_mask(mask, hidden, &args.dropout, &run->batch);
    for (int64_t i = 0; i < rows * hidden; i++) {
        n.expected[i] *= mask[i];
    }
    run->dev->embed_forward(run->dev, &args, &run->batch);
    norm_case_check(run, &n);
}

void op_norm_backward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    const int64_t tokens = run->batch.token_count;
    struct mat dy = op_gradient(run, hidden, DTYPE_F32, 1);
    struct mat dy2 = op_gradient(run, hidden, run->compute, 1);
    struct mat xhat = op_activation(run, hidden, run->compute, 1.5);
    float *rstd = op_vector(run, rows, 0.5, 1), *gamma = op_vector(run, hidden, 0.5, 1);
    float *grads[3] = {op_vector(run, hidden, 1, 0), op_vector(run, hidden, 1, 0),
                       op_vector(run, hidden, 1, 0)};
    double *want[3];
    for (int i = 0; i < 3; i++) {
        want[i] = op_dense_vector(run, grads[i], hidden);
    }
    double *ds = op_doubles(run, rows * hidden), *mask = op_doubles(run, rows * hidden);
    double *sum = op_dense(run, dy), *more = op_dense(run, dy2);
    for (int64_t i = 0; i < rows * hidden; i++) {
        sum[i] += more[i];
    }
    const struct dropout dropout = op_dropout(run, RNG_SITE_ATTENTION_OUTPUT);
    reference_mask(mask, hidden, &dropout, &run->batch);
    reference_norm_grad(ds, want[0], want[1], sum, op_dense(run, xhat),
                        op_dense_vector(run, rstd, rows), op_dense_vector(run, gamma, hidden), rows,
                        hidden);
    double *dx_want = op_doubles(run, rows * hidden);
    for (int64_t i = 0; i < rows * hidden; i++) {
        dx_want[i] = ds[i] * mask[i];
        want[2][i % hidden] += dx_want[i];
    }
    struct mat dx = op_output(run, rows, hidden, run->compute); // dresidual shares dy's memory
    const struct norm_grad_args args = {.dresidual = dy,
                                        .dx = dx,
                                        .dbias = grads[2],
                                        .dy = dy,
                                        .dy2 = dy2,
                                        .xhat = xhat,
                                        .rstd = rstd,
                                        .gamma = gamma,
                                        .dgamma = grads[0],
                                        .dbeta = grads[1],
                                        .dropout = dropout};
    run->dev->norm_backward(run->dev, &args, &run->batch);
    op_check(run, "dresidual", dy, ds, tokens, 4e-6);
    op_check(run, "dx", dx, dx_want, tokens, op_tolerance(run->compute));
    op_check_slack(run, "dresidual", dy, 1);
    op_check_slack(run, "dx", dx, 1);
    op_check_vector(run, "dgamma", grads[0], want[0], hidden, 4e-6);
    op_check_vector(run, "dbeta", grads[1], want[1], hidden, 4e-6);
    op_check_vector(run, "dbias", grads[2], want[2], hidden, 4e-6);
}

// The sum is also read elsewhere, and the gradient from there is added; has_x: the sum includes a
// sub-layer.
static void check_stream_backward(struct op_run *run, int has_x) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    const int64_t tokens = run->batch.token_count;
    struct mat stream = op_gradient(run, hidden, DTYPE_F32, 1); // dresidual shares its memory
    struct norm_grad_args args = {.dresidual = stream,
                                  .dy = op_gradient(run, hidden, DTYPE_F32, 1),
                                  .xhat = op_activation(run, hidden, run->compute, 1.5),
                                  .rstd = op_vector(run, rows, 0.5, 1),
                                  .gamma = op_vector(run, hidden, 0.5, 1),
                                  .dgamma = op_vector(run, hidden, 1, 0),
                                  .dbeta = op_vector(run, hidden, 1, 0),
                                  .dsum = stream};
    double *dgamma = op_dense_vector(run, args.dgamma, hidden);
    double *dbeta = op_dense_vector(run, args.dbeta, hidden), *dbias = op_doubles(run, hidden);
    double *ds = op_doubles(run, rows * hidden), *mask = op_doubles(run, rows * hidden);
    double *more = op_dense(run, stream), *dx = op_doubles(run, rows * hidden);
    reference_norm_grad(ds, dgamma, dbeta, op_dense(run, args.dy), op_dense(run, args.xhat),
                        op_dense_vector(run, args.rstd, rows),
                        op_dense_vector(run, args.gamma, hidden), rows, hidden);
    if (has_x) {
        args.dx = op_output(run, rows, hidden, run->compute);
        args.dbias = op_vector(run, hidden, 0, 0);
        args.dropout = op_dropout(run, RNG_SITE_ATTENTION_OUTPUT);
    }
    reference_mask(mask, hidden, &args.dropout, &run->batch);
    for (int64_t i = 0; i < rows * hidden; i++) {
        ds[i] += more[i];
        dx[i] = ds[i] * mask[i];
        dbias[i % hidden] += dx[i];
    }
    run->dev->norm_backward(run->dev, &args, &run->batch);
    op_check(run, "dresidual", stream, ds, tokens, 4e-6);
    op_check_slack(run, "dresidual", stream, 1);
    op_check_vector(run, "dgamma", args.dgamma, dgamma, hidden, 4e-6);
    op_check_vector(run, "dbeta", args.dbeta, dbeta, hidden, 4e-6);
    if (has_x) {
        op_check(run, "dx", args.dx, dx, tokens, op_tolerance(run->compute));
        op_check_slack(run, "dx", args.dx, 1);
        op_check_vector(run, "dbias", args.dbias, dbias, hidden, 4e-6);
    }
}

void op_norm_stream_backward(struct op_run *run) {
    check_stream_backward(run, 1);
    check_stream_backward(run, 0);
}

static void add_rows(double *table, const double *ds, const int32_t *index, int64_t rows,
                     int64_t hidden) {
    for (int64_t i = 0; i < rows * hidden; i++) {
        table[index[i / hidden] * hidden + i % hidden] += ds[i];
    }
}

void op_embed_backward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    const int64_t tokens = run->batch.token_count;
    struct mat dy = op_gradient(run, hidden, DTYPE_F32, 1);
    struct mat dy2 = op_gradient(run, hidden, run->compute, 1);
    struct mat xhat = op_activation(run, hidden, run->compute, 1.5);
    float *rstd = op_vector(run, rows, 0.5, 1), *gamma = op_vector(run, hidden, 0.5, 1);
    float *dgamma = op_vector(run, hidden, 1, 0), *dbeta = op_vector(run, hidden, 1, 0);
    struct mat tables[3] = {op_input(run, OP_WORDS, hidden, DTYPE_F32, 1),
                            op_input(run, POSITIONS, hidden, DTYPE_F32, 1),
                            op_input(run, TYPES, hidden, DTYPE_F32, 1)};
    double *dgamma_want = op_dense_vector(run, dgamma, hidden);
    double *dbeta_want = op_dense_vector(run, dbeta, hidden), *tables_want[3];
    double *ds = op_doubles(run, rows * hidden), *mask = op_doubles(run, rows * hidden);
    double *sum = op_dense(run, dy), *more = op_dense(run, dy2);
    const struct dropout dropout = op_dropout(run, RNG_SITE_EMBEDDING);
    reference_mask(mask, hidden, &dropout, &run->batch);
    for (int64_t i = 0; i < rows * hidden; i++) {
        sum[i] = (sum[i] + more[i]) * mask[i];
    }
    reference_norm_grad(ds, dgamma_want, dbeta_want, sum, op_dense(run, xhat),
                        op_dense_vector(run, rstd, rows), op_dense_vector(run, gamma, hidden), rows,
                        hidden);
    const int32_t *index[3] = {run->batch.ids, run->batch.positions, run->batch.type_ids};
    for (int i = 0; i < 3; i++) {
        tables_want[i] = op_dense(run, tables[i]);
        add_rows(tables_want[i], ds, index[i], tokens, hidden);
    }
    const struct embed_grad_args args = {dy,        dy2,       xhat,   rstd,  gamma,   tables[0],
                                         tables[1], tables[2], dgamma, dbeta, dropout, dy};
    run->dev->embed_backward(run->dev, &args, &run->batch);
    op_check(run, "dword", tables[0], tables_want[0], OP_WORDS, 4e-6);
    op_check(run, "dposition", tables[1], tables_want[1], POSITIONS, 4e-6);
    op_check(run, "dtype", tables[2], tables_want[2], TYPES, 4e-6);
    op_check_vector(run, "dgamma", dgamma, dgamma_want, hidden, 4e-6);
    op_check_vector(run, "dbeta", dbeta, dbeta_want, hidden, 4e-6);
}
