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
//
// Products of a warpgroup, four warps of a block from a multiple of four on, exist on GPUs of
// compute capability 9.0 only; GPU_HAS_WGMMA is 0 in the compiler's passes for others, where these
// functions do nothing. All lanes of the warpgroup call each of them together. Its C has 64 rows
// and 64 columns; warp w has rows 16 w to 16 w + 15, as eight fragments C. Operands in shared
// memory are rows of 64 numbers from a multiple of 1,024 bytes on; the vector of 16 bytes that
// would be number v of row r is number v ^ (r % 8) (swizzled by 128 bytes).
//   gpu_wgmma_begin    before the first product, after the last change of its registers
//   gpu_wgmma_rows     starts c (+)= own[64, 16] tile[64, 16]^T, of both columns 16 k and after
//   gpu_wgmma_columns  starts c += a[64, 16] tile[16, 64], of the tile rows 16 k and after; a has
//                      fragments A
//   gpu_wgmma_commit   after the last product
//   gpu_wgmma_wait     waits for all products, whose registers must not be used until then
//   gpu_wgmma_receive  after the wait: makes the compiler read the sums again
//   gpu_wgmma_publish  before a barrier: lets products see what this thread copied
#ifndef BERTH_GPU_MMA_H
#define BERTH_GPU_MMA_H

#include "core/mat.h"
#include "device/gpu/gpu_api.h"

#if defined(__CUDACC__)
#include "device/gpu/mma_cuda.h"
#elif defined(__HIPCC__) || GPU_WARP != 32
#define GPU_HAS_MMA 0
#else
#include "emulation/mma_host.h"
#endif

#endif
