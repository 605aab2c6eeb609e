// SPDX-License-Identifier: Apache-2.0
// The functions of gpu_api.h for HIP: the GPU device's sources compile with it for AMD's GPUs,
// whose wavefronts have 64 lanes. Names and types of CUDA that HIP calls otherwise are mapped here
// and nowhere else.
#ifndef BERTH_GPU_API_HIP_H
#define BERTH_GPU_API_HIP_H

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <stdio.h>
#include <unistd.h>

#define GPU_KIND "hip"
#define GPU_WARP 64
#define GPU_HAS_TF32 0
#define GPU_CALL(name) hip##name

static_assert((int)hipErrorOutOfMemory == GPU_OUT_OF_MEMORY, "CUDA's number");

// The lanes of a wavefront always run in lockstep.
#define __shfl_xor_sync(mask, value, lanes) __shfl_xor(value, lanes)
#define __shfl_sync(mask, value, lane) __shfl(value, lane)
#define __ballot_sync(mask, predicate) __ballot(predicate)
#define __syncwarp() __builtin_amdgcn_wave_barrier()

// bits = 2 bits + the carry of x + y
static __device__ __forceinline__ void gpu_shift_in_carry(uint32_t &bits, uint32_t x, uint32_t y) {
    bits = 2 * bits + (x + y < x);
}

// To nearest, ties to even.
static __device__ __forceinline__ uint16_t gpu_bf16(float x) {
    const uint32_t bits = __float_as_uint(x);
    return x != x ? (uint16_t)(bits >> 16 | 0x40u)
                  : (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// Two numbers, the first one in the lower half.
static __device__ __forceinline__ uint32_t gpu_bf16_pair(float low, float high) {
    return gpu_bf16(low) | (uint32_t)gpu_bf16(high) << 16;
}

static __device__ __forceinline__ uint32_t gpu_f16_pair(float low, float high) {
    return __half_as_ushort(__float2half_rn(low)) |
           (uint32_t)__half_as_ushort(__float2half_rn(high)) << 16;
}

static __device__ __forceinline__ float gpu_exp2(float x) {
    return exp2f(x);
}

// 1 / x within one unit in the last place
static __device__ __forceinline__ float gpu_reciprocal(float x) {
    return __builtin_amdgcn_rcpf(x);
}

#include "device/gpu/api_device.h"

static inline gpu_error gpu_pinned_new(void **block, size_t bytes) {
    return gpu_error_of(hipHostMalloc(block, bytes, 0));
}

static inline void gpu_pinned_free(void *block) {
    (void)hipHostFree(block);
}

// The devices that are visible to HIP (HIP_VISIBLE_DEVICES).
static inline gpu_error gpu_count(int *count) {
    *count = 0;
    if (access("/dev/kfd", F_OK) != 0) {
        return gpu_error{GPU_NO_DRIVER, "no AMD GPU driver is loaded (/dev/kfd)"};
    }
    return gpu_error_of(hipGetDeviceCount(count));
}

static inline gpu_error gpu_describe(int index, char text[160]) {
    hipDeviceProp_t properties;
    gpu_error error = gpu_error_of(hipGetDeviceProperties(&properties, index));
    if (error.code != 0) {
        return error;
    }
    snprintf(text, 160, "%.80s, %.40s, %zu MiB", properties.name, properties.gcnArchName,
             properties.totalGlobalMem >> 20);
    return properties.warpSize == GPU_WARP
               ? GPU_NO_ERROR
               : gpu_error{GPU_NOT_SUPPORTED, "wavefronts of 64 are needed"};
}

static inline gpu_error gpu_max_shared_bytes(int index, size_t *bytes) {
    int max = 0;
    gpu_error error =
        gpu_error_of(hipDeviceGetAttribute(&max, hipDeviceAttributeMaxSharedMemoryPerBlock, index));
    *bytes = (size_t)max;
    return error;
}

static inline bool gpu_has_wgmma(int index) {
    return false;
}

static inline uint64_t gpu_id_of(int index) {
    char address[16] = {}; // 0000:c1:00.0, on the PCI bus
    return hipDeviceGetPCIBusId(address, sizeof address, index) == hipSuccess
               ? gpu_hash_name(address)
               : 0;
}

#endif
