// SPDX-License-Identifier: Apache-2.0
// The host column of gpu_api.h: what a kernel says to its GPU, for a plain C++ compiler. A block of
// threads runs as fibers on one thread of the host, blocks one after another or side by side on
// several threads of the host. Barriers and the operations of a warp are where fibers wait for each
// other. This is for correctness; it is slow.
//
// It finds what a GPU hides: threads of a block at different barriers, lanes of a warp at different
// operations, lanes that never come, barriers that are missing (BERTH_EMULATION_ORDER=reverse or
// random lets other threads go first), reads of shared memory that nobody wrote (it is filled with
// not-a-number), vectors at addresses that are no multiple of their size. Such a kernel ends the
// process with a message that names the kernel and the lines.
//
// Not emulated: memory shared by blocks while they run, and time.
#ifndef BERTH_GPU_EMULATION_H
#define BERTH_GPU_EMULATION_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// 64 rehearses AMD's wavefront.
#ifndef GPU_WARP
#define GPU_WARP 32
#endif
#define GPU_SHARED_MOST (227 * 1024) // bytes of a block, as an H100 has

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

// The thread that runs, as CUDA's built-in variables say.
struct emulated_place {
    dim3 thread, block, block_size, grid;
};
const struct emulated_place *emulated_here(void);
#define threadIdx (emulated_here()->thread)
#define blockIdx (emulated_here()->block)
#define blockDim (emulated_here()->block_size)
#define gridDim (emulated_here()->grid)

void emulated_barrier(struct emulated_site site);
// Waits for the lanes of `mask`; each gives a value of up to 8 bytes and takes that of lane
// `source`.
uint64_t emulated_exchange(uint64_t mask, uint64_t value, int source, struct emulated_site site);
uint64_t emulated_ballot(uint64_t mask, int predicate, struct emulated_site site);
int emulated_lane(void);
// The block's memory for the variable that `variable` names; the same for all of its threads.
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

// To TF32, of 10 bits of fraction: to nearest, ties away from zero, as cvt.rna.tf32.f32 does.
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

// 16 bytes at an address that is a multiple of 16.
uint4 gpu_read16(const void *from);
void gpu_write16(void *to, uint4 x);

static inline float gpu_exp(float x) {
    return expf(x);
}

// --- tensor cores (mma.h) -----------------------------------------------------------------------

struct emulated_fragments {
    uint32_t a[4], b[2];
};

void emulated_mma(float c[4], const struct emulated_fragments *own, int is_bf16,
                  struct emulated_site site);
void emulated_load_matrices(uint32_t r[4], const uint16_t *row, int is_transposed,
                            struct emulated_site site);
// from NULL: zeros.
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

// Runs all blocks on up to `threads` threads of the host.
void emulated_run(const struct emulated_launch *launch, int threads);

#endif
