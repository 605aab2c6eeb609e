// SPDX-License-Identifier: Apache-2.0
// Small questions about names and lists of words in settings and paths: is a word in a list, what
// does a name end with. ASCII only, and independent of the locale.
#include "core/text_util.h"

#include "core/caseless.h"

#include <stdio.h>
#include <string.h>

int words_contain(const char *list, char separator, const char *word) {
    const size_t length = strchr(word, separator) == NULL ? strlen(word) : 0;
    for (const char *at = list; at != NULL && length > 0; at = strchr(at, separator)) {
        at += *at == separator;
        if (strncmp(at, word, length) == 0 && (at[length] == separator || at[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

void words_add(char *text, size_t size, const char *word) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", word);
}

int text_ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

int name_has_suffix(const char *name, const char *suffix) {
    return text_ends_with(name, suffix) && strcmp(name, suffix) != 0;
}

int name_has_extension(const char *name, const char *extension) {
    const size_t length = strlen(name), own = strlen(extension);
    return length > own && caseless_equal(name + length - own, extension);
}

int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int percent_byte(const char *text, size_t length) {
    if (length < 3 || text[0] != '%' || hex_digit(text[1]) < 0 || hex_digit(text[2]) < 0) {
        return -1;
    }
    return 16 * hex_digit(text[1]) + hex_digit(text[2]);
}
