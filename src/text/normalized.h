// SPDX-License-Identifier: Apache-2.0
// Tokens that are looked for in the normalized text: cleaned, lower-cased and stripped as the
// walk's rules say, with a blank for white space and blanks around ideographs. As in the tokenizers
// library, the tokens are normalized, too. Combining characters keep their order.
#ifndef BERTH_TEXT_NORMALIZED_H
#define BERTH_TEXT_NORMALIZED_H

#include "text/basic.h"

// What a character becomes; returns the number of points, 0 if it is dropped.
size_t normalized_point(const struct basic_rules *rules, uint32_t point,
                        uint32_t points[UNICODE_MAP_MAX]);

// Builds rules->normalized from the special tokens that are not found as they are written, and
// marks in `special_first` the bytes with which a text may begin that becomes one of them. 0 when
// out of memory.
int normalized_build(struct basic_rules *rules);

// The longest token that the text from walk->offset on becomes, of those before `end`: its index in
// the special tokens, and the bytes of the text. -1: none.
int32_t normalized_find(const struct basic_walk *walk, size_t end, size_t *bytes);

#endif
