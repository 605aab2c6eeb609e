// SPDX-License-Identifier: Apache-2.0
// Trains a WordPiece or byte-level BPE vocabulary on counted words, as the `tokenizers` library
// does: every word is first split into characters, all but the first with the prefix "##", or into
// bytes; then the most frequent pair of neighbours is merged into one piece, again and again.
// (Google's own trainer was never published.)
//
// The same words give the same vocabulary, whatever their order: of equally frequent pairs the one
// with the older pieces is merged first. The job vocab calls it; tokenizer.h and word_models.c run
// the result.
#ifndef BERTH_TEXT_VOCABULARY_TRAIN_H
#define BERTH_TEXT_VOCABULARY_TRAIN_H

#include "core/error.h"
#include "core/log.h"
#include "core/string_index.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// The words of a text as basic.h yields them: cleaned, possibly lower-cased, split at white space
// and punctuation, but not yet into pieces.

// Longer words are not counted: they become [UNK] (tokenizer.h).
#define WORD_CHARACTERS_MAX 100

struct word_counts {
    struct string_index words;
    uint64_t *counts; // [words.count]
    size_t capacity;
    uint64_t total; // of all words counted
};

// Adds the words of text[0 .. length), length at most UINT32_MAX, by Hugging Face's rules.
// Zero-initialise the counts before the first call. BERTH_NO_MEMORY is the only error.
enum berth_status word_counts_add_text(struct word_counts *counts, const char *text, size_t length,
                                       int lower_case, struct berth_error *error);
// Adds `count` occurrences of the word bytes[0 .. length).
enum berth_status word_counts_add(struct word_counts *counts, const char *bytes, size_t length,
                                  uint64_t count, struct berth_error *error);
void word_counts_done(struct word_counts *counts);

// Adds what a pipeline makes of each line of the text before its model.
struct text_pipeline;
enum berth_status word_counts_add_lines(struct word_counts *counts,
                                        const struct text_pipeline *pipeline, const char *text,
                                        size_t length, struct berth_error *error);

struct vocabulary_rules {
    size_t size;            // number of pieces, special ones included
    size_t limit_alphabet;  // maximum of distinct characters; words with rarer ones are ignored
    uint64_t min_frequency; // rarer pairs do not become pieces
};

// Fills `pieces`, number = id: [PAD] [UNK] [CLS] [SEP] [MASK], the characters in the order of their
// code points, the same as "##" pieces, then the merged pairs. There are fewer than rules->size if
// no further pair is frequent enough. BERTH_CONFIG: the special pieces and characters alone exceed
// rules->size. BERTH_BAD_DATA: there are no words. BERTH_INTERRUPTED: *stop was set (`stop` may be
// NULL). Progress goes to the log. string_index_done frees the pieces, also after a failure.
enum berth_status vocabulary_train(const struct word_counts *counts,
                                   const struct vocabulary_rules *rules,
                                   const struct berth_log *log, const atomic_int *stop,
                                   struct string_index *pieces, struct berth_error *error);

// Pairs of pieces that became one, in their order.
struct vocabulary_merges {
    struct vocabulary_merge {
        int32_t left, right;
    } * items;
    size_t count, capacity;
};
// The same of words as bytes, which pieces write as the pre-tokenizer ByteLevel does: after the
// `special_count` special pieces, those of all bytes in the order of their characters, then the
// merged pairs. The limit of the alphabet has no effect. memory_free the merges.
enum berth_status vocabulary_train_bytes(const struct word_counts *counts,
                                         const struct vocabulary_rules *rules,
                                         const char *const *specials, size_t special_count,
                                         const struct berth_log *log, const atomic_int *stop,
                                         struct string_index *pieces,
                                         struct vocabulary_merges *merges,
                                         struct berth_error *error);

#endif
