// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention on tensor cores share (attention_mma.cu,
// attention_mma_backward.cu): tiles in shared memory, products of a warp's rows with a tile, masks,
// the walk through keys, and the choice of a kernel's traits. If GPU_HAS_MMA is 0, there is nothing
// here.
//
// A block has some rows of one head of one sequence, which are divided among its warps: queries in
// the forward pass and for dQ, keys for dK and dV. It walks through the other side's rows in tiles
// and copies the next tile while it uses the current one. A warp's scores of a tile stay in
// registers, because the result of a product has the layout of the next product's operand. A warp
// without rows only copies, and of the last tile only the steps that exist are used. The traits say
// whether each warp multiplies for itself or the four of a warpgroup do together.
#ifndef BERTH_GPU_ATTENTION_MMA_H
#define BERTH_GPU_ATTENTION_MMA_H

#include "device/gpu/attention.h"
#include "device/gpu/mma.h"

#if GPU_HAS_MMA

#include <math.h>
#include <type_traits>

enum { MASK_KEYS = 128 }; // of 16 bytes of a mask's row

// SIZE: columns of a head; TILE: rows of a tile, of which STEP are used at a time; WARPS: of a
// block; GROUPS: groups of 16 rows of a warp; HOLDS: a warp keeps its rows' fragments in registers;
// WARPGROUPS: the unit that multiplies is a warpgroup, otherwise a warp; UNIT_ROWS: its rows;
// BLOCKS: how many must fit on a multiprocessor (0: as the compiler likes).
template <enum dtype TYPE_, int SIZE_, int TILE_, int STEP_, int WARPS, int GROUPS_, bool HOLDS_,
          bool WARPGROUPS_, int BLOCKS_>
struct kernel_traits {
    static constexpr enum dtype TYPE = TYPE_;
    static constexpr int SIZE = SIZE_, TILE = TILE_, STEP = STEP_, GROUPS = GROUPS_;
    static constexpr bool HOLDS = HOLDS_, WARPGROUPS = WARPGROUPS_;
    static constexpr int STRIDE = WARPGROUPS_ ? SIZE_ : SIZE_ + 8;
    static constexpr int THREADS = 32 * WARPS, BLOCKS = BLOCKS_;
    static constexpr int WARP_ROWS = 16 * GROUPS_, BLOCK_ROWS = WARPS * WARP_ROWS;
    static constexpr int UNIT_ROWS = WARPGROUPS_ ? 4 * WARP_ROWS : WARP_ROWS;
    static constexpr int TILE_NUMBERS = TILE_ * STRIDE, BLOCK_NUMBERS = BLOCK_ROWS * STRIDE;
};

template <enum dtype TYPE, int SIZE, int TILE, int WARPS, int GROUPS, bool HOLDS>
using warp_traits = kernel_traits<TYPE, SIZE, TILE, 32, WARPS, GROUPS, HOLDS, false, 0>;

template <enum dtype TYPE, int TILE, int WARPS, int BLOCKS>
using warpgroup_traits = kernel_traits<TYPE, 64, TILE, 64, WARPS, 1, false, true, BLOCKS>;

// What a lane holds of a [16 GROUPS, COLUMNS] matrix: fragments C of mma.h.
template <int GROUPS, int COLUMNS> struct fragments { float of[GROUPS][COLUMNS / 8][4]; };

template <class F> using step_fragments = fragments<F::GROUPS, F::STEP>;
template <class F> using head_fragments = fragments<F::GROUPS, F::SIZE>;

DEVICE int lane_id(void) {
    return (int)threadIdx.x % 32;
}

DEVICE int warp_id(void) {
    return (int)threadIdx.x / 32;
}

// Whether this pass of the compiler has the products.
template <class F> DEVICE constexpr bool is_compiled(void) {
    return !F::WARPGROUPS || GPU_HAS_WGMMA;
}

// The number of this thread's unit in its block.
template <class F> DEVICE int unit_id(void) {
    if constexpr (F::WARPGROUPS) { // tells the compiler that all lanes have the same
        return __shfl_sync(GPU_ALL_LANES, warp_id(), 0) / 4;
    } else {
        return warp_id();
    }
}

// The unit's first row, counted within the sequence.
template <class F> DEVICE int unit_row(const struct block_rows &block) {
    return (int)block.first_row + unit_id<F>() * F::UNIT_ROWS;
}

template <int GROUPS, int COLUMNS> DEVICE void clear(fragments<GROUPS, COLUMNS> &sums) {
    GPU_UNROLL
    for (int i = 0; i < GROUPS * COLUMNS / 2; i++) {
        sums.of[i / 4 / (COLUMNS / 8)][i / 4 % (COLUMNS / 8)][i % 4] = 0.0f;
    }
}

// --- copies to shared memory --------------------------------------------------------------------

// Where a number of a matrix is in shared memory. Eight rows are in different banks: each is padded
// by 8 numbers, or they are swizzled as a warpgroup's products expect them (mma.h).
template <class F> DEVICE int place_of(int row, int column) {
    return F::WARPGROUPS ? row * F::STRIDE + (column / 8 ^ row % 8) * 8 + column % 8
                         : row * F::STRIDE + column;
}

// Where a thread finds the vectors of 16 bytes that it copies of a matrix: every STEP_ROWS-th row.
template <class F> struct row_source {
    static constexpr int VECTORS = F::SIZE / 8, STEP_ROWS = F::THREADS / VECTORS;
    const uint16_t *from; // its vector of the next rows to be copied
    int64_t stride;
    int row, offset; // its first row of these; the vector's place in shared memory
};

template <class F>
DEVICE struct row_source<F> find_rows(const struct mat &m, const struct block_rows &block,
                                      enum head_part part, int64_t first) {
    constexpr int VECTORS = row_source<F>::VECTORS;
    const int row = (int)threadIdx.x / VECTORS, column = (int)threadIdx.x % VECTORS * 8;
    return {(const uint16_t *)m.data + head_index(m, block, part, first + row, column), m.stride,
            row, place_of<F>(row, column)};
}

// Starts to copy the next ROWS rows, of which `left` belong to the sequence; the others become
// zeros.
template <class F, int ROWS>
DEVICE void start_copy(uint16_t *to, struct row_source<F> &source, int left) {
    constexpr int STEP_ROWS = row_source<F>::STEP_ROWS;
    static_assert(ROWS % STEP_ROWS == 0, "each thread copies equally many vectors");
    static_assert(STEP_ROWS % 8 == 0, "a thread's vectors have equal places in their rows");
    const uint16_t *from = source.from;
    GPU_UNROLL
    for (int i = 0; i < ROWS; i += STEP_ROWS) {
        gpu_copy_start<16>(to + source.offset + i * F::STRIDE, from, source.row + i < left);
        from += STEP_ROWS * source.stride;
    }
    source.from = from;
}

// Waits until all threads of the block have copied, and no longer use the other tile.
template <class F> DEVICE void wait_for_tile(void) {
    gpu_copies_wait();
    if constexpr (F::WARPGROUPS) {
        gpu_wgmma_publish();
    }
    __syncthreads();
}

// --- products -----------------------------------------------------------------------------------

// The rows of a warp or a warpgroup, the first operand of products: in shared memory, or held in
// registers.
template <class F> struct own_rows {
    const uint16_t *rows; // the warpgroup's first one, or the lane's address in the first fragment
    uint32_t held[F::HOLDS ? F::GROUPS : 1][F::HOLDS ? F::SIZE / 16 : 1][4];
};

// memory: the block's rows
template <class F> DEVICE void find_own_rows(struct own_rows<F> &own, const uint16_t *memory) {
    own.rows = memory + unit_id<F>() * F::UNIT_ROWS * F::STRIDE;
    if (!F::WARPGROUPS) {
        own.rows += lane_id() % 16 * F::STRIDE + lane_id() / 16 * 8;
    }
}

template <class F> DEVICE void hold_rows(struct own_rows<F> &own) {
    GPU_UNROLL
    for (int i = 0; F::HOLDS && i < F::GROUPS * F::SIZE / 16; i++) {
        const int m = i / (F::SIZE / 16), k = i % (F::SIZE / 16);
        gpu_load_matrices(own.held[m][k], own.rows + m * 16 * F::STRIDE + k * 16);
    }
}

// Number k of the fragments of group m.
template <class F>
DEVICE void load_own_fragment(uint32_t (&a)[4], const struct own_rows<F> &own, int m, int k) {
    if (!F::HOLDS) {
        gpu_load_matrices(a, own.rows + m * 16 * F::STRIDE + k * 16);
    }
    GPU_UNROLL
    for (int i = 0; F::HOLDS && i < 4; i++) {
        a[i] = own.held[F::HOLDS ? m : 0][F::HOLDS ? k : 0][i];
    }
}

// sums [WARP_ROWS, STEP] = own [WARP_ROWS, SIZE] * tile [STEP, SIZE]^T. Products of a warpgroup are
// only started: finish(sums) waits for them.
template <class F>
DEVICE void multiply(step_fragments<F> &sums, const struct own_rows<F> &own, const uint16_t *tile) {
    if constexpr (F::WARPGROUPS) {
        gpu_wgmma_begin();
        GPU_UNROLL
        for (int k = 0; k < F::SIZE / 16; k++) {
            gpu_wgmma_rows<F::TYPE>(sums.of[0], own.rows, tile, k, k > 0);
        }
        gpu_wgmma_commit();
        return;
    }
    const int lane = lane_id();
    tile += (lane / 16 * 8 + lane % 8) * F::STRIDE + lane / 8 % 2 * 8;
    clear(sums);
    GPU_UNROLL
    for (int k = 0; k < F::SIZE / 16; k++) {
        uint32_t a[F::GROUPS][4], b[F::STEP / 16][4];
        GPU_UNROLL
        for (int n = 0; n < F::STEP / 16; n++) {
            gpu_load_matrices(b[n], tile + n * 16 * F::STRIDE + k * 16);
        }
        GPU_UNROLL
        for (int m = 0; m < F::GROUPS; m++) {
            load_own_fragment<F>(a[m], own, m, k);
            GPU_UNROLL
            for (int n = 0; n < F::STEP / 16; n++) {
                gpu_mma<F::TYPE>(sums.of[m][2 * n], a[m], b[n][0], b[n][1]);
                gpu_mma<F::TYPE>(sums.of[m][2 * n + 1], a[m], b[n][2], b[n][3]);
            }
        }
    }
}

// Fragment k of x, rounded.
template <class F>
DEVICE void pack_fragment(uint32_t (&a)[4], const step_fragments<F> &x, int m, int k) {
    GPU_UNROLL
    for (int i = 0; i < 4; i++) {
        const float(&from)[4] = x.of[m][2 * k + i / 2];
        a[i] = gpu_pack<F::TYPE>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
    }
}

// sums [WARP_ROWS, SIZE] += x [WARP_ROWS, STEP] * tile [STEP, SIZE]. Products of a warpgroup are
// only started.
template <class F>
DEVICE void add_product(head_fragments<F> &sums, const step_fragments<F> &x, const uint16_t *tile) {
    if constexpr (F::WARPGROUPS) {
        uint32_t a[F::STEP / 16][4];
        GPU_UNROLL
        for (int k = 0; k < F::STEP / 16; k++) {
            pack_fragment<F>(a[k], x, 0, k);
        }
        gpu_wgmma_begin();
        GPU_UNROLL
        for (int k = 0; k < F::STEP / 16; k++) {
            gpu_wgmma_columns<F::TYPE>(sums.of[0], a[k], tile, k);
        }
        gpu_wgmma_commit();
        return;
    }
    const int lane = lane_id();
    tile += lane % 16 * F::STRIDE + lane / 16 * 8;
    GPU_UNROLL
    for (int k = 0; k < F::STEP / 16; k++) {
        uint32_t a[F::GROUPS][4], b[F::SIZE / 16][4];
        GPU_UNROLL
        for (int n = 0; n < F::SIZE / 16; n++) {
            gpu_load_transposed(b[n], tile + k * 16 * F::STRIDE + n * 16);
        }
        GPU_UNROLL
        for (int m = 0; m < F::GROUPS; m++) {
            pack_fragment<F>(a[m], x, m, k);
        }
        GPU_UNROLL
        for (int i = 0; i < F::SIZE / 16 * F::GROUPS; i++) {
            const int n = i / F::GROUPS, m = i % F::GROUPS;
            gpu_mma<F::TYPE>(sums.of[m][2 * n], a[m], b[n][0], b[n][1]);
            gpu_mma<F::TYPE>(sums.of[m][2 * n + 1], a[m], b[n][2], b[n][3]);
        }
    }
}

// Waits for all products that the warpgroup has started, of which these sums are some.
template <class F, int COLUMNS> DEVICE void finish(fragments<F::GROUPS, COLUMNS> &sums) {
    if constexpr (F::WARPGROUPS) {
        gpu_wgmma_wait();
        gpu_wgmma_receive(sums.of[0]);
    }
}

// Stores the warp's rows through shared memory `rows`, which only this warp uses. Number i of a
// fragment is multiplied by factor[group][i / 2].
template <class F>
DEVICE void store_rows(const struct mat &m, const struct block_rows &block, enum head_part part,
                       uint16_t *rows, const head_fragments<F> &sums,
                       const float (&factor)[F::GROUPS][2]) {
    constexpr int VECTORS = F::SIZE / 8, STEP_ROWS = 32 / VECTORS;
    const int lane = lane_id();
    __syncwarp();
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * F::SIZE / 4; i++) {
        const int group = i / (F::SIZE / 4), n = i / 2 % (F::SIZE / 8), half = i % 2;
        const float(&from)[4] = sums.of[group][n];
        uint16_t *to = rows + (group * 16 + half * 8) * F::STRIDE +
                       place_of<F>(lane / 4, n * 8 + lane % 4 * 2);
        *(uint32_t *)to = gpu_pack<F::TYPE>(from[half * 2] * factor[group][half],
                                            from[half * 2 + 1] * factor[group][half]);
    }
    __syncwarp();
    const int row = lane / VECTORS, column = lane % VECTORS * 8;
    const int64_t first = block.first_row + warp_id() * F::WARP_ROWS + row;
    const int left = (int)(block.length - first);
    uint16_t *to = (uint16_t *)m.data + head_index(m, block, part, first, column);
    GPU_UNROLL
    for (int i = 0; i < F::WARP_ROWS; i += STEP_ROWS) {
        if (i < left) {
            gpu_write16(to, gpu_read16(rows + place_of<F>(row + i, column)));
        }
        to += STEP_ROWS * m.stride;
    }
}

// store_rows with one factor for all rows.
template <class F>
DEVICE void store_scaled(const struct mat &m, const struct block_rows &block, enum head_part part,
                         uint16_t *rows, const head_fragments<F> &sums, float factor) {
    float factors[F::GROUPS][2];
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        factors[i / 2][i % 2] = factor;
    }
    store_rows<F>(m, block, part, rows, sums, factors);
}

// --- dropout ------------------------------------------------------------------------------------

// For rows that are queries: the bits of a tile's keys for the lane's rows.
template <class F> struct row_masks { uint32_t words[F::GROUPS][2][F::TILE / 32]; };

template <class F> struct row_masks_source {
    const uint32_t *from[F::GROUPS][2]; // of the next tile; a row that does not exist has another's
};

// query: the lane's first one, within the sequence
template <class F>
DEVICE struct row_masks_source<F> find_row_masks(const uint16_t *masks,
                                                 const struct block_rows &block, int64_t query) {
    struct row_masks_source<F> source;
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        const int64_t row = query + i * 8 < block.length ? query + i * 8 : block.length - 1;
        source.from[i / 2][i % 2] =
            (const uint32_t *)(masks + row * attention_mask_words(block.length));
    }
    return source;
}

template <class F>
DEVICE void load_masks(struct row_masks<F> &masks, struct row_masks_source<F> &source) {
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        GPU_UNROLL
        for (int k = 0; k < F::TILE / 32; k++) {
            masks.words[i / 2][i % 2][k] = source.from[i / 2][i % 2][k];
        }
        source.from[i / 2][i % 2] += F::TILE / 32;
    }
}

// A step's bits for the lane's rows.
template <class F> struct step_masks { uint32_t bits[F::GROUPS][2][F::STEP / 32]; };

template <class F>
DEVICE void find_step_masks(struct step_masks<F> &step_masks, const struct row_masks<F> &masks,
                            int step) {
    constexpr int WORDS = F::STEP / 32;
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2 * WORDS; i++) {
        const int m = i / WORDS / 2, half = i / WORDS % 2;
        step_masks.bits[m][half][i % WORDS] =
            masks.words[m][half][step * WORDS + i % WORDS] >> lane_id() % 4 * 2;
    }
}

// Whether number i of column tile n is kept.
template <class F> DEVICE bool keeps(const struct step_masks<F> &masks, int m, int n, int i) {
    return (masks.bits[m][i / 2][n / 4] >> (n % 4 * 8 + i % 2) & 1) != 0;
}

// --- the walk through keys ----------------------------------------------------------------------

// For rows that are queries: keys, values and masks, a tile at a time.
template <class F> struct key_walk {
    uint16_t *tiles; // two buffers, each of a tile's keys and values
    struct row_source<F> keys, values;
    struct row_masks_source<F> masks_source;
    struct row_masks<F> next_masks;
    int buffer; // of the next tile
};

// Starts to copy the first tile. masks: those of the sequence and head; query: the lane's first one
template <class F, bool DROPS>
DEVICE void start_walk(struct key_walk<F> &walk, uint16_t *tiles, const struct mat &qkv,
                       const uint16_t *masks, const struct block_rows &block, int query) {
    const int length = (int)block.length;
    walk.tiles = tiles;
    walk.buffer = 0;
    walk.keys = find_rows<F>(qkv, block, PART_KEY, 0);
    walk.values = find_rows<F>(qkv, block, PART_VALUE, 0);
    start_copy<F, F::TILE>(tiles, walk.keys, length);
    start_copy<F, F::TILE>(tiles + F::TILE_NUMBERS, walk.values, length);
    if (DROPS) {
        walk.masks_source = find_row_masks<F>(masks, block, query);
        load_masks<F>(walk.next_masks, walk.masks_source);
    }
}

// Waits for the next tile, of which `left` keys and all after it are still to come, starts to copy
// the one after it, and returns it: keys, and TILE_NUMBERS further on values. All threads of the
// block call this together.
template <class F, bool DROPS>
DEVICE const uint16_t *next_tile(struct key_walk<F> &walk, struct row_masks<F> &masks, int left) {
    const uint16_t *tile = walk.tiles + walk.buffer * 2 * F::TILE_NUMBERS;
    walk.buffer = 1 - walk.buffer;
    wait_for_tile<F>();
    if (DROPS) {
        masks = walk.next_masks;
    }
    if (left > F::TILE) {
        uint16_t *to = walk.tiles + walk.buffer * 2 * F::TILE_NUMBERS;
        start_copy<F, F::TILE>(to, walk.keys, left - F::TILE);
        start_copy<F, F::TILE>(to + F::TILE_NUMBERS, walk.values, left - F::TILE);
        if (DROPS) {
            load_masks<F>(walk.next_masks, walk.masks_source);
        }
    }
    return tile;
}

// --- scores -------------------------------------------------------------------------------------

static constexpr float LOG2_E = 1.44269504f;

// Over the four lanes that share a fragment's row.
DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(GPU_ALL_LANES, x, 1);
    return x + __shfl_xor_sync(GPU_ALL_LANES, x, 2);
}

DEVICE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, 2));
}

// Scores of keys from number `left` on become minus infinity.
template <class F> DEVICE void exclude_keys(step_fragments<F> &scores, int left) {
    const int column = lane_id() % 4 * 2;
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * F::STEP / 2; i++) {
        const int n = i / 4 % (F::STEP / 8);
        float &score = scores.of[i / (F::STEP / 2)][n][i % 4];
        score = n * 8 + column + i % 2 < left ? score : -INFINITY;
    }
}

// --- costs and launches -------------------------------------------------------------------------

template <class F> static uint64_t pairs_of(const struct batch &batch) {
    return attention_pairs<F::UNIT_ROWS, F::STEP>(batch);
}

template <class T, class Run> static bool with_size(int64_t size, Run run) {
    switch (size) {
    case 32:
        run(typename T::template of<32>());
        return true;
    case 64:
        run(typename T::template of<64>());
        return true;
    case 128:
        run(typename T::template of<128>());
        return true;
    default:
        return false;
    }
}

// The traits of a kernel for heads of SIZE columns where the GPU has products of warpgroups.
template <class WARPGROUP, class WARPS>
using warpgroup_or_warps = std::conditional_t<WARPGROUP::SIZE == WARPS::SIZE, WARPGROUP, WARPS>;

template <template <enum dtype> class T, class Run>
static bool with_dtype(enum dtype dtype, int64_t size, Run run) {
    return dtype == DTYPE_BF16  ? with_size<T<DTYPE_BF16>>(size, run)
           : dtype == DTYPE_F16 ? with_size<T<DTYPE_F16>>(size, run)
                                : false;
}

// Calls run(traits), of WARPGROUPS if the GPU has products of warpgroups; false: tensor cores do
// not support these matrices, or the masks are not there.
template <template <enum dtype> class WARPS, template <enum dtype> class WARPGROUPS, class Run>
static bool with_traits(const struct gpu *gpu, const struct mat *mats, int count, int64_t size,
                        const uint16_t *masks, const struct dropout &dropout, Run run) {
    for (int i = 0; i < count; i++) {
        if ((uintptr_t)mats[i].data % 16 != 0 || mats[i].stride % 8 != 0) {
            return false;
        }
    }
    if (dropout.threshold != 0 && (masks == NULL || (uintptr_t)masks % 16 != 0)) {
        return false;
    }
    return gpu->uses_wgmma ? with_dtype<WARPGROUPS>(mats[0].dtype, size, run)
                           : with_dtype<WARPS>(mats[0].dtype, size, run);
}

// Calls run(drops) with an integral constant.
template <class Run> static void with_drops(const struct dropout &dropout, Run run) {
    if (dropout.threshold != 0) {
        run(std::true_type());
    } else {
        run(std::false_type());
    }
}

#endif

#endif
