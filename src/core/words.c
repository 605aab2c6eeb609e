// SPDX-License-Identifier: Apache-2.0
#include "core/words.h"

#include <stddef.h>
#include <string.h>

int words_have(const char *list, char separator, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; at != NULL && length > 0; at = strchr(at, separator)) {
        at += *at == separator;
        if (strncmp(at, word, length) == 0 && (at[length] == separator || at[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

int text_ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}
