// SPDX-License-Identifier: Apache-2.0
// Well-formed UTF-8, for the readers of strangers' texts.
#ifndef BERTH_FORMAT_UTF8_H
#define BERTH_FORMAT_UTF8_H

#include <stddef.h>

// The bytes of the character that starts at text[0], of which `left` bytes are there (at least 1);
// 0 when it is not well-formed (overlong, a surrogate, beyond U+10FFFF, cut).
static inline size_t utf8_character(const char *text, size_t left) {
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = bytes[0], second = left > 1 ? bytes[1] : 0;
    size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (length > left || lead > 0xF4 || (lead == 0xE0 && second < 0xA0) ||
        (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
        (lead == 0xF4 && second > 0x8F)) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return length;
}

static inline int utf8_is_valid(const char *text, size_t length) {
    for (size_t i = 0, step; i < length; i += step) {
        step = utf8_character(text + i, length - i);
        if (step == 0) {
            return 0;
        }
    }
    return 1;
}

#endif
