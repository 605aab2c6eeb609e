// SPDX-License-Identifier: Apache-2.0
// Attention, one (sequence, head) per task. Queries, keys and values of the head are copied side by
// side with the length rounded up (zero rows), so that products have few shapes; scores are f32,
// probabilities have the compute dtype. The forward pass keeps only the log-sum-exps, the backward
// pass computes the probabilities and the dropout mask again:
//
//   Pd = dropout(P); O = Pd V; delta = rowsum(dO * O); dPd = dO V^T
//   dS = P * (dropout'(dPd) - delta) / sqrt(D); dQ = dS K; dK = dS^T Q; dV = Pd^T dO
#include "core/error.h"
#include "cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

// The shapes of products over a rounded length n: scores [n, n] = x[n, D] y[n, D]^T;
// apply [n, D] = p[n, n] x[n, D]; apply transposed [n, D] = p[n, n]^T x[n, D].
enum attention_product { PRODUCT_SCORES, PRODUCT_APPLY, PRODUCT_APPLY_TRANSPOSED, PRODUCT_COUNT };

// One thread's buffers for one task.
struct task {
    int64_t sequence, head;
    int64_t first, length; // the sequence's rows of the batch
    int64_t padded;        // the length rounded up
    int64_t hidden, head_size;
    struct mat q, k, v, out;              // [padded, D]
    struct mat dout;                      // [padded, D], backward only
    struct mat p, ds;                     // [padded, padded]
    float *scores, *dp, *delta;           // [padded, padded] twice, [padded]
    const struct gemm_plan *const *plans; // by enum attention_product
};

static int64_t round_length(int64_t length) {
    return (length + CPU_ATTENTION_ROUND - 1) / CPU_ATTENTION_ROUND * CPU_ATTENTION_ROUND;
}

static size_t round64(int64_t bytes) {
    return (size_t)(bytes + 63) / 64 * 64;
}

static size_t task_bytes(int64_t max_length, int64_t head_size, enum dtype dtype) {
    int64_t n = round_length(max_length), size = (int64_t)dtype_size(dtype);
    return 5 * round64(n * head_size * size) + 2 * round64(n * n * size) + 2 * round64(n * n * 4) +
           round64(n * 4);
}

size_t cpu_attention_bytes(const struct cpu *cpu, const struct device_shape *shape) {
    return (size_t)cpu->threads *
           task_bytes(shape->batch.max_length, shape->hidden / shape->heads, shape->compute);
}

size_t cpu_attention_plan_bytes(int64_t max_length) {
    return (size_t)(round_length(max_length) / CPU_ATTENTION_ROUND + 1) * PRODUCT_COUNT *
           sizeof(struct gemm_plan *);
}

static void *carve(char **next, size_t bytes) {
    void *block = *next;
    *next += bytes;
    return block;
}

static struct mat carve_mat(char **next, int64_t rows, int64_t cols, enum dtype dtype) {
    void *block = carve(next, round64(rows * cols * (int64_t)dtype_size(dtype)));
    return mat_of(block, rows, cols, dtype);
}

// Carves the task's buffers out of the calling thread's slice.
static void carve_task(const struct cpu *cpu, struct task *task, enum dtype dtype) {
    const int64_t n = task->padded, head_size = task->head_size;
    char *memory = cpu->attention + (size_t)omp_get_thread_num() *
                                        (cpu->attention_bytes / (size_t)cpu->threads / 64 * 64);
    task->plans = cpu->plans + n / CPU_ATTENTION_ROUND * PRODUCT_COUNT;
    task->q = carve_mat(&memory, n, head_size, dtype);
    task->k = carve_mat(&memory, n, head_size, dtype);
    task->v = carve_mat(&memory, n, head_size, dtype);
    task->out = carve_mat(&memory, n, head_size, dtype);
    task->dout = carve_mat(&memory, n, head_size, dtype);
    task->p = carve_mat(&memory, n, n, dtype);
    task->ds = carve_mat(&memory, n, n, dtype);
    task->scores = carve(&memory, round64(n * n * 4));
    task->dp = carve(&memory, round64(n * n * 4));
    task->delta = carve(&memory, round64(n * 4));
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

// Gets the plans of every length in the batch and allocates the buffers; 0 after an error.
static int prepare(struct cpu *cpu, const struct batch *batch, int64_t head_size,
                   enum dtype dtype) {
    const int64_t lengths = round_length(batch->max_length) / CPU_ATTENTION_ROUND + 1;
    if (cpu->status != BERTH_OK ||
        !cpu_grow(cpu, (void **)&cpu->plans, &cpu->plan_bytes,
                  cpu_attention_plan_bytes(batch->max_length)) ||
        !cpu_grow(cpu, (void **)&cpu->attention, &cpu->attention_bytes,
                  (size_t)cpu->threads * task_bytes(batch->max_length, head_size, dtype))) {
        return 0;
    }
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

static void multiply(struct cpu *cpu, const struct task *t, enum attention_product product,
                     const void *a, const void *b, void *c) {
    const struct gemm_operands operands = {.a = a, .b = b, .c = c};
    int status = gemm_run(cpu->gemm, t->plans[product], omp_get_thread_num(), &operands);
    if (status != 0) {
        struct berth_error error;
        (void)error_set(&error, BERTH_INTERNAL,
                        "oneDNN failed in attention over %lld tokens (status %d)",
                        (long long)t->length, status);
        cpu_fail(cpu, BERTH_INTERNAL, &error);
    }
}

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

// Copies rows and appends zero rows.
static void fetch(struct cpu *cpu, struct mat to, struct mat rows) {
    cpu->kernels->copy(mat_rows(to, 0, rows.rows), rows);
    zero_rows(to, rows.rows);
}

// Starts both passes: q, k, v and the scores of head `head` of sequence `s`.
static struct task task_begin(struct cpu *cpu, struct mat qkv, int64_t heads,
                              const struct batch *batch, int64_t s, int64_t head) {
    const int64_t hidden = qkv.cols / 3, first = batch->cu_seqlens[s];
    struct task t = {
        .sequence = s, .head = head, .first = first, .hidden = hidden, .head_size = hidden / heads};
    t.length = batch->cu_seqlens[s + 1] - first;
    t.padded = round_length(t.length);
    carve_task(cpu, &t, qkv.dtype);
    fetch(cpu, t.q, slice(&t, qkv, 0));
    fetch(cpu, t.k, slice(&t, qkv, 1));
    fetch(cpu, t.v, slice(&t, qkv, 2));
    multiply(cpu, &t, PRODUCT_SCORES, t.q.data, t.k.data, t.scores);
    return t;
}

static struct attention_rows rows_of(const struct task *t, const struct batch *batch,
                                     const struct dropout *dropout) {
    return (struct attention_rows){
        .length = t->length,
        .stride = t->padded,
        .first = 0,
        .last = t->length,
        .scale = (float)(1.0 / sqrt((double)t->head_size)),
        .head = (uint32_t)t->head,
        .place = batch->places[t->sequence],
        .dropout = dropout,
        .dtype = t->p.dtype,
    };
}

static void forward_task(struct cpu *cpu, const struct attention_args *args,
                         const struct batch *batch, int64_t s, int64_t head) {
    struct task t = task_begin(cpu, args->qkv, args->heads, batch, s, head);
    struct attention_rows rows = rows_of(&t, batch, &args->dropout);
    float *lse = args->lse == NULL ? NULL : args->lse + t.first * args->heads + head;
    cpu->kernels->softmax_forward(&rows, t.p.data, t.scores, lse, args->heads);
    zero_rows(t.p, t.length); // the memory may hold non-finite values
    multiply(cpu, &t, PRODUCT_APPLY, t.p.data, t.v.data, t.out.data);
    cpu->kernels->copy(slice(&t, args->context, 0), mat_rows(t.out, 0, t.length));
}

void cpu_attention_forward(struct device *dev, const struct attention_args *args,
                           const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    if (!prepare(cpu, batch, args->context.cols / args->heads, args->qkv.dtype)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
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

// Computes part `part` of dqkv, a product.
static void give(struct cpu *cpu, const struct task *t, struct mat dqkv, int part,
                 enum attention_product product, struct mat a, struct mat b) {
    multiply(cpu, t, product, a.data, b.data, t->out.data);
    cpu->kernels->copy(slice(t, dqkv, part), mat_rows(t->out, 0, t->length));
}

static void backward_task(struct cpu *cpu, const struct attention_grad_args *args,
                          const struct batch *batch, int64_t s, int64_t head) {
    struct task t = task_begin(cpu, args->qkv, args->heads, batch, s, head);
    struct mat dcontext = slice(&t, args->dcontext, 0);
    fetch(cpu, t.dout, dcontext);
    cpu->kernels->row_dots(t.delta, dcontext, slice(&t, args->context, 0));
    multiply(cpu, &t, PRODUCT_SCORES, t.dout.data, t.v.data, t.dp);
    struct attention_rows rows = rows_of(&t, batch, &args->dropout);
    cpu->kernels->softmax_backward(&rows, t.p.data, t.ds.data, t.scores, t.dp,
                                   args->lse + t.first * args->heads + head, args->heads, t.delta);
    zero_rows(t.p, t.length); // as in forward_task
    zero_rows(t.ds, t.length);
    give(cpu, &t, args->dqkv, 0, PRODUCT_APPLY, t.ds, t.k);
    give(cpu, &t, args->dqkv, 1, PRODUCT_APPLY_TRANSPOSED, t.ds, t.q);
    give(cpu, &t, args->dqkv, 2, PRODUCT_APPLY_TRANSPOSED, t.p, t.dout);
}

void cpu_attention_backward(struct device *dev, const struct attention_grad_args *args,
                            const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    if (!prepare(cpu, batch, args->context.cols / args->heads, args->qkv.dtype)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t task = 0; task < batch->sequence_count * args->heads; task++) {
        backward_task(cpu, args, batch, task / args->heads, task % args->heads);
    }
    zero_rows(args->dqkv, batch->token_count);
}
