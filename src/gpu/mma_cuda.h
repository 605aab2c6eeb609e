// SPDX-License-Identifier: Apache-2.0
// mma.h for CUDA, in PTX for compute capability 8.0 and later.
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

#endif
