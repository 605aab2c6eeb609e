// SPDX-License-Identifier: Apache-2.0
// Reads the data of sentence embeddings from a table: pairs, pairs with a score, or triplets (a
// text, a similar one, a dissimilar one).
#ifndef BERTH_DATA_TEXT_EXAMPLES_H
#define BERTH_DATA_TEXT_EXAMPLES_H

#include "core/error.h"
#include "data/tables/table.h"

#include <stddef.h>

#define TEXT_EXAMPLE_MAX 3

// The columns of the texts and of the score. If texts[0] is NULL, so are the others, and the
// columns are those of sentence-transformers: the score, unless it is named, is the column score,
// scores, label or labels; the texts are the other columns, in order, except id and idx.
struct text_example_settings {
    const char *texts[TEXT_EXAMPLE_MAX]; // the third NULL: pairs
    const char *score;                   // NULL: none, or by its name as above
};

struct text_example {
    const char *texts[TEXT_EXAMPLE_MAX]; // borrowed from the table
    double score;                        // NaN: none
    size_t line;                         // of the file
};

struct text_examples {
    struct text_example *items;
    size_t count, texts; // texts: per example, 2 or 3
    int has_scores;
    const char *columns[TEXT_EXAMPLE_MAX]; // those read
    const char *score_column;              // NULL: none
    struct table table;
};

// Free with text_examples_done, also after a failure. Errors are those of table.h, and
// (BERTH_BAD_DATA) a number of columns other than two or three, a score that is not a finite
// number, triplets with a score.
enum berth_status text_examples_read(const char *path, const struct text_example_settings *settings,
                                     struct text_examples *examples, struct berth_error *error);
void text_examples_done(struct text_examples *examples);

#endif
