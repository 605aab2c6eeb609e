// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt. It thinks in columns: our c[M, N] is its [N, M], so a and b trade places.
// A plan (descriptors and the algorithm that the heuristic chose) is kept for each shape.
//
// A bias is added by the product in the dtype of c; where that is not f32, the bias is rounded into
// scratch memory first.
#include "gpu/gemm.h"
#include "gpu/kernel.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 256, WORKSPACE_BYTES = 64 << 20, BIAS_MOST = 1 << 20, BIAS_THREADS = 256 };

// What decides which algorithm fits; all of it is compared.
struct plan_key {
    int64_t rows, cols, inner, stride_a, stride_b, stride_c;
    int32_t operands, result; // enum dtype
    int32_t a_transposed, b_transposed, adds, has_bias;
};

struct plan {
    struct plan_key key;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

struct gemm {
    cublasLtHandle_t library;
    void *workspace; // device memory
    void *bias;      // device memory, of BIAS_MOST 2-byte numbers
    struct plan plans[PLANS];
    int count, oldest; // where PLANS are in use, the oldest is replaced
};

static cudaDataType_t type_of(enum dtype dtype) {
    return dtype == DTYPE_F32 ? CUDA_R_32F : dtype == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static gpu_error text_of(cublasStatus_t status) {
    const int code =
        status == CUBLAS_STATUS_ALLOC_FAILED ? GPU_OUT_OF_MEMORY : (int)cudaErrorUnknown;
    return status == CUBLAS_STATUS_SUCCESS ? GPU_NO_ERROR
                                           : gpu_error{code, cublasLtGetStatusString(status)};
}

gpu_error gemm_open(struct gemm **gemm) {
    struct gemm *opened = (struct gemm *)calloc(1, sizeof *opened);
    if (opened == NULL) {
        return gpu_error{GPU_OUT_OF_MEMORY, NULL};
    }
    gpu_error error = text_of(cublasLtCreate(&opened->library));
    if (error.code == 0) {
        error = gpu_memory_new(&opened->workspace, WORKSPACE_BYTES);
    }
    if (error.code == 0) {
        error = gpu_memory_new(&opened->bias, BIAS_MOST * sizeof(uint16_t));
    }
    if (error.code != 0) {
        gemm_close(opened);
        return error;
    }
    *gemm = opened;
    return GPU_NO_ERROR;
}

static void close_plan(struct plan *plan) {
    cublasLtMatmulDescDestroy(plan->product);
    cublasLtMatrixLayoutDestroy(plan->a);
    cublasLtMatrixLayoutDestroy(plan->b);
    cublasLtMatrixLayoutDestroy(plan->c);
}

void gemm_close(struct gemm *gemm) {
    for (int i = 0; gemm != NULL && i < gemm->count; i++) {
        close_plan(&gemm->plans[i]);
    }
    if (gemm != NULL && gemm->library != NULL) {
        cublasLtDestroy(gemm->library);
        gpu_memory_free(gemm->workspace);
        gpu_memory_free(gemm->bias);
    }
    free(gemm);
}

size_t gemm_workspace_bytes(void) {
    return WORKSPACE_BYTES + BIAS_MOST * sizeof(uint16_t);
}

// --- plans --------------------------------------------------------------------------------------

static struct plan_key key_of(const struct gemm_call *call) {
    struct plan_key key;
    memset(&key, 0, sizeof key); // padding is compared, too
    key.rows = call->c.rows;
    key.cols = call->c.cols;
    key.inner = call->a_transposed ? call->a.rows : call->a.cols;
    key.stride_a = call->a.stride;
    key.stride_b = call->b.stride;
    key.stride_c = call->c.stride;
    key.operands = call->a.dtype;
    key.result = call->c.dtype;
    key.a_transposed = call->a_transposed;
    key.b_transposed = call->b_transposed;
    key.adds = call->adds;
    key.has_bias = call->bias != NULL;
    return key;
}

#define TRY_CUBLAS(call)                                                                           \
    do {                                                                                           \
        cublasStatus_t try_status_ = (call);                                                       \
        if (try_status_ != CUBLAS_STATUS_SUCCESS) {                                                \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)

static cublasStatus_t set_layout(cublasLtMatrixLayout_t *layout, struct mat m) {
    return cublasLtMatrixLayoutCreate(layout, type_of(m.dtype), (uint64_t)m.cols, (uint64_t)m.rows,
                                      m.stride);
}

// b is the library's first operand, a its second.
static cublasStatus_t describe(struct plan *plan, const struct gemm_call *call) {
    const cublasOperation_t first = call->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = call->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue =
        call->bias != NULL ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const cudaDataType_t bias_type = type_of(call->c.dtype);
    TRY_CUBLAS(cublasLtMatmulDescCreate(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY_CUBLAS(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                              sizeof first));
    TRY_CUBLAS(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                              sizeof second));
    TRY_CUBLAS(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                              &epilogue, sizeof epilogue));
    TRY_CUBLAS(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                              &bias_type, sizeof bias_type));
    TRY_CUBLAS(set_layout(&plan->b, call->b));
    TRY_CUBLAS(set_layout(&plan->a, call->a));
    return set_layout(&plan->c, call->c);
}

// The deterministic algorithms only: those that split a sum over blocks add in a fixed order.
static cublasStatus_t choose_algorithm(struct gemm *gemm, struct plan *plan) {
    const size_t workspace = WORKSPACE_BYTES;
    const uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulHeuristicResult_t result;
    cublasLtMatmulPreference_t preference;
    int found = 0;
    TRY_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulAlgoGetHeuristic(gemm->library, plan->product, plan->b, plan->a,
                                                plan->c, plan->c, preference, 1, &result, &found);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    TRY_CUBLAS(status);
    plan->algorithm = result.algo;
    return found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static struct plan *plan_for(struct gemm *gemm, const struct gemm_call *call,
                             cublasStatus_t *status) {
    const struct plan_key key = key_of(call);
    for (int i = 0; i < gemm->count; i++) {
        if (memcmp(&gemm->plans[i].key, &key, sizeof key) == 0) {
            return &gemm->plans[i];
        }
    }
    struct plan made;
    memset(&made, 0, sizeof made);
    made.key = key;
    *status = describe(&made, call);
    if (*status == CUBLAS_STATUS_SUCCESS) {
        *status = choose_algorithm(gemm, &made);
    }
    if (*status != CUBLAS_STATUS_SUCCESS) {
        close_plan(&made);
        return NULL;
    }
    struct plan *kept = &gemm->plans[gemm->count];
    if (gemm->count < PLANS) {
        gemm->count++;
    } else {
        kept = &gemm->plans[gemm->oldest];
        gemm->oldest = (gemm->oldest + 1) % PLANS;
        close_plan(kept);
    }
    *kept = made;
    return kept;
}

// --- products -----------------------------------------------------------------------------------

__global__ void __launch_bounds__(BIAS_THREADS)
    round_bias_kernel(struct mat rounded, const float *bias) {
    const int64_t column = (int64_t)blockIdx.x * BIAS_THREADS + threadIdx.x;
    if (column < rounded.cols) {
        set_number(rounded, 0, column, bias[column]);
    }
}

static gpu_cost round_bias_cost(struct mat rounded, const float *bias) {
    return {cost_words(bias, rounded.cols), cost_of(rounded), 0};
}

static const void *bias_for(struct gpu *gpu, const struct gemm_call *call) {
    if (call->bias == NULL || call->c.dtype == DTYPE_F32) {
        return call->bias;
    }
    const struct mat rounded = {gpu->gemm->bias, 1, call->c.cols, call->c.cols, call->c.dtype};
    gpu_run(gpu, {"round_bias", gpu_blocks(call->c.cols, BIAS_THREADS), BIAS_THREADS},
            round_bias_kernel, round_bias_cost, rounded, call->bias);
    return gpu->gemm->bias;
}

void gemm_run(struct gpu *gpu, const struct gemm_call *call) {
    const float one = 1.0f, base = call->adds ? 1.0f : 0.0f;
    struct gemm *gemm = gpu->gemm;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (gpu->status != BERTH_OK || call->c.rows == 0) {
        return;
    }
    struct plan *plan = plan_for(gemm, call, &status);
    if (plan != NULL) {
        const void *bias = bias_for(gpu, call);
        if (bias != NULL) {
            status = cublasLtMatmulDescSetAttribute(
                plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
        }
        if (status == CUBLAS_STATUS_SUCCESS) {
            status = cublasLtMatmul(gemm->library, plan->product, &one, call->b.data, plan->b,
                                    call->a.data, plan->a, &base, call->c.data, plan->c,
                                    call->c.data, plan->c, &plan->algorithm, gemm->workspace,
                                    WORKSPACE_BYTES, gpu->stream.stream);
        }
    }
    gpu_fail(gpu, "matrix product", text_of(status));
}
