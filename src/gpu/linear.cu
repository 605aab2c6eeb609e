// SPDX-License-Identifier: Apache-2.0
// Linear layers: matrix products (gemm.h), activations and their gradients, and column sums, which
// are the gradients of biases.
#include "gpu/activations.h"
#include "gpu/cost.h"
#include "gpu/gemm.h"
#include "gpu/kernel.h"

enum { COLUMN_THREADS = 128, COLUMN_ROWS = 64, PARTIAL_SEGMENTS = 16 };
enum { PARTIAL_THREADS = SUM_COLUMNS * PARTIAL_SEGMENTS };

// --- kernels ------------------------------------------------------------------------------------

// A thread has VEC neighbouring columns of COLUMN_ROWS rows; blocks are numbered along a row first.
struct column_block {
    int64_t column, first, end, row_block; // rows [first, end), which are block `row_block`
};

template <int VEC> DEVICE struct column_block find_column_block(const struct mat &m) {
    const int64_t across = (m.cols + COLUMN_THREADS * VEC - 1) / (COLUMN_THREADS * VEC);
    struct column_block block;
    block.row_block = blockIdx.x / across;
    block.column = (blockIdx.x % across * COLUMN_THREADS + threadIdx.x) * VEC;
    block.first = block.row_block * COLUMN_ROWS;
    block.end = block.first + COLUMN_ROWS < m.rows ? block.first + COLUMN_ROWS : m.rows;
    return block;
}

template <int VEC>
__global__ void __launch_bounds__(COLUMN_THREADS)
    activation_kernel(struct mat y, struct mat u, enum activation activation) {
    const struct column_block block = find_column_block<VEC>(u);
    for (int64_t row = block.first; block.column < u.cols && row < block.end; row++) {
        float x[VEC];
        load(x, u, row, block.column);
        GPU_UNROLL
        for (int i = 0; i < VEC; i++) {
            x[i] = activation_of(x[i], activation);
        }
        store(y, row, block.column, x);
    }
}

// g *= slope(u) if u is given; partials[block, column] = the column sums of g.
template <int VEC>
__global__ void __launch_bounds__(COLUMN_THREADS)
    column_sums_kernel(float *partials, struct mat g, struct mat u, enum activation activation) {
    const struct column_block block = find_column_block<VEC>(g);
    if (block.column >= g.cols) {
        return;
    }
    float sums[VEC];
    GPU_UNROLL
    for (int i = 0; i < VEC; i++) {
        sums[i] = 0.0f;
    }
    for (int64_t row = block.first; row < block.end; row++) {
        float x[VEC], slope[VEC];
        load(x, g, row, block.column);
        if (is_given(u)) {
            load(slope, u, row, block.column);
            GPU_UNROLL
            for (int i = 0; i < VEC; i++) {
                x[i] *= activation_slope(slope[i], activation);
            }
            store(g, row, block.column, x);
        }
        GPU_UNROLL
        for (int i = 0; i < VEC; i++) {
            sums[i] += x[i];
        }
    }
    GPU_UNROLL
    for (int i = 0; i < VEC; i++) {
        partials[block.row_block * g.cols + block.column + i] = sums[i];
    }
}

__global__ void __launch_bounds__(PARTIAL_THREADS)
    add_partials_kernel(struct gpu_sums sums, const float *partials, int64_t blocks,
                        int64_t stride) {
    const int64_t column = (int64_t)blockIdx.x * SUM_COLUMNS + sum_column();
    const bool has_column = column < sums.count * sums.columns;
    const float sum = sum_of_rows<PARTIAL_SEGMENTS>(partials + column, blocks, stride, has_column);
    if (threadIdx.x < SUM_COLUMNS && has_column) {
        static_assert(GPU_SUMS == 3, "each sum is named");
        const int64_t which = column / sums.columns; // indexing to[] would take local memory
        float *const to = which == 0 ? sums.to[0] : which == 1 ? sums.to[1] : sums.to[2];
        to[column % sums.columns] += sum;
    }
}

// --- costs --------------------------------------------------------------------------------------

static gpu_cost activation_cost(struct mat y, struct mat u, enum activation) {
    return {cost_of(u), cost_of(y), 0};
}

static gpu_cost column_sums_cost(float *partials, struct mat g, struct mat u, enum activation) {
    const int64_t blocks = gpu_blocks(g.rows, COLUMN_ROWS);
    return {cost_of(g) + cost_of(u),
            (mat_is_empty(u) ? 0 : cost_of(g)) + cost_words(partials, blocks * g.cols), 0};
}

static gpu_cost add_partials_cost(struct gpu_sums sums, const float *partials, int64_t blocks,
                                  int64_t) {
    const int64_t count = sums.count * sums.columns;
    return {cost_words(partials, (blocks + 1) * count), cost_words(partials, count), 0};
}

// --- launches -----------------------------------------------------------------------------------

void gpu_add_partials(struct gpu *gpu, const struct gpu_sums *sums, const float *partials,
                      int64_t blocks, int64_t stride) {
    gpu_run(gpu,
            {"add_partials", gpu_blocks(sums->count * sums->columns, SUM_COLUMNS), PARTIAL_THREADS},
            add_partials_kernel, add_partials_cost, *sums, partials, blocks, stride);
}

static int64_t column_blocks(struct mat m, int vec) {
    return gpu_blocks(m.rows, COLUMN_ROWS) * gpu_blocks(m.cols, COLUMN_THREADS * vec);
}

static void activate(struct gpu *gpu, struct mat y, struct mat u, enum activation activation) {
    if (gpu_is_vectorizable(y) && gpu_is_vectorizable(u)) {
        gpu_run(gpu, {"activation", column_blocks(u, 8), COLUMN_THREADS}, activation_kernel<8>,
                activation_cost, y, u, activation);
    } else {
        gpu_run(gpu, {"activation", column_blocks(u, 1), COLUMN_THREADS}, activation_kernel<1>,
                activation_cost, y, u, activation);
    }
}

// dbias += the column sums of g, after g *= f'(u) unless u is empty.
static void add_column_sums(struct gpu *gpu, float *dbias, struct mat g, struct mat u,
                            enum activation activation) {
    const int64_t blocks = gpu_blocks(g.rows, COLUMN_ROWS);
    float *partials = gpu_partials(gpu, blocks * g.cols);
    if (gpu_is_vectorizable(g) && (gpu_is_vectorizable(u) || mat_is_empty(u))) {
        gpu_run(gpu, {"column_sums", column_blocks(g, 8), COLUMN_THREADS}, column_sums_kernel<8>,
                column_sums_cost, partials, g, u, activation);
    } else {
        gpu_run(gpu, {"column_sums", column_blocks(g, 1), COLUMN_THREADS}, column_sums_kernel<1>,
                column_sums_cost, partials, g, u, activation);
    }
    const struct gpu_sums sums = {{dbias}, 1, g.cols};
    gpu_add_partials(gpu, &sums, partials, blocks, g.cols);
}

static int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

size_t gpu_linear_partial_bytes(const struct device_shape *shape) {
    const int64_t layer = max_of(max_of(3 * shape->hidden, shape->intermediate), shape->outputs);
    const int64_t tokens = gpu_blocks(batch_round(shape->batch.tokens), COLUMN_ROWS) * layer;
    const int64_t words = gpu_blocks(shape->decoder_rows, COLUMN_ROWS) * shape->vocabulary;
    return (size_t)max_of(tokens, words) * sizeof(float);
}

// --- operations ---------------------------------------------------------------------------------

void gpu_linear_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                        const float *bias) {
    const struct gemm_call call = {y, x, w, false, true, false, bias};
    gemm_run(gpu_of(dev), &call);
}

void gpu_linear_gelu_forward(struct device *dev, struct mat y, struct mat u, struct mat x,
                             struct mat w, const float *bias, enum activation activation) {
    const struct mat before = mat_is_empty(u) ? y : u;
    gpu_linear_forward(dev, before, x, w, bias);
    activate(gpu_of(dev), y, before, activation);
}

void gpu_linear_backward_input(struct device *dev, struct mat dx, struct mat dy, struct mat w) {
    const struct gemm_call call = {dx, dy, w, false, false, false, NULL};
    gemm_run(gpu_of(dev), &call);
}

void gpu_linear_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat dy,
                              struct mat w, struct mat u, enum activation activation) {
    gpu_linear_backward_input(dev, du, dy, w);
    add_column_sums(gpu_of(dev), dbias, du, u, activation);
}

void gpu_linear_backward_weight(struct device *dev, struct mat dw, float *dbias, struct mat dy,
                                struct mat x) {
    const struct gemm_call call = {dw, dy, x, true, false, true, NULL};
    const struct mat none = {};
    gemm_run(gpu_of(dev), &call);
    if (dbias != NULL) {
        add_column_sums(gpu_of(dev), dbias, dy, none, ACTIVATION_LINEAR);
    }
}

void gpu_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat u,
                       enum activation activation) {
    add_column_sums(gpu_of(dev), dbias, du, u, activation);
}
