// SPDX-License-Identifier: Apache-2.0
// Converts SQuAD examples to model inputs by one of two rule sets.
//
//   Google  [CLS] question [SEP] window [SEP]: sliding windows over the document, improved answer
//           spans, the max-context test, labels (0, 0) for windows without the answer
//   Keras   [CLS] context [SEP] question [SEP]: one sequence per entry; entries that do not fit are
//           skipped
//
// task/squad_input.c has a set made when it opens a file, and a call of the task answer its own.
#ifndef BERTH_DATA_SQUAD_FEATURES_H
#define BERTH_DATA_SQUAD_FEATURES_H

#include "core/error.h"
#include "core/log.h"
#include "data/squad/squad.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

#define SQUAD_FIRST_UNIQUE_ID 1000000000

enum squad_rules { SQUAD_RULES_GOOGLE, SQUAD_RULES_KERAS };

struct squad_feature_options {
    int64_t max_length;
    int64_t doc_stride;       // Google's rules only
    int64_t doc_overlap;      // > 0: tokens that successive windows share, in place of doc_stride
    int64_t max_query_length; // Google's rules only
    int training;             // with labels: exactly one answer per question, unless impossible
    enum squad_rules rules;
    int filter_by_words; // Google's rules, training: drop windows as BingBertSquad does
    int all_answers;     // Keras's rules, training: every answer is an entry, not only the first
    int end_exclusive;   // Keras's rules: the end is the row after the answer's last token
    int threads;         // that build the features; below 1: one; does not change them
};

// One window. Its tokens are ids[first .. first + length) in the pools of the set. The question has
// length - document_length - 3 tokens.
struct squad_feature {
    int64_t unique_id;
    int32_t example;        // index into the data set
    uint32_t first;         // index in the pools
    int32_t length;         // tokens, special ones included
    int32_t document_begin; // first row of the document part
    int32_t document_length;
    int32_t document_start; // index of the window's first token in the document
    int32_t start, end; // labels, as rows of the window; 0, 0: the answer is elsewhere; `length`
                        // or more: no label (windows filtered by words)
    int32_t answer;     // index of the answer that the labels are for
};

struct squad_feature_set {
    struct squad_feature *features;
    size_t count;
    int32_t *ids;            // pool
    int8_t *type_ids;        // pool
    int32_t *words;          // pool: index of the document word, -1 outside the document part
    uint8_t *max_context;    // pool: 1 if this is the token's best window
    size_t token_count;      // length of the pools
    size_t cls_labelled;     // features labelled (0, 0)
    size_t skipped_examples; // answers that were not found (with a warning); by Keras's rules,
                             // skipped entries
    size_t cut_questions;    // longer than max_query_length
    enum squad_rules rules;
    int32_t end_shift; // offset from the row of an answer's last token to that of its end label and
                       // logit
    // Words of the documents: bytes [begin, end) of the context. Questions of one paragraph share
    // their document's words. By Keras's rules every token counts as a word.
    uint32_t *word_begin, *word_end; // pools
    size_t *example_words; // [examples] index of the first word of each example's document
};

// Builds the features of a data set, which the caller may have built itself (storage NULL). The
// result does not depend on options->threads. An example whose document has no token has no
// features. Free with squad_feature_set_done. Errors: by Google's rules a training question without
// exactly one answer, and a question that leaves no room for the document within max_length; by
// Keras's rules a training question without an answer.
enum berth_status squad_features_build(const struct squad_dataset *dataset,
                                       const struct tokenizer *tokenizer,
                                       const struct squad_feature_options *options,
                                       const struct berth_log *log, struct squad_feature_set *set,
                                       struct berth_error *error);
void squad_feature_set_done(struct squad_feature_set *set);

#endif
