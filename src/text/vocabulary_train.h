// SPDX-License-Identifier: Apache-2.0
// Trains a WordPiece vocabulary on counted words, as the `tokenizers` library does: every word
// is first split into characters, all but the first with the prefix "##"; then the most frequent
// pair of neighbours is merged into one piece, again and again. (Google's own trainer was never
// published.)
//
// The same words give the same vocabulary, whatever their order: of equally frequent pairs the one
// with the older pieces is merged first.
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

#endif
