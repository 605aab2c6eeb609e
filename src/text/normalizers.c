// SPDX-License-Identifier: Apache-2.0
// The normalizers of pipelines: rows that turn the text of a room into another one, with the
// origins that the tokenizers library gives its characters. They know nothing of words.
// text_pipeline.c runs them first.
#include "core/base64.h"
#include "core/little_endian.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "text/components.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

#define CLUSTER_LIMIT 6 // longer clusters of characters are not replaced as a whole

static int is_ascii(const struct room_text *text) {
    unsigned char all = 0;
    for (size_t i = 0; i < text->count; i++) {
        all |= (unsigned char)text->bytes[i];
    }
    return all < 0x80;
}

// --- normal forms -------------------------------------------------------------------------------

static void put_change(struct text_room *room, uint32_t point, int32_t change, uint8_t combining) {
    struct room_change *changes =
        memory_grow(room->changes, &room->change_capacity, room->change_count + 1, sizeof *changes);
    if (changes == NULL) {
        room->failed = 1;
        return;
    }
    room->changes = changes;
    changes[room->change_count] =
        (struct room_change){point, change, (uint32_t)room->change_count, combining};
    room->change_count++;
}

static int compare_marks(const void *a, const void *b) {
    const struct room_change *x = a, *y = b;
    return x->combining != y->combining ? (x->combining < y->combining ? -1 : 1)
                                        : (x->order < y->order ? -1 : x->order > y->order);
}

// Sorts the combining characters from `begin` on by their classes.
static void sort_marks(struct text_room *room, size_t begin) {
    for (size_t i = begin; i + 1 < room->change_count; i++) {
        if (room->changes[i].combining > room->changes[i + 1].combining) {
            qsort(room->changes + begin, room->change_count - begin, sizeof *room->changes,
                  compare_marks);
            return;
        }
    }
}

static void decompose(struct text_room *room, int compatible) {
    uint32_t point, parts[UNICODE_PARTS_MAX];
    size_t marks = 0;
    room->change_count = 0;
    for (size_t at = 0; at < room->text.count && !room->failed;) {
        at = text_point(room->text.bytes, room->text.count, at, &point);
        const size_t count = unicode_decompose(point, compatible, parts);
        for (size_t i = 0; i < count; i++) {
            const uint8_t combining = unicode_component_of(parts[i]).combining;
            if (combining == 0) {
                sort_marks(room, marks);
            }
            put_change(room, parts[i], i > 0, combining);
            marks = combining == 0 ? room->change_count : marks;
        }
    }
    sort_marks(room, marks);
}

// Unicode chapter 3.11: a character joins the last starter if no other that is left stands between.
static void compose(struct text_room *room) {
    struct room_change *out = room->changes, *starter = NULL;
    size_t kept = 0;
    int last = 0; // the class of the last character after the starter; 0: there is none
    for (size_t i = 0; i < room->change_count; i++) {
        const struct room_change next = room->changes[i];
        const int is_blocked = starter == NULL || (last != 0 && last >= next.combining);
        const uint32_t whole = is_blocked ? 0 : unicode_compose(starter->point, next.point);
        if (whole != 0) {
            starter->point = whole;
            starter->change += next.change - 1;
            continue;
        }
        out[kept] = next;
        if (next.combining == 0) {
            starter = &out[kept];
        }
        last = starter == NULL ? 0 : next.combining;
        kept++;
    }
    room->change_count = kept;
}

// Replaces the text by the changed characters, which get the origins of those that they stand for
// by their changes.
static void apply_changes(struct text_room *room) {
    const struct room_text *text = &room->text;
    size_t at = 0;
    for (size_t i = 0; i < room->change_count; i++) {
        const struct room_change *change = &room->changes[i];
        const size_t from = change->change > 0 ? (at > 0 ? at - 1 : 0) : at;
        room_put(room, change->point,
                 text->count == 0 ? 0 : text->origins[from < text->count ? from : text->count - 1]);
        for (int32_t read = change->change; read <= 0 && at < text->count; read++) {
            at += utf8_whole(text->bytes[at]);
        }
    }
    room_turn(room);
}

static void normal_form(struct text_room *room, int compatible, int composes) {
    if (is_ascii(&room->text)) {
        return;
    }
    decompose(room, compatible);
    if (composes) {
        compose(room);
    }
    apply_changes(room);
}

static void run_nfd(const struct component *component, struct text_room *room) {
    (void)component;
    normal_form(room, 0, 0);
}

static void run_nfkd(const struct component *component, struct text_room *room) {
    (void)component;
    normal_form(room, 1, 0);
}

static void run_nfc(const struct component *component, struct text_room *room) {
    (void)component;
    normal_form(room, 0, 1);
}

static void run_nfkc(const struct component *component, struct text_room *room) {
    (void)component;
    normal_form(room, 1, 1);
}

// --- single characters --------------------------------------------------------------------------

static void run_lowercase(const struct component *component, struct text_room *room) {
    struct room_text *text = &room->text;
    (void)component;
    if (is_ascii(text)) {
        for (size_t i = 0; i < text->count; i++) {
            const char c = text->bytes[i];
            text->bytes[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
        }
        return;
    }
    for (size_t at = 0; at < text->count;) {
        uint32_t point, lower[UNICODE_MAP_MAX];
        const size_t next = text_point(text->bytes, text->count, at, &point),
                     parts = unicode_map(point, UNICODE_HUGGINGFACE, UNICODE_LOWER, lower);
        for (size_t i = 0; i < parts; i++) {
            room_put(room, lower[i], text->origins[at]);
        }
        at = next;
    }
    room_turn(room);
}

// Keeps the characters without the flags: a kind of components, or flags of BERT's rules.
static void drop(struct text_room *room, unsigned kinds, unsigned flags) {
    const struct room_text *text = &room->text;
    for (size_t at = 0; at < text->count;) {
        uint32_t point;
        const size_t next = text_point(text->bytes, text->count, at, &point);
        if ((unicode_component_of(point).kinds & kinds) == 0 &&
            (unicode_properties_of(point, UNICODE_HUGGINGFACE)->flags & flags) == 0) {
            room_copy(room, at, next);
        }
        at = next;
    }
    room_turn(room);
}

static void run_strip_accents(const struct component *component, struct text_room *room) {
    (void)component;
    if (!is_ascii(&room->text)) {
        drop(room, UNICODE_ACCENT, 0);
    }
}

static int is_blank(uint32_t point) {
    return (unicode_component_of(point).kinds & UNICODE_BLANK) != 0;
}

enum { STRIP_LEFT, STRIP_RIGHT };

static enum berth_status read_strip(struct component *component, const json *object,
                                    const struct component_place *place,
                                    struct berth_error *error) {
    TRY(component_flag(object, "strip_left", place, &component->flags[STRIP_LEFT], error));
    return component_flag(object, "strip_right", place, &component->flags[STRIP_RIGHT], error);
}

static void run_strip(const struct component *component, struct text_room *room) {
    const struct room_text *text = &room->text;
    size_t begin = 0, end = text->count;
    uint32_t point;
    while (component->flags[STRIP_LEFT] && begin < end) {
        const size_t next = text_point(text->bytes, end, begin, &point);
        if (!is_blank(point)) {
            break;
        }
        begin = next;
    }
    while (component->flags[STRIP_RIGHT] && end > begin) {
        const size_t size = utf8_decode_before(text->bytes, end, &point);
        if (!is_blank(point)) {
            break;
        }
        end -= size;
    }
    if (begin > 0 || end < text->count) {
        room_copy(room, begin, end);
        room_turn(room);
    }
}

// --- texts --------------------------------------------------------------------------------------

#define MARK "\xE2\x96\x81"

// Blanks at the beginning and the end of the text.
static size_t match_outer_spaces(const struct component *component, const char *bytes, size_t end,
                                 size_t at) {
    size_t next = at;
    (void)component;
    while (next < end && bytes[next] == ' ') {
        next++;
    }
    return at == 0 || next == end ? next : at;
}

static size_t match_first_mark(const struct component *component, const char *bytes, size_t end,
                               size_t at) {
    const size_t length = strlen(MARK);
    (void)component;
    return at == 0 && end >= length && memcmp(bytes, MARK, length) == 0 ? length : at;
}

// Expressions with anchors match in a whole text alone, so that no other component has them.
static enum berth_status read_replace(struct component *component, const json *object,
                                      const struct component_place *place,
                                      struct berth_error *error) {
    const char *expression = json_text(json_member(json_member(object, "pattern"), "Regex"));
    const int is_outer = expression != NULL && strcmp(expression, "\\A +| +\\z") == 0,
              is_mark = expression != NULL && strcmp(expression, "\\A" MARK) == 0;
    if (!is_outer && !is_mark) {
        return component_read_replace(component, object, place, error);
    }
    component->match = is_outer ? match_outer_spaces : match_first_mark;
    return component_text(object, "content", place, &component->content, &component->content_length,
                          error);
}

// The content gets the origin of the last character that it replaces.
static void run_replace(const struct component *component, struct text_room *room) {
    const struct room_text *text = &room->text;
    size_t kept = 0;
    for (size_t at = 0; at < text->count;) {
        const size_t end = component->match(component, text->bytes, text->count, at);
        if (end > at) {
            room_copy(room, kept, at);
            room_put_bytes(room, component->content, component->content_length,
                           text->origins[end - 1]);
            kept = end;
        }
        at = end > at ? end : at + utf8_whole(text->bytes[at]);
    }
    if (kept > 0) {
        room_copy(room, kept, text->count);
        room_turn(room);
    }
}

static enum berth_status read_prepend(struct component *component, const json *object,
                                      const struct component_place *place,
                                      struct berth_error *error) {
    return component_text(object, "prepend", place, &component->text, &component->text_length,
                          error);
}

static void run_prepend(const struct component *component, struct text_room *room) {
    if (room->text.count > 0) {
        room_put_bytes(room, component->text, component->text_length, room->text.origins[0]);
        room_copy(room, 0, room->text.count);
        room_turn(room);
    }
}

// --- the table of sentencepiece -----------------------------------------------------------------

// The replacement of what begins the bytes: that of the shortest entry; NULL: none.
static const char *find_replacement(const struct charsmap *map, const char *bytes, size_t count) {
    size_t at = 0;
    uint32_t unit = map->units[0];
    at ^= (size_t)(unit >> 10) << ((unit & 0x200u) >> 6);
    for (size_t i = 0; i < count; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        at ^= byte;
        if (byte == 0 || at >= map->unit_count) {
            return NULL;
        }
        unit = map->units[at];
        if ((unit & 0x800000FFu) != byte) {
            return NULL;
        }
        at ^= (size_t)(unit >> 10) << ((unit & 0x200u) >> 6);
        if ((unit >> 8 & 1) != 0) {
            const size_t text = at < map->unit_count ? map->units[at] & 0x7FFFFFFFu : SIZE_MAX;
            return text < map->text_length && utf8_begins(map->texts[text]) ? map->texts + text
                                                                            : NULL;
        }
    }
    return NULL;
}

static enum berth_status read_charsmap(struct component *component, const json *object,
                                       const struct component_place *place,
                                       struct berth_error *error) {
    static const char key[] = "precompiled_charsmap",
                      expected[] = "a table of sentencepiece in base64: the size of its trie, the "
                                   "trie and texts in UTF-8";
    struct charsmap *map = &component->charsmap;
    struct buffer bytes = {0};
    const char *text = json_text(json_member(object, key));
    const int is_read = text != NULL && base64_read(&bytes, text, strlen(text));
    const size_t trie = is_read && bytes.length >= 4 ? (size_t)little_endian(bytes.bytes, 4) : 0;
    const size_t units = trie / 4, texts = 4 + units * 4;
    if (bytes.failed) {
        buffer_done(&bytes);
        return error_no_memory(error, 0, place->file);
    }
    if (units == 0 || trie > bytes.length - 4 ||
        !utf8_is_valid(bytes.bytes + texts, bytes.length - texts)) {
        buffer_done(&bytes);
        return component_refuse(place, key, expected, "another value", error);
    }
    map->units = memory_array(units, sizeof *map->units);
    map->texts = memory_string_of(bytes.bytes + texts, bytes.length - texts);
    map->unit_count = units;
    map->text_length = bytes.length - texts;
    for (size_t i = 0; map->units != NULL && i < units; i++) {
        map->units[i] = (uint32_t)little_endian(bytes.bytes + 4 + 4 * i, 4);
    }
    buffer_done(&bytes);
    if (map->units == NULL || map->texts == NULL) {
        return error_no_memory(error, trie, place->file);
    }
    for (size_t byte = 1; byte < sizeof map->ascii; byte++) {
        const char character = (char)byte;
        map->ascii[byte] = find_replacement(map, &character, 1) != NULL;
    }
    return BERTH_OK;
}

static int is_control(uint32_t point) {
    return (unicode_component_of(point).kinds & UNICODE_CONTROL) != 0;
}

// The end of the cluster of characters, as users see them (Unicode's annex 29, of whose rules those
// for Hangul, emoji and Indic conjuncts make no cluster of fewer than CLUSTER_LIMIT bytes).
static size_t cluster_end(const struct room_text *text, size_t at) {
    uint32_t point, next;
    at = text_point(text->bytes, text->count, at, &point);
    if (point == '\r' && at < text->count && text->bytes[at] == '\n') {
        return at + 1;
    }
    while (at < text->count && !is_control(point)) {
        const size_t end = text_point(text->bytes, text->count, at, &next);
        if (is_control(next) || ((unicode_component_of(next).kinds & UNICODE_JOINS) == 0 &&
                                 (unicode_component_of(point).kinds & UNICODE_JOINED) == 0)) {
            break;
        }
        at = end;
        point = next;
    }
    return at;
}

// Replaces text[at, end) as the library counts: characters in excess are additional ones, and those
// that are missing belong to the last character so far, if there is one.
static void replace(struct text_room *room, const char *with, size_t at, size_t end) {
    const size_t length = strlen(with);
    const int32_t before = (int32_t)utf8_count(room->text.bytes + at, end - at);
    int32_t count = 0;
    uint32_t point;
    for (size_t i = 0; i < length; count++) {
        i = text_point(with, length, i, &point);
        put_change(room, point, count >= before, 0);
    }
    if (count < before && room->change_count > 0 && !room->failed) {
        room->changes[room->change_count - 1].change += count - before;
    }
}

static void replace_cluster(const struct charsmap *map, struct text_room *room, size_t at,
                            size_t end, int *is_changed) {
    const struct room_text *text = &room->text;
    const char *whole =
        end - at < CLUSTER_LIMIT ? find_replacement(map, text->bytes + at, end - at) : NULL;
    if (whole != NULL) {
        replace(room, whole, at, end);
        *is_changed = 1;
        return;
    }
    while (at < end) {
        uint32_t point;
        const size_t next = text_point(text->bytes, end, at, &point);
        const char *with = find_replacement(map, text->bytes + at, next - at);
        if (with != NULL) {
            replace(room, with, at, next);
            *is_changed = 1;
        } else {
            put_change(room, point, 0, 0);
        }
        at = next;
    }
}

static void run_charsmap(const struct component *component, struct text_room *room) {
    const struct room_text *text = &room->text;
    int is_changed = 0;
    // No character is replaced, as far as that is known at once: in ASCII.
    int keeps = 1;
    for (size_t i = 0; i < text->count && keeps; i++) {
        const unsigned char byte = (unsigned char)text->bytes[i];
        keeps = byte < 0x80 && !component->charsmap.ascii[byte];
    }
    if (keeps) {
        return;
    }
    room->change_count = 0;
    for (size_t at = 0; at < text->count && !room->failed;) {
        const unsigned char byte = (unsigned char)text->bytes[at];
        if (byte < 0x80 && !component->charsmap.ascii[byte] && at + 1 < text->count &&
            (unsigned char)text->bytes[at + 1] < 0x80) {
            put_change(room, byte, 0, 0);
            at++;
            continue;
        }
        const size_t end = cluster_end(text, at);
        replace_cluster(&component->charsmap, room, at, end, &is_changed);
        at = end;
    }
    if (is_changed) {
        apply_changes(room);
    }
}

// --- BERT's -------------------------------------------------------------------------------------

enum { BERT_CLEAN, BERT_IDEOGRAPHS, BERT_STRIP, BERT_LOWER };

static enum berth_status read_bert(struct component *component, const json *object,
                                   const struct component_place *place, struct berth_error *error) {
    int *flags = component->flags;
    flags[BERT_CLEAN] = flags[BERT_IDEOGRAPHS] = flags[BERT_LOWER] = 1;
    TRY(component_flag(object, "clean_text", place, &flags[BERT_CLEAN], error));
    TRY(component_flag(object, "handle_chinese_chars", place, &flags[BERT_IDEOGRAPHS], error));
    TRY(component_flag(object, "lowercase", place, &flags[BERT_LOWER], error));
    flags[BERT_STRIP] = flags[BERT_LOWER];
    return json_is_null_value(json_member(object, "strip_accents"))
               ? BERTH_OK
               : component_flag(object, "strip_accents", place, &flags[BERT_STRIP], error);
}

// Drops control characters, makes white space blanks, puts blanks around ideographs.
static void clean_and_pad(const struct component *component, struct text_room *room) {
    const struct room_text *text = &room->text;
    for (size_t at = 0; at < text->count;) {
        uint32_t point;
        const size_t begin = at;
        at = text_point(text->bytes, text->count, at, &point);
        const unsigned flags = unicode_properties_of(point, UNICODE_HUGGINGFACE)->flags;
        const uint32_t origin = text->origins[begin];
        if (component->flags[BERT_CLEAN] && (flags & (UNICODE_DROP | UNICODE_SPACE)) != 0) {
            if ((flags & UNICODE_SPACE) != 0) {
                room_put(room, ' ', origin);
            }
        } else if (component->flags[BERT_IDEOGRAPHS] && (flags & UNICODE_CJK) != 0) {
            room_put(room, ' ', origin);
            room_put(room, point, origin);
            room_put(room, ' ', origin);
        } else {
            room_copy(room, begin, at);
        }
    }
    room_turn(room);
}

static void run_bert(const struct component *component, struct text_room *room) {
    if (component->flags[BERT_CLEAN] || component->flags[BERT_IDEOGRAPHS]) {
        clean_and_pad(component, room);
    }
    if (component->flags[BERT_STRIP]) {
        normal_form(room, 0, 0);
        drop(room, 0, UNICODE_MARK);
    }
    if (component->flags[BERT_LOWER]) {
        run_lowercase(component, room);
    }
}

const struct component_row normalizer_rows[] = {{"BertNormalizer", read_bert, run_bert, NULL},
                                                {"Lowercase", NULL, run_lowercase, NULL},
                                                {"NFC", NULL, run_nfc, NULL},
                                                {"NFD", NULL, run_nfd, NULL},
                                                {"NFKC", NULL, run_nfkc, NULL},
                                                {"NFKD", NULL, run_nfkd, NULL},
                                                {"Precompiled", read_charsmap, run_charsmap, NULL},
                                                {"Prepend", read_prepend, run_prepend, NULL},
                                                {"Replace", read_replace, run_replace, NULL},
                                                {"Strip", read_strip, run_strip, NULL},
                                                {"StripAccents", NULL, run_strip_accents, NULL},
                                                {.name = NULL}};
