// SPDX-License-Identifier: Apache-2.0
// English text to sentences, by rules: where a full stop, question or exclamation mark ends one,
// and where it belongs to an abbreviation, an initial or a number. doc/pretraining-data.md tells
// them.
#ifndef BERTH_DATA_SENTENCES_H
#define BERTH_DATA_SENTENCES_H

#include <stddef.h>

// A text of UTF-8 and how far it is split. Ends of lines end sentences too.
struct sentences {
    const char *text;
    size_t length, at;
    size_t line_end; // of the line that `at` is in, once it is known: found once a line
};

// The next sentence, without the white space around it: *begin points into the text. 0 at the end.
int sentences_next(struct sentences *sentences, const char **begin, size_t *length);

#endif
