// SPDX-License-Identifier: Apache-2.0
// Splits text into sentences by rules. For English they decide whether a full stop, question mark
// or exclamation mark ends a sentence or belongs to an abbreviation, an initial or a number. The
// end marks of other scripts are known as well. doc/pretraining-data.md lists the rules. Called
// while shards are made, for each article.
#ifndef BERTH_DATA_SENTENCES_H
#define BERTH_DATA_SENTENCES_H

#include <stddef.h>

// A UTF-8 text and the current position in it. A line end also ends a sentence.
struct sentences {
    const char *text;
    size_t length, offset;
    size_t line_end; // of the current line; searched for once per line
};

// Finds the next sentence, without surrounding ASCII white space; *begin points into the text.
// Returns 0 at the end.
int sentences_next(struct sentences *sentences, const char **begin, size_t *length);

// Whether a sentence may begin with the text: after quotation marks and brackets there is a letter,
// which is no lower-case one.
int sentences_may_begin(const char *text, size_t length);

#endif
