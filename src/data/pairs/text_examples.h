// SPDX-License-Identifier: Apache-2.0
// Reads the data of sentence embeddings from a table: an example of one or more texts (two that are
// alike, then others that are not), with a score, a list of numbers, or neither. Read by the task
// embed and the job mine; tokens are made of the texts by pair_features.h.
#ifndef BERTH_DATA_TEXT_EXAMPLES_H
#define BERTH_DATA_TEXT_EXAMPLES_H

#include "core/error.h"
#include "data/tables/table.h"

#include <stddef.h>

#define TEXT_EXAMPLE_MAX 66

// The columns of the texts and of the score. If `text` is NULL, so are the other two, and the
// columns are those of sentence-transformers: the score, unless it is named, is the column score,
// scores, label or labels; the texts are the other columns, in order, except id and idx.
struct text_example_settings {
    const char *text, *pair; // pair NULL: examples of one text
    const char *negatives;   // columns of the further texts, "A,B,..."; NULL: none
    const char *score;       // NULL: none, or by its name as above
};

struct text_example {
    const char *const *texts; // [examples.texts] borrowed from the table
    const double *scores;     // [examples.scores]
    size_t line;              // of the file
};

struct text_examples {
    struct text_example *items;
    size_t count, texts;                   // texts: per example
    size_t scores;                         // numbers per example; 0: there are none
    const char *columns[TEXT_EXAMPLE_MAX]; // those read
    const char *score_column;              // NULL: none
    struct table table;
    const char **text_pool;
    double *score_pool;
};

// Free with text_examples_done, also after a failure. Errors are those of table.h, and
// (BERTH_BAD_DATA) no text or more than TEXT_EXAMPLE_MAX, a score that is neither a finite number
// nor a list of as many of them as in the first line; a list is an array of JSON.
enum berth_status text_examples_read(const char *path, const struct text_example_settings *settings,
                                     struct text_examples *examples, struct berth_error *error);
void text_examples_done(struct text_examples *examples);

#endif
