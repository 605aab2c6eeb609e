// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention share: the rows of a block of threads, a query's dropout mask, and
// costs. A block has some rows of one head of one sequence; a row of the matrix holds all heads
// side by side.
#ifndef BERTH_GPU_ATTENTION_H
#define BERTH_GPU_ATTENTION_H

#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"

// The parts of qkv. The context and its gradient have a single part, the first.
enum head_part { PART_QUERY, PART_KEY, PART_VALUE, PART_CONTEXT = 0 };

struct block_rows {
    int64_t sequence_start, length; // the sequence's rows in the batch
    int64_t first_row;              // the block's first row, counted within the sequence
    int64_t sequence, head, heads, head_size, hidden;
    float scale; // 1 / sqrt(D)
};

// Blocks of ROWS rows are numbered along a sequence first, then by head, then by sequence. Division
// of 64 bits would take longer than some blocks' products.
template <int ROWS>
DEVICE struct block_rows find_block_rows(const struct batch &batch, int64_t hidden, int64_t heads) {
    const unsigned groups = (unsigned)(batch.max_length + ROWS - 1) / ROWS;
    const unsigned of_sequence = blockIdx.x / groups, head_count = (unsigned)heads;
    struct block_rows block;
    block.first_row = blockIdx.x % groups * ROWS;
    block.head = of_sequence % head_count;
    block.heads = heads;
    block.sequence = of_sequence / head_count;
    block.sequence_start = batch.cu_seqlens[block.sequence];
    block.length = batch.cu_seqlens[block.sequence + 1] - block.sequence_start;
    block.hidden = hidden;
    block.head_size = (unsigned)hidden / head_count;
    block.scale = 1.0f / sqrtf((float)block.head_size);
    return block;
}

template <int ROWS> static int64_t attention_blocks(const struct batch *batch, int64_t heads) {
    return gpu_blocks(batch->max_length, ROWS) * heads * batch->sequence_count;
}

// The index of a head's column in a row of the sequence.
DEVICE int64_t head_index(const struct mat &m, const struct block_rows &block, enum head_part part,
                          int64_t row, int64_t column) {
    return (block.sequence_start + row) * m.stride + part * block.hidden +
           block.head * block.head_size + column;
}

// The index of a row in a [R, A] array, such as lse.
DEVICE int64_t head_number_index(const struct block_rows &block, int64_t row) {
    return (block.sequence_start + row) * block.heads + block.head;
}

DEVICE struct mask_row query_mask(const struct dropout &dropout, const struct batch &batch,
                                  const struct block_rows &block, int64_t query) {
    const int64_t global_index = dropout.threshold != 0 ? batch.global_indices[block.sequence] : 0;
    return mask_row_of(dropout, (uint32_t)block.head, global_index, (int32_t)query);
}

// The mask's rows of the block's sequence and head (device/device.h); NULL for NULL.
DEVICE const uint16_t *mask_rows(const uint16_t *masks, const struct batch &batch,
                                 const struct block_rows &block) {
    return masks == NULL
               ? NULL
               : masks +
                     block.sequence_start * block.heads * attention_mask_words(batch.max_length) +
                     block.head * block.length * attention_mask_words(block.length);
}

// --- costs --------------------------------------------------------------------------------------

// Pairs of a query and a key if rows are processed OWN at a time on one side and TILE at a time on
// the other.
template <int OWN, int TILE> static uint64_t attention_pairs(const struct batch &batch) {
    uint64_t pairs = 0;
    for (int64_t s = 0; s < batch.sequence_count; s++) {
        const int64_t length = batch.cu_seqlens[s + 1] - batch.cu_seqlens[s];
        pairs += (uint64_t)(gpu_blocks(length, OWN) * OWN * gpu_blocks(length, TILE) * TILE);
    }
    return pairs;
}

// Bytes that say where each sequence begins.
static inline uint64_t attention_bounds_cost(const struct batch &batch) {
    return cost_words(batch.cu_seqlens, batch.sequence_count + 1);
}

// Bytes that say which sequence of the update each one is, for a kernel that draws masks.
static inline uint64_t attention_draws_cost(const struct dropout &dropout,
                                            const struct batch &batch) {
    return dropout.threshold != 0 ? (uint64_t)batch.sequence_count * 8 : 0;
}

// Bytes of the masks of all queries for the keys of a sequence, UNIT keys at a time.
template <int UNIT>
static uint64_t attention_masks_cost(const struct dropout &dropout, const struct batch &batch,
                                     int64_t heads) {
    uint64_t bytes = 0;
    for (int64_t s = 0; dropout.threshold != 0 && s < batch.sequence_count; s++) {
        const int64_t length = batch.cu_seqlens[s + 1] - batch.cu_seqlens[s];
        bytes += (uint64_t)(length * heads * gpu_blocks(length, UNIT) * UNIT / 8);
    }
    return bytes;
}

// Each pair takes two products over the columns: its score, and its share of the context.
static inline gpu_cost attention_forward_cost(const struct attention_args &a,
                                              const struct batch &batch, uint64_t pairs) {
    const int64_t tokens = batch.token_count;
    return {cost_rows(a.qkv, tokens) + attention_bounds_cost(batch),
            cost_rows(a.context, tokens) + cost_words(a.lse, tokens * a.heads),
            4 * pairs * (uint64_t)a.context.cols};
}

// The score and its gradient, and the share of dQ or of dK and dV.
static inline gpu_cost attention_backward_cost(const struct attention_grad_args &a,
                                               const struct batch &batch, uint64_t pairs,
                                               bool keys) {
    const int64_t tokens = batch.token_count;
    return {cost_rows(a.qkv, tokens) + cost_rows(a.dcontext, tokens) +
                cost_words(a.lse, 2 * tokens * a.heads) + attention_bounds_cost(batch),
            cost_rows(a.dcontext, tokens) * (keys ? 2 : 1),
            (keys ? 8 : 6) * pairs * (uint64_t)a.context.cols};
}

// attention_cudnn.cu. False: not requested, or not supported for these matrices; nothing was
// started.
bool attention_cudnn_forward(struct gpu *gpu, const struct attention_args *args,
                             const struct batch *batch);
// attention_mma.cu, attention_mma_backward.cu. False: not supported for these matrices; nothing was
// started. delta is scratch memory for a number of each row and head.
bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch);
bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, float *delta);

#endif
