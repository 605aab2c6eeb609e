// SPDX-License-Identifier: Apache-2.0
// The operations between the last layer and a head: gathering some of its rows, the pooler's tanh
// with its dropout, and dropout of all rows. Each block has one row.
#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"

enum { ROW_THREADS = 128 };

// Calls visit for a thread's columns of a row, VEC neighbours at a time.
template <int VEC, class Visit> DEVICE void for_columns(int64_t columns, Visit visit) {
    for (int64_t column = (int64_t)threadIdx.x * VEC; column < columns;
         column += ROW_THREADS * VEC) {
        float x[VEC] = {};
        visit(column, x);
    }
}

template <int VEC>
__global__ void __launch_bounds__(ROW_THREADS)
    gather_rows_kernel(struct mat y, struct mat x, const int32_t *rows, int64_t count) {
    const int64_t row = blockIdx.x;
    for_columns<VEC>(y.cols, [&](int64_t column, auto &values) {
        if (row < count) {
            load(values, x, rows[row], column);
        }
        store(y, row, column, values);
    });
}

template <int VEC>
__global__ void __launch_bounds__(ROW_THREADS) zero_rows_kernel(struct mat m, int64_t first) {
    for_columns<VEC>(
        m.cols, [&](int64_t column, auto &zeros) { store(m, first + blockIdx.x, column, zeros); });
}

template <int VEC>
__global__ void __launch_bounds__(ROW_THREADS)
    scatter_rows_kernel(struct mat dx, struct mat dy, const int32_t *rows, bool adds) {
    const int64_t row = rows[blockIdx.x];
    for_columns<VEC>(dx.cols, [&](int64_t column, auto &values) {
        load(values, dy, blockIdx.x, column);
        if (adds) {
            load_added(values, dx, row, column);
        }
        store(dx, row, column, values);
    });
}

// The dropout factor of a column, in the mask of position 0 of the sequence.
DEVICE float first_position_factor(const struct dropout &dropout, int64_t global_index,
                                   int64_t column) {
    if (dropout.threshold == 0) {
        return 1.0f;
    }
    return rng_dropout_keeps(&dropout, 0, global_index, 0, (int32_t)column)
               ? rng_dropout_scale(dropout.threshold)
               : 0.0f;
}

__global__ void __launch_bounds__(ROW_THREADS)
    drop_rows_kernel(struct mat y, struct mat x, struct dropout dropout, struct batch batch) {
    const int64_t row = blockIdx.x;
    const int32_t sequence = dropout.threshold > 0 ? batch.sequences[row] : -1;
    const bool masked = sequence >= 0;
    const float scale = rng_dropout_scale(dropout.threshold);
    for (int64_t column = threadIdx.x; column < y.cols; column += ROW_THREADS) {
        const float value = number_at(x, row, column);
        const bool kept = !masked || rng_dropout_keeps(&dropout, 0, batch.global_indices[sequence],
                                                       batch.positions[row], (int32_t)column);
        set_number(y, row, column, masked ? (kept ? value * scale : 0.0f) : value);
    }
}

__global__ void __launch_bounds__(ROW_THREADS)
    tanh_forward_kernel(struct mat y, struct mat t, struct mat u, struct dropout dropout,
                        struct batch batch) {
    const int64_t row = blockIdx.x;
    const bool used = row < batch.sequence_count;
    for (int64_t column = threadIdx.x; column < y.cols; column += ROW_THREADS) {
        const float value = used ? tanhf(number_at(u, row, column)) : 0.0f;
        const float factor =
            used ? first_position_factor(dropout, batch.global_indices[row], column) : 0.0f;
        set_number(t, row, column, value);
        set_number(y, row, column, value * factor);
    }
}

__global__ void __launch_bounds__(ROW_THREADS)
    drop_first_rows_kernel(struct mat y, struct mat x, struct dropout dropout, struct batch batch) {
    const int64_t row = blockIdx.x;
    const bool used = row < batch.sequence_count;
    for (int64_t column = threadIdx.x; column < y.cols; column += ROW_THREADS) {
        float value = 0.0f;
        if (used) {
            value = number_at(x, row, column) *
                    first_position_factor(dropout, batch.global_indices[row], column);
        }
        set_number(y, row, column, value);
    }
}

__global__ void __launch_bounds__(ROW_THREADS)
    tanh_backward_kernel(struct mat du, struct mat dy, struct mat t, struct dropout dropout,
                         struct batch batch) {
    const int64_t row = blockIdx.x;
    const bool used = row < batch.sequence_count;
    for (int64_t column = threadIdx.x; column < du.cols; column += ROW_THREADS) {
        float gradient = 0.0f;
        if (used) {
            const float value = number_at(t, row, column);
            gradient = number_at(dy, row, column) *
                       first_position_factor(dropout, batch.global_indices[row], column) *
                       (1.0f - value * value);
        }
        set_number(du, row, column, gradient);
    }
}

// --- costs --------------------------------------------------------------------------------------

static gpu_cost gather_rows_cost(struct mat y, struct mat x, const int32_t *rows, int64_t count) {
    return {cost_words(rows, count) + cost_rows(x, cost_distinct(rows, count)), cost_of(y), 0};
}

static gpu_cost zero_rows_cost(struct mat m, int64_t first) {
    return {0, cost_rows(m, m.rows - first), 0};
}

static gpu_cost scatter_rows_cost(struct mat dx, struct mat dy, const int32_t *rows, bool adds) {
    return {cost_words(rows, dy.rows) + cost_of(dy) + (adds ? cost_rows(dx, dy.rows) : 0),
            cost_rows(dx, dy.rows), 0};
}

static gpu_cost drop_rows_cost(struct mat y, struct mat x, struct dropout dropout,
                               struct batch batch) {
    return {cost_of(x) + cost_mask(dropout, batch) + cost_positions(dropout, batch), cost_of(y), 0};
}

static uint64_t first_mask_cost(const struct dropout &dropout, const struct batch &batch) {
    return dropout.threshold != 0 ? (uint64_t)batch.sequence_count * 8 : 0;
}

static gpu_cost tanh_forward_cost(struct mat y, struct mat t, struct mat u, struct dropout dropout,
                                  struct batch batch) {
    return {cost_rows(u, batch.sequence_count) + first_mask_cost(dropout, batch),
            cost_of(y) + cost_of(t), 0};
}

static gpu_cost drop_first_rows_cost(struct mat y, struct mat x, struct dropout dropout,
                                     struct batch batch) {
    return {cost_rows(x, batch.sequence_count) + first_mask_cost(dropout, batch), cost_of(y), 0};
}

static gpu_cost tanh_backward_cost(struct mat du, struct mat dy, struct mat t,
                                   struct dropout dropout, struct batch batch) {
    return {cost_rows(dy, batch.sequence_count) + cost_rows(t, batch.sequence_count) +
                first_mask_cost(dropout, batch),
            cost_of(du), 0};
}

// --- operations ---------------------------------------------------------------------------------

void gpu_gather_rows(struct device *dev, struct mat y, struct mat x, const int32_t *rows,
                     int64_t count) {
    const bool wide = gpu_is_vectorizable(y) && gpu_is_vectorizable(x);
    gpu_run(gpu_of(dev), {"gather_rows", y.rows, ROW_THREADS},
            wide ? gather_rows_kernel<8> : gather_rows_kernel<1>, gather_rows_cost, y, x, rows,
            count);
}

void gpu_zero_rows(struct gpu *gpu, struct mat m, int64_t first) {
    gpu_run(gpu, {"zero_rows", m.rows - first, ROW_THREADS},
            gpu_is_vectorizable(m) ? zero_rows_kernel<8> : zero_rows_kernel<1>, zero_rows_cost, m,
            first);
}

static void scatter(struct gpu *gpu, struct mat dx, struct mat dy, const int32_t *rows,
                    int64_t count, bool adds) {
    const bool wide = gpu_is_vectorizable(dx) && gpu_is_vectorizable(dy);
    gpu_run(gpu, {adds ? "scatter_add_rows" : "scatter_rows", count, ROW_THREADS},
            wide ? scatter_rows_kernel<8> : scatter_rows_kernel<1>, scatter_rows_cost, dx,
            mat_rows(dy, 0, count), rows, adds);
}

void gpu_scatter_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                      int64_t count) {
    gpu_zero_rows(gpu_of(dev), dx, 0);
    scatter(gpu_of(dev), dx, dy, rows, count, false);
}

void gpu_scatter_add_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                          int64_t count) {
    scatter(gpu_of(dev), dx, dy, rows, count, true);
}

void gpu_drop_rows(struct device *dev, struct mat y, struct mat x, struct dropout dropout,
                   const struct batch *batch) {
    gpu_run(gpu_of(dev), {"drop_rows", y.rows, ROW_THREADS}, drop_rows_kernel, drop_rows_cost, y, x,
            dropout, *batch);
}

void gpu_tanh_forward(struct device *dev, struct mat y, struct mat t, struct mat u,
                      struct dropout dropout, const struct batch *batch) {
    gpu_run(gpu_of(dev), {"tanh_forward", y.rows, ROW_THREADS}, tanh_forward_kernel,
            tanh_forward_cost, y, t, u, dropout, *batch);
}

void gpu_drop_first_rows(struct device *dev, struct mat y, struct mat x, struct dropout dropout,
                         const struct batch *batch) {
    gpu_run(gpu_of(dev), {"drop_first_rows", y.rows, ROW_THREADS}, drop_first_rows_kernel,
            drop_first_rows_cost, y, x, dropout, *batch);
}

void gpu_tanh_backward(struct device *dev, struct mat du, struct mat dy, struct mat t,
                       struct dropout dropout, const struct batch *batch) {
    gpu_run(gpu_of(dev), {"tanh_backward", du.rows, ROW_THREADS}, tanh_backward_kernel,
            tanh_backward_cost, du, dy, t, dropout, *batch);
}
