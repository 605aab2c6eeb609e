// SPDX-License-Identifier: Apache-2.0
// Attention, one (sequence, head) per task, in blocks of query rows; scores are f32, probabilities
// have the compute dtype. The forward pass keeps the log-sum-exps and the dropout masks; the
// backward pass recomputes the probabilities:
//
//   Pd = dropout(P); O = Pd V; dPd = dO V^T; dP = dropout'(dPd)
//   dS = P * (dP - rowsum(P * dP)) / sqrt(D); dQ = dS K; dK = dS^T Q; dV = Pd^T dO
//
// rowsum(P * dP) equals rowsum(dO * O), but that would have to read O from memory.
//
// Products read the head's columns in place, and a block has so few rows that its scores stay in
// the L1 cache. Only if D is odd in bf16, whose products take pairs, are the head's columns copied
// and padded with a column of zeros.
#include "core/error.h"
#include "device/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define BLOCK_ROWS 32
#define LENGTH_UNIT 16  // columns of a vector
#define STRIP_TOKENS 32 // of a row of a tile, to which packed strips are padded

// A matrix [L, D] of the head, and its packed forms as operand b of products: rows for
// [*, D] x [D, L], columns for [*, L] x [L, D].
struct head {
    struct mat m;    // D is even in bf16
    struct mat copy; // memory for a padded copy, or empty
    void *rows, *columns;
};

// One thread's buffers for one task.
struct task {
    int64_t sequence, head;
    int64_t first, length; // the sequence's rows of the batch
    int64_t padded;        // the length rounded up
    int64_t hidden, head_size;
    struct head q, k, v, dout;
    struct mat p, ds;                 // [rows of a block, padded]
    struct mat scores, dp;            // the same, f32
    float *factors;                   // of the rows of a block
    uint16_t *drawn;                  // the masks of a block, if masks are not kept
    uint16_t *masks;                  // of all rows; NULL: not kept
    int64_t mask_words;               // of a row
    void *p_strips, *ds_strips;       // p and ds of all rows, transposed
    struct prefetch_queue prefetches; // those of the thread's next task
};

static int64_t round_length(int64_t length) {
    return cpu_round_up(length, LENGTH_UNIT);
}

// --- buffers ------------------------------------------------------------------------------------

// Allocates consecutive chunks of `memory`, or only counts their bytes (NULL).
struct carver {
    char *memory;
    size_t used;
};

static void *carve(struct carver *carver, int64_t bytes) {
    void *block = carver->memory == NULL ? NULL : carver->memory + carver->used;
    carver->used += (size_t)cpu_round_up(bytes, 64);
    return block;
}

static struct mat carve_mat(struct carver *carver, int64_t rows, int64_t cols, enum dtype dtype) {
    return mat_of(carve(carver, rows * cols * (int64_t)dtype_size(dtype)), rows, cols, dtype);
}

static void carve_head(struct carver *carver, struct head *head, const struct task *t,
                       enum dtype dtype) {
    const int64_t n = t->padded, size = (int64_t)dtype_size(dtype);
    // D, padded as products need it.
    const int64_t depth = dtype == DTYPE_F32 ? t->head_size : (t->head_size + 1) / 2 * 2;
    head->rows = carve(carver, n * depth * size);
    head->columns = carve(carver, n * round_length(t->head_size) * size);
    head->copy = (struct mat){0};
    if (depth != t->head_size) {
        head->copy = carve_mat(carver, n, depth, dtype);
    }
}

static void carve_task(struct task *t, struct carver *carver, enum dtype dtype) {
    const int64_t n = t->padded, rows = cpu_chunk_length(0, n, BLOCK_ROWS);
    const int64_t size = (int64_t)dtype_size(dtype);
    carve_head(carver, &t->q, t, dtype);
    carve_head(carver, &t->k, t, dtype);
    carve_head(carver, &t->v, t, dtype);
    carve_head(carver, &t->dout, t, dtype);
    t->p = carve_mat(carver, rows, n, dtype);
    t->ds = carve_mat(carver, rows, n, dtype);
    t->scores = carve_mat(carver, rows, n, DTYPE_F32);
    t->dp = carve_mat(carver, rows, n, DTYPE_F32);
    t->factors = carve(carver, rows * (int64_t)sizeof *t->factors);
    t->drawn = carve(carver, rows * t->mask_words * (int64_t)sizeof *t->drawn);
    t->p_strips = carve(carver, n * cpu_round_up(n, STRIP_TOKENS) * size);
    t->ds_strips = carve(carver, n * cpu_round_up(n, STRIP_TOKENS) * size);
}

static size_t task_bytes(int64_t max_length, int64_t head_size, enum dtype dtype) {
    struct task task = {.padded = round_length(max_length),
                        .head_size = head_size,
                        .mask_words = attention_mask_words(max_length)};
    struct carver counted = {.memory = NULL};
    carve_task(&task, &counted, dtype);
    return counted.used;
}

size_t cpu_attention_bytes(const struct cpu *cpu, const struct device_shape *shape) {
    return (size_t)cpu->threads *
           task_bytes(shape->batch.max_length, shape->hidden / shape->heads, shape->compute);
}

// Allocates the buffers; 0 after an error.
static int prepare(struct cpu *cpu, const struct batch *batch, int64_t head_size,
                   enum dtype dtype) {
    return cpu->status == BERTH_OK &&
           cpu_grow(cpu, (void **)&cpu->attention, &cpu->attention_bytes,
                    (size_t)cpu->threads * task_bytes(batch->max_length, head_size, dtype));
}

// --- products -----------------------------------------------------------------------------------

// The operands were packed, written or prefetched a moment ago.
static void multiply(struct cpu *cpu, struct task *t, struct product product, enum dtype dtype) {
    product.operands_cached = 1;
    product.prefetches = &t->prefetches;
    if (dtype == DTYPE_F32) {
        cpu->kernels->product_f32(&product);
    } else {
        cpu->kernels->product_bf16(&product);
    }
}

// c = x b^T, for some rows of the head
static void scores_of(struct cpu *cpu, struct task *t, struct mat c, struct mat x,
                      const struct head *b) {
    struct product product =
        product_of_rows(mat_columns(c, 0, t->length), x, b->rows, product_steps(x.cols, x.dtype));
    product.result_cached = 1;
    multiply(cpu, t, product, x.dtype);
}

// to = p b, for some rows of the head, each of which is multiplied by its factor (NULL: 1)
static void apply(struct cpu *cpu, struct task *t, struct mat to, struct mat p,
                  const float *factors, const struct head *b) {
    struct product product = product_of_rows(to, p, b->columns, product_steps(t->length, p.dtype));
    product.factors = factors;
    multiply(cpu, t, product, p.dtype);
}

// to = p^T b, p of all rows
static void apply_transposed(struct cpu *cpu, struct task *t, struct mat to, const void *strips,
                             const struct head *b) {
    const struct product product =
        product_of_strips(to, strips, b->columns, product_steps(t->length, to.dtype),
                          kernels_strips_are_tiles(cpu->kernels, to.dtype));
    multiply(cpu, t, product, to.dtype);
}

// --- tasks --------------------------------------------------------------------------------------

// The task's part of a matrix with one row per token; q, k and v are parts 0, 1 and 2 of qkv.
static struct mat slice(const struct task *t, struct mat m, int part) {
    return mat_columns(mat_rows(m, t->first, t->length), part * t->hidden + t->head * t->head_size,
                       t->head_size);
}

enum packing { PACK_ROWS = 1, PACK_COLUMNS = 2 };

// Loads rows of the batch as a matrix of the head, with the packed forms that are needed.
static void load_head(struct cpu *cpu, struct head *to, struct mat rows, unsigned packing) {
    to->m = rows;
    if (!mat_is_empty(to->copy)) {
        to->m = mat_rows(to->copy, 0, rows.rows);
        cpu_zero_rows(to->m, 0);
        cpu->kernels->copy(mat_columns(to->m, 0, rows.cols), rows);
    }
    if (packing & PACK_ROWS) {
        cpu->kernels->pack_rows(to->rows, to->m, 0, rows.rows);
    }
    if (packing & PACK_COLUMNS) {
        cpu->kernels->pack_columns(to->columns, rows, 0, rows.cols);
    }
}

static void add_prefetch(struct prefetch_queue *prefetches, struct mat rows) {
    const int64_t size = (int64_t)dtype_size(rows.dtype);
    prefetches->row[prefetches->parts] = rows.data;
    prefetches->stride[prefetches->parts++] = rows.stride * size;
    prefetches->bytes = rows.cols * size;
    prefetches->left = rows.rows;
}

// What the task's products prefetch: the operands of the task `next`. dcontext is empty in the
// forward pass.
static struct prefetch_queue prefetches_for(const struct task *next, struct mat qkv,
                                            struct mat dcontext) {
    struct prefetch_queue prefetches = {.parts = 0};
    for (int part = 0; part < 3; part++) {
        add_prefetch(&prefetches, slice(next, qkv, part));
    }
    if (!mat_is_empty(dcontext)) {
        add_prefetch(&prefetches, slice(next, dcontext, 0));
    }
    return prefetches;
}

// Prefetches the masks of the next block, or of the next head's first block, which are adjacent.
static void prefetch_masks(const struct attention_rows *rows, int to_write) {
    const int64_t words = rows->count * rows->mask_stride;
    for (int64_t word = words; word < 2 * words; word += 64 / (int64_t)sizeof *rows->masks) {
        if (to_write) {
            __builtin_prefetch(rows->masks + word, 1);
        } else {
            __builtin_prefetch(rows->masks + word, 0);
        }
    }
}

// The number of tasks that one thread takes at once and that prefetch for each other: not so many
// that other threads wait long at the end.
static int tasks_at_once(const struct cpu *cpu, const struct batch *batch, int64_t heads) {
    const int64_t fair = batch->sequence_count * heads / ((int64_t)8 * cpu->threads);
    return (int)(fair < 1 ? 1 : fair < heads ? fair : heads);
}

// A task without its buffers.
static struct task task_at(struct mat qkv, int64_t heads, const struct batch *batch,
                           int64_t index) {
    const int64_t s = index / heads;
    struct task t = {.sequence = s, .head = index % heads, .hidden = qkv.cols / 3};
    t.head_size = t.hidden / heads;
    t.first = batch->cu_seqlens[s];
    t.length = batch->cu_seqlens[s + 1] - t.first;
    t.padded = round_length(t.length);
    t.mask_words = attention_mask_words(t.length);
    return t;
}

// dcontext: empty for the forward pass.
static struct task task_of(struct cpu *cpu, struct mat qkv, struct mat dcontext, int64_t heads,
                           const struct batch *batch, int64_t index) {
    struct task t = task_at(qkv, heads, batch, index);
    struct carver carver = {cpu->attention +
                                (size_t)omp_get_thread_num() *
                                    (cpu->attention_bytes / (size_t)cpu->threads / 64 * 64),
                            0};
    carve_task(&t, &carver, qkv.dtype);
    // The task that the thread will probably take after this one, as the others take equally many.
    const int64_t at_once = tasks_at_once(cpu, batch, heads);
    const int64_t after =
        (index + 1) % at_once == 0 ? index + 1 + (cpu->threads - 1) * at_once : index + 1;
    if (after < batch->sequence_count * heads) {
        const struct task next = task_at(qkv, heads, batch, after);
        t.prefetches = prefetches_for(&next, qkv, dcontext);
    }
    return t;
}

// The task's kept masks (device/device.h); NULL: masks are not kept.
static uint16_t *masks_of(const struct task *t, const uint16_t *masks, const struct batch *batch,
                          int64_t heads) {
    const int64_t sequence = t->first * heads * attention_mask_words(batch->max_length);
    return masks == NULL
               ? NULL
               : (uint16_t *)(uintptr_t)masks + sequence + t->head * t->length * t->mask_words;
}

// The rows of the block that begins with row `first`.
static struct attention_rows block_of(const struct task *t, const struct batch *batch,
                                      const struct dropout *dropout, int64_t first) {
    const int drops = dropout->threshold != 0;
    return (struct attention_rows){
        .length = t->length,
        .stride = t->padded,
        .first = first,
        .count = cpu_chunk_length(first, t->length, t->scores.rows),
        .scale = (float)(1.0 / sqrt((double)t->head_size)),
        .head = (uint32_t)t->head,
        .global_index = batch->global_indices[t->sequence],
        .dropout = dropout,
        .keep_scale = drops ? rng_dropout_scale(dropout->threshold) : 1.0f,
        .masks = !drops             ? NULL
                 : t->masks == NULL ? t->drawn
                                    : t->masks + first * t->mask_words,
        .mask_stride = t->mask_words,
        .dtype = t->p.dtype,
    };
}

static struct mat rows_of(struct mat m, const struct attention_rows *rows) {
    return mat_rows(m, rows->first, rows->count);
}

// The same of a matrix that holds only one block.
static struct mat block_rows(struct mat m, const struct attention_rows *rows) {
    return mat_rows(m, 0, rows->count);
}

static void forward_task(struct cpu *cpu, const struct attention_args *args,
                         const struct batch *batch, int64_t index) {
    struct task t = task_of(cpu, args->qkv, (struct mat){0}, args->heads, batch, index);
    const struct mat context = slice(&t, args->context, 0);
    t.masks = masks_of(&t, args->masks, batch, args->heads);
    load_head(cpu, &t.q, slice(&t, args->qkv, 0), 0);
    load_head(cpu, &t.k, slice(&t, args->qkv, 1), PACK_ROWS);
    load_head(cpu, &t.v, slice(&t, args->qkv, 2), PACK_COLUMNS);
    for (int64_t first = 0; first < t.length; first += t.scores.rows) {
        const struct attention_rows rows = block_of(&t, batch, &args->dropout, first);
        const struct mat p = block_rows(t.p, &rows);
        float *lse =
            args->lse == NULL ? NULL : args->lse + (t.first + first) * args->heads + t.head;
        if (rows.masks != NULL) {
            prefetch_masks(&rows, 1);
            cpu->kernels->attention_masks(&rows);
        }
        scores_of(cpu, &t, block_rows(t.scores, &rows), rows_of(t.q.m, &rows), &t.k);
        cpu->kernels->softmax_forward(&rows, p.data, t.factors, t.scores.data, lse, args->heads);
        apply(cpu, &t, rows_of(context, &rows), p, t.factors, &t.v);
    }
}

void cpu_attention_forward(struct device *dev, const struct attention_args *args,
                           const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    if (!prepare(cpu, batch, args->context.cols / args->heads, args->qkv.dtype)) {
        return;
    }
    const int at_once = tasks_at_once(cpu, batch, args->heads);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic, at_once)
    for (int64_t task = 0; task < batch->sequence_count * args->heads; task++) {
        forward_task(cpu, args, batch, task);
    }
    cpu_zero_rows(args->context, batch->token_count);
    if (args->lse != NULL) {
        int64_t slack = args->context.rows - batch->token_count;
        memset(args->lse + batch->token_count * args->heads, 0,
               (size_t)(slack * args->heads) * sizeof *args->lse);
    }
}

// Packs a block's p and ds, while they are in the L1 cache, for the products of all rows.
static void pack_block(struct cpu *cpu, const struct task *t, const struct attention_rows *rows) {
    const struct mat p = mat_columns(block_rows(t->p, rows), 0, t->length);
    const struct mat ds = mat_columns(block_rows(t->ds, rows), 0, t->length);
    cpu->kernels->pack_strips(t->p_strips, p, rows->first, t->length);
    cpu->kernels->pack_strips(t->ds_strips, ds, rows->first, t->length);
}

static void backward_task(struct cpu *cpu, const struct attention_grad_args *args,
                          const struct batch *batch, int64_t index) {
    struct task t = task_of(cpu, args->qkv, args->dcontext, args->heads, batch, index);
    const struct mat dcontext = slice(&t, args->dcontext, 0), dq = slice(&t, args->dqkv, 0);
    t.masks = masks_of(&t, args->masks, batch, args->heads);
    load_head(cpu, &t.q, slice(&t, args->qkv, 0), PACK_COLUMNS);
    load_head(cpu, &t.k, slice(&t, args->qkv, 1), PACK_ROWS | PACK_COLUMNS);
    load_head(cpu, &t.v, slice(&t, args->qkv, 2), PACK_ROWS);
    load_head(cpu, &t.dout, dcontext, PACK_COLUMNS);
    for (int64_t first = 0; first < t.length; first += t.scores.rows) {
        const struct attention_rows rows = block_of(&t, batch, &args->dropout, first);
        const struct mat p = block_rows(t.p, &rows), ds = block_rows(t.ds, &rows);
        if (t.masks != NULL && rows.masks != NULL) {
            prefetch_masks(&rows, 0);
        } else if (rows.masks != NULL) {
            cpu->kernels->attention_masks(&rows);
        }
        scores_of(cpu, &t, block_rows(t.scores, &rows), rows_of(t.q.m, &rows), &t.k);
        scores_of(cpu, &t, block_rows(t.dp, &rows), rows_of(t.dout.m, &rows), &t.v);
        cpu->kernels->softmax_backward(&rows, p.data, ds.data, t.scores.data, t.dp.data,
                                       args->lse + (t.first + first) * args->heads + t.head,
                                       args->heads);
        apply(cpu, &t, rows_of(dq, &rows), ds, NULL, &t.k);
        pack_block(cpu, &t, &rows);
    }
    apply_transposed(cpu, &t, slice(&t, args->dqkv, 1), t.ds_strips, &t.q);
    apply_transposed(cpu, &t, slice(&t, args->dqkv, 2), t.p_strips, &t.dout);
}

void cpu_attention_backward(struct device *dev, const struct attention_grad_args *args,
                            const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    if (!prepare(cpu, batch, args->context.cols / args->heads, args->qkv.dtype)) {
        return;
    }
    const int at_once = tasks_at_once(cpu, batch, args->heads);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic, at_once)
    for (int64_t task = 0; task < batch->sequence_count * args->heads; task++) {
        backward_task(cpu, args, batch, task);
    }
    cpu_zero_rows(args->dqkv, batch->token_count);
}
