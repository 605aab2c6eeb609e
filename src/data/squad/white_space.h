// SPDX-License-Identifier: Apache-2.0
// White space as SQuAD's word split defines it, and as Python does, in well-formed UTF-8. For files
// that must split words as those programs do; the tokenizers have tables of their own
// (text/unicode.h).
#ifndef BERTH_DATA_WHITE_SPACE_H
#define BERTH_DATA_WHITE_SPACE_H

#include "core/utf8.h"
#include "text/python.h"

#include <stddef.h>
#include <stdint.h>

// The length in bytes of the white space at text[0]: blank, tab, CR, LF or U+202F; 0: a byte of a
// word. `length` is at least 1.
static inline size_t white_space_bytes(const char *text, size_t length) {
    if (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n') {
        return 1;
    }
    if (length >= 3 && text[0] == '\xE2' && text[1] == '\x80' && text[2] == '\xAF') {
        return 3;
    }
    return 0;
}

// Writes the words of a text, as separated by white_space_bytes, to `to` with single blanks between
// them; returns the new length. `to` has room for `length` bytes and may be `text`.
static inline size_t white_space_join(const char *text, size_t length, char *to) {
    size_t out = 0;
    int blank = 0;
    for (size_t i = 0; i < length;) {
        const size_t white = white_space_bytes(text + i, length - i);
        if (white > 0) {
            blank = out > 0;
            i += white;
            continue;
        }
        if (blank) {
            to[out++] = ' ';
            blank = 0;
        }
        to[out++] = text[i++];
    }
    return out;
}

// Python's " ".join(text.split()), from `text` to `to`, which may be the same; returns the new
// length. If `origin` is not NULL, origin[i] becomes the offset in `text` of byte i; for a blank,
// that of the last byte of the white space.
static inline size_t white_space_squeeze_to(const char *text, size_t length, char *to,
                                            uint32_t *origin) {
    size_t out = 0, size;
    int blank = 0;
    for (size_t i = 0; i < length; i += size) {
        uint32_t point;
        size = utf8_decode(text + i, length - i, &point);
        if (python_is_space(point)) {
            blank = out > 0;
            continue;
        }
        if (blank) {
            if (origin != NULL) {
                origin[out] = (uint32_t)i - 1;
            }
            to[out++] = ' ';
            blank = 0;
        }
        for (size_t k = 0; k < size; k++) {
            if (origin != NULL) {
                origin[out] = (uint32_t)(i + k);
            }
            to[out++] = text[i + k];
        }
    }
    return out;
}

static inline size_t white_space_squeeze(char *text, size_t length) {
    return white_space_squeeze_to(text, length, text, NULL);
}

#endif
