// SPDX-License-Identifier: Apache-2.0
// UTF-8, well-formed as in Unicode's table 3-7, for every reader of text. Texts have a length and
// need no NUL. Which characters mean what is left to src/text/.
#ifndef BERTH_CORE_UTF8_H
#define BERTH_CORE_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UTF8_ILL_FORMED UINT32_MAX
#define UTF8_BYTES_MAX 4

// Whether the byte begins a character.
static inline int utf8_begins(char byte) {
    return ((unsigned char)byte & 0xC0u) != 0x80u;
}

// The length in bytes of a character that begins with `lead`; 1 for a byte that begins none.
static inline size_t utf8_whole(char lead) {
    unsigned char first = (unsigned char)lead;
    return first < 0xC2 || first > 0xF4 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// Decodes the first character of text[0, length), length > 0; returns its length in bytes. An
// ill-formed sequence is UTF8_ILL_FORMED and as long as Unicode's "maximal subpart" (chapter 3.9),
// as in Python. For a NUL-terminated text UTF8_BYTES_MAX will do as the length.
size_t utf8_decode(const void *text, size_t length, uint32_t *point);

// Decodes the character that ends before text[at], at > 0; returns its length in bytes. Ill-formed
// sequences are returned byte by byte.
size_t utf8_decode_before(const void *text, size_t at, uint32_t *point);

// Writes 1 to 4 bytes; returns their number.
size_t utf8_encode(uint32_t point, char *bytes);

// The length in bytes of the first character of text[0, length), length > 0; 0 when it is
// ill-formed.
static inline size_t utf8_character(const char *text, size_t length) {
    uint32_t point;
    if ((unsigned char)text[0] < 0x80) {
        return 1;
    }
    size_t bytes = utf8_decode(text, length, &point);
    return point == UTF8_ILL_FORMED ? 0 : bytes;
}

// The length of the longest well-formed prefix: `length` when all is well-formed.
size_t utf8_valid_prefix(const char *text, size_t length);

// The length of the longest prefix that is text: well-formed, without a NUL.
size_t utf8_text_prefix(const char *text, size_t length);

static inline int utf8_is_valid(const char *text, size_t length) {
    return utf8_valid_prefix(text, length) == length;
}

// The number of characters in text[0, length), which is well-formed.
int64_t utf8_count(const char *text, size_t length);

// The offset of character number `count`: `length` for one past the last, SIZE_MAX when the text is
// shorter.
size_t utf8_skip(const char *text, size_t length, int64_t count);

// The length of the longest prefix of whole characters within `limit` bytes: what a message quotes.
size_t utf8_cut(const char *text, size_t length, size_t limit);

// The two arguments of "%.*s" that print such a prefix of a NUL-terminated text.
#define UTF8_SHOWN(text, limit) (int)utf8_cut(text, strnlen(text, (limit) + 1), limit), (text)

#endif
