// SPDX-License-Identifier: Apache-2.0
// Layer norm fused with its neighbours: the embedding sum, or residual and dropout. A group of
// threads keeps a row in registers, so that every number is read and written once.
//
// For the gradients of parameters, each block adds up its rows, and a second kernel adds up the
// blocks, both in a fixed order. The gradients of the embeddings' tables are in tables.cu.
#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"

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

// Those blocks that an H100's 132 multiprocessors run at a time, if each has registers for that
// many threads.
enum { GRADIENT_THREADS = 768 };

template <class G> constexpr int gradient_residents(void) {
    return G::VEC == 1 || G::BLOCK > GRADIENT_THREADS ? 1 : (int)GRADIENT_THREADS / G::BLOCK;
}

template <class G> static int64_t gradient_rows_of(int64_t rows) {
    return gpu_gradient_rows(rows, 132 * gradient_residents<G>());
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

// What a row of a gradient is computed from, as it is stored.
template <class G> struct gradient_row { stored_row<G> dy, dy2, xhat; };

template <class G>
DEVICE void fetch_gradient(gradient_row<G> &own, const struct mat &dy, const struct mat &dy2,
                           const struct mat &xhat, int64_t row) {
    own = {};
    fetch_row<G>(own.dy, dy, row);
    if (is_given(dy2)) {
        fetch_row<G>(own.dy2, dy2, row);
    }
    fetch_row<G>(own.xhat, xhat, row);
}

// g = dy + dy2
template <class G>
DEVICE void unpack_gradient(float (&g)[G::CHUNKS][G::VEC], const gradient_row<G> &own,
                            const struct mat &dy, const struct mat &dy2) {
    unpack_row<G>(g, own.dy, dy);
    if (is_given(dy2)) {
        add_row<G>(g, own.dy2, dy2);
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
    const bool has_x = is_given(a.dx), has_dsum = is_given(a.dsum);
    a.dy.dtype = a.dresidual.dtype = a.dsum.dtype = DTYPE_F32; // as they are: for the compiler
    struct parameter_sums<G> sums;
    clear<G>(sums.gamma);
    clear<G>(sums.beta);
    clear<G>(sums.bias);
    for (int64_t row = first + G::group(); row < end; row += G::GROUPS) {
        gradient_row<G> own;
        fetch_gradient<G>(own, a.dy, a.dy2, a.xhat, row);
        const float rstd = a.rstd[row];
        const struct mask_row mask = has_x ? mask_row_of_batch(a.dropout, batch, row) : mask_row{};
        uint32_t bits[G::CHUNKS];
        draw_mask<G>(bits, mask);
        float g[G::CHUNKS][G::VEC] = {}, x[G::CHUNKS][G::VEC] = {};
        unpack_gradient<G>(g, own, a.dy, a.dy2);
        unpack_row<G>(x, own.xhat, a.xhat);
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
    a.dy.dtype = a.scratch.dtype = DTYPE_F32; // as they are: for the compiler
    struct parameter_sums<G> sums;
    clear<G>(sums.gamma);
    clear<G>(sums.beta);
    for (int64_t row = first + G::group(); row < end; row += G::GROUPS) {
        gradient_row<G> own;
        fetch_gradient<G>(own, a.dy, a.dy2, a.xhat, row);
        const float rstd = a.rstd[row];
        const struct mask_row mask = mask_row_of_batch(a.dropout, batch, row);
        uint32_t bits[G::CHUNKS];
        draw_mask<G>(bits, mask);
        float g[G::CHUNKS][G::VEC] = {}, x[G::CHUNKS][G::VEC] = {};
        unpack_gradient<G>(g, own, a.dy, a.dy2);
        GPU_UNROLL
        for (int k = 0; k < G::CHUNKS; k++) {
            apply_mask(g[k], mask, bits[k]);
        }
        unpack_row<G>(x, own.xhat, a.xhat);
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

static gpu_cost norm_backward_cost(struct norm_grad_args a, struct batch batch, float *partials,
                                   int64_t rows) {
    const bool has_x = !mat_is_empty(a.dx);
    const uint64_t mask = cost_mask(a.dropout, batch) + cost_positions(a.dropout, batch);
    return {cost_of(a.dy) + cost_of(a.dy2) + cost_of(a.xhat) + cost_of(a.dsum) +
                cost_words(a.rstd, a.dy.rows) + cost_words(a.gamma, a.dy.cols) + (has_x ? mask : 0),
            cost_of(a.dresidual) + cost_of(a.dx) +
                cost_words(partials, gpu_blocks(a.dy.rows, rows) * (has_x ? 3 : 2) * a.dy.cols),
            0};
}

static gpu_cost embed_backward_cost(struct embed_grad_args a, struct batch batch, float *partials,
                                    int64_t rows) {
    return {cost_of(a.dy) + cost_of(a.dy2) + cost_of(a.xhat) + cost_words(a.rstd, a.dy.rows) +
                cost_words(a.gamma, a.dy.cols) + cost_mask(a.dropout, batch) +
                cost_positions(a.dropout, batch),
            cost_of(a.scratch) + cost_words(partials, gpu_blocks(a.dy.rows, rows) * 2 * a.dy.cols),
            0};
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
    const int64_t blocks = gpu_blocks(batch_round(shape->batch.tokens), GPU_GRADIENT_ROWS);
    return (size_t)(blocks * 3 * shape->hidden) * sizeof(float);
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
    gpu_add_to_tables(gpu, args, batch);
}
