// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention share: the rows of a block, and a query's dropout mask. A block has
// some rows of one head of one sequence; the rows of all heads together are those of a matrix.
#ifndef BERTH_GPU_ATTENTION_H
#define BERTH_GPU_ATTENTION_H

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
    return mask_row_of(dropout, (uint32_t)place.head, batch.places[place.sequence], (int32_t)query);
}

// attention_mma.cu. False: not for these matrices; nothing was started.
bool attention_mma_forward(struct gpu *gpu, const struct attention_args *args,
                           const struct batch *batch);
bool attention_mma_backward(struct gpu *gpu, const struct attention_grad_args *args,
                            const struct batch *batch, const float *delta);

#endif
