// SPDX-License-Identifier: Apache-2.0
// Operations of the CPU device, forward and backward, in f32 and bf16 with all instruction sets,
// against PyTorch's numbers in tests/golden/ops.safetensors.
#include "core/harness.h"
#include "golden/golden_file.h"
#include "op_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One case of the file: its tensors are PREFIX.NAME.
struct golden_run {
    struct op_run op;
    const struct safetensors *file;
    const char *prefix;
};

// --- from the file ------------------------------------------------------------------------------

static void *copy_to_operand(struct golden_run *g, void *block, int64_t bytes) {
    void *copy = op_alloc(&g->op, (size_t)bytes);
    memcpy(copy, block, (size_t)bytes);
    free(block);
    return copy;
}

static double *expected_values(struct golden_run *g, const char *name) {
    int64_t count;
    double *values = golden_doubles(g->file, g->prefix, name, &count);
    return copy_to_operand(g, values, count * (int64_t)sizeof *values);
}

static float *vector_of(struct golden_run *g, const char *name) {
    int64_t count;
    float *values = golden_floats(g->file, g->prefix, name, &count);
    return copy_to_operand(g, values, count * (int64_t)sizeof *values);
}

static double number(struct golden_run *g, const char *name) {
    return golden_number(g->file, g->prefix, name);
}

// Rows, then columns; a vector is one column.
static int64_t size_of(struct golden_run *g, const char *name, int axis) {
    const struct tensor_entry *entry = golden_entry(g->file, g->prefix, name);
    return axis < entry->rank ? entry->shape[axis] : 1;
}

// The tensor's numbers times `factor` in the first rows of m.
static struct mat filled(struct golden_run *g, struct mat m, const char *name, double factor) {
    const double *values = expected_values(g, name);
    for (int64_t i = 0; i < size_of(g, name, 0) * m.cols; i++) {
        op_set_number(m, i / m.cols, i % m.cols, factor * values[i]);
    }
    return m;
}

static struct mat table_of(struct golden_run *g, const char *name, enum dtype dtype) {
    struct mat m = op_input(&g->op, size_of(g, name, 0), size_of(g, name, 1), dtype, 1);
    return filled(g, m, name, 1);
}

static struct mat activation_of(struct golden_run *g, const char *name, enum dtype dtype) {
    return filled(g, op_activation(&g->op, size_of(g, name, 1), dtype, 1), name, 1);
}

static struct mat gradient_of(struct golden_run *g, const char *name, enum dtype dtype,
                              double factor) {
    return filled(g, op_gradient(&g->op, size_of(g, name, 1), dtype, 1), name, factor);
}

// Integers per row of the batch; zeros in the slack.
static const int32_t *rows_of(struct golden_run *g, const char *name) {
    int64_t count;
    int32_t *from = golden_integers(g->file, g->prefix, name, &count);
    int32_t *to = op_alloc(&g->op, (size_t)g->op.batch.row_count * sizeof *to);
    memcpy(to, from, (size_t)count * sizeof *to);
    free(from);
    return to;
}

static struct mat rows_output(struct golden_run *g, int64_t cols, enum dtype dtype) {
    return op_output(&g->op, g->op.batch.row_count, cols, dtype);
}

// The batch of the tensor cu_seqlens, or else one sequence of `rows` tokens.
static void make_batch(struct golden_run *g, int64_t rows) {
    int32_t lengths[SEQUENCES_MAX] = {(int32_t)rows};
    int64_t count = 2;
    if (golden_has(g->file, g->prefix, "cu_seqlens")) {
        int32_t *starts = golden_integers(g->file, g->prefix, "cu_seqlens", &count);
        assert_true(count - 1 <= SEQUENCES_MAX);
        for (int64_t s = 0; s + 1 < count; s++) {
            lengths[s] = starts[s + 1] - starts[s];
        }
        free(starts);
    }
    op_batch(&g->op, lengths, (int)count - 1);
}

// --- checks -------------------------------------------------------------------------------------

// In bf16 the inputs are rounded too, which the numbers of the file are not.
static double tolerance(const struct golden_run *g, double f32, double bf16) {
    return g->op.compute == DTYPE_F32 ? f32 : bf16;
}

static void check_rows(struct golden_run *g, const char *name, struct mat m, double within) {
    op_check(&g->op, name, m, expected_values(g, name), g->op.batch.token_count, within);
}

static void check_table(struct golden_run *g, const char *name, struct mat m, double within) {
    op_check(&g->op, name, m, expected_values(g, name), m.rows, within);
}

static void check_floats(struct golden_run *g, const char *name, const float *x, double within) {
    op_check_vector(&g->op, name, x, expected_values(g, name), size_of(g, name, 0), within);
}

// |m - tensor| <= within * (1 + |at|) for each number; a relative L2 error would hide outliers.
static void check_each(struct golden_run *g, const char *name, struct mat m, const double *at,
                       double within) {
    const double *want = expected_values(g, name);
    for (int64_t i = 0; i < g->op.batch.token_count; i++) {
        double error = fabs(op_number_at(m, i, 0) - want[i]);
        if (!(error <= within * (1 + fabs(at[i])))) {
            op_fail(&g->op, name, "is off by", error);
        }
    }
}

// --- layer norm and embedding -------------------------------------------------------------------

static void norm_forward(struct golden_run *g) {
    struct device *dev = g->op.dev;
    const int64_t hidden = size_of(g, "x", 1);
    const int half = g->op.compute != DTYPE_F32;
    struct norm_args args = {
        .y = rows_output(g, hidden, DTYPE_F32),
        .y_compute = half ? rows_output(g, hidden, g->op.compute) : (struct mat){0},
        .xhat = rows_output(g, hidden, g->op.compute),
        .rstd = op_vector(&g->op, g->op.batch.row_count, 0, (double)NAN),
        .x = activation_of(g, "x", g->op.compute),
        .residual = activation_of(g, "residual", DTYPE_F32),
        .gamma = vector_of(g, "gamma"),
        .beta = vector_of(g, "beta"),
        .epsilon = (float)number(g, "epsilon"),
    };
    dev->norm_forward(dev, &args, &g->op.batch);
    check_rows(g, "y", args.y, tolerance(g, 1e-6, 4e-3));
    check_rows(g, "xhat", args.xhat, tolerance(g, 1e-6, 6e-3));
    check_floats(g, "rstd", args.rstd, tolerance(g, 1e-6, 4e-3));
    if (half) {
        check_rows(g, "y", args.y_compute, 6e-3);
    }
}

// dy consists of two halves, like a residual stream and its branch.
static void norm_backward(struct golden_run *g) {
    struct device *dev = g->op.dev;
    const int64_t hidden = size_of(g, "dy", 1);
    struct norm_grad_args args = {
        .dresidual = rows_output(g, hidden, DTYPE_F32),
        .dx = rows_output(g, hidden, g->op.compute),
        .dbias = op_vector(&g->op, hidden, 0, 0),
        .dy = gradient_of(g, "dy", DTYPE_F32, 0.5),
        .dy2 = gradient_of(g, "dy", g->op.compute, 0.5),
        .xhat = activation_of(g, "xhat", g->op.compute),
        .rstd = op_vector(&g->op, g->op.batch.row_count, 0, 1),
        .gamma = vector_of(g, "gamma"),
        .dgamma = op_vector(&g->op, hidden, 0, 0),
        .dbeta = op_vector(&g->op, hidden, 0, 0),
    };
    memcpy((float *)args.rstd, vector_of(g, "rstd"), (size_t)size_of(g, "rstd", 0) * sizeof(float));
    dev->norm_backward(dev, &args, &g->op.batch);
    check_rows(g, "dx", args.dresidual, tolerance(g, 2e-6, 4e-3));
    check_rows(g, "dx", args.dx, tolerance(g, 2e-6, 5e-3));
    check_floats(g, "dgamma", args.dgamma, tolerance(g, 2e-6, 4e-3));
    check_floats(g, "dbeta", args.dbeta, tolerance(g, 2e-6, 4e-3));
    double *dbias = op_doubles(&g->op, hidden);
    const double *dx = expected_values(g, "dx");
    for (int64_t i = 0; i < g->op.batch.token_count * hidden; i++) {
        dbias[i % hidden] += dx[i];
    }
    op_check_vector(&g->op, "dbias", args.dbias, dbias, hidden, tolerance(g, 2e-6, 4e-3));
}

static void norm(struct golden_run *g) {
    make_batch(g, size_of(g, "x", 0));
    norm_forward(g);
    norm_backward(g);
}

// Forward, then backward from what the forward operation stored.
static void embedding(struct golden_run *g) {
    struct device *dev = g->op.dev;
    const int64_t hidden = size_of(g, "dy", 1);
    make_batch(g, 0);
    g->op.batch.ids = rows_of(g, "ids");
    g->op.batch.type_ids = rows_of(g, "token_type_ids");
    struct mat word = table_of(g, "word", DTYPE_F32), type = table_of(g, "type", DTYPE_F32);
    struct mat position = table_of(g, "position", DTYPE_F32), dy;
    const struct embed_args args = {
        .y = rows_output(g, hidden, DTYPE_F32),
        .xhat = rows_output(g, hidden, g->op.compute),
        .rstd = op_vector(&g->op, g->op.batch.row_count, 0, (double)NAN),
        .word = word,
        .position = position,
        .type = type,
        .gamma = vector_of(g, "gamma"),
        .beta = vector_of(g, "beta"),
        .epsilon = (float)number(g, "epsilon"),
    };
    dev->embed_forward(dev, &args, &g->op.batch);
    check_rows(g, "y", args.y, 1e-6);
    dy = gradient_of(g, "dy", DTYPE_F32, 0.5);
    const struct embed_grad_args grad = {
        .dy = dy,
        .dy2 = gradient_of(g, "dy", g->op.compute, 0.5),
        .xhat = args.xhat,
        .rstd = args.rstd,
        .gamma = args.gamma,
        .dword = op_input(&g->op, word.rows, hidden, DTYPE_F32, 0),
        .dposition = op_input(&g->op, position.rows, hidden, DTYPE_F32, 0),
        .dtype_table = op_input(&g->op, type.rows, hidden, DTYPE_F32, 0),
        .dgamma = op_vector(&g->op, hidden, 0, 0),
        .dbeta = op_vector(&g->op, hidden, 0, 0),
        .scratch = dy,
    };
    dev->embed_backward(dev, &grad, &g->op.batch);
    check_table(g, "dword", grad.dword, tolerance(g, 2e-6, 4e-3));
    check_table(g, "dposition", grad.dposition, tolerance(g, 2e-6, 4e-3));
    check_table(g, "dtype", grad.dtype_table, tolerance(g, 2e-6, 4e-3));
    check_floats(g, "dgamma", grad.dgamma, tolerance(g, 2e-6, 4e-3));
    check_floats(g, "dbeta", grad.dbeta, tolerance(g, 2e-6, 4e-3));
}

// --- linear layers ------------------------------------------------------------------------------

static void linear(struct golden_run *g) {
    struct device *dev = g->op.dev;
    make_batch(g, size_of(g, "x", 0));
    struct mat x = activation_of(g, "x", g->op.compute), w = table_of(g, "w", g->op.compute);
    struct mat y = rows_output(g, w.rows, DTYPE_F32), dx = rows_output(g, w.cols, DTYPE_F32);
    struct mat dy = gradient_of(g, "dy", g->op.compute, 1);
    struct mat dw = op_input(&g->op, w.rows, w.cols, DTYPE_F32, 0);
    float *dbias = op_vector(&g->op, w.rows, 0, 0);
    dev->linear_forward(dev, y, x, w, vector_of(g, "bias"));
    dev->linear_backward_input(dev, dx, dy, w);
    dev->linear_backward_weight(dev, dw, dbias, dy, x);
    check_rows(g, "y", y, tolerance(g, 1e-6, 4e-3));
    check_rows(g, "dx", dx, tolerance(g, 1e-6, 4e-3));
    check_table(g, "dw", dw, tolerance(g, 1e-6, 4e-3));
    check_floats(g, "dbias", dbias, tolerance(g, 1e-6, 4e-3));
}

static void linear_gelu(struct golden_run *g, enum activation activation) {
    struct device *dev = g->op.dev;
    make_batch(g, size_of(g, "x", 0));
    struct mat w = table_of(g, "w", g->op.compute), v = table_of(g, "v", g->op.compute);
    struct mat u = rows_output(g, w.rows, g->op.compute), y = rows_output(g, w.rows, g->op.compute);
    struct mat du = rows_output(g, w.rows, g->op.compute);
    float *dbias = op_vector(&g->op, w.rows, 0, 0);
    dev->linear_gelu_forward(dev, y, u, activation_of(g, "x", g->op.compute), w,
                             vector_of(g, "bias"), activation);
    dev->linear_gelu_backward(dev, du, dbias, gradient_of(g, "dz", g->op.compute, 1), v, u,
                              activation);
    check_rows(g, "u", u, tolerance(g, 1e-6, 6e-3));
    check_rows(g, "y", y, tolerance(g, 1e-6, 6e-3));
    check_rows(g, "du", du, tolerance(g, 2e-6, 1e-2));
    check_floats(g, "dbias", dbias, tolerance(g, 2e-6, 1e-2));
}

static void linear_gelu_erf(struct golden_run *g) {
    linear_gelu(g, ACTIVATION_GELU_ERF);
}

static void linear_gelu_tanh(struct golden_run *g) {
    linear_gelu(g, ACTIVATION_GELU_TANH);
}

// GELU alone, over its whole range: a linear layer with one column and weight 1.
static void gelu(struct golden_run *g, enum activation activation) {
    struct device *dev = g->op.dev;
    make_batch(g, size_of(g, "x", 0));
    struct mat one = op_input(&g->op, 1, 1, g->op.compute, 0);
    struct mat x = activation_of(g, "x", g->op.compute), dy = op_gradient(&g->op, 1, x.dtype, 0);
    op_set_number(one, 0, 0, 1);
    for (int64_t row = 0; row < g->op.batch.token_count; row++) {
        op_set_number(dy, row, 0, 1);
    }
    struct mat y = rows_output(g, 1, x.dtype), dx = rows_output(g, 1, x.dtype);
    dev->linear_gelu_forward(dev, y, (struct mat){0}, x, one, op_vector(&g->op, 1, 0, 0),
                             activation);
    dev->linear_gelu_backward(dev, dx, op_vector(&g->op, 1, 0, 0), dy, one, x, activation);
    const double *at = expected_values(g, "x");
    check_each(g, "y", y, at, tolerance(g, 3e-7, 6e-3));
    check_each(g, "dx", dx, at, tolerance(g, 3e-7, 6e-3));
}

static void gelu_erf(struct golden_run *g) {
    gelu(g, ACTIVATION_GELU_ERF);
}

static void gelu_tanh(struct golden_run *g) {
    gelu(g, ACTIVATION_GELU_TANH);
}

// --- attention and loss -------------------------------------------------------------------------

static void attention(struct golden_run *g) {
    struct device *dev = g->op.dev;
    const int64_t hidden = size_of(g, "context", 1), heads = size_of(g, "lse", 1);
    make_batch(g, 0);
    const struct attention_args args = {
        .context = rows_output(g, hidden, g->op.compute),
        .lse = op_vector(&g->op, g->op.batch.row_count * heads, 0, (double)NAN),
        .qkv = activation_of(g, "qkv", g->op.compute),
        .heads = heads,
    };
    dev->attention_forward(dev, &args, &g->op.batch);
    const struct attention_grad_args grad = {
        .dqkv = rows_output(g, 3 * hidden, g->op.compute),
        .dcontext = gradient_of(g, "dcontext", g->op.compute, 1),
        .context = args.context,
        .lse = args.lse,
        .qkv = args.qkv,
        .heads = heads,
    };
    dev->attention_backward(dev, &grad, &g->op.batch);
    check_rows(g, "context", args.context, tolerance(g, 1e-6, 8e-3));
    check_rows(g, "lse", mat_of(args.lse, g->op.batch.row_count, heads, DTYPE_F32),
               tolerance(g, 1e-6, 4e-3));
    check_rows(g, "dqkv", grad.dqkv, tolerance(g, 4e-6, 1.2e-2));
}

static void span_loss(struct golden_run *g) {
    struct device *dev = g->op.dev;
    make_batch(g, 0);
    g->op.batch.start_positions = rows_of(g, "start_positions");
    g->op.batch.end_positions = rows_of(g, "end_positions");
    struct mat dlogits = rows_output(g, 2, g->op.compute);
    float *losses = op_vector(&g->op, g->op.batch.sequence_count, 0, (double)NAN);
    dev->span_loss(dev, dlogits, losses, activation_of(g, "logits", DTYPE_F32),
                   (float)number(g, "scale"), &g->op.batch);
    check_floats(g, "losses", losses, 1e-6);
    check_rows(g, "dlogits", dlogits, tolerance(g, 1e-6, 4e-3));
}

// --- heads over whole sequences: f32 whatever the compute dtype ----------------------------------

enum { SLACK = 3 }; // rows after those of the sequences

// A derivative or a value near 0 must be right in its own size.
static void check_relative(struct golden_run *g, const char *name, struct mat m, double within) {
    const double *want = expected_values(g, name);
    for (int64_t c = 0; c < m.cols; c++) {
        double error = fabs(op_number_at(m, 0, c) - want[c]);
        if (!(error <= within * fabs(want[c]))) {
            op_fail(&g->op, name, "is off by", error);
        }
    }
}

// tanh to a few units in the last place, its derivative to the rounding of 1 - t^2.
static void tanh_alone(struct golden_run *g) {
    struct device *dev = g->op.dev;
    const int64_t count = size_of(g, "u", 1);
    make_batch(g, 1);
    struct mat u = table_of(g, "u", DTYPE_F32), dy = op_input(&g->op, 1, count, DTYPE_F32, 0);
    struct mat t = op_output(&g->op, 1, count, DTYPE_F32), y = op_output(&g->op, 1, count, u.dtype);
    struct mat du = op_output(&g->op, 1, count, DTYPE_F32);
    for (int64_t c = 0; c < count; c++) {
        op_set_number(dy, 0, c, 1);
    }
    dev->tanh_forward(dev, y, t, u, (struct dropout){0}, &g->op.batch);
    dev->tanh_backward(dev, du, dy, t, (struct dropout){0}, &g->op.batch);
    check_relative(g, "y", t, 3e-7);
    check_relative(g, "y", y, 3e-7);
    const double *want = expected_values(g, "du");
    for (int64_t c = 0; c < count; c++) {
        if (!(fabs(op_number_at(du, 0, c) - want[c]) <= 3e-7)) {
            op_fail(&g->op, "du", "is off by", op_number_at(du, 0, c) - want[c]);
        }
    }
}

// The matrices of a head, one row per sequence and slack.
struct head {
    struct mat pooler, classifier;       // weights
    struct mat first, u, t, pooled;      // [C, H]
    struct mat logits, dlogits;          // [C, K]
    struct mat dpooled, du, dfirst;      // [C, H]
    struct mat dx;                       // [R, H]
    struct mat dpooler_w, dclassifier_w; // += from 0
    float *dpooler_b, *dclassifier_b;
    float *losses;
};

static struct mat pooled_output(struct golden_run *g, int64_t cols) {
    return op_output(&g->op, g->op.batch.sequence_count + SLACK, cols, DTYPE_F32);
}

static struct head head_new(struct golden_run *g) {
    struct head h = {.pooler = table_of(g, "pooler.weight", DTYPE_F32),
                     .classifier = table_of(g, "classifier.weight", DTYPE_F32)};
    const int64_t hidden = h.pooler.rows, classes = h.classifier.rows;
    struct mat *wide[] = {&h.first, &h.u, &h.t, &h.pooled, &h.dpooled, &h.du, &h.dfirst};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        *wide[i] = pooled_output(g, hidden);
    }
    h.logits = pooled_output(g, classes);
    h.dlogits = pooled_output(g, classes);
    h.dx = rows_output(g, hidden, DTYPE_F32);
    h.dpooler_w = op_input(&g->op, hidden, hidden, DTYPE_F32, 0);
    h.dclassifier_w = op_input(&g->op, classes, hidden, DTYPE_F32, 0);
    h.dpooler_b = op_vector(&g->op, hidden, 0, 0);
    h.dclassifier_b = op_vector(&g->op, classes, 0, 0);
    h.losses = op_vector(&g->op, g->op.batch.sequence_count, 0, (double)NAN);
    return h;
}

static void head_forward(struct golden_run *g, const struct head *h) {
    struct device *dev = g->op.dev;
    const struct batch *batch = &g->op.batch;
    const int64_t count = batch->sequence_count;
    dev->gather_rows(dev, h->first, activation_of(g, "x", DTYPE_F32), batch->cu_seqlens, count);
    dev->linear_forward(dev, h->u, h->first, h->pooler, vector_of(g, "pooler.bias"));
    dev->tanh_forward(dev, h->pooled, h->t, h->u, (struct dropout){0}, batch);
    dev->linear_forward(dev, h->logits, h->pooled, h->classifier, vector_of(g, "classifier.bias"));
    const float scale = (float)number(g, "scale");
    if (golden_has(g->file, g->prefix, "labels")) {
        dev->class_loss(dev, h->dlogits, h->losses, NULL, h->logits, scale, rows_of(g, "labels"),
                        count);
    } else {
        dev->squared_loss(dev, h->dlogits, h->losses, h->logits, scale, vector_of(g, "targets"),
                          count);
    }
}

static void head_backward(struct golden_run *g, const struct head *h) {
    struct device *dev = g->op.dev;
    const struct batch *batch = &g->op.batch;
    dev->linear_backward_weight(dev, h->dclassifier_w, h->dclassifier_b, h->dlogits, h->pooled);
    dev->linear_backward_input(dev, h->dpooled, h->dlogits, h->classifier);
    dev->tanh_backward(dev, h->du, h->dpooled, h->t, (struct dropout){0}, batch);
    dev->linear_backward_weight(dev, h->dpooler_w, h->dpooler_b, h->du, h->first);
    dev->linear_backward_input(dev, h->dfirst, h->du, h->pooler);
    dev->scatter_rows(dev, h->dx, h->dfirst, batch->cu_seqlens, batch->sequence_count);
}

static void head_check(struct golden_run *g, const char *name, struct mat m) {
    op_check(&g->op, name, m, expected_values(g, name), size_of(g, name, 0), 2e-6);
}

static void head(struct golden_run *g) {
    make_batch(g, 0);
    const struct head h = head_new(g);
    head_forward(g, &h);
    head_backward(g, &h);
    head_check(g, "pooled", h.pooled);
    head_check(g, "logits", h.logits);
    check_floats(g, "losses", h.losses, 2e-6);
    head_check(g, "dlogits", h.dlogits);
    head_check(g, "dclassifier.weight", h.dclassifier_w);
    check_floats(g, "dclassifier.bias", h.dclassifier_b, 2e-6);
    head_check(g, "dpooler.weight", h.dpooler_w);
    check_floats(g, "dpooler.bias", h.dpooler_b, 2e-6);
    head_check(g, "dx", h.dx);
    op_check_zeros(&g->op, "dlogits", h.dlogits, g->op.batch.sequence_count);
    op_check_zeros(&g->op, "du", h.du, g->op.batch.sequence_count);
    op_check_zeros(&g->op, "dx", h.dx, g->op.batch.token_count);
}

// --- optimizer ----------------------------------------------------------------------------------

// `settings` of tests/golden/README.md, in their order.
enum { RATE, BETA1, BETA2, EPSILON, DECAY, CORRECTION1, CORRECTION2, MAX_NORM, L2_MODE };

// The gradients are passed scaled by four, as with a loss scale.
static void adamw(struct golden_run *g) {
    struct device *dev = g->op.dev;
    const double *s = expected_values(g, "settings");
    const int64_t count = size_of(g, "parameters", 0);
    const int half = g->op.compute != DTYPE_F32;
    struct grad_stats *stats = op_alloc(&g->op, sizeof *stats);
    struct device_range *range = op_alloc(&g->op, sizeof *range);
    int64_t *blocks = op_alloc(&g->op, 2 * sizeof *blocks);
    double *sums = op_alloc(&g->op, sizeof *sums);
    *range = (struct device_range){.count = count, .weight_decay = s[DECAY]};
    blocks[1] = 1; // of the few elements
    struct adamw_args args = {
        .parameters = vector_of(g, "parameters"),
        .gradients = vector_of(g, "gradients"),
        .first_moment = vector_of(g, "first_moment"),
        .second_moment = vector_of(g, "second_moment"),
        .compute = half ? op_output(&g->op, 1, count, g->op.compute) : (struct mat){0},
        .ranges = range,
        .range_count = 1,
        .rate = s[RATE],
        .beta1 = s[BETA1],
        .beta2 = s[BETA2],
        .epsilon = s[EPSILON],
        .correction1 = s[CORRECTION1],
        .correction2 = s[CORRECTION2],
        .gradient_scale = 0.25,
        .max_grad_norm = s[MAX_NORM],
        .l2_mode = (int)s[L2_MODE],
        .stats = stats,
    };
    for (int64_t i = 0; i < count; i++) {
        args.gradients[i] *= 4;
    }
    dev->squares(dev, sums, args.gradients, range, 1);
    dev->norms(dev, stats, sums, blocks, 1, args.gradient_scale);
    if (!(fabs(sqrt(stats->sum_squares) / number(g, "norm") - 1) <= 1e-6)) {
        op_fail(&g->op, "norm", "is", sqrt(stats->sum_squares));
    }
    dev->adamw(dev, &args);
    check_floats(g, "new_parameters", args.parameters, 1e-7);
    check_floats(g, "new_first_moment", args.first_moment, 1e-6);
    check_floats(g, "new_second_moment", args.second_moment, 1e-6);
    if (half) {
        op_check(&g->op, "compute copy", args.compute, expected_values(g, "new_parameters"), 1,
                 4e-3);
    }
}

// A number that is subnormal in f32 may become zero: AVX-512 converts it to zero in bf16. 2^-126 is
// the bf16 number nearest to the largest of them.
static int same_number(double found, double expected, enum dtype dtype) {
    const int flushed = dtype != DTYPE_F32 && fabs(expected) <= 0x1p-126 && found == 0;
    return (found == expected || flushed) && signbit(found) == signbit(expected);
}

static void convert(struct golden_run *g) {
    const int64_t count = size_of(g, "x", 0);
    const enum dtype dtype = g->op.compute;
    struct mat to = mat_of(op_output(&g->op, 1, count, dtype).data, 1, count, dtype);
    g->op.dev->convert(g->op.dev, to, vector_of(g, "x"));
    const double *expected = expected_values(g, dtype == DTYPE_F32 ? "x" : "bf16");
    for (int64_t i = 0; i < count; i++) {
        if (!same_number(op_number_at(to, 0, i), expected[i], dtype)) {
            op_fail(&g->op, "x", "is converted to", op_number_at(to, 0, i));
        }
    }
}

// --- all tensors ---------------------------------------------------------------------------------

static const struct {
    const char *prefix;
    void (*run)(struct golden_run *g);
} cases[] = {
    {"norm.", norm},
    {"norm_eps5.", norm},
    {"embedding.", embedding},
    {"linear.", linear},
    {"linear_gelu.", linear_gelu_erf},
    {"linear_gelu_tanh.", linear_gelu_tanh},
    {"gelu.", gelu_erf},
    {"gelu_tanh.", gelu_tanh},
    {"attention.", attention},
    {"attention_d32.", attention},
    {"span_loss.", span_loss},
    {"tanh.", tanh_alone},
    {"class_head.", head},
    {"regression_head.", head},
    {"adamw.", adamw},
    {"adamw_plain.", adamw},
    {"adamw_l2.", adamw},
    {"convert.", convert},
};
enum { CASES = sizeof cases / sizeof *cases };

static int run_case(int index, struct device *dev, const struct safetensors *file,
                    enum dtype compute) {
    struct golden_run g = {
        .op = {.dev = dev, .compute = compute}, .file = file, .prefix = cases[index].prefix};
    op_begin(&g.op);
    cases[index].run(&g);
    op_end(&g.op);
    if (g.op.failure[0] != '\0') {
        print_error("%s %s, %s: %s\n", cases[index].prefix, dtype_name(compute), dev->describe(dev),
                    g.op.failure);
    }
    return g.op.failure[0] != '\0';
}

static void against_pytorch(void **state) {
    const char *instructions = *state;
    const struct device_options options = {.threads = 2, .instructions = instructions};
    struct device *dev = NULL;
    struct berth_error error;
    enum berth_status status = device_cpu_open(&options, &dev, &error);
    if (status == BERTH_UNAVAILABLE) {
        print_message("skipped: this processor does not run %s\n", instructions);
        skip();
    }
    assert_int_equal(status, BERTH_OK);
    struct safetensors file;
    golden_file_open(&file, BERTH_TEST_SOURCE_DIR "/tests/golden/ops.safetensors");
    int failures = 0;
    for (int i = 0; i < CASES; i++) {
        failures += run_case(i, dev, &file, DTYPE_F32);
        failures += run_case(i, dev, &file, DTYPE_BF16);
    }
    safetensors_close(&file);
    dev->close(dev);
    assert_int_equal(failures, 0);
}

// Every case must be run by a test.
static void every_tensor_belongs_to_a_case(void **state) {
    struct safetensors file;
    golden_file_open(&file, BERTH_TEST_SOURCE_DIR "/tests/golden/ops.safetensors");
    for (size_t t = 0; t < file.count; t++) {
        int known = 0;
        for (int i = 0; i < CASES; i++) {
            known |= strncmp(file.entries[t].name, cases[i].prefix, strlen(cases[i].prefix)) == 0;
        }
        if (!known) {
            fail_msg("no case reads %s", file.entries[t].name);
        }
    }
    safetensors_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EACH_INSTRUCTION_SET(against_pytorch),
        cmocka_unit_test(every_tensor_belongs_to_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
