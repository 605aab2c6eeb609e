// SPDX-License-Identifier: Apache-2.0
// What kernels and the device use of a GPU, with three implementations: CUDA (nvcc), HIP (hipcc)
// and the host (any C++ compiler, emulation.h). Kernels are written once, with CUDA's names.
#ifndef BERTH_GPU_GPU_API_H
#define BERTH_GPU_GPU_API_H

#include <stddef.h>
#include <stdint.h>

// The error of a call. HIP and the emulation use CUDA's numbers; 0: none.
struct gpu_error {
    int code;
    const char *text; // NULL: that of faults.h
};

#define GPU_NO_ERROR (gpu_error{0, NULL})

enum { // some of the numbers
    GPU_OUT_OF_MEMORY = 2,
    GPU_NO_DRIVER = 35,
    GPU_NO_DEVICE = 100,
    GPU_WRONG_INDEX = 101,
    GPU_NO_LIBRARY = 303,
    GPU_WRONG_HANDLE = 400,
    GPU_KERNEL_FAILED = 719,
    GPU_NOT_SUPPORTED = 801,
    // not CUDA's:
    GPU_PEERS = 10000,  // an exchange with other ranks' GPUs
    GPU_CUDNN = 10001,  // attention by cuDNN
    GPU_PRODUCT = 10002 // a matrix product that the library rejects
};

// What a launch must do at least: the bytes of device memory that it reads and those that it
// writes, each counted once, and the multiplications and additions of matrix products. The
// emulation compares what a kernel does with its cost (emulation_counts.h). On GPUs the functions
// that return a cost are never called, because they read the arguments' arrays.
struct gpu_cost {
    uint64_t loads, stores, operations;
};

struct gpu_shape {
    const char *kernel;
    int64_t blocks;    // 0: there is nothing to start
    unsigned threads;  // of a block
    size_t shared = 0; // bytes of dynamic shared memory of a block
};

#if defined(__CUDACC__)
#include "device/gpu/api_cuda.h"
#elif defined(__HIPCC__)
#include "device/gpu/api_hip.h"
#else
#include "emulation/api_host.h"
#endif

// The mask of a whole warp.
#define GPU_ALL_LANES (GPU_WARP == 64 ? ~UINT64_C(0) : UINT64_C(0xFFFFFFFF))
#define DEVICE static __device__ __forceinline__

#endif
