// SPDX-License-Identifier: Apache-2.0
// Converts texts to sequences of tokens by the rules of Hugging Face's run_mlm: one sequence per
// line, or blocks of equal length cut from consecutive lines.
//
//   lines   [CLS] line [SEP], truncated to max_length; lines without tokens are dropped
//   blocks  [CLS] line [SEP] [CLS] line [SEP] ..., empty lines included, cut every max_length
//           tokens. Every 1,000 lines a new block begins, and the incomplete last block is
//           dropped.
//
// Masks are chosen later (word_masks.h). The task fill builds them once when it opens a set.
#ifndef BERTH_DATA_TEXT_SEQUENCES_H
#define BERTH_DATA_TEXT_SEQUENCES_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct text_sequences {
    int32_t *ids;
    unsigned char *continues; // of each id: whether it is in the same word as the one before it
    size_t *starts;           // [count + 1] of the sequences in ids
    size_t count;
    size_t longest;   // tokens of the longest sequence
    int8_t *type_ids; // [longest] zeros
    size_t truncated; // lines
    size_t dropped;   // blocks: tokens of incomplete blocks
};

struct text_sequence_rules {
    int by_line;
    int64_t max_length; // of a sequence, at least 4 (BERTH_USAGE)
    int threads;        // the result does not depend on their number
};

// Tokenizes texts[count]. Free with text_sequences_done. The result may have no sequence.
enum berth_status text_sequences_build(const char *const *texts, size_t count,
                                       const struct tokenizer *tokenizer,
                                       const struct text_sequence_rules *rules,
                                       struct text_sequences *sequences, struct berth_error *error);
void text_sequences_done(struct text_sequences *sequences);

// Sequence `index` of a struct text_sequences, without masks, for packer_source.get.
struct packer_sequence text_sequences_get(const void *sequences, size_t index);

#endif
