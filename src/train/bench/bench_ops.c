// SPDX-License-Identifier: Apache-2.0
// Times each operation on the data of a typical batch, after one run that is not timed, until the
// device's status reports completion.
#include "train/bench/bench_ops.h"

#include "train/bench/bench_layer.h"

#include <stdio.h>

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

clockid_t bench_clock(const struct device *dev, int threads) {
    return dev->is_host && threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
}

double bench_bandwidth(struct device *dev, clockid_t clock, double seconds) {
    const int64_t count = (int64_t)64 << 20;
    const size_t bytes = (size_t)count * sizeof(float);
    const struct device_range all = {.count = count};
    const size_t sums_bytes = (size_t)count / DEVICE_SUM_BLOCK * sizeof(double);
    const size_t whole = bytes + sums_bytes + sizeof all;
    char *block = dev->memory_new(dev, whole);
    if (block == NULL) {
        return 0;
    }
    double *sums = (double *)(void *)(block + bytes);
    struct device_range *range = (struct device_range *)(void *)(block + bytes + sums_bytes);
    dev->zero(dev, block, bytes);
    dev->upload(dev, range, &all, sizeof all);
    double best = 0, started = now(clock);
    do {
        double before = now(clock);
        dev->squares(dev, sums, (const float *)(void *)block, range, 1);
        (void)dev->status(dev, NULL); // waits
        double rate = (double)bytes / (now(clock) - before);
        best = rate > best ? rate : best;
    } while (now(clock) - started < seconds);
    dev->memory_free(dev, block, whole);
    return best;
}

// --- the operations -----------------------------------------------------------------------------

struct bench {
    struct bench_layer layer;
    struct bench_timing timing;
    struct bench_lines *lines;
    enum berth_status status; // first error of the device
    struct berth_error *error;
};

typedef void operation(const struct bench_layer *b);

// Does nothing after an error.
static void measure(struct bench *bench, const char *name, operation *run, double flops,
                    double bytes) {
    struct device *dev = bench->layer.dev;
    struct bench_line line = {.seconds = 1e30, .flops = flops, .bytes = bytes};
    snprintf(line.name, sizeof line.name, "%s", name);
    for (int i = 0; i <= bench->timing.repeats && bench->status == BERTH_OK; i++) {
        double before = now(bench->timing.clock);
        run(&bench->layer);
        bench->status = dev->status(dev, bench->error);
        double seconds = now(bench->timing.clock) - before;
        line.seconds = i > 0 && seconds < line.seconds ? seconds : line.seconds;
    }
    bench->lines->line[bench->lines->count++] = line;
}

static struct dropout tenth(enum rng_site site) {
    return (struct dropout){1, 1, 1, site, rng_dropout_threshold(0.1)};
}

static struct mat compute_of(const struct bench_layer *b) {
    return b->g.compute == DTYPE_F32 ? b->none : b->x2;
}

static void embed_forward(const struct bench_layer *b) {
    const struct embed_args args = {b->f32,
                                    compute_of(b),
                                    b->x,
                                    b->rstd,
                                    b->tables,
                                    b->tables,
                                    b->tables,
                                    b->bias,
                                    b->bias,
                                    1e-12f,
                                    tenth(RNG_SITE_EMBEDDING)};
    b->dev->embed_forward(b->dev, &args, &b->batch);
}

static void embed_backward(const struct bench_layer *b) {
    struct mat dtable = {b->dw.data, b->g.length, b->g.hidden, b->g.hidden, DTYPE_F32};
    const struct embed_grad_args args = {b->f32,
                                         b->x2,
                                         b->x,
                                         b->rstd,
                                         b->bias,
                                         b->tables,
                                         dtable,
                                         dtable,
                                         b->dbias,
                                         b->dbias,
                                         tenth(RNG_SITE_EMBEDDING),
                                         b->f32_2};
    b->dev->embed_backward(b->dev, &args, &b->batch);
}

static void norm_forward(const struct bench_layer *b) {
    const struct norm_args args = {.y = b->f32,
                                   .y_compute = compute_of(b),
                                   .xhat = b->x,
                                   .rstd = b->rstd,
                                   .x = b->x,
                                   .residual = b->f32_2,
                                   .gamma = b->bias,
                                   .beta = b->bias,
                                   .epsilon = 1e-12f,
                                   .dropout = tenth(RNG_SITE_OUTPUT)};
    b->dev->norm_forward(b->dev, &args, &b->batch);
}

static void norm_backward(const struct bench_layer *b) {
    const struct norm_grad_args args = {.dresidual = b->f32_2,
                                        .dx = b->x2,
                                        .dbias = b->dbias,
                                        .dy = b->f32,
                                        .xhat = b->x,
                                        .rstd = b->rstd,
                                        .gamma = b->bias,
                                        .dgamma = b->dbias,
                                        .dbeta = b->dbias,
                                        .dropout = tenth(RNG_SITE_OUTPUT)};
    b->dev->norm_backward(b->dev, &args, &b->batch);
}

static void qkv_forward(const struct bench_layer *b) {
    b->dev->linear_forward(b->dev, b->qkv, b->x, b->w_qkv, b->bias);
}

static void projection_forward(const struct bench_layer *b) {
    b->dev->linear_forward(b->dev, b->x2, b->x, b->w, b->bias);
}

static void output_forward(const struct bench_layer *b) {
    b->dev->linear_forward(b->dev, b->x2, b->wide, b->w_back, b->bias);
}

static void head_forward(const struct bench_layer *b) {
    b->dev->linear_forward(b->dev, b->logits, b->x, mat_rows(b->w, 0, 2), b->bias);
}

static void gelu_forward(const struct bench_layer *b) {
    b->dev->linear_gelu_forward(b->dev, b->wide, b->wide2, b->x, b->w_wide, b->bias,
                                ACTIVATION_GELU_ERF);
}

static void qkv_backward_input(const struct bench_layer *b) {
    b->dev->linear_backward_input(b->dev, b->x2, b->dqkv, b->w_qkv);
}

static void projection_backward_input(const struct bench_layer *b) {
    b->dev->linear_backward_input(b->dev, b->x2, b->x, b->w);
}

static void inner_backward_input(const struct bench_layer *b) {
    b->dev->linear_backward_input(b->dev, b->x2, b->wide, b->w_wide);
}

static void output_backward_gelu(const struct bench_layer *b) {
    b->dev->linear_gelu_backward(b->dev, b->wide, b->dbias, b->x, b->w_back, b->wide2,
                                 ACTIVATION_GELU_ERF);
}

static struct mat gradient(const struct bench_layer *b, int64_t rows, int64_t cols) {
    return mat_of(b->dw.data, rows, cols, DTYPE_F32);
}

static void qkv_backward_weight(const struct bench_layer *b) {
    b->dev->linear_backward_weight(b->dev, gradient(b, 3 * b->g.hidden, b->g.hidden), b->dbias,
                                   b->dqkv, b->x);
}

static void projection_backward_weight(const struct bench_layer *b) {
    b->dev->linear_backward_weight(b->dev, gradient(b, b->g.hidden, b->g.hidden), NULL, b->x2,
                                   b->x);
}

static void inner_backward_weight(const struct bench_layer *b) {
    b->dev->linear_backward_weight(b->dev, gradient(b, b->g.intermediate, b->g.hidden), NULL,
                                   b->wide, b->x);
}

static void output_backward_weight(const struct bench_layer *b) {
    b->dev->linear_backward_weight(b->dev, gradient(b, b->g.hidden, b->g.intermediate), NULL, b->x,
                                   b->wide);
}

static void attention_forward(const struct bench_layer *b) {
    const struct attention_args args = {b->x2, b->lse, b->qkv, b->g.heads,
                                        tenth(RNG_SITE_ATTENTION)};
    b->dev->attention_forward(b->dev, &args, &b->batch);
}

static void attention_backward(const struct bench_layer *b) {
    const struct attention_grad_args args = {
        b->dqkv, b->x, b->x2, b->lse, b->qkv, b->g.heads, tenth(RNG_SITE_ATTENTION)};
    b->dev->attention_backward(b->dev, &args, &b->batch);
}

static void span_loss(const struct bench_layer *b) {
    b->dev->span_loss(b->dev, b->dlogits, b->losses, b->logits, 1.0f, &b->batch);
}

static void decoder_forward(const struct bench_layer *b) {
    b->dev->linear_forward(b->dev, b->word_logits, mat_rows(b->x, 0, b->masked), b->words,
                           b->word_bias);
}

static void word_loss(const struct bench_layer *b) {
    b->dev->class_loss(b->dev, b->dword_logits, b->losses, NULL, b->word_logits, 1.0f,
                       b->batch.masked_labels, b->batch.masked_count);
}

static void decoder_backward_weight(const struct bench_layer *b) {
    b->dev->linear_backward_weight(b->dev, b->tables, b->word_bias, b->dword_logits,
                                   mat_rows(b->x, 0, b->masked));
}

static void decoder_backward_input(const struct bench_layer *b) {
    b->dev->linear_backward_input(b->dev, mat_rows(b->f32_2, 0, b->masked), b->dword_logits,
                                  b->words);
}

static void grad_norm(const struct bench_layer *b) {
    b->dev->squares(b->dev, b->sums, b->optimizer[1], b->range, 1);
    b->dev->norms(b->dev, b->found, b->sums, b->blocks, 1, 1.0);
}

static struct adamw_args adamw_args_of(const struct bench_layer *b) {
    return (struct adamw_args){
        .parameters = b->optimizer[0],
        .gradients = b->optimizer[1],
        .first_moment = b->optimizer[2],
        .second_moment = b->optimizer[3],
        .compute = b->compute_copy,
        .ranges = b->range,
        .range_count = 1,
        .learning_rate = 1e-4,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-6,
        .correction1 = 1,
        .correction2 = 1,
        .gradient_scale = 1,
        .max_grad_norm = 1,
        .stats = b->stats,
    };
}

static void adamw(const struct bench_layer *b) {
    const struct adamw_args args = adamw_args_of(b);
    b->dev->adamw(b->dev, &args);
}

static void lamb(const struct bench_layer *b) {
    const struct lamb_args args = {.adam = adamw_args_of(b),
                                   .sums = b->sums,
                                   .tensor_blocks = b->blocks,
                                   .min_coeff = 0.01,
                                   .max_coeff = 10,
                                   .stats = b->lamb};
    b->dev->lamb_moments(b->dev, &args.adam, b->sums);
    b->dev->lamb_apply(b->dev, &args);
}

static void add_losses(const struct bench_layer *b) {
    b->dev->add_losses(b->dev, b->sums, b->losses, b->batch.sequence_count, 1.0);
}

static void gather_rows(const struct bench_layer *b) {
    b->dev->gather_rows(b->dev, mat_rows(b->f32, 0, b->masked), b->f32_2, b->batch.masked_rows,
                        b->batch.masked_count);
}

static void scatter_rows(const struct bench_layer *b) {
    b->dev->scatter_rows(b->dev, b->f32_2, mat_rows(b->f32, 0, b->masked), b->batch.masked_rows,
                         b->batch.masked_count);
}

static void scatter_add_rows(const struct bench_layer *b) {
    b->dev->scatter_add_rows(b->dev, b->f32_2, mat_rows(b->f32, 0, b->masked), b->batch.masked_rows,
                             b->batch.masked_count);
}

static void transform_backward(const struct bench_layer *b) {
    b->dev->gelu_backward(b->dev, mat_rows(b->f32, 0, b->masked), b->dbias,
                          mat_rows(b->f32_2, 0, b->masked), ACTIVATION_GELU_ERF);
}

static void tanh_forward(const struct bench_layer *b) {
    const struct mat u = mat_rows(b->f32_2, 0, b->pooled);
    b->dev->tanh_forward(b->dev, mat_rows(b->f32, 0, b->pooled), u, u, tenth(RNG_SITE_HEAD),
                         &b->batch);
}

static void tanh_backward(const struct bench_layer *b) {
    const struct mat dy = mat_rows(b->f32, 0, b->pooled);
    b->dev->tanh_backward(b->dev, dy, dy, mat_rows(b->f32_2, 0, b->pooled), tenth(RNG_SITE_HEAD),
                          &b->batch);
}

static void squared_loss(const struct bench_layer *b) {
    const struct mat scores = mat_columns(mat_rows(b->logits, 0, b->pooled), 0, 1);
    b->dev->squared_loss(b->dev, scores, b->losses, scores, 1.0f, b->batch.targets,
                         b->batch.sequence_count);
}

static void sigmoid_loss(const struct bench_layer *b) {
    const struct mat scores = mat_columns(mat_rows(b->logits, 0, b->pooled), 0, 1);
    b->dev->sigmoid_loss(b->dev, scores, b->losses, scores, 1.0f, b->batch.targets,
                         b->batch.sequence_count);
}

static void convert(const struct bench_layer *b) {
    b->dev->convert(b->dev, b->copy, b->optimizer[0]);
}

// --- the lists ----------------------------------------------------------------------------------

static void bench_products(struct bench *bench) {
    const struct bench_layer *b = &bench->layer;
    const double r = (double)b->g.rows, h = (double)b->g.hidden, i = (double)b->g.intermediate;
    const double s = (double)dtype_size(b->g.compute);
    measure(bench, "qkv forward", qkv_forward, 6 * r * h * h, s * (4 * r * h + 3 * h * h));
    measure(bench, "projection forward", projection_forward, 2 * r * h * h,
            s * (2 * r * h + h * h));
    measure(bench, "inner + gelu forward", gelu_forward, 2 * r * h * i,
            s * (r * h + 2 * r * i + h * i));
    measure(bench, "output forward", output_forward, 2 * r * h * i, s * (r * h + r * i + h * i));
    measure(bench, "span head forward", head_forward, 4 * r * h, s * r * h + 8 * r);
    measure(bench, "output backward input + gelu", output_backward_gelu, 2 * r * h * i,
            s * (r * h + 2 * r * i + h * i));
    measure(bench, "output backward weight", output_backward_weight, 2 * r * h * i,
            s * (r * h + r * i) + 8 * h * i);
    measure(bench, "inner backward input", inner_backward_input, 2 * r * h * i,
            s * (r * h + r * i + h * i));
    measure(bench, "inner backward weight", inner_backward_weight, 2 * r * h * i,
            s * (r * h + r * i) + 8 * h * i);
    measure(bench, "projection backward input", projection_backward_input, 2 * r * h * h,
            s * (2 * r * h + h * h));
    measure(bench, "projection backward weight", projection_backward_weight, 2 * r * h * h,
            2 * s * r * h + 8 * h * h);
    measure(bench, "qkv backward input", qkv_backward_input, 6 * r * h * h,
            s * (4 * r * h + 3 * h * h));
    measure(bench, "qkv backward weight + bias", qkv_backward_weight, 6 * r * h * h,
            4 * s * r * h + 24 * h * h);
}

// Pre-training's decoder on the masked tokens of these rows.
static void bench_decoder(struct bench *bench) {
    const struct bench_layer *b = &bench->layer;
    const double m = (double)b->masked, h = (double)b->g.hidden;
    const double v = (double)b->g.vocabulary, s = (double)dtype_size(b->g.compute);
    measure(bench, "decoder forward", decoder_forward, 2 * m * v * h, s * (m + v) * h + 4 * m * v);
    measure(bench, "word loss", word_loss, 0, (4 + s) * m * v);
    measure(bench, "decoder backward weight + bias", decoder_backward_weight, 2 * m * v * h,
            s * m * (v + h) + 8 * v * h);
    measure(bench, "decoder backward input", decoder_backward_input, 2 * m * v * h,
            s * (m + h) * v + 4 * m * h);
}

// The heads of pre-training, classification and regression, without their products.
static void bench_heads(struct bench *bench) {
    const struct bench_layer *b = &bench->layer;
    const double m = (double)b->masked, c = (double)b->pooled;
    const double r = (double)b->g.rows, h = (double)b->g.hidden;
    measure(bench, "gather masked rows", gather_rows, 0, 8 * m * h);
    measure(bench, "scatter masked rows", scatter_rows, 0, 4 * (m + r) * h);
    measure(bench, "scatter and add masked rows", scatter_add_rows, 0, 12 * m * h);
    measure(bench, "transform's gelu backward", transform_backward, 0, 12 * m * h);
    measure(bench, "pooler's tanh forward", tanh_forward, 0, 12 * c * h);
    measure(bench, "pooler's tanh backward", tanh_backward, 0, 12 * c * h);
    measure(bench, "squared loss", squared_loss, 0, 16 * c);
    measure(bench, "sigmoid loss", sigmoid_loss, 0, 16 * c);
}

static void bench_others(struct bench *bench) {
    const struct bench_layer *b = &bench->layer;
    const double r = (double)b->g.rows, h = (double)b->g.hidden, l = (double)b->g.length;
    const double s = (double)dtype_size(b->g.compute), n = (double)b->parameter_count;
    const double copy = b->g.compute == DTYPE_F32 ? 0 : s;
    measure(bench, "attention forward", attention_forward, 4 * r * l * h, s * 4 * r * h);
    measure(bench, "attention backward", attention_backward, 8 * r * l * h, s * 8 * r * h);
    measure(bench, "embed forward", embed_forward, 0, r * h * (12 + 4 + s + copy));
    measure(bench, "norm forward", norm_forward, 0, r * h * (8 + 2 * s + copy));
    measure(bench, "norm backward", norm_backward, 0, r * h * (8 + 2 * s));
    measure(bench, "embed backward", embed_backward, 0, r * h * (8 + 2 * s + 4 + 8));
    measure(bench, "span loss", span_loss, 0, r * 2 * (4 + s));
    measure(bench, "sum of losses", add_losses, 0, 4 * (double)b->batch.sequence_count);
    bench_heads(bench);
    measure(bench, "gradient norm (one layer)", grad_norm, 0, 4 * n);
    measure(bench, "adamw (one layer)", adamw, 0, n * (32 + copy));
    measure(bench, "lamb (one layer)", lamb, 0, n * (44 + copy));
    measure(bench, "convert (one layer)", convert, 0, n * (4 + s));
}

typedef void bench_list(struct bench *bench);

static void bench_matrices(struct bench *bench) {
    bench_products(bench);
    bench_decoder(bench);
}

static void bench_all(struct bench *bench) {
    bench_matrices(bench);
    bench_others(bench);
}

static enum berth_status bench_list_run(struct bench *bench, bench_list *list, struct device *dev,
                                        const struct bench_geometry *geometry) {
    bench->lines->count = 0;
    bench->status = bench_layer_open(&bench->layer, dev, geometry, bench->error);
    if (bench->status == BERTH_OK) {
        list(bench);
    }
    bench_layer_close(&bench->layer);
    return bench->status;
}

enum berth_status bench_ops(struct device *dev, const struct bench_geometry *geometry,
                            struct bench_timing timing, struct bench_lines *lines,
                            struct berth_error *error) {
    struct bench bench = {.timing = timing, .lines = lines, .error = error};
    return bench_list_run(&bench, bench_all, dev, geometry);
}

enum berth_status bench_gemm(struct device *dev, const struct bench_geometry *geometry,
                             struct bench_timing timing, struct bench_lines *lines,
                             struct berth_error *error) {
    struct bench bench = {.timing = timing, .lines = lines, .error = error};
    return bench_list_run(&bench, bench_matrices, dev, geometry);
}
