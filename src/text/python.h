// SPDX-License-Identifier: Apache-2.0
// Python's text functions, which define the official SQuAD scores and the lines of pre-training
// texts: str.lower(), the word characters of `re`, white space, lines. Characters are code points,
// texts are UTF-8. The tokenizers have rules of their own (unicode.h).
#ifndef BERTH_TEXT_PYTHON_H
#define BERTH_TEXT_PYTHON_H

#include <stddef.h>
#include <stdint.h>

// Whether \w matches the character: letters, digits, numerals and the underscore.
int python_is_word(uint32_t character);

// str.isspace().
static inline int python_is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

// The length of the text after str.rstrip().
size_t python_rstrip_length(const char *text, size_t length);

// The length of the first line of a file opened as text, whose lines end in LF, CR LF or CR. *end
// is the length of the line end; 0: the text ends without one.
size_t python_line_length(const char *text, size_t length, size_t *end);

// str.lower(). lower[] has room for 2 * count characters, since U+0130 becomes two; returns their
// number. A capital sigma at the end of a word becomes a final sigma.
size_t python_lower(const uint32_t *text, size_t count, uint32_t *lower);

#endif
