// SPDX-License-Identifier: Apache-2.0
// Chooses at random which tokens are predicted and what replaces them: [MASK] in 80 % of the cases,
// a random token of the vocabulary in 10 %; 10 % stay unchanged.
//
// Each token, or each whole word, is predicted with the same probability, independently of the
// others. The choices are a pure function of the seed, the epoch, the index of the sequence and the
// position of the token: the block of rng_philox(seed, {position, sequence, epoch, a constant}).
// Word 0 of the block decides whether the token is predicted (for whole words, the block of the
// first piece), word 1 what replaces it, word 2 which random token. [CLS], [SEP] and [PAD] are
// never predicted. The feed of a training draws them for each update; evaluations have theirs drawn
// once by the task fill.
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
    int whole_words; // either all pieces of a word are predicted or none; 0: tokens are independent
};

// The epoch to use for evaluation, so that every evaluation has the same masks.
#define WORD_MASKS_EVALUATION UINT32_MAX

// Masked copies of some sequences.
struct word_masks {
    const struct text_sequences *all; // borrowed
    struct word_mask_rules rules;
    size_t count, token_count; // of the copies
    size_t *starts;            // [count] of the copies in the next three arrays
    int32_t *ids;
    uint16_t *positions; // of the predicted tokens, within the sequence
    int32_t *labels;
    int32_t *predicted; // [count] number of predicted tokens
    size_t sequence_capacity, token_capacity;
};

// Which sequences: order[count], or with order NULL [0, count).
struct word_mask_choice {
    uint32_t epoch;
    const uint32_t *order;
    size_t count;
};
// Makes masked copies of these sequences, which replace the previous copies. The result does not
// depend on the number of threads. Initialise `all` and `rules` of `masks`, the rest to zero. The
// only error is BERTH_NO_MEMORY.
enum berth_status word_masks_draw(struct word_masks *masks, const struct word_mask_choice *choice,
                                  int threads, struct berth_error *error);
void word_masks_done(struct word_masks *masks);

// Copy `index` of a struct word_masks, for packer_source.get.
struct packer_sequence word_masks_get(const void *masks, size_t index);

// The memory in bytes for copies of `sequences` sequences with `tokens` tokens in total.
uint64_t word_masks_bytes(uint64_t sequences, uint64_t tokens);

#endif
