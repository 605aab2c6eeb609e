// SPDX-License-Identifier: Apache-2.0
// The operations between the last layer and a head: gather and scatter of rows, the pooler's tanh
// with dropout, the dropout of all rows.
#include "core/portable_math.h"
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

static float *row_of(struct mat m, int64_t row) {
    return (float *)m.data + row * m.stride;
}

static void zero_row(struct mat m, int64_t row) {
    cpu_zero_rows(mat_rows(m, row, 1), 0);
}

static void copy_row(struct mat to, int64_t to_row, struct mat from, int64_t from_row) {
    memcpy(mat_rows(to, to_row, 1).data, mat_rows(from, from_row, 1).data,
           (size_t)to.cols * dtype_size(to.dtype));
}

void cpu_gather_rows(struct device *dev, struct mat y, struct mat x, const int32_t *rows,
                     int64_t count) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < y.rows; i++) {
        if (i < count) {
            copy_row(y, i, x, rows[i]);
        } else {
            zero_row(y, i);
        }
    }
}

void cpu_scatter_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                      int64_t count) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t row = 0; row < dx.rows; row++) {
        zero_row(dx, row);
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) {
        copy_row(dx, rows[i], dy, i);
    }
}

void cpu_scatter_add_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                          int64_t count) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) {
        cpu->kernels->add(row_of(dx, rows[i]), row_of(dy, i), dx.cols);
    }
}

void cpu_drop_rows(struct device *dev, struct mat y, struct mat x, struct dropout dropout,
                   const struct batch *batch) {
    static const struct dropout none = {.threshold = 0};
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t row = 0; row < y.rows; row++) {
        const int32_t sequence = batch->sequences[row];
        const struct dropout *mask = sequence < 0 ? &none : &dropout;
        cpu->kernels->drop_row(mat_rows(y, row, 1), mat_rows(x, row, 1), mask,
                               sequence < 0 ? 0 : batch->global_indices[sequence],
                               batch->positions[row]);
    }
}

void cpu_tanh_forward(struct device *dev, struct mat y, struct mat t, struct mat u,
                      struct dropout dropout, const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < y.rows; i++) {
        if (i >= batch->sequence_count) {
            zero_row(t, i);
            zero_row(y, i);
            continue;
        }
        const float *from = row_of(u, i);
        float *to = row_of(t, i);
        for (int64_t c = 0; c < t.cols; c++) {
            to[c] = (float)math_tanh((double)from[c]);
        }
        cpu->kernels->drop_row(mat_rows(y, i, 1), mat_rows(t, i, 1), &dropout,
                               batch->global_indices[i], 0);
    }
}

void cpu_drop_first_rows(struct device *dev, struct mat y, struct mat x, struct dropout dropout,
                         const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < y.rows; i++) {
        if (i >= batch->sequence_count) {
            zero_row(y, i);
            continue;
        }
        cpu->kernels->drop_row(mat_rows(y, i, 1), mat_rows(x, i, 1), &dropout,
                               batch->global_indices[i], 0);
    }
}

void cpu_tanh_backward(struct device *dev, struct mat du, struct mat dy, struct mat t,
                       struct dropout dropout, const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < du.rows; i++) {
        if (i >= batch->sequence_count) {
            zero_row(du, i);
            continue;
        }
        cpu->kernels->drop_row(mat_rows(du, i, 1), mat_rows(dy, i, 1), &dropout,
                               batch->global_indices[i], 0);
        const float *value = row_of(t, i);
        float *to = row_of(du, i);
        for (int64_t c = 0; c < du.cols; c++) {
            to[c] *= 1.0f - value[c] * value[c];
        }
    }
}
