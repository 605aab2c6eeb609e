// SPDX-License-Identifier: Apache-2.0
// mma.h for the host. Fragments are read lane by lane, as documented, so a kernel that puts a
// number into the wrong lane gets wrong products. A copy, and a product of a warpgroup, is made
// only when its thread waits for it.
#ifndef BERTH_EMULATION_MMA_HOST_H
#define BERTH_EMULATION_MMA_HOST_H

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

// --- products of a warpgroup
// ----------------------------------------------------------------------

#define GPU_HAS_WGMMA 1

// A number of swizzled rows.
static inline uint32_t emulated_swizzled(const uint16_t *rows, int row, int column) {
    return rows[row * 64 + (column / 8 ^ row % 8) * 8 + column % 8];
}

// Each warp multiplies for itself: the 16 rows of the warpgroup's that are its.
template <enum dtype TYPE> static inline void emulated_rows(const struct emulated_product *p) {
    const int lane = emulated_lane(), warp = (int)threadIdx.x / 32 % 4;
    const int depth = p->k * 16 + lane % 4 * 2;
    uint32_t a[4];
    for (int i = 0; i < 4; i++) {
        const int row = warp * 16 + i % 2 * 8 + lane / 4, column = depth + i / 2 * 8;
        a[i] = emulated_swizzled(p->own, row, column) | emulated_swizzled(p->own, row, column + 1)
                                                            << 16;
    }
    for (int n = 0; n < 8; n++) {
        const int row = n * 8 + lane / 4;
        float(&sums)[4] = p->sums[n];
        uint32_t b[2];
        for (int i = 0; i < 2; i++) {
            b[i] = emulated_swizzled(p->tile, row, depth + i * 8) |
                   emulated_swizzled(p->tile, row, depth + i * 8 + 1) << 16;
        }
        for (int i = 0; i < 4 && !p->adds; i++) {
            sums[i] = 0.0f;
        }
        gpu_mma<TYPE>(sums, a, b[0], b[1], p->site);
    }
}

template <enum dtype TYPE> static inline void emulated_columns(const struct emulated_product *p) {
    const int lane = emulated_lane(), depth = p->k * 16 + lane % 4 * 2;
    for (int n = 0; n < 8; n++) {
        const int column = n * 8 + lane / 4;
        uint32_t b[2];
        for (int i = 0; i < 2; i++) {
            b[i] = emulated_swizzled(p->tile, depth + i * 8, column) |
                   emulated_swizzled(p->tile, depth + i * 8 + 1, column) << 16;
        }
        gpu_mma<TYPE>(p->sums[n], p->a, b[0], b[1], p->site);
    }
}

template <enum dtype TYPE>
static inline void gpu_wgmma_rows(float (&c)[8][4], const uint16_t *own, const uint16_t *tile,
                                  int k, bool adds, struct emulated_site site = EMULATED_CALLER) {
    const struct emulated_product product = {emulated_rows<TYPE>, c, {}, own, tile, k, adds, site};
    emulated_product_start(&product);
}

template <enum dtype TYPE>
static inline void gpu_wgmma_columns(float (&c)[8][4], const uint32_t (&a)[4], const uint16_t *tile,
                                     int k, struct emulated_site site = EMULATED_CALLER) {
    const struct emulated_product product = {
        emulated_columns<TYPE>, c, {a[0], a[1], a[2], a[3]}, NULL, tile, k, true, site};
    emulated_product_start(&product);
}

static inline void gpu_wgmma_begin(void) {
}

static inline void gpu_wgmma_commit(void) {
}

static inline void gpu_wgmma_wait(void) {
    emulated_products_wait();
}

template <int N> static inline void gpu_wgmma_receive(float (&)[N][4]) {
}

static inline void gpu_wgmma_publish(void) {
}

#endif
