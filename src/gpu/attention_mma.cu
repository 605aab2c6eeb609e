// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores, in bf16 and f16, for heads of 32, 64 and 128 columns: as attention.cu,
// whose formulas hold here, with products of fragments.
//
// A block has OWN_ROWS rows of one head of one sequence, 16 a warp: queries in the forward pass and
// for dQ, keys for dK and dV. It walks through the other rows in tiles, of which the next is copied
// while one is used. A warp's scores of a tile stay in registers: a product's result has the layout
// of the next product's operand.
#include "gpu/attention.h"
#include "gpu/mma.h"

#if GPU_HAS_MMA

#include <math.h>

enum {
    WARPS = 4,
    MMA_THREADS = WARPS * 32,
    OWN_ROWS = WARPS * 16,
    MASK_KEYS = 128, // keys that a block of the mask's numbers serves (core/rng.h)
};

// Each row in shared memory is padded by 8 numbers, so that 8 rows fall into different banks.
template <enum dtype TYPE_, int SIZE_, int TILE_> struct form {
    static constexpr enum dtype TYPE = TYPE_;
    static constexpr int SIZE = SIZE_, TILE = TILE_; // columns of a head, rows of a tile
    static constexpr int STRIDE = SIZE_ + 8;
    static constexpr int TILE_NUMBERS = TILE_ * STRIDE, OWN_NUMBERS = OWN_ROWS * STRIDE;
};

DEVICE int lane_id(void) {
    return (int)threadIdx.x % 32;
}

DEVICE int warp_id(void) {
    return (int)threadIdx.x / 32;
}

// --- tiles --------------------------------------------------------------------------------------

// Starts the copy of ROWS rows from row `first` of the sequence; rows after its last become zeros.
template <class F, int ROWS>
DEVICE void start_rows(uint16_t *to, const struct mat &m, const struct head_place &place, int part,
                       int64_t first) {
    constexpr int VECTORS = F::SIZE / 8;
    const uint16_t *from = (const uint16_t *)m.data + head_index(m, place, part, first, 0);
    GPU_UNROLL
    for (int i = (int)threadIdx.x; i < ROWS * VECTORS; i += MMA_THREADS) {
        const int row = i / VECTORS, column = i % VECTORS * 8;
        gpu_copy_start<16>(to + row * F::STRIDE + column, from + row * m.stride + column,
                           first + row < place.length);
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

// Stores the warp's 16 rows, times a factor each lane has for its two, by way of the shared memory
// `rows`, which only this warp reads.
template <class F>
DEVICE void store_rows(const struct mat &m, const struct head_place &place, int part,
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
        const int64_t row = place.own + warp_id() * 16 + i / VECTORS;
        const int column = i % VECTORS * 8;
        if (row < place.length) {
            gpu_write16((uint16_t *)m.data + head_index(m, place, part, row, column),
                        gpu_read16(rows + i / VECTORS * F::STRIDE + column));
        }
    }
}

// --- dropout ------------------------------------------------------------------------------------

// Where queries are rows: the lane's two queries by MASK_KEYS keys. Of the tile that begins at key
// `first`, number i of column tile n of query `half` is bit (first % MASK_KEYS) / 4 + 2n + i % 2.
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

// Where keys are rows: [16, TILE] bytes in shared memory, of the keys with equal remainders by 16
// and the queries of a tile; a bit for each slot of a mask's block.
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

// Over the four lanes that share a row of a fragment.
DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(GPU_ALL_LANES, x, 1);
    return x + __shfl_xor_sync(GPU_ALL_LANES, x, 2);
}

DEVICE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, 2));
}

// The running softmax of a lane's two queries: the largest score, the lane's part of the sum of
// exponentials, the sum of values.
template <class F> struct running { float most[2], sum[2], out[F::SIZE / 8][4]; };

static constexpr float LOG2_E = 1.44269504f;

// Scores of a tile become probabilities relative to the largest so far; `rows` keys are the
// sequence's. scale: of scores, to powers of two.
template <class F>
DEVICE void take_tile(struct running<F> &r, float (&scores)[F::TILE / 8][4], int64_t rows,
                      float scale) {
    const int column = lane_id() % 4 * 2;
    float most[2] = {r.most[0], r.most[1]}, shrink[2];
    GPU_UNROLL
    for (int i = 0; i < F::TILE / 2; i++) {
        float &score = scores[i / 4][i % 4];
        score = i / 4 * 8 + column + i % 2 < rows ? score : -INFINITY;
        most[i % 4 / 2] = fmaxf(most[i % 4 / 2], score);
    }
    GPU_UNROLL
    for (int half = 0; half < 2; half++) {
        most[half] = quad_max(most[half]);
        shrink[half] = gpu_exp2((r.most[half] - most[half]) * scale);
        r.most[half] = most[half];
        r.sum[half] *= shrink[half];
    }
    GPU_UNROLL
    for (int i = 0; i < F::TILE / 2; i++) {
        float &score = scores[i / 4][i % 4];
        score = gpu_exp2(score * scale - most[i % 4 / 2] * scale);
        r.sum[i % 4 / 2] += score;
    }
    GPU_UNROLL
    for (int i = 0; i < F::SIZE / 2; i++) {
        r.out[i / 4][i % 4] *= shrink[i % 4 / 2];
    }
}

// Dropped probabilities become zeros; the others' factor comes at the end.
template <class F>
DEVICE void drop(float (&probabilities)[F::TILE / 8][4], const struct row_mask &mask,
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
    return (F::OWN_NUMBERS + 4 * F::TILE_NUMBERS) * sizeof(uint16_t);
}

template <class F>
__global__ void __launch_bounds__(MMA_THREADS)
    attention_mma_forward_kernel(struct attention_args a, struct batch batch) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    const struct head_place place = head_place_of<OWN_ROWS>(batch, a.context.cols, a.heads);
    if (place.own >= place.length) {
        return;
    }
    uint16_t *rows = memory + warp_id() * 16 * F::STRIDE, *tiles = memory + F::OWN_NUMBERS;
    const int64_t query = place.own + warp_id() * 16 + lane_id() / 4; // and the eighth after it
    const struct mask_row masks = query_mask(a.dropout, batch, place, query);
    struct row_mask mask = {{0, 0}};
    struct running<F> r = {
        {-INFINITY, -INFINITY}, {0.0f, 0.0f}, {
        }
    };
    clear(r.out);
    start_rows<F, OWN_ROWS>(memory, a.qkv, place, 0, place.own);
    start_rows<F, F::TILE>(tiles, a.qkv, place, 1, 0);
    start_rows<F, F::TILE>(tiles + F::TILE_NUMBERS, a.qkv, place, 2, 0);
    for (int64_t first = 0; first < place.length; first += F::TILE) {
        const int64_t next = first + F::TILE;
        const uint16_t *tile = tiles + first / F::TILE % 2 * 2 * F::TILE_NUMBERS;
        gpu_copies_wait();
        __syncthreads();
        if (next < place.length) {
            uint16_t *to = tiles + next / F::TILE % 2 * 2 * F::TILE_NUMBERS;
            start_rows<F, F::TILE>(to, a.qkv, place, 1, next);
            start_rows<F, F::TILE>(to + F::TILE_NUMBERS, a.qkv, place, 2, next);
        }
        float scores[F::TILE / 8][4];
        multiply<F>(scores, rows, tile);
        take_tile<F>(r, scores, place.length - first, place.scale * LOG2_E);
        if (masks.threshold != 0) {
            if (first % MASK_KEYS == 0) {
                mask = draw_row_mask(masks, first);
            }
            drop<F>(scores, mask, first);
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
        if (a.lse != NULL && lane_id() % 4 == 0 && row < place.length) {
            a.lse[head_number_index(place, row)] = r.most[half] * place.scale + logf(sum);
        }
    }
    store_rows<F>(a.context, place, 0, rows, r.out, factors);
}

// --- backward -----------------------------------------------------------------------------------

// Shared memory of the backward pass: two matrices of own rows; twice, two of a tile's rows; twice,
// lse and delta of a tile's queries and their mask.
template <class F> struct backward_memory {
    static constexpr int TILES = 2 * F::OWN_NUMBERS; // first number of 16 bits
    static constexpr int QUERIES = TILES + 4 * F::TILE_NUMBERS;
    static constexpr int MASKS = QUERIES + 2 * 2 * F::TILE * 2;
    static constexpr size_t BYTES =
        (size_t)MASKS * sizeof(uint16_t) + 2 * (size_t)key_mask<F>::BYTES;
};

// The rows of the two sides: q and dO of queries, k and v of keys.
template <class F, int ROWS>
DEVICE void start_side(uint16_t *to, const struct attention_grad_args &a,
                       const struct head_place &place, bool keys, int64_t first) {
    start_rows<F, ROWS>(to, a.qkv, place, keys ? 1 : 0, first);
    start_rows<F, ROWS>(to + ROWS * F::STRIDE, keys ? a.qkv : a.dcontext, place, keys ? 2 : 0,
                        first);
}

// Those of a tile's queries.
template <class F>
DEVICE void start_numbers(float *to, const float *lse, const float *delta,
                          const struct head_place &place, int64_t first) {
    const int i = (int)threadIdx.x % F::TILE, which = (int)threadIdx.x / F::TILE;
    if (which < 2) {
        gpu_copy_start<4>(to + which * F::TILE + i,
                          (which == 0 ? lse : delta) + head_number_index(place, first + i),
                          first + i < place.length);
    }
}

// A score and the gradient of its probability become the probability after dropout, but for the
// factor on kept ones, and the gradient of the score, but for its scale.
struct pair_numbers {
    float lse, delta; // of the query
    float scale, factor;
    bool exists, kept;
};

DEVICE void take_pair(float &score, float &dprobability, const struct pair_numbers &n) {
    const float p = n.exists ? gpu_exp2(score * n.scale - n.lse * LOG2_E) : 0.0f;
    score = n.kept ? p : 0.0f;
    dprobability = p * ((n.kept ? dprobability * n.factor : 0.0f) - n.delta);
}

// dQ of own queries, or dK and dV of own keys.
template <class F, bool KEYS>
__global__ void __launch_bounds__(MMA_THREADS)
    attention_mma_backward_kernel(struct attention_grad_args a, struct batch batch,
                                  const float *delta) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    using shared = backward_memory<F>;
    const struct head_place place = head_place_of<OWN_ROWS>(batch, a.context.cols, a.heads);
    if (place.own >= place.length) {
        return;
    }
    uint16_t *rows = memory + warp_id() * 16 * F::STRIDE, *tiles = memory + shared::TILES;
    float *numbers = (float *)(memory + shared::QUERIES);
    uint8_t *key_masks = (uint8_t *)(memory + shared::MASKS);
    const int64_t own = place.own + warp_id() * 16 + lane_id() / 4; // and the eighth after it
    const int column = lane_id() % 4 * 2;                           // of a column tile
    const struct mask_row masks = query_mask(a.dropout, batch, place, KEYS ? 0 : own);
    struct row_mask mask = {{~0u, ~0u}};
    struct pair_numbers pair = {};
    float own_lse[2] = {}, own_delta[2] = {};
    float sums[F::SIZE / 8][4], value_sums[F::SIZE / 8][4];
    clear(sums);
    clear(value_sums);
    pair.scale = place.scale * LOG2_E;
    pair.factor = rng_dropout_scale(masks.threshold);
    pair.kept = true;
    GPU_UNROLL
    for (int half = 0; !KEYS && half < 2; half++) {
        if (own + half * 8 < place.length) {
            own_lse[half] = a.lse[head_number_index(place, own + half * 8)];
            own_delta[half] = delta[head_number_index(place, own + half * 8)];
        }
    }
    start_side<F, OWN_ROWS>(memory, a, place, KEYS, place.own);
    start_side<F, F::TILE>(tiles, a, place, !KEYS, 0);
    if (KEYS) {
        start_numbers<F>(numbers, a.lse, delta, place, 0);
    }
    for (int64_t first = 0; first < place.length; first += F::TILE) {
        const int64_t next = first + F::TILE;
        const int now = (int)(first / F::TILE % 2), then = 1 - now;
        const uint16_t *tile = tiles + now * 2 * F::TILE_NUMBERS;
        const float *lse = numbers + now * 2 * F::TILE;
        uint8_t *key_mask_bytes = key_masks + now * key_mask<F>::BYTES;
        if (KEYS && masks.threshold != 0) {
            struct mask_row query = masks;
            query.position += (uint32_t)first;
            key_mask<F>::draw(key_mask_bytes, query, place.own);
        }
        gpu_copies_wait();
        __syncthreads();
        if (next < place.length) {
            start_side<F, F::TILE>(tiles + then * 2 * F::TILE_NUMBERS, a, place, !KEYS, next);
            if (KEYS) {
                start_numbers<F>(numbers + then * 2 * F::TILE, a.lse, delta, place, next);
            }
        }
        float scores[F::TILE / 8][4], gradients[F::TILE / 8][4];
        multiply<F>(scores, rows, tile);
        multiply<F>(gradients, rows + F::OWN_NUMBERS, tile + F::TILE_NUMBERS);
        if (!KEYS && masks.threshold != 0 && first % MASK_KEYS == 0) {
            mask = draw_row_mask(masks, first);
        }
        const int slot = (int)(place.own / 16 + warp_id()) % 8;
        GPU_UNROLL
        for (int i = 0; i < F::TILE / 2; i++) {
            const int n = i / 4, half = i % 4 / 2, at = n * 8 + column + i % 2; // in the tile
            pair.exists = first + at < place.length;
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
            take_pair(scores[n][i % 4], gradients[n][i % 4], pair);
        }
        add_product<F>(sums, gradients, tile);
        if (KEYS) {
            add_product<F>(value_sums, scores, tile + F::TILE_NUMBERS);
        }
    }
    store_rows<F>(a.dqkv, place, KEYS ? 1 : 0, rows, sums, {place.scale, place.scale});
    if (KEYS) {
        store_rows<F>(a.dqkv, place, 2, rows + F::OWN_NUMBERS, value_sums,
                      {pair.factor, pair.factor});
    }
}

// --- costs --------------------------------------------------------------------------------------

template <class F> static gpu_cost forward_cost(struct attention_args a, struct batch batch) {
    return attention_forward_cost(a, batch, attention_pairs<OWN_ROWS, F::TILE>(batch));
}

template <class F, bool KEYS>
static gpu_cost backward_cost(struct attention_grad_args a, struct batch batch, const float *) {
    return attention_backward_cost(a, batch, attention_pairs<OWN_ROWS, F::TILE>(batch), KEYS);
}

// --- launches -----------------------------------------------------------------------------------

// TILE_128: rows of a tile for heads of 128 columns.
template <enum dtype TYPE, int TILE_128, class Run> static bool with_size(int64_t size, Run run) {
    switch (size) {
    case 32:
        run(form<TYPE, 32, 64>());
        return true;
    case 64:
        run(form<TYPE, 64, 64>());
        return true;
    case 128:
        run(form<TYPE, 128, TILE_128>());
        return true;
    default:
        return false;
    }
}

// Calls run(form); false: there is none for these matrices.
template <int TILE_128, class Run>
static bool with_form(const struct mat *mats, int count, int64_t size, Run run) {
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
    const int64_t heads = args->heads, blocks = attention_blocks<OWN_ROWS>(batch, heads);
    return with_form<64>(mats, 2, args->context.cols / heads, [&](auto form) {
        using F = decltype(form);
        gpu_run(gpu, {"attention_mma_forward", blocks, MMA_THREADS, forward_shared_bytes<F>()},
                attention_mma_forward_kernel<F>, forward_cost<F>, *args, *batch);
    });
}

bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, const float *delta) {
    const struct mat mats[] = {args->qkv, args->dcontext, args->dqkv};
    const int64_t heads = args->heads, blocks = attention_blocks<OWN_ROWS>(batch, heads);
    return with_form<32>(mats, 3, args->context.cols / heads, [&](auto form) {
        using F = decltype(form);
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
