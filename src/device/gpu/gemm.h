// SPDX-License-Identifier: Apache-2.0
// The only interface of the GPU's operations to matrix products: a library on a GPU (gemm_lt.cu),
// loops where the host runs the kernels.
#ifndef BERTH_GPU_GEMM_H
#define BERTH_GPU_GEMM_H

#include "core/mat.h"
#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"

// c[M, N] = a b + bias, or c += a b. a is [M, K], b is [K, N]; each is stored as it is or
// transposed. a and b have the same dtype; c has it too, or f32. bias is [N] f32, or NULL.
struct gemm_call {
    struct mat c, a, b; // a and b as stored
    bool a_transposed, b_transposed;
    bool accumulates;
    const float *bias;
};

static inline gpu_cost gemm_cost(const struct gemm_call *call) {
    const int64_t inner = call->a_transposed ? call->a.rows : call->a.cols;
    return {cost_of(call->a) + cost_of(call->b) + (call->accumulates ? cost_of(call->c) : 0) +
                cost_words(call->bias, call->c.cols),
            cost_of(call->c), 2 * (uint64_t)(call->c.rows * call->c.cols * inner)};
}

// tf32: f32 operands are rounded to TF32.
gpu_error gemm_open(struct gemm **gemm, bool tf32);
void gemm_close(struct gemm *gemm);
// Device memory that it keeps.
size_t gemm_workspace_bytes(void);
// Starts the product in the device's stream.
void gemm_run(struct gpu *gpu, const struct gemm_call *call);

#endif
