// SPDX-License-Identifier: Apache-2.0
// The losses. Spans: two cross entropies over the rows of each sequence. Classes and words: a cross
// entropy over the columns of a row (kernels/cross_entropy.h), optionally with class weights and
// label smoothing. Real numbers: the squared difference. Several labels: a cross entropy for each.
// All but the kernel compute in double.
#include "core/portable_math.h"
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

static void store_gradient(struct mat dlogits, int64_t row, int column, float value) {
    char *to = (char *)mat_rows(dlogits, row, 1).data + (size_t)column * dtype_size(dlogits.dtype);
    if (dlogits.dtype == DTYPE_F32) {
        memcpy(to, &value, sizeof value);
        return;
    }
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t nearest = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    uint16_t half_bits = (uint16_t)(isnan(value) ? (bits >> 16 | 0x40u) : nearest);
    memcpy(to, &half_bits, sizeof half_bits);
}

// log(sum(exp(logits[:, column]))) over the rows
static double log_sum_exp(struct mat logits, int column) {
    const float *x = (const float *)logits.data + column;
    double max = -INFINITY, sum = 0.0;
    for (int64_t row = 0; row < logits.rows; row++) {
        const double logit = (double)x[row * logits.stride];
        max = logit > max ? logit : max; // fmax crashes GCC 12 for AArch64
    }
    for (int64_t row = 0; row < logits.rows; row++) {
        sum += math_exp((double)x[row * logits.stride] - max);
    }
    return max + math_log(sum);
}

// Over the rows of one column; writes the gradient when `dlogits` is not empty; dlogits may be the
// memory of the logits.
static double cross_entropy(struct mat dlogits, struct mat logits, int column, int32_t label,
                            double scale) {
    const float *x = (const float *)logits.data + column;
    const int used = label >= 0 && label < logits.rows;
    const double shift = log_sum_exp(logits, column);
    const double wanted = used ? (double)x[label * logits.stride] : 0.0;
    for (int64_t row = 0; !mat_is_empty(dlogits) && row < logits.rows; row++) {
        double p = math_exp((double)x[row * logits.stride] - shift);
        double gradient = used ? scale * (p - (row == label)) : 0.0;
        store_gradient(dlogits, row, column, (float)gradient);
    }
    return used ? shift - wanted : 0.0;
}

void cpu_span_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                   float scale, const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    const double half = 0.5 * (double)scale;
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        int64_t first = batch->cu_seqlens[s], length = batch->cu_seqlens[s + 1] - first;
        struct mat gradient = mat_is_empty(dlogits) ? dlogits : mat_rows(dlogits, first, length);
        struct mat rows = mat_rows(logits, first, length);
        losses[s] =
            (float)(0.5 * (cross_entropy(gradient, rows, 0, batch->start_positions[s], half) +
                           cross_entropy(gradient, rows, 1, batch->end_positions[s], half)));
    }
    for (int64_t row = batch->token_count; !mat_is_empty(dlogits) && row < dlogits.rows; row++) {
        store_gradient(dlogits, row, 0, 0.0f);
        store_gradient(dlogits, row, 1, 0.0f);
    }
}

// Whether the label's logit is larger than all logits before it and at least as large as all after
// it. 0 if a logit is NaN.
static unsigned char is_hit(struct mat logits, int64_t row, int32_t label) {
    const float *x = mat_rows(logits, row, 1).data;
    if (label < 0 || label >= logits.cols) {
        return 0;
    }
    for (int64_t i = 0; i < logits.cols; i++) {
        if (!(x[label] > x[i] || (x[label] == x[i] && i >= label))) {
            return 0;
        }
    }
    return 1;
}

void cpu_class_loss(struct device *dev, struct mat dlogits, float *losses, unsigned char *hits,
                    struct mat logits, float scale, const int32_t *labels, int64_t count) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t i = 0; i < count; i++) {
        const int32_t label = labels != NULL ? labels[i] : (int32_t)i;
        if (hits != NULL) {
            hits[i] = is_hit(logits, i, label); // before the gradient overwrites the logits
        }
        losses[i] = (float)cpu->kernels->cross_entropy(dlogits, logits, i, label, scale);
    }
    cpu_zero_rows(dlogits, count);
}

// The smoothed and weighted target of class k in the loss of a row.
static double class_target(const struct class_weighting *weighting, int64_t k, int32_t label,
                           int64_t classes) {
    const double smoothing = (double)weighting->smoothing;
    return (double)weighting->weights[k] *
           (smoothing / (double)classes + (k == label ? 1.0 - smoothing : 0.0));
}

// The loss of row i is the sum of targets[k] * (log-sum-exp - logits[k]).
static double weighted_row(struct mat dlogits, struct mat logits, int64_t i,
                           const struct class_weighting *weighting, int32_t label, double scale) {
    const struct mat column = {.data = mat_rows(logits, i, 1).data,
                               .rows = logits.cols,
                               .cols = 1,
                               .stride = 1,
                               .dtype = DTYPE_F32};
    const float *x = column.data;
    const int used = label >= 0 && label < logits.cols;
    const double shift = log_sum_exp(column, 0);
    double total = 0.0, sum = 0.0;
    for (int64_t k = 0; used && k < logits.cols; k++) {
        const double target = class_target(weighting, k, label, logits.cols);
        total += target;
        sum += target * (shift - (double)x[k]);
    }
    for (int64_t k = 0; !mat_is_empty(dlogits) && k < logits.cols; k++) {
        const double target = used ? class_target(weighting, k, label, logits.cols) : 0.0;
        const double gradient = total * math_exp((double)x[k] - shift) - target;
        store_gradient(dlogits, i, (int)k, used ? (float)(scale * gradient) : 0.0f);
    }
    return sum;
}

void cpu_weighted_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                       float scale, const struct class_weighting *weighting, const int32_t *labels,
                       int64_t count) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t i = 0; i < count; i++) {
        losses[i] = (float)weighted_row(dlogits, logits, i, weighting, labels[i], (double)scale);
    }
    cpu_zero_rows(dlogits, count);
}

void cpu_squared_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                      float scale, const float *targets, int64_t count) {
    const float *x = logits.data;
    for (int64_t i = 0; i < count; i++) {
        const int used = !isnan(targets[i]);
        double difference = used ? (double)x[i * logits.stride] - (double)targets[i] : 0.0;
        losses[i] = (float)(difference * difference);
        if (!mat_is_empty(dlogits)) {
            store_gradient(dlogits, i, 0, (float)(2.0 * (double)scale * difference));
        }
    }
    cpu_zero_rows(dlogits, count);
}

void cpu_add_losses(struct device *dev, double *sum, const float *losses, int64_t count,
                    double weight) {
    double own = 0.0;
    for (int64_t i = 0; i < count; i++) {
        own += (double)losses[i];
    }
    *sum += weight * own;
}

// log(1 + e^x)
static double soft_plus(double x) {
    return fmax(x, 0.0) + math_log1p(math_exp(-fabs(x)));
}

void cpu_sigmoid_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                      float scale, float positive_weight, const float *targets, int64_t count) {
    const int64_t width = logits.cols;
    const double w = (double)positive_weight;
    for (int64_t i = 0; i < count; i++) {
        const float *x = mat_rows(logits, i, 1).data, *t = targets + i * width;
        const int used = !isnan(t[0]);
        double sum = 0.0;
        for (int64_t k = 0; k < width; k++) {
            double logit = x[k], target = used ? (double)t[k] : 0.0;
            double total = 1.0 + (w - 1.0) * target; // of both terms' weights
            double gradient = used ? total / (1.0 + math_exp(-logit)) - w * target : 0.0;
            sum += total * soft_plus(logit) - w * target * logit;
            if (!mat_is_empty(dlogits)) { // may be the memory of the logits
                store_gradient(dlogits, i, (int)k,
                               (float)((double)scale * gradient / (double)width));
            }
        }
        losses[i] = used ? (float)(sum / (double)width) : 0.0f;
    }
    cpu_zero_rows(dlogits, count);
}
