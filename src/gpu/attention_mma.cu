// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores, in bf16 and f16, for heads of 32, 64 and 128 columns. The formulas are
// those of attention.cu.
//
// A block has BLOCK_ROWS rows of one head of one sequence, 16 for each warp: queries in the forward
// pass and for dQ, keys for dK and dV. It walks through the other side's rows in tiles and copies
// the next tile while it uses the current one. A warp's scores of a tile stay in registers, because
// the result of a product has the layout of the next product's operand.
#include "gpu/attention.h"
#include "gpu/mma.h"

#if GPU_HAS_MMA

#include <math.h>

enum {
    WARPS = 4,
    MMA_THREADS = WARPS * 32,
    BLOCK_ROWS = WARPS * 16,
    MASK_KEYS = 128, // keys covered by a mask's blocks (core/rng.h)
};

// Each row in shared memory is padded by 8 numbers, so that 8 rows are in different banks.
template <enum dtype TYPE_, int SIZE_, int TILE_> struct kernel_traits {
    static constexpr enum dtype TYPE = TYPE_;
    static constexpr int SIZE = SIZE_, TILE = TILE_; // columns of a head, rows of a tile
    static constexpr int STRIDE = SIZE_ + 8;
    static constexpr int TILE_NUMBERS = TILE_ * STRIDE, BLOCK_NUMBERS = BLOCK_ROWS * STRIDE;
};

DEVICE int lane_id(void) {
    return (int)threadIdx.x % 32;
}

DEVICE int warp_id(void) {
    return (int)threadIdx.x / 32;
}

// --- tiles --------------------------------------------------------------------------------------

// Starts to copy ROWS rows, from row `first` of the sequence on; rows after its last one become
// zeros.
template <class F, int ROWS>
DEVICE void start_copy_rows(uint16_t *to, const struct mat &m, const struct block_rows &block,
                            enum head_part part, int64_t first) {
    constexpr int VECTORS = F::SIZE / 8;
    const uint16_t *from = (const uint16_t *)m.data + head_index(m, block, part, first, 0);
    GPU_UNROLL
    for (int i = (int)threadIdx.x; i < ROWS * VECTORS; i += MMA_THREADS) {
        const int row = i / VECTORS, column = i % VECTORS * 8;
        gpu_copy_start<16>(to + row * F::STRIDE + column, from + row * m.stride + column,
                           first + row < block.length);
    }
}

// sums [16, TILE] = rows [16, SIZE] * tile [TILE, SIZE]^T
template <class F>
DEVICE void multiply(float (&sums)[F::TILE / 8][4], const uint16_t *rows, const uint16_t *tile) {
    const int lane = lane_id();
    rows += lane % 16 * F::STRIDE + lane / 16 * 8;
    tile += (lane / 16 * 8 + lane % 8) * F::STRIDE + lane / 8 % 2 * 8;
    GPU_UNROLL
    for (int n = 0; n < F::TILE / 8; n++) {
        GPU_UNROLL
        for (int i = 0; i < 4; i++) {
            sums[n][i] = 0.0f;
        }
    }
    GPU_UNROLL
    for (int k = 0; k < F::SIZE; k += 16) {
        uint32_t a[4], b[4];
        gpu_load_matrices(a, rows + k);
        GPU_UNROLL
        for (int n = 0; n < F::TILE; n += 16) {
            gpu_load_matrices(b, tile + n * F::STRIDE + k);
            gpu_mma<F::TYPE>(sums[n / 8], a, b[0], b[1]);
            gpu_mma<F::TYPE>(sums[n / 8 + 1], a, b[2], b[3]);
        }
    }
}

// sums [16, SIZE] += x [16, TILE] * tile [TILE, SIZE]
template <class F>
DEVICE void add_product(float (&sums)[F::SIZE / 8][4], const float (&x)[F::TILE / 8][4],
                        const uint16_t *tile) {
    const int lane = lane_id();
    tile += lane % 16 * F::STRIDE + lane / 16 * 8;
    GPU_UNROLL
    for (int k = 0; k < F::TILE; k += 16) {
        uint32_t a[4], b[4];
        GPU_UNROLL
        for (int i = 0; i < 4; i++) {
            const float(&from)[4] = x[k / 8 + i / 2];
            a[i] = gpu_pack<F::TYPE>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
        }
        GPU_UNROLL
        for (int n = 0; n < F::SIZE; n += 16) {
            gpu_load_transposed(b, tile + k * F::STRIDE + n);
            gpu_mma<F::TYPE>(sums[n / 8], a, b[0], b[1]);
            gpu_mma<F::TYPE>(sums[n / 8 + 1], a, b[2], b[3]);
        }
    }
}

template <int COUNT> DEVICE void clear(float (&sums)[COUNT][4]) {
    GPU_UNROLL
    for (int n = 0; n < COUNT; n++) {
        GPU_UNROLL
        for (int i = 0; i < 4; i++) {
            sums[n][i] = 0.0f;
        }
    }
}

// Stores the warp's 16 rows through shared memory `rows`, which only this warp uses. Each lane
// scales its two rows by `factor`.
template <class F>
DEVICE void store_rows(const struct mat &m, const struct block_rows &block, enum head_part part,
                       uint16_t *rows, const float (&sums)[F::SIZE / 8][4],
                       const float (&factor)[2]) {
    const int lane = lane_id();
    uint16_t *own = rows + lane / 4 * F::STRIDE + lane % 4 * 2;
    __syncwarp();
    GPU_UNROLL
    for (int n = 0; n < F::SIZE / 8; n++) {
        GPU_UNROLL
        for (int half = 0; half < 2; half++) {
            *(uint32_t *)(own + half * 8 * F::STRIDE + n * 8) = gpu_pack<F::TYPE>(
                sums[n][half * 2] * factor[half], sums[n][half * 2 + 1] * factor[half]);
        }
    }
    __syncwarp();
    constexpr int VECTORS = F::SIZE / 8;
    GPU_UNROLL
    for (int i = lane; i < 16 * VECTORS; i += 32) {
        const int64_t row = block.first_row + warp_id() * 16 + i / VECTORS;
        const int column = i % VECTORS * 8;
        if (row < block.length) {
            gpu_write16((uint16_t *)m.data + head_index(m, block, part, row, column),
                        gpu_read16(rows + i / VECTORS * F::STRIDE + column));
        }
    }
}

// --- dropout ------------------------------------------------------------------------------------

// For rows that are queries: the mask of the lane's two queries by MASK_KEYS keys. In the tile that
// begins at key `first`, number i of column tile n of query `half` is bit
// (first % MASK_KEYS) / 4 + 2n + i % 2.
struct row_mask {
    uint32_t kept[2];
};

DEVICE struct row_mask draw_row_mask(const struct mask_row &first_query, int64_t first_key) {
    struct row_mask mask = {{0, 0}};
    GPU_UNROLL
    for (int i = 0; i < 8; i++) {
        const int half = i / 4, key = i % 4;
        struct mask_row query = first_query;
        query.position += 8 * half;
        const struct rng_block block = mask_block(
            query, (uint32_t)(first_key / 8 + key / 2 * 8 + lane_id() % 4 * 2 + key % 2));
        GPU_UNROLL
        for (int slot = 0; slot < 8; slot++) {
            mask.kept[half] |= (uint32_t)mask_keeps(query, block, slot) << (slot * 4 + key);
        }
    }
    return mask;
}

// For rows that are keys: [16, TILE] bytes in shared memory, one for the keys of each remainder
// modulo 16 and each query of a tile; a byte has a bit for each slot of a mask's block.
template <class F> struct key_mask {
    static constexpr int STRIDE = F::TILE + 8;
    static constexpr int BYTES = 16 * STRIDE;

    DEVICE void draw(uint8_t *bytes, const struct mask_row &first_query, int64_t first_key) {
        const int key = (int)threadIdx.x % 16;
        const uint32_t index = (uint32_t)(first_key / MASK_KEYS * 16 + key);
        GPU_UNROLL
        for (int i = (int)threadIdx.x / 16; i < F::TILE; i += MMA_THREADS / 16) {
            struct mask_row query = first_query;
            query.position += (uint32_t)i;
            const struct rng_block block = mask_block(query, index);
            uint32_t kept = 0;
            GPU_UNROLL
            for (int slot = 0; slot < 8; slot++) {
                kept |= (uint32_t)mask_keeps(query, block, slot) << slot;
            }
            bytes[key * STRIDE + i] = (uint8_t)kept;
        }
    }
};

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

// The running softmax of a lane's two queries: the largest score, the lane's part of the sum of
// exponentials, and the weighted sum of values.
template <class F> struct running_softmax { float max_score[2], sum[2], out[F::SIZE / 8][4]; };

static constexpr float LOG2_E = 1.44269504f;

// Turns scores of a tile, whose first `rows` keys belong to the sequence, into probabilities
// relative to the largest score so far. scale: from scores to exponents of two.
template <class F>
DEVICE void update_softmax(struct running_softmax<F> &r, float (&scores)[F::TILE / 8][4],
                           int64_t rows, float scale) {
    const int column = lane_id() % 4 * 2;
    float max_score[2] = {r.max_score[0], r.max_score[1]}, shrink[2];
    GPU_UNROLL
    for (int i = 0; i < F::TILE / 2; i++) {
        float &score = scores[i / 4][i % 4];
        score = i / 4 * 8 + column + i % 2 < rows ? score : -INFINITY;
        max_score[i % 4 / 2] = fmaxf(max_score[i % 4 / 2], score);
    }
    GPU_UNROLL
    for (int half = 0; half < 2; half++) {
        max_score[half] = quad_max(max_score[half]);
        shrink[half] = gpu_exp2((r.max_score[half] - max_score[half]) * scale);
        r.max_score[half] = max_score[half];
        r.sum[half] *= shrink[half];
    }
    GPU_UNROLL
    for (int i = 0; i < F::TILE / 2; i++) {
        float &score = scores[i / 4][i % 4];
        score = gpu_exp2(score * scale - max_score[i % 4 / 2] * scale);
        r.sum[i % 4 / 2] += score;
    }
    GPU_UNROLL
    for (int i = 0; i < F::SIZE / 2; i++) {
        r.out[i / 4][i % 4] *= shrink[i % 4 / 2];
    }
}

// Zeroes the dropped probabilities; the others are scaled at the end.
template <class F>
DEVICE void apply_mask(float (&probabilities)[F::TILE / 8][4], const struct row_mask &mask,
                       int64_t first) {
    GPU_UNROLL
    for (int half = 0; half < 2; half++) {
        const uint32_t kept = mask.kept[half] >> (first % MASK_KEYS / 4);
        GPU_UNROLL
        for (int i = 0; i < F::TILE / 4; i++) {
            float &p = probabilities[i / 2][half * 2 + i % 2];
            p = kept >> i & 1 ? p : 0.0f;
        }
    }
}

template <class F> static constexpr size_t forward_shared_bytes(void) {
    return (F::BLOCK_NUMBERS + 4 * F::TILE_NUMBERS) * sizeof(uint16_t);
}

template <class F>
__global__ void __launch_bounds__(MMA_THREADS)
    attention_mma_forward_kernel(struct attention_args a, struct batch batch) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    const struct block_rows block = find_block_rows<BLOCK_ROWS>(batch, a.context.cols, a.heads);
    if (block.first_row >= block.length) {
        return;
    }
    uint16_t *rows = memory + warp_id() * 16 * F::STRIDE, *tiles = memory + F::BLOCK_NUMBERS;
    const int64_t query =
        block.first_row + warp_id() * 16 + lane_id() / 4; // and the eighth after it
    const struct mask_row masks = query_mask(a.dropout, batch, block, query);
    struct row_mask mask = {{0, 0}};
    struct running_softmax<F> r = {
        {-INFINITY, -INFINITY}, {0.0f, 0.0f}, {
        }
    };
    clear(r.out);
    start_copy_rows<F, BLOCK_ROWS>(memory, a.qkv, block, PART_QUERY, block.first_row);
    start_copy_rows<F, F::TILE>(tiles, a.qkv, block, PART_KEY, 0);
    start_copy_rows<F, F::TILE>(tiles + F::TILE_NUMBERS, a.qkv, block, PART_VALUE, 0);
    for (int64_t first = 0; first < block.length; first += F::TILE) {
        const int64_t next = first + F::TILE;
        const uint16_t *tile = tiles + first / F::TILE % 2 * 2 * F::TILE_NUMBERS;
        gpu_copies_wait();
        __syncthreads();
        if (next < block.length) {
            uint16_t *to = tiles + next / F::TILE % 2 * 2 * F::TILE_NUMBERS;
            start_copy_rows<F, F::TILE>(to, a.qkv, block, PART_KEY, next);
            start_copy_rows<F, F::TILE>(to + F::TILE_NUMBERS, a.qkv, block, PART_VALUE, next);
        }
        float scores[F::TILE / 8][4];
        multiply<F>(scores, rows, tile);
        update_softmax<F>(r, scores, block.length - first, block.scale * LOG2_E);
        if (masks.threshold != 0) {
            if (first % MASK_KEYS == 0) {
                mask = draw_row_mask(masks, first);
            }
            apply_mask<F>(scores, mask, first);
        }
        add_product<F>(r.out, scores, tile + F::TILE_NUMBERS);
    }
    const float factor = rng_dropout_scale(masks.threshold);
    float factors[2];
    GPU_UNROLL
    for (int half = 0; half < 2; half++) {
        const float sum = quad_sum(r.sum[half]);
        const int64_t row = query + half * 8;
        factors[half] = factor / sum;
        if (a.lse != NULL && lane_id() % 4 == 0 && row < block.length) {
            a.lse[head_number_index(block, row)] = r.max_score[half] * block.scale + logf(sum);
        }
    }
    store_rows<F>(a.context, block, PART_CONTEXT, rows, r.out, factors);
}

// --- backward -----------------------------------------------------------------------------------

// Shared memory of the backward pass: two matrices of the block's rows; two buffers, each with two
// matrices of a tile's rows; two buffers, each with lse, delta and mask of a tile's queries.
template <class F> struct backward_memory {
    static constexpr int TILES = 2 * F::BLOCK_NUMBERS; // first number of 16 bits
    static constexpr int QUERIES = TILES + 4 * F::TILE_NUMBERS;
    static constexpr int MASKS = QUERIES + 2 * 2 * F::TILE * 2;
    static constexpr size_t BYTES =
        (size_t)MASKS * sizeof(uint16_t) + 2 * (size_t)key_mask<F>::BYTES;
};

// Starts to copy the rows of one side: q and dO of queries, or k and v of keys.
template <class F, int ROWS>
DEVICE void start_copy_side(uint16_t *to, const struct attention_grad_args &a,
                            const struct block_rows &block, bool keys, int64_t first) {
    start_copy_rows<F, ROWS>(to, a.qkv, block, keys ? PART_KEY : PART_QUERY, first);
    start_copy_rows<F, ROWS>(to + ROWS * F::STRIDE, keys ? a.qkv : a.dcontext, block,
                             keys ? PART_VALUE : PART_CONTEXT, first);
}

// Starts to copy lse and delta of a tile's queries.
template <class F>
DEVICE void start_copy_numbers(float *to, const float *lse, const float *delta,
                               const struct block_rows &block, int64_t first) {
    const int i = (int)threadIdx.x % F::TILE, which = (int)threadIdx.x / F::TILE;
    if (which < 2) {
        gpu_copy_start<4>(to + which * F::TILE + i,
                          (which == 0 ? lse : delta) + head_number_index(block, first + i),
                          first + i < block.length);
    }
}

// Turns a score and the gradient of its probability into the probability after dropout, not yet
// multiplied by the factor of kept ones, and the gradient of the score, not yet scaled.
struct pair_numbers {
    float lse, delta; // of the query
    float scale, factor;
    bool exists, kept;
};

DEVICE void update_pair(float &score, float &dprobability, const struct pair_numbers &n) {
    const float p = n.exists ? gpu_exp2(score * n.scale - n.lse * LOG2_E) : 0.0f;
    score = n.kept ? p : 0.0f;
    dprobability = p * ((n.kept ? dprobability * n.factor : 0.0f) - n.delta);
}

// dQ if the block's rows are queries, dK and dV if they are keys.
template <class F, bool KEYS>
__global__ void __launch_bounds__(MMA_THREADS)
    attention_mma_backward_kernel(struct attention_grad_args a, struct batch batch,
                                  const float *delta) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    using shared = backward_memory<F>;
    const struct block_rows block = find_block_rows<BLOCK_ROWS>(batch, a.context.cols, a.heads);
    if (block.first_row >= block.length) {
        return;
    }
    uint16_t *rows = memory + warp_id() * 16 * F::STRIDE, *tiles = memory + shared::TILES;
    float *numbers = (float *)(memory + shared::QUERIES);
    uint8_t *key_masks = (uint8_t *)(memory + shared::MASKS);
    const int64_t own = block.first_row + warp_id() * 16 + lane_id() / 4; // and the eighth after it
    const int column = lane_id() % 4 * 2;                                 // of a column tile
    const struct mask_row masks = query_mask(a.dropout, batch, block, KEYS ? 0 : own);
    struct row_mask mask = {{~0u, ~0u}};
    struct pair_numbers pair = {};
    float own_lse[2] = {}, own_delta[2] = {};
    float sums[F::SIZE / 8][4], value_sums[F::SIZE / 8][4];
    clear(sums);
    clear(value_sums);
    pair.scale = block.scale * LOG2_E;
    pair.factor = rng_dropout_scale(masks.threshold);
    pair.kept = true;
    GPU_UNROLL
    for (int half = 0; !KEYS && half < 2; half++) {
        if (own + half * 8 < block.length) {
            own_lse[half] = a.lse[head_number_index(block, own + half * 8)];
            own_delta[half] = delta[head_number_index(block, own + half * 8)];
        }
    }
    start_copy_side<F, BLOCK_ROWS>(memory, a, block, KEYS, block.first_row);
    start_copy_side<F, F::TILE>(tiles, a, block, !KEYS, 0);
    if (KEYS) {
        start_copy_numbers<F>(numbers, a.lse, delta, block, 0);
    }
    for (int64_t first = 0; first < block.length; first += F::TILE) {
        const int64_t next = first + F::TILE;
        const int current = (int)(first / F::TILE % 2), other = 1 - current;
        const uint16_t *tile = tiles + current * 2 * F::TILE_NUMBERS;
        const float *lse = numbers + current * 2 * F::TILE;
        uint8_t *key_mask_bytes = key_masks + current * key_mask<F>::BYTES;
        if (KEYS && masks.threshold != 0) {
            struct mask_row query = masks;
            query.position += (uint32_t)first;
            key_mask<F>::draw(key_mask_bytes, query, block.first_row);
        }
        gpu_copies_wait();
        __syncthreads();
        if (next < block.length) {
            start_copy_side<F, F::TILE>(tiles + other * 2 * F::TILE_NUMBERS, a, block, !KEYS, next);
            if (KEYS) {
                start_copy_numbers<F>(numbers + other * 2 * F::TILE, a.lse, delta, block, next);
            }
        }
        float scores[F::TILE / 8][4], gradients[F::TILE / 8][4];
        multiply<F>(scores, rows, tile);
        multiply<F>(gradients, rows + F::BLOCK_NUMBERS, tile + F::TILE_NUMBERS);
        if (!KEYS && masks.threshold != 0 && first % MASK_KEYS == 0) {
            mask = draw_row_mask(masks, first);
        }
        const int slot = (int)(block.first_row / 16 + warp_id()) % 8;
        GPU_UNROLL
        for (int i = 0; i < F::TILE / 2; i++) {
            const int n = i / 4, half = i % 4 / 2, at = n * 8 + column + i % 2; // in the tile
            pair.exists = first + at < block.length;
            pair.lse = KEYS ? lse[at] : own_lse[half];
            pair.delta = KEYS ? lse[F::TILE + at] : own_delta[half];
            if (masks.threshold != 0) {
                const uint32_t kept =
                    KEYS ? (uint32_t)
                                   key_mask_bytes[(lane_id() / 4 + half * 8) * key_mask<F>::STRIDE +
                                                  at] >>
                               slot
                         : mask.kept[half] >> (first % MASK_KEYS / 4 + n * 2 + i % 2);
                pair.kept = (kept & 1) != 0;
            }
            update_pair(scores[n][i % 4], gradients[n][i % 4], pair);
        }
        add_product<F>(sums, gradients, tile);
        if (KEYS) {
            add_product<F>(value_sums, scores, tile + F::TILE_NUMBERS);
        }
    }
    store_rows<F>(a.dqkv, block, KEYS ? PART_KEY : PART_QUERY, rows, sums,
                  {block.scale, block.scale});
    if (KEYS) {
        store_rows<F>(a.dqkv, block, PART_VALUE, rows + F::BLOCK_NUMBERS, value_sums,
                      {pair.factor, pair.factor});
    }
}

// --- costs --------------------------------------------------------------------------------------

template <class F> static gpu_cost forward_cost(struct attention_args a, struct batch batch) {
    return attention_forward_cost(a, batch, attention_pairs<BLOCK_ROWS, F::TILE>(batch));
}

template <class F, bool KEYS>
static gpu_cost backward_cost(struct attention_grad_args a, struct batch batch, const float *) {
    return attention_backward_cost(a, batch, attention_pairs<BLOCK_ROWS, F::TILE>(batch), KEYS);
}

// --- launches -----------------------------------------------------------------------------------

// TILE_128: the rows of a tile for heads of 128 columns.
template <enum dtype TYPE, int TILE_128, class Run> static bool with_size(int64_t size, Run run) {
    switch (size) {
    case 32:
        run(kernel_traits<TYPE, 32, 64>());
        return true;
    case 64:
        run(kernel_traits<TYPE, 64, 64>());
        return true;
    case 128:
        run(kernel_traits<TYPE, 128, TILE_128>());
        return true;
    default:
        return false;
    }
}

// Calls run(traits); false: tensor cores do not support these matrices.
template <int TILE_128, class Run>
static bool with_traits(const struct mat *mats, int count, int64_t size, Run run) {
    for (int i = 0; i < count; i++) {
        if ((uintptr_t)mats[i].data % 16 != 0 || mats[i].stride % 8 != 0) {
            return false;
        }
    }
    return mats[0].dtype == DTYPE_BF16  ? with_size<DTYPE_BF16, TILE_128>(size, run)
           : mats[0].dtype == DTYPE_F16 ? with_size<DTYPE_F16, TILE_128>(size, run)
                                        : false;
}

bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch) {
    const struct mat mats[] = {args->qkv, args->context};
    const int64_t heads = args->heads, blocks = attention_blocks<BLOCK_ROWS>(batch, heads);
    return with_traits<64>(mats, 2, args->context.cols / heads, [&](auto traits) {
        using F = decltype(traits);
        gpu_run(gpu, {"attention_mma_forward", blocks, MMA_THREADS, forward_shared_bytes<F>()},
                attention_mma_forward_kernel<F>, forward_cost<F>, *args, *batch);
    });
}

bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, const float *delta) {
    const struct mat mats[] = {args->qkv, args->dcontext, args->dqkv};
    const int64_t heads = args->heads, blocks = attention_blocks<BLOCK_ROWS>(batch, heads);
    return with_traits<32>(mats, 3, args->context.cols / heads, [&](auto traits) {
        using F = decltype(traits);
        const size_t shared = backward_memory<F>::BYTES;
        gpu_run(gpu, {"attention_mma_dquery", blocks, MMA_THREADS, shared},
                attention_mma_backward_kernel<F, false>, backward_cost<F, false>, *args, *batch,
                delta);
        gpu_run(gpu, {"attention_mma_dkey", blocks, MMA_THREADS, shared},
                attention_mma_backward_kernel<F, true>, backward_cost<F, true>, *args, *batch,
                delta);
    });
}

#else

bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch) {
    return false;
}

bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, const float *delta) {
    return false;
}

#endif
