// SPDX-License-Identifier: Apache-2.0
// Lays out a batch: all its arrays are in one block of memory. Also finds the rows that a head
// reads, once data/batches/packer.c has filled in the rest.
#include "core/batch.h"

#include "core/check.h"

#define ALIGNMENT 64

// Carves the next `count` elements from the block.
static void *carve(char *base, size_t *used, int64_t count, size_t size) {
    void *array = base == NULL ? NULL : base + *used;
    *used += ((size_t)count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return array;
}

size_t batch_carve(struct batch *batch, void *base, const struct batch_extent *extent) {
    size_t used = 0;
    const int64_t rows = batch_round(extent->tokens), sequences = extent->sequences;
    batch->ids = carve(base, &used, rows, sizeof(int32_t));
    batch->type_ids = carve(base, &used, rows, sizeof(int32_t));
    batch->positions = carve(base, &used, rows, sizeof(int32_t));
    batch->sequences = carve(base, &used, rows, sizeof(int32_t));
    batch->word_rows = carve(base, &used, rows, sizeof(int32_t));
    batch->cu_seqlens = carve(base, &used, sequences + 1, sizeof(int32_t));
    batch->global_indices = carve(base, &used, sequences, sizeof(int64_t));
    batch->start_positions = carve(base, &used, sequences, sizeof(int32_t));
    batch->end_positions = carve(base, &used, sequences, sizeof(int32_t));
    batch->labels = carve(base, &used, sequences, sizeof(int32_t));
    batch->targets = carve(base, &used, sequences, sizeof(float));
    batch->label_targets =
        extent->labels > 0 ? carve(base, &used, sequences * extent->labels, sizeof(float)) : NULL;
    batch->masked_rows = carve(base, &used, extent->masked, sizeof(int32_t));
    batch->masked_labels = carve(base, &used, extent->masked, sizeof(int32_t));
    if (extent->head_rows > 0) {
        struct batch_head *head = &batch->head;
        const int64_t head_rows = batch_round(extent->head_rows);
        head->rows = carve(base, &used, head_rows, sizeof(int32_t));
        head->positions = carve(base, &used, head_rows, sizeof(int32_t));
        head->sequences = carve(base, &used, head_rows, sizeof(int32_t));
        head->cu_seqlens = carve(base, &used, extent->sequences + 1, sizeof(int32_t));
        head->masked_rows = carve(base, &used, extent->masked, sizeof(int32_t));
    }
    return used;
}

// Appends row `row` of the batch to the head's and returns its index there.
static int32_t add_row(struct batch *batch, int64_t row, int32_t sequence) {
    struct batch_head *head = &batch->head;
    ((int32_t *)head->rows)[head->count] = (int32_t)row;
    ((int32_t *)head->positions)[head->count] = batch->positions[row];
    ((int32_t *)head->sequences)[head->count] = sequence;
    return (int32_t)head->count++;
}

void batch_fill_head(struct batch *batch) {
    struct batch_head *head = &batch->head;
    int64_t masked = 0;
    head->count = 0;
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        const int32_t first = batch->cu_seqlens[s];
        const int32_t index = add_row(batch, first, (int32_t)s);
        ((int32_t *)head->cu_seqlens)[s] = index;
        for (;
             masked < batch->masked_count && batch->masked_rows[masked] < batch->cu_seqlens[s + 1];
             masked++) {
            const int32_t row = batch->masked_rows[masked];
            ((int32_t *)head->masked_rows)[masked] =
                row == first ? index : add_row(batch, row, (int32_t)s);
        }
    }
    ((int32_t *)head->cu_seqlens)[batch->sequence_count] = (int32_t)head->count;
    for (int64_t i = head->count; i < batch_round(head->count); i++) {
        ((int32_t *)head->positions)[i] = 0;
        ((int32_t *)head->sequences)[i] = -1;
    }
}

struct batch batch_of_head(const struct batch *batch) {
    struct batch head = *batch;
    head.token_count = batch->head.count;
    head.row_count = batch_round(batch->head.count);
    head.ids = head.type_ids = head.word_rows = NULL;
    head.positions = batch->head.positions;
    head.sequences = batch->head.sequences;
    head.cu_seqlens = batch->head.cu_seqlens;
    head.masked_rows = batch->head.masked_rows;
    return head;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static const char *check_rows(const struct batch *batch) {
    int64_t longest = 0;
    CLAUSE(batch->cu_seqlens[0] == 0, "the first sequence begins at row 0");
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        const int32_t first = batch->cu_seqlens[s], end = batch->cu_seqlens[s + 1];
        CLAUSE(first < end && end <= batch->token_count, "every sequence has tokens");
        longest = larger(longest, end - first);
        for (int32_t row = first; row < end; row++) {
            CLAUSE(batch->sequences[row] == s, "each row has the index of its sequence");
            CLAUSE(batch->positions[row] == row - first, "positions count a sequence's rows");
        }
    }
    CLAUSE(batch->cu_seqlens[batch->sequence_count] == batch->token_count,
           "the last sequence ends with the tokens");
    CLAUSE(batch->max_length == longest, "max_length is the length of the longest sequence");
    for (int64_t row = batch->token_count; row < batch->row_count; row++) {
        CLAUSE(batch->sequences[row] == -1, "slack rows belong to no sequence");
        CLAUSE(batch->ids[row] == 0 && batch->type_ids[row] == 0 && batch->positions[row] == 0,
               "ids, type_ids and positions of slack rows are 0");
    }
    return NULL;
}

static const char *check_words(const struct batch *batch) {
    for (int64_t i = 1; i < batch->token_count && batch->word_rows != NULL; i++) {
        const int32_t last = batch->word_rows[i - 1], row = batch->word_rows[i];
        CLAUSE(batch->ids[last] < batch->ids[row] ||
                   (batch->ids[last] == batch->ids[row] && last < row),
               "word_rows are in the order of the ids, rows of one id ascending");
    }
    return NULL;
}

static const char *check_head(const struct batch *batch) {
    const struct batch_head *head = &batch->head;
    if (head->rows == NULL) {
        return NULL;
    }
    CLAUSE(head->cu_seqlens[batch->sequence_count] == head->count,
           "the head's last sequence ends with its rows");
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        CLAUSE(head->rows[head->cu_seqlens[s]] == batch->cu_seqlens[s],
               "the head has the first row of each sequence");
    }
    for (int64_t i = 1; i < head->count; i++) {
        CLAUSE(head->rows[i - 1] < head->rows[i], "the head's rows ascend");
    }
    for (int64_t i = 0; i < batch->masked_count; i++) {
        CLAUSE(head->rows[head->masked_rows[i]] == batch->masked_rows[i],
               "the head has the row of each masked token");
    }
    return NULL;
}

const char *batch_check(const struct batch *batch) {
    CLAUSE(batch->sequence_count >= 0 && batch->token_count >= 0 && batch->masked_count >= 0,
           "no count is negative");
    CLAUSE(batch->row_count == batch_round(batch->token_count),
           "row_count is token_count, rounded up");
    const char *broken = check_rows(batch);
    for (int64_t i = 0; i < batch->masked_count && broken == NULL; i++) {
        CLAUSE(batch->masked_rows[i] > (i > 0 ? batch->masked_rows[i - 1] : -1) &&
                   batch->masked_rows[i] < batch->token_count,
               "masked rows ascend and are tokens");
    }
    broken = broken == NULL ? check_words(batch) : broken;
    return broken == NULL ? check_head(batch) : broken;
}

struct batch_extent batch_extent_larger(const struct batch_extent *a,
                                        const struct batch_extent *b) {
    return (struct batch_extent){.tokens = larger(a->tokens, b->tokens),
                                 .sequences = larger(a->sequences, b->sequences),
                                 .masked = larger(a->masked, b->masked),
                                 .max_length = larger(a->max_length, b->max_length),
                                 .labels = larger(a->labels, b->labels),
                                 .head_rows = larger(a->head_rows, b->head_rows)};
}
