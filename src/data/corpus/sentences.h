// SPDX-License-Identifier: Apache-2.0
// Splits text into sentences by rules: whether a full stop, question or exclamation mark ends a
// sentence or belongs to an abbreviation, an initial or a number, in English; and by the end marks
// of other scripts. doc/pretraining-data.md has the rules.
#ifndef BERTH_DATA_SENTENCES_H
#define BERTH_DATA_SENTENCES_H

#include <stddef.h>

// A text in UTF-8 and the current position. Line ends also end sentences.
struct sentences {
    const char *text;
    size_t length, offset;
    size_t line_end; // end of the line of `at`, once known: found once per line
};

// The next sentence, without surrounding white space: *begin points into the text. 0 at the end.
int sentences_next(struct sentences *sentences, const char **begin, size_t *length);

#endif
