// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores, in bf16 and f16, for heads of 32, 64 and 128 columns. The formulas are
// those of attention.cu.
//
// A block has some rows of one head of one sequence, which are divided among its warps: queries in
// the forward pass and for dQ, keys for dK and dV. It walks through the other side's rows in tiles
// and copies the next tile while it uses the current one. A warp's scores of a tile stay in
// registers, because the result of a product has the layout of the next product's operand. A warp
// without rows only copies, and of the last tile only the groups of 16 rows that exist are used.
#include "gpu/attention.h"
#include "gpu/mma.h"

#if GPU_HAS_MMA

#include <math.h>
#include <type_traits>

enum {
    STEP = 32,       // rows of a tile that are used at a time
    MASK_KEYS = 128, // keys of 16 bytes of a mask's row
};

// SIZE: columns of a head; TILE: rows of a tile; WARPS: of a block; GROUPS: groups of 16 rows of a
// warp; HOLDS: a warp keeps its rows' fragments in registers. Each row in shared memory is padded
// by 8 numbers, so that 8 rows are in different banks.
template <enum dtype TYPE_, int SIZE_, int TILE_, int WARPS, int GROUPS_, bool HOLDS_>
struct kernel_traits {
    static constexpr enum dtype TYPE = TYPE_;
    static constexpr int SIZE = SIZE_, TILE = TILE_, GROUPS = GROUPS_;
    static constexpr bool HOLDS = HOLDS_;
    static constexpr int STRIDE = SIZE_ + 8;
    static constexpr int THREADS = 32 * WARPS;
    static constexpr int WARP_ROWS = 16 * GROUPS_, BLOCK_ROWS = WARPS * WARP_ROWS;
    static constexpr int TILE_NUMBERS = TILE_ * STRIDE, BLOCK_NUMBERS = BLOCK_ROWS * STRIDE;
};

// What a lane holds of a [16 GROUPS, COLUMNS] matrix: fragments C of mma.h.
template <int GROUPS, int COLUMNS> struct fragments { float of[GROUPS][COLUMNS / 8][4]; };

template <class F> using step_fragments = fragments<F::GROUPS, STEP>;
template <class F> using head_fragments = fragments<F::GROUPS, F::SIZE>;

DEVICE int lane_id(void) {
    return (int)threadIdx.x % 32;
}

DEVICE int warp_id(void) {
    return (int)threadIdx.x / 32;
}

template <int GROUPS, int COLUMNS> DEVICE void clear(fragments<GROUPS, COLUMNS> &sums) {
    GPU_UNROLL
    for (int i = 0; i < GROUPS * COLUMNS / 2; i++) {
        sums.of[i / 4 / (COLUMNS / 8)][i / 4 % (COLUMNS / 8)][i % 4] = 0.0f;
    }
}

// --- copies to shared memory --------------------------------------------------------------------

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
            row, row *F::STRIDE + column};
}

// Starts to copy the next ROWS rows, of which `left` belong to the sequence; the others become
// zeros.
template <class F, int ROWS>
DEVICE void start_copy(uint16_t *to, struct row_source<F> &source, int left) {
    constexpr int STEP_ROWS = row_source<F>::STEP_ROWS;
    static_assert(ROWS % STEP_ROWS == 0, "each thread copies equally many vectors");
    const uint16_t *from = source.from;
    GPU_UNROLL
    for (int i = 0; i < ROWS; i += STEP_ROWS) {
        gpu_copy_start<16>(to + source.offset + i * F::STRIDE, from, source.row + i < left);
        from += STEP_ROWS * source.stride;
    }
    source.from = from;
}

// --- products -----------------------------------------------------------------------------------

// A warp's rows, the first operand of products: in shared memory, or held in registers.
template <class F> struct own_rows {
    const uint16_t *rows; // the lane's address in the first fragment
    uint32_t held[F::HOLDS ? F::GROUPS : 1][F::HOLDS ? F::SIZE / 16 : 1][4];
};

template <class F> DEVICE void find_own_rows(struct own_rows<F> &own, const uint16_t *rows) {
    own.rows = rows + lane_id() % 16 * F::STRIDE + lane_id() / 16 * 8;
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

// sums [WARP_ROWS, STEP] = own [WARP_ROWS, SIZE] * tile [STEP, SIZE]^T
template <class F>
DEVICE void multiply(step_fragments<F> &sums, const struct own_rows<F> &own, const uint16_t *tile) {
    const int lane = lane_id();
    tile += (lane / 16 * 8 + lane % 8) * F::STRIDE + lane / 8 % 2 * 8;
    clear(sums);
    GPU_UNROLL
    for (int k = 0; k < F::SIZE / 16; k++) {
        uint32_t a[F::GROUPS][4], b[STEP / 16][4];
        GPU_UNROLL
        for (int n = 0; n < STEP / 16; n++) {
            gpu_load_matrices(b[n], tile + n * 16 * F::STRIDE + k * 16);
        }
        GPU_UNROLL
        for (int m = 0; m < F::GROUPS; m++) {
            load_own_fragment<F>(a[m], own, m, k);
            GPU_UNROLL
            for (int n = 0; n < STEP / 16; n++) {
                gpu_mma<F::TYPE>(sums.of[m][2 * n], a[m], b[n][0], b[n][1]);
                gpu_mma<F::TYPE>(sums.of[m][2 * n + 1], a[m], b[n][2], b[n][3]);
            }
        }
    }
}

// sums [WARP_ROWS, SIZE] += x [WARP_ROWS, STEP] * tile [STEP, SIZE]
template <class F>
DEVICE void add_product(head_fragments<F> &sums, const step_fragments<F> &x, const uint16_t *tile) {
    const int lane = lane_id();
    tile += lane % 16 * F::STRIDE + lane / 16 * 8;
    GPU_UNROLL
    for (int k = 0; k < STEP / 16; k++) {
        uint32_t a[F::GROUPS][4], b[F::SIZE / 16][4];
        GPU_UNROLL
        for (int n = 0; n < F::SIZE / 16; n++) {
            gpu_load_transposed(b[n], tile + k * 16 * F::STRIDE + n * 16);
        }
        GPU_UNROLL
        for (int i = 0; i < F::GROUPS * 4; i++) {
            const float(&from)[4] = x.of[i / 4][2 * k + i % 4 / 2];
            a[i / 4][i % 4] = gpu_pack<F::TYPE>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
        }
        GPU_UNROLL
        for (int i = 0; i < F::SIZE / 16 * F::GROUPS; i++) {
            const int n = i / F::GROUPS, m = i % F::GROUPS;
            gpu_mma<F::TYPE>(sums.of[m][2 * n], a[m], b[n][0], b[n][1]);
            gpu_mma<F::TYPE>(sums.of[m][2 * n + 1], a[m], b[n][2], b[n][3]);
        }
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
    uint16_t *own = rows + lane / 4 * F::STRIDE + lane % 4 * 2;
    __syncwarp();
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * F::SIZE / 4; i++) {
        const int group = i / (F::SIZE / 4), n = i / 2 % (F::SIZE / 8), half = i % 2;
        const float(&from)[4] = sums.of[group][n];
        *(uint32_t *)(own + (group * 16 + half * 8) * F::STRIDE + n * 8) = gpu_pack<F::TYPE>(
            from[half * 2] * factor[group][half], from[half * 2 + 1] * factor[group][half]);
    }
    __syncwarp();
    const int row = lane / VECTORS, column = lane % VECTORS * 8;
    const int64_t first = block.first_row + warp_id() * F::WARP_ROWS + row;
    const int left = (int)(block.length - first);
    uint16_t *to = (uint16_t *)m.data + head_index(m, block, part, first, column);
    GPU_UNROLL
    for (int i = 0; i < F::WARP_ROWS; i += STEP_ROWS) {
        if (i < left) {
            gpu_write16(to, gpu_read16(rows + (row + i) * F::STRIDE + column));
        }
        to += STEP_ROWS * m.stride;
    }
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

// Number i of column tile n of a step is bit n * 8 + i % 2.
template <class F>
DEVICE void find_step_masks(uint32_t (&bits)[F::GROUPS][2], const struct row_masks<F> &masks,
                            int step) {
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        bits[i / 2][i % 2] = masks.words[i / 2][i % 2][step] >> lane_id() % 4 * 2;
    }
}

// --- forward ------------------------------------------------------------------------------------

// Over the four lanes that share a fragment's row.
DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(GPU_ALL_LANES, x, 1);
    return x + __shfl_xor_sync(GPU_ALL_LANES, x, 2);
}

DEVICE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, 2));
}

// The running softmax of a lane's queries: the largest score, the lane's part of the sum of
// exponentials, and the weighted sum of values.
template <class F> struct running_softmax {
    float max_score[F::GROUPS][2], sum[F::GROUPS][2];
    head_fragments<F> out;
};

static constexpr float LOG2_E = 1.44269504f;

// Scores of keys from number `left` on become minus infinity.
template <class F> DEVICE void exclude_keys(step_fragments<F> &scores, int left) {
    const int column = lane_id() % 4 * 2;
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * STEP / 2; i++) {
        const int n = i / 4 % (STEP / 8);
        float &score = scores.of[i / (STEP / 2)][n][i % 4];
        score = n * 8 + column + i % 2 < left ? score : -INFINITY;
    }
}

// Turns scores into probabilities relative to the largest score so far. scale: from scores to
// exponents of two.
template <class F>
DEVICE void update_softmax(struct running_softmax<F> &r, step_fragments<F> &scores, float scale) {
    float shrink[F::GROUPS][2];
    bool shrinks = false;
    GPU_UNROLL
    for (int m = 0; m < F::GROUPS; m++) {
        float max_score[2] = {r.max_score[m][0], r.max_score[m][1]};
        GPU_UNROLL
        for (int i = 0; i < STEP / 2; i++) {
            max_score[i % 4 / 2] = fmaxf(max_score[i % 4 / 2], scores.of[m][i / 4][i % 4]);
        }
        GPU_UNROLL
        for (int half = 0; half < 2; half++) {
            max_score[half] = quad_max(max_score[half]);
            shrink[m][half] = gpu_exp2((r.max_score[m][half] - max_score[half]) * scale);
            shrinks |= max_score[half] != r.max_score[m][half];
            r.max_score[m][half] = max_score[half];
            r.sum[m][half] *= shrink[m][half];
        }
        GPU_UNROLL
        for (int i = 0; i < STEP / 2; i++) {
            float &score = scores.of[m][i / 4][i % 4];
            score = gpu_exp2(score * scale - max_score[i % 4 / 2] * scale);
            r.sum[m][i % 4 / 2] += score;
        }
    }
    if (__ballot_sync(GPU_ALL_LANES, shrinks) != 0) {
        GPU_UNROLL
        for (int i = 0; i < F::GROUPS * F::SIZE / 2; i++) {
            const int m = i / (F::SIZE / 2);
            r.out.of[m][i / 4 % (F::SIZE / 8)][i % 4] *= shrink[m][i % 4 / 2];
        }
    }
}

// Zeroes the dropped probabilities; the others are scaled at the end.
template <class F>
DEVICE void apply_masks(step_fragments<F> &probabilities, const uint32_t (&bits)[F::GROUPS][2]) {
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * STEP / 2; i++) {
        const int m = i / (STEP / 2), n = i / 4 % (STEP / 8);
        float &p = probabilities.of[m][n][i % 4];
        p = bits[m][i % 4 / 2] >> (n * 8 + i % 2) & 1 ? p : 0.0f;
    }
}

template <class F> static constexpr size_t forward_shared_bytes(void) {
    return (F::BLOCK_NUMBERS + 4 * F::TILE_NUMBERS) * sizeof(uint16_t);
}

template <class F, bool DROPS>
__global__ void __launch_bounds__(F::THREADS)
    attention_mma_forward_kernel(struct attention_args a, struct batch batch) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    const struct block_rows block = find_block_rows<F::BLOCK_ROWS>(batch, a.context.cols, a.heads);
    if (block.first_row >= block.length) {
        return;
    }
    const int length = (int)block.length;
    const int warp_row = (int)block.first_row + warp_id() * F::WARP_ROWS;
    const int query = warp_row + lane_id() / 4; // and every eighth after it
    const float scale = block.scale * LOG2_E;
    uint16_t *rows = memory + warp_id() * F::WARP_ROWS * F::STRIDE,
             *tiles = memory + F::BLOCK_NUMBERS;
    struct row_source<F> queries = find_rows<F>(a.qkv, block, PART_QUERY, block.first_row),
                         keys = find_rows<F>(a.qkv, block, PART_KEY, 0),
                         values = find_rows<F>(a.qkv, block, PART_VALUE, 0);
    struct row_masks_source<F> masks_source = {};
    struct row_masks<F> masks = {}, next_masks = {};
    struct own_rows<F> own;
    struct running_softmax<F> r;
    clear(r.out);
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        r.max_score[i / 2][i % 2] = -INFINITY;
        r.sum[i / 2][i % 2] = 0.0f;
    }
    find_own_rows<F>(own, rows);
    start_copy<F, F::BLOCK_ROWS>(memory, queries, length - (int)block.first_row);
    start_copy<F, F::TILE>(tiles, keys, length);
    start_copy<F, F::TILE>(tiles + F::TILE_NUMBERS, values, length);
    if (DROPS) {
        masks_source = find_row_masks<F>(mask_rows(a.masks, batch, block), block, query);
        load_masks<F>(next_masks, masks_source);
    }
    for (int first = 0, other = 0; first < length; first += F::TILE) {
        const uint16_t *tile = tiles + other * 2 * F::TILE_NUMBERS;
        other = 1 - other;
        gpu_copies_wait();
        __syncthreads();
        masks = next_masks;
        if (first + F::TILE < length) {
            uint16_t *to = tiles + other * 2 * F::TILE_NUMBERS;
            start_copy<F, F::TILE>(to, keys, length - first - F::TILE);
            start_copy<F, F::TILE>(to + F::TILE_NUMBERS, values, length - first - F::TILE);
            if (DROPS) {
                load_masks<F>(next_masks, masks_source);
            }
        }
        if (warp_row >= length) {
            continue;
        }
        if (first == 0) {
            hold_rows<F>(own);
        }
        GPU_UNROLL
        for (int step = 0; step < F::TILE / STEP; step++) {
            const int left = length - first - step * STEP;
            if (left <= 0) {
                break;
            }
            step_fragments<F> scores;
            multiply<F>(scores, own, tile + step * STEP * F::STRIDE);
            if (left < STEP) {
                exclude_keys<F>(scores, left);
            }
            update_softmax<F>(r, scores, scale);
            if (DROPS) {
                uint32_t bits[F::GROUPS][2];
                find_step_masks<F>(bits, masks, step);
                apply_masks<F>(scores, bits);
            }
            add_product<F>(r.out, scores, tile + F::TILE_NUMBERS + step * STEP * F::STRIDE);
        }
    }
    if (warp_row >= length) {
        return;
    }
    const float factor = rng_dropout_scale(a.dropout.threshold);
    float factors[F::GROUPS][2];
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        const float sum = quad_sum(r.sum[i / 2][i % 2]);
        factors[i / 2][i % 2] = factor / sum;
        if (a.lse != NULL && lane_id() % 4 == 0 && query + i * 8 < length) {
            a.lse[head_number_index(block, query + i * 8)] =
                r.max_score[i / 2][i % 2] * block.scale + logf(sum);
        }
    }
    store_rows<F>(a.context, block, PART_CONTEXT, rows, r.out, factors);
}

// --- backward -----------------------------------------------------------------------------------

// Shared memory of the backward pass: two matrices of the block's rows; two buffers, each with two
// matrices of a tile's rows; two buffers, each with lse and delta of a tile's queries; two buffers
// of their masks.
template <class F> struct backward_memory {
    static constexpr int TILES = 2 * F::BLOCK_NUMBERS; // first number of 16 bits
    static constexpr int QUERIES = TILES + 4 * F::TILE_NUMBERS;
    static constexpr int MASKS = QUERIES + 2 * 2 * F::TILE * 2;
    static constexpr size_t BYTES = (size_t)(MASKS + 2 * 8 * F::TILE) * sizeof(uint16_t);
};

// What is needed of a query: lse to base 2, and delta; of all: scale to base 2, factor of what
// dropout keeps.
struct pair_numbers {
    float lse, delta, scale, factor;
};

// Turns a score and the gradient of its probability into the probability after dropout, not yet
// multiplied by the factor, and the gradient of the score, not yet scaled.
DEVICE void update_pair(float &score, float &dprobability, const struct pair_numbers &n,
                        bool kept) {
    const float p = gpu_exp2(score * n.scale - n.lse);
    score = kept ? p : 0.0f;
    dprobability = p * ((kept ? dprobability : 0.0f) * n.factor - n.delta);
}

// Some columns of the context of a lane's queries: those of one of the four lanes of a row.
template <class F> struct own_context {
    static constexpr int VECTORS = F::SIZE / 32;
    uint4 vectors[F::GROUPS][2][VECTORS];
};

// A row that does not exist has another's.
template <class F>
DEVICE void load_context(struct own_context<F> &own, const struct mat &context,
                         const struct block_rows &block, int query) {
    constexpr int VECTORS = own_context<F>::VECTORS;
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        const int64_t row = query + i * 8 < block.length ? query + i * 8 : block.length - 1;
        const uint16_t *from =
            (const uint16_t *)context.data +
            head_index(context, block, PART_CONTEXT, row, lane_id() % 4 * VECTORS * 8);
        GPU_UNROLL
        for (int k = 0; k < VECTORS; k++) {
            own.vectors[i / 2][i % 2][k] = gpu_read16(from + k * 8);
        }
    }
}

// The products of 8 numbers each of two vectors, added up.
template <enum dtype TYPE> DEVICE float dot_of_vectors(const uint4 &x, const uint4 &y) {
    const uint32_t xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
    float sum = 0.0f;
    GPU_UNROLL
    for (int i = 0; i < 4; i++) {
        float one[2], other[2];
        unpack_pair(one, xs[i], TYPE);
        unpack_pair(other, ys[i], TYPE);
        sum += one[0] * other[0] + one[1] * other[1];
    }
    return sum;
}

// rowsum(dO * O) of query i * 8 after the lane's first one; dcontext: the warp's rows of dO in
// shared memory
template <class F>
DEVICE float delta_of(const struct own_context<F> &own, const uint16_t *dcontext, int i) {
    constexpr int VECTORS = own_context<F>::VECTORS;
    dcontext += (lane_id() / 4 + i * 8) * F::STRIDE + lane_id() % 4 * VECTORS * 8;
    float sum = 0.0f;
    GPU_UNROLL
    for (int k = 0; k < VECTORS; k++) {
        sum += dot_of_vectors<F::TYPE>(own.vectors[i / 2][i % 2][k], gpu_read16(dcontext + k * 8));
    }
    return quad_sum(sum);
}

// dQ, and delta for the kernel of dK and dV.
template <class F, bool DROPS>
__global__ void __launch_bounds__(F::THREADS)
    attention_mma_dquery_kernel(struct attention_grad_args a, struct batch batch, float *delta) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    const struct block_rows block = find_block_rows<F::BLOCK_ROWS>(batch, a.context.cols, a.heads);
    if (block.first_row >= block.length) {
        return;
    }
    const int length = (int)block.length;
    const int warp_row = (int)block.first_row + warp_id() * F::WARP_ROWS;
    const int query = warp_row + lane_id() / 4; // and every eighth after it
    uint16_t *rows = memory + warp_id() * F::WARP_ROWS * F::STRIDE,
             *tiles = memory + backward_memory<F>::TILES;
    struct row_source<F> queries = find_rows<F>(a.qkv, block, PART_QUERY, block.first_row),
                         dcontext = find_rows<F>(a.dcontext, block, PART_CONTEXT, block.first_row),
                         keys = find_rows<F>(a.qkv, block, PART_KEY, 0),
                         values = find_rows<F>(a.qkv, block, PART_VALUE, 0);
    struct row_masks_source<F> masks_source = {};
    struct row_masks<F> masks = {}, next_masks = {};
    struct own_rows<F> own, own_gradients;
    struct own_context<F> context;
    struct pair_numbers pair[F::GROUPS][2];
    head_fragments<F> sums;
    clear(sums);
    find_own_rows<F>(own, rows);
    find_own_rows<F>(own_gradients, rows + F::BLOCK_NUMBERS);
    start_copy<F, F::BLOCK_ROWS>(memory, queries, length - (int)block.first_row);
    start_copy<F, F::BLOCK_ROWS>(memory + F::BLOCK_NUMBERS, dcontext,
                                 length - (int)block.first_row);
    start_copy<F, F::TILE>(tiles, keys, length);
    start_copy<F, F::TILE>(tiles + F::TILE_NUMBERS, values, length);
    if (DROPS) {
        masks_source = find_row_masks<F>(mask_rows(a.masks, batch, block), block, query);
        load_masks<F>(next_masks, masks_source);
    }
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        pair[i / 2][i % 2] = {0.0f, 0.0f, block.scale * LOG2_E,
                              rng_dropout_scale(a.dropout.threshold)};
        if (query + i * 8 < length) {
            pair[i / 2][i % 2].lse = a.lse[head_number_index(block, query + i * 8)] * LOG2_E;
        }
    }
    load_context<F>(context, a.context, block, query);
    for (int first = 0, other = 0; first < length; first += F::TILE) {
        const uint16_t *tile = tiles + other * 2 * F::TILE_NUMBERS;
        other = 1 - other;
        gpu_copies_wait();
        __syncthreads();
        masks = next_masks;
        if (first + F::TILE < length) {
            uint16_t *to = tiles + other * 2 * F::TILE_NUMBERS;
            start_copy<F, F::TILE>(to, keys, length - first - F::TILE);
            start_copy<F, F::TILE>(to + F::TILE_NUMBERS, values, length - first - F::TILE);
            if (DROPS) {
                load_masks<F>(next_masks, masks_source);
            }
        }
        if (warp_row >= length) {
            continue;
        }
        if (first == 0) {
            hold_rows<F>(own);
            hold_rows<F>(own_gradients);
            GPU_UNROLL
            for (int i = 0; i < F::GROUPS * 2; i++) {
                const float own_delta = delta_of<F>(context, rows + F::BLOCK_NUMBERS, i);
                pair[i / 2][i % 2].delta = own_delta;
                if (lane_id() % 4 == 0 && query + i * 8 < length) {
                    delta[head_number_index(block, query + i * 8)] = own_delta;
                }
            }
        }
        GPU_UNROLL
        for (int step = 0; step < F::TILE / STEP; step++) {
            const int left = length - first - step * STEP;
            if (left <= 0) {
                break;
            }
            const uint16_t *from = tile + step * STEP * F::STRIDE;
            step_fragments<F> scores, gradients;
            uint32_t bits[F::GROUPS][2] = {};
            multiply<F>(scores, own, from);
            multiply<F>(gradients, own_gradients, from + F::TILE_NUMBERS);
            if (left < STEP) {
                exclude_keys<F>(scores, left);
            }
            if (DROPS) {
                find_step_masks<F>(bits, masks, step);
            }
            GPU_UNROLL
            for (int i = 0; i < F::GROUPS * STEP / 2; i++) {
                const int m = i / (STEP / 2), n = i / 4 % (STEP / 8), k = i % 4;
                update_pair(scores.of[m][n][k], gradients.of[m][n][k], pair[m][k / 2],
                            !DROPS || (bits[m][k / 2] >> (n * 8 + k % 2) & 1) != 0);
            }
            add_product<F>(sums, gradients, from);
        }
    }
    if (warp_row >= length) {
        return;
    }
    float factors[F::GROUPS][2];
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        factors[i / 2][i % 2] = block.scale;
    }
    store_rows<F>(a.dqkv, block, PART_QUERY, rows, sums, factors);
}

// Where a thread finds what it copies of a tile's queries: lse, delta, and 16 bytes of a mask's row
// for the MASK_KEYS keys among which the block's are.
template <class F> struct query_source {
    const float *lse, *delta;
    const uint16_t *mask;
    int64_t number_step, mask_step; // from tile to tile
};

template <class F>
DEVICE struct query_source<F> find_queries(const struct attention_grad_args &a,
                                           const struct batch &batch,
                                           const struct block_rows &block, const float *delta) {
    static_assert(F::TILE <= F::THREADS, "a thread copies a query's numbers");
    const int row = (int)threadIdx.x % F::TILE;
    const int64_t words = attention_mask_words(block.length), index = head_number_index(block, row);
    struct query_source<F> source = {
        a.lse + index, delta + index, NULL, F::TILE *block.heads, F::TILE *words
    };
    if (a.dropout.threshold != 0) {
        source.mask =
            mask_rows(a.masks, batch, block) + row * words + block.first_row / MASK_KEYS * 8;
    }
    return source;
}

// numbers: lse and delta, [2, TILE]; masks: [TILE, 8]
template <class F, bool DROPS>
DEVICE void start_copy_queries(float *numbers, uint16_t *masks, struct query_source<F> &source,
                               int left) {
    const int row = (int)threadIdx.x;
    if (row >= F::TILE) {
        return;
    }
    gpu_copy_start<4>(numbers + row, source.lse, row < left);
    gpu_copy_start<4>(numbers + F::TILE + row, source.delta, row < left);
    source.lse += source.number_step;
    source.delta += source.number_step;
    if (DROPS) {
        gpu_copy_start<16>(masks + row * 8, source.mask, row < left);
        source.mask += source.mask_step;
    }
}

// Two neighbouring numbers of shared memory, the first at a multiple of 8 bytes.
DEVICE void load_two(float (&x)[2], const float *from) {
    const uint64_t both = *(const uint64_t *)from;
    x[0] = gpu_float((uint32_t)both);
    x[1] = gpu_float((uint32_t)(both >> 32));
}

// dK and dV. For a query after the last one all that it would add is zero.
template <class F, bool DROPS>
__global__ void __launch_bounds__(F::THREADS)
    attention_mma_dkey_kernel(struct attention_grad_args a, struct batch batch,
                              const float *delta) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    using shared = backward_memory<F>;
    const struct block_rows block = find_block_rows<F::BLOCK_ROWS>(batch, a.context.cols, a.heads);
    if (block.first_row >= block.length) {
        return;
    }
    const int length = (int)block.length;
    const int warp_row = (int)block.first_row + warp_id() * F::WARP_ROWS;
    uint16_t *rows = memory + warp_id() * F::WARP_ROWS * F::STRIDE, *tiles = memory + shared::TILES,
             *masks = memory + shared::MASKS;
    float *numbers = (float *)(memory + shared::QUERIES);
    struct row_source<F> keys = find_rows<F>(a.qkv, block, PART_KEY, block.first_row),
                         values = find_rows<F>(a.qkv, block, PART_VALUE, block.first_row),
                         queries = find_rows<F>(a.qkv, block, PART_QUERY, 0),
                         dcontext = find_rows<F>(a.dcontext, block, PART_CONTEXT, 0);
    struct query_source<F> query_numbers = find_queries<F>(a, batch, block, delta);
    struct own_rows<F> own, own_values;
    struct pair_numbers pair = {0.0f, 0.0f, block.scale * LOG2_E,
                                rng_dropout_scale(a.dropout.threshold)};
    head_fragments<F> sums, value_sums;
    clear(sums);
    clear(value_sums);
    find_own_rows<F>(own, rows);
    find_own_rows<F>(own_values, rows + F::BLOCK_NUMBERS);
    start_copy<F, F::BLOCK_ROWS>(memory, keys, length - (int)block.first_row);
    start_copy<F, F::BLOCK_ROWS>(memory + F::BLOCK_NUMBERS, values, length - (int)block.first_row);
    start_copy<F, F::TILE>(tiles, queries, length);
    start_copy<F, F::TILE>(tiles + F::TILE_NUMBERS, dcontext, length);
    start_copy_queries<F, DROPS>(numbers, masks, query_numbers, length);
    for (int first = 0, other = 0; first < length; first += F::TILE) {
        const uint16_t *tile = tiles + other * 2 * F::TILE_NUMBERS;
        const float *tile_numbers = numbers + other * 2 * F::TILE;
        const uint16_t *tile_masks = masks + other * 8 * F::TILE + warp_row % MASK_KEYS / 16;
        other = 1 - other;
        gpu_copies_wait();
        __syncthreads();
        if (first + F::TILE < length) {
            uint16_t *to = tiles + other * 2 * F::TILE_NUMBERS;
            const int left = length - first - F::TILE;
            start_copy<F, F::TILE>(to, queries, left);
            start_copy<F, F::TILE>(to + F::TILE_NUMBERS, dcontext, left);
            start_copy_queries<F, DROPS>(numbers + other * 2 * F::TILE, masks + other * 8 * F::TILE,
                                         query_numbers, left);
        }
        if (warp_row >= length) {
            continue;
        }
        if (first == 0) {
            hold_rows<F>(own);
            hold_rows<F>(own_values);
        }
        GPU_UNROLL
        for (int step = 0; step < F::TILE / STEP; step++) {
            if (length - first - step * STEP <= 0) {
                break;
            }
            const uint16_t *from = tile + step * STEP * F::STRIDE;
            step_fragments<F> scores, gradients;
            multiply<F>(scores, own, from);
            multiply<F>(gradients, own_values, from + F::TILE_NUMBERS);
            GPU_UNROLL
            for (int n = 0; n < STEP / 8; n++) {
                const int at = step * STEP + n * 8 + lane_id() % 4 * 2; // of the tile's queries
                float lse[2], deltas[2];
                load_two(lse, tile_numbers + at);
                load_two(deltas, tile_numbers + F::TILE + at);
                GPU_UNROLL
                for (int i = 0; i < 2; i++) {
                    uint32_t kept = ~0u;
                    if (DROPS) { // the words of two groups are neighbours
                        const uint16_t *word = tile_masks + (at + i) * 8;
                        kept = (F::GROUPS == 2 ? *(const uint32_t *)word : *word) >> lane_id() / 4;
                    }
                    pair.lse = lse[i] * LOG2_E;
                    pair.delta = deltas[i];
                    GPU_UNROLL
                    for (int m = 0; m < F::GROUPS * 2; m++) {
                        update_pair(scores.of[m / 2][n][m % 2 * 2 + i],
                                    gradients.of[m / 2][n][m % 2 * 2 + i], pair,
                                    !DROPS || (kept >> m * 8 & 1) != 0);
                    }
                }
            }
            add_product<F>(sums, gradients, from);
            add_product<F>(value_sums, scores, from + F::TILE_NUMBERS);
        }
    }
    if (warp_row >= length) {
        return;
    }
    float factors[F::GROUPS][2], value_factors[F::GROUPS][2];
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        factors[i / 2][i % 2] = block.scale;
        value_factors[i / 2][i % 2] = pair.factor;
    }
    store_rows<F>(a.dqkv, block, PART_KEY, rows, sums, factors);
    store_rows<F>(a.dqkv, block, PART_VALUE, rows + F::BLOCK_NUMBERS, value_sums, value_factors);
}

// --- costs --------------------------------------------------------------------------------------

template <class F> static uint64_t pairs_of(const struct batch &batch) {
    return attention_pairs<F::WARP_ROWS, STEP>(batch);
}

template <class F> static gpu_cost forward_cost(struct attention_args a, struct batch batch) {
    gpu_cost cost = attention_forward_cost(a, batch, pairs_of<F>(batch));
    cost.loads += attention_masks_cost<F::TILE>(a.dropout, batch, a.heads);
    return cost;
}

template <class F>
static gpu_cost dquery_cost(struct attention_grad_args a, struct batch batch, float *delta) {
    const int64_t tokens = batch.token_count;
    gpu_cost cost = attention_backward_cost(a, batch, pairs_of<F>(batch), false);
    cost.loads += attention_masks_cost<F::TILE>(a.dropout, batch, a.heads) +
                  cost_rows(a.context, tokens) - cost_words(delta, tokens * a.heads);
    cost.stores += cost_words(delta, tokens * a.heads);
    return cost;
}

template <class F>
static gpu_cost dkey_cost(struct attention_grad_args a, struct batch batch, const float *) {
    gpu_cost cost = attention_backward_cost(a, batch, pairs_of<F>(batch), true);
    cost.loads += attention_masks_cost<MASK_KEYS>(a.dropout, batch, a.heads);
    return cost;
}

// --- launches -----------------------------------------------------------------------------------

// The traits of a kernel for each size of heads, by what was fastest on a GPU of compute
// capability 9.0. Registers limit the blocks of a multiprocessor to 2 to 5.
template <enum dtype TYPE> struct forward_traits {
    template <int SIZE> using of = kernel_traits<TYPE, SIZE, 64, 4, 1, SIZE != 128>;
};

template <enum dtype TYPE> struct dquery_traits {
    template <int SIZE>
    using of = kernel_traits<TYPE, SIZE, SIZE == 128 ? 32 : 64, 4, 1, SIZE != 128>;
};

template <enum dtype TYPE> struct dkey_traits {
    template <int SIZE>
    using of = kernel_traits<TYPE, SIZE, SIZE == 128 ? 32 : 64, 4, SIZE == 128 ? 1 : 2, false>;
};

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

// Calls run(traits); false: tensor cores do not support these matrices, or the masks are not there.
template <template <enum dtype> class T, class Run>
static bool with_traits(const struct mat *mats, int count, int64_t size, const uint16_t *masks,
                        const struct dropout &dropout, Run run) {
    for (int i = 0; i < count; i++) {
        if ((uintptr_t)mats[i].data % 16 != 0 || mats[i].stride % 8 != 0) {
            return false;
        }
    }
    if (dropout.threshold != 0 && (masks == NULL || (uintptr_t)masks % 16 != 0)) {
        return false;
    }
    return mats[0].dtype == DTYPE_BF16  ? with_size<T<DTYPE_BF16>>(size, run)
           : mats[0].dtype == DTYPE_F16 ? with_size<T<DTYPE_F16>>(size, run)
                                        : false;
}

// Calls run(drops) with an integral constant.
template <class Run> static void with_drops(const struct dropout &dropout, Run run) {
    if (dropout.threshold != 0) {
        run(std::true_type());
    } else {
        run(std::false_type());
    }
}

bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch) {
    const struct mat mats[] = {args->qkv, args->context};
    const int64_t heads = args->heads, size = args->context.cols / heads;
    return with_traits<forward_traits>(mats, 2, size, args->masks, args->dropout, [&](auto traits) {
        using F = decltype(traits);
        const int64_t blocks = attention_blocks<F::BLOCK_ROWS>(batch, heads);
        with_drops(args->dropout, [&](auto drops) {
            gpu_run(gpu, {"attention_mma_forward", blocks, F::THREADS, forward_shared_bytes<F>()},
                    attention_mma_forward_kernel<F, decltype(drops)::value>, forward_cost<F>, *args,
                    *batch);
        });
    });
}

bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, float *delta) {
    const struct mat mats[] = {args->qkv, args->dcontext, args->dqkv, args->context};
    const int64_t heads = args->heads, size = args->context.cols / heads;
    const bool done =
        with_traits<dquery_traits>(mats, 4, size, args->masks, args->dropout, [&](auto traits) {
            using F = decltype(traits);
            const int64_t blocks = attention_blocks<F::BLOCK_ROWS>(batch, heads);
            with_drops(args->dropout, [&](auto drops) {
                gpu_run(gpu,
                        {"attention_mma_dquery", blocks, F::THREADS, backward_memory<F>::BYTES},
                        attention_mma_dquery_kernel<F, decltype(drops)::value>, dquery_cost<F>,
                        *args, *batch, delta);
            });
        });
    return done &&
           with_traits<dkey_traits>(mats, 4, size, args->masks, args->dropout, [&](auto traits) {
               using F = decltype(traits);
               const int64_t blocks = attention_blocks<F::BLOCK_ROWS>(batch, heads);
               with_drops(args->dropout, [&](auto drops) {
                   gpu_run(gpu,
                           {"attention_mma_dkey", blocks, F::THREADS, backward_memory<F>::BYTES},
                           attention_mma_dkey_kernel<F, decltype(drops)::value>, dkey_cost<F>,
                           *args, *batch, delta);
               });
           });
}

#else

bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch) {
    return false;
}

bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, float *delta) {
    return false;
}

#endif
