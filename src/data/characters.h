// SPDX-License-Identifier: Apache-2.0
// Walking well-formed UTF-8 by characters (code points), as SQuAD's offsets count them, and the
// white space that SQuAD's word split knows.
//
// The texts come from a JSON reader that refuses ill-formed UTF-8, so nothing is checked here
// beyond the end of the text.
#ifndef BERTH_DATA_CHARACTERS_H
#define BERTH_DATA_CHARACTERS_H

#include <stddef.h>
#include <stdint.h>

// Whether the byte begins a character.
static inline int characters_begins(char byte) {
    return ((unsigned char)byte & 0xC0u) != 0x80u;
}

// Number of characters of text[0, length).
static inline int64_t characters_count(const char *text, size_t length) {
    int64_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += characters_begins(text[i]);
    }
    return count;
}

// The byte where character number `count` begins: `length` for the one past the last, SIZE_MAX when
// the text is shorter.
static inline size_t characters_skip(const char *text, size_t length, int64_t count) {
    for (size_t i = 0; i < length; i++) {
        if (characters_begins(text[i]) && count-- == 0) {
            return i;
        }
    }
    return count == 0 ? length : SIZE_MAX;
}

// Bytes of the white space that stands at text[0]: blank, tab, CR, LF and U+202F; 0: a word's byte.
// `length` is at least 1.
static inline size_t characters_white(const char *text, size_t length) {
    if (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n') {
        return 1;
    }
    if (length >= 3 && text[0] == '\xE2' && text[1] == '\x80' && text[2] == '\xAF') {
        return 3;
    }
    return 0;
}

// The character at text[0], and its bytes in *size. `length` is at least 1.
static inline uint32_t characters_decode(const char *text, size_t length, size_t *size) {
    unsigned char first = (unsigned char)*text;
    size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    uint32_t code = bytes == 1 ? first : first & (0xFFu >> (bytes + 1));
    *size = bytes < length ? bytes : length;
    for (size_t i = 1; i < *size; i++) {
        code = code << 6 | ((unsigned char)text[i] & 0x3Fu);
    }
    return code;
}

// White space as Python's str.split() knows it; wider than SQuAD's own.
static inline int characters_is_python_white(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

// " ".join(text.split()) of Python, from `text` to `to`, which may be the same; returns the new
// length. origin[i] (NULL: not wanted) is the byte of `text` that byte i comes from, of a blank the
// last of the white space.
static inline size_t characters_squeeze_to(const char *text, size_t length, char *to,
                                           uint32_t *origin) {
    size_t out = 0, size;
    int blank = 0;
    for (size_t i = 0; i < length; i += size) {
        if (characters_is_python_white(characters_decode(text + i, length - i, &size))) {
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

static inline size_t characters_squeeze(char *text, size_t length) {
    return characters_squeeze_to(text, length, text, NULL);
}

#endif
