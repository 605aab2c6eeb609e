// SPDX-License-Identifier: Apache-2.0
// Layer norm with its neighbours: the embedding sum, or residual and dropout. A group of threads
// keeps a row in registers, so that every number is read and written once.
//
// Gradients of parameters: each block adds up its rows, and a second kernel adds up the blocks,
// both in a fixed order.
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

// From the row s; `mask` acts on the result.
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
        float y[G::VEC];
        GPU_UNROLL
        for (int i = 0; i < G::VEC; i++) {
            s[k][i] *= rstd;
            y[i] = s[k][i] * out.gamma[column + i] + out.beta[column + i];
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

// A thread's sums over the rows that its group has had.
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

// partial[column] = the sums of all groups of the block, in their order.
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

// g on entry, the gradient of s on return.
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
        load(x[k], xhat, row, column);
        GPU_UNROLL
        for (int i = 0; i < G::VEC; i++) {
            sums.gamma[k][i] += g[k][i] * x[k][i];
            sums.beta[k][i] += g[k][i];
            g[k][i] *= gamma[column + i];
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

// The block of the first of a word's rows adds all of them, in their order.
__global__ void __launch_bounds__(TABLE_THREADS)
    word_gradient_kernel(struct mat dword, struct mat gradient, struct batch batch) {
    const int64_t first = blockIdx.x;
    const int32_t id = batch.ids[batch.word_rows[first]];
    if (first > 0 && batch.ids[batch.word_rows[first - 1]] == id) {
        return;
    }
    for (int64_t column = threadIdx.x; column < dword.cols; column += TABLE_THREADS) {
        float sum = number_at(dword, id, column);
        for (int64_t i = first; i < batch.token_count; i++) {
            const int32_t row = batch.word_rows[i];
            if (batch.ids[row] != id) {
                break;
            }
            sum += number_at(gradient, row, column);
        }
        set_number(dword, id, column, sum);
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
    const int64_t past =
        first + GRADIENT_ROWS < batch.token_count ? first + GRADIENT_ROWS : batch.token_count;
    for (int64_t i = threadIdx.x; i < types * gradient.cols; i += TABLE_THREADS) {
        const int64_t type = i / gradient.cols, column = i % gradient.cols;
        float sum = 0.0f;
        for (int64_t row = first; row < past; row++) {
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

static gpu_cost word_gradient_cost(struct mat dword, struct mat gradient, struct batch batch) {
    const uint64_t words = cost_rows(dword, cost_distinct(batch.ids, batch.token_count));
    return {cost_words(batch.ids, 2 * batch.token_count) + words +
                cost_rows(gradient, batch.token_count),
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

static bool is_vectorizable(const struct mat *mats, int count) {
    for (int i = 0; i < count; i++) {
        if (!gpu_is_vectorizable(mats[i])) {
            return false;
        }
    }
    return true;
}

// Calls run(group) with the smallest group that has room for the columns.
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
    const struct mat mats[] = {args->y, args->y_compute, args->xhat,
                               args->x, args->residual,  args->sum};
    with_group(gpu, args->y.cols, is_vectorizable(mats, 6), [&](auto group) {
        using G = decltype(group);
        gpu_run(gpu, {"norm_forward", gpu_blocks(args->y.rows, G::GROUPS), G::BLOCK},
                norm_forward_kernel<G>, norm_forward_cost, *args, *batch);
    });
}

void gpu_embed_forward(struct device *dev, const struct embed_args *args,
                       const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const struct mat mats[] = {args->y,    args->y_compute, args->xhat,
                               args->word, args->position,  args->type};
    with_group(gpu, args->y.cols, is_vectorizable(mats, 6), [&](auto group) {
        using G = decltype(group);
        gpu_run(gpu, {"embed_forward", gpu_blocks(args->y.rows, G::GROUPS), G::BLOCK},
                embed_forward_kernel<G>, embed_forward_cost, *args, *batch);
    });
}

size_t gpu_norm_partial_bytes(const struct device_shape *shape) {
    const int64_t sums = shape->types > 3 ? shape->types : 3;
    return (size_t)(gpu_blocks(batch_round(shape->batch.tokens), GRADIENT_ROWS) * sums *
                    shape->hidden) *
           sizeof(float);
}

void gpu_norm_backward(struct device *dev, const struct norm_grad_args *args,
                       const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t columns = args->dy.cols, blocks = gpu_blocks(args->dy.rows, GRADIENT_ROWS);
    const int sums = mat_is_empty(args->dx) ? 2 : 3;
    const struct mat mats[] = {args->dresidual, args->dx,   args->dy,
                               args->dy2,       args->xhat, args->dsum};
    float *partials = gpu_partials(gpu, blocks * sums * columns);
    with_group(gpu, columns, is_vectorizable(mats, 6), [&](auto group) {
        using G = decltype(group);
        const size_t shared = (size_t)(G::GROUPS * columns) * sizeof(float);
        gpu_run(gpu, {"norm_backward", blocks, G::BLOCK, shared}, norm_backward_kernel<G>,
                norm_backward_cost, *args, *batch, partials);
    });
    float *const to[] = {args->dgamma, args->dbeta, args->dbias};
    for (int i = 0; i < sums; i++) {
        gpu_add_partials(gpu, to[i], partials + i * columns, blocks, sums * columns, columns);
    }
}

static void add_to_tables(struct gpu *gpu, const struct embed_grad_args *args,
                          const struct batch *batch) {
    const struct mat gradient = args->scratch;
    const int64_t types = args->dtype_table.rows,
                  blocks = gpu_blocks(batch->token_count, GRADIENT_ROWS);
    float *partials = gpu_partials(gpu, blocks * types * gradient.cols);
    gpu_run(gpu, {"word_gradient", batch->token_count, TABLE_THREADS}, word_gradient_kernel,
            word_gradient_cost, args->dword, gradient, *batch);
    gpu_run(gpu, {"position_gradient", batch->max_length, TABLE_THREADS}, position_gradient_kernel,
            position_gradient_cost, args->dposition, gradient, *batch);
    gpu_run(gpu, {"type_gradient", blocks, TABLE_THREADS}, type_gradient_kernel, type_gradient_cost,
            partials, gradient, types, *batch);
    for (int64_t type = 0; type < types; type++) {
        float *to = (float *)args->dtype_table.data + type * args->dtype_table.stride;
        gpu_add_partials(gpu, to, partials + type * gradient.cols, blocks, types * gradient.cols,
                         gradient.cols);
    }
}

void gpu_embed_backward(struct device *dev, const struct embed_grad_args *args,
                        const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t columns = args->dy.cols, blocks = gpu_blocks(args->dy.rows, GRADIENT_ROWS);
    const struct mat mats[] = {args->dy, args->dy2, args->xhat, args->scratch};
    float *partials = gpu_partials(gpu, blocks * 2 * columns);
    with_group(gpu, columns, is_vectorizable(mats, 4), [&](auto group) {
        using G = decltype(group);
        const size_t shared = (size_t)(G::GROUPS * columns) * sizeof(float);
        gpu_run(gpu, {"embed_backward", blocks, G::BLOCK, shared}, embed_backward_kernel<G>,
                embed_backward_cost, *args, *batch, partials);
    });
    gpu_add_partials(gpu, args->dgamma, partials, blocks, 2 * columns, columns);
    gpu_add_partials(gpu, args->dbeta, partials + columns, blocks, 2 * columns, columns);
    add_to_tables(gpu, args, batch);
}
