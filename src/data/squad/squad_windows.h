// SPDX-License-Identifier: Apache-2.0
// Windows over a tokenized document: which are kept, their lengths, and how they are written into a
// feature set. Only squad_features.c plans with it; Keras's rules know no windows.
#ifndef BERTH_DATA_SQUAD_WINDOWS_H
#define BERTH_DATA_SQUAD_WINDOWS_H

#include "data/squad/squad_features.h"

// A context, tokenized once for all its questions.
struct squad_document {
    const char *context;
    size_t context_length;
    size_t first_word; // in the set's pools
    size_t word_count;
    int32_t *ids;
    int32_t *words;   // of each token
    uint32_t *begins; // offset in the context where each token begins
    int64_t token_count;
};

// The plan of an example, made before the offsets of its windows are known.
struct squad_plan {
    const struct squad_document *document;
    int32_t *query;
    int64_t query_length;
    int64_t start, end;            // the answer's first and last token in the document; -1: none
    int64_t first_word, last_word; // of the answer, in the document
    int by_words;                  // windows are filtered by the words of the answer
    int specials;                  // special tokens of a window
    int64_t room, step, windows;
    int64_t kept, kept_tokens; // windows that are kept, and their tokens, special ones included
    size_t first_feature, first_token;
    int skipped;
    int cut; // the question is longer than max_query_length
};

// The number of document tokens of window `window`.
int64_t squad_window_length(const struct squad_plan *plan, int64_t window);

// Whether window `window` is kept (squad_features.c describes the filter by words).
int squad_window_is_kept(const struct squad_plan *plan, int64_t window);

// Fills the features and tokens of an example's windows; plan->first_feature and ->first_token are
// their indices in the set's arrays.
void squad_windows_fill(const struct squad_feature_set *set, const struct squad_plan *plan,
                        int32_t example, struct tokenizer_special special);

#endif
