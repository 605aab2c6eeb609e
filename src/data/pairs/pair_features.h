// SPDX-License-Identifier: Apache-2.0
// Converts texts and pairs of texts to model inputs: [CLS] a [SEP] with type 0, or [CLS] a [SEP] b
// [SEP], in which b and the last [SEP] have type 1, or 0 if the tokenizer has one type. Some
// tokenizers have other tokens in these places, or two [SEP] between a and b.
//
// A pair that is too long loses tokens at the end of its longer text until it fits, and where both
// are equally long, one of each in turn. If both texts are cut and an odd number of tokens fits,
// the odd one stays, as in Hugging Face's `tokenizers` (longest_first), with the longer text, of
// equally long ones with the second; by Google's rule (tokenizer_options.google_pairs) with the
// first.
//
// A single text that is too long may have windows instead: features one after another, each with
// the tokens of its prompt, then some of the others. It is cut if the prompt alone is too long.
// Every task on texts makes the inputs of a call with it, and training those of a set.
#ifndef BERTH_DATA_PAIR_FEATURES_H
#define BERTH_DATA_PAIR_FEATURES_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "data/pairs/pairs.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

// The input of an example, or of a window of its text: feature i belongs to example i unless texts
// have windows, which follow each other.
struct pair_feature {
    size_t example; // of the data set
    size_t start;   // of a window, among its text's tokens after the prompt
    size_t first;   // index in the pools
    int32_t length; // tokens, special ones included
    int32_t second; // first row of b; `length` for single texts
    int32_t prompt; // tokens of the example's prompt alone; 0: it has none
    int truncated;
    int32_t label;         // class; -1: none
    float value;           // real label; NaN: none
    const int32_t *labels; // multi-label: classes, borrowed from the data set
    int32_t label_count;   // -1: unknown
};

struct pair_feature_set {
    struct pair_feature *features;
    size_t count;
    int32_t *ids;       // pool
    int8_t *type_ids;   // pool
    size_t token_count; // length of the pools
    size_t truncated;   // truncated examples
};

// Builds the features of a whole data set on `threads` threads; the result does not depend on their
// number. Free with pair_feature_set_done. max_length: 4 or more (BERTH_USAGE).
enum berth_status pair_features_build(const struct pair_dataset *dataset,
                                      const struct tokenizer *tokenizer, int64_t max_length,
                                      int threads, struct pair_feature_set *set,
                                      struct berth_error *error);
void pair_feature_set_done(struct pair_feature_set *set);

// Feature `index` of a struct pair_feature_set, for packer_source.get.
struct packer_sequence pair_features_sequence(const void *set, size_t index);

// Truncates the lengths of two texts to `room` tokens together (special tokens not counted).
void pair_features_truncate(const struct tokenizer *tokenizer, size_t *first, size_t *second,
                            size_t room);

#endif
