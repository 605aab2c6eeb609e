// SPDX-License-Identifier: Apache-2.0
// UTF-8, well-formed by Unicode's table 3-7. Texts have a length and need no NUL.
#ifndef BERTH_CORE_UTF8_H
#define BERTH_CORE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_ILL_FORMED UINT32_MAX
#define UTF8_BYTES_MAX 4

// Whether the byte begins a character.
static inline int utf8_begins(char byte) {
    return ((unsigned char)byte & 0xC0u) != 0x80u;
}

// The bytes of a character that begins with `lead`; 1 for a byte that begins none.
static inline size_t utf8_whole(char lead) {
    unsigned char first = (unsigned char)lead;
    return first < 0xC2 || first > 0xF4 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// The first character of text[0, length), length > 0; returns its bytes. An ill-formed sequence is
// UTF8_ILL_FORMED, as long as Unicode's "maximal subpart" (chapter 3.9), which is also how Python
// replaces it. Of a text that ends with a NUL no length is needed: UTF8_BYTES_MAX will do.
size_t utf8_decode(const void *text, size_t length, uint32_t *point);

// Writes 1 to 4 bytes; returns how many.
size_t utf8_encode(uint32_t point, char *bytes);

// The bytes of the first character of text[0, length), length > 0; 0 when it is ill-formed.
static inline size_t utf8_character(const char *text, size_t length) {
    uint32_t point;
    if ((unsigned char)text[0] < 0x80) {
        return 1;
    }
    size_t bytes = utf8_decode(text, length, &point);
    return point == UTF8_ILL_FORMED ? 0 : bytes;
}

// How many bytes from the front are well-formed characters: `length` when all are.
size_t utf8_valid_prefix(const char *text, size_t length);

static inline int utf8_is_valid(const char *text, size_t length) {
    return utf8_valid_prefix(text, length) == length;
}

// Of well-formed text: the number of characters in text[0, length).
int64_t utf8_count(const char *text, size_t length);

// The byte where character number `count` begins: `length` for the one past the last, SIZE_MAX when
// the text is shorter.
size_t utf8_skip(const char *text, size_t length, int64_t count);

// The bytes, at most `limit`, of the whole characters at the front: what a message quotes.
size_t utf8_cut(const char *text, size_t length, size_t limit);

#endif
