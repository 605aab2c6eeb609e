// SPDX-License-Identifier: Apache-2.0
// Well-formed UTF-8 (Unicode's table 3-7): what any room may need to know of it. Decoding and the
// counting of ill-formed sequences are the tokenizer's (src/text).
#ifndef BERTH_CORE_UTF8_H
#define BERTH_CORE_UTF8_H

#include <stddef.h>

// The bytes of the well-formed character at text (NUL-terminated), 0 when it is ill-formed.
size_t utf8_length(const unsigned char *text);

// The first byte of the text that begins no well-formed character; NULL: all is well.
const char *utf8_find_ill_formed(const char *text);

#endif
