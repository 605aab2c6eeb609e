// SPDX-License-Identifier: Apache-2.0
// What kernels and the device use of a GPU, in three columns: CUDA (nvcc), HIP (hipcc) and the host
// (any C++ compiler, emulation.h). Kernels are written once, with CUDA's names.
#ifndef BERTH_GPU_GPU_API_H
#define BERTH_GPU_GPU_API_H

#include <stddef.h>
#include <stdint.h>

// What went wrong in a call: CUDA's number of it, which HIP and the emulation share; 0: nothing.
struct gpu_error {
    int code;
    const char *text; // NULL: as faults.h says
};

#define GPU_NO_ERROR (gpu_error{0, NULL})

enum { // of the numbers
    GPU_OUT_OF_MEMORY = 2,
    GPU_NO_DRIVER = 35,
    GPU_NO_DEVICE = 100,
    GPU_WRONG_INDEX = 101,
    GPU_NO_LIBRARY = 303,
    GPU_WRONG_HANDLE = 400,
    GPU_KERNEL_FAILED = 719,
    GPU_NOT_SUPPORTED = 801,
    GPU_CAPTURE_FORBIDS = 900,
    // no numbers of CUDA's:
    GPU_PEERS = 10000,  // an exchange with other ranks' GPUs
    GPU_CUDNN = 10001,  // attention by cuDNN, where that is asked for
    GPU_PRODUCT = 10002 // a matrix product that its library refuses
};

// What a kernel must do, whatever it does it with: the bytes of device memory that it reads and
// those that it writes, each once, and the multiplications and additions of matrix products. The
// emulation compares what a kernel does with its plan (emulation_counts.h); the GPUs' columns
// ignore it, and do not call the functions that return it, which read the arguments' arrays.
struct gpu_cost {
    uint64_t loads, stores, operations;
};

struct gpu_shape {
    const char *kernel;
    int64_t blocks;    // 0: nothing is started
    unsigned threads;  // of a block
    size_t shared = 0; // bytes of dynamic shared memory of a block
};

#if defined(__CUDACC__)
#include "gpu/api_cuda.h"
#elif defined(__HIPCC__)
#include "gpu/api_hip.h"
#else
#include "gpu/api_host.h"
#endif

// Operations of a whole warp.
#define GPU_ALL_LANES (GPU_WARP == 64 ? ~UINT64_C(0) : UINT64_C(0xFFFFFFFF))
#define DEVICE static __device__ __forceinline__

#endif
