// SPDX-License-Identifier: Apache-2.0
// The operations are timed through the device contract, on the data of an ordinary batch, each
// after one run that is left out. With one thread the clock is that thread's processor time, which
// other programs do not disturb; with more it is the wall clock.
#include "cpu/bench_cpu.h"

#include "core/error.h"
#include "cpu/cpu.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(const struct cpu *cpu) {
    struct timespec t;
    clock_gettime(cpu->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_peak(struct device *dev, enum dtype dtype, double seconds) {
    struct cpu *cpu = cpu_of(dev);
    double (*loop)(int64_t) = dtype == DTYPE_F32 ? cpu->kernels->peak_f32 : cpu->kernels->peak_bf16;
    const int64_t rounds = 100000;
    double best = 0, started = now(cpu);
    do {
        double flops = 0, before = now(cpu);
#pragma omp parallel num_threads(cpu->threads) reduction(+ : flops)
        flops += loop(rounds);
        double rate = flops / (now(cpu) - before);
        best = rate > best ? rate : best;
    } while (now(cpu) - started < seconds);
    return best;
}

double bench_bandwidth(struct device *dev, double seconds) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t count = (int64_t)64 << 20;
    float *block = dev->memory_new(dev, (size_t)count * sizeof *block);
    if (block == NULL) {
        return 0;
    }
    dev->zero(dev, block, (size_t)count * sizeof *block);
    struct grad_stats stats;
    double best = 0, started = now(cpu);
    do {
        double before = now(cpu);
        dev->grad_norm(dev, &stats, block, count, 1.0);
        double rate = (double)count * sizeof *block / (now(cpu) - before);
        best = rate > best ? rate : best;
    } while (now(cpu) - started < seconds);
    dev->memory_free(dev, block, (size_t)count * sizeof *block);
    return best;
}

// --- the data of one layer ----------------------------------------------------------------------

struct bench {
    struct device *dev;
    struct bench_geometry g;
    struct batch batch;
    char *memory;
    size_t bytes, used;
    int repeats;
    struct bench_line *lines;
    int count;

    struct mat x, x2, wide, wide2, qkv, dqkv, f32, f32_2, logits, dlogits, none;
    struct mat word_logits, dword_logits; // [rows of masked tokens, V] f32 and in the compute dtype
    struct mat words;                     // [V, H] the word table as the decoder reads it
    struct mat w, w_wide, w_back, w_qkv, dw; // weights [H, H], [I, H], [H, I], [3H, H]; dw any
    struct mat tables;                       // [V, H] f32
    float *rstd, *lse, *bias, *dbias, *losses, *word_bias;
    int32_t *word_labels;
    float *optimizer[4];
    struct mat compute_copy;
    int64_t parameter_count;
    struct grad_stats stats;
};

// With a NULL base only the size is counted.
static void *carve(struct bench *b, size_t bytes) {
    void *block = b->memory == NULL ? NULL : b->memory + b->used;
    b->used += (bytes + 63) / 64 * 64;
    return block;
}

static struct mat matrix(struct bench *b, int64_t rows, int64_t cols, enum dtype dtype) {
    struct mat m = mat_of(NULL, rows, cols, dtype);
    m.data = carve(b, (size_t)(rows * cols) * dtype_size(dtype));
    return m;
}

static float *vector(struct bench *b, int64_t count) {
    return carve(b, (size_t)count * sizeof(float));
}

static void carve_batch(struct bench *b) {
    const int64_t rows = b->g.rows, sequences = (rows + b->g.length - 1) / b->g.length;
    int32_t *ids[4], *starts = carve(b, (size_t)(sequences + 1) * sizeof *starts);
    int32_t *labels = carve(b, (size_t)sequences * sizeof *labels);
    int64_t *places = carve(b, (size_t)sequences * sizeof *places);
    for (int i = 0; i < 4; i++) {
        ids[i] = carve(b, (size_t)rows * sizeof **ids);
    }
    b->batch = (struct batch){
        .token_count = rows,
        .row_count = rows,
        .sequence_count = sequences,
        .max_length = b->g.length,
        .ids = ids[0],
        .type_ids = ids[1],
        .positions = ids[2],
        .sequences = ids[3],
        .cu_seqlens = starts,
        .places = places,
        .start_positions = labels,
        .end_positions = labels,
    };
    for (int64_t r = 0; b->memory != NULL && r < rows; r++) {
        ids[0][r] = (int32_t)(r * 7919 % b->g.vocabulary);
        ids[2][r] = (int32_t)(r % b->g.length);
        ids[3][r] = (int32_t)(r / b->g.length);
        starts[r / b->g.length + 1] = (int32_t)(r + 1);
    }
}

// Of pre-training's decoder: 15 of 100 tokens are masked.
static int64_t masked_rows(const struct bench_geometry *g) {
    return batch_round(g->rows * 15 / 100);
}

static void carve_decoder(struct bench *b) {
    const struct bench_geometry *g = &b->g;
    const int64_t masked = masked_rows(g);
    b->words = matrix(b, g->vocabulary, g->hidden, g->compute);
    b->word_logits = matrix(b, masked, g->vocabulary, DTYPE_F32);
    b->dword_logits = b->word_logits;
    if (g->compute != DTYPE_F32) {
        b->dword_logits = matrix(b, masked, g->vocabulary, g->compute);
    }
    b->word_bias = vector(b, g->vocabulary);
    b->word_labels = carve(b, (size_t)masked * sizeof *b->word_labels);
}

static void carve_all(struct bench *b) {
    const struct bench_geometry *g = &b->g;
    b->used = 0;
    carve_batch(b);
    carve_decoder(b);
    b->x = matrix(b, g->rows, g->hidden, g->compute);
    b->x2 = matrix(b, g->rows, g->hidden, g->compute);
    b->wide = matrix(b, g->rows, g->intermediate, g->compute);
    b->wide2 = matrix(b, g->rows, g->intermediate, g->compute);
    b->qkv = matrix(b, g->rows, 3 * g->hidden, g->compute);
    b->dqkv = matrix(b, g->rows, 3 * g->hidden, g->compute);
    b->f32 = matrix(b, g->rows, g->hidden, DTYPE_F32);
    b->f32_2 = matrix(b, g->rows, g->hidden, DTYPE_F32);
    b->logits = matrix(b, g->rows, 2, DTYPE_F32);
    b->dlogits = matrix(b, g->rows, 2, g->compute);
    b->w = matrix(b, g->hidden, g->hidden, g->compute);
    b->w_wide = matrix(b, g->intermediate, g->hidden, g->compute);
    b->w_back = matrix(b, g->hidden, g->intermediate, g->compute);
    b->w_qkv = matrix(b, 3 * g->hidden, g->hidden, g->compute);
    b->dw = matrix(b, g->intermediate + 3 * g->hidden, g->intermediate, DTYPE_F32);
    b->tables = matrix(b, g->vocabulary, g->hidden, DTYPE_F32);
    b->rstd = vector(b, g->rows);
    b->lse = vector(b, g->rows * g->heads);
    b->bias = vector(b, g->intermediate + 3 * g->hidden);
    b->dbias = vector(b, g->intermediate + 3 * g->hidden);
    b->losses = vector(b, g->rows);
    b->parameter_count = 4 * g->hidden * g->hidden + 2 * g->hidden * g->intermediate;
    for (int i = 0; i < 4; i++) {
        b->optimizer[i] = vector(b, b->parameter_count);
    }
    b->compute_copy = matrix(b, 1, b->parameter_count, g->compute);
    if (g->compute == DTYPE_F32) {
        b->compute_copy = b->none;
    }
}

static void fill(struct bench *b, struct mat m, double size) {
    float row[256];
    uint64_t index = 0;
    const int64_t count = m.rows * m.cols;
    for (int i = 0; i < 256; i++) {
        row[i] = (float)(size * ((double)rng_draw(5, 3, &index) / 2147483648.0 - 1.0));
    }
    for (int64_t i = 0; i < count; i += 256) {
        int64_t some = cpu_piece(i, count, 256);
        struct mat to = {(char *)m.data + (size_t)i * dtype_size(m.dtype), 1, some, some, m.dtype};
        cpu_of(b->dev)->kernels->copy(to, mat_of(row, 1, some, DTYPE_F32));
    }
}

static enum berth_status bench_open(struct bench *b, struct berth_error *error) {
    carve_all(b);
    b->bytes = b->used;
    b->memory = b->dev->memory_new(b->dev, b->bytes);
    if (b->memory == NULL) {
        return error_no_memory(error, b->bytes, "the benchmark's matrices");
    }
    carve_all(b);
    const struct mat normal[] = {b->x, b->x2, b->wide, b->wide2, b->qkv, b->dqkv, b->f32, b->f32_2};
    for (size_t i = 0; i < sizeof normal / sizeof *normal; i++) {
        fill(b, normal[i], 1.0);
    }
    const struct mat small[] = {b->w, b->w_wide, b->w_back, b->w_qkv, b->tables, b->words};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        fill(b, small[i], 0.04);
    }
    for (int i = 0; i < 4; i++) {
        b->dev->zero(b->dev, b->optimizer[i], (size_t)b->parameter_count * sizeof(float));
    }
    b->stats.sum_squares = 1.0;
    const struct device_shape shape = {
        b->g.rows,  b->batch.sequence_count, b->g.length,        b->g.hidden,  b->g.intermediate,
        b->g.heads, b->g.vocabulary,         masked_rows(&b->g), b->g.compute, 1};
    return b->dev->reserve(b->dev, &shape, error);
}

// --- the operations -----------------------------------------------------------------------------

typedef void operation(struct bench *b);

static void measure(struct bench *b, const char *name, operation *run, double flops, double bytes) {
    const struct cpu *cpu = cpu_of(b->dev);
    struct bench_line *line = &b->lines[b->count++];
    snprintf(line->name, sizeof line->name, "%s", name);
    line->flops = flops;
    line->bytes = bytes;
    line->seconds = 1e30;
    run(b);
    for (int i = 0; i < b->repeats; i++) {
        double before = now(cpu);
        run(b);
        double seconds = now(cpu) - before;
        line->seconds = seconds < line->seconds ? seconds : line->seconds;
    }
}

static struct dropout tenth(enum rng_site site) {
    return (struct dropout){1, 1, 1, site, rng_dropout_threshold(0.1)};
}

static struct mat compute_of(const struct bench *b) {
    return b->g.compute == DTYPE_F32 ? b->none : b->x2;
}

static void embed_forward(struct bench *b) {
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

static void embed_backward(struct bench *b) {
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

static void norm_forward(struct bench *b) {
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

static void norm_backward(struct bench *b) {
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

static void qkv_forward(struct bench *b) {
    b->dev->linear_forward(b->dev, b->qkv, b->x, b->w_qkv, b->bias);
}

static void projection_forward(struct bench *b) {
    b->dev->linear_forward(b->dev, b->x2, b->x, b->w, b->bias);
}

static void output_forward(struct bench *b) {
    b->dev->linear_forward(b->dev, b->x2, b->wide, b->w_back, b->bias);
}

static void head_forward(struct bench *b) {
    b->dev->linear_forward(b->dev, b->logits, b->x, mat_rows(b->w, 0, 2), b->bias);
}

static void gelu_forward(struct bench *b) {
    b->dev->linear_gelu_forward(b->dev, b->wide, b->wide2, b->x, b->w_wide, b->bias,
                                ACTIVATION_GELU_ERF);
}

static void qkv_backward_input(struct bench *b) {
    b->dev->linear_backward_input(b->dev, b->x2, b->dqkv, b->w_qkv);
}

static void projection_backward_input(struct bench *b) {
    b->dev->linear_backward_input(b->dev, b->x2, b->x, b->w);
}

static void inner_backward_input(struct bench *b) {
    b->dev->linear_backward_input(b->dev, b->x2, b->wide, b->w_wide);
}

static void gelu_backward(struct bench *b) {
    b->dev->linear_gelu_backward(b->dev, b->wide, b->dbias, b->x, b->w_back, b->wide2,
                                 ACTIVATION_GELU_ERF);
}

static struct mat gradient(const struct bench *b, int64_t rows, int64_t cols) {
    return mat_of(b->dw.data, rows, cols, DTYPE_F32);
}

static void qkv_backward_weight(struct bench *b) {
    b->dev->linear_backward_weight(b->dev, gradient(b, 3 * b->g.hidden, b->g.hidden), b->dbias,
                                   b->dqkv, b->x);
}

static void projection_backward_weight(struct bench *b) {
    b->dev->linear_backward_weight(b->dev, gradient(b, b->g.hidden, b->g.hidden), NULL, b->x2,
                                   b->x);
}

static void inner_backward_weight(struct bench *b) {
    b->dev->linear_backward_weight(b->dev, gradient(b, b->g.intermediate, b->g.hidden), NULL,
                                   b->wide, b->x);
}

static void output_backward_weight(struct bench *b) {
    b->dev->linear_backward_weight(b->dev, gradient(b, b->g.hidden, b->g.intermediate), NULL, b->x,
                                   b->wide);
}

static void attention_forward(struct bench *b) {
    const struct attention_args args = {b->x2, b->lse, b->qkv, b->g.heads,
                                        tenth(RNG_SITE_ATTENTION)};
    b->dev->attention_forward(b->dev, &args, &b->batch);
}

static void attention_backward(struct bench *b) {
    const struct attention_grad_args args = {
        b->dqkv, b->x, b->x2, b->lse, b->qkv, b->g.heads, tenth(RNG_SITE_ATTENTION)};
    b->dev->attention_backward(b->dev, &args, &b->batch);
}

static void span_loss(struct bench *b) {
    b->dev->span_loss(b->dev, b->dlogits, b->losses, b->logits, 1.0f, &b->batch);
}

static void decoder_forward(struct bench *b) {
    b->dev->linear_forward(b->dev, b->word_logits, mat_rows(b->x, 0, masked_rows(&b->g)), b->words,
                           b->word_bias);
}

static void word_loss(struct bench *b) {
    b->dev->class_loss(b->dev, b->dword_logits, b->losses, NULL, b->word_logits, 1.0f, b->word_labels,
                       masked_rows(&b->g));
}

static void decoder_backward_weight(struct bench *b) {
    b->dev->linear_backward_weight(b->dev, b->tables, b->word_bias, b->dword_logits,
                                   mat_rows(b->x, 0, masked_rows(&b->g)));
}

static void decoder_backward_input(struct bench *b) {
    b->dev->linear_backward_input(b->dev, mat_rows(b->f32_2, 0, masked_rows(&b->g)),
                                  b->dword_logits, b->words);
}

static void grad_norm(struct bench *b) {
    struct grad_stats stats;
    b->dev->grad_norm(b->dev, &stats, b->optimizer[1], b->parameter_count, 1.0);
}

static struct adamw_args adamw_args_of(const struct bench *b) {
    return (struct adamw_args){
        .parameters = b->optimizer[0],
        .gradients = b->optimizer[1],
        .first_moment = b->optimizer[2],
        .second_moment = b->optimizer[3],
        .compute = b->compute_copy,
        .count = b->parameter_count,
        .learning_rate = 1e-4,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-6,
        .weight_decay = 0.01,
        .correction1 = 1,
        .correction2 = 1,
        .gradient_scale = 1,
        .max_grad_norm = 1,
        .stats = &b->stats,
    };
}

static void adamw(struct bench *b) {
    const struct adamw_args args = adamw_args_of(b);
    b->dev->adamw(b->dev, &args);
}

static void lamb(struct bench *b) {
    struct lamb_stats result;
    const struct lamb_args args = {
        .adam = adamw_args_of(b), .min_coeff = 0.01, .max_coeff = 10, .result = &result};
    b->dev->lamb(b->dev, &args);
}

static void bench_products(struct bench *b) {
    const double r = (double)b->g.rows, h = (double)b->g.hidden, i = (double)b->g.intermediate;
    const double s = (double)dtype_size(b->g.compute);
    measure(b, "qkv forward", qkv_forward, 6 * r * h * h, s * (4 * r * h + 3 * h * h));
    measure(b, "projection forward", projection_forward, 2 * r * h * h, s * (2 * r * h + h * h));
    measure(b, "inner + gelu forward", gelu_forward, 2 * r * h * i,
            s * (r * h + 2 * r * i + h * i));
    measure(b, "output forward", output_forward, 2 * r * h * i, s * (r * h + r * i + h * i));
    measure(b, "span head forward", head_forward, 4 * r * h, s * r * h + 8 * r);
    measure(b, "output backward input + gelu", gelu_backward, 2 * r * h * i,
            s * (r * h + 2 * r * i + h * i));
    measure(b, "output backward weight", output_backward_weight, 2 * r * h * i,
            s * (r * h + r * i) + 8 * h * i);
    measure(b, "inner backward input", inner_backward_input, 2 * r * h * i,
            s * (r * h + r * i + h * i));
    measure(b, "inner backward weight", inner_backward_weight, 2 * r * h * i,
            s * (r * h + r * i) + 8 * h * i);
    measure(b, "projection backward input", projection_backward_input, 2 * r * h * h,
            s * (2 * r * h + h * h));
    measure(b, "projection backward weight", projection_backward_weight, 2 * r * h * h,
            2 * s * r * h + 8 * h * h);
    measure(b, "qkv backward input", qkv_backward_input, 6 * r * h * h,
            s * (4 * r * h + 3 * h * h));
    measure(b, "qkv backward weight + bias", qkv_backward_weight, 6 * r * h * h,
            4 * s * r * h + 24 * h * h);
}

// Pre-training's decoder for the masked tokens of these rows.
static void bench_decoder(struct bench *b) {
    const double m = (double)masked_rows(&b->g), h = (double)b->g.hidden;
    const double v = (double)b->g.vocabulary, s = (double)dtype_size(b->g.compute);
    measure(b, "decoder forward", decoder_forward, 2 * m * v * h, s * (m + v) * h + 4 * m * v);
    measure(b, "word loss", word_loss, 0, (4 + s) * m * v);
    measure(b, "decoder backward weight + bias", decoder_backward_weight, 2 * m * v * h,
            s * m * (v + h) + 8 * v * h);
    measure(b, "decoder backward input", decoder_backward_input, 2 * m * v * h,
            s * (m + h) * v + 4 * m * h);
}

static void bench_others(struct bench *b) {
    const double r = (double)b->g.rows, h = (double)b->g.hidden, l = (double)b->g.length;
    const double s = (double)dtype_size(b->g.compute), n = (double)b->parameter_count;
    const double copy = b->g.compute == DTYPE_F32 ? 0 : s;
    measure(b, "attention forward", attention_forward, 4 * r * l * h, s * 4 * r * h);
    measure(b, "attention backward", attention_backward, 8 * r * l * h, s * 8 * r * h);
    measure(b, "embed forward", embed_forward, 0, r * h * (12 + 4 + s + copy));
    measure(b, "norm forward", norm_forward, 0, r * h * (8 + 2 * s + copy));
    measure(b, "norm backward", norm_backward, 0, r * h * (8 + 2 * s));
    measure(b, "embed backward", embed_backward, 0, r * h * (8 + 2 * s + 4 + 8));
    measure(b, "span loss", span_loss, 0, r * 2 * (4 + s));
    measure(b, "gradient norm (one layer)", grad_norm, 0, 4 * n);
    measure(b, "adamw (one layer)", adamw, 0, n * (32 + copy));
    measure(b, "lamb (one layer)", lamb, 0, n * (44 + copy));
}

static enum berth_status bench_run(struct bench *b, int others, int *count,
                                   struct berth_error *error) {
    enum berth_status status = bench_open(b, error);
    if (status == BERTH_OK) {
        bench_products(b);
        bench_decoder(b);
        if (others) {
            bench_others(b);
        }
        status = b->dev->status(b->dev, error);
    }
    *count = b->count;
    b->dev->memory_free(b->dev, b->memory, b->bytes);
    return status;
}

enum berth_status bench_ops(struct device *dev, const struct bench_geometry *geometry, int repeats,
                            struct bench_line lines[BENCH_LINES], int *count,
                            struct berth_error *error) {
    struct bench b = {.dev = dev, .g = *geometry, .repeats = repeats, .lines = lines};
    return bench_run(&b, 1, count, error);
}

enum berth_status bench_gemm(struct device *dev, const struct bench_geometry *geometry, int repeats,
                             struct bench_line lines[BENCH_LINES], int *count,
                             struct berth_error *error) {
    struct bench b = {.dev = dev, .g = *geometry, .repeats = repeats, .lines = lines};
    return bench_run(&b, 0, count, error);
}
