// SPDX-License-Identifier: Apache-2.0
// gpu_api.h for CUDA. CUDA's runtime looks for the driver at run time, so a program with this
// module starts without one.
#ifndef BERTH_GPU_API_CUDA_H
#define BERTH_GPU_API_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>

#define GPU_KIND "cuda"
#define GPU_WARP 32
#define GPU_HAS_TF32 1
#define GPU_CALL(name) cuda##name

static_assert((int)cudaErrorMemoryAllocation == GPU_OUT_OF_MEMORY, "CUDA's number");

static __device__ __forceinline__ uint16_t gpu_bf16(float x) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// bits = 2 bits + the carry of x + y
static __device__ __forceinline__ void gpu_shift_in_carry(uint32_t &bits, uint32_t x, uint32_t y) {
    asm("{.reg .u32 sum; add.cc.u32 sum, %1, %2; addc.u32 %0, %0, %0;}"
        : "+r"(bits)
        : "r"(x), "r"(y));
}

// Two numbers, the first one in the lower half.
static __device__ __forceinline__ uint32_t gpu_bf16_pair(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static __device__ __forceinline__ uint32_t gpu_f16_pair(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// 2^x within two units in the last place; 0 below 2^-126.
static __device__ __forceinline__ float gpu_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / x within one unit in the last place; 0 above 2^126.
static __device__ __forceinline__ float gpu_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#include "device/gpu/api_device.h"

static inline gpu_error gpu_pinned_new(void **block, size_t bytes) {
    return gpu_error_of(cudaMallocHost(block, bytes));
}

static inline void gpu_pinned_free(void *block) {
    (void)cudaFreeHost(block);
}

// The devices that are visible to CUDA (CUDA_VISIBLE_DEVICES).
static inline gpu_error gpu_count(int *count) {
    int driver = 0;
    *count = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        return gpu_error{GPU_NO_DRIVER, "no NVIDIA driver is installed"};
    }
    return gpu_error_of(cudaGetDeviceCount(count));
}

static inline gpu_error gpu_describe(int index, char text[160]) {
    const int oldest = 8; // compute capability: bf16, asynchronous copies
    struct cudaDeviceProp properties;
    gpu_error error = gpu_error_of(cudaGetDeviceProperties(&properties, index));
    if (error.code != 0) {
        return error;
    }
    snprintf(text, 160, "%.100s, compute capability %d.%d, %zu MiB", properties.name,
             properties.major, properties.minor, properties.totalGlobalMem >> 20);
    return properties.major >= oldest
               ? GPU_NO_ERROR
               : gpu_error{GPU_NOT_SUPPORTED, "compute capability 8.0 or higher is needed"};
}

static inline gpu_error gpu_max_shared_bytes(int index, size_t *bytes) {
    int max = 0;
    gpu_error error =
        gpu_error_of(cudaDeviceGetAttribute(&max, cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
    *bytes = (size_t)max;
    return error;
}

// Whether the GPU and this module have products of warpgroups (mma.h).
static inline bool gpu_has_wgmma(int index) {
    int major = 0;
    return GPU_WGMMA_COMPILED &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) ==
               cudaSuccess &&
           major == 9;
}

static inline uint64_t gpu_id_of(int index) {
    struct cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, index) == cudaSuccess
               ? gpu_hash_name(&properties.uuid)
               : 0;
}

#endif
