// SPDX-License-Identifier: Apache-2.0
// The span head's loss: two cross entropies over the rows of each sequence, in double.
#include "cpu/cpu.h"

#include <math.h>
#include <string.h>

static void store_gradient(struct mat dlogits, int64_t row, int half, float value) {
    char *to = (char *)mat_rows(dlogits, row, 1).data + (size_t)half * dtype_size(dlogits.dtype);
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

// log(sum(exp(logits[:, half]))) over the rows
static double log_sum_exp(struct mat logits, int half) {
    const float *x = (const float *)logits.data + half;
    double most = -INFINITY, sum = 0.0;
    for (int64_t row = 0; row < logits.rows; row++) {
        most = fmax(most, (double)x[row * logits.stride]);
    }
    for (int64_t row = 0; row < logits.rows; row++) {
        sum += exp((double)x[row * logits.stride] - most);
    }
    return most + log(sum);
}

// Half of the loss; the gradient rows are written when `dlogits` is not empty.
static double half_loss(struct mat dlogits, struct mat logits, int half, int32_t label,
                        float scale) {
    const float *x = (const float *)logits.data + half;
    const int used = label >= 0 && label < logits.rows;
    const double shift = log_sum_exp(logits, half);
    for (int64_t row = 0; !mat_is_empty(dlogits) && row < logits.rows; row++) {
        double p = exp((double)x[row * logits.stride] - shift);
        double gradient = used ? 0.5 * (double)scale * (p - (row == label)) : 0.0;
        store_gradient(dlogits, row, half, (float)gradient);
    }
    return used ? 0.5 * (shift - (double)x[label * logits.stride]) : 0.0;
}

void cpu_span_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                   float scale, const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        int64_t first = batch->cu_seqlens[s], length = batch->cu_seqlens[s + 1] - first;
        struct mat gradient = mat_is_empty(dlogits) ? dlogits : mat_rows(dlogits, first, length);
        struct mat rows = mat_rows(logits, first, length);
        losses[s] = (float)(half_loss(gradient, rows, 0, batch->start_positions[s], scale) +
                            half_loss(gradient, rows, 1, batch->end_positions[s], scale));
    }
    for (int64_t row = batch->token_count; !mat_is_empty(dlogits) && row < dlogits.rows; row++) {
        store_gradient(dlogits, row, 0, 0.0f);
        store_gradient(dlogits, row, 1, 0.0f);
    }
}
