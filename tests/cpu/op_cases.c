// SPDX-License-Identifier: Apache-2.0
#include "op_cases.h"

#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- inputs and outputs -------------------------------------------------------------------------

enum { GAP = 5, SENTINEL = 0x5A }; // columns between the rows of every matrix, and their bytes

static void *keep(struct op_run *run, size_t bytes) {
    void *block = calloc(1, bytes + 64);
    if (block == NULL || run->block_count == 128) {
        abort();
    }
    run->blocks[run->block_count++] = block;
    return block;
}

static double uniform(struct op_run *run) {
    return (double)rng_draw(11, 2, &run->drawn) / 2147483648.0 - 1.0;
}

static double number_at(struct mat m, int64_t row, int64_t col) {
    if (m.dtype == DTYPE_F32) {
        return (double)((const float *)m.data)[row * m.stride + col];
    }
    uint32_t bits = (uint32_t)((const uint16_t *)m.data)[row * m.stride + col] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static void set_number(struct mat m, int64_t row, int64_t col, double value) {
    float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (m.dtype == DTYPE_F32) {
        ((float *)m.data)[row * m.stride + col] = x;
    } else { // round to nearest, ties to even
        ((uint16_t *)m.data)[row * m.stride + col] =
            (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
}

static struct mat new_mat(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype) {
    size_t bytes = (size_t)(rows * (cols + GAP)) * dtype_size(dtype);
    struct mat m = {keep(run, bytes), rows, cols, cols + GAP, dtype};
    memset(m.data, SENTINEL, bytes);
    return m;
}

// What the operation must write entirely: not-a-number before.
static struct mat output(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype) {
    struct mat m = new_mat(run, rows, cols, dtype);
    for (int64_t i = 0; i < rows * cols; i++) {
        memset((char *)m.data + (size_t)(i / cols * m.stride + i % cols) * dtype_size(dtype), 0xFF,
               dtype_size(dtype));
    }
    return m;
}

static struct mat input(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype,
                        double size) {
    struct mat m = new_mat(run, rows, cols, dtype);
    for (int64_t i = 0; i < rows * cols; i++) {
        set_number(m, i / cols, i % cols, size * uniform(run));
    }
    return m;
}

// An activation: rows of the batch; garbage in the slack.
static struct mat activation_input(struct op_run *run, int64_t cols, enum dtype dtype,
                                   double size) {
    struct mat m = input(run, run->batch.row_count, cols, dtype, size);
    for (int64_t r = run->batch.token_count; r < m.rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            set_number(m, r, c, c % 2 ? 3000 : -20);
        }
    }
    return m;
}

// A gradient of an activation: zero in the slack.
static struct mat gradient_input(struct op_run *run, int64_t cols, enum dtype dtype, double size) {
    struct mat m = input(run, run->batch.row_count, cols, dtype, size);
    for (int64_t r = run->batch.token_count; r < m.rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            set_number(m, r, c, 0);
        }
    }
    return m;
}

static float *vector(struct op_run *run, int64_t count, double size, double shift) {
    float *x = keep(run, (size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(shift + size * uniform(run));
    }
    return x;
}

static double *doubles(struct op_run *run, int64_t count) {
    return keep(run, (size_t)count * sizeof(double));
}

static double *dense(struct op_run *run, struct mat m) {
    double *x = doubles(run, m.rows * m.cols);
    for (int64_t i = 0; i < m.rows * m.cols; i++) {
        x[i] = number_at(m, i / m.cols, i % m.cols);
    }
    return x;
}

static double *dense_vector(struct op_run *run, const float *from, int64_t count) {
    return dense(run, mat_of((void *)(uintptr_t)from, 1, count, DTYPE_F32));
}

static struct dropout dropout_of(struct op_run *run, enum rng_site site) {
    return (struct dropout){0x123456789ABCDEFu, 17, 3, site, run->threshold};
}

// --- verdicts -----------------------------------------------------------------------------------

static void complain(struct op_run *run, const char *what, const char *why, double found) {
    if (run->complaint[0] == '\0') {
        snprintf(run->complaint, sizeof run->complaint, "%s: %s %.4g", what, why, found);
    }
}

static void hash_bytes(struct op_run *run, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        run->hash = (run->hash ^ ((const unsigned char *)data)[i]) * 0x100000001B3u;
    }
}

static void check_gaps(struct op_run *run, const char *what, struct mat m) {
    for (int64_t r = 0; r + 1 < m.rows; r++) {
        const unsigned char *gap =
            (const unsigned char *)m.data + (size_t)(r * m.stride + m.cols) * dtype_size(m.dtype);
        for (size_t i = 0; i < (size_t)(m.stride - m.cols) * dtype_size(m.dtype); i++) {
            if (gap[i] != SENTINEL) {
                complain(run, what, "wrote past the end of row", (double)r);
                return;
            }
        }
    }
}

// Relative L2 distance of the first `rows` rows from `expected` must be at most `tolerance`, and
// the largest difference at most 8 times that of the largest number.
static void check(struct op_run *run, const char *what, struct mat m, const double *expected,
                  int64_t rows, double tolerance) {
    double distance = 0, norm = 1e-30, worst = 0, most = 1e-30;
    for (int64_t i = 0; i < rows * m.cols; i++) {
        double e = expected[i], d = number_at(m, i / m.cols, i % m.cols) - e;
        distance += d * d;
        norm += e * e;
        worst = fabs(d) > worst ? fabs(d) : worst;
        most = fabs(e) > most ? fabs(e) : most;
    }
    if (!(sqrt(distance / norm) <= tolerance)) {
        complain(run, what, "relative L2 error", sqrt(distance / norm));
    }
    if (!(worst <= 8 * tolerance * most)) {
        complain(run, what, "largest error over largest number", worst / most);
    }
    check_gaps(run, what, m);
    for (int64_t r = 0; r < rows; r++) {
        struct mat row = mat_rows(m, r, 1);
        hash_bytes(run, row.data, (size_t)m.cols * dtype_size(m.dtype));
    }
}

static void check_vector(struct op_run *run, const char *what, const float *x,
                         const double *expected, int64_t count, double tolerance) {
    check(run, what, mat_of((void *)(uintptr_t)x, 1, count, DTYPE_F32), expected, 1, tolerance);
}

static void check_slack(struct op_run *run, const char *what, struct mat m, int zero) {
    for (int64_t r = run->batch.token_count; r < m.rows; r++) {
        for (int64_t c = 0; c < m.cols; c++) {
            double x = number_at(m, r, c);
            if (zero ? x != 0 : !isfinite(x)) {
                complain(run, what, zero ? "slack row holds" : "slack row is not finite:", x);
                return;
            }
        }
    }
}

static double tolerance_of(enum dtype dtype) {
    return dtype == DTYPE_F32 ? 4e-6 : 5e-3;
}

// --- norm and embedding -------------------------------------------------------------------------

struct norm_case {
    struct mat y, y_compute, xhat;
    float *rstd, *gamma, *beta;
    double *expected, *expected_xhat, *expected_rstd;
};

static struct norm_case norm_case_new(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct norm_case n = {.y = output(run, rows, hidden, DTYPE_F32)};
    if (run->compute != DTYPE_F32) {
        n.y_compute = output(run, rows, hidden, run->compute);
    }
    n.xhat = output(run, rows, hidden, run->compute);
    n.rstd = vector(run, rows, 0, 0);
    n.gamma = vector(run, hidden, 0.3, 1);
    n.beta = vector(run, hidden, 0.3, 0);
    n.expected = doubles(run, rows * hidden);
    n.expected_xhat = doubles(run, rows * hidden);
    n.expected_rstd = doubles(run, rows);
    return n;
}

static void norm_case_check(struct op_run *run, struct norm_case *n) {
    const int64_t tokens = run->batch.token_count;
    check(run, "y", n->y, n->expected, tokens, 4e-6);
    check_slack(run, "y", n->y, 0);
    if (run->compute != DTYPE_F32) {
        check(run, "y_compute", n->y_compute, n->expected, tokens, 5e-3);
        check_slack(run, "y_compute", n->y_compute, 0);
    }
    check(run, "xhat", n->xhat, n->expected_xhat, tokens, tolerance_of(run->compute));
    check_slack(run, "xhat", n->xhat, 0);
    check_vector(run, "rstd", n->rstd, n->expected_rstd, tokens, 4e-6);
}

static void reference_of(struct op_run *run, struct norm_case *n, const double *s) {
    const int64_t hidden = run->shape->hidden;
    reference_norm(n->expected, n->expected_xhat, n->expected_rstd, s,
                   dense_vector(run, n->gamma, hidden), dense_vector(run, n->beta, hidden), 1e-5,
                   run->batch.row_count, hidden);
}

static void run_norm_forward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct norm_case n = norm_case_new(run);
    struct mat x = activation_input(run, hidden, run->compute, 2);
    struct mat residual = activation_input(run, hidden, DTYPE_F32, 2);
    const struct norm_args args = {
        n.y,      n.y_compute, n.xhat, n.rstd, x,
        residual, n.gamma,     n.beta, 1e-5f,  dropout_of(run, RNG_SITE_OUTPUT)};
    double *s = dense(run, x), *more = dense(run, residual), *mask = doubles(run, rows * hidden);
    reference_mask(mask, hidden, &args.dropout, &run->batch);
    for (int64_t i = 0; i < rows * hidden; i++) {
        s[i] = s[i] * mask[i] + more[i];
    }
    reference_of(run, &n, s);
    run->dev->norm_forward(run->dev, &args, &run->batch);
    norm_case_check(run, &n);
}

enum { WORDS = 50, POSITIONS = 512, TYPES = 2 };

static void run_embed_forward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct norm_case n = norm_case_new(run);
    struct mat word = input(run, WORDS, hidden, DTYPE_F32, 1);
    struct mat position = input(run, POSITIONS, hidden, DTYPE_F32, 1);
    struct mat type = input(run, TYPES, hidden, DTYPE_F32, 1);
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
                                    dropout_of(run, RNG_SITE_EMBEDDING)};
    double *s = doubles(run, rows * hidden), *mask = doubles(run, rows * hidden);
    for (int64_t i = 0; i < rows * hidden; i++) {
        int64_t r = i / hidden, c = i % hidden;
        s[i] = number_at(word, run->batch.ids[r], c) +
               number_at(position, run->batch.positions[r], c) +
               number_at(type, run->batch.type_ids[r], c);
    }
    reference_of(run, &n, s);
    reference_mask(mask, hidden, &args.dropout, &run->batch);
    for (int64_t i = 0; i < rows * hidden; i++) {
        n.expected[i] *= mask[i];
    }
    run->dev->embed_forward(run->dev, &args, &run->batch);
    norm_case_check(run, &n);
}

static void run_norm_backward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    const int64_t tokens = run->batch.token_count;
    struct mat dy = gradient_input(run, hidden, DTYPE_F32, 1);
    struct mat dy2 = gradient_input(run, hidden, run->compute, 1);
    struct mat xhat = activation_input(run, hidden, run->compute, 1.5);
    float *rstd = vector(run, rows, 0.5, 1), *gamma = vector(run, hidden, 0.5, 1);
    float *grads[3] = {vector(run, hidden, 1, 0), vector(run, hidden, 1, 0),
                       vector(run, hidden, 1, 0)};
    double *want[3];
    for (int i = 0; i < 3; i++) {
        want[i] = dense_vector(run, grads[i], hidden);
    }
    double *ds = doubles(run, rows * hidden), *mask = doubles(run, rows * hidden);
    double *sum = dense(run, dy), *more = dense(run, dy2);
    for (int64_t i = 0; i < rows * hidden; i++) {
        sum[i] += more[i];
    }
    const struct dropout dropout = dropout_of(run, RNG_SITE_ATTENTION_OUTPUT);
    reference_mask(mask, hidden, &dropout, &run->batch);
    reference_norm_grad(ds, want[0], want[1], sum, dense(run, xhat), dense_vector(run, rstd, rows),
                        dense_vector(run, gamma, hidden), rows, hidden);
    double *dx_want = doubles(run, rows * hidden);
    for (int64_t i = 0; i < rows * hidden; i++) {
        dx_want[i] = ds[i] * mask[i];
        want[2][i % hidden] += dx_want[i];
    }
    struct mat dx = output(run, rows, hidden, run->compute); // dresidual shares dy's memory
    const struct norm_grad_args args = {dy,   dx,    grads[2], dy,       dy2,    xhat,
                                        rstd, gamma, grads[0], grads[1], dropout};
    run->dev->norm_backward(run->dev, &args, &run->batch);
    check(run, "dresidual", dy, ds, tokens, 4e-6);
    check(run, "dx", dx, dx_want, tokens, tolerance_of(run->compute));
    check_slack(run, "dresidual", dy, 1);
    check_slack(run, "dx", dx, 1);
    check_vector(run, "dgamma", grads[0], want[0], hidden, 4e-6);
    check_vector(run, "dbeta", grads[1], want[1], hidden, 4e-6);
    check_vector(run, "dbias", grads[2], want[2], hidden, 4e-6);
}

static void add_rows(double *table, const double *ds, const int32_t *index, int64_t rows,
                     int64_t hidden) {
    for (int64_t i = 0; i < rows * hidden; i++) {
        table[index[i / hidden] * hidden + i % hidden] += ds[i];
    }
}

static void run_embed_backward(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    const int64_t tokens = run->batch.token_count;
    struct mat dy = gradient_input(run, hidden, DTYPE_F32, 1);
    struct mat dy2 = gradient_input(run, hidden, run->compute, 1);
    struct mat xhat = activation_input(run, hidden, run->compute, 1.5);
    float *rstd = vector(run, rows, 0.5, 1), *gamma = vector(run, hidden, 0.5, 1);
    float *dgamma = vector(run, hidden, 1, 0), *dbeta = vector(run, hidden, 1, 0);
    struct mat tables[3] = {input(run, WORDS, hidden, DTYPE_F32, 1),
                            input(run, POSITIONS, hidden, DTYPE_F32, 1),
                            input(run, TYPES, hidden, DTYPE_F32, 1)};
    double *dgamma_want = dense_vector(run, dgamma, hidden);
    double *dbeta_want = dense_vector(run, dbeta, hidden), *tables_want[3];
    double *ds = doubles(run, rows * hidden), *mask = doubles(run, rows * hidden);
    double *sum = dense(run, dy), *more = dense(run, dy2);
    const struct dropout dropout = dropout_of(run, RNG_SITE_EMBEDDING);
    reference_mask(mask, hidden, &dropout, &run->batch);
    for (int64_t i = 0; i < rows * hidden; i++) {
        sum[i] = (sum[i] + more[i]) * mask[i];
    }
    reference_norm_grad(ds, dgamma_want, dbeta_want, sum, dense(run, xhat),
                        dense_vector(run, rstd, rows), dense_vector(run, gamma, hidden), rows,
                        hidden);
    const int32_t *index[3] = {run->batch.ids, run->batch.positions, run->batch.type_ids};
    for (int i = 0; i < 3; i++) {
        tables_want[i] = dense(run, tables[i]);
        add_rows(tables_want[i], ds, index[i], tokens, hidden);
    }
    const struct embed_grad_args args = {dy,        dy2,       xhat,   rstd,  gamma,   tables[0],
                                         tables[1], tables[2], dgamma, dbeta, dropout, dy};
    run->dev->embed_backward(run->dev, &args, &run->batch);
    check(run, "dword", tables[0], tables_want[0], WORDS, 4e-6);
    check(run, "dposition", tables[1], tables_want[1], POSITIONS, 4e-6);
    check(run, "dtype", tables[2], tables_want[2], TYPES, 4e-6);
    check_vector(run, "dgamma", dgamma, dgamma_want, hidden, 4e-6);
    check_vector(run, "dbeta", dbeta, dbeta_want, hidden, 4e-6);
}

// --- linear layers ------------------------------------------------------------------------------

struct linear_case {
    int64_t rows, tokens, in, out;
    struct mat x, w;
    float *bias;
    double *want; // x w^T + bias
};

static struct linear_case linear_case_new(struct op_run *run, int64_t in, int64_t out) {
    struct linear_case l = {
        .rows = run->batch.row_count, .tokens = run->batch.token_count, .in = in, .out = out};
    l.x = activation_input(run, in, run->compute, 1);
    l.w = input(run, out, in, run->compute, 0.5);
    l.bias = vector(run, out, 1, 0);
    l.want = doubles(run, l.rows * out);
    reference_multiply(l.want, (struct reference_view){dense(run, l.x), in, 1},
                       (struct reference_view){dense(run, l.w), 1, in}, l.rows, out, in, 0);
    for (int64_t i = 0; i < l.rows * out; i++) {
        l.want[i] += (double)l.bias[i % out];
    }
    return l;
}

static void run_linear_forward(struct op_run *run) {
    struct linear_case l = linear_case_new(run, run->shape->hidden, run->shape->intermediate);
    struct mat y = output(run, l.rows, l.out, run->compute);
    struct mat y32 = output(run, l.rows, 2, DTYPE_F32);
    run->dev->linear_forward(run->dev, y, l.x, l.w, l.bias);
    run->dev->linear_forward(run->dev, y32, l.x, mat_rows(l.w, 0, 2), NULL);
    double *want32 = doubles(run, l.rows * 2);
    for (int64_t i = 0; i < l.rows * 2; i++) {
        want32[i] = l.want[i / 2 * l.out + i % 2] - (double)l.bias[i % 2];
    }
    check(run, "y", y, l.want, l.tokens, tolerance_of(run->compute));
    check(run, "y f32", y32, want32, l.tokens, 4e-6);
    check_slack(run, "y", y, 0);
}

static void run_linear_gelu_forward(struct op_run *run) {
    struct linear_case l = linear_case_new(run, run->shape->hidden, run->shape->intermediate);
    struct mat y = output(run, l.rows, l.out, run->compute);
    struct mat u = output(run, l.rows, l.out, run->compute), none = {0};
    run->dev->linear_gelu_forward(run->dev, y, u, l.x, l.w, l.bias, run->activation);
    check(run, "u", u, l.want, l.tokens, tolerance_of(run->compute));
    for (int64_t i = 0; i < l.rows * l.out; i++) {
        l.want[i] = reference_gelu(l.want[i], run->activation);
    }
    check(run, "y", y, l.want, l.tokens, 1.5 * tolerance_of(run->compute));
    check_slack(run, "y", y, 0);
    struct mat y2 = output(run, l.rows, l.out, run->compute);
    run->dev->linear_gelu_forward(run->dev, y2, none, l.x, l.w, l.bias, run->activation);
    check(run, "y without u", y2, l.want, l.tokens, 1.5 * tolerance_of(run->compute));
}

static void run_linear_backward_input(struct op_run *run) {
    const int64_t out = run->shape->intermediate, in = run->shape->hidden;
    const int64_t rows = run->batch.row_count;
    struct mat dy = gradient_input(run, out, run->compute, 1);
    struct mat w = input(run, out, in, run->compute, 0.5);
    struct mat dx = output(run, rows, in, run->compute), dx32 = output(run, rows, in, DTYPE_F32);
    double *want = doubles(run, rows * in);
    reference_multiply(want, (struct reference_view){dense(run, dy), out, 1},
                       (struct reference_view){dense(run, w), in, 1}, rows, in, out, 0);
    run->dev->linear_backward_input(run->dev, dx, dy, w);
    run->dev->linear_backward_input(run->dev, dx32, dy, w);
    check(run, "dx", dx, want, run->batch.token_count, tolerance_of(run->compute));
    check(run, "dx f32", dx32, want, run->batch.token_count, 4e-6);
    check_slack(run, "dx", dx, 1);
    check_slack(run, "dx f32", dx32, 1);
}

static void run_linear_gelu_backward(struct op_run *run) {
    const int64_t wide = run->shape->intermediate, hidden = run->shape->hidden;
    const int64_t rows = run->batch.row_count;
    struct mat dy = gradient_input(run, hidden, run->compute, 1);
    struct mat w = input(run, hidden, wide, run->compute, 0.5);
    struct mat u = activation_input(run, wide, run->compute, 4);
    struct mat du = output(run, rows, wide, run->compute);
    float *dbias = vector(run, wide, 1, 0);
    double *want = doubles(run, rows * wide), *dbias_want = dense_vector(run, dbias, wide);
    reference_multiply(want, (struct reference_view){dense(run, dy), hidden, 1},
                       (struct reference_view){dense(run, w), wide, 1}, rows, wide, hidden, 0);
    for (int64_t i = 0; i < rows * wide; i++) {
        want[i] *= reference_gelu_slope(number_at(u, i / wide, i % wide), run->activation);
        dbias_want[i % wide] += want[i];
    }
    run->dev->linear_gelu_backward(run->dev, du, dbias, dy, w, u, run->activation);
    check(run, "du", du, want, run->batch.token_count, 1.5 * tolerance_of(run->compute));
    check_slack(run, "du", du, 1);
    check_vector(run, "dbias", dbias, dbias_want, wide, tolerance_of(run->compute));
}

static void run_linear_backward_weight(struct op_run *run) {
    const int64_t out = 3 * run->shape->hidden, in = run->shape->intermediate;
    const int64_t rows = run->batch.row_count;
    struct mat dy = gradient_input(run, out, run->compute, 1);
    struct mat x = activation_input(run, in, run->compute, 1);
    struct mat dw = input(run, out, in, DTYPE_F32, 1);
    float *dbias = vector(run, out, 1, 0);
    double *want = dense(run, dw), *dbias_want = dense_vector(run, dbias, out);
    reference_multiply(want, (struct reference_view){dense(run, dy), 1, out},
                       (struct reference_view){dense(run, x), in, 1}, out, in, rows, 1);
    for (int64_t i = 0; i < rows * out; i++) {
        dbias_want[i % out] += number_at(dy, i / out, i % out);
    }
    run->dev->linear_backward_weight(run->dev, dw, dbias, dy, x);
    check(run, "dw", dw, want, out, 4e-6);
    check_vector(run, "dbias", dbias, dbias_want, out, 4e-6);
}

// --- attention ----------------------------------------------------------------------------------

static void head_factors(double *factors, const struct dropout *dropout, int64_t head,
                         int64_t place, int64_t length) {
    for (int64_t i = 0; i < length * length; i++) {
        int kept = dropout->threshold == 0 ||
                   rng_dropout_keeps(dropout, (uint32_t)head, place, (int32_t)(i / length),
                                     (int32_t)(i % length));
        factors[i] = kept ? (double)rng_dropout_scale(dropout->threshold) : 0;
    }
}

// Calls `each` for every head of every sequence.
typedef void head_function(const struct reference_head *h, int64_t first, void *context);

static void for_each_head(struct op_run *run, const double *qkv, const struct dropout *dropout,
                          head_function *each, void *context) {
    const int64_t hidden = run->shape->hidden, heads = run->shape->heads;
    for (int64_t s = 0; s < run->batch.sequence_count; s++) {
        int64_t first = run->batch.cu_seqlens[s];
        int64_t length = run->batch.cu_seqlens[s + 1] - first;
        double *factors = malloc((size_t)(length * length) * sizeof *factors);
        for (int64_t head = 0; head < heads; head++) {
            head_factors(factors, dropout, head, run->batch.places[s], length);
            const struct reference_head h = {
                qkv + first * 3 * hidden, factors, length, hidden, head, hidden / heads};
            each(&h, first, context);
        }
        free(factors);
    }
}

struct attention_want {
    double *context, *lse; // forward
    double *dcontext, *dqkv;
    int64_t heads;
};

static void want_forward(const struct reference_head *h, int64_t first, void *context) {
    const struct attention_want *want = context;
    double *out = malloc((size_t)(h->length * h->size) * sizeof *out);
    double *lse = malloc((size_t)h->length * sizeof *lse);
    reference_attention(out, lse, h);
    for (int64_t i = 0; i < h->length; i++) {
        want->lse[(first + i) * want->heads + h->head] = lse[i];
        memcpy(want->context + (first + i) * h->hidden + h->head * h->size, out + i * h->size,
               (size_t)h->size * sizeof *out);
    }
    free(out);
    free(lse);
}

static void want_backward(const struct reference_head *h, int64_t first, void *context) {
    const struct attention_want *want = context;
    double *dout = malloc((size_t)(h->length * h->size) * sizeof *dout);
    for (int64_t i = 0; i < h->length * h->size; i++) {
        dout[i] =
            want->dcontext[(first + i / h->size) * h->hidden + h->head * h->size + i % h->size];
    }
    reference_attention_grad(want->dqkv + first * 3 * h->hidden, dout, h);
    free(dout);
}

struct attention_case {
    struct mat qkv, context;
    float *lse;
    struct attention_want want;
    struct dropout dropout;
};

static struct attention_case attention_case_run(struct op_run *run) {
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct attention_case a = {.qkv = activation_input(run, 3 * hidden, run->compute, 1.5)};
    a.context = output(run, rows, hidden, run->compute);
    a.lse = vector(run, rows * run->shape->heads, 0, (double)NAN);
    a.dropout = dropout_of(run, RNG_SITE_ATTENTION);
    a.want = (struct attention_want){.context = doubles(run, rows * hidden),
                                     .lse = doubles(run, rows * run->shape->heads),
                                     .heads = run->shape->heads};
    for_each_head(run, dense(run, a.qkv), &a.dropout, want_forward, &a.want);
    const struct attention_args args = {a.context, a.lse, a.qkv, run->shape->heads, a.dropout};
    run->dev->attention_forward(run->dev, &args, &run->batch);
    return a;
}

static void run_attention_forward(struct op_run *run) {
    struct attention_case a = attention_case_run(run);
    const int64_t tokens = run->batch.token_count, heads = run->shape->heads;
    check(run, "context", a.context, a.want.context, tokens, tolerance_of(run->compute));
    check_slack(run, "context", a.context, 0);
    check(run, "lse", mat_of(a.lse, run->batch.row_count, heads, DTYPE_F32), a.want.lse, tokens,
          4e-6);
    const struct attention_args args = {a.context, NULL, a.qkv, heads, a.dropout};
    run->dev->attention_forward(run->dev, &args, &run->batch);
    check(run, "context without lse", a.context, a.want.context, tokens,
          tolerance_of(run->compute));
}

static void run_attention_backward(struct op_run *run) {
    struct attention_case a = attention_case_run(run);
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct mat dcontext = gradient_input(run, hidden, run->compute, 1);
    struct mat dqkv = output(run, rows, 3 * hidden, run->compute);
    a.want.dcontext = dense(run, dcontext);
    a.want.dqkv = doubles(run, rows * 3 * hidden);
    for_each_head(run, dense(run, a.qkv), &a.dropout, want_backward, &a.want);
    const struct attention_grad_args args = {dqkv,  dcontext,          a.context, a.lse,
                                             a.qkv, run->shape->heads, a.dropout};
    run->dev->attention_backward(run->dev, &args, &run->batch);
    check(run, "dqkv", dqkv, a.want.dqkv, run->batch.token_count,
          run->compute == DTYPE_F32 ? 1e-5 : 1.2e-2);
    check_slack(run, "dqkv", dqkv, 1);
}

// --- loss and optimizer -------------------------------------------------------------------------

static void run_span_loss(struct op_run *run) {
    const struct batch *batch = &run->batch;
    struct mat logits = activation_input(run, 2, DTYPE_F32, 8);
    struct mat dlogits = output(run, batch->row_count, 2, run->compute);
    float *losses = vector(run, batch->sequence_count, 0, (double)NAN);
    double *want = doubles(run, batch->row_count * 2);
    double *losses_want = doubles(run, batch->sequence_count);
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        int64_t first = batch->cu_seqlens[s], length = batch->cu_seqlens[s + 1] - first;
        for (int half = 0; half < 2; half++) {
            double *x = doubles(run, length), *gradient = doubles(run, length);
            for (int64_t i = 0; i < length; i++) {
                x[i] = number_at(logits, first + i, half);
            }
            const int32_t *labels = half ? batch->end_positions : batch->start_positions;
            losses_want[s] += reference_span_half(gradient, x, length, labels[s]);
            for (int64_t i = 0; i < length; i++) {
                want[(first + i) * 2 + half] = 0.25 * gradient[i];
            }
        }
    }
    run->dev->span_loss(run->dev, dlogits, losses, logits, 0.25f, batch);
    check_vector(run, "losses", losses, losses_want, batch->sequence_count, 4e-6);
    check(run, "dlogits", dlogits, want, batch->token_count, tolerance_of(run->compute));
    check_slack(run, "dlogits", dlogits, 1);
}

static void run_grad_norm(struct op_run *run) {
    const int64_t count = run->shape->hidden * 2001 + 7;
    float *gradients = vector(run, count, 3, 0);
    struct grad_stats stats;
    double want = 0;
    for (int64_t i = 0; i < count; i++) {
        want += (double)gradients[i] * (double)gradients[i] * 0.25;
    }
    run->dev->grad_norm(run->dev, &stats, gradients, count, 0.5);
    if (fabs(stats.sum_squares - want) > 1e-12 * want) {
        complain(run, "sum_squares", "relative error", stats.sum_squares / want - 1);
    }
    hash_bytes(run, &stats.sum_squares, sizeof stats.sum_squares);
    gradients[count / 2] = INFINITY;
    run->dev->grad_norm(run->dev, &stats, gradients, count, 0.5);
    if (isfinite(stats.sum_squares)) {
        complain(run, "sum_squares", "an infinite gradient gives", stats.sum_squares);
    }
}

struct adamw_case {
    int64_t count;
    float *values[4]; // p, g, m, v
    double *want[4];
    struct mat compute;
};

static struct adamw_case adamw_case_new(struct op_run *run) {
    struct adamw_case a = {.count = run->shape->hidden * 1025 + 3};
    for (int i = 0; i < 4; i++) {
        a.values[i] = vector(run, a.count, i == 3 ? 0.1 : 1, i == 3 ? 0.11 : 0);
        a.want[i] = dense_vector(run, a.values[i], a.count);
    }
    if (run->compute != DTYPE_F32) {
        struct mat m = output(run, 1, a.count, run->compute);
        a.compute = mat_of(m.data, 1, a.count, run->compute);
    }
    return a;
}

static void adamw_want(struct adamw_case *a, const struct adamw_args *args) {
    double norm = sqrt(args->stats->sum_squares), factor = args->gradient_scale;
    if (args->max_grad_norm > 0) {
        factor *= fmin(1, args->max_grad_norm / (norm + 1e-6));
    }
    for (int64_t i = 0; i < a->count; i++) {
        double *p = &a->want[0][i], *m = &a->want[2][i], *v = &a->want[3][i];
        double g = a->want[1][i] * factor + (args->l2_mode ? args->weight_decay * *p : 0);
        *m = args->beta1 * *m + (1 - args->beta1) * g;
        *v = args->beta2 * *v + (1 - args->beta2) * g * g;
        double step = *m / args->correction1 / (sqrt(*v / args->correction2) + args->epsilon);
        *p -= args->learning_rate * (step + (args->l2_mode ? 0 : args->weight_decay * *p));
        a->want[1][i] = 0;
    }
}

static struct adamw_args adamw_args_of(const struct adamw_case *a, const struct grad_stats *stats,
                                       int mode) {
    return (struct adamw_args){
        .parameters = a->values[0],
        .gradients = a->values[1],
        .first_moment = a->values[2],
        .second_moment = a->values[3],
        .compute = a->compute,
        .count = a->count,
        .learning_rate = 0.01,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-6,
        .weight_decay = 0.1,
        .correction1 = mode ? 1 : 0.271,
        .correction2 = mode ? 1 : 0.003,
        .gradient_scale = 0.5,
        .max_grad_norm = mode ? 0 : 1,
        .l2_mode = mode,
        .stats = stats,
    };
}

static void run_adamw(struct op_run *run) {
    for (int mode = 0; mode < 3; mode++) { // decoupled and clipped, L2, skipped
        struct adamw_case a = adamw_case_new(run);
        const struct grad_stats stats = {mode == 2 ? INFINITY : 4.0};
        struct adamw_args args = adamw_args_of(&a, &stats, mode == 1);
        if (mode == 2) {
            args.compute = (struct mat){0};
            memset(a.want[1], 0, (size_t)a.count * sizeof(double));
        } else {
            adamw_want(&a, &args);
        }
        run->dev->adamw(run->dev, &args);
        check_vector(run, "parameters", a.values[0], a.want[0], a.count, 4e-6);
        check_vector(run, "gradients", a.values[1], a.want[1], a.count, 0);
        check_vector(run, "first moment", a.values[2], a.want[2], a.count, 4e-6);
        check_vector(run, "second moment", a.values[3], a.want[3], a.count, 4e-6);
        if (!mat_is_empty(args.compute)) {
            check(run, "compute copy", a.compute, a.want[0], 1, 5e-3);
        }
    }
}

static void run_convert(struct op_run *run) {
    const int64_t count = run->shape->hidden * 1777 + 1;
    float *from = vector(run, count, 100, 0);
    struct mat to = mat_of(output(run, 1, count, run->compute).data, 1, count, run->compute);
    struct mat want = mat_of(keep(run, (size_t)count * 4), 1, count, run->compute);
    run->dev->convert(run->dev, to, from);
    for (int64_t i = 0; i < count; i++) {
        set_number(want, 0, i, (double)from[i]);
    }
    check(run, "to", to, dense(run, want), 1, 0);
}

const struct op_case op_cases[] = {
    {"embed_forward", run_embed_forward, 1, 0},
    {"embed_backward", run_embed_backward, 1, 0},
    {"norm_forward", run_norm_forward, 1, 0},
    {"norm_backward", run_norm_backward, 1, 0},
    {"linear_forward", run_linear_forward, 0, 0},
    {"linear_gelu_forward", run_linear_gelu_forward, 0, 1},
    {"linear_backward_input", run_linear_backward_input, 0, 0},
    {"linear_gelu_backward", run_linear_gelu_backward, 0, 1},
    {"linear_backward_weight", run_linear_backward_weight, 0, 0},
    {"attention_forward", run_attention_forward, 1, 0},
    {"attention_backward", run_attention_backward, 1, 0},
    {"span_loss", run_span_loss, 0, 0},
    {"grad_norm", run_grad_norm, 0, 0},
    {"adamw", run_adamw, 0, 0},
    {"convert", run_convert, 0, 0},
};
const int op_case_count = sizeof op_cases / sizeof *op_cases;

// --- the batch ----------------------------------------------------------------------------------

static void fill_batch(struct op_run *run) {
    struct batch *b = &run->batch;
    *b = (struct batch){0};
    int32_t *starts = keep(run, (SEQUENCES_MAX + 1) * sizeof *starts);
    int64_t *places = keep(run, SEQUENCES_MAX * sizeof *places);
    int32_t *labels[2] = {keep(run, SEQUENCES_MAX * sizeof **labels),
                          keep(run, SEQUENCES_MAX * sizeof **labels)};
    for (int s = 0; s < SEQUENCES_MAX && run->shape->lengths[s] > 0; s++) {
        int32_t length = run->shape->lengths[s];
        starts[s + 1] = starts[s] + length;
        places[s] = 5 + 3 * s;
        labels[0][s] = length / 2;
        labels[1][s] = s == 1 ? length : length - 1; // one label outside
        b->max_length = length > b->max_length ? length : b->max_length;
        b->sequence_count = s + 1;
    }
    b->token_count = starts[b->sequence_count];
    b->row_count = batch_round(b->token_count);
    int32_t *rows[4];
    for (int i = 0; i < 4; i++) {
        rows[i] = keep(run, (size_t)b->row_count * sizeof **rows);
    }
    for (int64_t r = 0, s = 0; r < b->row_count; r++) {
        s += s < b->sequence_count && r == starts[s + 1];
        int real = r < b->token_count;
        rows[0][r] = real ? (int32_t)(r * 7 % WORDS) : 0;
        rows[1][r] = real ? (int32_t)(r % 3 == 0) : 0;
        rows[2][r] = real ? (int32_t)(r - starts[s]) : 0;
        rows[3][r] = real ? (int32_t)s : -1;
    }
    b->ids = rows[0];
    b->type_ids = rows[1];
    b->positions = rows[2];
    b->sequences = rows[3];
    b->cu_seqlens = starts;
    b->places = places;
    b->start_positions = labels[0];
    b->end_positions = labels[1];
}

void op_case_run(const struct op_case *op, struct op_run *run) {
    run->hash = 0xCBF29CE484222325u;
    run->complaint[0] = '\0';
    run->drawn = 0;
    run->block_count = 0;
    fill_batch(run);
    op->run(run);
    struct berth_error error;
    if (run->dev->status(run->dev, &error) != BERTH_OK) {
        snprintf(run->complaint, sizeof run->complaint, "%.190s", error.message);
    }
    for (int i = 0; i < run->block_count; i++) {
        free(run->blocks[i]);
    }
}
