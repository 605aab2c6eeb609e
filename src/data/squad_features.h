// SPDX-License-Identifier: Apache-2.0
// SQuAD examples to model inputs by Google's window rules (systems.md section 7): [CLS] question
// [SEP] document window [SEP], stride, improved answer span, max-context test, (0,0) labels for
// windows without the answer.
#ifndef BERTH_DATA_SQUAD_FEATURES_H
#define BERTH_DATA_SQUAD_FEATURES_H

#include "core/error.h"
#include "core/log.h"
#include "data/squad.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

#define SQUAD_FIRST_UNIQUE_ID 1000000000

struct squad_feature_options {
    int64_t max_seq_length;
    int64_t doc_stride;
    int64_t max_query_length;
    int training; // labels wanted: exactly one answer a question, unless impossible
};

// One window. Token arrays lie in the set's pools: ids[first .. first + length).
struct squad_feature {
    int64_t unique_id;
    int32_t example;        // index into the data set
    uint32_t first;         // place in the pools
    int32_t length;         // tokens, special ones included
    int32_t document_begin; // first row of the document part: question length + 2
    int32_t document_length;
    int32_t document_start; // the window's first token, counted in the whole document
    int32_t start, end;     // labels, rows of the window; 0, 0: not in this window
};

struct squad_feature_set {
    struct squad_feature *features;
    size_t count;
    int32_t *ids;            // pool
    int8_t *type_ids;        // pool
    int32_t *words;          // pool: index of the document word, -1 outside the document part
    uint8_t *max_context;    // pool: 1 where this window is the token's best
    size_t token_count;      // length of the pools
    size_t cls_labelled;     // features labelled (0, 0)
    size_t skipped_examples; // answers that could not be found again (warned about)
    // Words of the documents: bytes [begin, end) of the context. Questions of one paragraph share
    // their document's words.
    uint32_t *word_begin, *word_end; // pools
    size_t *example_words;           // [examples] where the words of each example's document begin
};

// Builds the features of a whole data set (one made by hand will do: count examples, storage NULL)
// on `threads` threads; order and ids are those of one thread. An example without a document token
// has no features. Free with squad_feature_set_done. Errors: a training question that has not
// exactly one answer, a question that leaves no room for the document within max_seq_length.
enum berth_status squad_features_build(const struct squad_dataset *dataset,
                                       const struct tokenizer *tokenizer,
                                       const struct squad_feature_options *options, int threads,
                                       const struct berth_log *log, struct squad_feature_set *set,
                                       struct berth_error *error);
void squad_feature_set_done(struct squad_feature_set *set);

#endif
