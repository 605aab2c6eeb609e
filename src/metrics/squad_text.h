// SPDX-License-Identifier: Apache-2.0
// The text of a predicted span.
//
// The text consists of the words that the span touches, cut at its first and last token if these
// begin or end within a word. With Google's token rules it is what Google's program finds, which is
// the same if that program can align the words with their tokens.
#ifndef BERTH_METRICS_SQUAD_TEXT_H
#define BERTH_METRICS_SQUAD_TEXT_H

#include "core/error.h"
#include "core/string_index.h"
#include "data/squad/squad.h"
#include "data/squad/squad_features.h"

#include <stddef.h>
#include <stdint.h>

struct squad_words;

// What has been read and cut for one question: a text without spaces is one long word, which should
// be read once, not for each of many spans. Zero-initialise.
struct squad_text_memo {
    struct token_list tokens;   // of the context; the other fields are for Google's rules
    struct string_index ranges; // ranges of words
    struct squad_words *words;  // [ranges.count]
    size_t capacity;
    struct string_index spans; // a range of words and a text cut from it
};

void squad_text_memo_done(struct squad_text_memo *memo);

struct squad_text_source {
    const struct squad_example *example;
    const struct squad_feature_set *set;
    const struct tokenizer *tokenizer;
    int whole_words;              // the text is not cut within a word of the tokenizer
    int as_written;               // the bytes of the context; 0: its white space as single blanks
    struct squad_text_memo *memo; // of this example
};

// An answer as spelled in the context.
struct squad_text {
    char *text;        // newly allocated (memory_free)
    size_t begin, end; // bytes of the context, end exclusive
};

// Cuts the answer for rows [start, end] of `feature`, both within the document part. The text is
// NULL if an earlier span, which the memo knows, had the same text.
enum berth_status squad_text_of_span(const struct squad_text_source *source,
                                     const struct squad_feature *feature, int32_t start,
                                     int32_t end, struct squad_text *answer,
                                     struct berth_error *error);

// A range of a text in bytes, end exclusive.
struct squad_text_range {
    size_t begin, end;
};

// get_final_text: the range of `original` (words joined by single spaces) that corresponds to the
// normalised text `predicted`; all of it if the two cannot be aligned.
enum berth_status squad_text_align(const struct tokenizer *tokenizer, const char *predicted,
                                   const char *original, size_t length,
                                   struct squad_text_range *range, struct berth_error *error);

#endif
