// SPDX-License-Identifier: Apache-2.0
#include "train/bench/bench_layer.h"

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

// --- the batch ----------------------------------------------------------------------------------

// Sequences of one length with the same masked positions and words from the whole vocabulary.
struct made {
    const struct bench_geometry *g;
    int32_t *ids;        // [rows]
    int8_t *type_ids;    // [length]
    uint16_t *positions; // [masked]
    int32_t masked;      // per sequence
};

static struct packer_sequence get(const void *data, size_t index) {
    const struct made *made = data;
    const int64_t first = (int64_t)index * made->g->length, left = made->g->rows - first;
    const int64_t length = left < made->g->length ? left : made->g->length;
    return (struct packer_sequence){.ids = made->ids + first,
                                    .type_ids = made->type_ids,
                                    .length = (int32_t)length,
                                    .masked_positions = made->positions,
                                    .masked_labels = made->ids + first,
                                    .masked_count = length == made->g->length ? made->masked : 0};
}

static enum berth_status fill_made(struct made *made, struct berth_error *error) {
    const int64_t rows = made->g->rows, length = made->g->length;
    made->masked = (int32_t)(length * 15 / 100);
    made->ids = memory_array((size_t)rows, sizeof *made->ids);
    made->type_ids = memory_array_zeroed((size_t)length, sizeof *made->type_ids);
    made->positions = memory_array((size_t)made->masked, sizeof *made->positions);
    if (made->ids == NULL || made->type_ids == NULL || made->positions == NULL) {
        return error_no_memory(error, (size_t)rows * sizeof *made->ids, "the benchmark's batch");
    }
    for (int64_t row = 0; row < rows; row++) {
        made->ids[row] = (int32_t)(row * 7919 % made->g->vocabulary);
    }
    for (int32_t i = 0; i < made->masked; i++) {
        made->positions[i] = (uint16_t)(i * length / made->masked);
    }
    return BERTH_OK;
}

static enum berth_status pack(struct bench_layer *b, const struct made *made,
                              struct berth_error *error) {
    const size_t count = (size_t)((b->g.rows + b->g.length - 1) / b->g.length);
    const struct packer_source source = {.get = get, .data = made, .count = count};
    uint32_t *order = memory_array(count, sizeof *order);
    if (order == NULL) {
        return error_no_memory(error, count * sizeof *order, "the benchmark's batch");
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    const struct batch_extent extent = packer_extent(&source, order, count);
    enum berth_status status;
    TRY_DONE(packer_init(&b->packer, &extent, b->dev->wants_word_rows, error));
    TRY_DONE(device_batch_init(&b->device_batch, b->dev, &extent, error));
    packer_fill(&b->packer, &source, order, count, 0);
    b->batch = *device_batch_upload(&b->device_batch, &b->packer.batch);
    b->g.rows = b->batch.row_count;
    b->masked = batch_round(b->batch.masked_count);
    b->pooled = batch_round(b->batch.sequence_count);
done:
    memory_free(order);
    return status;
}

static enum berth_status make_batch(struct bench_layer *b, struct berth_error *error) {
    struct made made = {.g = &b->g};
    enum berth_status status = fill_made(&made, error);
    if (status == BERTH_OK) {
        status = pack(b, &made, error);
    }
    memory_free(made.ids);
    memory_free(made.type_ids);
    memory_free(made.positions);
    return status;
}

// --- the matrices -------------------------------------------------------------------------------

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
    b->range = arena_take(&b->memory, sizeof *b->range);
    b->blocks = arena_take(&b->memory, 2 * sizeof *b->blocks);
    b->sums = arena_take(&b->memory,
                         (size_t)(2 * device_sum_blocks(b->parameter_count)) * sizeof *b->sums);
    b->stats = arena_take(&b->memory, sizeof *b->stats);
    b->found = arena_take(&b->memory, sizeof *b->found);
    b->lamb = arena_take(&b->memory, sizeof *b->lamb);
}

enum { PATTERN = 4096 }; // random numbers, repeated in every matrix

static void carve_all(struct bench_layer *b) {
    b->memory.used = 0;
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
    const struct device_range range = {.count = b->parameter_count, .weight_decay = 0.01};
    const int64_t blocks[] = {0, device_sum_blocks(b->parameter_count)};
    b->dev->upload(b->dev, b->stats, &one, sizeof one);
    b->dev->upload(b->dev, b->range, &range, sizeof range);
    b->dev->upload(b->dev, b->blocks, blocks, sizeof blocks);
}

enum berth_status bench_layer_open(struct bench_layer *b, struct device *dev,
                                   const struct bench_geometry *geometry,
                                   struct berth_error *error) {
    *b = (struct bench_layer){.dev = dev, .g = *geometry};
    TRY(make_batch(b, error));
    carve_all(b);
    b->memory.size = b->memory.used;
    b->memory.base = b->dev->memory_new(b->dev, b->memory.size);
    if (b->memory.base == NULL) {
        return error_no_memory(error, b->memory.size, "the benchmark's matrices");
    }
    carve_all(b);
    const struct device_shape shape = {
        .batch = {b->batch.row_count, b->batch.sequence_count, b->batch.masked_count, b->g.length},
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
    if (b->memory.base != NULL) {
        b->dev->memory_free(b->dev, b->memory.base, b->memory.size);
    }
    device_batch_done(&b->device_batch);
    packer_done(&b->packer);
}
