// SPDX-License-Identifier: Apache-2.0
// Finds the tokens of a text that are never split: first those that are found as they are written,
// then, in the texts between them, those that are found after normalization. What decides is the
// leftmost longest token, as in the tokenizers library.
#ifndef BERTH_TEXT_SPECIAL_H
#define BERTH_TEXT_SPECIAL_H

#include "text/basic.h"

struct special {
    const char *token; // NULL: none
    size_t begin, end; // bytes of the text, with the white space that belongs to it
    int written;       // found as it is written
};

// The special token at walk->offset. All offsets must be asked for at which one may begin
// (rules->special_first), in ascending order; asking again is harmless.
struct special special_at(struct basic_walk *walk);

#endif
