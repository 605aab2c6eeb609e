// SPDX-License-Identifier: Apache-2.0
// What kernels use of tensor cores, implemented for CUDA and the host: products of fragments, loads
// of fragments from shared memory, and asynchronous copies to it. Except for the copies, all 32
// lanes of a warp call each function together. If GPU_HAS_MMA is 0, there is nothing here.
//
// A fragment is a lane's part of a small matrix. Lane l holds pairs of neighbouring numbers (the
// first one in the lower half), where g = l / 4 and t = l % 4:
//   A [16, 16]: pair i at row g + 8 (i % 2), columns 2t + 8 (i / 2) and the next
//   B [16, 8]:  pair i at rows 2t + 8 i and the next, column g
//   C [16, 8]:  numbers 2i, 2i + 1 at row g + 8 i, columns 2t and the next; f32
#ifndef BERTH_GPU_MMA_H
#define BERTH_GPU_MMA_H

#include "core/mat.h"
#include "gpu/gpu_api.h"

#if defined(__CUDACC__)
#include "gpu/mma_cuda.h"
#elif defined(__HIPCC__) || GPU_WARP != 32
#define GPU_HAS_MMA 0
#else
#include "gpu/mma_host.h"
#endif

#endif
