// SPDX-License-Identifier: Apache-2.0
// What kernels use of tensor cores, in columns as gpu_api.h: products of fragments, their loads
// from shared memory, asynchronous copies to it. A warp of 32 calls each function together, but for
// the copies. GPU_HAS_MMA 0: there is nothing here.
//
// A fragment is a part of a small matrix: a lane l holds pairs of neighbouring numbers (the lower
// half first), where g = l / 4 and t = l % 4:
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
