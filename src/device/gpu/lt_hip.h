// SPDX-License-Identifier: Apache-2.0
// gemm_lt.cu for HIP: hipBLASLt of ROCm 6 or later, opened at run time because few distributions
// that have hipcc also have it. Only what gemm_lt.cu uses is declared here; numbers and structure
// layouts are the library's.
//
// Tests compile it for the emulation, with a library of their own (LT_LIBRARIES).
#ifndef BERTH_GPU_LT_HIP_H
#define BERTH_GPU_LT_HIP_H

#include "device/gpu/gpu_api.h"

#include <dlfcn.h>

#ifndef LT_LIBRARIES
#define LT_LIBRARIES "libhipblaslt.so.1", "libhipblaslt.so.0"
#endif

#define LT(name) hip_lt_##name
#define LT_NUMBER(name) HIP_LT_##name

typedef int32_t lt_status;
typedef int32_t lt_type;

enum { LT_SUCCESS = 0, LT_ALLOCATION_FAILED = 2, LT_EXECUTION_FAILED = 5, LT_NOT_SUPPORTED = 7 };
enum { LT_F32 = 0, LT_F16 = 2, LT_BF16 = 14 };
enum { LT_SUMS_F32 = 2, LT_SUMS_TF32 = 6 };
enum { LT_AS_IT_IS = 111, LT_TRANSPOSED = 112 };
enum { LT_NUMBER(EPILOGUE_DEFAULT) = 1, LT_NUMBER(EPILOGUE_BIAS) = 4 };
enum {
    LT_NUMBER(MATMUL_DESC_TRANSA) = 0,
    LT_NUMBER(MATMUL_DESC_TRANSB) = 1,
    LT_NUMBER(MATMUL_DESC_EPILOGUE) = 2,
    LT_NUMBER(MATMUL_DESC_BIAS_POINTER) = 3,
    LT_NUMBER(MATMUL_DESC_BIAS_DATA_TYPE) = 4
};
enum { LT_NUMBER(MATMUL_PREF_MAX_WORKSPACE_BYTES) = 1 };
enum { LT_OLDEST = 600 }; // 0.6.0, of ROCm 6.0; earlier releases number types differently

typedef void *LT(Handle_t);
typedef struct LT(product) * LT(MatmulDesc_t);
typedef struct LT(layout) * LT(MatrixLayout_t);
typedef struct LT(preference) * LT(MatmulPreference_t);

struct LT(MatmulAlgo_t) {
    uint8_t data[16];
    size_t max_workspace_bytes;
};

struct LT(MatmulHeuristicResult_t) {
    LT(MatmulAlgo_t) algo;
    size_t workspace_bytes;
    lt_status state;
    float waves;
    int reserved[4];
};

// CALL(name of the function without its prefix, its parameters)
#define LT_FUNCTIONS(CALL)                                                                         \
    CALL(GetVersion, LT(Handle_t), int *)                                                          \
    CALL(Create, LT(Handle_t) *)                                                                   \
    CALL(Destroy, LT(Handle_t))                                                                    \
    CALL(MatrixLayoutCreate, LT(MatrixLayout_t) *, lt_type, uint64_t, uint64_t, int64_t)           \
    CALL(MatrixLayoutDestroy, LT(MatrixLayout_t))                                                  \
    CALL(MatmulDescCreate, LT(MatmulDesc_t) *, int32_t, lt_type)                                   \
    CALL(MatmulDescDestroy, LT(MatmulDesc_t))                                                      \
    CALL(MatmulDescSetAttribute, LT(MatmulDesc_t), int32_t, const void *, size_t)                  \
    CALL(MatmulPreferenceCreate, LT(MatmulPreference_t) *)                                         \
    CALL(MatmulPreferenceDestroy, LT(MatmulPreference_t))                                          \
    CALL(MatmulPreferenceSetAttribute, LT(MatmulPreference_t), int32_t, const void *, size_t)      \
    CALL(MatmulAlgoGetHeuristic, LT(Handle_t), LT(MatmulDesc_t), LT(MatrixLayout_t),               \
         LT(MatrixLayout_t), LT(MatrixLayout_t), LT(MatrixLayout_t), LT(MatmulPreference_t), int,  \
         LT(MatmulHeuristicResult_t) *, int *)                                                     \
    CALL(Matmul, LT(Handle_t), LT(MatmulDesc_t), const void *, const void *, LT(MatrixLayout_t),   \
         const void *, LT(MatrixLayout_t), const void *, const void *, LT(MatrixLayout_t), void *, \
         LT(MatrixLayout_t), const LT(MatmulAlgo_t) *, void *, size_t, void *)

#define LT_DECLARE(name, ...) static lt_status (*LT(name))(__VA_ARGS__);
LT_FUNCTIONS(LT_DECLARE)
#undef LT_DECLARE

static inline gpu_error lt_error(lt_status status) {
    static const char *const texts[] = {"success",
                                        "hipBLASLt is not initialized",
                                        "hipBLASLt cannot allocate memory",
                                        "hipBLASLt rejects an argument",
                                        "hipBLASLt cannot access the GPU's memory",
                                        "a kernel of hipBLASLt failed",
                                        "internal error of hipBLASLt",
                                        "hipBLASLt has no kernel for this product",
                                        "hipBLASLt has no kernels for this GPU"};
    const int count = sizeof texts / sizeof *texts;
    const int code = status == LT_ALLOCATION_FAILED  ? GPU_OUT_OF_MEMORY
                     : status == LT_EXECUTION_FAILED ? GPU_KERNEL_FAILED
                                                     : GPU_PRODUCT;
    return status == LT_SUCCESS
               ? GPU_NO_ERROR
               : gpu_error{code, status > 0 && status < count ? texts[status] : "hipBLASLt failed"};
}

static inline gpu_error lt_missing(const char *text) {
    return gpu_error{GPU_NO_LIBRARY, text};
}

static inline gpu_error lt_load_once(void) {
    void *library = NULL;
    for (const char *name : {LT_LIBRARIES}) {
        library = library != NULL ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        return lt_missing("libhipblaslt.so is not installed");
    }
#define LT_LOAD(name, ...)                                                                         \
    LT(name) = (lt_status(*)(__VA_ARGS__))dlsym(library, "hipblasLt" #name);                       \
    if (LT(name) == NULL) {                                                                        \
        return lt_missing("libhipblaslt.so has no hipblasLt" #name);                               \
    }
    LT_FUNCTIONS(LT_LOAD)
#undef LT_LOAD
    return GPU_NO_ERROR;
}

// The library stays loaded until the process ends.
static inline gpu_error lt_load(void) {
    static const gpu_error loaded = lt_load_once();
    return loaded;
}

static inline gpu_error lt_check(LT(Handle_t) library) {
    int version = 0;
    const lt_status status = LT(GetVersion)(library, &version);
    return status == LT_SUCCESS && version < LT_OLDEST
               ? lt_missing("libhipblaslt.so is older than 0.6, that of ROCm 6.0")
               : lt_error(status);
}

// The library adds in a fixed order unless atomics are requested.
static inline lt_status lt_want_fixed_sums(LT(MatmulPreference_t) preference) {
    return LT_SUCCESS;
}

// It has no such preference.
static inline lt_status lt_set_alignment(LT(MatmulPreference_t) preference, uint32_t bytes) {
    return LT_SUCCESS;
}

static inline void *lt_stream(gpu_stream stream) {
#ifdef __HIPCC__
    return stream.stream;
#else
    return stream.queue;
#endif
}

#endif
