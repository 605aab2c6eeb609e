// SPDX-License-Identifier: Apache-2.0
// From a span of word pieces back to the original words: get_final_text of Google's run_squad.py,
// every branch that gives up included (it then returns the original words as they stand).
//
// The alignment compares the texts without U+0020, character by character: equal counts are taken
// to mean that the k-th character of one is the k-th of the other. That this goes wrong for texts
// whose normal form has more characters is the original's rule too.
#include "task/squad_text.h"

#include "core/memory.h"
#include "data/characters.h"

#include <string.h>

// The pieces joined by blanks, " ##" and "##" taken out, white space squeezed. Newly allocated.
static char *joined_pieces(const struct squad_text_source *source,
                           const struct squad_feature *feature, int32_t start, int32_t end) {
    const int32_t *ids = source->set->ids + feature->first;
    size_t bytes = 1;
    for (int32_t i = start; i <= end; i++) {
        bytes += strlen(tokenizer_piece(source->tokenizer, ids[i])) + 1;
    }
    char *text = memory_new(bytes);
    if (text == NULL) {
        return NULL;
    }
    size_t length = 0;
    for (int32_t i = start; i <= end; i++) {
        const char *piece = tokenizer_piece(source->tokenizer, ids[i]);
        size_t size = strlen(piece);
        if (i > start) {
            text[length++] = ' ';
        }
        memcpy(text + length, piece, size);
        length += size;
    }
    text[length] = '\0';
    return text;
}

// text.replace(pattern, "") in place.
static void remove_all(char *text, const char *pattern) {
    size_t size = strlen(pattern);
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        if (strncmp(from, pattern, size) == 0) {
            from += size;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

// --- alignment ----------------------------------------------------------------------------------

// Number of the non-blank character that begins at byte `at`; -1 when a blank or nothing is there.
static int64_t solid_number(const char *text, size_t length, size_t at) {
    if (at >= length || text[at] == ' ' || !characters_begins(text[at])) {
        return -1;
    }
    int64_t number = 0;
    for (size_t i = 0; i < at; i++) {
        number += text[i] != ' ' && characters_begins(text[i]);
    }
    return number;
}

// Byte where non-blank character `number` begins; it is there.
static size_t solid_place(const char *text, int64_t number) {
    size_t i = 0;
    while (text[i] == ' ' || !characters_begins(text[i]) || number-- > 0) {
        i++;
    }
    return i;
}

static int64_t solid_count(const char *text, size_t length) {
    int64_t blanks = 0;
    for (size_t i = 0; i < length; i++) {
        blanks += text[i] == ' ';
    }
    return characters_count(text, length) - blanks;
}

// Byte where the last character before byte `end` begins; `end` itself when there is none.
static size_t last_character(const char *text, size_t begin, size_t end) {
    size_t at = end;
    while (at > begin) {
        if (characters_begins(text[--at])) {
            return at;
        }
    }
    return end;
}

// Whether the found part [found, found_end) of the basic text could be mapped to `original`.
static int map_back(const char *basic, size_t basic_length, size_t found, size_t found_end,
                    const char *original, size_t length, size_t *begin, size_t *past) {
    if (found_end == found || solid_count(basic, basic_length) != solid_count(original, length)) {
        return 0;
    }
    int64_t first = solid_number(basic, basic_length, found);
    int64_t last = solid_number(basic, basic_length, last_character(basic, found, found_end));
    if (first < 0 || last < 0) {
        return 0;
    }
    *begin = solid_place(original, first);
    *past = solid_place(original, last) + 1;
    while (*past < length && !characters_begins(original[*past])) {
        ++*past;
    }
    return 1;
}

enum berth_status squad_text_align(const struct tokenizer *tokenizer, const char *predicted,
                                   const char *original, size_t length, size_t *begin, size_t *past,
                                   struct berth_error *error) {
    char *basic;
    size_t basic_length;
    TRY(tokenizer_basic(tokenizer, original, length, &basic, &basic_length, NULL, error));
    const char *found = strstr(basic, predicted);
    *begin = 0;
    *past = length;
    if (found != NULL) {
        size_t at = (size_t)(found - basic);
        if (!map_back(basic, basic_length, at, at + strlen(predicted), original, length, begin,
                      past)) {
            *begin = 0;
            *past = length;
        }
    }
    memory_free(basic);
    return BERTH_OK;
}

// --- the words ----------------------------------------------------------------------------------

// Words [first, last] of the example's document joined by single blanks, newly allocated.
static char *joined_words(const struct squad_text_source *source, size_t first, size_t last,
                          size_t *length) {
    const uint32_t *begin = source->set->word_begin, *end = source->set->word_end;
    char *text = memory_new((size_t)(end[last] - begin[first]) + 1);
    if (text == NULL) {
        return NULL;
    }
    *length = 0;
    for (size_t w = first; w <= last; w++) {
        size_t size = end[w] - begin[w];
        if (w > first) {
            text[(*length)++] = ' ';
        }
        memcpy(text + *length, source->example->context + begin[w], size);
        *length += size;
    }
    text[*length] = '\0';
    return text;
}

// The byte of the context for byte `at` of the joined words; `at` lies within a word or, when
// `past`, one past the end of one.
static size_t context_place(const struct squad_text_source *source, size_t first, size_t at,
                            int past) {
    const uint32_t *begin = source->set->word_begin, *end = source->set->word_end;
    size_t w = first;
    for (; at >= (size_t)(end[w] - begin[w]) + (past ? 1 : 0); w++) {
        at -= end[w] - begin[w] + 1;
    }
    return begin[w] + at;
}

static enum berth_status cut(const struct squad_text_source *source, const char *predicted,
                             const char *original, size_t length, size_t first, char **text,
                             int64_t *begin, int64_t *past, struct berth_error *error) {
    size_t from, to;
    TRY(squad_text_align(source->tokenizer, predicted, original, length, &from, &to, error));
    *text = memory_string_of(original + from, to - from);
    if (*text == NULL) {
        return error_no_memory(error, to - from, "an answer");
    }
    const char *context = source->example->context;
    *begin = characters_count(context, context_place(source, first, from, 0));
    *past = characters_count(context, context_place(source, first, to, 1));
    return BERTH_OK;
}

// By Keras's rules: the context between two tokens, its white space squeezed.
static enum berth_status slice(const struct squad_text_source *source, size_t first, size_t last,
                               char **text, int64_t *begin, int64_t *past,
                               struct berth_error *error) {
    const char *context = source->example->context;
    size_t from = source->set->word_begin[first], to = source->set->word_end[last];
    *text = memory_string_of(context + from, to - from);
    if (*text == NULL) {
        return error_no_memory(error, to - from, "an answer");
    }
    (*text)[characters_squeeze(*text, to - from)] = '\0';
    *begin = characters_count(context, from);
    *past = characters_count(context, to);
    return BERTH_OK;
}

enum berth_status squad_text_of_span(const struct squad_text_source *source,
                                     const struct squad_feature *feature, int32_t start,
                                     int32_t end, char **text, int64_t *begin, int64_t *past,
                                     struct berth_error *error) {
    const int32_t *words = source->set->words + feature->first;
    size_t base = source->set->example_words[feature->example], length = 0;
    size_t first = base + (size_t)words[start], last = base + (size_t)words[end];
    if (source->set->rules == SQUAD_RULES_KERAS) {
        return slice(source, first, last, text, begin, past, error);
    }
    char *predicted = joined_pieces(source, feature, start, end);
    char *original = joined_words(source, first, last, &length);
    enum berth_status status;
    if (predicted == NULL || original == NULL) {
        status = error_no_memory(error, length, "an answer");
    } else {
        remove_all(predicted, " ##");
        remove_all(predicted, "##");
        predicted[characters_squeeze(predicted, strlen(predicted))] = '\0';
        status = cut(source, predicted, original, length, first, text, begin, past, error);
    }
    memory_free(predicted);
    memory_free(original);
    return status;
}
