// SPDX-License-Identifier: Apache-2.0
// Helpers for texts of settings, paths and headers: suffixes, lists of words with a separator,
// hexadecimal digits. Texts in natural language are src/text's.
#ifndef BERTH_CORE_TEXT_UTIL_H
#define BERTH_CORE_TEXT_UTIL_H

#include <stddef.h>

// Whether the list contains `word`; an empty word, or one with the separator, is in no list. NULL
// is an empty list.
int words_contain(const char *list, char separator, const char *word);

// Adds a word to the list "a, b" in text[size], as far as it fits.
void words_add(char *text, size_t size, const char *word);

int text_ends_with(const char *text, const char *end);
// The same for a file name, which must be more than its suffix: ".txt" is no text file.
int name_has_suffix(const char *name, const char *suffix);
// The same whatever the case of ASCII letters: what users call x.NPY is what ends in ".npy".
int name_has_extension(const char *name, const char *extension);

// The value of a hexadecimal digit, -1 for any other character.
int hex_digit(char c);
// The byte of the URL escape, such as "%41", at the start of text[0, length); -1: there is none.
int percent_byte(const char *text, size_t length);

#endif
