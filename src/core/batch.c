// SPDX-License-Identifier: Apache-2.0
#include "core/batch.h"

#define ALIGNMENT 64

// Hands out consecutive pieces of the block.
static void *take(char *base, size_t *used, int64_t count, size_t size) {
    void *piece = base == NULL ? NULL : base + *used;
    *used += ((size_t)count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return piece;
}

size_t batch_carve(struct batch *batch, void *base, const struct batch_extent *extent) {
    size_t used = 0;
    const int64_t rows = batch_round(extent->tokens), sequences = extent->sequences;
    batch->ids = take(base, &used, rows, sizeof(int32_t));
    batch->type_ids = take(base, &used, rows, sizeof(int32_t));
    batch->positions = take(base, &used, rows, sizeof(int32_t));
    batch->sequences = take(base, &used, rows, sizeof(int32_t));
    batch->word_rows = take(base, &used, rows, sizeof(int32_t));
    batch->cu_seqlens = take(base, &used, sequences + 1, sizeof(int32_t));
    batch->places = take(base, &used, sequences, sizeof(int64_t));
    batch->start_positions = take(base, &used, sequences, sizeof(int32_t));
    batch->end_positions = take(base, &used, sequences, sizeof(int32_t));
    batch->labels = take(base, &used, sequences, sizeof(int32_t));
    batch->targets = take(base, &used, sequences, sizeof(float));
    batch->shares =
        extent->labels > 0 ? take(base, &used, sequences * extent->labels, sizeof(float)) : NULL;
    batch->masked_rows = take(base, &used, extent->masked, sizeof(int32_t));
    batch->masked_labels = take(base, &used, extent->masked, sizeof(int32_t));
    return used;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

struct batch_extent batch_extent_larger(const struct batch_extent *a,
                                        const struct batch_extent *b) {
    return (struct batch_extent){.tokens = larger(a->tokens, b->tokens),
                                 .sequences = larger(a->sequences, b->sequences),
                                 .masked = larger(a->masked, b->masked),
                                 .max_length = larger(a->max_length, b->max_length),
                                 .labels = larger(a->labels, b->labels)};
}
