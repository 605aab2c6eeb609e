// SPDX-License-Identifier: Apache-2.0
// A batch: sequences laid end to end, and where each begins. There is no padding inside; the only
// slack is the tail of rows that rounds the token count up to a multiple of BATCH_ROUNDING. Slack
// rows belong to no sequence: ids, type_ids and positions are 0 there, every op keeps them finite,
// and no gradient comes from them.
#ifndef BERTH_CORE_BATCH_H
#define BERTH_CORE_BATCH_H

#include <stdint.h>

#define BATCH_ROUNDING 64

// All arrays are owned by whoever filled the batch and are only read by the devices.
struct batch {
    int64_t token_count;       // T: tokens of real sequences = cu_seqlens[sequence_count]
    int64_t row_count;         // T rounded up to BATCH_ROUNDING: rows of every activation
    int64_t sequence_count;    // S
    int64_t max_length;        // length of the longest sequence
    const int32_t *ids;        // [row_count]
    const int32_t *type_ids;   // [row_count]
    const int32_t *positions;  // [row_count] 0.. within each sequence
    const int32_t *sequences;  // [row_count] index of the token's sequence; -1 in the slack
    const int32_t *cu_seqlens; // [S + 1] first row of each sequence, then token_count
    const int64_t *places;     // [S] place of each sequence in the global update: keys its dropout
    const int32_t *start_positions; // [S] label, row within the sequence; NULL in prediction
    const int32_t *end_positions;   // [S]
    const int32_t *labels;          // [S] class, or negative: none
    const float *targets;           // [S] real label, or NaN: none
    // Pre-training: the masked tokens.
    int64_t masked_count;         // M
    const int32_t *masked_rows;   // [M] rows of the batch, ascending
    const int32_t *masked_labels; // [M] the words that stood there
    float masked_weight;          // of a masked token's loss beside that of a sequence
};

static inline int64_t batch_round(int64_t tokens) {
    return (tokens + BATCH_ROUNDING - 1) / BATCH_ROUNDING * BATCH_ROUNDING;
}

#endif
