// SPDX-License-Identifier: Apache-2.0
// Counts the words of a text as basic.h yields them: cleaned, possibly lower-cased, split at white
// space and punctuation, but not yet into pieces.
#ifndef BERTH_TEXT_WORD_COUNTS_H
#define BERTH_TEXT_WORD_COUNTS_H

#include "core/error.h"
#include "core/string_index.h"

#include <stddef.h>
#include <stdint.h>

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

#endif
