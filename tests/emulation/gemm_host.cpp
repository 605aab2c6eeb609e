// SPDX-License-Identifier: Apache-2.0
// Matrix products of the emulated device: loops over operands converted to f32.
#include "device/gpu/gemm.h"
#include "device/gpu/kernel.h"

#include <vector>

struct gemm {
    bool tf32;
};

gpu_error gemm_open(struct gemm **opened, bool tf32) {
    *opened = new gemm{tf32};
    return GPU_NO_ERROR;
}

void gemm_close(struct gemm *opened) {
    delete opened;
}

size_t gemm_workspace_bytes(void) {
    return 0;
}

// An operand [rows, cols] in f32, from a matrix that stores it as it is or transposed. bf16 and f16
// lose nothing in TF32.
static std::vector<float> operand(const struct mat &m, bool transposed, int64_t rows, int64_t cols,
                                  bool tf32) {
    std::vector<float> x((size_t)(rows * cols));
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col++) {
            const float value = transposed ? number_at(m, col, row) : number_at(m, row, col);
            x[(size_t)(row * cols + col)] = tf32 ? emulated_tf32(value) : value;
        }
    }
    return x;
}

static void multiply(const struct gemm_call &call, bool tf32, int threads) {
    const struct mat c = call.c;
    const int64_t inner = call.a_transposed ? call.a.rows : call.a.cols;
    const std::vector<float> a = operand(call.a, call.a_transposed, c.rows, inner, tf32);
    const std::vector<float> b = operand(call.b, call.b_transposed, inner, c.cols, tf32);
#pragma omp parallel for num_threads(threads)
    for (int64_t row = 0; row < c.rows; row++) {
        std::vector<float> sums((size_t)c.cols, 0.0f);
        for (int64_t k = 0; k < inner; k++) {
            const float x = a[(size_t)(row * inner + k)];
            const float *y = &b[(size_t)(k * c.cols)];
            for (int64_t col = 0; col < c.cols; col++) {
                sums[(size_t)col] += x * y[col];
            }
        }
        for (int64_t col = 0; col < c.cols; col++) {
            const float base = call.accumulates    ? number_at(c, row, col)
                               : call.bias != NULL ? call.bias[col]
                                                   : 0.0f;
            set_number(c, row, col, base + sums[(size_t)col]);
        }
    }
}

// Counts the kernel with which gemm_lt.cu rounds the bias to the result's type; there is none here.
static void count_bias(const struct gemm_call &call) {
    const uint64_t columns = (uint64_t)call.c.cols;
    if (call.bias != NULL && call.c.dtype != DTYPE_F32) {
        emulated_counts_add("round_bias", {columns * 4, columns * 2, 0});
    }
}

void gemm_run(struct gpu *gpu, const struct gemm_call *call) {
    const struct gemm_call copy = *call;
    const bool tf32 = gpu->gemm->tf32;
    if (gpu->status != BERTH_OK || call->c.rows == 0) {
        return;
    }
    emulated_stream_add(gpu->stream.queue, {[=](int threads) {
                            count_bias(copy);
                            emulated_counts_begin("matrix product", gemm_cost(&copy));
                            if (!emulated_is_dry()) {
                                multiply(copy, tf32, EMULATION_THREADS(threads));
                            }
                            emulated_counts_end();
                        }});
}
