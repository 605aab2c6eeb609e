// SPDX-License-Identifier: Apache-2.0
// The matrix instructions of mma.h for CUDA, in PTX for compute capability 8.0 and later: loads of
// fragments, products of tiles, copies that run beside them. attention_mma.cu uses them.
#ifndef BERTH_GPU_MMA_CUDA_H
#define BERTH_GPU_MMA_CUDA_H

#define GPU_HAS_MMA 1

// c += a b
template <enum dtype TYPE>
DEVICE void gpu_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if (TYPE == DTYPE_BF16) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// Loads four 8 x 8 matrices of 16-bit numbers. Lane l passes the address of row l % 8 of matrix
// l / 8, a multiple of 16. In r[i] it receives the pair of matrix i at row l / 4, columns 2 (l % 4)
// and the next.
DEVICE void gpu_load_matrices(uint32_t (&r)[4], const uint16_t *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

// As gpu_load_matrices, but the pair is at rows 2 (l % 4) and the next, column l / 4.
DEVICE void gpu_load_transposed(uint32_t (&r)[4], const uint16_t *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

// Starts a copy to shared memory, of 4 or 16 bytes with that alignment; if not `given`, nothing is
// read and zeros are written. The calling thread sees the result after gpu_copies_wait, other
// threads after a barrier that follows it.
template <int BYTES> DEVICE void gpu_copy_start(void *to, const void *from, bool given) {
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(to);
    if (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                     "r"(given ? 16 : 0)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from),
                     "r"(given ? 4 : 0)
                     : "memory");
    }
}

// Waits for all copies that the calling thread has started.
DEVICE void gpu_copies_wait(void) {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// --- products of a warpgroup ---------------------------------------------------------------------

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GPU_HAS_WGMMA 1
#else
#define GPU_HAS_WGMMA 0
#endif

#if GPU_HAS_WGMMA

// Describes rows in shared memory to the tensor cores: 128 bytes each, swizzled by 128 bytes, every
// 8 rows 1,024 bytes further on. There is only one step between parts of an operand, so that both
// of a descriptor's strides are this one.
DEVICE uint64_t gpu_wgmma_descriptor(const uint16_t *rows) {
    const uint64_t address = __cvta_generic_to_shared(rows), unit = 16, step = 1024 / unit;
    const uint64_t swizzle_128 = 1;
    return (address & 0x3FFFF) / unit | step << 16 | step << 32 | swizzle_128 << 62;
}

#define GPU_WGMMA_SUMS                                                                             \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                      \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
#define GPU_WGMMA_OPERANDS(c)                                                                      \
    "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),      \
        "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),  \
        "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]),  \
        "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),  \
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]),  \
        "+f"(c[7][2]), "+f"(c[7][3])
#define GPU_WGMMA_ROWS(TYPE)                                                                       \
    asm volatile("{.reg .pred adds; setp.ne.b32 adds, %34, 0;"                                     \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " GPU_WGMMA_SUMS    \
                 "%32, %33, adds, 1, 1, 0, 0;}"                                                    \
                 : GPU_WGMMA_OPERANDS(c)                                                           \
                 : "l"(gpu_wgmma_descriptor(own + k * 16)),                                        \
                   "l"(gpu_wgmma_descriptor(tile + k * 16)), "r"((int)adds)                        \
                 : "memory")
#define GPU_WGMMA_COLUMNS(TYPE)                                                                    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " GPU_WGMMA_SUMS    \
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                          \
                 : GPU_WGMMA_OPERANDS(c)                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),                                     \
                   "l"(gpu_wgmma_descriptor(tile + k * 16 * 64))                                   \
                 : "memory")

template <enum dtype TYPE>
DEVICE void gpu_wgmma_rows(float (&c)[8][4], const uint16_t *own, const uint16_t *tile, int k,
                           bool adds) {
    if (TYPE == DTYPE_BF16) {
        GPU_WGMMA_ROWS("bf16");
    } else {
        GPU_WGMMA_ROWS("f16");
    }
}

template <enum dtype TYPE>
DEVICE void gpu_wgmma_columns(float (&c)[8][4], const uint32_t (&a)[4], const uint16_t *tile,
                              int k) {
    if (TYPE == DTYPE_BF16) {
        GPU_WGMMA_COLUMNS("bf16");
    } else {
        GPU_WGMMA_COLUMNS("f16");
    }
}

#undef GPU_WGMMA_SUMS
#undef GPU_WGMMA_OPERANDS
#undef GPU_WGMMA_ROWS
#undef GPU_WGMMA_COLUMNS

DEVICE void gpu_wgmma_begin(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void gpu_wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

DEVICE void gpu_wgmma_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

template <int N> DEVICE void gpu_wgmma_receive(float (&c)[N][4]) {
    GPU_UNROLL
    for (int i = 0; i < N * 4; i++) {
        asm volatile("" : "+f"(c[i / 4][i % 4])::"memory");
    }
}

DEVICE void gpu_wgmma_publish(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#else

template <enum dtype TYPE>
DEVICE void gpu_wgmma_rows(float (&)[8][4], const uint16_t *, const uint16_t *, int, bool) {
}
template <enum dtype TYPE>
DEVICE void gpu_wgmma_columns(float (&)[8][4], const uint32_t (&)[4], const uint16_t *, int) {
}
DEVICE void gpu_wgmma_begin(void) {
}
DEVICE void gpu_wgmma_commit(void) {
}
DEVICE void gpu_wgmma_wait(void) {
}
template <int N> DEVICE void gpu_wgmma_receive(float (&)[N][4]) {
}
DEVICE void gpu_wgmma_publish(void) {
}

#endif

#endif
