// SPDX-License-Identifier: Apache-2.0
#include "text/normalized.h"

#include "core/buffer.h"
#include "core/memory.h"
#include "core/utf8.h"

#include <stdlib.h>
#include <string.h>

// A text after normalization, a character at a time.
struct reader {
    const struct basic_rules *rules;
    const unsigned char *text;
    size_t length, offset;            // of the next character
    uint32_t points[UNICODE_MAP_MAX]; // what the last one became, of which some may be left
    size_t count, next;
};

size_t normalized_point(const struct basic_rules *rules, uint32_t point,
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

// Marks the bytes of characters that may become `first`.
static void mark_first(struct basic_rules *rules, uint32_t first) {
    uint32_t points[UNICODE_MAP_MAX];
    for (uint32_t byte = 0; byte < 256; byte++) {
        rules->special_first[byte] |=
            byte >= 0x80 || (normalized_point(rules, byte, points) > 0 && points[0] == first);
    }
}

// Appends the normalized token; returns its length.
static size_t put_token(struct basic_rules *rules, const char *token, struct buffer *bytes) {
    struct reader reader = {
        .rules = rules, .text = (const unsigned char *)token, .length = strlen(token)};
    const size_t before = bytes->length;
    uint32_t point;
    while (read_point(&reader, &point)) {
        char encoded[4];
        if (bytes->length == before) {
            mark_first(rules, point);
        }
        buffer_put(bytes, encoded, utf8_encode(point, encoded));
    }
    return bytes->length - before;
}

// By bytes, and equal ones by their numbers.
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

int normalized_build(struct basic_rules *rules) {
    const size_t count = rules->special_count - rules->written;
    struct trie_string *strings = memory_array_zeroed(count + 1, sizeof *strings);
    struct buffer bytes = {0};
    size_t at = 0;
    for (size_t i = 0; strings != NULL && i < count; i++) {
        strings[i].length = put_token(rules, rules->specials[rules->written + i].text, &bytes);
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

int32_t normalized_find(const struct basic_walk *walk, size_t end, size_t *bytes) {
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
