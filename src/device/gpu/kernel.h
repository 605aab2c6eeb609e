// SPDX-License-Identifier: Apache-2.0
// What kernels share: numbers of any dtype, sums over threads, rows of a matrix divided among
// groups of threads, dropout masks. Everything here runs on the GPU.
#ifndef BERTH_GPU_KERNEL_H
#define BERTH_GPU_KERNEL_H

#include "device/device.h"
#include "device/gpu/gpu_api.h"

// --- numbers ------------------------------------------------------------------------------------

DEVICE float number_of(uint16_t bits, enum dtype dtype) {
    return dtype == DTYPE_BF16 ? gpu_float((uint32_t)bits << 16) : gpu_from_f16(bits);
}

DEVICE uint16_t bits_of(float x, enum dtype dtype) {
    return dtype == DTYPE_BF16 ? gpu_bf16(x) : gpu_f16(x);
}

// Loads and stores N neighbouring columns of a row. A load has two steps, so that several may be
// under way: fetch gets the numbers as they are stored, unpack converts them.
template <int N> struct vector_io;

template <> struct vector_io<1> {
    using stored = uint32_t;

    DEVICE void fetch(stored &v, const struct mat &m, int64_t i) {
        v = m.dtype == DTYPE_F32 ? ((const uint32_t *)m.data)[i] : ((const uint16_t *)m.data)[i];
    }
    DEVICE void unpack(float x[1], stored v, enum dtype dtype) {
        x[0] = dtype == DTYPE_F32 ? gpu_float(v) : number_of((uint16_t)v, dtype);
    }
    DEVICE void load(float x[1], const struct mat &m, int64_t i) {
        stored v;
        fetch(v, m, i);
        unpack(x, v, m.dtype);
    }
    DEVICE void store(const struct mat &m, int64_t i, const float x[1]) {
        if (m.dtype == DTYPE_F32) {
            ((float *)m.data)[i] = x[0];
        } else {
            ((uint16_t *)m.data)[i] = bits_of(x[0], m.dtype);
        }
    }
};

DEVICE void unpack_pair(float x[2], uint32_t pair, enum dtype dtype) {
    x[0] = number_of((uint16_t)pair, dtype);
    x[1] = number_of((uint16_t)(pair >> 16), dtype);
}

template <enum dtype TYPE> DEVICE uint32_t gpu_pack(float low, float high) {
    return TYPE == DTYPE_BF16 ? gpu_bf16_pair(low, high) : gpu_f16_pair(low, high);
}

DEVICE uint32_t pack(const float x[2], enum dtype dtype) {
    return dtype == DTYPE_BF16 ? gpu_pack<DTYPE_BF16>(x[0], x[1]) : gpu_pack<DTYPE_F16>(x[0], x[1]);
}

template <> struct vector_io<8> {
    struct stored {
        uint4 first, second; // second: only of f32
    };

    DEVICE void fetch(stored &v, const struct mat &m, int64_t i) {
        const bool wide = m.dtype == DTYPE_F32;
        const char *const from = (const char *)m.data + i * (wide ? 4 : 2);
        v.first = gpu_read16(from);
        if (wide) {
            v.second = gpu_read16(from + 16);
        }
    }
    DEVICE void unpack(float x[8], const stored &v, enum dtype dtype) {
        if (dtype == DTYPE_F32) {
            unpack_half(x, v.first);
            unpack_half(x + 4, v.second);
        } else {
            unpack_pair(x, v.first.x, dtype);
            unpack_pair(x + 2, v.first.y, dtype);
            unpack_pair(x + 4, v.first.z, dtype);
            unpack_pair(x + 6, v.first.w, dtype);
        }
    }
    DEVICE void load(float x[8], const struct mat &m, int64_t i) {
        stored v;
        fetch(v, m, i);
        unpack(x, v, m.dtype);
    }
    DEVICE void store(const struct mat &m, int64_t i, const float x[8]) {
        if (m.dtype == DTYPE_F32) {
            store_half((float *)m.data + i, x);
            store_half((float *)m.data + i + 4, x + 4);
            return;
        }
        gpu_write16((uint16_t *)m.data + i, uint4{pack(x, m.dtype), pack(x + 2, m.dtype),
                                                  pack(x + 4, m.dtype), pack(x + 6, m.dtype)});
    }

  private:
    DEVICE void unpack_half(float x[4], const uint4 &v) {
        x[0] = gpu_float(v.x);
        x[1] = gpu_float(v.y);
        x[2] = gpu_float(v.z);
        x[3] = gpu_float(v.w);
    }
    DEVICE void store_half(float *to, const float x[4]) {
        gpu_write16(to, uint4{gpu_bits(x[0]), gpu_bits(x[1]), gpu_bits(x[2]), gpu_bits(x[3])});
    }
};

template <int N> DEVICE void load(float (&x)[N], const struct mat &m, int64_t row, int64_t column) {
    vector_io<N>::load(x, m, row * m.stride + column);
}

template <int N>
DEVICE void load_added(float (&x)[N], const struct mat &m, int64_t row, int64_t column) {
    float more[N];
    load(more, m, row, column);
    GPU_UNROLL
    for (int i = 0; i < N; i++) {
        x[i] += more[i];
    }
}

template <int N>
DEVICE void store(const struct mat &m, int64_t row, int64_t column, const float (&x)[N]) {
    vector_io<N>::store(m, row * m.stride + column, x);
}

// N neighbouring numbers of an array; if N is 8, the address is a multiple of 16.
template <int N> DEVICE void load_run(float (&x)[N], const float *from) {
    vector_io<N>::load(x, mat{(void *)from, 1, N, N, DTYPE_F32}, 0);
}

template <int N> DEVICE void store_run(float *to, const float (&x)[N]) {
    vector_io<N>::store(mat{to, 1, N, N, DTYPE_F32}, 0, x);
}

DEVICE float number_at(const struct mat &m, int64_t row, int64_t column) {
    float x[1];
    load(x, m, row, column);
    return x[0];
}

DEVICE void set_number(const struct mat &m, int64_t row, int64_t column, float x) {
    const float one[1] = {x};
    store(m, row, column, one);
}

DEVICE bool is_given(const struct mat &m) {
    return m.data != NULL;
}

// --- sums over threads, in an order that depends only on their number ----------------------------

template <class T> DEVICE T warp_sum(T x) {
    for (int lanes = GPU_WARP / 2; lanes > 0; lanes /= 2) {
        x += __shfl_xor_sync(GPU_ALL_LANES, x, lanes);
    }
    return x;
}

// Of two numbers at once: the exchanges of one are under way while those of the other are.
DEVICE void warp_sums(float &x, float &y) {
    GPU_UNROLL
    for (int lanes = GPU_WARP / 2; lanes > 0; lanes /= 2) {
        const float more_x = __shfl_xor_sync(GPU_ALL_LANES, x, lanes);
        const float more_y = __shfl_xor_sync(GPU_ALL_LANES, y, lanes);
        x += more_x;
        y += more_y;
    }
}

DEVICE float warp_max(float x) {
    for (int lanes = GPU_WARP / 2; lanes > 0; lanes /= 2) {
        x = fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, lanes));
    }
    return x;
}

// Over all threads of a block of THREADS, each of which gets the sum. Consecutive calls may use the
// same memory: all threads have read it before it is written again.
template <int THREADS, class T> DEVICE T block_sum(T x) {
    if (THREADS == GPU_WARP) {
        return warp_sum(x);
    }
    GPU_SHARED(T, warp_results, THREADS / GPU_WARP);
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % GPU_WARP == 0) {
        warp_results[threadIdx.x / GPU_WARP] = x;
    }
    __syncthreads();
    T sum = warp_results[0];
    for (int warp = 1; warp < THREADS / GPU_WARP; warp++) {
        sum += warp_results[warp];
    }
    return sum;
}

// As block_sum, of two numbers at once.
template <int THREADS> DEVICE void block_sums(float &x, float &y) {
    warp_sums(x, y);
    if (THREADS == GPU_WARP) {
        return;
    }
    enum { WARPS = THREADS / GPU_WARP };
    GPU_SHARED(float, warp_results, 2 * WARPS);
    __syncthreads();
    if (threadIdx.x % GPU_WARP == 0) {
        warp_results[threadIdx.x / GPU_WARP] = x;
        warp_results[WARPS + threadIdx.x / GPU_WARP] = y;
    }
    __syncthreads();
    x = warp_results[0];
    y = warp_results[WARPS];
    for (int warp = 1; warp < WARPS; warp++) {
        x += warp_results[warp];
        y += warp_results[WARPS + warp];
    }
}

template <int THREADS> DEVICE float block_max(float x) {
    GPU_SHARED(float, warp_results, THREADS / GPU_WARP);
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % GPU_WARP == 0) {
        warp_results[threadIdx.x / GPU_WARP] = x;
    }
    __syncthreads();
    float largest = warp_results[0];
    for (int warp = 1; warp < THREADS / GPU_WARP; warp++) {
        largest = fmaxf(largest, warp_results[warp]);
    }
    return largest;
}

// Threads that add up rows of partial sums: some of them, SEGMENTS, share a column, and each adds a
// segment of the rows.
enum { SUM_COLUMNS = 32, SUM_SEGMENTS = 8, SUM_THREADS = SUM_COLUMNS * SUM_SEGMENTS };

DEVICE int64_t sum_column(void) {
    return threadIdx.x % SUM_COLUMNS;
}

// The sum of the `rows` numbers of a column, which begins at `column`; its first thread gets it.
// has_column: the thread's column exists. Each thread reads several rows ahead and adds them in
// order.
template <int SEGMENTS>
DEVICE float sum_of_rows(const float *column, int64_t rows, int64_t stride, bool has_column) {
    enum { AHEAD = 16 };
    GPU_SHARED(float, segment_sums, SUM_COLUMNS *SEGMENTS);
    const int64_t each = (rows + SEGMENTS - 1) / SEGMENTS;
    const int64_t first = threadIdx.x / SUM_COLUMNS * each;
    const int64_t end = first + each < rows ? first + each : rows;
    float sum = 0.0f;
    for (int64_t row = first; has_column && row < end; row += AHEAD) {
        const int64_t last = end - 1 - row; // read again if there are fewer than AHEAD
        float x[AHEAD];
        GPU_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            x[i] = column[(row + (i < last ? i : last)) * stride];
        }
        GPU_UNROLL
        for (int i = 0; i < AHEAD; i++) {
            sum += i <= last ? x[i] : 0.0f;
        }
    }
    __syncthreads();
    segment_sums[threadIdx.x] = sum;
    __syncthreads();
    for (int segment = 1; threadIdx.x < SUM_COLUMNS && segment < SEGMENTS; segment++) {
        sum += segment_sums[segment * SUM_COLUMNS + threadIdx.x];
    }
    return sum;
}

// --- rows ---------------------------------------------------------------------------------------

// A group of THREADS threads, a warp or a block, has one row at a time. Thread t has CHUNKS chunks
// of VEC neighbouring columns; chunk k begins at column (k THREADS + t) VEC. Four warps share a
// block.
template <int THREADS_, int VEC_, int CHUNKS_> struct row_group {
    static constexpr int THREADS = THREADS_, VEC = VEC_, CHUNKS = CHUNKS_;
    static constexpr int GROUPS = THREADS_ == GPU_WARP ? 4 : 1; // in a block
    static constexpr int BLOCK = THREADS_ * GROUPS;
    static constexpr int64_t COLUMNS = (int64_t)THREADS_ * VEC_ * CHUNKS_; // the largest number

    DEVICE int thread() {
        return (int)threadIdx.x % THREADS;
    }
    DEVICE int group() {
        return (int)threadIdx.x / THREADS;
    }
    DEVICE int64_t column(int chunk) {
        return ((int64_t)chunk * THREADS + thread()) * VEC;
    }
    DEVICE float sum(float x) {
        return block_sum<THREADS>(x);
    }
    DEVICE void sums(float &x, float &y) {
        block_sums<THREADS>(x, y);
    }
};

// --- dropout ------------------------------------------------------------------------------------

// The coordinates of a row in a mask (core/rng.h).
struct mask_row {
    uint64_t key;
    uint32_t position, global_index, step, threshold; // threshold 0: nothing is dropped
    float scale;
};

DEVICE struct mask_row mask_row_of(const struct dropout &dropout, uint32_t head,
                                   int64_t global_index, int32_t position) {
    return mask_row{rng_dropout_key(&dropout, head),
                    (uint32_t)position,
                    (uint32_t)global_index,
                    dropout.step,
                    dropout.threshold,
                    rng_dropout_scale(dropout.threshold)};
}

// The coordinates of a row of the batch; slack rows have no mask.
DEVICE struct mask_row mask_row_of_batch(const struct dropout &dropout, const struct batch &batch,
                                         int64_t row) {
    const int32_t sequence = dropout.threshold != 0 ? batch.sequences[row] : -1;
    if (sequence < 0) {
        return mask_row{};
    }
    return mask_row_of(dropout, 0, batch.global_indices[sequence], batch.positions[row]);
}

DEVICE struct rng_block mask_block(const struct mask_row &row, uint32_t index) {
    const uint32_t counter[4] = {index, row.position, row.global_index, row.step};
    return rng_philox(row.key, counter);
}

// The word of a slot. Selects it without indexing, which would move the block to local memory.
DEVICE uint32_t mask_word(const struct rng_block &block, int slot) {
    const uint32_t low = slot < 2 ? block.word[0] : block.word[1];
    const uint32_t high = slot < 6 ? block.word[2] : block.word[3];
    return slot < 4 ? low : high;
}

DEVICE bool mask_keeps(const struct mask_row &row, const struct rng_block &block, int slot) {
    return (mask_word(block, slot) >> (16 * (slot % 2)) & 0xFFFFu) >= row.threshold;
}

// rng_dropout_keeps (core/rng.h) for one column
DEVICE bool mask_keeps_column(const struct mask_row &row, uint32_t column) {
    const struct rng_block block = mask_block(row, column / 128 * 16 + column % 16);
    return mask_keeps(row, block, (int)(column / 16 % 8));
}

// Bit i says whether column + i is kept, for the thread's VEC columns of a chunk. All threads of a
// warp must call this, even those without columns in the matrix. With eight columns, each thread
// draws the block for one of every 16 columns, and the warp exchanges the bits.
template <class G> DEVICE uint32_t mask_bits(const struct mask_row &row, int chunk) {
    if (row.threshold == 0) {
        return ~0u;
    }
    if (G::VEC == 1) {
        return mask_keeps_column(row, (uint32_t)G::column(chunk));
    }
    const int thread = G::thread(), lane = thread % GPU_WARP;
    const struct rng_block block = mask_block(row, (uint32_t)(chunk * G::THREADS + thread));
    uint64_t kept[8]; // of each slot, for all lanes
    // A slot's 16 bits are compared in the upper half of a word: what is below does not matter.
    const uint32_t dropped = (row.threshold << 16) - 1;
    GPU_UNROLL
    for (int slot = 0; slot < 8; slot++) {
        const uint32_t word = mask_word(block, slot) << (slot % 2 == 0 ? 16 : 0);
        kept[slot] = __ballot_sync(GPU_ALL_LANES, word > dropped);
    }
    GPU_UNROLL
    for (int bit = 4; bit > 0; bit /= 2) { // selects slot lane % 16 / 2, a bit of it at a time
        GPU_UNROLL
        for (int slot = 0; slot < bit; slot++) {
            kept[slot] = (lane & 2 * bit) != 0 ? kept[slot + bit] : kept[slot];
        }
    }
    return (uint32_t)(kept[0] >> (lane / 16 * 16 + lane % 2 * 8)) & 0xFFu;
}

template <int N> DEVICE void apply_mask(float (&x)[N], const struct mask_row &row, uint32_t bits) {
    if (row.threshold == 0) {
        return;
    }
    GPU_UNROLL
    for (int i = 0; i < N; i++) {
        x[i] = (bits & 1u << i) != 0 ? x[i] * row.scale : 0.0f;
    }
}

#endif
