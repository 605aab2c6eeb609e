// SPDX-License-Identifier: Apache-2.0
// Attention over sequences of any lengths without a matrix of scores in memory, for every dtype and
// head size: dot products by ordinary arithmetic.
//
// A block has OWN_ROWS rows of one head of one sequence, shared by its warps: queries in the
// forward pass and for dQ, keys for dK and dV. It walks through the other rows in tiles of
// TILE_ROWS, kept in shared memory. A lane has some rows of the tile; what it finds for them goes
// through shared memory, and then each lane adds up some columns of the result.
//
//   P = softmax(q k^T / sqrt(D)); O = dropout(P) v; delta = rowsum(dO * O)
//   dS = P * (dropout'(dO v^T) - delta) / sqrt(D); dQ = dS K; dK = dS^T Q; dV = dropout(P)^T dO
#include "gpu/gpu.h"
#include "gpu/kernel.h"

#include <math.h>

enum {
    WARPS = 4,
    WARP_ROWS = 4, // own rows of a warp
    OWN_ROWS = WARPS * WARP_ROWS,
    ATTENTION_THREADS = WARPS * GPU_WARP,
    TILE_ROWS = 128, // the columns of a mask that its blocks cover (core/rng.h)
    LANE_ROWS = TILE_ROWS / GPU_WARP,
    HEAD_SIZE_MOST = 128,
    LANE_COLUMNS = HEAD_SIZE_MOST / GPU_WARP,
};

// --- the block's place --------------------------------------------------------------------------

struct head_place {
    int64_t first, length; // the sequence's rows of the batch
    int64_t own;           // the first own row, within the sequence
    int64_t sequence, head, head_size, hidden;
    float scale; // 1 / sqrt(D)
};

// Blocks are numbered by groups of rows, then heads, then sequences.
DEVICE struct head_place head_place_of(const struct batch &batch, int64_t hidden, int64_t heads) {
    const int64_t groups = (batch.max_length + OWN_ROWS - 1) / OWN_ROWS;
    struct head_place place;
    place.own = blockIdx.x % groups * OWN_ROWS;
    place.head = blockIdx.x / groups % heads;
    place.sequence = blockIdx.x / groups / heads;
    place.first = batch.cu_seqlens[place.sequence];
    place.length = batch.cu_seqlens[place.sequence + 1] - place.first;
    place.hidden = hidden;
    place.head_size = hidden / heads;
    place.scale = 1.0f / sqrtf((float)place.head_size);
    return place;
}

static int64_t attention_blocks(const struct batch *batch, int64_t heads) {
    return gpu_blocks(batch->max_length, OWN_ROWS) * heads * batch->sequence_count;
}

// The head's columns of part `part` of a row: q, k and v are parts 0, 1 and 2 of qkv.
DEVICE float head_number(const struct mat &m, const struct head_place &place, int part, int64_t row,
                         int64_t column) {
    return number_at(m, place.first + row,
                     part * place.hidden + place.head * place.head_size + column);
}

DEVICE void set_head_number(const struct mat &m, const struct head_place &place, int part,
                            int64_t row, int64_t column, float x) {
    set_number(m, place.first + row, part * place.hidden + place.head * place.head_size + column,
               x);
}

// --- shared memory ------------------------------------------------------------------------------

// Rows of two matrices, of which lanes read a column each or a row each: the odd stride keeps both
// free of bank conflicts.
struct tiles {
    float *own[2];  // [OWN_ROWS, stride]
    float *tile[2]; // [TILE_ROWS, stride]
    float *found;   // [WARPS, 2, TILE_ROWS]: the factors on the tile's rows
    int64_t stride;
};

static __host__ __device__ __forceinline__ int64_t tile_stride(int64_t head_size) {
    return head_size | 1;
}

static size_t shared_bytes(int64_t head_size) {
    return (size_t)(2 * (OWN_ROWS + TILE_ROWS) * tile_stride(head_size) + WARPS * 2 * TILE_ROWS) *
           sizeof(float);
}

DEVICE struct tiles tiles_of(float *memory, int64_t head_size) {
    struct tiles t;
    t.stride = tile_stride(head_size);
    t.own[0] = memory;
    t.own[1] = t.own[0] + OWN_ROWS * t.stride;
    t.tile[0] = t.own[1] + OWN_ROWS * t.stride;
    t.tile[1] = t.tile[0] + TILE_ROWS * t.stride;
    t.found = t.tile[1] + TILE_ROWS * t.stride;
    return t;
}

// Rows after the sequence's last are zeros.
DEVICE void fetch(float *to, int64_t rows, const struct tiles &t, const struct mat &m,
                  const struct head_place &place, int part, int64_t first) {
    for (int64_t i = threadIdx.x; i < rows * place.head_size; i += ATTENTION_THREADS) {
        const int64_t row = i / place.head_size, column = i % place.head_size;
        to[row * t.stride + column] =
            first + row < place.length ? head_number(m, place, part, first + row, column) : 0.0f;
    }
}

DEVICE float dot(const float *x, const float *y, int64_t count) {
    float sum = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}

// The tile's rows of a lane: slots of the mask's blocks (core/rng.h), so that one block serves all.
DEVICE int lane_row(int i) {
    const int lane = (int)threadIdx.x % GPU_WARP;
    return lane % 16 + 16 * (lane / 16 + GPU_WARP / 16 * i);
}

// sums[c] += the products of the tile's rows with their factors, for the lane's columns.
DEVICE void add_rows(float (&sums)[LANE_COLUMNS], const float *factors, const float *tile,
                     const struct tiles &t, int64_t head_size, int64_t rows) {
    const int lane = (int)threadIdx.x % GPU_WARP;
    for (int c = 0; c < LANE_COLUMNS && lane + c * GPU_WARP < head_size; c++) {
        float sum = 0.0f;
        for (int64_t row = 0; row < rows; row++) {
            sum += factors[row] * tile[row * t.stride + lane + c * GPU_WARP];
        }
        sums[c] += sum;
    }
}

DEVICE int64_t tile_rows(const struct head_place &place, int64_t first) {
    return place.length - first < TILE_ROWS ? place.length - first : (int64_t)TILE_ROWS;
}

// --- forward ------------------------------------------------------------------------------------

// A query's running softmax: the largest score, the sum of exponentials, the sum of values.
struct running {
    float most, sum, out[LANE_COLUMNS];
};

// The lanes' scores of a tile become probabilities relative to the largest so far.
DEVICE void take_tile(struct running &r, float (&scores)[LANE_ROWS]) {
    float most = r.most, sum = 0.0f;
    for (int i = 0; i < LANE_ROWS; i++) {
        most = fmaxf(most, scores[i]);
    }
    most = warp_max(most);
    for (int i = 0; i < LANE_ROWS; i++) {
        scores[i] = gpu_exp(scores[i] - most);
        sum += scores[i];
    }
    const float shrink = gpu_exp(r.most - most);
    r.most = most;
    r.sum = r.sum * shrink + warp_sum(sum);
    for (int c = 0; c < LANE_COLUMNS; c++) {
        r.out[c] *= shrink;
    }
}

DEVICE struct mask_row query_mask(const struct dropout &dropout, const struct batch &batch,
                                  const struct head_place &place, int64_t query) {
    return mask_row_of(dropout, (uint32_t)place.head, batch.places[place.sequence], (int32_t)query);
}

// The factors of the lane's rows of a tile of keys.
DEVICE void mask_factors(float (&factors)[LANE_ROWS], const struct mask_row &mask, int64_t first) {
    if (mask.threshold == 0) {
        for (int i = 0; i < LANE_ROWS; i++) {
            factors[i] = 1.0f;
        }
        return;
    }
    const struct rng_block block =
        mask_block(mask, (uint32_t)(first / 8 + threadIdx.x % GPU_WARP % 16));
    for (int i = 0; i < LANE_ROWS; i++) {
        factors[i] = mask_keeps(mask, block, lane_row(i) / 16) ? mask.scale : 0.0f;
    }
}

__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_forward_kernel(struct attention_args a, struct batch batch) {
    GPU_DYNAMIC_SHARED(float, memory);
    const struct head_place place = head_place_of(batch, a.context.cols, a.heads);
    const int64_t size = place.head_size;
    if (place.own >= place.length) {
        return;
    }
    const struct tiles t = tiles_of(memory, size);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    float *found = t.found + warp * 2 * TILE_ROWS;
    struct running r[WARP_ROWS];
    for (int q = 0; q < WARP_ROWS; q++) {
        r[q].most = -INFINITY;
        r[q].sum = 0.0f;
        for (int c = 0; c < LANE_COLUMNS; c++) {
            r[q].out[c] = 0.0f;
        }
    }
    fetch(t.own[0], OWN_ROWS, t, a.qkv, place, 0, place.own);
    for (int64_t first = 0; first < place.length; first += TILE_ROWS) {
        const int64_t rows = tile_rows(place, first);
        __syncthreads();
        fetch(t.tile[0], rows, t, a.qkv, place, 1, first);
        fetch(t.tile[1], rows, t, a.qkv, place, 2, first);
        __syncthreads();
        for (int q = 0; q < WARP_ROWS; q++) {
            const int own = warp * WARP_ROWS + q;
            float scores[LANE_ROWS], factors[LANE_ROWS];
            for (int i = 0; i < LANE_ROWS; i++) {
                const float *key = t.tile[0] + lane_row(i) * t.stride;
                scores[i] = lane_row(i) < rows
                                ? place.scale * dot(t.own[0] + own * t.stride, key, size)
                                : -INFINITY;
            }
            take_tile(r[q], scores);
            mask_factors(factors, query_mask(a.dropout, batch, place, place.own + own), first);
            __syncwarp();
            for (int i = 0; i < LANE_ROWS; i++) {
                found[lane_row(i)] = scores[i] * factors[i];
            }
            __syncwarp();
            add_rows(r[q].out, found, t.tile[1], t, size, rows);
        }
    }
    for (int q = 0; q < WARP_ROWS; q++) {
        const int64_t row = place.own + warp * WARP_ROWS + q;
        if (row >= place.length) {
            continue;
        }
        for (int c = 0; c < LANE_COLUMNS && lane + c * GPU_WARP < size; c++) {
            set_head_number(a.context, place, 0, row, lane + c * GPU_WARP, r[q].out[c] / r[q].sum);
        }
        if (a.lse != NULL && lane == 0) {
            a.lse[(place.first + row) * a.heads + place.head] = r[q].most + logf(r[q].sum);
        }
    }
}

// --- backward -----------------------------------------------------------------------------------

// delta[row, head] = rowsum(dO * O); a warp has a row and a head at a time.
__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_delta_kernel(float *delta, struct mat dcontext, struct mat context, int64_t heads,
                           int64_t rows) {
    const int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / GPU_WARP;
    const int64_t row = task / heads, head = task % heads, size = context.cols / heads;
    if (row >= rows) {
        return;
    }
    float sum = 0.0f;
    for (int64_t c = threadIdx.x % GPU_WARP; c < size; c += GPU_WARP) {
        sum += number_at(dcontext, row, head * size + c) * number_at(context, row, head * size + c);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % GPU_WARP == 0) {
        delta[task] = sum;
    }
}

// What a query and a key make: the probability after dropout, and the gradient of the score.
struct pair_gradient {
    float probability, score;
};

DEVICE struct pair_gradient pair_gradient_of(float score, float lse, float dprobability,
                                             float delta, float factor, float scale) {
    const float p = gpu_exp(scale * score - lse);
    return pair_gradient{p * factor, p * (dprobability * factor - delta) * scale};
}

__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_dquery_kernel(struct attention_grad_args a, struct batch batch, const float *delta) {
    GPU_DYNAMIC_SHARED(float, memory);
    const struct head_place place = head_place_of(batch, a.context.cols, a.heads);
    const int64_t size = place.head_size;
    if (place.own >= place.length) {
        return;
    }
    const struct tiles t = tiles_of(memory, size);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    float *found = t.found + warp * 2 * TILE_ROWS, sums[WARP_ROWS][LANE_COLUMNS];
    for (int q = 0; q < WARP_ROWS; q++) {
        for (int c = 0; c < LANE_COLUMNS; c++) {
            sums[q][c] = 0.0f;
        }
    }
    fetch(t.own[0], OWN_ROWS, t, a.qkv, place, 0, place.own);
    fetch(t.own[1], OWN_ROWS, t, a.dcontext, place, 0, place.own);
    for (int64_t first = 0; first < place.length; first += TILE_ROWS) {
        const int64_t rows = tile_rows(place, first);
        __syncthreads();
        fetch(t.tile[0], rows, t, a.qkv, place, 1, first);
        fetch(t.tile[1], rows, t, a.qkv, place, 2, first);
        __syncthreads();
        for (int q = 0; q < WARP_ROWS; q++) {
            const int own = warp * WARP_ROWS + q;
            const int64_t query = place.own + own;
            const bool used = query < place.length;
            const int64_t at = (place.first + query) * a.heads + place.head;
            const float lse = used ? a.lse[at] : 0.0f, sum = used ? delta[at] : 0.0f;
            float factors[LANE_ROWS];
            mask_factors(factors, query_mask(a.dropout, batch, place, query), first);
            __syncwarp();
            for (int i = 0; i < LANE_ROWS; i++) {
                const int64_t row = lane_row(i);
                const float score =
                    row < rows ? dot(t.own[0] + own * t.stride, t.tile[0] + row * t.stride, size)
                               : 0.0f;
                const float dp =
                    row < rows ? dot(t.own[1] + own * t.stride, t.tile[1] + row * t.stride, size)
                               : 0.0f;
                found[row] =
                    used ? pair_gradient_of(score, lse, dp, sum, factors[i], place.scale).score
                         : 0.0f;
            }
            __syncwarp();
            add_rows(sums[q], found, t.tile[0], t, size, rows);
        }
    }
    for (int q = 0; q < WARP_ROWS; q++) {
        const int64_t row = place.own + warp * WARP_ROWS + q;
        for (int c = 0; row < place.length && c < LANE_COLUMNS && lane + c * GPU_WARP < size; c++) {
            set_head_number(a.dqkv, place, 0, row, lane + c * GPU_WARP, sums[q][c]);
        }
    }
}

// A lane has queries, so each draws its own block of the mask.
DEVICE float pair_factor(const struct dropout &dropout, const struct batch &batch,
                         const struct head_place &place, int64_t query, int64_t key) {
    if (dropout.threshold == 0) {
        return 1.0f;
    }
    return rng_dropout_keeps(&dropout, (uint32_t)place.head, batch.places[place.sequence],
                             (int32_t)query, (int32_t)key)
               ? rng_dropout_scale(dropout.threshold)
               : 0.0f;
}

__global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_dkey_kernel(struct attention_grad_args a, struct batch batch, const float *delta) {
    GPU_DYNAMIC_SHARED(float, memory);
    const struct head_place place = head_place_of(batch, a.context.cols, a.heads);
    const int64_t size = place.head_size;
    if (place.own >= place.length) {
        return;
    }
    const struct tiles t = tiles_of(memory, size);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    float *probabilities = t.found + warp * 2 * TILE_ROWS, *scores = probabilities + TILE_ROWS;
    float dkey[WARP_ROWS][LANE_COLUMNS], dvalue[WARP_ROWS][LANE_COLUMNS];
    for (int k = 0; k < WARP_ROWS; k++) {
        for (int c = 0; c < LANE_COLUMNS; c++) {
            dkey[k][c] = dvalue[k][c] = 0.0f;
        }
    }
    fetch(t.own[0], OWN_ROWS, t, a.qkv, place, 1, place.own);
    fetch(t.own[1], OWN_ROWS, t, a.qkv, place, 2, place.own);
    for (int64_t first = 0; first < place.length; first += TILE_ROWS) {
        const int64_t rows = tile_rows(place, first);
        __syncthreads();
        fetch(t.tile[0], rows, t, a.qkv, place, 0, first);
        fetch(t.tile[1], rows, t, a.dcontext, place, 0, first);
        __syncthreads();
        for (int k = 0; k < WARP_ROWS; k++) {
            const int own = warp * WARP_ROWS + k;
            __syncwarp();
            for (int i = 0; i < LANE_ROWS; i++) {
                const int64_t row = lane_row(i), query = first + row;
                const int64_t at = (place.first + query) * a.heads + place.head;
                struct pair_gradient pair = {0.0f, 0.0f};
                if (row < rows && place.own + own < place.length) {
                    const float score =
                        dot(t.own[0] + own * t.stride, t.tile[0] + row * t.stride, size);
                    const float dp =
                        dot(t.own[1] + own * t.stride, t.tile[1] + row * t.stride, size);
                    const float factor =
                        pair_factor(a.dropout, batch, place, query, place.own + own);
                    pair = pair_gradient_of(score, a.lse[at], dp, delta[at], factor, place.scale);
                }
                probabilities[row] = pair.probability;
                scores[row] = pair.score;
            }
            __syncwarp();
            add_rows(dkey[k], scores, t.tile[0], t, size, rows);
            add_rows(dvalue[k], probabilities, t.tile[1], t, size, rows);
        }
    }
    for (int k = 0; k < WARP_ROWS; k++) {
        const int64_t row = place.own + warp * WARP_ROWS + k;
        for (int c = 0; row < place.length && c < LANE_COLUMNS && lane + c * GPU_WARP < size; c++) {
            set_head_number(a.dqkv, place, 1, row, lane + c * GPU_WARP, dkey[k][c]);
            set_head_number(a.dqkv, place, 2, row, lane + c * GPU_WARP, dvalue[k][c]);
        }
    }
}

// --- operations ---------------------------------------------------------------------------------

static bool fits(struct gpu *gpu, int64_t head_size) {
    if (head_size > HEAD_SIZE_MOST) {
        gpu_fail(gpu, "attention", "heads of more than 128 columns are not supported");
    }
    return head_size <= HEAD_SIZE_MOST;
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
            attention_slack_kernel, m, lse, heads, batch->token_count);
}

void gpu_attention_forward(struct device *dev, const struct attention_args *args,
                           const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const size_t shared = shared_bytes(args->context.cols / args->heads);
    if (!fits(gpu, args->context.cols / args->heads)) {
        return;
    }
    gpu_run(gpu,
            {"attention_forward", attention_blocks(batch, args->heads), ATTENTION_THREADS, shared},
            attention_forward_kernel, *args, *batch);
    clear_slack(gpu, args->context, args->lse, args->heads, batch);
}

size_t gpu_attention_partial_bytes(const struct device_shape *shape) {
    return (size_t)(batch_round(shape->batch.tokens) * shape->heads) * sizeof(float);
}

void gpu_attention_backward(struct device *dev, const struct attention_grad_args *args,
                            const struct batch *batch) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t heads = args->heads, blocks = attention_blocks(batch, heads);
    const size_t shared = shared_bytes(args->context.cols / heads);
    if (!fits(gpu, args->context.cols / heads)) {
        return;
    }
    float *delta = gpu_partials(gpu, batch->row_count * heads);
    gpu_run(
        gpu, {"attention_delta", gpu_blocks(batch->token_count * heads, WARPS), ATTENTION_THREADS},
        attention_delta_kernel, delta, args->dcontext, args->context, heads, batch->token_count);
    gpu_run(gpu, {"attention_dquery", blocks, ATTENTION_THREADS, shared}, attention_dquery_kernel,
            *args, *batch, (const float *)delta);
    gpu_run(gpu, {"attention_dkey", blocks, ATTENTION_THREADS, shared}, attention_dkey_kernel,
            *args, *batch, (const float *)delta);
    clear_slack(gpu, args->dqkv, NULL, heads, batch);
}
