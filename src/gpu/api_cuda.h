// SPDX-License-Identifier: Apache-2.0
// The CUDA column of gpu_api.h. The driver is found at run time by CUDA's own runtime, so a program
// with this module starts without one.
#ifndef BERTH_GPU_API_CUDA_H
#define BERTH_GPU_API_CUDA_H

#include "core/device.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>

#define GPU_KIND "cuda"
#define GPU_WARP 32
#define GPU_SHARED(type, name, count) __shared__ type name[count]
#define GPU_DYNAMIC_SHARED(type, name)                                                             \
    extern __shared__ __align__(16) unsigned char gpu_dynamic_shared[];                            \
    type *const name = (type *)gpu_dynamic_shared

// Before a loop over an array that must stay in registers.
#define GPU_UNROLL _Pragma("unroll")

// --- numbers ------------------------------------------------------------------------------------

static __device__ __forceinline__ float gpu_float(uint32_t bits) {
    return __uint_as_float(bits);
}

static __device__ __forceinline__ uint32_t gpu_bits(float x) {
    return __float_as_uint(x);
}

static __device__ __forceinline__ uint16_t gpu_bf16(float x) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
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
    cudaStream_t stream;
};

static inline gpu_error gpu_error_of(cudaError_t error) {
    return error == cudaSuccess ? GPU_NO_ERROR : gpu_error{(int)error, cudaGetErrorString(error)};
}

static_assert((int)cudaErrorMemoryAllocation == GPU_OUT_OF_MEMORY &&
                  (int)cudaErrorInsufficientDriver == GPU_NO_DRIVER &&
                  (int)cudaErrorNoDevice == GPU_NO_DEVICE &&
                  (int)cudaErrorInvalidDevice == GPU_WRONG_INDEX &&
                  (int)cudaErrorNotSupported == GPU_NOT_SUPPORTED,
              "CUDA's numbers");

// Devices that CUDA shows (CUDA_VISIBLE_DEVICES).
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

static inline gpu_error gpu_open(int index, const struct device_options *options,
                                 gpu_stream *stream) {
    gpu_error error = gpu_error_of(cudaSetDevice(index));
    return error.code != 0
               ? error
               : gpu_error_of(cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking));
}

static inline void gpu_close(gpu_stream stream) {
    (void)cudaStreamDestroy(stream.stream);
}

static inline gpu_error gpu_memory_new(void **block, size_t bytes) {
    return gpu_error_of(cudaMalloc(block, bytes));
}

static inline gpu_error gpu_memory_free(void *block) {
    return gpu_error_of(cudaFree(block));
}

static inline gpu_error gpu_zero(void *block, size_t bytes, gpu_stream stream) {
    return gpu_error_of(cudaMemsetAsync(block, 0, bytes, stream.stream));
}

// From memory that is not pinned, which CUDA has copied when the call returns.
static inline gpu_error gpu_upload(void *to, const void *from_host, size_t bytes,
                                   gpu_stream stream) {
    return gpu_error_of(
        cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream.stream));
}

static inline gpu_error gpu_download(void *to_host, const void *from, size_t bytes,
                                     gpu_stream stream) {
    return gpu_error_of(
        cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream.stream));
}

static inline gpu_error gpu_wait(gpu_stream stream) {
    return gpu_error_of(cudaStreamSynchronize(stream.stream));
}

static inline gpu_error gpu_memory_left(uint64_t *bytes) {
    size_t left, all;
    gpu_error error = gpu_error_of(cudaMemGetInfo(&left, &all));
    *bytes = error.code == 0 ? left : 0;
    return error;
}

// Starts a kernel. A launch without a driver fails silently, so the error is asked for each time.
template <class... Parameters, class... Arguments>
static inline gpu_error gpu_launch(const char *name, dim3 grid, unsigned threads,
                                   size_t dynamic_shared, gpu_stream stream,
                                   void (*kernel)(Parameters...), Arguments... arguments) {
    const size_t usual_shared = 48 * 1024;
    if (dynamic_shared > usual_shared) {
        gpu_error error = gpu_error_of(cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dynamic_shared));
        if (error.code != 0) {
            return error;
        }
    }
    kernel<<<grid, dim3(threads), dynamic_shared, stream.stream>>>(arguments...);
    return gpu_error_of(cudaGetLastError());
}

#endif
