// SPDX-License-Identifier: Apache-2.0
// Parts of a text: its end, and the words of a list.
#ifndef BERTH_CORE_WORDS_H
#define BERTH_CORE_WORDS_H

// Whether `word`, which is not empty, is one of the list's. NULL is an empty list.
int words_have(const char *list, char separator, const char *word);

int text_ends_with(const char *text, const char *end);

#endif
