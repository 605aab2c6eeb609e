// SPDX-License-Identifier: Apache-2.0
// Maps a span of word pieces back to the original words: get_final_text of Google's run_squad.py,
// including every branch that gives up (it then returns the original words unchanged).
//
// The alignment compares the texts without U+0020, character by character: if the counts are equal,
// the k-th character of one is taken to be the k-th of the other. Like the original, this is wrong
// for texts whose normal form has more characters.
#include "metrics/squad_text.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "data/squad/white_space.h"

#include <string.h>

// Joins the pieces with spaces, removes " ##" and "##", and collapses white space. Newly allocated.
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

// The index of the non-space character that begins at byte `at`; -1 if there is a space or nothing.
static int64_t solid_number(const char *text, size_t length, size_t at) {
    if (at >= length || text[at] == ' ' || !utf8_begins(text[at])) {
        return -1;
    }
    int64_t number = 0;
    for (size_t i = 0; i < at; i++) {
        number += text[i] != ' ' && utf8_begins(text[i]);
    }
    return number;
}

// The byte at which non-space character `number` begins; it must exist.
static size_t solid_place(const char *text, int64_t number) {
    size_t i = 0;
    while (text[i] == ' ' || !utf8_begins(text[i]) || number-- > 0) {
        i++;
    }
    return i;
}

static int64_t solid_count(const char *text, size_t length) {
    int64_t blanks = 0;
    for (size_t i = 0; i < length; i++) {
        blanks += text[i] == ' ';
    }
    return utf8_count(text, length) - blanks;
}

// The byte at which the last character before byte `end` begins; `end` itself if there is none.
static size_t last_character(const char *text, size_t begin, size_t end) {
    size_t at = end;
    while (at > begin) {
        if (utf8_begins(text[--at])) {
            return at;
        }
    }
    return end;
}

struct text {
    const char *bytes;
    size_t length;
};

// Maps the part `found` of the basic text to one of the original; 0 if that is impossible.
static int map_back(const struct text *basic, struct squad_text_part found,
                    const struct text *original, struct squad_text_part *part) {
    if (found.end == found.begin || solid_count(basic->bytes, basic->length) !=
                                        solid_count(original->bytes, original->length)) {
        return 0;
    }
    size_t last_begin = last_character(basic->bytes, found.begin, found.end);
    int64_t first = solid_number(basic->bytes, basic->length, found.begin);
    int64_t last = solid_number(basic->bytes, basic->length, last_begin);
    if (first < 0 || last < 0) {
        return 0;
    }
    part->begin = solid_place(original->bytes, first);
    part->end = solid_place(original->bytes, last) + 1;
    while (part->end < original->length && !utf8_begins(original->bytes[part->end])) {
        part->end++;
    }
    return 1;
}

enum berth_status squad_text_align(const struct tokenizer *tokenizer, const char *predicted,
                                   const char *original, size_t length,
                                   struct squad_text_part *part, struct berth_error *error) {
    char *bytes;
    struct text basic, whole = {original, length};
    TRY(tokenizer_basic(tokenizer, original, length, &bytes, &basic.length, NULL, error));
    basic.bytes = bytes;
    const char *found = strstr(bytes, predicted);
    size_t at = found != NULL ? (size_t)(found - bytes) : 0;
    const struct squad_text_part found_part = {at, at + strlen(predicted)};
    if (found == NULL || !map_back(&basic, found_part, &whole, part)) {
        *part = (struct squad_text_part){0, length};
    }
    memory_free(bytes);
    return BERTH_OK;
}

// --- words ---------------------------------------------------------------------------------------

// Joins words [first, last] of the example's document with single spaces. Newly allocated.
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

// The byte of the context for byte `at` of the joined words; `at` is within a word or, if `past`,
// one past the end of one.
static size_t context_place(const struct squad_text_source *source, size_t first, size_t at,
                            int past) {
    const uint32_t *begin = source->set->word_begin, *end = source->set->word_end;
    size_t w = first;
    for (; at >= (size_t)(end[w] - begin[w]) + (past ? 1 : 0); w++) {
        at -= end[w] - begin[w] + 1;
    }
    return begin[w] + at;
}

// `first` is the index of the first word.
static enum berth_status cut(const struct squad_text_source *source, const char *predicted,
                             const struct text *words, size_t first, struct squad_text *answer,
                             struct berth_error *error) {
    struct squad_text_part part;
    TRY(squad_text_align(source->tokenizer, predicted, words->bytes, words->length, &part, error));
    answer->text = memory_string_of(words->bytes + part.begin, part.end - part.begin);
    if (answer->text == NULL) {
        return error_no_memory(error, part.end - part.begin, "an answer");
    }
    const char *context = source->example->context;
    answer->begin = utf8_count(context, context_place(source, first, part.begin, 0));
    answer->end = utf8_count(context, context_place(source, first, part.end, 1));
    return BERTH_OK;
}

// Keras's rules: the context between two tokens, with white space collapsed.
static enum berth_status slice(const struct squad_text_source *source, size_t first, size_t last,
                               struct squad_text *answer, struct berth_error *error) {
    const char *context = source->example->context;
    size_t from = source->set->word_begin[first], to = source->set->word_end[last];
    answer->text = memory_string_of(context + from, to - from);
    if (answer->text == NULL) {
        return error_no_memory(error, to - from, "an answer");
    }
    answer->text[white_space_squeeze(answer->text, to - from)] = '\0';
    answer->begin = utf8_count(context, from);
    answer->end = utf8_count(context, to);
    return BERTH_OK;
}

enum berth_status squad_text_of_span(const struct squad_text_source *source,
                                     const struct squad_feature *feature, int32_t start,
                                     int32_t end, struct squad_text *answer,
                                     struct berth_error *error) {
    const int32_t *rows = source->set->words + feature->first;
    size_t base = source->set->example_words[feature->example], length = 0;
    size_t first = base + (size_t)rows[start], last = base + (size_t)rows[end];
    if (source->set->rules == SQUAD_RULES_KERAS) {
        return slice(source, first, last, answer, error);
    }
    char *predicted = joined_pieces(source, feature, start, end);
    char *original = joined_words(source, first, last, &length);
    const struct text words = {original, length};
    enum berth_status status;
    if (predicted == NULL || original == NULL) {
        status = error_no_memory(error, length, "an answer");
    } else {
        remove_all(predicted, " ##");
        remove_all(predicted, "##");
        predicted[white_space_squeeze(predicted, strlen(predicted))] = '\0';
        status = cut(source, predicted, &words, first, answer, error);
    }
    memory_free(predicted);
    memory_free(original);
    return status;
}
