// SPDX-License-Identifier: Apache-2.0
// Layer norm fused with its neighbours: the embedding sum, or residual and dropout. A group of
// threads keeps a row in registers, so that every number is read and written once.
//
// For the gradients of parameters, each block adds up its rows, and a second kernel adds up the
// blocks, both in a fixed order.
#include "gpu/cost.h"
#include "gpu/gpu.h"
#include "gpu/kernel.h"

#include <type_traits>

// --- rows ---------------------------------------------------------------------------------------

// A thread's part of a row as it is stored. All that a row needs is fetched before anything waits
// for it: the time until memory answers passes once for each row. Columns that do not exist are 0,
// so that no registers keep what an earlier row had there.
template <class G> struct stored_row { typename vector_io<G::VEC>::stored chunks[G::CHUNKS]; };

template <class G> DEVICE void fetch_row(stored_row<G> &x, const struct mat &m, int64_t row) {
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) < m.cols) {
            vector_io<G::VEC>::fetch(x.chunks[k], m, row * m.stride + G::column(k));
        }
    }
}

template <class G>
DEVICE void unpack_row(float (&x)[G::CHUNKS][G::VEC], const stored_row<G> &stored,
                       const struct mat &m) {
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) < m.cols) {
            vector_io<G::VEC>::unpack(x[k], stored.chunks[k], m.dtype);
        }
    }
}

template <class G>
DEVICE void add_row(float (&x)[G::CHUNKS][G::VEC], const stored_row<G> &stored,
                    const struct mat &m) {
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) < m.cols) {
            float more[G::VEC];
            vector_io<G::VEC>::unpack(more, stored.chunks[k], m.dtype);
            GPU_UNROLL
            for (int i = 0; i < G::VEC; i++) {
                x[k][i] += more[i];
            }
        }
    }
}

// mask_bits of the row
template <class G> DEVICE void draw_mask(uint32_t (&bits)[G::CHUNKS], const struct mask_row &mask) {
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        bits[k] = mask_bits<G>(mask, k);
    }
}

// --- forward ------------------------------------------------------------------------------------

struct norm_outputs {
    struct mat y, y_compute, xhat;
    float *rstd;
    const float *gamma, *beta;
    float epsilon;
};

// Normalizes the row s; the mask is applied to the result.
template <class G>
DEVICE void normalize(const struct norm_outputs &out, int64_t row, float (&s)[G::CHUNKS][G::VEC],
                      const struct mask_row &mask, const uint32_t (&bits)[G::CHUNKS]) {
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
        apply_mask(y, mask, bits[k]);
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
    const bool has_x = is_given(a.x);
    a.residual.dtype = a.y.dtype = a.sum.dtype = DTYPE_F32; // as they are: for the compiler
    stored_row<G> residual = {}, x = {};
    fetch_row<G>(residual, a.residual, row);
    if (has_x) {
        fetch_row<G>(x, a.x, row);
    }
    const struct mask_row mask = has_x ? mask_row_of_batch(a.dropout, batch, row) : mask_row{};
    uint32_t bits[G::CHUNKS];
    draw_mask<G>(bits, mask);
    float s[G::CHUNKS][G::VEC] = {};
    unpack_row<G>(s, residual, a.residual);
    if (has_x) {
        float branch[G::CHUNKS][G::VEC] = {};
        unpack_row<G>(branch, x, a.x);
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            apply_mask(branch[k], mask, bits[k]);
            GPU_UNROLL
            for (int i = 0; i < G::VEC; i++) {
                s[k][i] += branch[k][i];
            }
        }
    }
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (is_given(a.sum) && G::column(k) < columns) {
            store(a.sum, row, G::column(k), s[k]);
        }
    }
    const struct norm_outputs out = {a.y, a.y_compute, a.xhat, a.rstd, a.gamma, a.beta, a.epsilon};
    normalize<G>(out, row, s, mask_row{}, bits);
}

template <class G>
__global__ void __launch_bounds__(G::BLOCK)
    embed_forward_kernel(struct embed_args a, struct batch batch) {
    const int64_t row = (int64_t)blockIdx.x * G::GROUPS + G::group();
    if (row >= a.y.rows) {
        return;
    }
    a.y.dtype = DTYPE_F32; // as it is: for the compiler
    stored_row<G> word = {}, position = {}, type = {};
    fetch_row<G>(word, a.word, batch.ids[row]);
    fetch_row<G>(position, a.position, batch.positions[row]);
    fetch_row<G>(type, a.type, batch.type_ids[row]);
    const struct mask_row mask = mask_row_of_batch(a.dropout, batch, row);
    uint32_t bits[G::CHUNKS];
    draw_mask<G>(bits, mask);
    float s[G::CHUNKS][G::VEC] = {};
    unpack_row<G>(s, word, a.word);
    add_row<G>(s, position, a.position);
    add_row<G>(s, type, a.type);
    const struct norm_outputs out = {a.y, a.y_compute, a.xhat, a.rstd, a.gamma, a.beta, a.epsilon};
    normalize<G>(out, row, s, mask, bits);
}

// --- backward -----------------------------------------------------------------------------------

// A block of threads adds up at least GRADIENT_ROWS rows, and more if there would be more than
// `most` blocks. A block has up to four groups, with as many rows each.
enum { GRADIENT_ROWS = 32 };

static inline int64_t gradient_rows(int64_t rows, int64_t most) {
    const int64_t each = gpu_blocks(gpu_blocks(rows, most), 4) * 4;
    return each > GRADIENT_ROWS ? each : (int64_t)GRADIENT_ROWS;
}

// Those blocks that an H100's 132 multiprocessors run at a time, if each has registers for that
// many threads.
enum { GRADIENT_THREADS = 768 };

template <class G> constexpr int gradient_residents(void) {
    return G::VEC == 1 || G::BLOCK > GRADIENT_THREADS ? 1 : (int)GRADIENT_THREADS / G::BLOCK;
}

template <class G> static int64_t gradient_rows_of(int64_t rows) {
    return gradient_rows(rows, 132 * gradient_residents<G>());
}

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
    if (G::GROUPS == 1) {
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            if (G::column(k) < columns) {
                store_run(partial + G::column(k), x[k]);
            }
        }
        return;
    }
    GPU_DYNAMIC_SHARED(float, rows); // [GROUPS, columns]
    __syncthreads();
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) < columns) {
            store_run(rows + G::group() * columns + G::column(k), x[k]);
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
                               const float (&x)[G::CHUNKS][G::VEC], float rstd, const float *gamma,
                               int64_t columns) {
    const float share = 1.0f / (float)columns;
    float sum = 0.0f, dot = 0.0f;
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        if (G::column(k) >= columns) {
            continue;
        }
        float factors[G::VEC];
        load_run(factors, gamma + G::column(k));
        GPU_UNROLL
        for (int i = 0; i < G::VEC; i++) {
            sums.gamma[k][i] += g[k][i] * x[k][i];
            sums.beta[k][i] += g[k][i];
            g[k][i] *= factors[i];
            sum += g[k][i];
            dot += g[k][i] * x[k][i];
        }
    }
    G::sums(sum, dot);
    const float mean = sum * share, mean_dot = dot * share;
    GPU_UNROLL
    for (int k = 0; k < G::CHUNKS; k++) {
        GPU_UNROLL
        for (int i = 0; i < G::VEC; i++) {
            g[k][i] = rstd * (g[k][i] - mean - x[k][i] * mean_dot);
        }
    }
}

template <class G>
__global__ void __launch_bounds__(G::BLOCK, gradient_residents<G>())
    norm_backward_kernel(struct norm_grad_args a, struct batch batch, float *partials,
                         int64_t rows) {
    const int64_t columns = a.dy.cols, first = (int64_t)blockIdx.x * rows;
    const int64_t end = first + rows < a.dy.rows ? first + rows : a.dy.rows;
    const bool has_dy2 = is_given(a.dy2), has_x = is_given(a.dx), has_dsum = is_given(a.dsum);
    a.dy.dtype = a.dresidual.dtype = a.dsum.dtype = DTYPE_F32; // as they are: for the compiler
    struct parameter_sums<G> sums;
    clear<G>(sums.gamma);
    clear<G>(sums.beta);
    clear<G>(sums.bias);
    for (int64_t row = first + G::group(); row < end; row += G::GROUPS) {
        stored_row<G> dy = {}, dy2 = {}, xhat = {};
        fetch_row<G>(dy, a.dy, row);
        if (has_dy2) {
            fetch_row<G>(dy2, a.dy2, row);
        }
        fetch_row<G>(xhat, a.xhat, row);
        const float rstd = a.rstd[row];
        const struct mask_row mask = has_x ? mask_row_of_batch(a.dropout, batch, row) : mask_row{};
        uint32_t bits[G::CHUNKS];
        draw_mask<G>(bits, mask);
        float g[G::CHUNKS][G::VEC] = {}, x[G::CHUNKS][G::VEC] = {};
        unpack_row<G>(g, dy, a.dy);
        if (has_dy2) {
            add_row<G>(g, dy2, a.dy2);
        }
        unpack_row<G>(x, xhat, a.xhat);
        normalize_gradient<G>(g, sums, x, rstd, a.gamma, columns);
        if (has_dsum) {
            stored_row<G> dsum = {};
            fetch_row<G>(dsum, a.dsum, row);
            add_row<G>(g, dsum, a.dsum);
        }
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            const int64_t column = G::column(k);
            if (column >= columns) {
                continue;
            }
            store(a.dresidual, row, column, g[k]);
            if (!has_x) {
                continue;
            }
            apply_mask(g[k], mask, bits[k]);
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
__global__ void __launch_bounds__(G::BLOCK, gradient_residents<G>())
    embed_backward_kernel(struct embed_grad_args a, struct batch batch, float *partials,
                          int64_t rows) {
    const int64_t columns = a.dy.cols, first = (int64_t)blockIdx.x * rows;
    const int64_t end = first + rows < a.dy.rows ? first + rows : a.dy.rows;
    const bool has_dy2 = is_given(a.dy2);
    a.dy.dtype = a.scratch.dtype = DTYPE_F32; // as they are: for the compiler
    struct parameter_sums<G> sums;
    clear<G>(sums.gamma);
    clear<G>(sums.beta);
    for (int64_t row = first + G::group(); row < end; row += G::GROUPS) {
        stored_row<G> dy = {}, dy2 = {}, xhat = {};
        fetch_row<G>(dy, a.dy, row);
        if (has_dy2) {
            fetch_row<G>(dy2, a.dy2, row);
        }
        fetch_row<G>(xhat, a.xhat, row);
        const float rstd = a.rstd[row];
        const struct mask_row mask = mask_row_of_batch(a.dropout, batch, row);
        uint32_t bits[G::CHUNKS];
        draw_mask<G>(bits, mask);
        float g[G::CHUNKS][G::VEC] = {}, x[G::CHUNKS][G::VEC] = {};
        unpack_row<G>(g, dy, a.dy);
        if (has_dy2) {
            add_row<G>(g, dy2, a.dy2);
        }
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            apply_mask(g[k], mask, bits[k]);
        }
        unpack_row<G>(x, xhat, a.xhat);
        normalize_gradient<G>(g, sums, x, rstd, a.gamma, columns);
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
        const float sum = sum_of_rows<SUM_SEGMENTS>(block_partials + 2 * dword.cols + column, later,
                                                    2 * dword.cols, has_column);
        if (threadIdx.x < SUM_COLUMNS && has_column) {
            *float_at(dword, id, column) += block_partials[dword.cols + column] + sum;
        }
    }
}

// Rows that a thread reads before it adds them.
enum { TABLE_AHEAD = 16 };
// The most blocks for the gradient of the types: six for each of an H100's multiprocessors.
enum { TYPE_BLOCKS = 6 * 132 };

// TABLE_THREADS columns of the sum of a position's rows, in the order of their sequences.
__global__ void __launch_bounds__(TABLE_THREADS)
    position_gradient_kernel(struct mat dposition, struct mat gradient, struct batch batch) {
    const int64_t across = (dposition.cols + TABLE_THREADS - 1) / TABLE_THREADS;
    const int64_t position = blockIdx.x / across;
    const int64_t column = blockIdx.x % across * TABLE_THREADS + threadIdx.x;
    if (column >= dposition.cols) {
        return;
    }
    float sum = *float_at(dposition, position, column);
    for (int64_t first = 0; first < batch.sequence_count; first += TABLE_AHEAD) {
        float x[TABLE_AHEAD];
        GPU_UNROLL
        for (int i = 0; i < TABLE_AHEAD; i++) {
            const int64_t s = first + i < batch.sequence_count ? first + i : first;
            const int64_t row = batch.cu_seqlens[s] + position;
            const bool is_added = first + i == s && row < batch.cu_seqlens[s + 1];
            x[i] = is_added ? *float_at(gradient, row, column) : 0.0f;
        }
        GPU_UNROLL
        for (int i = 0; i < TABLE_AHEAD; i++) {
            sum += x[i];
        }
    }
    *float_at(dposition, position, column) = sum;
}

// partials[block, type, column]: the sums over the block's rows of that type, two types at a time.
__global__ void __launch_bounds__(TABLE_THREADS)
    type_gradient_kernel(float *partials, struct mat gradient, int64_t types, struct batch batch,
                         int64_t rows) {
    const int64_t first = (int64_t)blockIdx.x * rows;
    const int64_t end = first + rows < batch.token_count ? first + rows : batch.token_count;
    const int64_t columns = gradient.cols, pairs = (types + 1) / 2;
    for (int64_t i = threadIdx.x; i < pairs * columns; i += TABLE_THREADS) {
        const int64_t type = i / columns * 2, column = i % columns;
        float sums[2] = {0.0f, 0.0f};
        for (int64_t row = first; row < end; row += TABLE_AHEAD) {
            float x[TABLE_AHEAD];
            int64_t of[TABLE_AHEAD]; // the rows' types
            GPU_UNROLL
            for (int k = 0; k < TABLE_AHEAD; k++) {
                const bool exists = row + k < end;
                of[k] = exists ? batch.type_ids[row + k] : -1;
                x[k] = exists ? *float_at(gradient, row + k, column) : 0.0f;
            }
            GPU_UNROLL
            for (int k = 0; k < TABLE_AHEAD; k++) {
                sums[0] += of[k] == type ? x[k] : 0.0f;
                sums[1] += of[k] == type + 1 ? x[k] : 0.0f;
            }
        }
        float *const to = partials + ((int64_t)blockIdx.x * types + type) * columns + column;
        to[0] = sums[0];
        if (type + 1 < types) {
            to[columns] = sums[1];
        }
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

static uint64_t partials_cost(int64_t blocks, int64_t sums) {
    return (uint64_t)(blocks * sums) * sizeof(float);
}

static gpu_cost norm_backward_cost(struct norm_grad_args a, struct batch batch, float *,
                                   int64_t rows) {
    const bool has_x = !mat_is_empty(a.dx);
    const uint64_t mask = cost_mask(a.dropout, batch) + cost_positions(a.dropout, batch);
    return {cost_of(a.dy) + cost_of(a.dy2) + cost_of(a.xhat) + cost_of(a.dsum) +
                cost_words(a.rstd, a.dy.rows) + cost_words(a.gamma, a.dy.cols) + (has_x ? mask : 0),
            cost_of(a.dresidual) + cost_of(a.dx) +
                partials_cost(gpu_blocks(a.dy.rows, rows), (has_x ? 3 : 2) * a.dy.cols),
            0};
}

static gpu_cost embed_backward_cost(struct embed_grad_args a, struct batch batch, float *,
                                    int64_t rows) {
    return {cost_of(a.dy) + cost_of(a.dy2) + cost_of(a.xhat) + cost_words(a.rstd, a.dy.rows) +
                cost_words(a.gamma, a.dy.cols) + cost_mask(a.dropout, batch) +
                cost_positions(a.dropout, batch),
            cost_of(a.scratch) + partials_cost(gpu_blocks(a.dy.rows, rows), 2 * a.dy.cols), 0};
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

static gpu_cost type_gradient_cost(float *, struct mat gradient, int64_t types, struct batch batch,
                                   int64_t rows) {
    return {cost_words(batch.type_ids, batch.token_count) + cost_rows(gradient, batch.token_count),
            partials_cost(gpu_blocks(batch.token_count, rows), types * gradient.cols), 0};
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

// Groups whose threads have few registers left: eight columns for each thread.
template <bool GRADIENT, class Run>
static typename std::enable_if<GRADIENT>::type with_wide_group(int64_t columns, Run run) {
    if (columns <= row_group<2 * GPU_WARP, 8, 1>::COLUMNS) {
        run(row_group<2 * GPU_WARP, 8, 1>());
    } else if (columns <= row_group<3 * GPU_WARP, 8, 1>::COLUMNS) {
        run(row_group<3 * GPU_WARP, 8, 1>());
    } else if (columns <= row_group<4 * GPU_WARP, 8, 1>::COLUMNS) {
        run(row_group<4 * GPU_WARP, 8, 1>());
    } else if (columns <= row_group<256, 8, 1>::COLUMNS) {
        run(row_group<256, 8, 1>());
    } else {
        run(row_group<512, 8, 1>());
    }
}

template <bool GRADIENT, class Run>
static typename std::enable_if<!GRADIENT>::type with_wide_group(int64_t columns, Run run) {
    if (columns <= row_group<GPU_WARP, 8, 2>::COLUMNS) {
        run(row_group<GPU_WARP, 8, 2>());
    } else if (columns <= row_group<GPU_WARP, 8, 3>::COLUMNS) {
        run(row_group<GPU_WARP, 8, 3>());
    } else if (columns <= row_group<GPU_WARP, 8, 4>::COLUMNS) {
        run(row_group<GPU_WARP, 8, 4>());
    } else {
        run(row_group<256, 8, 2>());
    }
}

// Calls run(group) with the smallest group that can hold the columns, of those that keep sums
// (GRADIENT) or of the others.
template <bool GRADIENT, class Run>
static void with_group(struct gpu *gpu, int64_t columns, bool vectorizable, Run run) {
    if (columns > row_group<256, 8, 2>::COLUMNS) {
        gpu_fail(gpu, "layer norm", "hidden sizes above 4096 are not supported");
    } else if (!vectorizable && columns <= row_group<GPU_WARP, 1, 8>::COLUMNS) {
        run(row_group<GPU_WARP, 1, 8>());
    } else if (!vectorizable) {
        run(row_group<256, 1, 16>());
    } else if (columns <= row_group<GPU_WARP, 8, 1>::COLUMNS) {
        run(row_group<GPU_WARP, 8, 1>());
    } else {
        with_wide_group<GRADIENT>(columns, run);
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
    with_group<false>(gpu, columns, are_vectorizable(mats), [&](auto group) {
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
    with_group<false>(gpu, columns, are_vectorizable(mats), [&](auto group) {
        using G = decltype(group);
        gpu_run(gpu, {"embed_forward", gpu_blocks(args->y.rows, G::GROUPS), G::BLOCK},
                embed_forward_kernel<G>, embed_forward_cost, *args, *batch);
    });
}

size_t gpu_norm_partial_bytes(const struct device_shape *shape) {
    const int64_t sums = shape->types > 3 ? shape->types : 3; // 2 suffice for partial sums of words
    static_assert((int)GRADIENT_ROWS >= (int)WORD_ROWS,
                  "at least as many blocks of words as of rows");
    return (size_t)(gpu_blocks(batch_round(shape->batch.tokens), WORD_ROWS) * sums *
                    shape->hidden) *
           sizeof(float);
}

void gpu_norm_backward(struct device *dev, const struct norm_grad_args *args,
                       const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t columns = args->dy.cols;
    const int sums = mat_is_empty(args->dx) ? 2 : 3;
    const struct mat mats[] = {args->dresidual,
                               args->dx,
                               args->dy,
                               args->dy2,
                               args->xhat,
                               args->dsum,
                               row_of(args->gamma, columns)};
    const struct gpu_sums to = {{args->dgamma, args->dbeta, args->dbias}, sums, columns};
    with_group<true>(gpu, columns, are_vectorizable(mats), [&](auto group) {
        using G = decltype(group);
        const int64_t each = gradient_rows_of<G>(args->dy.rows),
                      blocks = gpu_blocks(args->dy.rows, each);
        float *partials = gpu_partials(gpu, blocks * sums * columns);
        const size_t shared = G::GROUPS > 1 ? (size_t)(G::GROUPS * columns) * sizeof(float) : 0;
        gpu_run(gpu, {"norm_backward", blocks, G::BLOCK, shared}, norm_backward_kernel<G>,
                norm_backward_cost, *args, *batch, partials, each);
        gpu_add_partials(gpu, &to, partials, blocks, sums * columns);
    });
}

static void add_to_tables(struct gpu *gpu, const struct embed_grad_args *args,
                          const struct batch *batch) {
    const struct mat gradient = args->scratch;
    const int64_t types = args->dtype_table.rows, columns = gradient.cols,
                  words = gpu_blocks(batch->token_count, WORD_ROWS),
                  each = gradient_rows(batch->token_count, TYPE_BLOCKS),
                  blocks = gpu_blocks(batch->token_count, each);
    float *partials = gpu_partials(gpu, words * (types > 2 ? types : 2) * columns);
    gpu_run(gpu, {"word_gradient", words, SUM_THREADS}, word_gradient_kernel, word_gradient_cost,
            args->dword, partials, gradient, *batch);
    gpu_run(gpu, {"word_partials", (words - 1) * JOIN_BLOCKS, SUM_THREADS}, word_partials_kernel,
            word_partials_cost, args->dword, (const float *)partials, *batch);
    gpu_run(gpu,
            {"position_gradient", batch->max_length * gpu_blocks(columns, TABLE_THREADS),
             TABLE_THREADS},
            position_gradient_kernel, position_gradient_cost, args->dposition, gradient, *batch);
    gpu_run(gpu, {"type_gradient", blocks, TABLE_THREADS}, type_gradient_kernel, type_gradient_cost,
            partials, gradient, types, *batch, each);
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
    const int64_t columns = args->dy.cols;
    const struct mat mats[] = {args->dy, args->dy2, args->xhat, args->scratch,
                               row_of(args->gamma, columns)};
    const struct gpu_sums to = {{args->dgamma, args->dbeta}, 2, columns};
    with_group<true>(gpu, columns, are_vectorizable(mats), [&](auto group) {
        using G = decltype(group);
        const int64_t each = gradient_rows_of<G>(args->dy.rows),
                      blocks = gpu_blocks(args->dy.rows, each);
        float *partials = gpu_partials(gpu, blocks * 2 * columns);
        const size_t shared = G::GROUPS > 1 ? (size_t)(G::GROUPS * columns) * sizeof(float) : 0;
        gpu_run(gpu, {"embed_backward", blocks, G::BLOCK, shared}, embed_backward_kernel<G>,
                embed_backward_cost, *args, *batch, partials, each);
        gpu_add_partials(gpu, &to, partials, blocks, 2 * columns);
    });
    add_to_tables(gpu, args, batch);
}
