// SPDX-License-Identifier: Apache-2.0
// Attention, one (sequence, head) per task, block by block of query rows; scores are f32,
// probabilities have the compute dtype. The forward pass keeps only the log-sum-exps, the backward
// pass computes the probabilities and the dropout mask again:
//
//   Pd = dropout(P); O = Pd V; dPd = dO V^T; dP = dropout'(dPd)
//   dS = P * (dP - rowsum(P * dP)) / sqrt(D); dQ = dS K; dK = dS^T Q; dV = Pd^T dO
//
// rowsum(P * dP) is rowsum(dO * O), too, but O would have to be read from memory for it.
//
// Where the device has kernels for products, they read the head's columns where they are, and a
// block has so few rows that its scores stay in the first-level cache. Elsewhere the columns are
// first copied side by side with the length rounded up (zero rows), so that the library's products
// have few shapes, and a block has all rows.
#include "core/error.h"
#include "cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define BLOCK_ROWS 32

// The library's products over a rounded length n: scores [n, n] = x[n, D] y[n, D]^T;
// apply [n, D] = p[n, n] x[n, D]; apply transposed [n, D] = p[n, n]^T x[n, D].
enum attention_product { PRODUCT_SCORES, PRODUCT_APPLY, PRODUCT_APPLY_TRANSPOSED, PRODUCT_COUNT };

// A matrix [L, D] of the head, and its packed forms as the b of products: rows for [*, D] x [D, L],
// columns for [*, L] x [L, D].
struct head {
    struct mat m;
    void *rows, *columns;
};

// One thread's buffers for one task.
struct task {
    int64_t sequence, head;
    int64_t first, length; // the sequence's rows of the batch
    int64_t padded;        // the length rounded up
    int64_t hidden, head_size;
    struct head q, k, v, dout;
    struct mat out;                       // [padded, D], for the library
    struct mat p, ds;                     // [rows of a block, padded]
    struct mat scores, dp;                // the same, f32
    void *p_strips, *ds_strips;           // p and ds of all rows, transposed, for the kernels
    const struct gemm_plan *const *plans; // by enum attention_product; NULL: the kernels
};

static int64_t round_length(int64_t length) {
    return (length + CPU_ATTENTION_ROUND - 1) / CPU_ATTENTION_ROUND * CPU_ATTENTION_ROUND;
}

static int64_t round64(int64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// The kernel of products of this type; NULL: the library.
static void (*kernel_of(const struct cpu *cpu, int64_t head_size,
                        enum dtype dtype))(const struct product *) {
    if (dtype == DTYPE_F32) {
        return cpu->kernels->product_f32;
    }
    return head_size % 2 == 0 ? cpu->kernels->product_bf16 : NULL;
}

// --- buffers ------------------------------------------------------------------------------------

// Memory that is handed out piece by piece, or only counted (NULL).
struct carver {
    char *memory;
    size_t used;
};

static void *carve(struct carver *carver, int64_t bytes) {
    void *block = carver->memory == NULL ? NULL : carver->memory + carver->used;
    carver->used += (size_t)round64(bytes);
    return block;
}

static struct mat carve_mat(struct carver *carver, int64_t rows, int64_t cols, enum dtype dtype) {
    return mat_of(carve(carver, rows * cols * (int64_t)dtype_size(dtype)), rows, cols, dtype);
}

static void carve_head(struct carver *carver, struct head *head, const struct task *t,
                       enum dtype dtype, int kernels) {
    const int64_t n = t->padded, size = (int64_t)dtype_size(dtype);
    if (kernels) {
        head->rows = carve(carver, n * t->head_size * size);
        head->columns = carve(carver, n * round_length(t->head_size) * size);
    } else {
        head->m = carve_mat(carver, n, t->head_size, dtype);
    }
}

static void carve_task(struct task *t, struct carver *carver, enum dtype dtype, int kernels) {
    const int64_t n = t->padded, rows = kernels && n > BLOCK_ROWS ? BLOCK_ROWS : n;
    carve_head(carver, &t->q, t, dtype, kernels);
    carve_head(carver, &t->k, t, dtype, kernels);
    carve_head(carver, &t->v, t, dtype, kernels);
    carve_head(carver, &t->dout, t, dtype, kernels);
    t->p = carve_mat(carver, rows, n, dtype);
    t->ds = carve_mat(carver, rows, n, dtype);
    t->scores = carve_mat(carver, rows, n, DTYPE_F32);
    t->dp = carve_mat(carver, rows, n, DTYPE_F32);
    if (kernels) {
        t->p_strips = carve(carver, n * n * (int64_t)dtype_size(dtype));
        t->ds_strips = carve(carver, n * n * (int64_t)dtype_size(dtype));
    } else {
        t->out = carve_mat(carver, n, t->head_size, dtype);
    }
}

static size_t task_bytes(const struct cpu *cpu, int64_t max_length, int64_t head_size,
                         enum dtype dtype) {
    struct task task = {.padded = round_length(max_length), .head_size = head_size};
    struct carver counted = {.memory = NULL};
    carve_task(&task, &counted, dtype, kernel_of(cpu, head_size, dtype) != NULL);
    return counted.used;
}

size_t cpu_attention_bytes(const struct cpu *cpu, const struct device_shape *shape) {
    return (size_t)cpu->threads *
           task_bytes(cpu, shape->batch.max_length, shape->hidden / shape->heads, shape->compute);
}

size_t cpu_attention_plan_bytes(int64_t max_length) {
    return (size_t)(round_length(max_length) / CPU_ATTENTION_ROUND + 1) * PRODUCT_COUNT *
           sizeof(struct gemm_plan *);
}

static struct gemm_shape product_shape(enum attention_product product, int64_t n, int64_t head_size,
                                       enum dtype dtype) {
    const int scores = product == PRODUCT_SCORES;
    return (struct gemm_shape){
        .m = n,
        .n = scores ? n : head_size,
        .k = scores ? head_size : n,
        .lda = scores ? head_size : n,
        .ldb = head_size,
        .ldc = scores ? n : head_size,
        .type = dtype,
        .c_type = scores ? DTYPE_F32 : dtype,
        .a_transposed = product == PRODUCT_APPLY_TRANSPOSED,
        .b_transposed = scores,
    };
}

// Gets the plans of every length in the batch; 0 after an error.
static int prepare_plans(struct cpu *cpu, const struct batch *batch, int64_t head_size,
                         enum dtype dtype) {
    const int64_t lengths = round_length(batch->max_length) / CPU_ATTENTION_ROUND + 1;
    memset(cpu->plans, 0, (size_t)lengths * PRODUCT_COUNT * sizeof *cpu->plans);
    gemm_trim(cpu->gemm, (int)lengths * PRODUCT_COUNT);
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        int64_t n = round_length(batch->cu_seqlens[s + 1] - batch->cu_seqlens[s]);
        const struct gemm_plan **plans = cpu->plans + n / CPU_ATTENTION_ROUND * PRODUCT_COUNT;
        for (int product = 0; n > 0 && plans[product] == NULL && product < PRODUCT_COUNT;
             product++) {
            struct gemm_shape shape = product_shape(product, n, head_size, dtype);
            plans[product] = cpu_plan(cpu, &shape);
            if (plans[product] == NULL) {
                return 0;
            }
        }
    }
    return 1;
}

// Allocates the buffers, and gets the library's plans where it multiplies; 0 after an error.
static int prepare(struct cpu *cpu, const struct batch *batch, int64_t head_size,
                   enum dtype dtype) {
    return cpu->status == BERTH_OK &&
           cpu_grow(cpu, (void **)&cpu->plans, &cpu->plan_bytes,
                    cpu_attention_plan_bytes(batch->max_length)) &&
           cpu_grow(cpu, (void **)&cpu->attention, &cpu->attention_bytes,
                    (size_t)cpu->threads * task_bytes(cpu, batch->max_length, head_size, dtype)) &&
           (kernel_of(cpu, head_size, dtype) != NULL ||
            prepare_plans(cpu, batch, head_size, dtype));
}

// --- products -----------------------------------------------------------------------------------

static void multiply_library(struct cpu *cpu, const struct task *t, enum attention_product product,
                             struct mat c, struct mat a, struct mat b) {
    const struct gemm_operands operands = {.a = a.data, .b = b.data, .c = c.data};
    int status = gemm_run(cpu->gemm, t->plans[product], omp_get_thread_num(), &operands);
    if (status != 0) {
        struct berth_error error;
        (void)error_set(&error, BERTH_INTERNAL,
                        "oneDNN failed in attention over %lld tokens (status %d)",
                        (long long)t->length, status);
        cpu_fail(cpu, BERTH_INTERNAL, &error);
    }
}

static void multiply(struct cpu *cpu, const struct task *t, struct product product) {
    kernel_of(cpu, t->head_size, t->p.dtype)(&product);
}

// Steps of a product over `depth` elements.
// c = x b^T, for some rows of the head
static void scores_of(struct cpu *cpu, const struct task *t, struct mat c, struct mat x,
                      const struct head *b) {
    if (t->plans != NULL) {
        multiply_library(cpu, t, PRODUCT_SCORES, c, x, b->m);
        return;
    }
    c = mat_columns(c, 0, t->length);
    multiply(cpu, t, product_of_rows(c, x, b->rows, product_steps(t->head_size, t->p.dtype)));
}

static void multiply_and_copy(struct cpu *cpu, const struct task *t, enum attention_product product,
                              struct mat to, struct mat p, const struct head *b) {
    multiply_library(cpu, t, product, t->out, p, b->m);
    cpu->kernels->copy(to, mat_rows(t->out, 0, to.rows));
}

// to = p b, for some rows of the head
static void apply(struct cpu *cpu, const struct task *t, struct mat to, struct mat p,
                  const struct head *b) {
    if (t->plans != NULL) {
        multiply_and_copy(cpu, t, PRODUCT_APPLY, to, p, b);
    } else {
        multiply(cpu, t, product_of_rows(to, p, b->columns, product_steps(t->length, t->p.dtype)));
    }
}

// to = p^T b, p of all rows
static void apply_transposed(struct cpu *cpu, const struct task *t, struct mat to, struct mat p,
                             const void *strips, const struct head *b) {
    if (t->plans != NULL) {
        multiply_and_copy(cpu, t, PRODUCT_APPLY_TRANSPOSED, to, p, b);
    } else {
        const int64_t steps = product_steps(t->length, p.dtype);
        multiply(cpu, t, product_of_strips(to, strips, b->columns, steps));
    }
}

// --- tasks --------------------------------------------------------------------------------------

static void zero_rows(struct mat m, int64_t first) {
    for (int64_t row = first; row < m.rows; row++) {
        struct mat one = mat_rows(m, row, 1);
        memset(one.data, 0, (size_t)one.cols * dtype_size(one.dtype));
    }
}

// The task's part of a matrix with one row per token; q, k and v are parts 0, 1 and 2 of qkv.
static struct mat slice(const struct task *t, struct mat m, int part) {
    return mat_columns(mat_rows(m, t->first, t->length), part * t->hidden + t->head * t->head_size,
                       t->head_size);
}

enum packing { PACK_ROWS = 1, PACK_COLUMNS = 2 };

// Makes rows of the batch a matrix of the head, with the packed forms that are needed.
static void fetch(struct cpu *cpu, const struct task *t, struct head *to, struct mat rows,
                  unsigned packing) {
    if (t->plans != NULL) {
        cpu->kernels->copy(mat_rows(to->m, 0, rows.rows), rows);
        zero_rows(to->m, rows.rows);
        return;
    }
    to->m = rows;
    if (packing & PACK_ROWS) {
        cpu->kernels->pack_rows(to->rows, rows, 0, rows.rows);
    }
    if (packing & PACK_COLUMNS) {
        cpu->kernels->pack_columns(to->columns, rows, 0, rows.cols);
    }
}

// Rows of a head are too far from each other for the processor to foresee which will be read. So
// they are asked for: soon, for the first-level cache, or for the second.
static void ask_for(struct mat rows, int soon) {
    const char *row = rows.data;
    const size_t size = dtype_size(rows.dtype), bytes = (size_t)rows.cols * size;
    for (int64_t i = 0; i < rows.rows; i++, row += (size_t)rows.stride * size) {
        for (size_t line = 0; line < bytes; line += 64) {
            if (soon) {
                __builtin_prefetch(row + line);
            } else {
                __builtin_prefetch(row + line, 0, 2);
            }
        }
    }
}

// Asks for a block's rows of the next head of the sequence, in `parts` parts of m (slice).
static void ask_ahead(const struct task *t, struct mat m, int parts,
                      const struct attention_rows *rows) {
    struct task next = *t;
    next.head++;
    for (int part = 0; part < parts && next.head * t->head_size < t->hidden; part++) {
        ask_for(mat_rows(slice(&next, m, part), rows->first, rows->count), 0);
    }
}

// How many heads of a sequence, which ask ahead for each other, one thread takes at once: not so
// many that the others wait long at the end.
static int heads_at_once(const struct cpu *cpu, const struct batch *batch, int64_t heads) {
    const int64_t fair = batch->sequence_count * heads / ((int64_t)8 * cpu->threads);
    return (int)(fair < 1 ? 1 : fair < heads ? fair : heads);
}

static struct task task_of(struct cpu *cpu, struct mat qkv, int64_t heads,
                           const struct batch *batch, int64_t s, int64_t head) {
    const int64_t hidden = qkv.cols / 3, first = batch->cu_seqlens[s];
    struct task t = {
        .sequence = s, .head = head, .first = first, .hidden = hidden, .head_size = hidden / heads};
    const int kernels = kernel_of(cpu, t.head_size, qkv.dtype) != NULL;
    t.length = batch->cu_seqlens[s + 1] - first;
    t.padded = round_length(t.length);
    t.plans = kernels ? NULL : cpu->plans + t.padded / CPU_ATTENTION_ROUND * PRODUCT_COUNT;
    struct carver carver = {cpu->attention +
                                (size_t)omp_get_thread_num() *
                                    (cpu->attention_bytes / (size_t)cpu->threads / 64 * 64),
                            0};
    carve_task(&t, &carver, qkv.dtype, kernels);
    return t;
}

// The rows of the block that begins with row `first`.
static struct attention_rows block_of(const struct task *t, const struct batch *batch,
                                      const struct dropout *dropout, int64_t first) {
    return (struct attention_rows){
        .length = t->length,
        .stride = t->padded,
        .first = first,
        .count = cpu_piece(first, t->length, t->scores.rows),
        .scale = (float)(1.0 / sqrt((double)t->head_size)),
        .head = (uint32_t)t->head,
        .place = batch->places[t->sequence],
        .dropout = dropout,
        .dtype = t->p.dtype,
    };
}

// The rows of a block in a matrix of the head: all rows where the library multiplies.
static struct mat rows_of(const struct task *t, struct mat m, const struct attention_rows *rows) {
    return t->plans != NULL ? m : mat_rows(m, rows->first, rows->count);
}

// What p or ds, whose rows are those of a block, has of it.
static struct mat block_rows(const struct task *t, struct mat m,
                             const struct attention_rows *rows) {
    return t->plans != NULL ? m : mat_rows(m, 0, rows->count);
}

static void forward_task(struct cpu *cpu, const struct attention_args *args,
                         const struct batch *batch, int64_t s, int64_t head) {
    struct task t = task_of(cpu, args->qkv, args->heads, batch, s, head);
    const struct mat context = slice(&t, args->context, 0);
    ask_for(slice(&t, args->qkv, 0), 1);
    fetch(cpu, &t, &t.q, slice(&t, args->qkv, 0), 0);
    fetch(cpu, &t, &t.k, slice(&t, args->qkv, 1), PACK_ROWS);
    fetch(cpu, &t, &t.v, slice(&t, args->qkv, 2), PACK_COLUMNS);
    zero_rows(t.p, t.length); // the memory may hold non-finite values
    for (int64_t first = 0; first < t.length; first += t.scores.rows) {
        const struct attention_rows rows = block_of(&t, batch, &args->dropout, first);
        const struct mat p = block_rows(&t, t.p, &rows);
        float *lse = args->lse == NULL ? NULL : args->lse + (t.first + first) * args->heads + head;
        ask_ahead(&t, args->qkv, 3, &rows);
        scores_of(cpu, &t, mat_rows(t.scores, 0, rows.count), rows_of(&t, t.q.m, &rows), &t.k);
        cpu->kernels->softmax_forward(&rows, p.data, t.scores.data, lse, args->heads);
        apply(cpu, &t, mat_rows(context, first, rows.count), p, &t.v);
    }
}

void cpu_attention_forward(struct device *dev, const struct attention_args *args,
                           const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    if (!prepare(cpu, batch, args->context.cols / args->heads, args->qkv.dtype)) {
        return;
    }
    const int at_once = heads_at_once(cpu, batch, args->heads);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic, at_once)
    for (int64_t task = 0; task < batch->sequence_count * args->heads; task++) {
        forward_task(cpu, args, batch, task / args->heads, task % args->heads);
    }
    zero_rows(args->context, batch->token_count);
    if (args->lse != NULL) {
        int64_t slack = args->context.rows - batch->token_count;
        memset(args->lse + batch->token_count * args->heads, 0,
               (size_t)(slack * args->heads) * sizeof *args->lse);
    }
}

// Packs a block's p and ds, while they are in the first-level cache, for the products of all rows.
static void pack_block(struct cpu *cpu, const struct task *t, const struct attention_rows *rows) {
    if (t->plans == NULL) {
        const struct mat p = mat_columns(block_rows(t, t->p, rows), 0, t->length);
        const struct mat ds = mat_columns(block_rows(t, t->ds, rows), 0, t->length);
        cpu->kernels->pack_strips(t->p_strips, p, rows->first, t->length);
        cpu->kernels->pack_strips(t->ds_strips, ds, rows->first, t->length);
    }
}

static void backward_task(struct cpu *cpu, const struct attention_grad_args *args,
                          const struct batch *batch, int64_t s, int64_t head) {
    struct task t = task_of(cpu, args->qkv, args->heads, batch, s, head);
    const struct mat dcontext = slice(&t, args->dcontext, 0), dq = slice(&t, args->dqkv, 0);
    fetch(cpu, &t, &t.q, slice(&t, args->qkv, 0), PACK_COLUMNS);
    fetch(cpu, &t, &t.k, slice(&t, args->qkv, 1), PACK_ROWS | PACK_COLUMNS);
    fetch(cpu, &t, &t.v, slice(&t, args->qkv, 2), PACK_ROWS);
    fetch(cpu, &t, &t.dout, dcontext, PACK_COLUMNS);
    zero_rows(t.p, t.length); // as in forward_task
    zero_rows(t.ds, t.length);
    for (int64_t first = 0; first < t.length; first += t.scores.rows) {
        const struct attention_rows rows = block_of(&t, batch, &args->dropout, first);
        const struct mat p = block_rows(&t, t.p, &rows), ds = block_rows(&t, t.ds, &rows);
        ask_ahead(&t, args->qkv, 3, &rows);
        ask_ahead(&t, args->dcontext, 1, &rows);
        scores_of(cpu, &t, mat_rows(t.scores, 0, rows.count), rows_of(&t, t.q.m, &rows), &t.k);
        scores_of(cpu, &t, mat_rows(t.dp, 0, rows.count), rows_of(&t, t.dout.m, &rows), &t.v);
        cpu->kernels->softmax_backward(&rows, p.data, ds.data, t.scores.data, t.dp.data,
                                       args->lse + (t.first + first) * args->heads + head,
                                       args->heads);
        apply(cpu, &t, mat_rows(dq, first, rows.count), ds, &t.k);
        pack_block(cpu, &t, &rows);
    }
    apply_transposed(cpu, &t, slice(&t, args->dqkv, 1), t.ds, t.ds_strips, &t.q);
    apply_transposed(cpu, &t, slice(&t, args->dqkv, 2), t.p, t.p_strips, &t.dout);
}

void cpu_attention_backward(struct device *dev, const struct attention_grad_args *args,
                            const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    if (!prepare(cpu, batch, args->context.cols / args->heads, args->qkv.dtype)) {
        return;
    }
    const int at_once = heads_at_once(cpu, batch, args->heads);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic, at_once)
    for (int64_t task = 0; task < batch->sequence_count * args->heads; task++) {
        backward_task(cpu, args, batch, task / args->heads, task % args->heads);
    }
    zero_rows(args->dqkv, batch->token_count);
}
