// SPDX-License-Identifier: Apache-2.0
// The operations between the last layer and a head over some of its rows: gathering these rows, and
// the pooler's tanh with its dropout. One block has one row.
#include "gpu/gpu.h"
#include "gpu/kernel.h"

enum { ROW_THREADS = 128 };

__global__ void __launch_bounds__(ROW_THREADS)
    gather_rows_kernel(struct mat y, struct mat x, const int32_t *rows, int64_t count) {
    const int64_t row = blockIdx.x;
    for (int64_t column = threadIdx.x; column < y.cols; column += ROW_THREADS) {
        set_number(y, row, column, row < count ? number_at(x, rows[row], column) : 0.0f);
    }
}

__global__ void __launch_bounds__(ROW_THREADS) zero_rows_kernel(struct mat m, int64_t first) {
    for (int64_t column = threadIdx.x; column < m.cols; column += ROW_THREADS) {
        set_number(m, first + blockIdx.x, column, 0.0f);
    }
}

__global__ void __launch_bounds__(ROW_THREADS)
    scatter_rows_kernel(struct mat dx, struct mat dy, const int32_t *rows, bool adds) {
    const int64_t row = rows[blockIdx.x];
    for (int64_t column = threadIdx.x; column < dx.cols; column += ROW_THREADS) {
        const float base = adds ? number_at(dx, row, column) : 0.0f;
        set_number(dx, row, column, base + number_at(dy, blockIdx.x, column));
    }
}

// The factor of the row's column in the mask of position 0 of its sequence.
DEVICE float first_factor(const struct dropout &dropout, int64_t place, int64_t column) {
    if (dropout.threshold == 0) {
        return 1.0f;
    }
    return rng_dropout_keeps(&dropout, 0, place, 0, (int32_t)column)
               ? rng_dropout_scale(dropout.threshold)
               : 0.0f;
}

__global__ void __launch_bounds__(ROW_THREADS)
    tanh_forward_kernel(struct mat y, struct mat t, struct mat u, struct dropout dropout,
                        struct batch batch) {
    const int64_t row = blockIdx.x;
    const bool used = row < batch.sequence_count;
    for (int64_t column = threadIdx.x; column < y.cols; column += ROW_THREADS) {
        const float value = used ? tanhf(number_at(u, row, column)) : 0.0f;
        const float factor = used ? first_factor(dropout, batch.places[row], column) : 0.0f;
        set_number(t, row, column, value);
        set_number(y, row, column, value * factor);
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
                       first_factor(dropout, batch.places[row], column) * (1.0f - value * value);
        }
        set_number(du, row, column, gradient);
    }
}

// --- operations ---------------------------------------------------------------------------------

void gpu_gather_rows(struct device *dev, struct mat y, struct mat x, const int32_t *rows,
                     int64_t count) {
    gpu_run(gpu_of(dev), {"gather_rows", y.rows, ROW_THREADS}, gather_rows_kernel, y, x, rows,
            count);
}

void gpu_scatter_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                      int64_t count) {
    gpu_run(gpu_of(dev), {"zero_rows", dx.rows, ROW_THREADS}, zero_rows_kernel, dx, (int64_t)0);
    gpu_run(gpu_of(dev), {"scatter_rows", count, ROW_THREADS}, scatter_rows_kernel, dx, dy, rows,
            false);
}

void gpu_scatter_add_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                          int64_t count) {
    gpu_run(gpu_of(dev), {"scatter_add_rows", count, ROW_THREADS}, scatter_rows_kernel, dx, dy,
            rows, true);
}

void gpu_tanh_forward(struct device *dev, struct mat y, struct mat t, struct mat u,
                      struct dropout dropout, const struct batch *batch) {
    gpu_run(gpu_of(dev), {"tanh_forward", y.rows, ROW_THREADS}, tanh_forward_kernel, y, t, u,
            dropout, *batch);
}

void gpu_tanh_backward(struct device *dev, struct mat du, struct mat dy, struct mat t,
                       struct dropout dropout, const struct batch *batch) {
    gpu_run(gpu_of(dev), {"tanh_backward", du.rows, ROW_THREADS}, tanh_backward_kernel, du, dy, t,
            dropout, *batch);
}
