// SPDX-License-Identifier: Apache-2.0
// The operations of an update: the gradient's norm, the optimizers' formulas, conversions and
// checksums over ranges of the flat buffers. Threads get chunks of fixed size, so that sums do not
// depend on their number. The loops are in kernels/optimizer.h, the choice of ranges in
// train/optimizer/optimizer_plan.c.
#include "core/checksum.h"
#include "device/cpu/cpu.h"

#include <math.h>

void cpu_squares(struct device *dev, double *sums, const float *values,
                 const struct device_range *ranges, int64_t range_count) {
    struct cpu *cpu = cpu_of(dev);
    for (int64_t r = 0; r < range_count; r++) {
        const struct device_range *range = &ranges[r];
        const int64_t blocks = device_sum_blocks(range->count);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
        for (int64_t i = 0; i < blocks; i++) {
            const int64_t from = i * DEVICE_SUM_BLOCK;
            sums[range->block + i] =
                cpu->kernels->sum_squares(values + range->first + from,
                                          cpu_chunk_length(from, range->count, DEVICE_SUM_BLOCK));
        }
    }
}

void cpu_norms(struct device *dev, struct grad_stats *stats, const double *sums,
               const int64_t *blocks, int64_t groups, double scale) {
    for (int64_t g = 0; g < groups; g++) {
        double total = 0.0;
        for (int64_t i = blocks[g]; i < blocks[g + 1]; i++) {
            total += sums[i];
        }
        stats[g].sum_squares = total * scale * scale;
    }
}

static const struct grad_stats *stats_of(const struct adamw_args *args,
                                         const struct device_range *range) {
    return args->tensor_stats != NULL ? &args->tensor_stats[range->tensor] : args->stats;
}

// The factor on the gradients: scale and clipping.
static double gradient_factor(const struct adamw_args *args, const struct device_range *range) {
    const struct grad_stats *stats = stats_of(args, range);
    double factor = args->gradient_scale;
    if (args->max_grad_norm > 0 && stats != NULL) {
        const double norm = sqrt(stats->sum_squares) + (args->exact_clip ? 0 : 1e-6);
        factor *= fmin(1.0, args->max_grad_norm / norm);
    }
    return factor;
}

static int is_skipped(const struct adamw_args *args, const struct device_range *range) {
    const struct grad_stats *stats = stats_of(args, range);
    return stats != NULL && !isfinite(stats->sum_squares);
}

static struct adamw_range kernel_range(const struct adamw_args *args,
                                       const struct device_range *range) {
    const int copied = !mat_is_empty(args->compute) && range->first < args->compute.cols;
    return (struct adamw_range){
        .parameters = args->parameters + range->first,
        .gradients = args->gradients + range->first,
        .first_moment = args->first_moment + range->moment_first,
        .second_moment = args->second_moment + range->moment_first,
        .compute =
            copied ? mat_columns(args->compute, range->first, range->count) : (struct mat){0},
        .weight_decay = range->weight_decay,
        .args = args,
    };
}

static void clear_gradients(struct device *dev, const struct adamw_args *args,
                            const struct device_range *range) {
    dev->zero(dev, args->gradients + range->first, (size_t)range->count * sizeof(float));
}

static void update_range(struct cpu *cpu, const struct adamw_args *args,
                         const struct device_range *range) {
    const struct adamw_range own = kernel_range(args, range);
    const double factor = gradient_factor(args, range);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t first = 0; first < range->count; first += CPU_CHUNK) {
        cpu->kernels->adamw(&own, factor, first,
                            first + cpu_chunk_length(first, range->count, CPU_CHUNK));
    }
}

void cpu_adamw(struct device *dev, const struct adamw_args *args) {
    for (int64_t r = 0; r < args->range_count; r++) {
        if (is_skipped(args, &args->ranges[r])) {
            clear_gradients(dev, args, &args->ranges[r]);
        } else {
            update_range(cpu_of(dev), args, &args->ranges[r]);
        }
    }
}

static void range_moments(struct cpu *cpu, const struct adamw_args *args,
                          const struct device_range *range, double *sums) {
    const struct adamw_range own = kernel_range(args, range);
    const double factor = gradient_factor(args, range);
    const int64_t blocks = device_sum_blocks(range->count);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t from = i * DEVICE_SUM_BLOCK;
        cpu->kernels->lamb_moments(&own, factor, from,
                                   from + cpu_chunk_length(from, range->count, DEVICE_SUM_BLOCK),
                                   sums + 2 * (range->block + i));
    }
}

void cpu_lamb_moments(struct device *dev, const struct adamw_args *args, double *sums) {
    for (int64_t r = 0; r < args->range_count; r++) {
        if (is_skipped(args, &args->ranges[r])) {
            clear_gradients(dev, args, &args->ranges[r]);
        } else {
            range_moments(cpu_of(dev), args, &args->ranges[r], sums);
        }
    }
}

static struct lamb_stats lamb_stats_of(const struct lamb_args *args, int64_t tensor) {
    double squares[2] = {0.0, 0.0};
    for (int64_t i = args->tensor_blocks[tensor]; i < args->tensor_blocks[tensor + 1]; i++) {
        squares[0] += args->sums[2 * i];
        squares[1] += args->sums[2 * i + 1];
    }
    struct lamb_stats found = {sqrt(squares[0]), sqrt(squares[1]), 1};
    if (found.parameter_norm > 0 && found.update_norm > 0) {
        double ratio = found.parameter_norm / found.update_norm;
        found.coefficient = fmax(args->min_coeff, fmin(args->max_coeff, ratio));
    }
    return found;
}

static void apply_range(struct cpu *cpu, const struct lamb_args *args,
                        const struct device_range *range) {
    const struct adamw_range own = kernel_range(&args->adam, range);
    const struct lamb_stats found = lamb_stats_of(args, range->tensor);
    const double rate = args->adam.rate * found.coefficient;
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t first = 0; first < range->count; first += CPU_CHUNK) {
        cpu->kernels->lamb_apply(&own, rate, first,
                                 first + cpu_chunk_length(first, range->count, CPU_CHUNK));
    }
    args->stats[range->tensor] = found;
}

void cpu_lamb_apply(struct device *dev, const struct lamb_args *args) {
    const struct adamw_args *adam = &args->adam;
    for (int64_t r = 0; r < adam->range_count; r++) {
        if (!is_skipped(adam, &adam->ranges[r])) {
            apply_range(cpu_of(dev), args, &adam->ranges[r]);
        }
    }
}

void cpu_add(struct device *dev, float *to, const float *from, int64_t count) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for simd num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

void cpu_convert(struct device *dev, struct mat to, const float *from) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t count = to.rows * to.cols;
    to = (struct mat){to.data, 1, count, count, to.dtype};
    struct mat source = mat_of((void *)(uintptr_t)from, 1, count, DTYPE_F32);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t first = 0; first < count; first += CPU_CHUNK) {
        int64_t some = cpu_chunk_length(first, count, CPU_CHUNK);
        cpu->kernels->copy(mat_columns(to, first, some), mat_columns(source, first, some));
    }
}

void cpu_checksums(struct device *dev, uint64_t *sums, struct mat values,
                   const struct device_checksum_range *ranges, int64_t count) {
    struct cpu *cpu = cpu_of(dev);
    const size_t size = dtype_size(values.dtype);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) {
        const char *first = (const char *)values.data + (size_t)ranges[i].first * size;
        sums[ranges[i].sum] = checksum_bytes(first, (size_t)ranges[i].count * size);
    }
}
