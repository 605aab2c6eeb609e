// SPDX-License-Identifier: Apache-2.0
// Attention over sequences of any length without a matrix of scores in memory, for every dtype and
// any head size up to MAX_HEAD_SIZE, with ordinary arithmetic. attention_mma.cu has the cases that
// tensor cores support.
//
// A block of threads has BLOCK_ROWS rows of one head of one sequence, divided among its warps:
// queries in the forward pass and for dQ, keys for dK and dV. It walks through the other side's
// rows in tiles in shared memory, of 128 rows, or of 64 where the GPU has less of it. A lane
// computes the factors of some rows of the tile, exchanges them through shared memory, and then
// adds up some columns of the result.
//
//   P = softmax(q k^T / sqrt(D)); O = dropout(P) v; delta = rowsum(dO * O)
//   dS = P * (dropout'(dO v^T) - delta) / sqrt(D); dQ = dS K; dK = dS^T Q; dV = dropout(P)^T dO
#include "device/gpu/attention.h"

#include <math.h>
#include <type_traits>

enum {
    WARPS = 4,
    WARP_ROWS = 4, // of the block's rows
    BLOCK_ROWS = WARPS * WARP_ROWS,
    ATTENTION_THREADS = WARPS * GPU_WARP,
    MASK_BLOCK_COLUMNS = 128, // covered by a mask's blocks (core/rng.h)
    MAX_HEAD_SIZE = 128,
    DELTA_LANES = 8,
    LANE_COLUMNS = MAX_HEAD_SIZE / GPU_WARP,
};

// --- shared memory ------------------------------------------------------------------------------

// Rows of two matrices. Lanes read a column each or a row each; the odd stride keeps both free of
// bank conflicts.
struct tiles {
    float *rows[2];     // [BLOCK_ROWS, stride]
    float *tile[2];     // [TILE, stride]
    float *row_factors; // [WARPS, 2, TILE] for the tile's rows
    int64_t stride;
};

static __host__ __device__ __forceinline__ int64_t tile_stride(int64_t head_size) {
    return head_size | 1;
}

template <int TILE> static size_t shared_bytes(int64_t head_size) {
    return (size_t)(2 * (BLOCK_ROWS + TILE) * tile_stride(head_size) + WARPS * 2 * TILE) *
           sizeof(float);
}

template <int TILE> DEVICE struct tiles tiles_of(float *memory, int64_t head_size) {
    struct tiles t;
    t.stride = tile_stride(head_size);
    t.rows[0] = memory;
    t.rows[1] = t.rows[0] + BLOCK_ROWS * t.stride;
    t.tile[0] = t.rows[1] + BLOCK_ROWS * t.stride;
    t.tile[1] = t.tile[0] + TILE * t.stride;
    t.row_factors = t.tile[1] + TILE * t.stride;
    return t;
}

// Rows after the sequence's last one become zeros.
DEVICE void load_rows(float *to, int64_t rows, const struct mat &m, const struct block_rows &block,
                      enum head_part part, int64_t first) {
    for (int64_t i = threadIdx.x; i < rows * block.head_size; i += ATTENTION_THREADS) {
        const int64_t row = i / block.head_size, column = i % block.head_size;
        float number[1] = {0.0f};
        if (first + row < block.length) {
            vector_io<1>::load(number, m, head_index(m, block, part, first + row, column));
        }
        to[row * tile_stride(block.head_size) + column] = number[0];
    }
}

DEVICE float dot(const float *x, const float *y, int64_t count) {
    float sum = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}

// A lane's i-th row of the tile. Its rows are the slots of one of the mask's blocks (core/rng.h),
// so one block serves them all.
DEVICE int lane_row(int i) {
    const int lane = (int)threadIdx.x % GPU_WARP;
    return lane % 16 + 16 * (lane / 16 + GPU_WARP / 16 * i);
}

// sums[c] += the tile's rows, each times its factor, in the lane's columns.
DEVICE void add_rows(float (&sums)[LANE_COLUMNS], const float *factors, const float *tile,
                     const struct tiles &t, int64_t head_size, int64_t rows) {
    const int lane = (int)threadIdx.x % GPU_WARP;
    GPU_UNROLL
    for (int c = 0; c < LANE_COLUMNS; c++) {
        float sum = 0.0f;
        for (int64_t row = 0; lane + c * GPU_WARP < head_size && row < rows; row++) {
            sum += factors[row] * tile[row * t.stride + lane + c * GPU_WARP];
        }
        sums[c] += sum;
    }
}

template <int TILE> DEVICE int64_t tile_rows(const struct block_rows &block, int64_t first) {
    return block.length - first < TILE ? block.length - first : (int64_t)TILE;
}

DEVICE void clear(float (&sums)[WARP_ROWS][LANE_COLUMNS]) {
    GPU_UNROLL
    for (int i = 0; i < WARP_ROWS * LANE_COLUMNS; i++) {
        sums[i / LANE_COLUMNS][i % LANE_COLUMNS] = 0.0f;
    }
}

// Stores the lane's columns of one of the warp's rows.
DEVICE void store_row(const struct mat &m, const struct block_rows &block, enum head_part part,
                      int64_t row, const float (&x)[LANE_COLUMNS]) {
    const int lane = (int)threadIdx.x % GPU_WARP;
    GPU_UNROLL
    for (int c = 0; c < LANE_COLUMNS; c++) {
        const int column = lane + c * GPU_WARP;
        const float number[1] = {x[c]};
        if (row < block.length && column < block.head_size) {
            vector_io<1>::store(m, head_index(m, block, part, row, column), number);
        }
    }
}

// --- forward ------------------------------------------------------------------------------------

// A query's running softmax: the largest score and the sum of exponentials.
struct running_softmax {
    float max_score, sum;
};

// Turns the lanes' scores of a tile into probabilities relative to the largest score so far.
template <int LANE_ROWS>
DEVICE void update_softmax(struct running_softmax &r, float (&out)[LANE_COLUMNS],
                           float (&scores)[LANE_ROWS]) {
    float max_score = r.max_score, sum = 0.0f;
    GPU_UNROLL
    for (int i = 0; i < LANE_ROWS; i++) {
        max_score = fmaxf(max_score, scores[i]);
    }
    max_score = warp_max(max_score);
    GPU_UNROLL
    for (int i = 0; i < LANE_ROWS; i++) {
        scores[i] = gpu_exp(scores[i] - max_score);
        sum += scores[i];
    }
    const float shrink = gpu_exp(r.max_score - max_score);
    r.max_score = max_score;
    r.sum = r.sum * shrink + warp_sum(sum);
    GPU_UNROLL
    for (int c = 0; c < LANE_COLUMNS; c++) {
        out[c] *= shrink;
    }
}

// The dropout factors of the lane's rows of a tile of keys.
template <int LANE_ROWS>
DEVICE void mask_factors(float (&factors)[LANE_ROWS], const struct mask_row &mask, int64_t first) {
    if (mask.threshold == 0) {
        GPU_UNROLL
        for (int i = 0; i < LANE_ROWS; i++) {
            factors[i] = 1.0f;
        }
        return;
    }
    const struct rng_block block =
        mask_block(mask, (uint32_t)(first / MASK_BLOCK_COLUMNS * 16 + threadIdx.x % GPU_WARP % 16));
    GPU_UNROLL
    for (int i = 0; i < LANE_ROWS; i++) {
        factors[i] = mask_keeps(mask, block, (int)(first % MASK_BLOCK_COLUMNS + lane_row(i)) / 16)
                         ? mask.scale
                         : 0.0f;
    }
}

template <int TILE>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_forward_kernel(struct attention_args a, struct batch batch) {
    enum { LANE_ROWS = TILE / GPU_WARP };
    GPU_DYNAMIC_SHARED(float, memory);
    const struct block_rows block = find_block_rows<BLOCK_ROWS>(batch, a.context.cols, a.heads);
    const int64_t size = block.head_size;
    if (block.first_row >= block.length) {
        return;
    }
    const struct tiles t = tiles_of<TILE>(memory, size);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    float *row_factors = t.row_factors + warp * 2 * TILE;
    struct running_softmax r[WARP_ROWS];
    float out[WARP_ROWS][LANE_COLUMNS];
    GPU_UNROLL
    for (int q = 0; q < WARP_ROWS; q++) {
        r[q] = {-INFINITY, 0.0f};
    }
    clear(out);
    load_rows(t.rows[0], BLOCK_ROWS, a.qkv, block, PART_QUERY, block.first_row);
    for (int64_t first = 0; first < block.length; first += TILE) {
        const int64_t rows = tile_rows<TILE>(block, first);
        __syncthreads();
        load_rows(t.tile[0], rows, a.qkv, block, PART_KEY, first);
        load_rows(t.tile[1], rows, a.qkv, block, PART_VALUE, first);
        __syncthreads();
        GPU_UNROLL
        for (int q = 0; q < WARP_ROWS; q++) {
            const int row = warp * WARP_ROWS + q;
            float scores[LANE_ROWS], factors[LANE_ROWS];
            GPU_UNROLL
            for (int i = 0; i < LANE_ROWS; i++) {
                const float *key = t.tile[0] + lane_row(i) * t.stride;
                scores[i] = lane_row(i) < rows
                                ? block.scale * dot(t.rows[0] + row * t.stride, key, size)
                                : -INFINITY;
            }
            update_softmax(r[q], out[q], scores);
            mask_factors(factors, query_mask(a.dropout, batch, block, block.first_row + row),
                         first);
            __syncwarp();
            GPU_UNROLL
            for (int i = 0; i < LANE_ROWS; i++) {
                row_factors[lane_row(i)] = scores[i] * factors[i];
            }
            __syncwarp();
            add_rows(out[q], row_factors, t.tile[1], t, size, rows);
        }
    }
    GPU_UNROLL
    for (int q = 0; q < WARP_ROWS; q++) {
        const int64_t row = block.first_row + warp * WARP_ROWS + q;
        GPU_UNROLL
        for (int c = 0; c < LANE_COLUMNS; c++) {
            out[q][c] /= r[q].sum;
        }
        store_row(a.context, block, PART_CONTEXT, row, out[q]);
        if (a.lse != NULL && lane == 0 && row < block.length) {
            a.lse[head_number_index(block, row)] = r[q].max_score + logf(r[q].sum);
        }
    }
}

// --- backward -----------------------------------------------------------------------------------

// delta[row, head] = rowsum(dO * O). DELTA_LANES neighbouring threads share a row and a head; each
// takes VEC neighbouring columns at a time.
template <int VEC>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_delta_kernel(float *delta, struct mat dcontext, struct mat context, int64_t heads,
                           int64_t rows) {
    const int64_t thread = (int64_t)blockIdx.x * ATTENTION_THREADS + threadIdx.x;
    const int64_t task = thread / DELTA_LANES, row = task / heads, size = context.cols / heads;
    const int64_t first = thread % DELTA_LANES * VEC, head = task % heads;
    float sum = 0.0f;
    for (int64_t c = first; row < rows && c < size; c += DELTA_LANES * VEC) {
        float x[VEC], y[VEC];
        load(x, dcontext, row, head * size + c);
        load(y, context, row, head * size + c);
        GPU_UNROLL
        for (int i = 0; i < VEC; i++) {
            sum += x[i] * y[i];
        }
    }
    for (int lanes = DELTA_LANES / 2; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(GPU_ALL_LANES, sum, lanes);
    }
    if (first == 0 && row < rows) {
        delta[task] = sum;
    }
}

// For a query and a key: the probability after dropout, and the gradient of the score.
struct pair_gradient {
    float probability, score;
};

DEVICE struct pair_gradient pair_gradient_of(float score, float lse, float dprobability,
                                             float delta, float factor, float scale) {
    const float p = gpu_exp(scale * score - lse);
    return pair_gradient{p * factor, p * (dprobability * factor - delta) * scale};
}

// Each query draws its own block of the mask.
DEVICE float pair_factor(const struct dropout &dropout, const struct batch &batch,
                         const struct block_rows &block, int64_t query, int64_t key) {
    if (dropout.threshold == 0) {
        return 1.0f;
    }
    const struct mask_row mask = query_mask(dropout, batch, block, query);
    return mask_keeps_column(mask, (uint32_t)key) ? mask.scale : 0.0f;
}

// dQ if the block's rows are queries, dK and dV if they are keys. A query has rows of q and dO, a
// key has rows of k and v.
template <int TILE, bool KEYS>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_backward_kernel(struct attention_grad_args a, struct batch batch,
                              const float *delta) {
    enum { LANE_ROWS = TILE / GPU_WARP };
    GPU_DYNAMIC_SHARED(float, memory);
    const struct block_rows block = find_block_rows<BLOCK_ROWS>(batch, a.context.cols, a.heads);
    const int64_t size = block.head_size;
    if (block.first_row >= block.length) {
        return;
    }
    const struct tiles t = tiles_of<TILE>(memory, size);
    const int warp = (int)threadIdx.x / GPU_WARP;
    float *scores = t.row_factors + warp * 2 * TILE, *probabilities = scores + TILE;
    float sums[WARP_ROWS][LANE_COLUMNS], value_sums[WARP_ROWS][LANE_COLUMNS];
    clear(sums);
    clear(value_sums);
    load_rows(t.rows[0], BLOCK_ROWS, a.qkv, block, KEYS ? PART_KEY : PART_QUERY, block.first_row);
    load_rows(t.rows[1], BLOCK_ROWS, KEYS ? a.qkv : a.dcontext, block,
              KEYS ? PART_VALUE : PART_CONTEXT, block.first_row);
    for (int64_t first = 0; first < block.length; first += TILE) {
        const int64_t rows = tile_rows<TILE>(block, first);
        __syncthreads();
        load_rows(t.tile[0], rows, a.qkv, block, KEYS ? PART_QUERY : PART_KEY, first);
        load_rows(t.tile[1], rows, KEYS ? a.dcontext : a.qkv, block,
                  KEYS ? PART_CONTEXT : PART_VALUE, first);
        __syncthreads();
        GPU_UNROLL
        for (int i = 0; i < WARP_ROWS; i++) {
            const int64_t in_block = warp * WARP_ROWS + i, own_row = block.first_row + in_block;
            float factors[LANE_ROWS];
            if (!KEYS) {
                mask_factors(factors, query_mask(a.dropout, batch, block, own_row), first);
            }
            __syncwarp();
            GPU_UNROLL
            for (int k = 0; k < LANE_ROWS; k++) {
                const int64_t row = lane_row(k), query = KEYS ? first + row : own_row;
                struct pair_gradient pair = {0.0f, 0.0f};
                if (row < rows && own_row < block.length) {
                    const int64_t index = head_number_index(block, query);
                    const float score =
                        dot(t.rows[0] + in_block * t.stride, t.tile[0] + row * t.stride, size);
                    const float dp =
                        dot(t.rows[1] + in_block * t.stride, t.tile[1] + row * t.stride, size);
                    const float factor =
                        KEYS ? pair_factor(a.dropout, batch, block, query, own_row) : factors[k];
                    pair = pair_gradient_of(score, a.lse[index], dp, delta[index], factor,
                                            block.scale);
                }
                scores[row] = pair.score;
                probabilities[row] = pair.probability;
            }
            __syncwarp();
            add_rows(sums[i], scores, t.tile[0], t, size, rows);
            if (KEYS) {
                add_rows(value_sums[i], probabilities, t.tile[1], t, size, rows);
            }
        }
    }
    GPU_UNROLL
    for (int i = 0; i < WARP_ROWS; i++) {
        const int64_t row = block.first_row + warp * WARP_ROWS + i;
        store_row(a.dqkv, block, KEYS ? PART_KEY : PART_QUERY, row, sums[i]);
        if (KEYS) {
            store_row(a.dqkv, block, PART_VALUE, row, value_sums[i]);
        }
    }
}

// --- costs --------------------------------------------------------------------------------------

static gpu_cost forward_cost(struct attention_args a, struct batch batch) {
    gpu_cost cost = attention_forward_cost(a, batch, attention_pairs<1, 1>(batch));
    cost.loads += attention_draws_cost(a.dropout, batch);
    return cost;
}

template <bool KEYS>
static gpu_cost backward_cost(struct attention_grad_args a, struct batch batch, const float *) {
    gpu_cost cost = attention_backward_cost(a, batch, attention_pairs<1, 1>(batch), KEYS);
    cost.loads += attention_draws_cost(a.dropout, batch);
    return cost;
}

static gpu_cost masks_cost(uint16_t *, int64_t heads, struct dropout dropout, struct batch batch) {
    return {attention_bounds_cost(batch) + attention_draws_cost(dropout, batch),
            attention_masks_cost<MASK_BLOCK_COLUMNS>(dropout, batch, heads), 0};
}

static gpu_cost delta_cost(float *delta, struct mat dcontext, struct mat context, int64_t heads,
                           int64_t rows) {
    return {cost_rows(dcontext, rows) + cost_rows(context, rows), cost_words(delta, rows * heads),
            0};
}

static gpu_cost slack_cost(struct mat m, float *lse, int64_t heads, int64_t first) {
    return {0, cost_rows(m, m.rows - first) + cost_words(lse, (m.rows - first) * heads), 0};
}

// --- dropout masks ------------------------------------------------------------------------------

// A thread draws 16 bytes of a mask's row: MASK_BLOCK_COLUMNS keys of a query. Drawing them apart
// from the products, and once for the forward and the backward pass, is what makes them cheap.
__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_masks_kernel(uint16_t *masks, int64_t heads, struct dropout dropout,
                           struct batch batch) {
    const unsigned most = (unsigned)(batch.max_length * attention_mask_words(batch.max_length) / 8);
    const unsigned groups = (most + ATTENTION_THREADS - 1) / ATTENTION_THREADS;
    const unsigned of_sequence = blockIdx.x / groups, head_count = (unsigned)heads;
    const unsigned sequence = of_sequence / head_count, head = of_sequence % head_count;
    const int64_t start = batch.cu_seqlens[sequence];
    const unsigned length = (unsigned)(batch.cu_seqlens[sequence + 1] - start);
    const unsigned blocks = (unsigned)attention_mask_words(length) / 8; // of a row
    const unsigned i = blockIdx.x % groups * ATTENTION_THREADS + threadIdx.x;
    if (i >= length * blocks) {
        return;
    }
    const struct mask_row row =
        mask_row_of(dropout, head, batch.global_indices[sequence], (int32_t)(i / blocks));
    const uint32_t complement = (65536u - row.threshold) << 16; // carries unless dropped
    uint32_t low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
    for (int column = 15; column >= 0; column--) {
        const struct rng_block drawn = mask_block(row, i % blocks * 16 + (uint32_t)column);
        GPU_UNROLL
        for (int word = 0; word < 4; word++) {
            gpu_shift_in_carry(low[word], drawn.word[word] << 16, complement);
            gpu_shift_in_carry(high[word], drawn.word[word], complement);
        }
    }
    uint16_t *const own = masks + start * heads * attention_mask_words(batch.max_length) +
                          ((int64_t)head * length * blocks + i) * 8;
    gpu_write16(own, uint4{low[0] | high[0] << 16, low[1] | high[1] << 16, low[2] | high[2] << 16,
                           low[3] | high[3] << 16});
}

static void draw_masks(struct gpu *gpu, const struct attention_args *args,
                       const struct batch *batch) {
    const int64_t most = batch->max_length * attention_mask_words(batch->max_length) / 8;
    const int64_t blocks =
        gpu_blocks(most, ATTENTION_THREADS) * args->heads * batch->sequence_count;
    if (args->masks != NULL && args->dropout.threshold != 0) {
        gpu_run(gpu, {"attention_masks", blocks, ATTENTION_THREADS}, attention_masks_kernel,
                masks_cost, args->masks, args->heads, args->dropout, *batch);
    }
}

// --- operations ---------------------------------------------------------------------------------

static bool has_supported_size(struct gpu *gpu, int64_t head_size) {
    if (head_size > MAX_HEAD_SIZE) {
        gpu_fail(gpu, "attention", "heads of more than 128 columns are not supported");
    }
    return head_size <= MAX_HEAD_SIZE;
}

// Calls run(tile) with the largest tile, an integral constant, that fits in shared memory.
template <class Run> static void with_tile(struct gpu *gpu, int64_t head_size, Run run) {
    if (shared_bytes<128>(head_size) <= gpu->max_shared_bytes) {
        run(std::integral_constant<int, 128>());
    } else if (shared_bytes<64>(head_size) <= gpu->max_shared_bytes) {
        run(std::integral_constant<int, 64>());
    } else {
        gpu_fail(gpu, "attention",
                 "heads of this size need more shared memory than a block of this GPU has");
    }
}

__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_slack_kernel(struct mat m, float *lse, int64_t heads, int64_t first) {
    const int64_t row = first + blockIdx.x;
    for (int64_t c = threadIdx.x; c < m.cols; c += ATTENTION_THREADS) {
        set_number(m, row, c, 0.0f);
    }
    for (int64_t h = threadIdx.x; lse != NULL && h < heads; h += ATTENTION_THREADS) {
        lse[row * heads + h] = 0.0f;
    }
}

static void clear_slack(struct gpu *gpu, struct mat m, float *lse, int64_t heads,
                        const struct batch *batch) {
    gpu_run(gpu, {"attention_slack", m.rows - batch->token_count, ATTENTION_THREADS},
            attention_slack_kernel, slack_cost, m, lse, heads, batch->token_count);
}

void gpu_attention_forward(struct device *dev, const struct attention_args *args,
                           const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t blocks = attention_blocks<BLOCK_ROWS>(batch, args->heads);
    const int64_t head_size = args->context.cols / args->heads;
    if (!has_supported_size(gpu, head_size)) {
        return;
    }
    draw_masks(gpu, args, batch);
    if (!attention_cudnn_forward(gpu, args, batch) && !attention_mma_forward(gpu, args, batch)) {
        with_tile(gpu, head_size, [&](auto tile) {
            constexpr int TILE = decltype(tile)::value;
            const size_t shared = shared_bytes<TILE>(head_size);
            gpu_run(gpu, {"attention_forward", blocks, ATTENTION_THREADS, shared},
                    attention_forward_kernel<TILE>, forward_cost, *args, *batch);
        });
    }
    clear_slack(gpu, args->context, args->lse, args->heads, batch);
}

size_t gpu_attention_partial_bytes(const struct device_shape *shape) {
    return (size_t)(batch_round(shape->batch.tokens) * shape->heads) * sizeof(float);
}

static void compute_deltas(struct gpu *gpu, float *delta, const struct attention_grad_args *args,
                           int64_t rows) {
    const struct mat dcontext = args->dcontext, context = args->context;
    const int64_t blocks = gpu_blocks(rows * args->heads, ATTENTION_THREADS / DELTA_LANES);
    const bool vectorizable = context.cols / args->heads % 8 == 0 && gpu_is_vectorizable(context) &&
                              gpu_is_vectorizable(dcontext);
    gpu_run(gpu, {"attention_delta", blocks, ATTENTION_THREADS},
            vectorizable ? attention_delta_kernel<8> : attention_delta_kernel<1>, delta_cost, delta,
            dcontext, context, args->heads, rows);
}

void gpu_attention_backward(struct device *dev, const struct attention_grad_args *args,
                            const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t heads = args->heads, blocks = attention_blocks<BLOCK_ROWS>(batch, heads);
    const int64_t head_size = args->context.cols / heads;
    if (!has_supported_size(gpu, head_size)) {
        return;
    }
    float *delta = gpu_partials(gpu, batch->row_count * heads);
    if (!attention_mma_backward(gpu, args, batch, delta)) {
        compute_deltas(gpu, delta, args, batch->token_count);
        with_tile(gpu, head_size, [&](auto tile) {
            constexpr int TILE = decltype(tile)::value;
            const size_t shared = shared_bytes<TILE>(head_size);
            gpu_run(gpu, {"attention_dquery", blocks, ATTENTION_THREADS, shared},
                    attention_backward_kernel<TILE, false>, backward_cost<false>, *args, *batch,
                    (const float *)delta);
            gpu_run(gpu, {"attention_dkey", blocks, ATTENTION_THREADS, shared},
                    attention_backward_kernel<TILE, true>, backward_cost<true>, *args, *batch,
                    (const float *)delta);
        });
    }
    clear_slack(gpu, args->dqkv, NULL, heads, batch);
}
