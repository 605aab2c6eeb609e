// SPDX-License-Identifier: Apache-2.0
// Maps a span of word pieces back to the original text: by the offsets of the pieces in the
// context, or like get_final_text of Google's run_squad.py, including every case in which it gives
// up and returns the original words unchanged.
//
// Google's alignment compares the texts without U+0020, character by character: if the counts are
// equal, the k-th character of one is taken to be the k-th of the other. Like the original, this is
// wrong for texts whose normal form has more characters.
#include "metrics/squad_text.h"

#include "core/buffer.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "data/squad/white_space.h"

#include <string.h>

// A span whose text is wanted.
struct span {
    const struct squad_feature *feature;
    int32_t start, end; // rows
    size_t first, last; // words, as indices in the set's pools
};

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
static int64_t solid_index(const char *text, size_t length, size_t at) {
    if (at >= length || text[at] == ' ' || !utf8_begins(text[at])) {
        return -1;
    }
    int64_t number = 0;
    for (size_t i = 0; i < at; i++) {
        number += text[i] != ' ' && utf8_begins(text[i]);
    }
    return number;
}

// The offset of the non-space character with this index, which must exist.
static size_t solid_offset(const char *text, int64_t number) {
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

// The offset of the last character before byte `end`; `end` itself if there is none.
static size_t last_character(const char *text, size_t begin, size_t end) {
    size_t at = end;
    while (at > begin) {
        if (utf8_begins(text[--at])) {
            return at;
        }
    }
    return end;
}

// Words of a document, joined by single spaces.
struct squad_words {
    char *text, *basic; // as in the context, and as the basic tokenizer writes it
    size_t length, basic_length;
    int aligns; // both have the same number of characters
};

static enum berth_status read_basic(struct squad_words *words, const struct tokenizer *tokenizer,
                                    struct berth_error *error) {
    TRY(tokenizer_basic(tokenizer, words->text, words->length, &words->basic, &words->basic_length,
                        error));
    words->aligns =
        solid_count(words->basic, words->basic_length) == solid_count(words->text, words->length);
    return BERTH_OK;
}

// Maps the range `found` of the basic text to one of the original text; 0 if that is impossible.
static int map_back(const struct squad_words *words, struct squad_text_range found,
                    struct squad_text_range *range) {
    if (found.end == found.begin || !words->aligns) {
        return 0;
    }
    size_t last_begin = last_character(words->basic, found.begin, found.end);
    int64_t first = solid_index(words->basic, words->basic_length, found.begin);
    int64_t last = solid_index(words->basic, words->basic_length, last_begin);
    if (first < 0 || last < 0) {
        return 0;
    }
    range->begin = solid_offset(words->text, first);
    range->end = solid_offset(words->text, last) + 1;
    while (range->end < words->length && !utf8_begins(words->text[range->end])) {
        range->end++;
    }
    return 1;
}

// Finds the predicted text. Returns 0 if the texts cannot be aligned; the range is then all of it.
static int align(const struct squad_words *words, const char *predicted,
                 struct squad_text_range *range) {
    const char *found = words->aligns ? strstr(words->basic, predicted) : NULL;
    size_t at = found != NULL ? (size_t)(found - words->basic) : 0;
    const struct squad_text_range found_range = {at, at + strlen(predicted)};
    *range = (struct squad_text_range){0, words->length};
    return found != NULL && map_back(words, found_range, range);
}

enum berth_status squad_text_align(const struct tokenizer *tokenizer, const char *predicted,
                                   const char *original, size_t length,
                                   struct squad_text_range *range, struct berth_error *error) {
    struct squad_words words = {.text = (char *)(uintptr_t)original, .length = length};
    TRY(read_basic(&words, tokenizer, error));
    (void)align(&words, predicted, range);
    memory_free(words.basic);
    return BERTH_OK;
}

// --- words ---------------------------------------------------------------------------------------

// Joins words [first, last] of the example's document with single spaces. Newly allocated.
static char *joined_words(const struct squad_text_source *source, size_t first, size_t last,
                          size_t *length) {
    const size_t begin = source->set->word_begin[first],
                 bytes = source->set->word_end[last] - begin;
    char *text = memory_new(bytes + 1);
    if (text != NULL) {
        *length = white_space_join(source->example->context + begin, bytes, text);
        text[*length] = '\0';
    }
    return text;
}

// The offset in the context of byte `at` of the joined words; `at` is within a word or, if `past`,
// one past its end.
static size_t context_offset(const struct squad_text_source *source, size_t first, size_t at,
                             int past) {
    const uint32_t *begin = source->set->word_begin, *end = source->set->word_end;
    size_t w = first;
    for (; at >= (size_t)(end[w] - begin[w]) + (past ? 1 : 0); w++) {
        at -= end[w] - begin[w] + 1;
    }
    return begin[w] + at;
}

// Finds words [first, last] of the example's document in the memo, or adds them.
static enum berth_status find_words(const struct squad_text_source *source, size_t first,
                                    size_t last, uint32_t *number, struct berth_error *error) {
    struct squad_text_memo *memo = source->memo;
    const size_t range[2] = {first, last};
    struct squad_words *words =
        memory_grow(memo->words, &memo->capacity, memo->ranges.count + 1, sizeof *words);
    if (words == NULL) {
        return error_no_memory(error, sizeof *words, "words");
    }
    memo->words = words;
    const size_t known = memo->ranges.count;
    *number = string_index_put(&memo->ranges, (const char *)range, sizeof range);
    if (*number == STRING_INDEX_NONE) {
        return error_no_memory(error, sizeof range, "words");
    }
    words += *number;
    if (*number == known) {
        *words = (struct squad_words){.text = NULL};
        words->text = joined_words(source, first, last, &words->length);
    }
    if (words->text == NULL) {
        return error_no_memory(error, words->length, "an answer");
    }
    return words->basic != NULL ? BERTH_OK : read_basic(words, source->tokenizer, error);
}

// Adds a text of the words to the memo; *is: whether it was there before.
static enum berth_status is_known(struct squad_text_memo *memo, uint32_t words, const char *text,
                                  int *is, struct berth_error *error) {
    struct buffer key = {0};
    const size_t known = memo->spans.count;
    buffer_put_number(&key, words, sizeof words);
    buffer_put_text(&key, text);
    const uint32_t number =
        key.failed ? STRING_INDEX_NONE : string_index_put(&memo->spans, key.bytes, key.length);
    buffer_done(&key);
    *is = number != known;
    return number != STRING_INDEX_NONE ? BERTH_OK
                                       : error_no_memory(error, strlen(text), "an answer");
}

// Cuts the predicted text from words [first, last]; leaves answer->text NULL if it is known
// already.
static enum berth_status cut(const struct squad_text_source *source, const char *predicted,
                             size_t first, size_t last, struct squad_text *answer,
                             struct berth_error *error) {
    struct squad_text_range range;
    uint32_t number = 0;
    int is;
    TRY(find_words(source, first, last, &number, error));
    const struct squad_words *words = &source->memo->words[number];
    TRY(is_known(source->memo, number, predicted, &is, error));
    if (!is && !align(words, predicted, &range)) {
        TRY(is_known(source->memo, number, " ", &is,
                     error)); // stands for all of the words; no predicted text is " "
    }
    if (is) {
        return BERTH_OK;
    }
    const char *text = words->text + range.begin;
    answer->begin = context_offset(source, first, range.begin, 0);
    answer->end = context_offset(source, first, range.end, 1);
    if (source->as_written) {
        text = source->example->context + answer->begin;
        range = (struct squad_text_range){0, answer->end - answer->begin};
    }
    answer->text = memory_string_of(text, range.end - range.begin);
    return answer->text != NULL ? BERTH_OK
                                : error_no_memory(error, range.end - range.begin, "an answer");
}

// --- by the offsets of tokens --------------------------------------------------------------------

// The range `words`, from token `start` on if that begins within a word, up to token `end` if that
// ends within a word. All of the range if the features are not those of this context.
static struct squad_text_range range_of_tokens(const struct token_list *tokens,
                                               struct squad_text_range words, size_t start,
                                               size_t end) {
    struct squad_text_range range = words;
    if (end >= tokens->count) {
        return words;
    }
    if (start > 0 && tokens->items[start - 1].byte_end > words.begin) {
        range.begin = tokens->items[start].byte_begin;
    }
    if (end + 1 < tokens->count && tokens->items[end + 1].byte_begin < words.end) {
        range.end = tokens->items[end].byte_end;
    }
    return range.begin < range.end && range.end <= words.end ? range : words;
}

// Widens tokens [*start, *end] to the words that they are part of.
static void widen(const struct token_list *tokens, size_t *start, size_t *end) {
    const struct token *items = tokens->items;
    while (*start > 0 && *end < tokens->count && items[*start - 1].word == items[*start].word) {
        --*start;
    }
    while (*end + 1 < tokens->count && items[*end + 1].word == items[*end].word) {
        ++*end;
    }
}

static enum berth_status read_tokens(const struct squad_text_source *source,
                                     struct berth_error *error) {
    const struct squad_example *example = source->example;
    struct token_list *tokens = &source->memo->tokens;
    if (tokens->count == 0) {
        TRY(tokenizer_encode(source->tokenizer, example->context, example->context_length, tokens,
                             error));
        token_list_trim(tokens, example->context);
    }
    return BERTH_OK;
}

static enum berth_status cut_at_tokens(const struct squad_text_source *source,
                                       const struct span *span, struct squad_text_range *range,
                                       struct berth_error *error) {
    const struct token_list *tokens = &source->memo->tokens;
    const int64_t shift = (int64_t)span->feature->document_start - span->feature->document_begin;
    TRY(read_tokens(source, error));
    size_t start = (size_t)(span->start + shift), end = (size_t)(span->end + shift);
    if (source->whole_words) {
        widen(tokens, &start, &end);
    }
    *range = range_of_tokens(tokens, *range, start, end);
    return BERTH_OK;
}

// By Keras's rules the words of the features are the tokens of the context.
static enum berth_status widen_by_keras(const struct squad_text_source *source,
                                        const struct squad_feature *feature, int32_t start,
                                        int32_t end, struct squad_text_range *range,
                                        struct berth_error *error) {
    const struct squad_feature_set *set = source->set;
    const int32_t *rows = set->words + feature->first;
    const size_t base = set->example_words[feature->example];
    size_t first = (size_t)rows[start], last = (size_t)rows[end];
    TRY(read_tokens(source, error));
    widen(&source->memo->tokens, &first, &last);
    *range = (struct squad_text_range){set->word_begin[base + first], set->word_end[base + last]};
    return BERTH_OK;
}

enum berth_status squad_text_of_span(const struct squad_text_source *source,
                                     const struct squad_feature *feature, int32_t start,
                                     int32_t end, struct squad_text *answer,
                                     struct berth_error *error) {
    const struct squad_feature_set *set = source->set;
    const int32_t *rows = set->words + feature->first;
    const size_t base = set->example_words[feature->example];
    const struct span span = {feature, start, end, base + (size_t)rows[start],
                              base + (size_t)rows[end]};
    struct squad_text_range range = {set->word_begin[span.first], set->word_end[span.last]};
    *answer = (struct squad_text){.text = NULL};
    if (set->rules == SQUAD_RULES_GOOGLE) { // by Keras's rules tokens are words
        if (tokenizer_rules_of(source->tokenizer)->rules == TOKENIZER_GOOGLE &&
            !source->whole_words) {
            char *predicted = joined_pieces(source, span.feature, span.start, span.end);
            if (predicted == NULL) {
                return error_no_memory(error, 1, "an answer");
            }
            remove_all(predicted, " ##");
            remove_all(predicted, "##");
            predicted[white_space_squeeze(predicted, strlen(predicted))] = '\0';
            enum berth_status status = cut(source, predicted, span.first, span.last, answer, error);
            memory_free(predicted);
            return status;
        }
        TRY(cut_at_tokens(source, &span, &range, error));
    } else if (source->whole_words) {
        TRY(widen_by_keras(source, feature, start, end, &range, error));
    }
    // Keras's rules collapse Python's white space, Google's their own.
    const size_t length = range.end - range.begin;
    char *text = memory_string_of(source->example->context + range.begin, length);
    if (text == NULL) {
        return error_no_memory(error, length, "an answer");
    }
    if (!source->as_written) {
        text[source->set->rules == SQUAD_RULES_KERAS ? white_space_squeeze(text, length)
                                                     : white_space_join(text, length, text)] = '\0';
    }
    *answer = (struct squad_text){text, range.begin, range.end};
    return BERTH_OK;
}

void squad_text_memo_done(struct squad_text_memo *memo) {
    for (size_t i = 0; i < memo->ranges.count; i++) {
        memory_free(memo->words[i].text);
        memory_free(memo->words[i].basic);
    }
    memory_free(memo->words);
    token_list_done(&memo->tokens);
    string_index_done(&memo->ranges);
    string_index_done(&memo->spans);
}
