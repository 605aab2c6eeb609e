// SPDX-License-Identifier: Apache-2.0
// Finds the tokens of a text that are never split. Those that are looked for in the normalized text
// are normalized, too: cleaned, lower-cased and stripped as the walk's rules say, with a blank for
// white space and blanks around ideographs. Combining characters keep their order. basic.c asks it
// before it splits a text.
#include "core/buffer.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "text/basic.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

// --- the normalized text ------------------------------------------------------------------------

// A text after normalization, a character at a time.
struct reader {
    const struct basic_rules *rules;
    const unsigned char *text;
    size_t length, offset;            // of the next character
    uint32_t points[UNICODE_MAP_MAX]; // what the last one became, of which some may be left
    size_t count, next;
};

// Writes what a character becomes to `points`; returns the number of its points, 0 if it is
// dropped.
static size_t normalized_point(const struct basic_rules *rules, uint32_t point,
                               uint32_t points[UNICODE_MAP_MAX]) {
    if (point == UTF8_ILL_FORMED) {
        return 0;
    }
    const unsigned flags = basic_flags_of(rules, point);
    const int is_mark = basic_strips(rules) && (flags & UNICODE_MARK) != 0;
    if ((flags & UNICODE_DROP) != 0 || (is_mark && (flags & UNICODE_KEPT) == 0)) {
        return 0;
    }
    if ((flags & UNICODE_CJK) != 0) { // of which some are equal to others, and become these
        uint32_t mapped[UNICODE_MAP_MAX];
        unicode_map(point, rules->column, rules->mapping, mapped);
        points[0] = points[2] = ' ';
        points[1] = mapped[0];
        return 3;
    }
    points[0] = (flags & UNICODE_SPACE) != 0 ? ' ' : point;
    return is_mark || points[0] != point || rules->mapping == UNICODE_AS_IS
               ? 1
               : unicode_map(point, rules->column, rules->mapping, points);
}

// 0 at the end of the text.
static int read_point(struct reader *reader, uint32_t *point) {
    while (reader->next == reader->count) {
        if (reader->offset == reader->length) {
            return 0;
        }
        reader->offset +=
            utf8_decode(reader->text + reader->offset, reader->length - reader->offset, point);
        reader->count = normalized_point(reader->rules, *point, reader->points);
        reader->next = 0;
    }
    *point = reader->points[reader->next++];
    return 1;
}

// --- building -----------------------------------------------------------------------------------

// Orders tokens by their bytes, and equal ones by their numbers.
static int compare(const void *a, const void *b) {
    const struct trie_string *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->bytes, y->bytes, shorter);
    return order != 0               ? order
           : x->length != y->length ? (x->length < y->length ? -1 : 1)
                                    : x->id - y->id;
}

// Sorts them and keeps the first of equal ones; returns their number.
static size_t sort_distinct(struct trie_string *strings, size_t count) {
    size_t kept = 0;
    qsort(strings, count, sizeof *strings, compare);
    for (size_t i = 0; i < count; i++) {
        const struct trie_string *last = kept > 0 ? &strings[kept - 1] : NULL;
        if (strings[i].length > 0 && (last == NULL || last->length != strings[i].length ||
                                      memcmp(last->bytes, strings[i].bytes, last->length) != 0)) {
            strings[kept++] = strings[i];
        }
    }
    return kept;
}

int special_build(struct basic_rules *rules) {
    const size_t count = rules->special_count - rules->written;
    struct trie_string *strings = memory_array_zeroed(count + 1, sizeof *strings);
    struct buffer bytes = {0};
    size_t at = 0;
    for (size_t i = 0; strings != NULL && i < count; i++) {
        // The normalized token.
        const char *token = rules->specials[rules->written + i].text;
        struct reader reader = {
            .rules = rules, .text = (const unsigned char *)token, .length = strlen(token)};
        const size_t before = bytes.length;
        uint32_t point;
        while (read_point(&reader, &point)) {
            char encoded[4];
            if (bytes.length == before) {
                // Marks the bytes of characters that may become `first`.
                uint32_t points[UNICODE_MAP_MAX];
                for (uint32_t byte = 0; byte < 256; byte++) {
                    rules->special_first[byte] |=
                        byte >= 0x80 ||
                        (normalized_point(rules, byte, points) > 0 && points[0] == point);
                }
            }
            buffer_put(&bytes, encoded, utf8_encode(point, encoded));
        }
        strings[i].length = bytes.length - before;
        strings[i].id = (int32_t)(rules->written + i);
    }
    int done = strings != NULL && !bytes.failed;
    for (size_t i = 0; done && i < count; i++) { // now the buffer no longer moves
        strings[i].bytes = bytes.bytes + at;
        at += strings[i].length;
    }
    done = done &&
           (count == 0 || trie_build(&rules->normalized, strings, sort_distinct(strings, count)));
    buffer_done(&bytes);
    memory_free(strings);
    return done;
}

// --- finding ------------------------------------------------------------------------------------

static uint32_t step(const struct trie *trie, uint32_t node, uint32_t point) {
    char encoded[4];
    return trie_walk(trie, node, encoded, utf8_encode(point, encoded));
}

// The longest token that the text from walk->offset on becomes, of those before `end`: its index in
// the special tokens, and the bytes of the text. -1: none.
static int32_t normalized_find(const struct basic_walk *walk, size_t end, size_t *bytes) {
    const struct trie *trie = &walk->rules->normalized;
    struct reader reader = {
        .rules = walk->rules, .text = walk->text, .length = end, .offset = walk->offset};
    uint32_t point, node = 0;
    int32_t found = -1;
    const size_t first =
        walk->offset + utf8_decode(walk->text + walk->offset, end - walk->offset, &point);
    // A token does not begin with a character that is dropped.
    while (trie->count > 0 && node != TRIE_NONE && read_point(&reader, &point) &&
           (node != 0 || reader.offset == first)) {
        node = step(trie, node, point);
        if (node != TRIE_NONE && trie->nodes[node].id >= 0 && reader.next == reader.count) {
            found = trie->nodes[node].id;
            *bytes = reader.offset - walk->offset;
        }
    }
    return found;
}

// --- what is beside a token ---------------------------------------------------------------------

enum side { SIDE_NOTHING, SIDE_BLANK, SIDE_WORD, SIDE_OTHER };

// White space to a regular expression of the tokenizers library. Cleaning drops the last three.
static int is_blank(unsigned flags, uint32_t point) {
    return (flags & UNICODE_SPACE) != 0 || point == '\v' || point == '\f' || point == 0x85;
}

static enum side side_of(uint32_t point) {
    if (point == UTF8_ILL_FORMED) {
        return SIDE_OTHER;
    }
    const unsigned flags = unicode_properties_of(point, UNICODE_HUGGINGFACE)->flags;
    return is_blank(flags, point)        ? SIDE_BLANK
           : (flags & UNICODE_WORD) != 0 ? SIDE_WORD
                                         : SIDE_OTHER;
}

// What a character shows to a token, before or after it, that is found in the text as it is
// written, or that is `normalized`.
static enum side side_to(const struct basic_rules *rules, uint32_t point, int normalized,
                         int before) {
    uint32_t points[UNICODE_MAP_MAX];
    if (!normalized) {
        return side_of(point);
    }
    const size_t count = normalized_point(rules, point, points);
    if (count == 0) {
        return SIDE_NOTHING;
    }
    const enum side side = side_of(points[before ? count - 1 : 0]);
    return side == SIDE_BLANK && count > 1 ? SIDE_OTHER : side; // the blanks around an ideograph
}

// What is between `from` and `at`: returns the side of the last character that shows one, and sets
// *blanks to where the white space before `at` begins, of which an earlier token may have some.
static enum side look_before(const struct basic_walk *walk, size_t from, size_t at, int normalized,
                             size_t *blanks) {
    enum side first = SIDE_NOTHING, side = SIDE_NOTHING;
    uint32_t point;
    *blanks = at;
    while (at > from && (side == SIDE_NOTHING || side == SIDE_BLANK)) {
        at -= utf8_decode_before(walk->text, at, &point);
        side = side_to(walk->rules, point, normalized, 1);
        first = first == SIDE_NOTHING ? side : first;
        *blanks = side == SIDE_BLANK && at >= walk->special_end ? at : *blanks;
    }
    return first;
}

// What is between `at` and `to`: the side of the first character that shows one, and *blanks is
// where the white space after `at` ends.
static enum side look_after(const struct basic_walk *walk, size_t at, size_t to, int normalized,
                            size_t *blanks) {
    enum side first = SIDE_NOTHING, side = SIDE_NOTHING;
    uint32_t point;
    *blanks = at;
    while (at < to && (side == SIDE_NOTHING || side == SIDE_BLANK)) {
        at += utf8_decode(walk->text + at, to - at, &point);
        side = side_to(walk->rules, point, normalized, 0);
        first = first == SIDE_NOTHING ? side : first;
        *blanks = side == SIDE_BLANK ? at : *blanks;
    }
    return first;
}

static struct special find_written(struct basic_walk *walk, size_t at);

// The beginning of a token that is found as it is written, if only white space and dropped
// characters are before it; else the end of the text.
static size_t next_written(struct basic_walk *walk, size_t at) {
    enum side side = SIDE_BLANK;
    uint32_t point;
    while (at < walk->length && (side == SIDE_NOTHING || side == SIDE_BLANK)) {
        const struct special next = find_written(walk, at);
        if (next.token != NULL) {
            return next.begin;
        }
        at += utf8_decode(walk->text + at, walk->length - at, &point);
        side = side_to(walk->rules, point, 1, 0);
    }
    return walk->length;
}

// Whether a character separates words in the original text; -1 if it is dropped, so that the next
// one decides.
static int separates(const struct basic_rules *rules, uint32_t point) {
    if (point == UTF8_ILL_FORMED) {
        return -1;
    }
    unsigned flags = basic_flags_of(rules, point);
    if ((flags & UNICODE_DROP) != 0) {
        return -1;
    }
    return (flags & (UNICODE_SPACE | UNICODE_CJK)) != 0;
}

// Whether the bytes [begin, end) of the text are surrounded by separators or the ends of the text.
static int stands_alone(const struct basic_walk *walk, size_t begin, size_t end) {
    uint32_t point;
    int before = -1, after = -1;
    while (before < 0 && begin > 0) {
        begin -= utf8_decode_before(walk->text, begin, &point);
        before = separates(walk->rules, point);
    }
    while (after < 0 && end < walk->length) {
        end += utf8_decode(walk->text + end, walk->length - end, &point);
        after = separates(walk->rules, point);
    }
    return before != 0 && after != 0;
}

// --- tokens -------------------------------------------------------------------------------------

// The token, which [begin, end) of the text is, with its white space; none if it is not a single
// word and must be one.
static struct special place(struct basic_walk *walk, const struct added_token *token, size_t begin,
                            size_t end) {
    const int normalized = (token->flags & ADDED_NORMALIZED) != 0;
    struct special special = {token->text, begin, end, !normalized};
    if ((token->flags & (ADDED_SINGLE_WORD | ADDED_LSTRIP | ADDED_RSTRIP)) == 0) {
        return special;
    }
    size_t blanks_begin, blanks_end;
    const size_t from = normalized ? walk->written_end : 0,
                 to = normalized ? next_written(walk, end) : walk->length;
    const enum side before = look_before(walk, from, begin, normalized, &blanks_begin),
                    after = look_after(walk, end, to, normalized, &blanks_end);
    if ((token->flags & ADDED_SINGLE_WORD) != 0 && (before == SIDE_WORD || after == SIDE_WORD)) {
        return (struct special){0};
    }
    if ((token->flags & ADDED_LSTRIP) != 0) {
        special.begin = blanks_begin;
    }
    if ((token->flags & ADDED_RSTRIP) != 0) {
        special.end = blanks_end;
    }
    return special;
}

// The longest token at `at` that is there as it is written.
static struct special find_written(struct basic_walk *walk, size_t at) {
    const struct added_token *found = NULL;
    size_t end = at;
    if (at < walk->written_hidden) {
        return (struct special){0};
    }
    for (size_t i = 0; i < walk->rules->written; i++) {
        const struct added_token *token = &walk->rules->specials[i];
        const size_t bytes = strlen(token->text);
        if (bytes > end - at && walk->length - at >= bytes &&
            memcmp(walk->text + at, token->text, bytes) == 0 &&
            (!walk->rules->whole_specials || stands_alone(walk, at, at + bytes))) {
            found = token;
            end = at + bytes;
        }
    }
    if (found == NULL) {
        return (struct special){0};
    }
    const struct special special = place(walk, found, at, end);
    walk->written_hidden = special.token == NULL ? end : walk->written_hidden;
    return special;
}

// The longest token at walk->offset that the text becomes when it is normalized.
static struct special find_normalized(struct basic_walk *walk) {
    const struct basic_rules *rules = walk->rules;
    const size_t at = walk->offset;
    size_t bytes = 0;
    int32_t number = rules->special_count > rules->written && at >= walk->normalized_hidden
                         ? normalized_find(walk, walk->length, &bytes)
                         : -1;
    for (size_t i = 1; number >= 0 && i < bytes; i++) {
        if (find_written(walk, at + i).token != NULL) {
            number = normalized_find(walk, at + i, &bytes);
            break;
        }
    }
    if (number < 0 || (rules->whole_specials && !stands_alone(walk, at, at + bytes))) {
        return (struct special){0};
    }
    const struct special special = place(walk, &rules->specials[number], at, at + bytes);
    walk->normalized_hidden = special.token == NULL ? at + bytes : walk->normalized_hidden;
    return special;
}

struct special special_at(struct basic_walk *walk) {
    if (!walk->rules->special_first[walk->text[walk->offset]]) {
        return (struct special){0};
    }
    const struct special written = find_written(walk, walk->offset);
    return written.token != NULL ? written : find_normalized(walk);
}
