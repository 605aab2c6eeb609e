// SPDX-License-Identifier: Apache-2.0
// The plainest possible BERT: double precision, loops, one sequence, nothing shared or reused. Each
// function implements a formula of doc/develop/math.md; test_reference checks the backward half by
// finite differences of the forward half.
#include "reference.h"

#include "../device/reference_activations.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// What the backward pass of a layer needs.
struct layer_tape {
    double *x_hat, *x_rstd;                              // of the first norm, pre-layer-norm only
    double *x, *qkv, *probabilities, *dropped, *context; // probabilities, dropped: [A, n, n]
    double *middle, *middle_hat, *middle_rstd;
    double *u, *gelu;
    double *y, *y_hat, *y_rstd;
};

struct run {
    const struct reference *reference;
    const struct reference_sequence *sequence;
    int64_t n, hidden, inner, heads;
    double *gradient;
    void *blocks[512]; // everything allocated, freed at the end
    int block_count;
    struct layer_tape *tapes;
    double *embedded, *embedded_hat, *embedded_rstd;
    double *final_hat, *final_rstd; // pre-layer-norm only
};

static double *numbers(struct run *run, int64_t count) {
    assert(run->block_count < 512);
    double *block = calloc((size_t)count, sizeof *block);
    assert(block);
    run->blocks[run->block_count++] = block;
    return block;
}

static double *copy(struct run *run, const double *from, int64_t count) {
    double *to = numbers(run, count);
    memcpy(to, from, (size_t)count * sizeof *to);
    return to;
}

static const double *value(const struct run *run, int64_t offset) {
    return run->reference->parameters + offset;
}

static double *slope(const struct run *run, int64_t offset) {
    return run->gradient + offset;
}

// --- the operations ---------------------------------------------------------------------------

// y[n, out] = x[n, in] w[out, in]^T + b
static double *linear(struct run *run, const double *x, int64_t w, int64_t b, int64_t in,
                      int64_t out) {
    double *y = numbers(run, run->n * out);
    for (int64_t r = 0; r < run->n; r++) {
        for (int64_t o = 0; o < out; o++) {
            double sum = value(run, b)[o];
            for (int64_t i = 0; i < in; i++) {
                sum += x[r * in + i] * value(run, w)[o * in + i];
            }
            y[r * out + o] = sum;
        }
    }
    return y;
}

static double *linear_backward(struct run *run, const double *dy, const double *x, int64_t w,
                               int64_t b, int64_t in, int64_t out) {
    double *dx = numbers(run, run->n * in);
    for (int64_t r = 0; r < run->n; r++) {
        for (int64_t o = 0; o < out; o++) {
            double d = dy[r * out + o];
            slope(run, b)[o] += d;
            for (int64_t i = 0; i < in; i++) {
                slope(run, w)[o * in + i] += d * x[r * in + i];
                dx[r * in + i] += d * value(run, w)[o * in + i];
            }
        }
    }
    return dx;
}

// In place; being linear with a fixed mask, it is its own backward.
static void drop(const struct run *run, double *x, int64_t cols, enum rng_site site, int64_t layer,
                 uint32_t head) {
    const struct bert_dropout *dropout = &run->reference->dropout;
    double probability =
        site == RNG_SITE_ATTENTION ? dropout->attention_probability : dropout->hidden_probability;
    struct dropout mask = {dropout->seed, dropout->step, (uint32_t)layer, site,
                           rng_dropout_threshold(probability)};
    if (mask.threshold == 0) {
        return;
    }
    for (int64_t r = 0; r < run->n; r++) {
        for (int64_t c = 0; c < cols; c++) {
            int keep =
                rng_dropout_keeps(&mask, head, run->sequence->global_index, (int32_t)r, (int32_t)c);
            x[r * cols + c] *= keep ? 65536.0 / (65536.0 - mask.threshold) : 0.0;
        }
    }
}

static double *norm(struct run *run, const double *x, int64_t gamma, int64_t beta, double **x_hat,
                    double **rstd) {
    const int64_t h = run->hidden;
    double *y = numbers(run, run->n * h);
    *x_hat = numbers(run, run->n * h);
    *rstd = numbers(run, run->n);
    for (int64_t r = 0; r < run->n; r++) {
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < h; c++) {
            mean += x[r * h + c] / (double)h;
        }
        for (int64_t c = 0; c < h; c++) {
            variance += (x[r * h + c] - mean) * (x[r * h + c] - mean) / (double)h;
        }
        (*rstd)[r] = 1 / sqrt(variance + run->reference->config->layer_norm_eps);
        for (int64_t c = 0; c < h; c++) {
            (*x_hat)[r * h + c] = (x[r * h + c] - mean) * (*rstd)[r];
            y[r * h + c] = value(run, gamma)[c] * (*x_hat)[r * h + c] + value(run, beta)[c];
        }
    }
    return y;
}

static double *norm_backward(struct run *run, const double *dy, const double *x_hat,
                             const double *rstd, int64_t gamma, int64_t beta) {
    const int64_t h = run->hidden;
    double *dx = numbers(run, run->n * h);
    for (int64_t r = 0; r < run->n; r++) {
        double mean = 0, mean_hat = 0;
        for (int64_t c = 0; c < h; c++) {
            double g = dy[r * h + c] * value(run, gamma)[c];
            mean += g / (double)h;
            mean_hat += g * x_hat[r * h + c] / (double)h;
            slope(run, gamma)[c] += dy[r * h + c] * x_hat[r * h + c];
            slope(run, beta)[c] += dy[r * h + c];
        }
        for (int64_t c = 0; c < h; c++) {
            double g = dy[r * h + c] * value(run, gamma)[c];
            dx[r * h + c] = rstd[r] * (g - mean - x_hat[r * h + c] * mean_hat);
        }
    }
    return dx;
}

static void softmax(double *row, int64_t count) {
    double top = row[0], sum = 0;
    for (int64_t i = 1; i < count; i++) {
        top = fmax(top, row[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        row[i] = exp(row[i] - top);
        sum += row[i];
    }
    for (int64_t i = 0; i < count; i++) {
        row[i] /= sum;
    }
}

// Element c of head a in the query (part 0), key (1) or value (2) of row r.
static double *part(const struct run *run, double *qkv, int part_index, int64_t r, int64_t a,
                    int64_t c) {
    int64_t d = run->hidden / run->heads;
    return qkv + r * 3 * run->hidden + part_index * run->hidden + a * d + c;
}

static void attention(struct run *run, struct layer_tape *tape, int64_t layer) {
    const int64_t n = run->n, h = run->hidden, d = h / run->heads;
    tape->probabilities = numbers(run, run->heads * n * n);
    tape->context = numbers(run, n * h);
    for (int64_t a = 0; a < run->heads; a++) {
        double *p = tape->probabilities + a * n * n;
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                for (int64_t c = 0; c < d; c++) {
                    p[i * n + j] += *part(run, tape->qkv, 0, i, a, c) *
                                    *part(run, tape->qkv, 1, j, a, c) / sqrt((double)d);
                }
            }
            softmax(p + i * n, n);
        }
    }
    tape->dropped = copy(run, tape->probabilities, run->heads * n * n);
    for (int64_t a = 0; a < run->heads; a++) {
        double *p = tape->dropped + a * n * n;
        drop(run, p, n, RNG_SITE_ATTENTION, layer, (uint32_t)a);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                for (int64_t c = 0; c < d; c++) {
                    tape->context[i * h + a * d + c] +=
                        p[i * n + j] * *part(run, tape->qkv, 2, j, a, c);
                }
            }
        }
    }
}

static double *attention_backward(struct run *run, struct layer_tape *tape, const double *dcontext,
                                  int64_t layer) {
    const int64_t n = run->n, h = run->hidden, d = h / run->heads;
    double *dqkv = numbers(run, n * 3 * h);
    double *dp = numbers(run, n * n);
    for (int64_t a = 0; a < run->heads; a++) {
        const double *p = tape->probabilities + a * n * n;
        memset(dp, 0, (size_t)(n * n) * sizeof *dp);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                for (int64_t c = 0; c < d; c++) {
                    double dout = dcontext[i * h + a * d + c];
                    dp[i * n + j] += dout * *part(run, tape->qkv, 2, j, a, c);
                    *part(run, dqkv, 2, j, a, c) += dout * tape->dropped[(a * n + i) * n + j];
                }
            }
        }
        drop(run, dp, n, RNG_SITE_ATTENTION, layer, (uint32_t)a);
        for (int64_t i = 0; i < n; i++) {
            double mean = 0;
            for (int64_t j = 0; j < n; j++) {
                mean += dp[i * n + j] * p[i * n + j];
            }
            for (int64_t j = 0; j < n; j++) {
                double ds = p[i * n + j] * (dp[i * n + j] - mean) / sqrt((double)d);
                for (int64_t c = 0; c < d; c++) {
                    *part(run, dqkv, 0, i, a, c) += ds * *part(run, tape->qkv, 1, j, a, c);
                    *part(run, dqkv, 1, j, a, c) += ds * *part(run, tape->qkv, 0, i, a, c);
                }
            }
        }
    }
    return dqkv;
}

static void add(double *to, const double *what, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] += what[i];
    }
}

// --- the model --------------------------------------------------------------------------------

static void embed(struct run *run) {
    const struct param_table *at = run->reference->table;
    const int64_t h = run->hidden;
    double *sum = numbers(run, run->n * h);
    for (int64_t r = 0; r < run->n; r++) {
        add(sum + r * h, value(run, at->word + run->sequence->ids[r] * h), h);
        add(sum + r * h, value(run, at->position + r * h), h);
        add(sum + r * h, value(run, at->type + run->sequence->type_ids[r] * h), h);
    }
    run->embedded = norm(run, sum, at->embedding_norm_weight, at->embedding_norm_bias,
                         &run->embedded_hat, &run->embedded_rstd);
    drop(run, run->embedded, h, RNG_SITE_EMBEDDING, 0, 0);
}

static void embed_backward(struct run *run, double *dy) {
    const struct param_table *at = run->reference->table;
    const int64_t h = run->hidden;
    drop(run, dy, h, RNG_SITE_EMBEDDING, 0, 0);
    double *dsum = norm_backward(run, dy, run->embedded_hat, run->embedded_rstd,
                                 at->embedding_norm_weight, at->embedding_norm_bias);
    for (int64_t r = 0; r < run->n; r++) {
        add(slope(run, at->word + run->sequence->ids[r] * h), dsum + r * h, h);
        add(slope(run, at->position + r * h), dsum + r * h, h);
        add(slope(run, at->type + run->sequence->type_ids[r] * h), dsum + r * h, h);
    }
}

static int is_pre(const struct run *run) {
    return run->reference->config->pre_layer_norm;
}

static double *layer_forward(struct run *run, int64_t index, double *x) {
    const struct param_layer *at = &run->reference->table->layers[index];
    const int64_t h = run->hidden, inner = run->inner, size = run->n * h;
    struct layer_tape *tape = &run->tapes[index];
    tape->x = is_pre(run) ? norm(run, x, at->input_norm_weight, at->input_norm_bias, &tape->x_hat,
                                 &tape->x_rstd)
                          : x;
    tape->qkv = linear(run, tape->x, at->qkv_weight, at->qkv_bias, h, 3 * h);
    attention(run, tape, index);
    double *a = linear(run, tape->context, at->attention_weight, at->attention_bias, h, h);
    drop(run, a, h, RNG_SITE_ATTENTION_OUTPUT, index, 0);
    add(a, x, size);
    tape->middle = norm(run, a, at->attention_norm_weight, at->attention_norm_bias,
                        &tape->middle_hat, &tape->middle_rstd);
    tape->u = linear(run, tape->middle, at->intermediate_weight, at->intermediate_bias, h, inner);
    tape->gelu = numbers(run, run->n * inner);
    for (int64_t i = 0; i < run->n * inner; i++) {
        tape->gelu[i] = reference_activation(tape->u[i], run->reference->config->hidden_act);
    }
    double *o = linear(run, tape->gelu, at->output_weight, at->output_bias, inner, h);
    drop(run, o, h, RNG_SITE_OUTPUT, index, 0);
    if (is_pre(run)) {
        add(o, a, size);
        return o;
    }
    add(o, tape->middle, size);
    tape->y =
        norm(run, o, at->output_norm_weight, at->output_norm_bias, &tape->y_hat, &tape->y_rstd);
    return tape->y;
}

// From the gradient of the layer's output to that of the sum after the second sub-layer.
static double *output_backward(struct run *run, int64_t index, const double *dy) {
    const struct param_layer *at = &run->reference->table->layers[index];
    const struct layer_tape *tape = &run->tapes[index];
    return is_pre(run) ? copy(run, dy, run->n * run->hidden)
                       : norm_backward(run, dy, tape->y_hat, tape->y_rstd, at->output_norm_weight,
                                       at->output_norm_bias);
}

// From the gradients of the sum after the second sub-layer and of the sub-layer's input to that of
// the sum after the first one.
static double *middle_backward(struct run *run, int64_t index, double *dsum, double *dinput) {
    const struct param_layer *at = &run->reference->table->layers[index];
    const struct layer_tape *tape = &run->tapes[index];
    const int64_t size = run->n * run->hidden;
    if (!is_pre(run)) {
        add(dinput, dsum, size);
    }
    double *dmiddle = norm_backward(run, dinput, tape->middle_hat, tape->middle_rstd,
                                    at->attention_norm_weight, at->attention_norm_bias);
    if (is_pre(run)) {
        add(dmiddle, dsum, size);
    }
    return dmiddle;
}

static double *layer_backward(struct run *run, int64_t index, const double *dy) {
    const struct param_layer *at = &run->reference->table->layers[index];
    const int64_t h = run->hidden, inner = run->inner, size = run->n * h;
    struct layer_tape *tape = &run->tapes[index];
    double *dsum = output_backward(run, index, dy);
    double *dout = copy(run, dsum, size);
    drop(run, dout, h, RNG_SITE_OUTPUT, index, 0);
    double *du =
        linear_backward(run, dout, tape->gelu, at->output_weight, at->output_bias, inner, h);
    for (int64_t i = 0; i < run->n * inner; i++) {
        du[i] *= reference_activation_slope(tape->u[i], run->reference->config->hidden_act);
    }
    double *dinput = linear_backward(run, du, tape->middle, at->intermediate_weight,
                                     at->intermediate_bias, h, inner);
    double *dx = middle_backward(run, index, dsum, dinput);
    dout = copy(run, dx, size);
    drop(run, dout, h, RNG_SITE_ATTENTION_OUTPUT, index, 0);
    double *dcontext =
        linear_backward(run, dout, tape->context, at->attention_weight, at->attention_bias, h, h);
    double *dqkv = attention_backward(run, tape, dcontext, index);
    dinput = linear_backward(run, dqkv, tape->x, at->qkv_weight, at->qkv_bias, h, 3 * h);
    add(dx,
        is_pre(run) ? norm_backward(run, dinput, tape->x_hat, tape->x_rstd, at->input_norm_weight,
                                    at->input_norm_bias)
                    : dinput,
        size);
    return dx;
}

// Half the cross entropy of column `column` of the logits; its slope goes into dlogits.
static double cross_entropy(struct run *run, const double *logits, double *dlogits, int column,
                            int32_t label, double scale) {
    if (label < 0 || label >= run->n) {
        return 0;
    }
    double *p = numbers(run, run->n);
    for (int64_t r = 0; r < run->n; r++) {
        p[r] = logits[r * 2 + column];
    }
    softmax(p, run->n);
    for (int64_t r = 0; r < run->n; r++) {
        dlogits[r * 2 + column] = scale * (p[r] - (r == label)) / 2;
    }
    return -log(p[label]) / 2;
}

double reference_run(const struct reference *reference, const struct reference_sequence *sequence,
                     double *logits, double *gradient, double scale) {
    const struct bert_config *config = reference->config;
    const struct param_table *at = reference->table;
    const int64_t layer_count = config->num_hidden_layers;
    struct run run = {.reference = reference,
                      .sequence = sequence,
                      .n = sequence->length,
                      .hidden = config->hidden_size,
                      .inner = config->intermediate_size,
                      .heads = config->num_attention_heads,
                      .gradient = gradient};
    run.tapes = calloc((size_t)layer_count, sizeof *run.tapes);
    assert(run.tapes);
    embed(&run);
    double *x = run.embedded;
    for (int64_t i = 0; i < layer_count; i++) {
        x = layer_forward(&run, i, x);
    }
    const struct param_layer *last = &at->layers[layer_count - 1];
    if (config->pre_layer_norm) {
        x = norm(&run, x, last->output_norm_weight, last->output_norm_bias, &run.final_hat,
                 &run.final_rstd);
    }
    double *own_logits = linear(&run, x, at->head_weight, at->head_bias, run.hidden, 2);
    if (logits) {
        memcpy(logits, own_logits, (size_t)(run.n * 2) * sizeof *logits);
    }
    double *dlogits = numbers(&run, run.n * 2);
    double loss = cross_entropy(&run, own_logits, dlogits, 0, sequence->start, scale) +
                  cross_entropy(&run, own_logits, dlogits, 1, sequence->end, scale);
    if (gradient) {
        double *dx =
            linear_backward(&run, dlogits, x, at->head_weight, at->head_bias, run.hidden, 2);
        if (config->pre_layer_norm) {
            dx = norm_backward(&run, dx, run.final_hat, run.final_rstd, last->output_norm_weight,
                               last->output_norm_bias);
        }
        for (int64_t i = layer_count - 1; i >= 0; i--) {
            dx = layer_backward(&run, i, dx);
        }
        embed_backward(&run, dx);
    }
    for (int i = 0; i < run.block_count; i++) {
        free(run.blocks[i]);
    }
    free(run.tapes);
    return loss;
}
