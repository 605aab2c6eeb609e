// SPDX-License-Identifier: Apache-2.0
// Reads examples of two or three texts from a table: pairs, pairs with a score, triplets (a text,
// one that is near to it, one that is far from it). The data of sentence embeddings.
#ifndef BERTH_DATA_TEXT_EXAMPLES_H
#define BERTH_DATA_TEXT_EXAMPLES_H

#include "core/error.h"
#include "data/tables/table.h"

#include <stddef.h>

#define TEXT_EXAMPLE_MAX 3

// Columns of the texts and of the score. Without the first text's name they follow from the file:
// the score is the column score, scores, label or labels, the texts are the other columns that are
// not called id or idx, in their order, as in sentence-transformers.
struct text_example_settings {
    const char *texts[TEXT_EXAMPLE_MAX]; // the third NULL: pairs
    const char *score;                   // NULL: none
};

struct text_example {
    const char *texts[TEXT_EXAMPLE_MAX]; // borrowed from the table
    double score;                        // NaN: none
    size_t line;                         // of the file
};

struct text_examples {
    struct text_example *items;
    size_t count, texts; // of each: 2 or 3
    int has_scores;
    const char *columns[TEXT_EXAMPLE_MAX]; // which were read
    const char *score_column;              // NULL: none
    struct table table;
};

// Free with text_examples_done, also after a failure. Errors are those of table.h, and
// (BERTH_BAD_DATA) another number of columns than two or three, a score that is not a finite
// number, a score of triplets.
enum berth_status text_examples_read(const char *path, const struct text_example_settings *settings,
                                     struct text_examples *examples, struct berth_error *error);
void text_examples_done(struct text_examples *examples);

#endif
