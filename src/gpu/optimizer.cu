// SPDX-License-Identifier: Apache-2.0
// The gradient's norm, the optimizers' updates, conversions and checksums. The operations over
// ranges are one launch each: a fixed number of blocks share the pieces of all ranges,
// DEVICE_SUM_BLOCK elements each, which they find by the ranges' counts.
#include "core/checksum.h"
#include "gpu/cost.h"
#include "gpu/gpu.h"
#include "gpu/kernel.h"

#include <cmath>

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

// Elements that a thread has at once: 16 bytes of the compute copy, 32 of the other arrays.
enum { UPDATE_VECTOR = 8 };

// The bits of addresses that say whether all of them are multiples of 16.
DEVICE uintptr_t bits_of_address(const void *at) {
    return at != NULL ? (uintptr_t)at : 0;
}

DEVICE bool is_wide(uintptr_t addresses, int64_t count) {
    return addresses % 16 == 0 && count % UPDATE_VECTOR == 0;
}

// The place of a piece in the whole table, and in the moments.
DEVICE int64_t first_of(const struct piece &piece) {
    return piece.range->first + piece.first;
}

DEVICE int64_t moments_of(const struct piece &piece) {
    return piece.range->moment_first + piece.first;
}

// Calls visit(k, x) with the place in the piece of each group of neighbours that the thread has; x
// has room for them. `wide`: they may be more than one.
template <class Visit> DEVICE void for_elements(const struct piece &piece, bool wide, Visit visit) {
    if (wide) {
        for (int64_t k = (int64_t)threadIdx.x * UPDATE_VECTOR; k < piece.count;
             k += UPDATE_THREADS * UPDATE_VECTOR) {
            float x[UPDATE_VECTOR];
            visit(k, x);
        }
    } else {
        for (int64_t k = threadIdx.x; k < piece.count; k += UPDATE_THREADS) {
            float x[1];
            visit(k, x);
        }
    }
}

// --- the norm -----------------------------------------------------------------------------------

__global__ void __launch_bounds__(UPDATE_THREADS)
    squares_kernel(double *sums, const float *values, const struct device_range *ranges,
                   int64_t range_count) {
    struct piece_walk walk = pieces_of(ranges, range_count);
    struct piece piece;
    while (next_piece(walk, piece)) {
        double sum = 0.0;
        const float *first = values + first_of(piece);
        for_elements(piece, is_wide(bits_of_address(first), piece.count), [&](int64_t k, auto &x) {
            load_run(x, first + k);
            GPU_UNROLL
            for (int n = 0; n < (int)(sizeof x / sizeof *x); n++) {
                sum += (double)x[n] * (double)x[n];
            }
        });
        sum = block_sum<UPDATE_THREADS>(sum);
        if (threadIdx.x == 0) {
            sums[piece.range->block + piece.index] = sum;
        }
    }
}

static int64_t elements_of(const struct device_range *ranges, int64_t count) {
    int64_t elements = 0;
    for (int64_t i = 0; i < count; i++) {
        elements += ranges[i].count;
    }
    return elements;
}

static int64_t blocks_of(const struct device_range *ranges, int64_t count) {
    int64_t blocks = 0;
    for (int64_t i = 0; i < count; i++) {
        blocks += device_sum_blocks(ranges[i].count);
    }
    return blocks;
}

enum { FIELD = 8 }; // bytes of a range's

static gpu_cost squares_cost(double *, const float *values, const struct device_range *ranges,
                             int64_t range_count) {
    return {(uint64_t)range_count * 3 * FIELD +
                cost_words(values, elements_of(ranges, range_count)),
            (uint64_t)blocks_of(ranges, range_count) * sizeof(double), 0};
}

void gpu_squares(struct device *dev, double *sums, const float *values,
                 const struct device_range *ranges, int64_t range_count) {
    gpu_run(gpu_of(dev), {"squares", range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            squares_kernel, squares_cost, sums, values, ranges, range_count);
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

template <int N>
DEVICE void set_parameters(const struct adamw_args &args, int64_t i, const float (&p)[N]) {
    store_run(args.parameters + i, p);
    if (is_given(args.compute) && i < args.compute.cols) {
        store(args.compute, 0, i, p);
    }
}

DEVICE bool is_wide(const struct adamw_args &args, const struct piece &piece) {
    const int64_t i = first_of(piece), j = moments_of(piece);
    const bool has_copy = is_given(args.compute) && i < args.compute.cols;
    const void *copy = has_copy ? (const uint16_t *)args.compute.data + i : NULL;
    return is_wide(bits_of_address(args.parameters + i) | bits_of_address(args.gradients + i) |
                       bits_of_address(args.first_moment + j) |
                       bits_of_address(args.second_moment + j) | bits_of_address(copy),
                   piece.count);
}

// The first half of an update: the moments of a piece, and its gradients cleared.
// finish(i, p, update) gets the parameters of each group of neighbours, and the update to multiply
// by the rate, unless the update is skipped.
template <class Finish>
DEVICE void update_piece(const struct adamw_args &args, const struct factors &f,
                         const struct piece &piece, Finish finish) {
    const int64_t first = first_of(piece), first_moment = moments_of(piece);
    for_elements(piece, is_wide(args, piece), [&](int64_t at, auto &p) {
        const int64_t i = first + at, j = first_moment + at;
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
    struct piece_walk walk = pieces_of(args.ranges, args.range_count);
    struct piece piece;
    while (next_piece(walk, piece)) {
        const struct factors f = factors_of(args, piece.range);
        update_piece(args, f, piece, [&](int64_t i, auto &p, const auto &update) {
            GPU_UNROLL
            for (int k = 0; k < (int)(sizeof p / sizeof *p); k++) {
                p[k] -= f.rate * update[k];
            }
            set_parameters(args, i, p);
        });
    }
}

// Ranges whose tensors' statistics apply, each counted once.
static int64_t tensors_of(const struct adamw_args &args) {
    std::vector<int64_t> tensors;
    for (int64_t i = 0; i < args.range_count; i++) {
        tensors.push_back(args.ranges[i].tensor);
    }
    return cost_distinct(tensors.data(), args.range_count);
}

// Bytes of the ranges' fields and of the statistics that an update reads.
static uint64_t rules_cost(const struct adamw_args &args, int fields) {
    const bool by_tensor = args.tensor_stats != NULL;
    const int64_t stats = by_tensor ? tensors_of(args) : args.stats != NULL;
    return (uint64_t)(args.range_count * (fields + (by_tensor ? 1 : 0)) + stats) * FIELD;
}

// Elements of the ranges that are updated, or that have a compute copy, too.
static int64_t updated(const struct adamw_args &args, bool copied) {
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
    return (uint64_t)updated(args, false) * 4 +
           (uint64_t)updated(args, true) * dtype_size(args.compute.dtype);
}

static uint64_t cleared_cost(const struct adamw_args &args) {
    return (uint64_t)elements_of(args.ranges, args.range_count) * 4;
}

static gpu_cost adamw_cost(struct adamw_args args) {
    const uint64_t elements = (uint64_t)updated(args, false);
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
    struct piece_walk walk = pieces_of(args.ranges, args.range_count);
    struct piece piece;
    while (next_piece(walk, piece)) {
        const struct factors f = factors_of(args, piece.range);
        double parameters = 0.0, updates = 0.0;
        update_piece(args, f, piece, [&](int64_t, const auto &p, const auto &update) {
            GPU_UNROLL
            for (int k = 0; k < (int)(sizeof p / sizeof *p); k++) {
                parameters += (double)p[k] * (double)p[k];
                updates += (double)update[k] * (double)update[k];
            }
        });
        parameters = block_sum<UPDATE_THREADS>(parameters);
        updates = block_sum<UPDATE_THREADS>(updates);
        if (threadIdx.x == 0 && !f.skips) {
            double *to = sums + 2 * (piece.range->block + piece.index);
            to[0] = parameters;
            to[1] = updates;
        }
    }
}

static gpu_cost lamb_moments_cost(struct adamw_args args, double *) {
    const uint64_t elements = (uint64_t)updated(args, false);
    const int64_t blocks = elements > 0 ? blocks_of(args.ranges, args.range_count) : 0;
    return {rules_cost(args, elements > 0 ? 5 : 4) + elements * 16,
            cleared_cost(args) + elements * 8 + (uint64_t)blocks * 2 * sizeof(double), 0};
}

void gpu_lamb_moments(struct device *dev, const struct adamw_args *args, double *sums) {
    gpu_run(gpu_of(dev),
            {"lamb_moments", args->range_count > 0 ? UPDATE_BLOCKS : 0, UPDATE_THREADS},
            lamb_moments_kernel, lamb_moments_cost, *args, sums);
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
        const int64_t first = first_of(piece), first_moment = moments_of(piece);
        for_elements(piece, is_wide(args.adam, piece), [&](int64_t at, auto &p) {
            const int64_t i = first + at, j = first_moment + at;
            constexpr int N = sizeof p / sizeof *p;
            float m[N], v[N];
            load_run(p, args.adam.parameters + i);
            load_run(m, args.adam.first_moment + j);
            load_run(v, args.adam.second_moment + j);
            GPU_UNROLL
            for (int k = 0; k < N; k++) {
                p[k] -= rate * update_of(f, p[k], m[k], v[k]);
            }
            set_parameters(args.adam, i, p);
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
    const uint64_t elements = (uint64_t)updated(args.adam, false);
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

// A thread has UPDATE_VECTOR neighbours: at once where `wide`, else, and at the end, one by one.
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
    const bool wide = is_wide(bits_of_address(to) | bits_of_address(from), 0);
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
    const bool wide = is_wide(bits_of_address(to.data) | bits_of_address(from), 0);
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

// --- checksums ----------------------------------------------------------------------------------

// A thread reads VECTOR_WORDS words at once, which are of the same lanes of core/checksum.h each
// time.
enum { VECTOR_WORDS = 4, BLOCK_VECTORS = CHECKSUM_LANES / VECTOR_WORDS };
static_assert(UPDATE_THREADS % BLOCK_VECTORS == 0, "a thread keeps its lanes");

// Of a thread's lanes: the sums of its words times n - block, and of its words. These are
// multiplied with 2^33, so 31 of their bits suffice.
struct lane_sums {
    uint64_t weighted[VECTOR_WORDS];
    uint32_t plain[VECTOR_WORDS];
};

DEVICE void add_words(struct lane_sums &sums, const uint4 &words, uint32_t weight) {
    const uint32_t word[VECTOR_WORDS] = {words.x, words.y, words.z, words.w};
    GPU_UNROLL
    for (int i = 0; i < VECTOR_WORDS; i++) {
        sums.weighted[i] += (uint64_t)word[i] * weight;
        sums.plain[i] += word[i];
    }
}

DEVICE int64_t number_bytes(const struct mat &values) {
    return values.dtype == DTYPE_F32 ? 4 : 2;
}

// Word i of a part, 0 after its end.
DEVICE uint32_t word_of(const struct mat &values, const struct device_checksum_range &part,
                        int64_t i) {
    if (values.dtype == DTYPE_F32) {
        return i < part.count ? gpu_bits(((const float *)values.data)[part.first + i]) : 0;
    }
    const uint16_t *halves = (const uint16_t *)values.data + part.first;
    const uint32_t low = 2 * i < part.count ? halves[2 * i] : 0;
    const uint32_t high = 2 * i + 1 < part.count ? halves[2 * i + 1] : 0;
    return low | high << 16;
}

DEVICE uint4 words_of(const struct mat &values, const struct device_checksum_range &part,
                      int64_t vector) {
    const int64_t i = vector * VECTOR_WORDS;
    return uint4{word_of(values, part, i), word_of(values, part, i + 1),
                 word_of(values, part, i + 2), word_of(values, part, i + 3)};
}

// The sums of the words that the thread has of a part.
DEVICE struct lane_sums sums_of(const struct mat &values,
                                const struct device_checksum_range &part) {
    const int64_t bytes = part.count * number_bytes(values);
    const unsigned char *data =
        (const unsigned char *)values.data + part.first * number_bytes(values);
    const int64_t blocks = bytes / (CHECKSUM_LANES * 4) + 1;
    const int64_t wide = (uintptr_t)data % 16 == 0 ? bytes / 16 : 0; // vectors read at once
    struct lane_sums sums = {};
    int64_t i = threadIdx.x;
    for (; i < wide; i += UPDATE_THREADS) {
        add_words(sums, gpu_read16(data + 16 * i), (uint32_t)(blocks - i / BLOCK_VECTORS));
    }
    for (; i < blocks * BLOCK_VECTORS; i += UPDATE_THREADS) {
        add_words(sums, words_of(values, part, i), (uint32_t)(blocks - i / BLOCK_VECTORS));
    }
    return sums;
}

// Adds what the threads of a warp have of the same lanes, which every BLOCK_VECTORS-th has.
DEVICE uint64_t lane_sum(uint64_t x) {
    for (int lanes = GPU_WARP / 2; lanes >= BLOCK_VECTORS; lanes /= 2) {
        x += __shfl_xor_sync(GPU_ALL_LANES, x, lanes);
    }
    return x;
}

// `lanes` is of the warps one after another.
DEVICE uint64_t checksum_of(const uint64_t *lanes, uint64_t bytes) {
    uint64_t sum = bytes;
    for (int lane = 0; lane < CHECKSUM_LANES; lane++) {
        uint64_t total = 0;
        GPU_UNROLL
        for (int warp = 0; warp < UPDATE_THREADS / GPU_WARP; warp++) {
            total += lanes[warp * CHECKSUM_LANES + lane];
        }
        sum = checksum_add(sum, total);
    }
    return sum;
}

// A block has a part at a time.
__global__ void __launch_bounds__(UPDATE_THREADS)
    checksums_kernel(uint64_t *sums, struct mat values, const struct device_checksum_range *parts,
                     int64_t count) {
    GPU_SHARED(uint64_t, lanes, UPDATE_THREADS / GPU_WARP * CHECKSUM_LANES);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    for (int64_t p = blockIdx.x; p < count; p += gridDim.x) {
        const struct device_checksum_range part = parts[p];
        const struct lane_sums own = sums_of(values, part);
        __syncthreads();
        GPU_UNROLL
        for (int i = 0; i < VECTOR_WORDS; i++) {
            const uint64_t sum = lane_sum(own.weighted[i] + ((uint64_t)own.plain[i] << 33));
            if (lane < BLOCK_VECTORS) {
                lanes[warp * CHECKSUM_LANES + lane * VECTOR_WORDS + i] = sum;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            sums[part.sum] = checksum_of(lanes, (uint64_t)(part.count * number_bytes(values)));
        }
    }
}

static gpu_cost checksums_cost(uint64_t *, struct mat values,
                               const struct device_checksum_range *parts, int64_t count) {
    uint64_t elements = 0;
    for (int64_t i = 0; i < count; i++) {
        elements += (uint64_t)parts[i].count;
    }
    return {(uint64_t)count * sizeof *parts + elements * dtype_size(values.dtype),
            (uint64_t)count * sizeof(uint64_t), 0};
}

void gpu_checksums(struct device *dev, uint64_t *sums, struct mat values,
                   const struct device_checksum_range *parts, int64_t count) {
    gpu_run(gpu_of(dev), {"checksums", std::min<int64_t>(count, UPDATE_BLOCKS), UPDATE_THREADS},
            checksums_kernel, checksums_cost, sums, values, parts, count);
}
