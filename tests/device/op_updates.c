// SPDX-License-Identifier: Apache-2.0
// The references of an update's operations on the flat buffers of parameters: norms, optimizers,
// sums, conversions and checksums.
#include "op_rows.h"

#include <math.h>
#include <string.h>

void op_squares(struct op_case *c) {
    memset(c->x[0], 0, (size_t)SIZE(BLOCKS) * sizeof(double));
    for (int r = 0; r < OP_CASE_RANGES; r++) {
        const struct device_range *range = &c->ranges[r];
        for (int64_t i = 0; i < range->count; i++) {
            const double value = c->x[1][range->first + i];
            c->x[0][range->block + i / DEVICE_SUM_BLOCK] += value * value;
        }
    }
}

void op_prepare_infinity(struct op_case *c, int mode) {
    c->x[1][SIZE(TABLE) - 1] = mode == 0 ? 1 : (double)INFINITY;
}

void op_norms(struct op_case *c) {
    const int64_t *blocks = data_of(c, 2);
    for (int64_t t = 0; t < SIZE(TENSORS); t++) {
        double sum = 0;
        for (int64_t b = blocks[t]; b < blocks[t + 1]; b++) {
            sum += c->x[1][b];
        }
        c->x[0][t] = 0.25 * sum;
    }
}

static double sum_squares_of(const struct op_case *c, const struct device_range *range) {
    return c->x[7] != NULL ? c->x[7][range->tensor] : c->x[6][0];
}

static int is_skipped(const struct op_case *c) {
    return !isfinite(sum_squares_of(c, &c->ranges[0]));
}

static double factor_of(const struct op_case *c, const struct device_range *range) {
    const struct adamw_args *args = &c->call.adam;
    const double norm = sqrt(sum_squares_of(c, range)) + (args->exact_clip ? 0 : 1e-6);
    return args->gradient_scale *
           (args->max_grad_norm > 0 ? fmin(1, args->max_grad_norm / norm) : 1);
}

// The update of element i of the range before it is multiplied by the rate, from its new moments.
static double update_of(const struct op_case *c, const struct device_range *range, int64_t i) {
    const struct adamw_args *args = &c->call.adam;
    const double m = c->x[2][range->moment_first + i],
                 square = c->x[3][range->moment_first + i] / args->correction2;
    const double root =
        args->epsilon_inside_root ? sqrt(square + args->epsilon) : sqrt(square) + args->epsilon;
    const double decay = args->l2_mode ? 0 : range->weight_decay * c->x[0][range->first + i];
    return m / args->correction1 / root + decay;
}

// Computes new moments. The gradients are cleared even if the update is skipped.
static void update_moments(struct op_case *c, const struct device_range *range) {
    const struct adamw_args *args = &c->call.adam;
    const double factor = factor_of(c, range), decay = args->l2_mode ? range->weight_decay : 0;
    for (int64_t i = 0; i < range->count; i++) {
        double *m = &c->x[2][range->moment_first + i], *v = &c->x[3][range->moment_first + i];
        const double gradient =
            c->x[1][range->first + i] * factor + decay * c->x[0][range->first + i];
        if (!is_skipped(c)) {
            *m = args->beta1 * *m + (1 - args->beta1) * gradient;
            *v = args->beta2 * *v + (1 - args->beta2) * gradient * gradient;
        }
        c->x[1][range->first + i] = 0;
    }
}

static void update_parameters(struct op_case *c, const struct device_range *range, double rate) {
    for (int64_t i = 0; i < range->count; i++) {
        double *p = &c->x[0][range->first + i];
        *p -= rate * update_of(c, range, i);
        if (range->first + i < c->call.operands[4].cols) {
            c->x[4][range->first + i] = *p;
        }
    }
}

void op_adamw(struct op_case *c) {
    for (int r = 0; r < OP_CASE_RANGES; r++) {
        update_moments(c, &c->ranges[r]);
        if (!is_skipped(c)) {
            update_parameters(c, &c->ranges[r], c->call.adam.rate);
        }
    }
}

static void skip_update(struct op_case *c) {
    for (int i = 0; i < OP_CASE_RANGES - 1; i++) {
        *(c->x[7] != NULL ? &c->x[7][i] : c->x[6]) = i == 0 ? (double)NAN : (double)INFINITY;
    }
}

void op_prepare_adamw(struct op_case *c, int mode) {
    struct adamw_args *args = &c->call.adam;
    if (mode == L2) {
        args->l2_mode = 1;
        args->correction1 = args->correction2 = 1;
        args->max_grad_norm = 0;
        if (c->x[4] != NULL) {
            c->call.operands[4].cols = c->ranges[1].first; // of the first tensor only
        }
    } else if (mode == SKIP) {
        skip_update(c);
    } else if (mode == EXACT) {
        args->exact_clip = args->epsilon_inside_root = 1;
        args->max_grad_norm = 1e-5; // a tenth of the norm: 1e-6 more would be a percent
        args->epsilon = 1e-3;
        c->x[6][0] = 1e-8;
    }
}

void op_lamb_moments(struct op_case *c) {
    for (int r = 0; r < OP_CASE_RANGES; r++) {
        const struct device_range *range = &c->ranges[r];
        double *sums = c->x[8] + 2 * range->block;
        update_moments(c, range);
        for (int64_t i = 0; !is_skipped(c) && i < range->count; i++) {
            const double p = c->x[0][range->first + i], u = update_of(c, range, i);
            const int64_t block = i / DEVICE_SUM_BLOCK;
            sums[2 * block] = p * p + (i % DEVICE_SUM_BLOCK > 0 ? sums[2 * block] : 0);
            sums[2 * block + 1] = u * u + (i % DEVICE_SUM_BLOCK > 0 ? sums[2 * block + 1] : 0);
        }
    }
}

void op_prepare_lamb_moments(struct op_case *c, int mode) {
    c->call.adam.exact_clip = mode == 0;
    if (mode == 1) {
        skip_update(c);
    }
}

void op_lamb_apply(struct op_case *c) {
    const int64_t *blocks = data_of(c, 9);
    for (int64_t t = 0; !is_skipped(c) && t < SIZE(TENSORS); t++) {
        double sums[2] = {0}, *found = c->x[10] + 3 * t;
        for (int64_t b = blocks[t]; b < blocks[t + 1]; b++) {
            sums[0] += c->x[8][2 * b];
            sums[1] += c->x[8][2 * b + 1];
        }
        found[0] = sqrt(sums[0]);
        found[1] = sqrt(sums[1]);
        found[2] = 1;
        if (sums[0] > 0 && sums[1] > 0) {
            found[2] = fmin(c->call.max_coeff, fmax(c->call.min_coeff, found[0] / found[1]));
        }
    }
    for (int r = 0; !is_skipped(c) && r < OP_CASE_RANGES; r++) {
        const double coefficient = c->x[10][3 * c->ranges[r].tensor + 2];
        update_parameters(c, &c->ranges[r], c->call.adam.rate * coefficient);
    }
}

void op_prepare_lamb_apply(struct op_case *c, int mode) {
    c->call.min_coeff = mode == AT_LEAST ? 1.9 : 0;
    c->call.max_coeff = mode == AT_MOST ? 0.01 : (double)INFINITY;
    for (int64_t b = 0; mode == ZERO_PARAMETERS && b < SIZE(BLOCKS); b++) {
        c->x[8][2 * b] = 0;
    }
    if (mode == SKIPPED) {
        skip_update(c);
    }
}

void op_add(struct op_case *c) {
    for (int64_t i = 0; i < SIZE(TABLE); i++) {
        c->x[0][i] = (double)(float)(c->x[0][i] + c->x[1][i]);
    }
}

void op_convert(struct op_case *c) {
    const int64_t count = SIZE(TABLE);
    const struct mat to = mat_of(op_alloc(c->run, (size_t)count * 4), 1, count, c->run->compute);
    for (int64_t i = 0; i < count; i++) {
        op_set_number(to, 0, i, c->x[1][i]);
        c->x[0][i] = op_number_at(to, 0, i);
    }
}

// Fletcher's two sums of each lane (core/checksum.c), word by word.
static uint64_t checksum_of(const unsigned char *data, size_t bytes) {
    uint64_t low[16] = {0}, high[16] = {0}, sum = bytes;
    for (size_t at = 0; at < bytes / 64 * 64 + 64; at += 4) {
        uint32_t word = 0;
        for (size_t i = 0; i < 4 && at + i < bytes; i++) {
            word |= (uint32_t)data[at + i] << 8 * i;
        }
        low[at / 4 % 16] += word;
        high[at / 4 % 16] += low[at / 4 % 16];
    }
    for (int lane = 0; lane < 16; lane++) {
        sum = (sum ^ (high[lane] + (low[lane] << 33))) * 0x9E3779B97F4A7C15u;
        sum ^= sum >> 32;
    }
    return sum;
}

void op_checksums(struct op_case *c) {
    const struct device_checksum_range *ranges = data_of(c, 2);
    const size_t size = dtype_size(c->call.operands[1].dtype);
    for (int64_t i = 0; i < SIZE(PARTS); i++) {
        const unsigned char *first =
            (const unsigned char *)data_of(c, 1) + (size_t)ranges[i].first * size;
        const uint64_t sum = checksum_of(first, (size_t)ranges[i].count * size);
        c->x[0][2 * ranges[i].sum] = (double)(uint32_t)sum;
        c->x[0][2 * ranges[i].sum + 1] = (double)(sum >> 32);
    }
}
