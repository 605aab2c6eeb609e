// SPDX-License-Identifier: Apache-2.0
// Operations as plain loops in double; see reference.h.
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void reference_mask(double *mask, int64_t columns, const struct dropout *dropout,
                    const struct batch *batch) {
    for (int64_t r = 0; r < batch->row_count; r++) {
        int32_t s = batch->sequences[r];
        for (int64_t c = 0; c < columns; c++) {
            double factor = 1.0;
            if (dropout->threshold > 0 && s >= 0) {
                factor = rng_dropout_keeps(dropout, 0, batch->global_indices[s],
                                           batch->positions[r], (int32_t)c)
                             ? (double)rng_dropout_scale(dropout->threshold)
                             : 0.0;
            }
            mask[r * columns + c] = factor;
        }
    }
}

void reference_norm(double *y, double *xhat, double *rstd, const double *s, const double *gamma,
                    const double *beta, double epsilon, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) {
        const double *x = s + r * columns;
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < columns; c++) {
            mean += x[c] / (double)columns;
        }
        for (int64_t c = 0; c < columns; c++) {
            variance += (x[c] - mean) * (x[c] - mean) / (double)columns;
        }
        rstd[r] = 1 / sqrt(variance + epsilon);
        for (int64_t c = 0; c < columns; c++) {
            xhat[r * columns + c] = (x[c] - mean) * rstd[r];
            y[r * columns + c] = gamma[c] * xhat[r * columns + c] + beta[c];
        }
    }
}

void reference_norm_grad(double *ds, double *dgamma, double *dbeta, const double *dy,
                         const double *xhat, const double *rstd, const double *gamma, int64_t rows,
                         int64_t columns) {
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, dot = 0;
        for (int64_t c = 0; c < columns; c++) {
            int64_t i = r * columns + c;
            mean += dy[i] * gamma[c] / (double)columns;
            dot += dy[i] * gamma[c] * xhat[i] / (double)columns;
            dgamma[c] += dy[i] * xhat[i];
            dbeta[c] += dy[i];
        }
        for (int64_t c = 0; c < columns; c++) {
            int64_t i = r * columns + c;
            ds[i] = rstd[r] * (dy[i] * gamma[c] - mean - xhat[i] * dot);
        }
    }
}

void reference_multiply(double *c, struct reference_view a, struct reference_view b, int64_t m,
                        int64_t n, int64_t k, int accumulate) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n && !accumulate; j++) {
            c[i * n + j] = 0;
        }
        for (int64_t l = 0; l < k; l++) {
            double x = a.data[i * a.row + l * a.col];
            for (int64_t j = 0; j < n; j++) {
                c[i * n + j] += x * b.data[l * b.row + j * b.col];
            }
        }
    }
}

// Scores scaled, then probabilities without dropout, of query i.
static double softmax_row(double *p, const struct reference_head *h, int64_t i) {
    const double *q = h->qkv + i * 3 * h->hidden + h->head * h->size;
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < h->length; j++) {
        const double *k = h->qkv + j * 3 * h->hidden + h->hidden + h->head * h->size;
        p[j] = 0;
        for (int64_t d = 0; d < h->size; d++) {
            p[j] += q[d] * k[d];
        }
        p[j] /= sqrt((double)h->size);
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j < h->length; j++) {
        p[j] = exp(p[j] - most);
        sum += p[j];
    }
    for (int64_t j = 0; j < h->length; j++) {
        p[j] /= sum;
    }
    return most + log(sum);
}

void reference_attention(double *context, double *lse, const struct reference_head *h) {
    double *p = malloc((size_t)h->length * sizeof *p);
    for (int64_t i = 0; i < h->length; i++) {
        lse[i] = softmax_row(p, h, i);
        memset(context + i * h->size, 0, (size_t)h->size * sizeof *context);
        for (int64_t j = 0; j < h->length; j++) {
            const double *v = h->qkv + j * 3 * h->hidden + 2 * h->hidden + h->head * h->size;
            for (int64_t d = 0; d < h->size; d++) {
                context[i * h->size + d] += p[j] * h->factors[i * h->length + j] * v[d];
            }
        }
    }
    free(p);
}

// dP of query i, and the sum of P * dP.
static double dp_row(double *dp, double *dv_base, const double *p, const double *dout,
                     const struct reference_head *h, int64_t i) {
    double delta = 0;
    for (int64_t j = 0; j < h->length; j++) {
        int64_t at = j * 3 * h->hidden + 2 * h->hidden + h->head * h->size;
        double factor = h->factors[i * h->length + j];
        dp[j] = 0;
        for (int64_t d = 0; d < h->size; d++) {
            dp[j] += factor * dout[d] * h->qkv[at + d];
            dv_base[at + d] += p[j] * factor * dout[d];
        }
        delta += p[j] * dp[j];
    }
    return delta;
}

void reference_attention_grad(double *dqkv, const double *dcontext,
                              const struct reference_head *h) {
    double *p = malloc((size_t)h->length * sizeof *p);
    double *dp = malloc((size_t)h->length * sizeof *dp);
    for (int64_t part = 0; part < 3 * h->length; part++) {
        memset(dqkv + part * h->hidden + h->head * h->size, 0, (size_t)h->size * sizeof *dqkv);
    }
    for (int64_t i = 0; i < h->length; i++) {
        softmax_row(p, h, i);
        double delta = dp_row(dp, dqkv, p, dcontext + i * h->size, h, i);
        int64_t qi = i * 3 * h->hidden + h->head * h->size;
        for (int64_t j = 0; j < h->length; j++) {
            int64_t kj = j * 3 * h->hidden + h->hidden + h->head * h->size;
            double ds = p[j] * (dp[j] - delta) / sqrt((double)h->size);
            for (int64_t d = 0; d < h->size; d++) {
                dqkv[qi + d] += ds * h->qkv[kj + d];
                dqkv[kj + d] += ds * h->qkv[qi + d];
            }
        }
    }
    free(p);
    free(dp);
}

void reference_tanh(double *y, double *t, const double *u, const double *mask, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        t[i] = tanh(u[i]);
        y[i] = mask[i] * t[i];
    }
}

void reference_tanh_grad(double *du, const double *dy, const double *t, const double *mask,
                         int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        du[i] = dy[i] * mask[i] * (1 - t[i] * t[i]);
    }
}

double reference_cross_entropy(double *gradient, const double *x, int64_t length, int64_t label) {
    double most = -INFINITY, sum = 0;
    int used = label >= 0 && label < length;
    for (int64_t i = 0; i < length; i++) {
        most = fmax(most, x[i]);
    }
    for (int64_t i = 0; i < length; i++) {
        sum += exp(x[i] - most);
    }
    for (int64_t i = 0; gradient != NULL && i < length; i++) {
        gradient[i] = used ? exp(x[i] - most) / sum - (i == label) : 0;
    }
    return used ? most + log(sum) - x[label] : 0;
}

double reference_squared(double *gradient, double x, double target) {
    double difference = isnan(target) ? 0 : x - target;
    if (gradient != NULL) {
        *gradient = 2 * difference;
    }
    return difference * difference;
}

double reference_weighted(double *gradient, const double *x, int64_t classes,
                          const struct reference_shares *shares) {
    const int64_t label = shares->label;
    double *one = calloc((size_t)classes, sizeof *one), sum = 0;
    const int used = label >= 0 && label < classes;
    for (int64_t k = 0; gradient != NULL && k < classes; k++) {
        gradient[k] = 0;
    }
    for (int64_t k = 0; used && k < classes; k++) {
        const double share = shares->weights[k] * ((k == label ? 1 - shares->smoothing : 0) +
                                                   shares->smoothing / (double)classes);
        sum += share * reference_cross_entropy(one, x, classes, k);
        for (int64_t j = 0; gradient != NULL && j < classes; j++) {
            gradient[j] += share * one[j];
        }
    }
    free(one);
    return sum;
}

double reference_sigmoid(double *gradient, const double *x, const double *targets, int64_t labels,
                         double positive_weight) {
    double sum = 0;
    for (int64_t k = 0; k < labels; k++) {
        double share = 1 / (1 + exp(-x[k])), target = targets[k];
        double pull = positive_weight * target * (1 - share), push = (1 - target) * share;
        sum -= positive_weight * target * log(share) + (1 - target) * log(1 - share);
        if (gradient != NULL) {
            gradient[k] = isnan(targets[0]) ? 0 : (push - pull) / (double)labels;
        }
    }
    return isnan(targets[0]) ? 0 : sum / (double)labels;
}

double reference_span_half(double *gradient, const double *x, int64_t length, int64_t label) {
    double loss = reference_cross_entropy(gradient, x, length, label);
    for (int64_t i = 0; gradient != NULL && i < length; i++) {
        gradient[i] /= 2;
    }
    return loss / 2;
}
