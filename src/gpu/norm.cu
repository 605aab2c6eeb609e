// SPDX-License-Identifier: Apache-2.0
// Layer norm fused with its neighbours: the embedding sum, or residual and dropout. A group of
// threads keeps a row in registers, so that every number is read and written once.
//
// For the gradients of parameters, each block adds up its rows, and a second kernel adds up the
// blocks, both in a fixed order.
#include "gpu/cost.h"
#include "gpu/gpu.h"
#include "gpu/kernel.h"

// --- forward ------------------------------------------------------------------------------------

struct norm_outputs {
    struct mat y, y_compute, xhat;
    float *rstd;
    const float *gamma, *beta;
    float epsilon;
};

// Normalizes the row s; `mask` is applied to the result.
template <class G>
DEVICE void normalize(const struct norm_outputs &out, int64_t row, float (&s)[G::CHUNKS][G::VEC],
                      const struct mask_row &mask) {
    const int64_t columns = out.y.cols;
    float sum = 0.0f, squares = 0.0f;
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) < columns) {
            GPU_UNROLL
            for (int i = 0; i < G::VEC; i++) {
                sum += s[k][i];
            }
        }
    }
    const float mean = G::sum(sum) / (float)columns;
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) < columns) {
            GPU_UNROLL
            for (int i = 0; i < G::VEC; i++) {
                s[k][i] -= mean;
                squares += s[k][i] * s[k][i];
            }
        }
    }
    const float rstd = 1.0f / sqrtf(G::sum(squares) / (float)columns + out.epsilon);
    if (out.rstd != NULL && G::thread() == 0) {
        out.rstd[row] = rstd;
    }
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        const int64_t column = G::column(k);
        const uint32_t bits = mask_bits<G>(mask, k);
        if (column >= columns) {
            continue;
        }
        float y[G::VEC], gamma[G::VEC], beta[G::VEC];
        load_run(gamma, out.gamma + column);
        load_run(beta, out.beta + column);
        GPU_UNROLL
        for (int i = 0; i < G::VEC; i++) {
            s[k][i] *= rstd;
            y[i] = s[k][i] * gamma[i] + beta[i];
        }
        if (is_given(out.xhat)) {
            store(out.xhat, row, column, s[k]);
        }
        apply_mask(y, mask, bits);
        store(out.y, row, column, y);
        if (is_given(out.y_compute)) {
            store(out.y_compute, row, column, y);
        }
    }
}

template <class G>
__global__ void __launch_bounds__(G::BLOCK)
    norm_forward_kernel(struct norm_args a, struct batch batch) {
    const int64_t row = (int64_t)blockIdx.x * G::GROUPS + G::group(), columns = a.y.cols;
    if (row >= a.y.rows) {
        return;
    }
    const struct mask_row mask =
        is_given(a.x) ? mask_row_of_batch(a.dropout, batch, row) : mask_row{};
    float s[G::CHUNKS][G::VEC] = {};
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        const int64_t column = G::column(k);
        const uint32_t bits = is_given(a.x) ? mask_bits<G>(mask, k) : 0;
        if (column >= columns) {
            continue;
        }
        load(s[k], a.residual, row, column);
        if (is_given(a.x)) {
            float x[G::VEC];
            load(x, a.x, row, column);
            apply_mask(x, mask, bits);
            GPU_UNROLL
            for (int i = 0; i < G::VEC; i++) {
                s[k][i] += x[i];
            }
        }
        if (is_given(a.sum)) {
            store(a.sum, row, column, s[k]);
        }
    }
    const struct norm_outputs out = {a.y, a.y_compute, a.xhat, a.rstd, a.gamma, a.beta, a.epsilon};
    normalize<G>(out, row, s, mask_row{});
}

template <class G>
__global__ void __launch_bounds__(G::BLOCK)
    embed_forward_kernel(struct embed_args a, struct batch batch) {
    const int64_t row = (int64_t)blockIdx.x * G::GROUPS + G::group(), columns = a.y.cols;
    if (row >= a.y.rows) {
        return;
    }
    float s[G::CHUNKS][G::VEC] = {};
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        const int64_t column = G::column(k);
        if (column < columns) {
            load(s[k], a.word, batch.ids[row], column);
            load_added(s[k], a.position, batch.positions[row], column);
            load_added(s[k], a.type, batch.type_ids[row], column);
        }
    }
    const struct norm_outputs out = {a.y, a.y_compute, a.xhat, a.rstd, a.gamma, a.beta, a.epsilon};
    normalize<G>(out, row, s, mask_row_of_batch(a.dropout, batch, row));
}

// --- backward -----------------------------------------------------------------------------------

enum { GRADIENT_ROWS = 32 }; // of a block

// A thread's sums over the rows of its group.
template <class G> struct parameter_sums {
    float gamma[G::CHUNKS][G::VEC], beta[G::CHUNKS][G::VEC], bias[G::CHUNKS][G::VEC];
};

template <class G> DEVICE void clear(float (&x)[G::CHUNKS][G::VEC]) {
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        GPU_UNROLL
        for (int i = 0; i < G::VEC; i++) {
            x[k][i] = 0.0f;
        }
    }
}

// partial[column] = the sum over all groups of the block, in their order.
template <class G>
DEVICE void add_groups(float *partial, const float (&x)[G::CHUNKS][G::VEC], int64_t columns) {
    GPU_DYNAMIC_SHARED(float, rows); // [GROUPS, columns]
    __syncthreads();
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) < columns) {
            GPU_UNROLL
            for (int i = 0; i < G::VEC; i++) {
                rows[G::group() * columns + G::column(k) + i] = x[k][i];
            }
        }
    }
    __syncthreads();
    for (int64_t column = threadIdx.x; column < columns; column += G::BLOCK) {
        float sum = rows[column];
        for (int group = 1; group < G::GROUPS; group++) {
            sum += rows[group * columns + column];
        }
        partial[column] = sum;
    }
}

// g is the gradient of the output on entry and that of s on return.
template <class G>
DEVICE void normalize_gradient(float (&g)[G::CHUNKS][G::VEC], struct parameter_sums<G> &sums,
                               const struct mat &xhat, float rstd, const float *gamma,
                               int64_t row) {
    const int64_t columns = xhat.cols;
    float sum = 0.0f, dot = 0.0f, x[G::CHUNKS][G::VEC] = {};
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        const int64_t column = G::column(k);
        if (column >= columns) {
            continue;
        }
        float factors[G::VEC];
        load(x[k], xhat, row, column);
        load_run(factors, gamma + column);
        GPU_UNROLL
        for (int i = 0; i < G::VEC; i++) {
            sums.gamma[k][i] += g[k][i] * x[k][i];
            sums.beta[k][i] += g[k][i];
            g[k][i] *= factors[i];
            sum += g[k][i];
            dot += g[k][i] * x[k][i];
        }
    }
    const float mean = G::sum(sum) / (float)columns, mean_dot = G::sum(dot) / (float)columns;
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) < columns) {
            GPU_UNROLL
            for (int i = 0; i < G::VEC; i++) {
                g[k][i] = rstd * (g[k][i] - mean - x[k][i] * mean_dot);
            }
        }
    }
}

template <class G>
__global__ void __launch_bounds__(G::BLOCK, 1)
    norm_backward_kernel(struct norm_grad_args a, struct batch batch, float *partials) {
    const int64_t columns = a.dy.cols, first = (int64_t)blockIdx.x * GRADIENT_ROWS;
    const bool has_x = is_given(a.dx);
    struct parameter_sums<G> sums;
    clear<G>(sums.gamma);
    clear<G>(sums.beta);
    clear<G>(sums.bias);
    for (int64_t row = first + G::group(); row < first + GRADIENT_ROWS && row < a.dy.rows;
         row += G::GROUPS) {
        const struct mask_row mask = has_x ? mask_row_of_batch(a.dropout, batch, row) : mask_row{};
        float g[G::CHUNKS][G::VEC] = {};
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            if (G::column(k) < columns) {
                load(g[k], a.dy, row, G::column(k));
                if (is_given(a.dy2)) {
                    load_added(g[k], a.dy2, row, G::column(k));
                }
            }
        }
        normalize_gradient<G>(g, sums, a.xhat, a.rstd[row], a.gamma, row);
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            const int64_t column = G::column(k);
            const uint32_t bits = has_x ? mask_bits<G>(mask, k) : 0;
            if (column >= columns) {
                continue;
            }
            if (is_given(a.dsum)) {
                load_added(g[k], a.dsum, row, column);
            }
            store(a.dresidual, row, column, g[k]);
            if (!has_x) {
                continue;
            }
            apply_mask(g[k], mask, bits);
            store(a.dx, row, column, g[k]);
            GPU_UNROLL
            for (int i = 0; i < G::VEC; i++) {
                sums.bias[k][i] += g[k][i];
            }
        }
    }
    float *partial = partials + (int64_t)blockIdx.x * (has_x ? 3 : 2) * columns;
    add_groups<G>(partial, sums.gamma, columns);
    add_groups<G>(partial + columns, sums.beta, columns);
    if (has_x) {
        add_groups<G>(partial + 2 * columns, sums.bias, columns);
    }
}

template <class G>
__global__ void __launch_bounds__(G::BLOCK)
    embed_backward_kernel(struct embed_grad_args a, struct batch batch, float *partials) {
    const int64_t columns = a.dy.cols, first = (int64_t)blockIdx.x * GRADIENT_ROWS;
    struct parameter_sums<G> sums;
    clear<G>(sums.gamma);
    clear<G>(sums.beta);
    for (int64_t row = first + G::group(); row < first + GRADIENT_ROWS && row < a.dy.rows;
         row += G::GROUPS) {
        const struct mask_row mask = mask_row_of_batch(a.dropout, batch, row);
        float g[G::CHUNKS][G::VEC] = {};
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            const uint32_t bits = mask_bits<G>(mask, k);
            if (G::column(k) < columns) {
                load(g[k], a.dy, row, G::column(k));
                if (is_given(a.dy2)) {
                    load_added(g[k], a.dy2, row, G::column(k));
                }
                apply_mask(g[k], mask, bits);
            }
        }
        normalize_gradient<G>(g, sums, a.xhat, a.rstd[row], a.gamma, row);
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            if (G::column(k) < columns) {
                store(a.scratch, row, G::column(k), g[k]);
            }
        }
    }
    float *partial = partials + (int64_t)blockIdx.x * 2 * columns;
    add_groups<G>(partial, sums.gamma, columns);
    add_groups<G>(partial + columns, sums.beta, columns);
}

// --- the tables' gradients ----------------------------------------------------------------------

enum { TABLE_THREADS = 128 };

// Addresses an element of an f32 matrix, as the tables' gradients are.
DEVICE float *float_at(const struct mat &m, int64_t row, int64_t column) {
    return (float *)m.data + row * m.stride + column;
}

// The rows of a word are consecutive in word_rows: a run. A block of threads adds the rows of
// WORD_ROWS entries of word_rows. The sum of a run that lies within them is added to the table. Of
// a run that does not, the block stores its partial sum: in partials[block, 0] if the run begins in
// an earlier block, else in partials[block, 1]. A second kernel adds the partial sums of each such
// run. All sums are in the order of word_rows.
enum { WORD_ROWS = 32, WORD_AHEAD = 8, JOIN_BLOCKS = 6 };

enum run_end { RUN_CONTINUES, RUN_COMPLETE, PARTIAL_OF_EARLIER_RUN, PARTIAL_OF_OWN_RUN };

struct word_block {
    int32_t *rows, *ids; // [WORD_ROWS + 2]: from the entry before the block to the one after it
    int32_t *run_ends;   // [WORD_ROWS + 2] enum run_end: what ends at the entry
};

// Each thread has an entry of word_rows; -1 is no word.
DEVICE void find_run_ends(const struct word_block &own, const struct batch &batch) {
    const int i = (int)threadIdx.x;
    const int64_t index = (int64_t)blockIdx.x * WORD_ROWS + i - 1;
    const bool exists = index >= 0 && index < batch.token_count;
    if (i < WORD_ROWS + 2) {
        own.rows[i] = exists ? batch.word_rows[index] : -1;
        own.ids[i] = exists ? batch.ids[own.rows[i]] : -1;
    }
    __syncthreads();
    if (i >= 1 && i <= WORD_ROWS) {
        const bool continues = own.ids[i + 1] == own.ids[i];
        own.run_ends[i] = !exists || (continues && i < WORD_ROWS) ? RUN_CONTINUES
                          : own.ids[0] == own.ids[i]              ? PARTIAL_OF_EARLIER_RUN
                          : continues                             ? PARTIAL_OF_OWN_RUN
                                                                  : RUN_COMPLETE;
    }
    __syncthreads();
}

__global__ void __launch_bounds__(SUM_THREADS)
    word_gradient_kernel(struct mat dword, float *partials, struct mat gradient,
                         struct batch batch) {
    GPU_SHARED(int32_t, rows, WORD_ROWS + 2);
    GPU_SHARED(int32_t, ids, WORD_ROWS + 2);
    GPU_SHARED(int32_t, run_ends, WORD_ROWS + 2);
    find_run_ends(word_block{rows, ids, run_ends}, batch);
    float *const block_partials = partials + (int64_t)blockIdx.x * 2 * dword.cols;
    for (int64_t column = threadIdx.x; column < dword.cols; column += SUM_THREADS) {
        float sum = 0.0f;
        for (int first = 1; first <= WORD_ROWS; first += WORD_AHEAD) {
            float x[WORD_AHEAD], before[WORD_AHEAD];
            GPU_UNROLL
            for (int k = 0; k < WORD_AHEAD; k++) {
                const int i = first + k;
                x[k] = rows[i] >= 0 ? *float_at(gradient, rows[i], column) : 0.0f;
                before[k] = run_ends[i] == RUN_COMPLETE ? *float_at(dword, ids[i], column) : 0.0f;
            }
            GPU_UNROLL
            for (int k = 0; k < WORD_AHEAD; k++) {
                const int i = first + k;
                sum += x[k];
                if (run_ends[i] == RUN_CONTINUES) {
                    continue;
                }
                if (run_ends[i] == RUN_COMPLETE) {
                    *float_at(dword, ids[i], column) = before[k] + sum;
                } else {
                    block_partials[(run_ends[i] == PARTIAL_OF_OWN_RUN ? dword.cols : 0) + column] =
                        sum;
                }
                sum = 0.0f;
            }
        }
    }
}

static __host__ __device__ __forceinline__ int32_t word_at(const struct batch &batch,
                                                           int64_t index) {
    return batch.ids[batch.word_rows[index]];
}

// Whether a run begins in that block of entries and continues in the next one.
static __host__ __device__ __forceinline__ bool run_crosses_blocks(const struct batch &batch,
                                                                   int64_t block) {
    const int64_t first = block * WORD_ROWS, next = first + WORD_ROWS;
    const int32_t id = word_at(batch, next - 1),
                  before = first > 0 ? word_at(batch, first - 1) : -1;
    return (int)(word_at(batch, next) == id) & (int)(before != id);
}

// Adds the partial sums of the run that begins in a block of entries and continues after it;
// JOIN_BLOCKS blocks of threads share its columns.
__global__ void __launch_bounds__(SUM_THREADS)
    word_partials_kernel(struct mat dword, const float *partials, struct batch batch) {
    const int64_t own = blockIdx.x / JOIN_BLOCKS;
    const int64_t blocks = (batch.token_count + WORD_ROWS - 1) / WORD_ROWS;
    if (!run_crosses_blocks(batch, own)) {
        return;
    }
    const int32_t id = word_at(batch, own * WORD_ROWS + WORD_ROWS - 1);
    int32_t found = 0; // words ascend, so the blocks that begin with this one are consecutive
    for (int64_t block = own + 1 + threadIdx.x; block < blocks; block += SUM_THREADS) {
        found += word_at(batch, block * WORD_ROWS) == id ? 1 : 0;
    }
    const int32_t later = block_sum<SUM_THREADS>(found);
    const float *block_partials = partials + own * 2 * dword.cols;
    for (int64_t first = blockIdx.x % JOIN_BLOCKS * SUM_COLUMNS; first < dword.cols;
         first += JOIN_BLOCKS * SUM_COLUMNS) {
        const int64_t column = first + sum_column();
        const bool has_column = column < dword.cols;
        const float sum = sum_of_rows(block_partials + 2 * dword.cols + column, later,
                                      2 * dword.cols, has_column);
        if (threadIdx.x < SUM_COLUMNS && has_column) {
            *float_at(dword, id, column) += block_partials[dword.cols + column] + sum;
        }
    }
}

// A block adds the rows of one position, in the order of their sequences.
__global__ void __launch_bounds__(TABLE_THREADS)
    position_gradient_kernel(struct mat dposition, struct mat gradient, struct batch batch) {
    const int64_t position = blockIdx.x;
    for (int64_t column = threadIdx.x; column < dposition.cols; column += TABLE_THREADS) {
        float sum = number_at(dposition, position, column);
        for (int64_t s = 0; s < batch.sequence_count; s++) {
            const int64_t row = batch.cu_seqlens[s] + position;
            if (row < batch.cu_seqlens[s + 1]) {
                sum += number_at(gradient, row, column);
            }
        }
        set_number(dposition, position, column, sum);
    }
}

// partials[block, type, column]: the sums over the block's rows of that type.
__global__ void __launch_bounds__(TABLE_THREADS)
    type_gradient_kernel(float *partials, struct mat gradient, int64_t types, struct batch batch) {
    const int64_t first = (int64_t)blockIdx.x * GRADIENT_ROWS;
    const int64_t end =
        first + GRADIENT_ROWS < batch.token_count ? first + GRADIENT_ROWS : batch.token_count;
    for (int64_t i = threadIdx.x; i < types * gradient.cols; i += TABLE_THREADS) {
        const int64_t type = i / gradient.cols, column = i % gradient.cols;
        float sum = 0.0f;
        for (int64_t row = first; row < end; row++) {
            sum += batch.type_ids[row] == type ? number_at(gradient, row, column) : 0.0f;
        }
        partials[(int64_t)blockIdx.x * types * gradient.cols + i] = sum;
    }
}

// --- costs --------------------------------------------------------------------------------------

static gpu_cost norm_forward_cost(struct norm_args a, struct batch batch) {
    const uint64_t mask = cost_mask(a.dropout, batch) + cost_positions(a.dropout, batch);
    return {cost_of(a.residual) + cost_of(a.x) + (mat_is_empty(a.x) ? 0 : mask) +
                cost_words(a.gamma, 2 * a.y.cols),
            cost_of(a.y) + cost_of(a.y_compute) + cost_of(a.xhat) + cost_of(a.sum) +
                cost_words(a.rstd, a.y.rows),
            0};
}

static gpu_cost embed_forward_cost(struct embed_args a, struct batch batch) {
    const int64_t rows = a.y.rows;
    return {cost_words(batch.ids, 3 * rows) + cost_mask(a.dropout, batch) +
                cost_rows(a.word, cost_distinct(batch.ids, rows)) +
                cost_rows(a.position, cost_distinct(batch.positions, rows)) +
                cost_rows(a.type, cost_distinct(batch.type_ids, rows)) +
                cost_words(a.gamma, 2 * a.y.cols),
            cost_of(a.y) + cost_of(a.y_compute) + cost_of(a.xhat) + cost_words(a.rstd, rows), 0};
}

static uint64_t partials_cost(int64_t rows, int64_t sums) {
    return (uint64_t)(gpu_blocks(rows, GRADIENT_ROWS) * sums) * sizeof(float);
}

static gpu_cost norm_backward_cost(struct norm_grad_args a, struct batch batch, float *) {
    const bool has_x = !mat_is_empty(a.dx);
    const uint64_t mask = cost_mask(a.dropout, batch) + cost_positions(a.dropout, batch);
    return {cost_of(a.dy) + cost_of(a.dy2) + cost_of(a.xhat) + cost_of(a.dsum) +
                cost_words(a.rstd, a.dy.rows) + cost_words(a.gamma, a.dy.cols) + (has_x ? mask : 0),
            cost_of(a.dresidual) + cost_of(a.dx) +
                partials_cost(a.dy.rows, (has_x ? 3 : 2) * a.dy.cols),
            0};
}

static gpu_cost embed_backward_cost(struct embed_grad_args a, struct batch batch, float *) {
    return {cost_of(a.dy) + cost_of(a.dy2) + cost_of(a.xhat) + cost_words(a.rstd, a.dy.rows) +
                cost_words(a.gamma, a.dy.cols) + cost_mask(a.dropout, batch) +
                cost_positions(a.dropout, batch),
            cost_of(a.scratch) + partials_cost(a.dy.rows, 2 * a.dy.cols), 0};
}

static int64_t count_crossing_runs(const struct batch &batch) {
    int64_t count = 0;
    for (int64_t block = 0; block + 1 < gpu_blocks(batch.token_count, WORD_ROWS); block++) {
        count += run_crosses_blocks(batch, block);
    }
    return count;
}

// Of a run that crosses blocks, the block where it begins and each later one has a partial sum.
static int64_t count_word_partials(const struct batch &batch) {
    int64_t count = count_crossing_runs(batch);
    for (int64_t index = WORD_ROWS; index < batch.token_count; index += WORD_ROWS) {
        count += word_at(batch, index) == word_at(batch, index - 1);
    }
    return count;
}

static gpu_cost word_gradient_cost(struct mat dword, float *partials, struct mat gradient,
                                   struct batch batch) {
    const int64_t words = cost_distinct(batch.ids, batch.token_count) - count_crossing_runs(batch);
    return {cost_words(batch.ids, 2 * batch.token_count) + cost_rows(dword, words) +
                cost_rows(gradient, batch.token_count),
            cost_rows(dword, words) + cost_words(partials, count_word_partials(batch) * dword.cols),
            0};
}

// Reads the words on both sides of each boundary between blocks.
static gpu_cost word_partials_cost(struct mat dword, const float *partials, struct batch batch) {
    const int64_t boundaries = gpu_blocks(batch.token_count, WORD_ROWS) - 1;
    const uint64_t words = cost_rows(dword, count_crossing_runs(batch));
    return {cost_words(batch.ids, 4 * boundaries) + words +
                cost_words(partials, count_word_partials(batch) * dword.cols),
            words, 0};
}

static gpu_cost position_gradient_cost(struct mat dposition, struct mat gradient,
                                       struct batch batch) {
    const uint64_t positions = cost_rows(dposition, batch.max_length);
    return {cost_words(batch.cu_seqlens, batch.sequence_count + 1) + positions +
                cost_rows(gradient, batch.token_count),
            positions, 0};
}

static gpu_cost type_gradient_cost(float *, struct mat gradient, int64_t types,
                                   struct batch batch) {
    return {cost_words(batch.type_ids, batch.token_count) + cost_rows(gradient, batch.token_count),
            partials_cost(batch.token_count, types * gradient.cols), 0};
}

// --- operations ---------------------------------------------------------------------------------

template <size_t N> static bool are_vectorizable(const struct mat (&mats)[N]) {
    for (const struct mat &m : mats) {
        if (!gpu_is_vectorizable(m)) {
            return false;
        }
    }
    return true;
}

// A parameter vector as a matrix of one row.
static struct mat row_of(const float *numbers, int64_t columns) {
    return mat_of((void *)numbers, 1, columns, DTYPE_F32);
}

// Calls run(group) with the smallest group that can hold the columns.
template <class Run>
static void with_group(struct gpu *gpu, int64_t columns, bool vectorizable, Run run) {
    if (columns > row_group<256, 8, 2>::COLUMNS) {
        gpu_fail(gpu, "layer norm", "hidden sizes above 4096 are not supported");
    } else if (vectorizable && columns <= row_group<GPU_WARP, 8, 1>::COLUMNS) {
        run(row_group<GPU_WARP, 8, 1>());
    } else if (vectorizable && columns <= row_group<GPU_WARP, 8, 2>::COLUMNS) {
        run(row_group<GPU_WARP, 8, 2>());
    } else if (vectorizable && columns <= row_group<GPU_WARP, 8, 4>::COLUMNS) {
        run(row_group<GPU_WARP, 8, 4>());
    } else if (vectorizable) {
        run(row_group<256, 8, 2>());
    } else if (columns <= row_group<GPU_WARP, 1, 8>::COLUMNS) {
        run(row_group<GPU_WARP, 1, 8>());
    } else {
        run(row_group<256, 1, 16>());
    }
}

void gpu_norm_forward(struct device *dev, const struct norm_args *args, const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t columns = args->y.cols;
    const struct mat mats[] = {args->y,
                               args->y_compute,
                               args->xhat,
                               args->x,
                               args->residual,
                               args->sum,
                               row_of(args->gamma, columns),
                               row_of(args->beta, columns)};
    with_group(gpu, columns, are_vectorizable(mats), [&](auto group) {
        using G = decltype(group);
        gpu_run(gpu, {"norm_forward", gpu_blocks(args->y.rows, G::GROUPS), G::BLOCK},
                norm_forward_kernel<G>, norm_forward_cost, *args, *batch);
    });
}

void gpu_embed_forward(struct device *dev, const struct embed_args *args,
                       const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t columns = args->y.cols;
    const struct mat mats[] = {args->y,
                               args->y_compute,
                               args->xhat,
                               args->word,
                               args->position,
                               args->type,
                               row_of(args->gamma, columns),
                               row_of(args->beta, columns)};
    with_group(gpu, columns, are_vectorizable(mats), [&](auto group) {
        using G = decltype(group);
        gpu_run(gpu, {"embed_forward", gpu_blocks(args->y.rows, G::GROUPS), G::BLOCK},
                embed_forward_kernel<G>, embed_forward_cost, *args, *batch);
    });
}

size_t gpu_norm_partial_bytes(const struct device_shape *shape) {
    const int64_t sums = shape->types > 3 ? shape->types : 3; // 2 suffice for partial sums of words
    static_assert((int)GRADIENT_ROWS == (int)WORD_ROWS, "as many blocks of rows as of words");
    return (size_t)(gpu_blocks(batch_round(shape->batch.tokens), GRADIENT_ROWS) * sums *
                    shape->hidden) *
           sizeof(float);
}

void gpu_norm_backward(struct device *dev, const struct norm_grad_args *args,
                       const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t columns = args->dy.cols, blocks = gpu_blocks(args->dy.rows, GRADIENT_ROWS);
    const int sums = mat_is_empty(args->dx) ? 2 : 3;
    const struct mat mats[] = {args->dresidual,
                               args->dx,
                               args->dy,
                               args->dy2,
                               args->xhat,
                               args->dsum,
                               row_of(args->gamma, columns)};
    float *partials = gpu_partials(gpu, blocks * sums * columns);
    with_group(gpu, columns, are_vectorizable(mats), [&](auto group) {
        using G = decltype(group);
        const size_t shared = (size_t)(G::GROUPS * columns) * sizeof(float);
        gpu_run(gpu, {"norm_backward", blocks, G::BLOCK, shared}, norm_backward_kernel<G>,
                norm_backward_cost, *args, *batch, partials);
    });
    const struct gpu_sums to = {{args->dgamma, args->dbeta, args->dbias}, sums, columns};
    gpu_add_partials(gpu, &to, partials, blocks, sums * columns);
}

static void add_to_tables(struct gpu *gpu, const struct embed_grad_args *args,
                          const struct batch *batch) {
    const struct mat gradient = args->scratch;
    const int64_t types = args->dtype_table.rows, columns = gradient.cols,
                  blocks = gpu_blocks(batch->token_count, GRADIENT_ROWS);
    float *partials = gpu_partials(gpu, blocks * (types > 2 ? types : 2) * columns);
    gpu_run(gpu, {"word_gradient", blocks, SUM_THREADS}, word_gradient_kernel, word_gradient_cost,
            args->dword, partials, gradient, *batch);
    gpu_run(gpu, {"word_partials", (blocks - 1) * JOIN_BLOCKS, SUM_THREADS}, word_partials_kernel,
            word_partials_cost, args->dword, (const float *)partials, *batch);
    gpu_run(gpu, {"position_gradient", batch->max_length, TABLE_THREADS}, position_gradient_kernel,
            position_gradient_cost, args->dposition, gradient, *batch);
    gpu_run(gpu, {"type_gradient", blocks, TABLE_THREADS}, type_gradient_kernel, type_gradient_cost,
            partials, gradient, types, *batch);
    for (int64_t type = 0; type < types; type += GPU_SUMS) {
        struct gpu_sums to = {{}, 0, columns};
        for (; to.count < GPU_SUMS && type + to.count < types; to.count++) {
            to.to[to.count] = (float *)mat_rows(args->dtype_table, type + to.count, 1).data;
        }
        gpu_add_partials(gpu, &to, partials + type * columns, blocks, types * columns);
    }
}

void gpu_embed_backward(struct device *dev, const struct embed_grad_args *args,
                        const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t columns = args->dy.cols, blocks = gpu_blocks(args->dy.rows, GRADIENT_ROWS);
    const struct mat mats[] = {args->dy, args->dy2, args->xhat, args->scratch,
                               row_of(args->gamma, columns)};
    float *partials = gpu_partials(gpu, blocks * 2 * columns);
    with_group(gpu, columns, are_vectorizable(mats), [&](auto group) {
        using G = decltype(group);
        const size_t shared = (size_t)(G::GROUPS * columns) * sizeof(float);
        gpu_run(gpu, {"embed_backward", blocks, G::BLOCK, shared}, embed_backward_kernel<G>,
                embed_backward_cost, *args, *batch, partials);
    });
    const struct gpu_sums to = {{args->dgamma, args->dbeta}, 2, columns};
    gpu_add_partials(gpu, &to, partials, blocks, 2 * columns);
    add_to_tables(gpu, args, batch);
}
