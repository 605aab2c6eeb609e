// SPDX-License-Identifier: Apache-2.0
// A batch: sequences laid end to end, and where each begins. There is no padding inside; the only
// slack is the tail of rows that rounds the token count up to a multiple of BATCH_ROUNDING. Slack
// rows belong to no sequence: their ids, type_ids and positions are 0, every operation keeps them
// finite, and they contribute to no gradient.
//
// The arrays of a batch share one block of memory (batch_carve), so a device with its own memory
// gets its copy in one upload (device_batch.h). The code that fills a batch owns and reads the
// host's arrays; operations read the device's. The counts are the same in both.
//
// packer_fill (data/batches/packer.h) fills the one batch of an engine again and again; after it
// nobody writes to the batch, but for masked_weight, until the next one is packed. Between two
// fills, what batch_check says is true of the host's batch.
#ifndef BERTH_CORE_BATCH_H
#define BERTH_CORE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#define BATCH_ROUNDING 64

// Some rows of a batch: the first of each sequence and those of the masked tokens.
struct batch_head {
    int64_t count;              // K
    const int32_t *rows;        // [K] rows of the batch, ascending; NULL: not built
    const int32_t *positions;   // [batch_round(K)] as in the batch
    const int32_t *sequences;   // [batch_round(K)]
    const int32_t *cu_seqlens;  // [S + 1] index of each sequence's first row, then K
    const int32_t *masked_rows; // [M] index of each masked token's row
};

struct batch {
    int64_t token_count;      // T: tokens of real sequences = cu_seqlens[sequence_count]
    int64_t row_count;        // T rounded up to BATCH_ROUNDING: rows of every activation
    int64_t sequence_count;   // S
    int64_t max_length;       // length of the longest sequence
    int64_t objective;        // of embeddings: index of what they are trained for (model/config.h)
    const int32_t *ids;       // [row_count]
    const int32_t *type_ids;  // [row_count]
    const int32_t *positions; // [row_count] 0.. within each sequence
    const int32_t *sequences; // [row_count] index of the token's sequence; -1 in the slack
    const int32_t *word_rows; // [T] rows by ascending id, rows of one id ascending; NULL: not built
    const int32_t *cu_seqlens; // [S + 1] first row of each sequence, then token_count
    // [S] index of each sequence in the global update, which keys its dropout
    const int64_t *global_indices;
    const int32_t *start_positions; // [S] label, row within the sequence
    const int32_t *end_positions;   // [S]
    const int32_t *labels;          // [S] class, or negative: none
    const float *targets;           // [S] real label, or NaN: none
    // [S, K] multi-label targets: 0 to 1 for each of K labels, NaN: unknown; or vectors of K
    // numbers; NULL if K is 0
    const float *label_targets;
    // Pre-training: the masked tokens. Token classification: the labelled ones.
    int64_t masked_count;         // M
    const int32_t *masked_rows;   // [M] rows of the batch, ascending
    const int32_t *masked_labels; // [M] the original tokens, or classes
    float masked_weight;          // of a masked token's loss relative to a sequence's
    struct batch_head head;       // for a head that reads no other rows of the last layer
};

// The size of a batch: a limit on batches, or the largest batch to expect.
struct batch_extent {
    int64_t tokens, sequences;
    int64_t masked;     // masked tokens
    int64_t max_length; // of a sequence
    int64_t labels;     // K of label_targets; 0: no multi-label targets
    int64_t head_rows;  // K of batch_head; 0: it is not built
};

static inline int64_t batch_round(int64_t tokens) {
    return (tokens + BATCH_ROUNDING - 1) / BATCH_ROUNDING * BATCH_ROUNDING;
}

// Points the arrays of `batch` into the block at `base`, with room for a batch of `extent`, and
// returns the block's size in bytes. With a NULL base it only measures, and the arrays become NULL.
size_t batch_carve(struct batch *batch, void *base, const struct batch_extent *extent);

// Builds `head` of a batch in the host's memory.
void batch_fill_head(struct batch *batch);

// The rows of `head` as a batch of their own, which has no ids, type_ids and word_rows. Its arrays
// are those of `batch`.
struct batch batch_of_head(const struct batch *batch);

// NULL, or what is not true of a batch in the host's memory (core/check.h).
const char *batch_check(const struct batch *batch);

// The element-wise maximum of two extents.
struct batch_extent batch_extent_larger(const struct batch_extent *a, const struct batch_extent *b);

#endif
