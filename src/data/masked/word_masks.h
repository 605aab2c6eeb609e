// SPDX-License-Identifier: Apache-2.0
// Draws which tokens of sequences are predicted, and what replaces them: [MASK] in 80 of 100 cases,
// any token of the vocabulary in 10; 10 stay as they are.
//
// Each token, or each word, is predicted with the same probability, independently of the others.
// The draws are a pure function of seed, epoch, number of the sequence and position of the token:
// the block of rng_philox(seed, {position, sequence, epoch, a constant}). Word 0 decides whether
// the token is predicted (with whole words, that of a word's first piece), word 1 what replaces it,
// word 2 by which token. [CLS], [SEP] and [PAD] are never predicted.
#ifndef BERTH_DATA_WORD_MASKS_H
#define BERTH_DATA_WORD_MASKS_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "data/masked/text_sequences.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct word_mask_rules {
    uint64_t seed;
    double probability;
    int32_t vocab_size;
    struct tokenizer_special special;
    const unsigned char *continues; // [vocab_size] whether a piece continues a word: all pieces of
                                    // a word are predicted or none; NULL: each for itself
};

// The epoch of masks for evaluation, which are the same in every evaluation.
#define WORD_MASKS_EVALUATION UINT32_MAX

// Masked copies of some sequences.
struct word_masks {
    const struct text_sequences *all; // borrowed
    struct word_mask_rules rules;
    size_t count, token_count; // of the copies
    size_t *starts;            // [count] of each copy in the next three
    int32_t *ids;
    uint16_t *positions; // of the predicted tokens within the sequence
    int32_t *labels;
    int32_t *predicted; // [count] their number
    size_t sequence_capacity, token_capacity;
};

// Which sequences: order[count], or with order NULL [0, count).
struct word_mask_choice {
    uint32_t epoch;
    const uint32_t *order;
    size_t count;
};
// Draws the masks of these sequences, whose copies replace the former ones. The result does not
// depend on the number of threads. Initialise `masks` with `all` and `rules`, else zero. The only
// error is BERTH_NO_MEMORY.
enum berth_status word_masks_draw(struct word_masks *masks, const struct word_mask_choice *choice,
                                  int threads, struct berth_error *error);
void word_masks_done(struct word_masks *masks);

// Copy `index` of a struct word_masks, for packer_source.get.
struct packer_sequence word_masks_get(const void *masks, size_t index);

// The bytes of memory for copies of `sequences` sequences of `tokens` tokens together.
uint64_t word_masks_bytes(uint64_t sequences, uint64_t tokens);

// Fills continues[tokenizer_size] for struct word_mask_rules.
void word_masks_find_continuations(const struct tokenizer *tokenizer, unsigned char *continues);

#endif
