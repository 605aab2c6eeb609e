// SPDX-License-Identifier: Apache-2.0
// The gradient's norm, the optimizer's update and conversions, over blocks of fixed size.
#include "cpu/cpu.h"

#include <math.h>
#include <string.h>

void cpu_grad_norm(struct device *dev, struct grad_stats *stats, const float *gradients,
                   int64_t count, double gradient_scale) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t blocks = cpu_blocks(count, CPU_SUM_BLOCK);
    double sums[256], total = 0.0;
    const int64_t batch = (int64_t)(sizeof sums / sizeof *sums);
    for (int64_t first = 0; first < blocks; first += batch) {
        const int64_t some = cpu_piece(first, blocks, batch);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
        for (int64_t i = 0; i < some; i++) {
            int64_t from = (first + i) * CPU_SUM_BLOCK;
            sums[i] =
                cpu->kernels->sum_squares(gradients + from, cpu_piece(from, count, CPU_SUM_BLOCK));
        }
        for (int64_t i = 0; i < some; i++) {
            total += sums[i];
        }
    }
    stats->sum_squares = total * gradient_scale * gradient_scale;
}

// What the gradients are multiplied with: scale and clipping.
static double gradient_factor(const struct adamw_args *args) {
    double factor = args->gradient_scale;
    if (args->max_grad_norm > 0 && args->stats != NULL) {
        const double norm = sqrt(args->stats->sum_squares) + (args->exact_clip ? 0 : 1e-6);
        factor *= fmin(1.0, args->max_grad_norm / norm);
    }
    return factor;
}

static int is_skipped(const struct adamw_args *args) {
    return args->stats != NULL && !isfinite(args->stats->sum_squares);
}

void cpu_adamw(struct device *dev, const struct adamw_args *args) {
    struct cpu *cpu = cpu_of(dev);
    const int skip = is_skipped(args);
    const double factor = skip ? 0.0 : gradient_factor(args);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t first = 0; first < args->count; first += CPU_SUM_BLOCK) {
        int64_t count = cpu_piece(first, args->count, CPU_SUM_BLOCK);
        if (skip) {
            memset(args->gradients + first, 0, (size_t)count * sizeof(float));
        } else {
            cpu->kernels->adamw(args, factor, first, first + count);
        }
    }
}

// The first pass: moments, and the two sums of squares over blocks at fixed places.
static void lamb_sums(struct cpu *cpu, const struct adamw_args *args, double total[2]) {
    enum { BATCH = 128 };
    const double factor = gradient_factor(args);
    const int64_t blocks = cpu_blocks(args->count, CPU_SUM_BLOCK);
    double squares[BATCH][2];
    total[0] = total[1] = 0;
    for (int64_t first = 0; first < blocks; first += BATCH) {
        const int64_t some = cpu_piece(first, blocks, BATCH);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
        for (int64_t i = 0; i < some; i++) {
            int64_t from = (first + i) * CPU_SUM_BLOCK;
            int64_t last = from + cpu_piece(from, args->count, CPU_SUM_BLOCK);
            cpu->kernels->lamb_moments(args, factor, from, last, squares[i]);
        }
        for (int64_t i = 0; i < some; i++) {
            total[0] += squares[i][0];
            total[1] += squares[i][1];
        }
    }
}

void cpu_lamb(struct device *dev, const struct lamb_args *args) {
    struct cpu *cpu = cpu_of(dev);
    const struct adamw_args *adam = &args->adam;
    if (is_skipped(adam)) {
        cpu_adamw(dev, adam); // which clears the gradients
        return;
    }
    double squares[2];
    lamb_sums(cpu, adam, squares);
    struct lamb_stats found = {sqrt(squares[0]), sqrt(squares[1]), 1};
    if (found.parameter_norm > 0 && found.update_norm > 0) {
        double ratio = found.parameter_norm / found.update_norm;
        found.coefficient = fmax(args->min_coeff, fmin(args->max_coeff, ratio));
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t first = 0; first < adam->count; first += CPU_SUM_BLOCK) {
        int64_t last = first + cpu_piece(first, adam->count, CPU_SUM_BLOCK);
        cpu->kernels->lamb_apply(adam, adam->learning_rate * found.coefficient, first, last);
    }
    *args->result = found;
}

void cpu_convert(struct device *dev, struct mat to, const float *from) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t count = to.rows * to.cols;
    to = (struct mat){to.data, 1, count, count, to.dtype};
    struct mat source = mat_of((void *)(uintptr_t)from, 1, count, DTYPE_F32);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t first = 0; first < count; first += CPU_SUM_BLOCK) {
        int64_t some = cpu_piece(first, count, CPU_SUM_BLOCK);
        cpu->kernels->copy(mat_columns(to, first, some), mat_columns(source, first, some));
    }
}
