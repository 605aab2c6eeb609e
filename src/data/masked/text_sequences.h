// SPDX-License-Identifier: Apache-2.0
// Texts as sequences of tokens, by the rules of Hugging Face's run_mlm: one sequence for each line,
// or blocks of equal length of what follows each other.
//
//   lines   [CLS] line [SEP], truncated to the length; lines without tokens are left out
//   blocks  [CLS] line [SEP] [CLS] line [SEP] ..., also of empty lines, cut every `length` tokens.
//           Each 1,000 lines begin a new block, and what remains of them is left out.
//
// Leaves out: masks (word_masks.h).
#ifndef BERTH_DATA_TEXT_SEQUENCES_H
#define BERTH_DATA_TEXT_SEQUENCES_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct text_sequences {
    int32_t *ids;
    size_t *starts; // [count + 1] of each sequence in ids
    size_t count;
    size_t longest;   // tokens of a sequence
    int8_t *type_ids; // [longest] zeros
    size_t truncated; // lines
    size_t dropped;   // blocks: tokens of the remainders
};

struct text_sequence_rules {
    int by_line;
    int64_t max_length; // of a sequence, at least 4 (BERTH_USAGE)
    int threads;        // the result does not depend on their number
};

// Tokenizes texts[count]. Free with text_sequences_done. `count` of the result may be 0.
enum berth_status text_sequences_build(const char *const *texts, size_t count,
                                       const struct tokenizer *tokenizer,
                                       const struct text_sequence_rules *rules,
                                       struct text_sequences *sequences, struct berth_error *error);
void text_sequences_done(struct text_sequences *sequences);

// Sequence `index` of a struct text_sequences, without masks, for packer_source.get.
struct packer_sequence text_sequences_get(const void *sequences, size_t index);

#endif
