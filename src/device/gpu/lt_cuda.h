// SPDX-License-Identifier: Apache-2.0
// The names of cuBLASLt that gemm_lt.cu calls when it is compiled for CUDA; lt_hip.h has those of
// hipBLASLt. What a product computes, and which algorithm is chosen, does not depend on them.
#ifndef BERTH_GPU_LT_CUDA_H
#define BERTH_GPU_LT_CUDA_H

#include "device/gpu/gpu_api.h"

#include <cublasLt.h>

#define LT(name) cublasLt##name
#define LT_NUMBER(name) CUBLASLT_##name

typedef cublasStatus_t lt_status;
typedef cudaDataType_t lt_type;

static const lt_status LT_SUCCESS = CUBLAS_STATUS_SUCCESS;
static const lt_status LT_NOT_SUPPORTED = CUBLAS_STATUS_NOT_SUPPORTED;
static const lt_type LT_F32 = CUDA_R_32F, LT_F16 = CUDA_R_16F, LT_BF16 = CUDA_R_16BF;
static const cublasComputeType_t LT_SUMS_F32 = CUBLAS_COMPUTE_32F,
                                 LT_SUMS_TF32 = CUBLAS_COMPUTE_32F_FAST_TF32;
static const cublasOperation_t LT_AS_IT_IS = CUBLAS_OP_N, LT_TRANSPOSED = CUBLAS_OP_T;

// A product that fails during execution is a fault of the GPU or of the program.
static inline gpu_error lt_error(lt_status status) {
    const int code = status == CUBLAS_STATUS_ALLOC_FAILED       ? GPU_OUT_OF_MEMORY
                     : status == CUBLAS_STATUS_EXECUTION_FAILED ? GPU_KERNEL_FAILED
                                                                : GPU_PRODUCT;
    return status == LT_SUCCESS ? GPU_NO_ERROR : gpu_error{code, cublasLtGetStatusString(status)};
}

// The library is linked.
static inline gpu_error lt_load(void) {
    return GPU_NO_ERROR;
}

static inline gpu_error lt_check(LT(Handle_t) library) {
    return GPU_NO_ERROR;
}

// Allows only deterministic algorithms: those that split a sum over blocks add in a fixed order.
static inline lt_status lt_want_fixed_sums(LT(MatmulPreference_t) preference) {
    const uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
}

// Allows only algorithms for which operands at multiples of `bytes` suffice.
static inline lt_status lt_set_alignment(LT(MatmulPreference_t) preference, uint32_t bytes) {
    const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    lt_status status = LT_SUCCESS;
    for (int i = 0; i < 4 && status == LT_SUCCESS; i++) {
        status =
            cublasLtMatmulPreferenceSetAttribute(preference, operands[i], &bytes, sizeof bytes);
    }
    return status;
}

static inline cudaStream_t lt_stream(gpu_stream stream) {
    return stream.stream;
}

#endif
