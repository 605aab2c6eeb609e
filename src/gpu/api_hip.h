// SPDX-License-Identifier: Apache-2.0
// The HIP column of gpu_api.h: AMD's GPUs with wavefronts of 64. HIP has CUDA's calls under other
// names, and its numbers of errors.
#ifndef BERTH_GPU_API_HIP_H
#define BERTH_GPU_API_HIP_H

#include "core/device.h"

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <stdio.h>

#define GPU_KIND "hip"
#define GPU_WARP 64
#define GPU_UNROLL _Pragma("unroll")
#define GPU_SHARED(type, name, count) __shared__ type name[count]
#define GPU_DYNAMIC_SHARED(type, name)                                                             \
    extern __shared__ __align__(16) unsigned char gpu_dynamic_shared[];                            \
    type *const name = (type *)gpu_dynamic_shared

// The lanes of a wavefront always go together.
#define __shfl_xor_sync(mask, value, lanes) __shfl_xor(value, lanes)
#define __shfl_sync(mask, value, lane) __shfl(value, lane)
#define __ballot_sync(mask, predicate) __ballot(predicate)
#define __syncwarp() __builtin_amdgcn_wave_barrier()

// --- numbers ------------------------------------------------------------------------------------

static __device__ __forceinline__ float gpu_float(uint32_t bits) {
    return __uint_as_float(bits);
}

static __device__ __forceinline__ uint32_t gpu_bits(float x) {
    return __float_as_uint(x);
}

// To nearest, ties to even.
static __device__ __forceinline__ uint16_t gpu_bf16(float x) {
    const uint32_t bits = gpu_bits(x);
    return x != x ? (uint16_t)(bits >> 16 | 0x40u)
                  : (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

static __device__ __forceinline__ float gpu_from_f16(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}

static __device__ __forceinline__ uint16_t gpu_f16(float x) {
    return __half_as_ushort(__float2half_rn(x));
}

// 16 bytes at an address that is a multiple of 16.
static __device__ __forceinline__ uint4 gpu_read16(const void *from) {
    return *(const uint4 *)from;
}

static __device__ __forceinline__ void gpu_write16(void *to, uint4 x) {
    *(uint4 *)to = x;
}

static __device__ __forceinline__ float gpu_exp(float x) {
    return expf(x);
}

// --- the device ---------------------------------------------------------------------------------

struct gpu_stream {
    hipStream_t stream;
};

static inline gpu_error gpu_error_of(hipError_t error) {
    return error == hipSuccess ? GPU_NO_ERROR : gpu_error{(int)error, hipGetErrorString(error)};
}

static_assert((int)hipErrorOutOfMemory == GPU_OUT_OF_MEMORY &&
                  (int)hipErrorInsufficientDriver == GPU_NO_DRIVER &&
                  (int)hipErrorNoDevice == GPU_NO_DEVICE &&
                  (int)hipErrorInvalidDevice == GPU_WRONG_INDEX &&
                  (int)hipErrorNotSupported == GPU_NOT_SUPPORTED,
              "HIP's numbers");

// Devices that HIP shows (HIP_VISIBLE_DEVICES).
static inline gpu_error gpu_count(int *count) {
    *count = 0;
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

static inline gpu_error gpu_open(int index, const struct device_options *options,
                                 gpu_stream *stream) {
    gpu_error error = gpu_error_of(hipSetDevice(index));
    return error.code != 0
               ? error
               : gpu_error_of(hipStreamCreateWithFlags(&stream->stream, hipStreamNonBlocking));
}

static inline void gpu_close(gpu_stream stream) {
    (void)hipStreamDestroy(stream.stream);
}

static inline gpu_error gpu_memory_new(void **block, size_t bytes) {
    return gpu_error_of(hipMalloc(block, bytes));
}

static inline gpu_error gpu_memory_free(void *block) {
    return gpu_error_of(hipFree(block));
}

static inline gpu_error gpu_zero(void *block, size_t bytes, gpu_stream stream) {
    return gpu_error_of(hipMemsetAsync(block, 0, bytes, stream.stream));
}

// The contract wants the host's memory to be read when the call returns.
static inline gpu_error gpu_upload(void *to, const void *from_host, size_t bytes,
                                   gpu_stream stream) {
    const gpu_error error =
        gpu_error_of(hipMemcpyAsync(to, from_host, bytes, hipMemcpyHostToDevice, stream.stream));
    return error.code != 0 ? error : gpu_error_of(hipStreamSynchronize(stream.stream));
}

static inline gpu_error gpu_download(void *to_host, const void *from, size_t bytes,
                                     gpu_stream stream) {
    return gpu_error_of(hipMemcpyAsync(to_host, from, bytes, hipMemcpyDeviceToHost, stream.stream));
}

static inline gpu_error gpu_wait(gpu_stream stream) {
    return gpu_error_of(hipStreamSynchronize(stream.stream));
}

static inline gpu_error gpu_memory_left(uint64_t *bytes) {
    size_t left, all;
    gpu_error error = gpu_error_of(hipMemGetInfo(&left, &all));
    *bytes = error.code == 0 ? left : 0;
    return error;
}

// Starts a kernel. Its error is asked for each time.
template <class... Parameters, class... Arguments>
static inline gpu_error gpu_launch(const char *name, dim3 grid, unsigned threads,
                                   size_t dynamic_shared, gpu_stream stream,
                                   void (*kernel)(Parameters...), Arguments... arguments) {
    kernel<<<grid, dim3(threads), dynamic_shared, stream.stream>>>(arguments...);
    return gpu_error_of(hipGetLastError());
}

#endif
