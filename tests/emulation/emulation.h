// SPDX-License-Identifier: Apache-2.0
// What kernels use of a GPU, for a plain C++ compiler on the host. The threads of a block run as
// fibers on one host thread; blocks run one after another, or in parallel on several host threads.
// Fibers switch at barriers and at operations of a warp. This is for correctness; it is slow.
//
// It finds errors that a GPU hides: threads of a block at different barriers, lanes of a warp at
// different operations, lanes that never arrive, missing barriers (BERTH_EMULATION_ORDER=reverse or
// random runs threads in another order), reads of shared memory that was never written (it is
// filled with NaN), and misaligned vectors. Such a kernel gives wrong numbers or ends the process
// with a message that names the kernel and the lines.
//
// Not emulated: blocks that communicate while they run, and time.
#ifndef BERTH_EMULATION_H
#define BERTH_EMULATION_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// 64 emulates AMD's wavefronts.
#ifndef GPU_WARP
#define GPU_WARP 32
#endif
#define GPU_MAX_SHARED_BYTES (227 * 1024) // bytes of a block, as an H100 has

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
};

struct uint4 {
    uint32_t x, y, z, w;
};

// Where a thread waits.
struct emulated_site {
    const char *file;
    int line;
};

// The indices of a thread: CUDA's built-in variables.
struct emulated_index {
    dim3 thread, block, block_size, grid;
};
const struct emulated_index *emulated_current(void);
#define threadIdx (emulated_current()->thread)
#define blockIdx (emulated_current()->block)
#define blockDim (emulated_current()->block_size)
#define gridDim (emulated_current()->grid)

void emulated_barrier(struct emulated_site site);
// Waits for the lanes of `mask`; each contributes a value of up to 8 bytes and receives that of
// lane `source`.
uint64_t emulated_exchange(uint64_t mask, uint64_t value, int source, struct emulated_site site);
uint64_t emulated_ballot(uint64_t mask, int predicate, struct emulated_site site);
int emulated_lane(void);
// The block's memory for a shared variable, identified by an address; the same for all threads.
void *emulated_shared(const void *variable, size_t bytes);
void *emulated_dynamic_shared(void);

template <class T>
static inline T emulated_shuffle(uint64_t mask, T value, int source, struct emulated_site site) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emulated_exchange(mask, bits, source, site);
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define EMULATED_SITE (emulated_site{__FILE__, __LINE__})
#define __syncthreads() emulated_barrier(EMULATED_SITE)
#define __syncwarp() ((void)emulated_exchange(GPU_ALL_LANES, 0, emulated_lane(), EMULATED_SITE))
#define __shfl_xor_sync(mask, value, lanes)                                                        \
    emulated_shuffle(mask, value, emulated_lane() ^ (lanes), EMULATED_SITE)
#define __shfl_sync(mask, value, lane) emulated_shuffle(mask, value, lane, EMULATED_SITE)
#define __ballot_sync(mask, predicate) emulated_ballot(mask, predicate, EMULATED_SITE)

#define GPU_SHARED(type, name, count)                                                              \
    static const char name##_variable = 0;                                                         \
    type *const name = (type *)emulated_shared(&name##_variable, sizeof(type) * (count))
#define GPU_DYNAMIC_SHARED(type, name) type *const name = (type *)emulated_dynamic_shared()

// --- numbers ------------------------------------------------------------------------------------

static inline float gpu_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t gpu_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Rounds to TF32, which has 10 fraction bits: to nearest, ties away from zero, like
// cvt.rna.tf32.f32.
static inline float emulated_tf32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isfinite(x)) {
        bits = (bits + 0x1000u) & ~0x1FFFu;
    }
    memcpy(&x, &bits, sizeof bits);
    return x;
}

// To nearest, ties to even.
static inline uint16_t gpu_bf16(float x) {
    const uint32_t bits = gpu_bits(x);
    return x != x ? (uint16_t)(bits >> 16 | 0x40u)
                  : (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float emulated_from_f16(uint16_t bits);
uint16_t emulated_f16(float x);

static inline float gpu_from_f16(uint16_t bits) {
    return emulated_from_f16(bits);
}

static inline uint16_t gpu_f16(float x) {
    return emulated_f16(x);
}

// Two numbers, the first one in the lower half.
static inline uint32_t gpu_bf16_pair(float low, float high) {
    return gpu_bf16(low) | (uint32_t)gpu_bf16(high) << 16;
}

static inline uint32_t gpu_f16_pair(float low, float high) {
    return gpu_f16(low) | (uint32_t)gpu_f16(high) << 16;
}

// 16 bytes at an address that is a multiple of 16.
uint4 gpu_read16(const void *from);
void gpu_write16(void *to, uint4 x);

static inline float gpu_exp(float x) {
    return expf(x);
}

static inline float gpu_exp2(float x) {
    return exp2f(x);
}

static inline float gpu_reciprocal(float x) {
    return 1.0f / x;
}

// --- tensor cores (mma.h) -----------------------------------------------------------------------

struct emulated_fragments {
    uint32_t a[4], b[2];
};

void emulated_mma(float c[4], const struct emulated_fragments *own, int is_bf16,
                  struct emulated_site site);
void emulated_load_matrices(uint32_t r[4], const uint16_t *row, int is_transposed,
                            struct emulated_site site);
// A product of a warpgroup, which is made when its thread waits for it.
struct emulated_product {
    void (*make)(const struct emulated_product *product);
    float (*sums)[4]; // [8][4]
    uint32_t a[4];
    const uint16_t *own, *tile;
    int k;
    bool adds;
    struct emulated_site site;
};
void emulated_product_start(const struct emulated_product *product);
void emulated_products_wait(void);
// from NULL: writes zeros.
void emulated_copy_start(void *to, const void *from, size_t bytes);
void emulated_copies_wait(void);

// --- launches -----------------------------------------------------------------------------------

struct emulated_launch {
    const char *kernel;
    dim3 grid, block;
    size_t dynamic_shared; // bytes
    void (*run)(const void *call);
    const void *call;
};

// Runs all blocks on up to `threads` host threads.
void emulated_run(const struct emulated_launch *launch, int threads);

#endif
