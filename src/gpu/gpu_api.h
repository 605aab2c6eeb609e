// SPDX-License-Identifier: Apache-2.0
// What kernels and the device use of a GPU, in three columns: CUDA (nvcc), HIP (hipcc) and the host
// (any C++ compiler, emulation.h). Kernels are written once, with CUDA's names.
#ifndef BERTH_GPU_GPU_API_H
#define BERTH_GPU_GPU_API_H

#include <stddef.h>
#include <stdint.h>

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
