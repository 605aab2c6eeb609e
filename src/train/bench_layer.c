// SPDX-License-Identifier: Apache-2.0
#include "train/bench_layer.h"

#include "core/error.h"
#include "core/memory.h"

static struct mat matrix(struct bench_layer *b, int64_t rows, int64_t cols, enum dtype dtype) {
    struct mat m = mat_of(NULL, rows, cols, dtype);
    m.data = arena_take(&b->memory, (size_t)(rows * cols) * dtype_size(dtype));
    return m;
}

static float *vector(struct bench_layer *b, int64_t count) {
    return arena_take(&b->memory, (size_t)count * sizeof(float));
}

static int32_t *integers(struct bench_layer *b, int64_t count) {
    return arena_take(&b->host, (size_t)count * sizeof(int32_t));
}

static void carve_batch(struct bench_layer *b) {
    const int64_t rows = b->g.rows, sequences = (rows + b->g.length - 1) / b->g.length;
    int32_t *ids[4], *starts = integers(b, sequences + 1), *labels = integers(b, sequences);
    int64_t *places = arena_take(&b->host, (size_t)sequences * sizeof *places);
    for (int i = 0; i < 4; i++) {
        ids[i] = integers(b, rows);
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
    for (int64_t r = 0; b->host.base != NULL && r < rows; r++) {
        ids[0][r] = (int32_t)(r * 7919 % b->g.vocabulary);
        ids[2][r] = (int32_t)(r % b->g.length);
        ids[3][r] = (int32_t)(r / b->g.length);
        starts[r / b->g.length + 1] = (int32_t)(r + 1);
    }
}

// Rows of first tokens and of pre-training's masked tokens, 15 of 100.
static void carve_rows(struct bench_layer *b) {
    b->masked = batch_round(b->g.rows * 15 / 100);
    b->pooled = batch_round(b->batch.sequence_count);
    b->masked_rows = integers(b, b->masked);
    b->word_labels = integers(b, b->masked);
    b->targets = arena_take(&b->host, (size_t)b->pooled * sizeof *b->targets);
    for (int64_t i = 0; b->host.base != NULL && i < b->masked; i++) {
        b->masked_rows[i] = (int32_t)(i * b->g.rows / b->masked);
    }
}

static void carve_decoder(struct bench_layer *b) {
    const struct bench_geometry *g = &b->g;
    b->words = matrix(b, g->vocabulary, g->hidden, g->compute);
    b->word_logits = matrix(b, b->masked, g->vocabulary, DTYPE_F32);
    b->dword_logits = b->word_logits;
    if (g->compute != DTYPE_F32) {
        b->dword_logits = matrix(b, b->masked, g->vocabulary, g->compute);
    }
    b->word_bias = vector(b, g->vocabulary);
}

static void carve_layer(struct bench_layer *b) {
    const struct bench_geometry *g = &b->g;
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
}

static void carve_optimizer(struct bench_layer *b) {
    const struct bench_geometry *g = &b->g;
    b->parameter_count = 4 * g->hidden * g->hidden + 2 * g->hidden * g->intermediate;
    for (int i = 0; i < 4; i++) {
        b->optimizer[i] = vector(b, b->parameter_count);
    }
    b->copy = matrix(b, 1, b->parameter_count, g->compute);
    b->compute_copy = g->compute == DTYPE_F32 ? b->none : b->copy;
    b->stats = arena_take(&b->memory, sizeof *b->stats);
    b->found = arena_take(&b->memory, sizeof *b->found);
    b->lamb = arena_take(&b->memory, sizeof *b->lamb);
}

enum { PATTERN = 4096 }; // numbers that repeat in every matrix

static void carve_all(struct bench_layer *b) {
    b->memory.used = b->host.used = 0;
    carve_batch(b);
    carve_rows(b);
    carve_decoder(b);
    carve_layer(b);
    carve_optimizer(b);
    b->pattern = vector(b, PATTERN);
}

static void upload_pattern(struct bench_layer *b, double size) {
    float numbers[PATTERN];
    uint64_t index = 0;
    for (int i = 0; i < PATTERN; i++) {
        numbers[i] = (float)(size * ((double)rng_draw(5, 3, &index) / 2147483648.0 - 1.0));
    }
    b->dev->upload(b->dev, b->pattern, numbers, sizeof numbers);
}

static void fill(struct bench_layer *b, struct mat m) {
    const int64_t count = m.rows * m.cols;
    for (int64_t i = 0; i < count; i += PATTERN) {
        const int64_t piece = count - i < PATTERN ? count - i : PATTERN;
        const struct mat all = mat_of(m.data, 1, count, m.dtype);
        b->dev->convert(b->dev, mat_columns(all, i, piece), b->pattern);
    }
}

static void fill_all(struct bench_layer *b) {
    const struct mat normal[] = {b->x, b->x2, b->wide, b->wide2, b->qkv, b->dqkv, b->f32, b->f32_2};
    const struct mat small[] = {b->w, b->w_wide, b->w_back, b->w_qkv, b->tables, b->words};
    const struct grad_stats one = {1.0};
    upload_pattern(b, 1.0);
    for (size_t i = 0; i < sizeof normal / sizeof *normal; i++) {
        fill(b, normal[i]);
    }
    upload_pattern(b, 0.04);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        fill(b, small[i]);
    }
    b->dev->upload(b->dev, b->stats, &one, sizeof one);
}

enum berth_status bench_layer_open(struct bench_layer *b, struct device *dev,
                                   const struct bench_geometry *geometry,
                                   struct berth_error *error) {
    *b = (struct bench_layer){.dev = dev, .g = *geometry};
    carve_all(b);
    b->memory.size = b->memory.used;
    b->host.size = b->host.used;
    b->memory.base = b->dev->memory_new(b->dev, b->memory.size);
    b->host.base = memory_array_zeroed(1, b->host.size);
    if (b->memory.base == NULL || b->host.base == NULL) {
        return error_no_memory(error, b->memory.size + b->host.size, "the benchmark's matrices");
    }
    carve_all(b);
    const struct device_shape shape = {.max_rows = b->g.rows,
                                       .max_sequences = b->batch.sequence_count,
                                       .max_length = b->g.length,
                                       .hidden = b->g.hidden,
                                       .intermediate = b->g.intermediate,
                                       .heads = b->g.heads,
                                       .vocabulary = b->g.vocabulary,
                                       .decoder_rows = b->masked,
                                       .compute = b->g.compute,
                                       .training = 1};
    TRY(b->dev->reserve(b->dev, &shape, error));
    fill_all(b);
    return b->dev->status(b->dev, error);
}

void bench_layer_close(struct bench_layer *b) {
    b->dev->memory_free(b->dev, b->memory.base, b->memory.size);
    memory_free(b->host.base);
}
