// SPDX-License-Identifier: Apache-2.0
// The backward pass of attention on tensor cores: a kernel for dQ, which also computes delta, and
// one for dK and dV. Each computes the probabilities again from the log-sum-exp, so that nothing is
// added by atomics. The formulas are those of attention.cu.
#include "device/gpu/attention_mma.h"

#if GPU_HAS_MMA

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
    float sum = 0.0f;
    GPU_UNROLL
    for (int k = 0; k < VECTORS; k++) {
        const int column = lane_id() % 4 * VECTORS * 8 + k * 8;
        sum += dot_of_vectors<F::TYPE>(
            own.vectors[i / 2][i % 2][k],
            gpu_read16(dcontext + place_of<F>(lane_id() / 4 + i * 8, column)));
    }
    return quad_sum(sum);
}

// dQ, and delta for the kernel of dK and dV.
template <class F, bool DROPS>
__global__ void __launch_bounds__(F::THREADS, F::BLOCKS)
    attention_mma_dquery_kernel(struct attention_grad_args a, struct batch batch, float *delta) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    const struct block_rows block = find_block_rows<F::BLOCK_ROWS>(batch, a.context.cols, a.heads);
    if (!is_compiled<F>() || block.first_row >= block.length) {
        return;
    }
    const int length = (int)block.length;
    const int warp_row = (int)block.first_row + warp_id() * F::WARP_ROWS;
    const int query = warp_row + lane_id() / 4; // and every eighth after it
    uint16_t *rows = memory + warp_id() * F::WARP_ROWS * F::STRIDE,
             *tiles = memory + backward_memory<F>::TILES;
    struct row_source<F> queries = find_rows<F>(a.qkv, block, PART_QUERY, block.first_row),
                         dcontext = find_rows<F>(a.dcontext, block, PART_CONTEXT, block.first_row);
    struct key_walk<F> walk;
    struct own_rows<F> own, own_gradients;
    struct own_context<F> context;
    struct pair_numbers pair[F::GROUPS][2];
    head_fragments<F> sums;
    clear(sums);
    find_own_rows<F>(own, memory);
    find_own_rows<F>(own_gradients, memory + F::BLOCK_NUMBERS);
    start_copy<F, F::BLOCK_ROWS>(memory, queries, length - (int)block.first_row);
    start_copy<F, F::BLOCK_ROWS>(memory + F::BLOCK_NUMBERS, dcontext,
                                 length - (int)block.first_row);
    start_walk<F, DROPS>(walk, tiles, a.qkv, mask_rows(a.masks, batch, block), block, query);
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        pair[i / 2][i % 2] = {0.0f, 0.0f, block.scale * LOG2_E,
                              rng_dropout_scale(a.dropout.threshold)};
        if (query + i * 8 < length) {
            pair[i / 2][i % 2].lse = a.lse[head_number_index(block, query + i * 8)] * LOG2_E;
        }
    }
    load_context<F>(context, a.context, block, query);
    wait_for_tile<F>();
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
    for (int first = 0; first < length; first += F::TILE) {
        struct row_masks<F> masks;
        const uint16_t *tile = next_tile<F, DROPS>(walk, masks, length - first);
        if (unit_row<F>(block) >= length) {
            continue;
        }
        GPU_UNROLL
        for (int step = 0; step < F::TILE / F::STEP; step++) {
            const int left = length - first - step * F::STEP;
            if (left <= 0) {
                break;
            }
            const uint16_t *from = tile + step * F::STEP * F::STRIDE;
            step_fragments<F> scores, gradients;
            struct step_masks<F> step_masks = {};
            multiply<F>(scores, own, from);
            multiply<F>(gradients, own_gradients, from + F::TILE_NUMBERS);
            finish<F>(scores);
            finish<F>(gradients);
            if (left < F::STEP) {
                exclude_keys<F>(scores, left);
            }
            if (DROPS) {
                find_step_masks<F>(step_masks, masks, step);
            }
            GPU_UNROLL
            for (int i = 0; i < F::GROUPS * F::STEP / 2; i++) {
                const int m = i / (F::STEP / 2), n = i / 4 % (F::STEP / 8), k = i % 4;
                update_pair(scores.of[m][n][k], gradients.of[m][n][k], pair[m][k / 2],
                            !DROPS || keeps<F>(step_masks, m, n, k));
            }
            add_product<F>(sums, gradients, from);
        }
        finish<F>(sums);
    }
    if (unit_row<F>(block) >= length) {
        return;
    }
    store_scaled<F>(a.dqkv, block, PART_QUERY, rows, sums, block.scale);
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

// update_pair for all queries of a step. numbers: their lse, and TILE further on their delta;
// masks: their words of the warp's keys, 8 apart
template <class F, bool DROPS>
DEVICE void update_pairs(step_fragments<F> &scores, step_fragments<F> &gradients,
                         struct pair_numbers pair, const float *numbers, const uint16_t *masks) {
    GPU_UNROLL
    for (int n = 0; n < F::STEP / 8; n++) {
        const int at = n * 8 + lane_id() % 4 * 2;
        float lse[2], deltas[2];
        load_two(lse, numbers + at);
        load_two(deltas, numbers + F::TILE + at);
        GPU_UNROLL
        for (int i = 0; i < 2; i++) {
            uint32_t kept = ~0u;
            if (DROPS) { // the words of two groups are neighbours
                const uint16_t *word = masks + (at + i) * 8;
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
}

// dK and dV. For a query after the last one all that it would add is zero.
template <class F, bool DROPS>
__global__ void __launch_bounds__(F::THREADS, F::BLOCKS)
    attention_mma_dkey_kernel(struct attention_grad_args a, struct batch batch,
                              const float *delta) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    using shared = backward_memory<F>;
    const struct block_rows block = find_block_rows<F::BLOCK_ROWS>(batch, a.context.cols, a.heads);
    if (!is_compiled<F>() || block.first_row >= block.length) {
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
    find_own_rows<F>(own, memory);
    find_own_rows<F>(own_values, memory + F::BLOCK_NUMBERS);
    start_copy<F, F::BLOCK_ROWS>(memory, keys, length - (int)block.first_row);
    start_copy<F, F::BLOCK_ROWS>(memory + F::BLOCK_NUMBERS, values, length - (int)block.first_row);
    start_copy<F, F::TILE>(tiles, queries, length);
    start_copy<F, F::TILE>(tiles + F::TILE_NUMBERS, dcontext, length);
    start_copy_queries<F, DROPS>(numbers, masks, query_numbers, length);
    wait_for_tile<F>();
    hold_rows<F>(own);
    hold_rows<F>(own_values);
    for (int first = 0, other = 0; first < length; first += F::TILE) {
        const uint16_t *tile = tiles + other * 2 * F::TILE_NUMBERS;
        const float *tile_numbers = numbers + other * 2 * F::TILE;
        const uint16_t *tile_masks = masks + other * 8 * F::TILE + warp_row % MASK_KEYS / 16;
        other = 1 - other;
        wait_for_tile<F>();
        if (first + F::TILE < length) {
            uint16_t *to = tiles + other * 2 * F::TILE_NUMBERS;
            const int left = length - first - F::TILE;
            start_copy<F, F::TILE>(to, queries, left);
            start_copy<F, F::TILE>(to + F::TILE_NUMBERS, dcontext, left);
            start_copy_queries<F, DROPS>(numbers + other * 2 * F::TILE, masks + other * 8 * F::TILE,
                                         query_numbers, left);
        }
        if (unit_row<F>(block) >= length) {
            continue;
        }
        GPU_UNROLL
        for (int step = 0; step < F::TILE / F::STEP; step++) {
            if (length - first - step * F::STEP <= 0) {
                break;
            }
            const uint16_t *from = tile + step * F::STEP * F::STRIDE;
            step_fragments<F> scores, gradients;
            multiply<F>(scores, own, from);
            multiply<F>(gradients, own_values, from + F::TILE_NUMBERS);
            finish<F>(scores);
            finish<F>(gradients);
            update_pairs<F, DROPS>(scores, gradients, pair, tile_numbers + step * F::STEP,
                                   tile_masks + step * F::STEP * 8);
            add_product<F>(sums, gradients, from);
            add_product<F>(value_sums, scores, from + F::TILE_NUMBERS);
        }
        finish<F>(sums);
        finish<F>(value_sums);
    }
    if (unit_row<F>(block) >= length) {
        return;
    }
    store_scaled<F>(a.dqkv, block, PART_KEY, rows, sums, block.scale);
    store_scaled<F>(a.dqkv, block, PART_VALUE, rows + F::BLOCK_NUMBERS, value_sums, pair.factor);
}

// --- costs ---------------------------------------------------------------------------------------

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

// --- launches ------------------------------------------------------------------------------------

// The traits of a kernel for each size of heads, by what was fastest on a GPU of compute
// capability 9.0. Registers limit the blocks of a multiprocessor to 2 to 5.
template <enum dtype TYPE> struct dquery_traits {
    template <int SIZE>
    using of = warp_traits<TYPE, SIZE, SIZE == 128 ? 32 : 64, 4, 1, SIZE != 128>;
};

template <enum dtype TYPE> struct dkey_traits {
    template <int SIZE>
    using of = warp_traits<TYPE, SIZE, SIZE == 128 ? 32 : 64, 4, SIZE == 128 ? 1 : 2, false>;
};

template <enum dtype TYPE> struct dquery_warpgroup_traits {
    template <int SIZE>
    using of = warpgroup_or_warps<warpgroup_traits<TYPE, 64, 8, 2>,
                                  typename dquery_traits<TYPE>::template of<SIZE>>;
};

template <enum dtype TYPE> struct dkey_warpgroup_traits {
    template <int SIZE>
    using of = warpgroup_or_warps<warpgroup_traits<TYPE, 64, 4, 3>,
                                  typename dkey_traits<TYPE>::template of<SIZE>>;
};

bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, float *delta) {
    const struct mat mats[] = {args->qkv, args->dcontext, args->dqkv, args->context};
    const int64_t heads = args->heads, size = args->context.cols / heads;
    const auto dquery = [&](auto traits) {
        using F = decltype(traits);
        const int64_t blocks = attention_blocks<F::BLOCK_ROWS>(batch, heads);
        with_drops(args->dropout, [&](auto drops) {
            gpu_run(gpu, {"attention_mma_dquery", blocks, F::THREADS, backward_memory<F>::BYTES},
                    attention_mma_dquery_kernel<F, decltype(drops)::value>, dquery_cost<F>, *args,
                    *batch, delta);
        });
    };
    const auto dkey = [&](auto traits) {
        using F = decltype(traits);
        const int64_t blocks = attention_blocks<F::BLOCK_ROWS>(batch, heads);
        with_drops(args->dropout, [&](auto drops) {
            gpu_run(gpu, {"attention_mma_dkey", blocks, F::THREADS, backward_memory<F>::BYTES},
                    attention_mma_dkey_kernel<F, decltype(drops)::value>, dkey_cost<F>, *args,
                    *batch, delta);
        });
    };
    return with_traits<dquery_traits, dquery_warpgroup_traits>(gpu, mats, 4, size, args->masks,
                                                               args->dropout, dquery) &&
           with_traits<dkey_traits, dkey_warpgroup_traits>(gpu, mats, 4, size, args->masks,
                                                           args->dropout, dkey);
}

#else

bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, float *delta) {
    return false;
}

#endif
