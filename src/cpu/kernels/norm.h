// SPDX-License-Identifier: Apache-2.0
// Layer norm fused with its neighbours: the embedding sum, or the residual and dropout.
#ifndef BERTH_CPU_KERNELS_NORM_H
#define BERTH_CPU_KERNELS_NORM_H

#include "cpu/kernels/dropout.h"

struct norm_row {
    struct mat y, y_compute, xhat;
    float *rstd;
    const float *gamma, *beta;
    float epsilon;
    const struct dropout *dropout; // on the result; NULL: none
};

// The row of n->y holds s on entry and dropout(gamma * xhat + beta) on return.
ALWAYS void norm_row(const struct norm_row *n, const struct batch *batch, int64_t row, float sum) {
    const int64_t columns = n->y.cols;
    float *y = row_at(n->y, row, 0);
    const float mean = sum / (float)columns;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < columns; c++) {
        float centred = y[c] - mean;
        squares += centred * centred;
    }
    const float rstd = 1.0f / sqrtf(squares / (float)columns + n->epsilon);
    if (n->rstd != NULL) {
        n->rstd[row] = rstd;
    }
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        int64_t count = piece(c, columns, KERNEL_COLUMNS);
        float xhat[KERNEL_COLUMNS];
        float *out = y + c;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            xhat[i] = (out[i] - mean) * rstd;
            out[i] = xhat[i] * n->gamma[c + i] + n->beta[c + i];
        }
        if (!mat_is_empty(n->xhat)) {
            store(n->xhat, row, c, xhat, count);
        }
        if (n->dropout != NULL) {
            dropout_apply(out, n->dropout, batch, row, c, count);
        }
        if (!mat_is_empty(n->y_compute)) {
            store(n->y_compute, row, c, out, count);
        }
    }
}

ALWAYS float sum_of(const float *x, int64_t count) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        sum += x[i];
    }
    return sum;
}

static void norm_forward(const struct norm_args *args, const struct batch *batch, int64_t first,
                         int64_t last) {
    const struct norm_row n = {args->y,     args->y_compute, args->xhat,    args->rstd,
                               args->gamma, args->beta,      args->epsilon, NULL};
    const int64_t columns = args->y.cols;
    for (int64_t row = first; row < last; row++) {
        float sum = 0.0f;
        for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, columns, KERNEL_COLUMNS);
            float s[KERNEL_COLUMNS];
            if (mat_is_empty(args->x)) {
                load(s, args->residual, row, c, count);
            } else {
                load(s, args->x, row, c, count);
                dropout_apply(s, &args->dropout, batch, row, c, count);
                load_added(s, args->residual, row, c, count);
            }
            sum += sum_of(s, count);
            store(args->y, row, c, s, count);
            if (!mat_is_empty(args->sum)) {
                store(args->sum, row, c, s, count);
            }
        }
        norm_row(&n, batch, row, sum);
    }
}

static void embed_forward(const struct embed_args *args, const struct batch *batch, int64_t first,
                          int64_t last) {
    const struct norm_row n = {args->y,     args->y_compute, args->xhat,    args->rstd,
                               args->gamma, args->beta,      args->epsilon, &args->dropout};
    const int64_t columns = args->y.cols;
    for (int64_t row = first; row < last; row++) {
        const float *restrict word = row_at(args->word, batch->ids[row], 0);
        const float *restrict position = row_at(args->position, batch->positions[row], 0);
        const float *restrict type = row_at(args->type, batch->type_ids[row], 0);
        float *restrict s = row_at(args->y, row, 0);
#pragma omp simd
        for (int64_t c = 0; c < columns; c++) {
            s[c] = word[c] + position[c] + type[c];
        }
        norm_row(&n, batch, row, sum_of(s, columns));
    }
}

// --- backward -----------------------------------------------------------------------------------

struct norm_grad_row {
    struct mat ds; // dy of the row on entry, the gradient of s on return
    struct mat xhat;
    const float *rstd, *gamma;
    float *dgamma, *dbeta; // partial sums
};

ALWAYS void norm_grad_row(const struct norm_grad_row *n, int64_t row) {
    const int64_t columns = n->ds.cols;
    const float rstd = n->rstd[row];
    float sum = 0.0f, dot = 0.0f;
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        int64_t count = piece(c, columns, KERNEL_COLUMNS);
        float xhat[KERNEL_COLUMNS];
        load(xhat, n->xhat, row, c, count);
        float *restrict ds = row_at(n->ds, row, c);
        const float *restrict gamma = n->gamma + c;
        float *restrict dgamma = n->dgamma + c, *restrict dbeta = n->dbeta + c;
#pragma omp simd reduction(+ : sum, dot)
        for (int64_t i = 0; i < count; i++) {
            dgamma[i] += ds[i] * xhat[i];
            dbeta[i] += ds[i];
            float g = ds[i] * gamma[i];
            sum += g;
            dot += g * xhat[i];
            ds[i] = g;
        }
    }
    const float mean = sum / (float)columns, mean_dot = dot / (float)columns;
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        int64_t count = piece(c, columns, KERNEL_COLUMNS);
        float xhat[KERNEL_COLUMNS];
        load(xhat, n->xhat, row, c, count);
        float *restrict ds = row_at(n->ds, row, c);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            ds[i] = rstd * (ds[i] - mean - xhat[i] * mean_dot);
        }
    }
}

// dy + dy2 of one row, into the row of `to`.
ALWAYS void gather_gradient(struct mat to, struct mat dy, struct mat dy2,
                            const struct dropout *dropout, const struct batch *batch, int64_t row) {
    for (int64_t c = 0; c < to.cols; c += KERNEL_COLUMNS) {
        int64_t count = piece(c, to.cols, KERNEL_COLUMNS);
        float sum[KERNEL_COLUMNS];
        load(sum, dy, row, c, count);
        if (!mat_is_empty(dy2)) {
            load_added(sum, dy2, row, c, count);
        }
        if (dropout != NULL) {
            dropout_apply(sum, dropout, batch, row, c, count);
        }
        store(to, row, c, sum, count);
    }
}

static void norm_backward(const struct norm_grad_args *args, const struct batch *batch,
                          int64_t first, int64_t last, float *partial) {
    const int64_t columns = args->dy.cols;
    const int has_x = !mat_is_empty(args->dx), has_sum = !mat_is_empty(args->dsum);
    memset(partial, 0, (has_x ? 3 : 2) * (size_t)columns * sizeof *partial);
    const struct norm_grad_row n = {has_sum ? args->dy : args->dresidual,
                                    args->xhat,
                                    args->rstd,
                                    args->gamma,
                                    partial,
                                    partial + columns};
    for (int64_t row = first; row < last; row++) {
        gather_gradient(n.ds, args->dy, args->dy2, NULL, batch, row);
        norm_grad_row(&n, row);
        if (has_sum) {
            gather_gradient(args->dresidual, args->dsum, n.ds, NULL, batch, row);
        }
        for (int64_t c = 0; has_x && c < columns; c += KERNEL_COLUMNS) {
            int64_t count = piece(c, columns, KERNEL_COLUMNS);
            float dx[KERNEL_COLUMNS];
            load(dx, args->dresidual, row, c, count);
            dropout_apply(dx, &args->dropout, batch, row, c, count);
            float *restrict dbias = partial + 2 * columns + c;
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                dbias[i] += dx[i];
            }
            store(args->dx, row, c, dx, count);
        }
    }
}

static void embed_backward(const struct embed_grad_args *args, const struct batch *batch,
                           int64_t first, int64_t last, float *partial) {
    const int64_t columns = args->dy.cols;
    memset(partial, 0, 2 * (size_t)columns * sizeof *partial);
    const struct norm_grad_row n = {args->scratch, args->xhat, args->rstd,
                                    args->gamma,   partial,    partial + columns};
    for (int64_t row = first; row < last; row++) {
        gather_gradient(args->scratch, args->dy, args->dy2, &args->dropout, batch, row);
        norm_grad_row(&n, row);
    }
}

static void scatter_add(struct mat table, struct mat x, const int32_t *index) {
    for (int64_t row = 0; row < x.rows; row++) {
        if (index[row] >= 0) {
            float *restrict to = row_at(table, index[row], 0);
            const float *restrict from = row_at(x, row, 0);
#pragma omp simd
            for (int64_t c = 0; c < x.cols; c++) {
                to[c] += from[c];
            }
        }
    }
}

#endif
