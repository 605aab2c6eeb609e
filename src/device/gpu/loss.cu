// SPDX-License-Identifier: Apache-2.0
// The losses on a GPU, a block of threads for each row or sequence. Sums on which a small loss
// depends, near a probability of 1, are in double. The formulas are those of device/device.h.
#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"

#include <float.h>

enum { LOSS_THREADS = 256, CLASS_THREADS = 512 };

DEVICE void set_gradient(const struct mat &m, int64_t row, int64_t column, double x) {
    if (is_given(m)) {
        set_number(m, row, column, (float)x);
    }
}

static void zero_rows_from(struct gpu *gpu, struct mat m, int64_t first) {
    if (!mat_is_empty(m)) {
        gpu_zero_rows(gpu, m, first);
    }
}

// --- spans --------------------------------------------------------------------------------------

// Rows [first, first + length) of the logits: those of a sequence.
struct sequence_rows {
    int64_t first, length;
};

// The cross entropy of one column over a sequence. All threads call this, and all get the result.
DEVICE double span_entropy(struct mat dlogits, struct mat logits, int column,
                           struct sequence_rows rows, int32_t label, double scale) {
    const int64_t first = rows.first, length = rows.length;
    const bool is_counted = label >= 0 && label < length;
    float largest = -INFINITY;
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < length; i += LOSS_THREADS) {
        largest = fmaxf(largest, number_at(logits, first + i, column));
    }
    largest = block_max<LOSS_THREADS>(largest);
    for (int64_t i = threadIdx.x; i < length; i += LOSS_THREADS) {
        sum += exp((double)number_at(logits, first + i, column) - (double)largest);
    }
    const double shift = (double)largest + log(block_sum<LOSS_THREADS>(sum));
    const double label_logit = is_counted ? (double)number_at(logits, first + label, column) : 0.0;
    __syncthreads(); // the gradient may share the logits' memory
    for (int64_t i = threadIdx.x; is_given(dlogits) && i < length; i += LOSS_THREADS) {
        const double p = exp((double)number_at(logits, first + i, column) - shift);
        set_gradient(dlogits, first + i, column, is_counted ? scale * (p - (i == label)) : 0.0);
    }
    return is_counted ? shift - label_logit : 0.0;
}

__global__ void __launch_bounds__(LOSS_THREADS)
    span_loss_kernel(struct mat dlogits, float *losses, struct mat logits, float scale,
                     struct batch batch) {
    const int64_t s = blockIdx.x, first = batch.cu_seqlens[s];
    const struct sequence_rows rows = {first, batch.cu_seqlens[s + 1] - first};
    const double half = 0.5 * (double)scale;
    const double loss = span_entropy(dlogits, logits, 0, rows, batch.start_positions[s], half) +
                        span_entropy(dlogits, logits, 1, rows, batch.end_positions[s], half);
    if (threadIdx.x == 0) {
        losses[s] = (float)(0.5 * loss);
    }
}

static gpu_cost span_loss_cost(struct mat dlogits, float *losses, struct mat logits, float,
                               struct batch batch) {
    const int64_t sequences = batch.sequence_count;
    return {cost_words(batch.cu_seqlens, 3 * sequences + 1) + cost_rows(logits, batch.token_count),
            cost_rows(dlogits, batch.token_count) + cost_words(losses, sequences), 0};
}

void gpu_span_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                   float scale, const struct batch *batch) {
    gpu_run(gpu_of(dev), {"span_loss", batch->sequence_count, LOSS_THREADS}, span_loss_kernel,
            span_loss_cost, dlogits, losses, logits, scale, *batch);
    zero_rows_from(gpu_of(dev), dlogits, batch->token_count);
}

// --- classes and words --------------------------------------------------------------------------

// VEC columns of a row; -infinity for those that do not exist.
template <int VEC>
DEVICE void load_scores(float (&x)[VEC], const struct mat &m, int64_t row, int64_t column) {
    if (column + VEC <= m.cols) {
        load(x, m, row, column);
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < VEC; i++) {
        x[i] = column + i < m.cols ? number_at(m, row, column + i) : -INFINITY;
    }
}

template <int VEC>
DEVICE void store_some(const struct mat &m, int64_t row, int64_t column, const float (&x)[VEC]) {
    if (column + VEC <= m.cols) {
        store(m, row, column, x);
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < VEC; i++) {
        if (column + i < m.cols) {
            set_number(m, row, column + i, x[i]);
        }
    }
}

// e^x for x <= 0
DEVICE float class_exp(float x) {
    return gpu_exp2(x * 1.44269504088896341f);
}

// Of some columns of a row: their largest number, the sum of e^(x - largest) without the label's,
// and whether one ranks before the label or is NaN.
struct class_sums {
    float largest, others;
    bool better;
};

template <int VEC>
DEVICE void add_scores(struct class_sums *sums, const float (&x)[VEC], int label) {
    float largest = sums->largest;
    GPU_UNROLL
    for (int i = 0; i < VEC; i++) {
        largest = fmaxf(largest, x[i]);
    }
    float others = sums->others * class_exp(sums->largest - largest);
    GPU_UNROLL
    for (int i = 0; i < VEC; i++) {
        others += i == label ? 0.0f : class_exp(x[i] - largest);
    }
    sums->largest = largest;
    sums->others = others;
}

// Whether a column ranks before the label, which is column `label` from the first one.
template <int VEC> DEVICE bool has_better(const float (&x)[VEC], float label_logit, int label) {
    bool better = false;
    GPU_UNROLL
    for (int i = 0; i < VEC; i++) {
        better = better || !(label_logit > x[i] || (label_logit == x[i] && i >= label));
    }
    return better;
}

// A block has one row of any number of columns. It reads the row twice if there is a gradient; the
// second time from a cache.
template <int VEC>
__global__ void __launch_bounds__(CLASS_THREADS, 3)
    class_loss_kernel(struct mat dlogits, float *losses, unsigned char *hits, struct mat logits,
                      float scale, const int32_t *labels) {
    const int64_t row = blockIdx.x;
    const int label = labels != NULL ? labels[row] : (int)row, cols = (int)logits.cols;
    const bool is_counted = label >= 0 && label < cols;
    const float label_logit = is_counted ? number_at(logits, row, label) : 0.0f;
    struct class_sums own = {-FLT_MAX, 0.0f, false};
    for (int i = (int)threadIdx.x * VEC; is_counted && i < cols; i += CLASS_THREADS * VEC) {
        float x[VEC];
        load_scores(x, logits, row, i);
        add_scores(&own, x, label - i);
        if (hits != NULL) {
            own.better = own.better || has_better(x, label_logit, label - i);
        }
    }
    const float largest = block_max<CLASS_THREADS>(own.largest);
    const double others =
        block_sum<CLASS_THREADS>((double)own.others * (double)class_exp(own.largest - largest));
    const double sum = others + (double)class_exp(label_logit - largest);
    const float factor = (float)((double)scale / sum);
    // p - 1 from the sum of the others, which is precise even if p is close to 1
    const float of_label = (float)(-(double)scale * others / sum);
    for (int i = (int)threadIdx.x * VEC; is_given(dlogits) && i < cols; i += CLASS_THREADS * VEC) {
        float x[VEC] = {};
        if (is_counted) {
            load_scores(x, logits, row, i);
        }
        GPU_UNROLL
        for (int k = 0; k < VEC; k++) {
            x[k] = is_counted ? factor * class_exp(x[k] - largest) : 0.0f;
            x[k] = is_counted && i + k == label ? of_label : x[k];
        }
        store_some(dlogits, row, i, x);
    }
    const float better = hits != NULL ? block_max<CLASS_THREADS>(own.better ? 1.0f : 0.0f) : 0.0f;
    if (threadIdx.x == 0) {
        losses[row] = is_counted ? (float)((double)largest + log(sum) - (double)label_logit) : 0.0f;
        if (hits != NULL) {
            hits[row] = is_counted && better == 0.0f;
        }
    }
}

// Rows whose labels are ignored are not read.
static gpu_cost class_loss_cost(struct mat dlogits, float *losses, unsigned char *hits,
                                struct mat logits, float, const int32_t *labels) {
    int64_t counted = 0;
    for (int64_t row = 0; row < logits.rows; row++) {
        const int64_t label = labels != NULL ? labels[row] : row;
        counted += label >= 0 && label < logits.cols;
    }
    return {cost_words(labels, logits.rows) + cost_rows(logits, counted),
            cost_rows(dlogits, logits.rows) + cost_words(losses, logits.rows) +
                (hits != NULL ? (uint64_t)logits.rows : 0),
            0};
}

void gpu_class_loss(struct device *dev, struct mat dlogits, float *losses, unsigned char *hits,
                    struct mat logits, float scale, const int32_t *labels, int64_t count) {
    const bool wide = gpu_has_vector_rows(logits) && gpu_has_vector_rows(dlogits);
    gpu_run(gpu_of(dev), {"class_loss", count, CLASS_THREADS},
            wide ? class_loss_kernel<8> : class_loss_kernel<1>, class_loss_cost, dlogits, losses,
            hits, mat_rows(logits, 0, count), scale, labels);
    zero_rows_from(gpu_of(dev), dlogits, count);
}

// The smoothed and weighted target of class k in the loss of a row.
DEVICE double class_target(const struct class_weighting &weighting, int64_t k, int32_t label,
                           int64_t classes) {
    const double smoothing = (double)weighting.smoothing;
    return (double)weighting.weights[k] *
           (smoothing / (double)classes + (k == label ? 1.0 - smoothing : 0.0));
}

// A thread has a row.
__global__ void __launch_bounds__(LOSS_THREADS)
    weighted_loss_kernel(struct mat dlogits, float *losses, struct mat logits, float scale,
                         struct class_weighting weighting, const int32_t *labels, int64_t count) {
    const int64_t row = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x, classes = logits.cols;
    if (row >= count) {
        return;
    }
    const int32_t label = labels[row];
    const bool is_counted = label >= 0 && label < classes;
    double largest = -INFINITY, exps = 0.0, total = 0.0, sum = 0.0;
    for (int64_t k = 0; k < classes; k++) {
        largest = fmax(largest, (double)number_at(logits, row, k));
    }
    for (int64_t k = 0; k < classes; k++) {
        exps += exp((double)number_at(logits, row, k) - largest);
    }
    const double shift = largest + log(exps);
    for (int64_t k = 0; is_counted && k < classes; k++) {
        const double target = class_target(weighting, k, label, classes);
        total += target;
        sum += target * (shift - (double)number_at(logits, row, k));
    }
    for (int64_t k = 0; k < classes; k++) { // the gradient may share the logits' memory
        const double p = exp((double)number_at(logits, row, k) - shift);
        const double target = is_counted ? class_target(weighting, k, label, classes) : 0.0;
        set_gradient(dlogits, row, k, is_counted ? (double)scale * (total * p - target) : 0.0);
    }
    losses[row] = (float)sum;
}

static gpu_cost weighted_loss_cost(struct mat dlogits, float *losses, struct mat logits, float,
                                   struct class_weighting weighting, const int32_t *labels,
                                   int64_t count) {
    bool weighs = false;
    for (int64_t row = 0; row < count; row++) {
        weighs = weighs || (labels[row] >= 0 && labels[row] < logits.cols);
    }
    return {cost_words(labels, count) + cost_rows(logits, count) +
                (weighs ? cost_words(weighting.weights, logits.cols) : 0),
            cost_rows(dlogits, count) + cost_words(losses, count), 0};
}

void gpu_weighted_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                       float scale, const struct class_weighting *weighting, const int32_t *labels,
                       int64_t count) {
    gpu_run(gpu_of(dev), {"weighted_loss", gpu_blocks(count, LOSS_THREADS), LOSS_THREADS},
            weighted_loss_kernel, weighted_loss_cost, dlogits, losses, logits, scale, *weighting,
            labels, count);
    zero_rows_from(gpu_of(dev), dlogits, count);
}

// --- real numbers and several labels ------------------------------------------------------------

__global__ void __launch_bounds__(LOSS_THREADS)
    squared_loss_kernel(struct mat dlogits, float *losses, struct mat logits, float scale,
                        const float *targets, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    const bool is_counted = !isnan(targets[i]);
    const double difference =
        is_counted ? (double)number_at(logits, i, 0) - (double)targets[i] : 0.0;
    losses[i] = (float)(difference * difference);
    set_gradient(dlogits, i, 0, 2.0 * (double)scale * difference);
}

static int64_t count_targets(const float *targets, int64_t count, int64_t width) {
    int64_t found = 0;
    for (int64_t row = 0; row < count; row++) {
        found += targets[row * width] == targets[row * width]; // no NaN
    }
    return found;
}

static gpu_cost squared_loss_cost(struct mat dlogits, float *losses, struct mat logits, float,
                                  const float *targets, int64_t count) {
    return {cost_words(targets, count) + cost_rows(logits, count_targets(targets, count, 1)),
            cost_rows(dlogits, count) + cost_words(losses, count), 0};
}

void gpu_squared_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                      float scale, const float *targets, int64_t count) {
    gpu_run(gpu_of(dev), {"squared_loss", gpu_blocks(count, LOSS_THREADS), LOSS_THREADS},
            squared_loss_kernel, squared_loss_cost, dlogits, losses, logits, scale, targets, count);
    zero_rows_from(gpu_of(dev), dlogits, count);
}

// log(1 + e^x)
DEVICE double soft_plus(double x) {
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

__global__ void __launch_bounds__(LOSS_THREADS)
    sigmoid_loss_kernel(struct mat dlogits, float *losses, struct mat logits, float scale,
                        float positive_weight, const float *targets, int64_t count) {
    const int64_t row = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x, width = logits.cols;
    if (row >= count) {
        return;
    }
    const float *t = targets + row * width;
    const double w = (double)positive_weight;
    const bool is_counted = !isnan(t[0]);
    double sum = 0.0;
    for (int64_t k = 0; k < width; k++) {
        const double x = number_at(logits, row, k), target = is_counted ? (double)t[k] : 0.0;
        const double p = x >= 0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
        const double total = 1.0 + (w - 1.0) * target; // of both terms' weights
        sum += total * soft_plus(x) - w * target * x;
        set_gradient(dlogits, row, k,
                     is_counted ? (double)scale * (total * p - w * target) / (double)width : 0.0);
    }
    losses[row] = is_counted ? (float)(sum / (double)width) : 0.0f;
}

// Only the first target is read of a row that is ignored.
static gpu_cost sigmoid_loss_cost(struct mat dlogits, float *losses, struct mat logits, float,
                                  float, const float *targets, int64_t count) {
    const int64_t counted = count_targets(targets, count, logits.cols);
    return {cost_words(targets, counted * logits.cols + count - counted) + cost_rows(logits, count),
            cost_rows(dlogits, count) + cost_words(losses, count), 0};
}

void gpu_sigmoid_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                      float scale, float positive_weight, const float *targets, int64_t count) {
    gpu_run(gpu_of(dev), {"sigmoid_loss", gpu_blocks(count, LOSS_THREADS), LOSS_THREADS},
            sigmoid_loss_kernel, sigmoid_loss_cost, dlogits, losses, logits, scale, positive_weight,
            targets, count);
    zero_rows_from(gpu_of(dev), dlogits, count);
}

// --- the sum of losses --------------------------------------------------------------------------

// One block, whose threads' sums are added in a fixed order.
__global__ void __launch_bounds__(LOSS_THREADS)
    add_losses_kernel(double *sum, const float *losses, int64_t count, double weight) {
    double total = 0.0;
    for (int64_t i = threadIdx.x; i < count; i += LOSS_THREADS) {
        total += (double)losses[i];
    }
    total = block_sum<LOSS_THREADS>(total);
    if (threadIdx.x == 0) {
        *sum += weight * total;
    }
}

static gpu_cost add_losses_cost(double *, const float *losses, int64_t count, double) {
    return {cost_words(losses, count) + sizeof(double), sizeof(double), 0};
}

void gpu_add_losses(struct device *dev, double *sum, const float *losses, int64_t count,
                    double weight) {
    gpu_run(gpu_of(dev), {"add_losses", 1, LOSS_THREADS}, add_losses_kernel, add_losses_cost, sum,
            losses, count, weight);
}
