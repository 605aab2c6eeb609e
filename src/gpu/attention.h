// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention share: the rows of a block, and a query's dropout mask. A block has
// some rows of one head of one sequence; the rows of all heads together are those of a matrix.
#ifndef BERTH_GPU_ATTENTION_H
#define BERTH_GPU_ATTENTION_H

#include "gpu/cost.h"
#include "gpu/gpu.h"
#include "gpu/kernel.h"

struct head_place {
    int64_t first, length; // the sequence's rows of the batch
    int64_t own;           // the block's first row, within the sequence
    int64_t sequence, head, heads, head_size, hidden;
    float scale; // 1 / sqrt(D)
};

// Blocks of ROWS rows are numbered along a sequence first, then by heads, then by sequences.
template <int ROWS>
DEVICE struct head_place head_place_of(const struct batch &batch, int64_t hidden, int64_t heads) {
    const int64_t groups = (batch.max_length + ROWS - 1) / ROWS;
    struct head_place place;
    place.own = blockIdx.x % groups * ROWS;
    place.head = blockIdx.x / groups % heads;
    place.heads = heads;
    place.sequence = blockIdx.x / groups / heads;
    place.first = batch.cu_seqlens[place.sequence];
    place.length = batch.cu_seqlens[place.sequence + 1] - place.first;
    place.hidden = hidden;
    place.head_size = hidden / heads;
    place.scale = 1.0f / sqrtf((float)place.head_size);
    return place;
}

template <int ROWS> static int64_t attention_blocks(const struct batch *batch, int64_t heads) {
    return gpu_blocks(batch->max_length, ROWS) * heads * batch->sequence_count;
}

// The element of a head's column in a row of the sequence. q, k and v are parts 0, 1 and 2 of qkv.
DEVICE int64_t head_index(const struct mat &m, const struct head_place &place, int part,
                          int64_t row, int64_t column) {
    return (place.first + row) * m.stride + part * place.hidden + place.head * place.head_size +
           column;
}

// The element of a row in a [R, A] array, as lse.
DEVICE int64_t head_number_index(const struct head_place &place, int64_t row) {
    return (place.first + row) * place.heads + place.head;
}

DEVICE struct mask_row query_mask(const struct dropout &dropout, const struct batch &batch,
                                  const struct head_place &place, int64_t query) {
    const int64_t sequence = dropout.threshold != 0 ? batch.global_indices[place.sequence] : 0;
    return mask_row_of(dropout, (uint32_t)place.head, sequence, (int32_t)query);
}

// --- costs --------------------------------------------------------------------------------------

// Pairs of a query and a key, where a sequence's rows are taken by OWN and by TILE.
template <int OWN, int TILE> static uint64_t attention_pairs(const struct batch &batch) {
    uint64_t pairs = 0;
    for (int64_t s = 0; s < batch.sequence_count; s++) {
        const int64_t length = batch.cu_seqlens[s + 1] - batch.cu_seqlens[s];
        pairs += (uint64_t)(gpu_blocks(length, OWN) * OWN * gpu_blocks(length, TILE) * TILE);
    }
    return pairs;
}

// Where each sequence begins, and in a mask.
static inline uint64_t attention_places_cost(const struct dropout &dropout,
                                             const struct batch &batch) {
    return cost_words(batch.cu_seqlens, batch.sequence_count + 1) +
           (dropout.threshold != 0 ? (uint64_t)batch.sequence_count * 8 : 0);
}

// Two products of a pair's columns: its score, and its part of the context.
static inline gpu_cost attention_forward_cost(const struct attention_args &a,
                                              const struct batch &batch, uint64_t pairs) {
    const int64_t tokens = batch.token_count;
    return {cost_rows(a.qkv, tokens) + attention_places_cost(a.dropout, batch),
            cost_rows(a.context, tokens) + cost_words(a.lse, tokens * a.heads),
            4 * pairs * (uint64_t)a.context.cols};
}

// The score and its gradient, and the parts of dQ or of dK and dV.
static inline gpu_cost attention_backward_cost(const struct attention_grad_args &a,
                                               const struct batch &batch, uint64_t pairs,
                                               bool keys) {
    const int64_t tokens = batch.token_count;
    return {cost_rows(a.qkv, tokens) + cost_rows(a.dcontext, tokens) +
                cost_words(a.lse, 2 * tokens * a.heads) + attention_places_cost(a.dropout, batch),
            cost_rows(a.dcontext, tokens) * (keys ? 2 : 1),
            (keys ? 8 : 6) * pairs * (uint64_t)a.context.cols};
}

// attention_cudnn.cu. False: not asked for, or not for these matrices; nothing was started.
bool attention_cudnn_forward(struct gpu *gpu, const struct attention_args *args,
                             const struct batch *batch);
// attention_mma.cu. False: not for these matrices; nothing was started.
bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch);
bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, const float *delta);

#endif
