// SPDX-License-Identifier: Apache-2.0
// Parts of a text: its end, the words of a list, and hexadecimal digits.
#ifndef BERTH_CORE_WORDS_H
#define BERTH_CORE_WORDS_H

#include <stddef.h>

// Whether `word`, which is not empty, is one of the list's. NULL is an empty list.
int words_contain(const char *list, char separator, const char *word);

// Adds a word to the list "a, b" in text[size], as far as it fits.
void words_add(char *text, size_t size, const char *word);

int text_ends_with(const char *text, const char *end);
// The same of a name of which more than its ending must be there: ".txt" is no text file.
int name_has_suffix(const char *name, const char *ending);

// The value of a hexadecimal digit, -1 for any other character.
int hex_digit(char c);
// The byte that text[0, length) begins with as an escape of URLs, such as "%41"; -1: with none.
int percent_byte(const char *text, size_t length);

#endif
