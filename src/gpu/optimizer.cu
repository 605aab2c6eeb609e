// SPDX-License-Identifier: Apache-2.0
// The gradient's norm, the optimizers' updates and conversions. The operations over ranges are one
// launch each: a fixed number of blocks share the pieces of all ranges, DEVICE_SUM_BLOCK elements
// each, which they find by the ranges' counts.
#include "gpu/gpu.h"
#include "gpu/kernel.h"

enum { UPDATE_THREADS = 256, UPDATE_BLOCKS = 1024 };

// --- pieces of ranges ---------------------------------------------------------------------------

// A piece of a range: the elements [first, first + count) of it.
struct piece {
    const struct device_range *range;
    int64_t index, first, count;
};

// Walks through the pieces of a block, which all of its threads do together: those whose number is
// the block's, counted modulo the number of blocks.
struct piece_walk {
    const struct device_range *ranges;
    int64_t range_count, range; // the range that is looked at
    int64_t number;             // of the piece that is wanted
    int64_t before;             // pieces of the ranges before
};

DEVICE struct piece_walk pieces_of(const struct device_range *ranges, int64_t range_count) {
    return piece_walk{ranges, range_count, 0, (int64_t)blockIdx.x, 0};
}

DEVICE bool next_piece(struct piece_walk &walk, struct piece &piece) {
    for (; walk.range < walk.range_count; walk.range++) {
        const struct device_range *range = &walk.ranges[walk.range];
        const int64_t pieces = (range->count + DEVICE_SUM_BLOCK - 1) / DEVICE_SUM_BLOCK;
        if (walk.number < walk.before + pieces) {
            piece.range = range;
            piece.index = walk.number - walk.before;
            piece.first = piece.index * DEVICE_SUM_BLOCK;
            const int64_t rest = range->count - piece.first;
            piece.count = rest < DEVICE_SUM_BLOCK ? rest : DEVICE_SUM_BLOCK;
            walk.number += gridDim.x;
            return true;
        }
        walk.before += pieces;
    }
    return false;
}

// --- the norm -----------------------------------------------------------------------------------

__global__ void __launch_bounds__(UPDATE_THREADS)
    squares_kernel(double *sums, const float *values, const struct device_range *ranges,
                   int64_t range_count) {
    struct piece_walk walk = pieces_of(ranges, range_count);
    struct piece piece;
    while (next_piece(walk, piece)) {
        const float *x = values + piece.range->first + piece.first;
        double sum = 0.0;
        for (int64_t i = threadIdx.x; i < piece.count; i += UPDATE_THREADS) {
            sum += (double)x[i] * (double)x[i];
        }
        sum = block_sum<UPDATE_THREADS>(sum);
        if (threadIdx.x == 0) {
            sums[piece.range->block + piece.index] = sum;
        }
    }
}

void gpu_squares(struct device *dev, double *sums, const float *values,
                 const struct device_range *ranges, int64_t range_count) {
    gpu_run(gpu_of(dev), {"squares", range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            squares_kernel, sums, values, ranges, range_count);
}

// One thread adds, in order, what the block has fetched; `stride` doubles from one to the next.
DEVICE double ordered_sum(const double *sums, int64_t first, int64_t past, int stride) {
    GPU_SHARED(double, fetched, UPDATE_THREADS);
    double total = 0.0;
    for (; first < past; first += UPDATE_THREADS) {
        const int64_t i = first + threadIdx.x;
        __syncthreads();
        fetched[threadIdx.x] = i < past ? sums[i * stride] : 0.0;
        __syncthreads();
        for (int64_t k = 0; threadIdx.x == 0 && k < UPDATE_THREADS && first + k < past; k++) {
            total += fetched[k];
        }
    }
    return total;
}

__global__ void __launch_bounds__(UPDATE_THREADS)
    norms_kernel(struct grad_stats *stats, const double *sums, const int64_t *blocks,
                 double scale) {
    const int64_t group = blockIdx.x;
    const double total = ordered_sum(sums, blocks[group], blocks[group + 1], 1);
    if (threadIdx.x == 0) {
        stats[group].sum_squares = total * scale * scale;
    }
}

void gpu_norms(struct device *dev, struct grad_stats *stats, const double *sums,
               const int64_t *blocks, int64_t groups, double scale) {
    gpu_run(gpu_of(dev), {"norms", groups, UPDATE_THREADS}, norms_kernel, stats, sums, blocks,
            scale);
}

// --- the update ---------------------------------------------------------------------------------

// The scalars of a range's update in single precision.
struct factors {
    float gradient, decay_into_gradient, beta1, beta2, rest1, rest2, inverse1, inverse2;
    float epsilon, inner_epsilon; // added outside and inside the root
    float rate, decay;
    bool skips;
};

DEVICE struct factors factors_of(const struct adamw_args &args, const struct device_range *range) {
    const struct grad_stats *stats =
        args.tensor_stats != NULL ? &args.tensor_stats[range->tensor] : args.stats;
    double gradient = args.gradient_scale;
    if (args.max_grad_norm > 0 && stats != NULL) {
        const double norm = sqrt(stats->sum_squares) + (args.exact_clip ? 0 : 1e-6);
        gradient *= fmin(1.0, args.max_grad_norm / norm);
    }
    const float decay = (float)range->weight_decay;
    struct factors f;
    f.gradient = (float)gradient;
    f.decay_into_gradient = args.l2_mode ? decay : 0.0f;
    f.beta1 = (float)args.beta1;
    f.beta2 = (float)args.beta2;
    f.rest1 = (float)(1.0 - args.beta1);
    f.rest2 = (float)(1.0 - args.beta2);
    f.inverse1 = (float)(1.0 / args.correction1);
    f.inverse2 = (float)(1.0 / args.correction2);
    f.epsilon = args.epsilon_inside_root ? 0.0f : (float)args.epsilon;
    f.inner_epsilon = args.epsilon_inside_root ? (float)args.epsilon : 0.0f;
    f.rate = (float)args.learning_rate;
    f.decay = args.l2_mode ? 0.0f : decay;
    f.skips = stats != NULL && !isfinite(stats->sum_squares);
    return f;
}

// The update to multiply by the rate: the quotient of the moments and the decoupled decay.
DEVICE float update_of(const struct factors &f, float p, float m, float v) {
    const float root = sqrtf(v * f.inverse2 + f.inner_epsilon) + f.epsilon;
    return m * f.inverse1 / root + f.decay * p;
}

// The moments of an element after the update.
DEVICE void update_moments(const struct factors &f, float p, float g, float &m, float &v) {
    const float gradient = g * f.gradient + f.decay_into_gradient * p;
    m = f.beta1 * m + f.rest1 * gradient;
    v = f.beta2 * v + f.rest2 * gradient * gradient;
}

DEVICE void set_parameter(const struct adamw_args &args, int64_t i, float p) {
    args.parameters[i] = p;
    if (is_given(args.compute) && i < args.compute.cols) {
        set_number(args.compute, 0, i, p);
    }
}

__global__ void __launch_bounds__(UPDATE_THREADS) adamw_kernel(struct adamw_args args) {
    struct piece_walk walk = pieces_of(args.ranges, args.range_count);
    struct piece piece;
    while (next_piece(walk, piece)) {
        const struct factors f = factors_of(args, piece.range);
        const int64_t first = piece.range->first + piece.first;
        float *moment1 = args.first_moment + piece.range->at + piece.first;
        float *moment2 = args.second_moment + piece.range->at + piece.first;
        for (int64_t i = threadIdx.x; i < piece.count; i += UPDATE_THREADS) {
            if (!f.skips) {
                float p = args.parameters[first + i], m = moment1[i], v = moment2[i];
                update_moments(f, p, args.gradients[first + i], m, v);
                moment1[i] = m;
                moment2[i] = v;
                set_parameter(args, first + i, p - f.rate * update_of(f, p, m, v));
            }
            args.gradients[first + i] = 0.0f;
        }
    }
}

void gpu_adamw(struct device *dev, const struct adamw_args *args) {
    gpu_run(gpu_of(dev), {"adamw", args->range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            adamw_kernel, *args);
}

// --- LAMB ---------------------------------------------------------------------------------------

__global__ void __launch_bounds__(UPDATE_THREADS)
    lamb_moments_kernel(struct adamw_args args, double *sums) {
    struct piece_walk walk = pieces_of(args.ranges, args.range_count);
    struct piece piece;
    while (next_piece(walk, piece)) {
        const struct factors f = factors_of(args, piece.range);
        const int64_t first = piece.range->first + piece.first;
        float *moment1 = args.first_moment + piece.range->at + piece.first;
        float *moment2 = args.second_moment + piece.range->at + piece.first;
        double parameters = 0.0, updates = 0.0;
        for (int64_t i = threadIdx.x; i < piece.count; i += UPDATE_THREADS) {
            if (!f.skips) {
                const float p = args.parameters[first + i];
                float m = moment1[i], v = moment2[i];
                update_moments(f, p, args.gradients[first + i], m, v);
                const double update = (double)update_of(f, p, m, v);
                moment1[i] = m;
                moment2[i] = v;
                parameters += (double)p * (double)p;
                updates += update * update;
            }
            args.gradients[first + i] = 0.0f;
        }
        parameters = block_sum<UPDATE_THREADS>(parameters);
        updates = block_sum<UPDATE_THREADS>(updates);
        if (threadIdx.x == 0 && !f.skips) {
            double *to = sums + 2 * (piece.range->block + piece.index);
            to[0] = parameters;
            to[1] = updates;
        }
    }
}

void gpu_lamb_moments(struct device *dev, const struct adamw_args *args, double *sums) {
    gpu_run(gpu_of(dev),
            {"lamb_moments", args->range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            lamb_moments_kernel, *args, sums);
}

// All threads call it; the first one gets it.
DEVICE struct lamb_stats stats_of(const struct lamb_args &args, int64_t tensor) {
    const int64_t first = args.tensor_blocks[tensor], past = args.tensor_blocks[tensor + 1];
    const double parameters = ordered_sum(args.sums, first, past, 2);
    const double updates = ordered_sum(args.sums + 1, first, past, 2);
    struct lamb_stats found = {sqrt(parameters), sqrt(updates), 1.0};
    if (found.parameter_norm > 0 && found.update_norm > 0) {
        const double ratio = found.parameter_norm / found.update_norm;
        found.coefficient = fmax(args.min_coeff, fmin(args.max_coeff, ratio));
    }
    return found;
}

__global__ void __launch_bounds__(UPDATE_THREADS) lamb_apply_kernel(struct lamb_args args) {
    GPU_SHARED(double, coefficient, 1);
    struct piece_walk walk = pieces_of(args.adam.ranges, args.adam.range_count);
    struct piece piece;
    while (next_piece(walk, piece)) {
        const struct factors f = factors_of(args.adam, piece.range);
        if (f.skips) {
            continue;
        }
        const struct lamb_stats found = stats_of(args, piece.range->tensor);
        __syncthreads();
        if (threadIdx.x == 0) {
            coefficient[0] = found.coefficient;
        }
        if (threadIdx.x == 0 && piece.index == 0) {
            args.stats[piece.range->tensor] = found;
        }
        __syncthreads();
        const float rate = (float)(args.adam.learning_rate * coefficient[0]);
        const int64_t first = piece.range->first + piece.first;
        const float *moment1 = args.adam.first_moment + piece.range->at + piece.first;
        const float *moment2 = args.adam.second_moment + piece.range->at + piece.first;
        for (int64_t i = threadIdx.x; i < piece.count; i += UPDATE_THREADS) {
            const float p = args.adam.parameters[first + i];
            set_parameter(args.adam, first + i, p - rate * update_of(f, p, moment1[i], moment2[i]));
        }
    }
}

void gpu_lamb_apply(struct device *dev, const struct lamb_args *args) {
    gpu_run(gpu_of(dev),
            {"lamb_apply", args->adam.range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            lamb_apply_kernel, *args);
}

// --- buffers ------------------------------------------------------------------------------------

__global__ void __launch_bounds__(UPDATE_THREADS)
    add_kernel(float *to, const float *from, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * UPDATE_THREADS + threadIdx.x;
    if (i < count) {
        to[i] += from[i];
    }
}

void gpu_add(struct device *dev, float *to, const float *from, int64_t count) {
    gpu_run(gpu_of(dev), {"add", gpu_blocks(count, UPDATE_THREADS), UPDATE_THREADS}, add_kernel, to,
            from, count);
}

__global__ void __launch_bounds__(UPDATE_THREADS)
    convert_kernel(struct mat to, const float *from, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * UPDATE_THREADS + threadIdx.x;
    if (i < count) {
        set_number(to, 0, i, from[i]);
    }
}

void gpu_convert(struct device *dev, struct mat to, const float *from) {
    const int64_t count = to.rows * to.cols;
    gpu_run(gpu_of(dev), {"convert", gpu_blocks(count, UPDATE_THREADS), UPDATE_THREADS},
            convert_kernel, to, from, count);
}
