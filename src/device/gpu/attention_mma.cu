// SPDX-License-Identifier: Apache-2.0
// The forward pass of attention on tensor cores, in bf16 and f16, for heads of 32, 64 and 128
// columns. The formulas are those of attention.cu.
#include "device/gpu/attention_mma.h"

#if GPU_HAS_MMA

// The running softmax of a lane's queries: the largest score, the lane's part of the sum of
// exponentials, and the weighted sum of values.
template <class F> struct running_softmax {
    float max_score[F::GROUPS][2], sum[F::GROUPS][2];
    head_fragments<F> out;
};

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
        for (int i = 0; i < F::STEP / 2; i++) {
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
        for (int i = 0; i < F::STEP / 2; i++) {
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
DEVICE void apply_masks(step_fragments<F> &probabilities, const struct step_masks<F> &masks) {
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * F::STEP / 2; i++) {
        const int m = i / (F::STEP / 2), n = i / 4 % (F::STEP / 8);
        float &p = probabilities.of[m][n][i % 4];
        p = keeps<F>(masks, m, n, i % 4) ? p : 0.0f;
    }
}

template <class F> static constexpr size_t forward_shared_bytes(void) {
    return (F::BLOCK_NUMBERS + 4 * F::TILE_NUMBERS) * sizeof(uint16_t);
}

template <class F, bool DROPS>
__global__ void __launch_bounds__(F::THREADS, F::BLOCKS)
    attention_mma_forward_kernel(struct attention_args a, struct batch batch) {
    GPU_DYNAMIC_SHARED(uint16_t, memory);
    const struct block_rows block = find_block_rows<F::BLOCK_ROWS>(batch, a.context.cols, a.heads);
    if (!is_compiled<F>() || block.first_row >= block.length) {
        return;
    }
    const int length = (int)block.length;
    const int warp_row = (int)block.first_row + warp_id() * F::WARP_ROWS;
    const int query = warp_row + lane_id() / 4; // and every eighth after it
    const float scale = block.scale * LOG2_E;
    uint16_t *rows = memory + warp_id() * F::WARP_ROWS * F::STRIDE,
             *tiles = memory + F::BLOCK_NUMBERS;
    struct row_source<F> queries = find_rows<F>(a.qkv, block, PART_QUERY, block.first_row);
    struct key_walk<F> walk;
    struct own_rows<F> own;
    struct running_softmax<F> r;
    clear(r.out);
    GPU_UNROLL
    for (int i = 0; i < F::GROUPS * 2; i++) {
        r.max_score[i / 2][i % 2] = -INFINITY;
        r.sum[i / 2][i % 2] = 0.0f;
    }
    find_own_rows<F>(own, memory);
    start_copy<F, F::BLOCK_ROWS>(memory, queries, length - (int)block.first_row);
    start_walk<F, DROPS>(walk, tiles, a.qkv, mask_rows(a.masks, batch, block), block, query);
    wait_for_tile<F>();
    hold_rows<F>(own);
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
            step_fragments<F> scores;
            multiply<F>(scores, own, tile + step * F::STEP * F::STRIDE);
            finish<F>(scores);
            if (left < F::STEP) {
                exclude_keys<F>(scores, left);
            }
            update_softmax<F>(r, scores, scale);
            if (DROPS) {
                struct step_masks<F> step_masks;
                find_step_masks<F>(step_masks, masks, step);
                apply_masks<F>(scores, step_masks);
            }
            add_product<F>(r.out, scores, tile + F::TILE_NUMBERS + step * F::STEP * F::STRIDE);
        }
        finish<F>(r.out);
    }
    if (unit_row<F>(block) >= length) {
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

// --- costs ---------------------------------------------------------------------------------------

template <class F> static gpu_cost forward_cost(struct attention_args a, struct batch batch) {
    gpu_cost cost = attention_forward_cost(a, batch, pairs_of<F>(batch));
    cost.loads += attention_masks_cost<F::TILE>(a.dropout, batch, a.heads);
    return cost;
}

// --- launches ------------------------------------------------------------------------------------

// The traits of a kernel for each size of heads, by what was fastest on a GPU of compute
// capability 9.0. Registers limit the blocks of a multiprocessor to 2 to 5.
template <enum dtype TYPE> struct forward_traits {
    template <int SIZE> using of = warp_traits<TYPE, SIZE, 64, 4, 1, SIZE != 128>;
};

template <enum dtype TYPE> struct forward_warpgroup_traits {
    template <int SIZE>
    using of = warpgroup_or_warps<warpgroup_traits<TYPE, 64, 8, 2>,
                                  typename forward_traits<TYPE>::template of<SIZE>>;
};

bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch) {
    const struct mat mats[] = {args->qkv, args->context};
    const int64_t heads = args->heads, size = args->context.cols / heads;
    return with_traits<forward_traits, forward_warpgroup_traits>(
        gpu, mats, 2, size, args->masks, args->dropout, [&](auto traits) {
            using F = decltype(traits);
            const int64_t blocks = attention_blocks<F::BLOCK_ROWS>(batch, heads);
            with_drops(args->dropout, [&](auto drops) {
                gpu_run(gpu,
                        {"attention_mma_forward", blocks, F::THREADS, forward_shared_bytes<F>()},
                        attention_mma_forward_kernel<F, decltype(drops)::value>, forward_cost<F>,
                        *args, *batch);
            });
        });
}

#else

bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch) {
    return false;
}

#endif
