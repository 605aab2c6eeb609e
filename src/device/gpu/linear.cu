// SPDX-License-Identifier: Apache-2.0
// Linear layers: matrix products (gemm.h), activations and their gradients, and column sums, which
// are the gradients of biases.
#include "device/gpu/activations.h"
#include "device/gpu/cost.h"
#include "device/gpu/gemm.h"
#include "device/gpu/kernel.h"

enum { PARTIAL_SEGMENTS = 16, PARTIAL_THREADS = SUM_COLUMNS * PARTIAL_SEGMENTS };
// Rows that a thread loads before it computes.
enum { ACTIVATION_AHEAD = 4, COLUMN_AHEAD = 4, SLOPE_AHEAD = 2 };
enum { ACTIVATION_THREADS = 128, ACTIVATION_ROWS = 16 };
// A block that sums columns has SUMMED_LANES threads beside each other, in SUMMED_GROUPS.
enum { SUMMED_LANES = 32, SUMMED_GROUPS = 8, SUMMED_THREADS = SUMMED_LANES * SUMMED_GROUPS };
enum { MIN_SUMMED_ROWS = 64, MAX_SUMMED_ROWS = 512, SUMMED_BLOCKS = 1056 };

// --- kernels ------------------------------------------------------------------------------------

// How a kernel reads and computes: VEC neighbouring columns at a time, any activation, any dtypes.
template <int VEC_> struct any_form {
    static constexpr int VEC = VEC_;

    DEVICE struct mat known(const struct mat &m) {
        return m;
    }
    DEVICE float value(float x, enum activation activation) {
        return activation_of(x, activation);
    }
    DEVICE float slope(float x, enum activation activation) {
        return activation_slope(x, activation);
    }
};

// All matrices of one 16-bit dtype, and GELU by the error function.
template <enum dtype TYPE> struct gelu_form {
    static constexpr int VEC = 8;

    DEVICE struct mat known(const struct mat &m) {
        return mat{m.data, m.rows, m.cols, m.stride, TYPE};
    }
    DEVICE float value(float x, enum activation) {
        return approximate_gelu(x);
    }
    DEVICE float slope(float x, enum activation) {
        return approximate_gelu_slope(x);
    }
};

template <class F>
__global__ void __launch_bounds__(ACTIVATION_THREADS)
    activation_kernel(struct mat given_y, struct mat given_u, enum activation activation) {
    const struct mat y = F::known(given_y), u = F::known(given_u);
    const unsigned across = ((unsigned)u.cols - 1) / (ACTIVATION_THREADS * F::VEC) + 1;
    const int64_t column =
        ((int64_t)(blockIdx.x % across) * ACTIVATION_THREADS + threadIdx.x) * F::VEC;
    const int64_t first = (int64_t)(blockIdx.x / across) * ACTIVATION_ROWS;
    const int64_t end = first + ACTIVATION_ROWS < u.rows ? first + ACTIVATION_ROWS : u.rows;
    for (int64_t row = first; column < u.cols && row < end; row += ACTIVATION_AHEAD) {
        float x[ACTIVATION_AHEAD][F::VEC];
        GPU_UNROLL
        for (int k = 0; k < ACTIVATION_AHEAD; k++) {
            load(x[k], u, row + k < end ? row + k : row, column);
        }
        GPU_UNROLL
        for (int k = 0; k < ACTIVATION_AHEAD; k++) {
            GPU_UNROLL
            for (int i = 0; i < F::VEC; i++) {
                x[k][i] = F::value(x[k][i], activation);
            }
            if (row + k < end) {
                store(y, row + k, column, x[k]);
            }
        }
    }
}

// The part of a matrix whose columns a block sums: a thread has VEC neighbouring columns of every
// SUMMED_GROUPS-th row of [first, end), which are block `row_block`. Blocks are numbered along a
// row first.
struct summed_block {
    int64_t column, first, end, row_block;
};

template <int VEC>
DEVICE struct summed_block find_summed_block(const struct mat &m, int64_t block_rows) {
    const unsigned across = ((unsigned)m.cols - 1) / (SUMMED_LANES * VEC) + 1;
    struct summed_block block;
    block.row_block = blockIdx.x / across;
    block.column =
        ((int64_t)(blockIdx.x % across) * SUMMED_LANES + threadIdx.x % SUMMED_LANES) * VEC;
    block.first = block.row_block * block_rows;
    block.end = block.first + block_rows < m.rows ? block.first + block_rows : m.rows;
    return block;
}

// partials[row_block, column] = the sums of the threads that have the column, in their order.
template <int VEC>
DEVICE void store_summed(float *partials, int64_t cols, const struct summed_block &block,
                         const float (&sums)[VEC]) {
    enum { COLUMNS = SUMMED_LANES * VEC };
    GPU_SHARED(float, group_sums, SUMMED_GROUPS *COLUMNS);
    const int own =
        (int)threadIdx.x / SUMMED_LANES * COLUMNS + (int)threadIdx.x % SUMMED_LANES * VEC;
    GPU_UNROLL
    for (int i = 0; i < VEC; i++) {
        group_sums[own + i] = sums[i];
    }
    __syncthreads();
    const int64_t first = block.column - (int64_t)threadIdx.x % SUMMED_LANES * VEC;
    if (threadIdx.x < COLUMNS && first + threadIdx.x < cols) {
        float sum = 0.0f;
        GPU_UNROLL
        for (int group = 0; group < SUMMED_GROUPS; group++) {
            sum += group_sums[group * COLUMNS + threadIdx.x];
        }
        partials[block.row_block * cols + first + threadIdx.x] = sum;
    }
}

// VEC columns of a row; with IS_LAST zeros for those that do not exist.
template <bool IS_LAST, int VEC>
DEVICE void load_summed(float (&x)[VEC], const struct mat &m, int64_t row, int64_t column) {
    if constexpr (IS_LAST) {
        GPU_UNROLL
        for (int i = 0; i < VEC; i++) {
            x[i] = column + i < m.cols ? number_at(m, row, column + i) : 0.0f;
        }
    } else {
        load(x, m, row, column);
    }
}

template <bool IS_LAST, int AHEAD, int VEC>
DEVICE void sum_columns(float (&sums)[VEC], const struct mat &m, const struct summed_block &block) {
    for (int64_t row = block.first + threadIdx.x / SUMMED_LANES; row < block.end;
         row += AHEAD * SUMMED_GROUPS) {
        float x[AHEAD][VEC];
        GPU_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            const int64_t own = row + k * SUMMED_GROUPS;
            load_summed<IS_LAST>(x[k], m, own < block.end ? own : row, block.column);
        }
        GPU_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            GPU_UNROLL
            for (int i = 0; i < VEC; i++) {
                sums[i] += row + k * SUMMED_GROUPS < block.end ? x[k][i] : 0.0f;
            }
        }
    }
}

// partials[block, column] = the column sums of g.
template <class F>
__global__ void __launch_bounds__(SUMMED_THREADS)
    column_sums_kernel(float *partials, struct mat given_g, int64_t block_rows) {
    const struct mat g = F::known(given_g);
    const struct summed_block block = find_summed_block<F::VEC>(g, block_rows);
    float sums[F::VEC] = {};
    if (block.column + F::VEC <= g.cols) {
        sum_columns<false, COLUMN_AHEAD>(sums, g, block);
    } else if (block.column < g.cols) {
        sum_columns<true, 1>(sums, g, block);
    }
    store_summed(partials, g.cols, block, sums);
}

// g *= the activation's slope at u; partials[block, column] = the column sums of g before rounding.
template <class F>
__global__ void __launch_bounds__(SUMMED_THREADS)
    slope_sums_kernel(float *partials, struct mat given_g, struct mat given_u,
                      enum activation activation, int64_t block_rows) {
    const struct mat g = F::known(given_g), u = F::known(given_u);
    const struct summed_block block = find_summed_block<F::VEC>(g, block_rows);
    float sums[F::VEC] = {};
    for (int64_t row = block.first + threadIdx.x / SUMMED_LANES;
         block.column < g.cols && row < block.end; row += SLOPE_AHEAD * SUMMED_GROUPS) {
        float x[SLOPE_AHEAD][F::VEC], slope[SLOPE_AHEAD][F::VEC];
        GPU_UNROLL
        for (int k = 0; k < SLOPE_AHEAD; k++) {
            const int64_t own = row + k * SUMMED_GROUPS < block.end ? row + k * SUMMED_GROUPS : row;
            load(x[k], g, own, block.column);
            load(slope[k], u, own, block.column);
        }
        GPU_UNROLL
        for (int k = 0; k < SLOPE_AHEAD; k++) {
            if (row + k * SUMMED_GROUPS < block.end) {
                GPU_UNROLL
                for (int i = 0; i < F::VEC; i++) {
                    x[k][i] *= F::slope(slope[k][i], activation);
                    sums[i] += x[k][i];
                }
                store(g, row + k * SUMMED_GROUPS, block.column, x[k]);
            }
        }
    }
    store_summed(partials, g.cols, block, sums);
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

static gpu_cost column_sums_cost(float *partials, struct mat g, int64_t block_rows) {
    return {cost_of(g), cost_words(partials, gpu_blocks(g.rows, block_rows) * g.cols), 0};
}

static gpu_cost slope_sums_cost(float *partials, struct mat g, struct mat u, enum activation,
                                int64_t block_rows) {
    return {cost_of(g) + cost_of(u),
            cost_of(g) + cost_words(partials, gpu_blocks(g.rows, block_rows) * g.cols), 0};
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

static bool is_16_bit_gelu(struct mat m, struct mat u, enum activation activation) {
    return activation == ACTIVATION_GELU_ERF && m.dtype == u.dtype && u.dtype != DTYPE_F32;
}

static void activate(struct gpu *gpu, struct mat y, struct mat u, enum activation activation) {
    const bool wide = gpu_is_vectorizable(y) && gpu_is_vectorizable(u);
    const auto kernel = !wide                               ? activation_kernel<any_form<1>>
                        : !is_16_bit_gelu(y, u, activation) ? activation_kernel<any_form<8>>
                        : u.dtype == DTYPE_BF16 ? activation_kernel<gelu_form<DTYPE_BF16>>
                                                : activation_kernel<gelu_form<DTYPE_F16>>;
    const int64_t across = gpu_blocks(u.cols, ACTIVATION_THREADS * (wide ? 8 : 1));
    gpu_run(gpu, {"activation", gpu_blocks(u.rows, ACTIVATION_ROWS) * across, ACTIVATION_THREADS},
            kernel, activation_cost, y, u, activation);
}

// How the column sums of a matrix are divided among blocks: many rows for each, so that partial
// sums are few, if there are blocks enough for a GPU.
struct summed_shape {
    int64_t block_rows, row_blocks, blocks;
};

static struct summed_shape summed_shape_of(struct mat g, int vec) {
    const int64_t across = gpu_blocks(g.cols, SUMMED_LANES * vec);
    int64_t rows = MAX_SUMMED_ROWS;
    while (rows > MIN_SUMMED_ROWS && gpu_blocks(g.rows, rows) * across < SUMMED_BLOCKS) {
        rows /= 2;
    }
    return {rows, gpu_blocks(g.rows, rows), gpu_blocks(g.rows, rows) * across};
}

static void add_summed(struct gpu *gpu, float *dbias, struct mat g, const float *partials,
                       const struct summed_shape *shape) {
    const struct gpu_sums sums = {{dbias}, 1, g.cols};
    gpu_add_partials(gpu, &sums, partials, shape->row_blocks, g.cols);
}

// dbias += the column sums of g.
static void add_column_sums(struct gpu *gpu, float *dbias, struct mat g) {
    const bool wide = gpu_has_vector_rows(g);
    const struct summed_shape shape = summed_shape_of(g, wide ? 8 : 1);
    float *partials = gpu_partials(gpu, shape.row_blocks * g.cols);
    gpu_run(gpu, {"column_sums", shape.blocks, SUMMED_THREADS},
            !wide                   ? column_sums_kernel<any_form<1>>
            : g.dtype == DTYPE_F32  ? column_sums_kernel<any_form<8>>
            : g.dtype == DTYPE_BF16 ? column_sums_kernel<gelu_form<DTYPE_BF16>>
                                    : column_sums_kernel<gelu_form<DTYPE_F16>>,
            column_sums_cost, partials, g, shape.block_rows);
    add_summed(gpu, dbias, g, partials, &shape);
}

// g *= f'(u); dbias += the column sums of g.
static void add_slope_sums(struct gpu *gpu, float *dbias, struct mat g, struct mat u,
                           enum activation activation) {
    const bool wide = gpu_is_vectorizable(g) && gpu_is_vectorizable(u);
    const struct summed_shape shape = summed_shape_of(g, wide ? 8 : 1);
    const auto kernel = !wide                               ? slope_sums_kernel<any_form<1>>
                        : !is_16_bit_gelu(g, u, activation) ? slope_sums_kernel<any_form<8>>
                        : u.dtype == DTYPE_BF16 ? slope_sums_kernel<gelu_form<DTYPE_BF16>>
                                                : slope_sums_kernel<gelu_form<DTYPE_F16>>;
    float *partials = gpu_partials(gpu, shape.row_blocks * g.cols);
    gpu_run(gpu, {"slope_sums", shape.blocks, SUMMED_THREADS}, kernel, slope_sums_cost, partials, g,
            u, activation, shape.block_rows);
    add_summed(gpu, dbias, g, partials, &shape);
}

static int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

size_t gpu_linear_partial_bytes(const struct device_shape *shape) {
    const int64_t layer = max_of(max_of(3 * shape->hidden, shape->intermediate), shape->outputs);
    const int64_t tokens = gpu_blocks(batch_round(shape->batch.tokens), MIN_SUMMED_ROWS) * layer;
    const int64_t words = gpu_blocks(shape->decoder_rows, MIN_SUMMED_ROWS) * shape->vocabulary;
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
    add_slope_sums(gpu_of(dev), dbias, du, u, activation);
}

void gpu_linear_backward_weight(struct device *dev, struct mat dw, float *dbias, struct mat dy,
                                struct mat x) {
    const struct gemm_call call = {dw, dy, x, true, false, true, NULL};
    gemm_run(gpu_of(dev), &call);
    if (dbias != NULL) {
        add_column_sums(gpu_of(dev), dbias, dy);
    }
}

void gpu_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat u,
                       enum activation activation) {
    add_slope_sums(gpu_of(dev), dbias, du, u, activation);
}
