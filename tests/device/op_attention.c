// SPDX-License-Identifier: Apache-2.0
// Tests attention against double loops, one head of one sequence at a time.
#include "op_cases.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    struct attention_case a = {.qkv = op_activation(run, 3 * hidden, run->compute, 1.5)};
    a.context = op_output(run, rows, hidden, run->compute);
    a.lse = op_vector(run, rows * run->shape->heads, 0, (double)NAN);
    a.dropout = op_dropout(run, RNG_SITE_ATTENTION);
    a.want = (struct attention_want){.context = op_doubles(run, rows * hidden),
                                     .lse = op_doubles(run, rows * run->shape->heads),
                                     .heads = run->shape->heads};
    const struct attention_args args = {a.context, a.lse, a.qkv, run->shape->heads, a.dropout};
    run->dev->attention_forward(run->dev, &args, &run->batch);
    return a;
}

void op_attention_forward(struct op_run *run) {
    struct attention_case a = attention_case_run(run);
    const int64_t tokens = run->batch.token_count, heads = run->shape->heads;
    for_each_head(run, op_dense(run, a.qkv), &a.dropout, want_forward, &a.want);
    op_check(run, "context", a.context, a.want.context, tokens, op_tolerance(run->compute));
    op_check_slack(run, "context", a.context, 0);
    op_check(run, "lse", mat_of(a.lse, run->batch.row_count, heads, DTYPE_F32), a.want.lse, tokens,
             4e-6);
    const struct attention_args args = {a.context, NULL, a.qkv, heads, a.dropout};
    run->dev->attention_forward(run->dev, &args, &run->batch);
    op_check(run, "context without lse", a.context, a.want.context, tokens,
             op_tolerance(run->compute));
}

void op_attention_backward(struct op_run *run) {
    struct attention_case a = attention_case_run(run);
    const int64_t rows = run->batch.row_count, hidden = run->shape->hidden;
    struct mat dcontext = op_gradient(run, hidden, run->compute, 1);
    struct mat dqkv = op_output(run, rows, 3 * hidden, run->compute);
    a.want.dcontext = op_dense(run, dcontext);
    a.want.dqkv = op_doubles(run, rows * 3 * hidden);
    for_each_head(run, op_dense(run, a.qkv), &a.dropout, want_backward, &a.want);
    const struct attention_grad_args args = {dqkv,  dcontext,          a.context, a.lse,
                                             a.qkv, run->shape->heads, a.dropout};
    run->dev->attention_backward(run->dev, &args, &run->batch);
    op_check(run, "dqkv", dqkv, a.want.dqkv, run->batch.token_count,
             run->compute == DTYPE_F32 ? 1e-5 : 1.2e-2);
    op_check_slack(run, "dqkv", dqkv, 1);
}
