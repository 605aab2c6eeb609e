// SPDX-License-Identifier: Apache-2.0
// mma.h for the host. Fragments are read lane by lane, as documented, so a kernel that puts a
// number into the wrong lane gets wrong products. A copy is made only when its thread waits for it.
#ifndef BERTH_GPU_MMA_HOST_H
#define BERTH_GPU_MMA_HOST_H

#define GPU_HAS_MMA 1

#define EMULATED_CALLER (emulated_site{__builtin_FILE(), __builtin_LINE()})

template <enum dtype TYPE>
static inline void gpu_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                           struct emulated_site site = EMULATED_CALLER) {
    const struct emulated_fragments own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    emulated_mma(c, &own, TYPE == DTYPE_BF16, site);
}

static inline void gpu_load_matrices(uint32_t (&r)[4], const uint16_t *row,
                                     struct emulated_site site = EMULATED_CALLER) {
    emulated_load_matrices(r, row, 0, site);
}

static inline void gpu_load_transposed(uint32_t (&r)[4], const uint16_t *row,
                                       struct emulated_site site = EMULATED_CALLER) {
    emulated_load_matrices(r, row, 1, site);
}

template <int BYTES> static inline void gpu_copy_start(void *to, const void *from, bool given) {
    emulated_copy_start(to, given ? from : NULL, BYTES);
}

static inline void gpu_copies_wait(void) {
    emulated_copies_wait();
}

#endif
