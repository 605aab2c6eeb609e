// SPDX-License-Identifier: Apache-2.0
// The gradient's norm, the optimizers' updates and conversions. An operation over ranges is a
// single launch: all ranges are cut into chunks of DEVICE_SUM_BLOCK elements, which a fixed number
// of blocks of threads share.
#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"

#include <cmath>

enum { UPDATE_THREADS = 256, UPDATE_BLOCKS = 1024 };

// --- chunks of ranges ---------------------------------------------------------------------------

// A chunk of a range: its elements [first, first + count).
struct chunk {
    const struct device_range *range;
    int64_t index, first, count;
};

// Iterates over the chunks of a block of threads: those whose number, modulo the number of blocks,
// is the block's index. All threads of the block do so together.
struct chunk_iterator {
    const struct device_range *ranges;
    int64_t range_count, range; // `range` is the current one
    int64_t number;             // of the next chunk
    int64_t before;             // chunks in the ranges before the current one
};

DEVICE struct chunk_iterator chunks_of(const struct device_range *ranges, int64_t range_count) {
    return chunk_iterator{ranges, range_count, 0, (int64_t)blockIdx.x, 0};
}

DEVICE bool next_chunk(struct chunk_iterator &iterator, struct chunk &chunk) {
    for (; iterator.range < iterator.range_count; iterator.range++) {
        const struct device_range *range = &iterator.ranges[iterator.range];
        const int64_t chunks = (range->count + DEVICE_SUM_BLOCK - 1) / DEVICE_SUM_BLOCK;
        if (iterator.number < iterator.before + chunks) {
            chunk.range = range;
            chunk.index = iterator.number - iterator.before;
            chunk.first = chunk.index * DEVICE_SUM_BLOCK;
            const int64_t rest = range->count - chunk.first;
            chunk.count = rest < DEVICE_SUM_BLOCK ? rest : DEVICE_SUM_BLOCK;
            iterator.number += gridDim.x;
            return true;
        }
        iterator.before += chunks;
    }
    return false;
}

// Elements that a thread handles at once: 16 bytes of the compute copy, 32 of the other arrays.
enum { UPDATE_VECTOR = 8 };

// Addresses are combined with | to test whether all of them are multiples of 16.
DEVICE uintptr_t address_bits(const void *address) {
    return address != NULL ? (uintptr_t)address : 0;
}

DEVICE bool is_wide(uintptr_t addresses, int64_t count) {
    return addresses % 16 == 0 && count % UPDATE_VECTOR == 0;
}

// The offset of a chunk in the whole table, and in the moments.
DEVICE int64_t table_offset(const struct chunk &chunk) {
    return chunk.range->first + chunk.first;
}

DEVICE int64_t moment_offset(const struct chunk &chunk) {
    return chunk.range->moment_first + chunk.first;
}

// Calls visit(k, x) for each group of neighbouring elements of the thread, where k is the group's
// offset in the chunk and x an array for its values. wide: groups of UPDATE_VECTOR, else of one.
template <class Visit> DEVICE void for_elements(const struct chunk &chunk, bool wide, Visit visit) {
    if (wide) {
        for (int64_t k = (int64_t)threadIdx.x * UPDATE_VECTOR; k < chunk.count;
             k += UPDATE_THREADS * UPDATE_VECTOR) {
            float x[UPDATE_VECTOR];
            visit(k, x);
        }
    } else {
        for (int64_t k = threadIdx.x; k < chunk.count; k += UPDATE_THREADS) {
            float x[1];
            visit(k, x);
        }
    }
}

// --- the norm -----------------------------------------------------------------------------------

__global__ void __launch_bounds__(UPDATE_THREADS)
    squares_kernel(double *sums, const float *values, const struct device_range *ranges,
                   int64_t range_count) {
    struct chunk_iterator iterator = chunks_of(ranges, range_count);
    struct chunk chunk;
    while (next_chunk(iterator, chunk)) {
        double sum = 0.0;
        const float *first = values + table_offset(chunk);
        for_elements(chunk, is_wide(address_bits(first), chunk.count), [&](int64_t k, auto &x) {
            load_run(x, first + k);
            GPU_UNROLL
            for (int n = 0; n < (int)(sizeof x / sizeof *x); n++) {
                sum += (double)x[n] * (double)x[n];
            }
        });
        sum = block_sum<UPDATE_THREADS>(sum);
        if (threadIdx.x == 0) {
            sums[chunk.range->block + chunk.index] = sum;
        }
    }
}

static int64_t count_elements(const struct device_range *ranges, int64_t count) {
    int64_t elements = 0;
    for (int64_t i = 0; i < count; i++) {
        elements += ranges[i].count;
    }
    return elements;
}

static int64_t count_blocks(const struct device_range *ranges, int64_t count) {
    int64_t blocks = 0;
    for (int64_t i = 0; i < count; i++) {
        blocks += device_sum_blocks(ranges[i].count);
    }
    return blocks;
}

enum { FIELD_BYTES = 8 }; // of a range or of statistics

static gpu_cost squares_cost(double *, const float *values, const struct device_range *ranges,
                             int64_t range_count) {
    return {(uint64_t)range_count * 3 * FIELD_BYTES +
                cost_words(values, count_elements(ranges, range_count)),
            (uint64_t)count_blocks(ranges, range_count) * sizeof(double), 0};
}

void gpu_squares(struct device *dev, double *sums, const float *values,
                 const struct device_range *ranges, int64_t range_count) {
    gpu_run(gpu_of(dev), {"squares", range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            squares_kernel, squares_cost, sums, values, ranges, range_count);
}

// One thread adds, in order, what the block has loaded; the numbers are `stride` doubles apart.
DEVICE double ordered_sum(const double *sums, int64_t first, int64_t end, int stride) {
    GPU_SHARED(double, fetched, UPDATE_THREADS);
    double total = 0.0;
    for (; first < end; first += UPDATE_THREADS) {
        const int64_t i = first + threadIdx.x;
        __syncthreads();
        fetched[threadIdx.x] = i < end ? sums[i * stride] : 0.0;
        __syncthreads();
        for (int64_t k = 0; threadIdx.x == 0 && k < UPDATE_THREADS && first + k < end; k++) {
            total += fetched[k];
        }
    }
    return total;
}

__global__ void __launch_bounds__(UPDATE_THREADS)
    norms_kernel(struct grad_stats *stats, const double *sums, const int64_t *blocks,
                 int64_t groups, double scale) {
    const int64_t group = blockIdx.x;
    if (group >= groups) {
        return;
    }
    const double total = ordered_sum(sums, blocks[group], blocks[group + 1], 1);
    if (threadIdx.x == 0) {
        stats[group].sum_squares = total * scale * scale;
    }
}

static gpu_cost norms_cost(struct grad_stats *, const double *, const int64_t *blocks,
                           int64_t groups, double) {
    return {(uint64_t)(groups + 1 + blocks[groups] - blocks[0]) * sizeof(double),
            (uint64_t)groups * sizeof(double), 0};
}

void gpu_norms(struct device *dev, struct grad_stats *stats, const double *sums,
               const int64_t *blocks, int64_t groups, double scale) {
    gpu_run(gpu_of(dev), {"norms", groups, UPDATE_THREADS}, norms_kernel, norms_cost, stats, sums,
            blocks, groups, scale);
}

// --- the update ---------------------------------------------------------------------------------

// The scalars of a range's update, in single precision.
struct factors {
    float gradient, decay_into_gradient, beta1, beta2, one_minus_beta1, one_minus_beta2,
        inverse_correction1, inverse_correction2;
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
    f.one_minus_beta1 = (float)(1.0 - args.beta1);
    f.one_minus_beta2 = (float)(1.0 - args.beta2);
    f.inverse_correction1 = (float)(1.0 / args.correction1);
    f.inverse_correction2 = (float)(1.0 / args.correction2);
    f.epsilon = args.epsilon_inside_root ? 0.0f : (float)args.epsilon;
    f.inner_epsilon = args.epsilon_inside_root ? (float)args.epsilon : 0.0f;
    f.rate = (float)args.rate;
    f.decay = args.l2_mode ? 0.0f : decay;
    f.skips = stats != NULL && !isfinite(stats->sum_squares);
    return f;
}

// The update before it is multiplied by the rate: the quotient of the moments, and decoupled decay.
DEVICE float update_of(const struct factors &f, float p, float m, float v) {
    const float root = sqrtf(v * f.inverse_correction2 + f.inner_epsilon) + f.epsilon;
    return m * f.inverse_correction1 / root + f.decay * p;
}

// Updates the moments of an element.
DEVICE void update_moments(const struct factors &f, float p, float g, float &m, float &v) {
    const float gradient = g * f.gradient + f.decay_into_gradient * p;
    m = f.beta1 * m + f.one_minus_beta1 * gradient;
    v = f.beta2 * v + f.one_minus_beta2 * gradient * gradient;
}

template <int N>
DEVICE void store_parameters(const struct adamw_args &args, int64_t i, const float (&p)[N]) {
    store_run(args.parameters + i, p);
    if (is_given(args.compute) && i < args.compute.cols) {
        store(args.compute, 0, i, p);
    }
}

DEVICE bool is_wide(const struct adamw_args &args, const struct chunk &chunk) {
    const int64_t i = table_offset(chunk), j = moment_offset(chunk);
    const bool has_copy = is_given(args.compute) && i < args.compute.cols;
    const void *copy = has_copy ? (const uint16_t *)args.compute.data + i : NULL;
    return is_wide(address_bits(args.parameters + i) | address_bits(args.gradients + i) |
                       address_bits(args.first_moment + j) | address_bits(args.second_moment + j) |
                       address_bits(copy),
                   chunk.count);
}

// The first half of an update: updates the moments of a chunk and clears its gradients. Unless the
// update is skipped, calls finish(i, p, update) with the parameters of each group of neighbours and
// the update before it is multiplied by the rate.
template <class Finish>
DEVICE void update_chunk(const struct adamw_args &args, const struct factors &f,
                         const struct chunk &chunk, Finish finish) {
    const int64_t first = table_offset(chunk), first_moment = moment_offset(chunk);
    for_elements(chunk, is_wide(args, chunk), [&](int64_t offset, auto &p) {
        const int64_t i = first + offset, j = first_moment + offset;
        constexpr int N = sizeof p / sizeof *p;
        float g[N], m[N], v[N];
        if (!f.skips) {
            load_run(p, args.parameters + i);
            load_run(g, args.gradients + i);
            load_run(m, args.first_moment + j);
            load_run(v, args.second_moment + j);
            GPU_UNROLL
            for (int k = 0; k < N; k++) {
                update_moments(f, p[k], g[k], m[k], v[k]);
                g[k] = update_of(f, p[k], m[k], v[k]);
            }
            store_run(args.first_moment + j, m);
            store_run(args.second_moment + j, v);
            finish(i, p, g);
        }
        GPU_UNROLL
        for (int k = 0; k < N; k++) {
            g[k] = 0.0f;
        }
        store_run(args.gradients + i, g);
    });
}

__global__ void __launch_bounds__(UPDATE_THREADS) adamw_kernel(struct adamw_args args) {
    struct chunk_iterator iterator = chunks_of(args.ranges, args.range_count);
    struct chunk chunk;
    while (next_chunk(iterator, chunk)) {
        const struct factors f = factors_of(args, chunk.range);
        update_chunk(args, f, chunk, [&](int64_t i, auto &p, const auto &update) {
            GPU_UNROLL
            for (int k = 0; k < (int)(sizeof p / sizeof *p); k++) {
                p[k] -= f.rate * update[k];
            }
            store_parameters(args, i, p);
        });
    }
}

// The number of distinct tensors among the ranges.
static int64_t count_tensors(const struct adamw_args &args) {
    std::vector<int64_t> tensors;
    for (int64_t i = 0; i < args.range_count; i++) {
        tensors.push_back(args.ranges[i].tensor);
    }
    return cost_distinct(tensors.data(), args.range_count);
}

// The bytes of the ranges' fields and of the statistics that an update reads.
static uint64_t rules_cost(const struct adamw_args &args, int fields) {
    const bool by_tensor = args.tensor_stats != NULL;
    const int64_t stats = by_tensor ? count_tensors(args) : args.stats != NULL;
    return (uint64_t)(args.range_count * (fields + (by_tensor ? 1 : 0)) + stats) * FIELD_BYTES;
}

// The elements that are updated; copied: only those with a compute copy.
static int64_t count_updated(const struct adamw_args &args, bool copied) {
    int64_t elements = 0;
    for (int64_t i = 0; i < args.range_count; i++) {
        const struct device_range *range = &args.ranges[i];
        const struct grad_stats *stats =
            args.tensor_stats != NULL ? &args.tensor_stats[range->tensor] : args.stats;
        const bool skipped = stats != NULL && !std::isfinite(stats->sum_squares);
        const bool fits =
            !copied || (!mat_is_empty(args.compute) && range->first < args.compute.cols);
        elements += !skipped && fits ? range->count : 0;
    }
    return elements;
}

static uint64_t set_cost(const struct adamw_args &args) {
    return (uint64_t)count_updated(args, false) * 4 +
           (uint64_t)count_updated(args, true) * dtype_size(args.compute.dtype);
}

static uint64_t cleared_cost(const struct adamw_args &args) {
    return (uint64_t)count_elements(args.ranges, args.range_count) * 4;
}

static gpu_cost adamw_cost(struct adamw_args args) {
    const uint64_t elements = (uint64_t)count_updated(args, false);
    return {rules_cost(args, 4) + elements * 16, cleared_cost(args) + elements * 8 + set_cost(args),
            0};
}

void gpu_adamw(struct device *dev, const struct adamw_args *args) {
    gpu_run(gpu_of(dev), {"adamw", args->range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            adamw_kernel, adamw_cost, *args);
}

// --- LAMB ---------------------------------------------------------------------------------------

__global__ void __launch_bounds__(UPDATE_THREADS)
    lamb_moments_kernel(struct adamw_args args, double *sums) {
    struct chunk_iterator iterator = chunks_of(args.ranges, args.range_count);
    struct chunk chunk;
    while (next_chunk(iterator, chunk)) {
        const struct factors f = factors_of(args, chunk.range);
        double parameters = 0.0, updates = 0.0;
        update_chunk(args, f, chunk, [&](int64_t, const auto &p, const auto &update) {
            GPU_UNROLL
            for (int k = 0; k < (int)(sizeof p / sizeof *p); k++) {
                parameters += (double)p[k] * (double)p[k];
                updates += (double)update[k] * (double)update[k];
            }
        });
        parameters = block_sum<UPDATE_THREADS>(parameters);
        updates = block_sum<UPDATE_THREADS>(updates);
        if (threadIdx.x == 0 && !f.skips) {
            double *to = sums + 2 * (chunk.range->block + chunk.index);
            to[0] = parameters;
            to[1] = updates;
        }
    }
}

static gpu_cost lamb_moments_cost(struct adamw_args args, double *) {
    const uint64_t elements = (uint64_t)count_updated(args, false);
    const int64_t blocks = elements > 0 ? count_blocks(args.ranges, args.range_count) : 0;
    return {rules_cost(args, elements > 0 ? 5 : 4) + elements * 16,
            cleared_cost(args) + elements * 8 + (uint64_t)blocks * 2 * sizeof(double), 0};
}

void gpu_lamb_moments(struct device *dev, const struct adamw_args *args, double *sums) {
    gpu_run(gpu_of(dev),
            {"lamb_moments", args->range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            lamb_moments_kernel, lamb_moments_cost, *args, sums);
}

// All threads call this; only the first one gets the result.
DEVICE struct lamb_stats stats_of(const struct lamb_args &args, int64_t tensor) {
    const int64_t first = args.tensor_blocks[tensor], end = args.tensor_blocks[tensor + 1];
    const double parameters = ordered_sum(args.sums, first, end, 2);
    const double updates = ordered_sum(args.sums + 1, first, end, 2);
    struct lamb_stats found = {sqrt(parameters), sqrt(updates), 1.0};
    if (found.parameter_norm > 0 && found.update_norm > 0) {
        const double ratio = found.parameter_norm / found.update_norm;
        found.coefficient = fmax(args.min_coeff, fmin(args.max_coeff, ratio));
    }
    return found;
}

__global__ void __launch_bounds__(UPDATE_THREADS) lamb_apply_kernel(struct lamb_args args) {
    GPU_SHARED(double, coefficient, 1);
    struct chunk_iterator iterator = chunks_of(args.adam.ranges, args.adam.range_count);
    struct chunk chunk;
    while (next_chunk(iterator, chunk)) {
        const struct factors f = factors_of(args.adam, chunk.range);
        if (f.skips) {
            continue;
        }
        const struct lamb_stats found = stats_of(args, chunk.range->tensor);
        __syncthreads();
        if (threadIdx.x == 0) {
            coefficient[0] = found.coefficient;
        }
        if (threadIdx.x == 0 && chunk.index == 0) {
            args.stats[chunk.range->tensor] = found;
        }
        __syncthreads();
        const float rate = (float)(args.adam.rate * coefficient[0]);
        const int64_t first = table_offset(chunk), first_moment = moment_offset(chunk);
        for_elements(chunk, is_wide(args.adam, chunk), [&](int64_t offset, auto &p) {
            const int64_t i = first + offset, j = first_moment + offset;
            constexpr int N = sizeof p / sizeof *p;
            float m[N], v[N];
            load_run(p, args.adam.parameters + i);
            load_run(m, args.adam.first_moment + j);
            load_run(v, args.adam.second_moment + j);
            GPU_UNROLL
            for (int k = 0; k < N; k++) {
                p[k] -= rate * update_of(f, p[k], m[k], v[k]);
            }
            store_parameters(args.adam, i, p);
        });
    }
}

static gpu_cost lamb_apply_cost(struct lamb_args args) {
    std::vector<int64_t> bounds, tensors;
    int64_t blocks = 0;
    for (int64_t i = 0; i < args.adam.range_count; i++) {
        const int64_t tensor = args.adam.ranges[i].tensor;
        if (std::find(tensors.begin(), tensors.end(), tensor) == tensors.end()) {
            blocks += args.tensor_blocks[tensor + 1] - args.tensor_blocks[tensor];
            tensors.push_back(tensor);
            bounds.push_back(tensor);
            bounds.push_back(tensor + 1);
        }
    }
    const uint64_t elements = (uint64_t)count_updated(args.adam, false);
    if (elements == 0) {
        return {rules_cost(args.adam, 2), 0, 0};
    }
    const int64_t read = cost_distinct(bounds.data(), (int64_t)bounds.size()) + 2 * blocks;
    const bool by_tensor = args.adam.tensor_stats != NULL; // which rules_cost counts
    return {rules_cost(args.adam, by_tensor ? 4 : 5) + (uint64_t)read * sizeof(double) +
                elements * 12,
            set_cost(args.adam) + (uint64_t)tensors.size() * sizeof(struct lamb_stats), 0};
}

void gpu_lamb_apply(struct device *dev, const struct lamb_args *args) {
    gpu_run(gpu_of(dev),
            {"lamb_apply", args->adam.range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            lamb_apply_kernel, lamb_apply_cost, *args);
}

// --- buffers ------------------------------------------------------------------------------------

// A thread has UPDATE_VECTOR neighbours: all at once if `wide`, but one by one at the end.
template <class Visit> DEVICE void for_buffer(int64_t count, bool wide, Visit visit) {
    const int64_t i = ((int64_t)blockIdx.x * UPDATE_THREADS + threadIdx.x) * UPDATE_VECTOR;
    if (wide && i + UPDATE_VECTOR <= count) {
        float x[UPDATE_VECTOR];
        visit(i, x);
        return;
    }
    for (int64_t k = i; k < i + UPDATE_VECTOR && k < count; k++) {
        float x[1];
        visit(k, x);
    }
}

static int64_t buffer_blocks(int64_t count) {
    return gpu_blocks(count, UPDATE_THREADS * UPDATE_VECTOR);
}

__global__ void __launch_bounds__(UPDATE_THREADS)
    add_kernel(float *to, const float *from, int64_t count) {
    const bool wide = is_wide(address_bits(to) | address_bits(from), 0);
    for_buffer(count, wide, [&](int64_t i, auto &x) {
        constexpr int N = sizeof x / sizeof *x;
        float sum[N];
        load_run(x, from + i);
        load_run(sum, to + i);
        GPU_UNROLL
        for (int k = 0; k < N; k++) {
            sum[k] += x[k];
        }
        store_run(to + i, sum);
    });
}

static gpu_cost add_cost(float *to, const float *from, int64_t count) {
    return {cost_words(to, count) + cost_words(from, count), cost_words(to, count), 0};
}

void gpu_add(struct device *dev, float *to, const float *from, int64_t count) {
    gpu_run(gpu_of(dev), {"add", buffer_blocks(count), UPDATE_THREADS}, add_kernel, add_cost, to,
            from, count);
}

__global__ void __launch_bounds__(UPDATE_THREADS)
    convert_kernel(struct mat to, const float *from, int64_t count) {
    const bool wide = is_wide(address_bits(to.data) | address_bits(from), 0);
    for_buffer(count, wide, [&](int64_t i, auto &x) {
        load_run(x, from + i);
        store(to, 0, i, x);
    });
}

static gpu_cost convert_cost(struct mat to, const float *from, int64_t count) {
    return {cost_words(from, count), (uint64_t)count * dtype_size(to.dtype), 0};
}

void gpu_convert(struct device *dev, struct mat to, const float *from) {
    const int64_t count = to.rows * to.cols;
    gpu_run(gpu_of(dev), {"convert", buffer_blocks(count), UPDATE_THREADS}, convert_kernel,
            convert_cost, to, from, count);
}
