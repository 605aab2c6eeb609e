// SPDX-License-Identifier: Apache-2.0
// What all components share: the room in which a text is worked on, how its tokens get the places
// of the original text, and how the fields of tokenizer.json are read. Components are run by
// text_pipeline.c; their rows are in normalizers.c, splitters.c and word_models.c.
#include "text/components.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "text/text_pipeline.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

#include <stdio.h>
#include <string.h>

// --- the room -----------------------------------------------------------------------------------

int room_reserve(struct text_room *room, struct room_text *text, size_t extra) {
    if (text->capacity - text->count >= extra) {
        return 1;
    }
    // Bytes and origins grow to the same capacity.
    size_t needed = text->count + extra, capacity = text->capacity;
    char *bytes = memory_grow(text->bytes, &capacity, needed, 1);
    text->bytes = bytes != NULL ? bytes : text->bytes;
    uint32_t *origins =
        bytes == NULL ? NULL : memory_grow(text->origins, &text->capacity, needed, sizeof *origins);
    text->origins = origins != NULL ? origins : text->origins;
    room->failed |= origins == NULL;
    return origins != NULL;
}

void room_put_bytes(struct text_room *room, const char *bytes, size_t count, uint32_t origin) {
    struct room_text *text = &room->next;
    if (room_reserve(room, text, count)) {
        for (size_t i = 0; i < count; i++) {
            text->bytes[text->count] = bytes[i];
            text->origins[text->count++] = origin;
        }
    }
}

void room_put(struct text_room *room, uint32_t point, uint32_t origin) {
    char bytes[4];
    room_put_bytes(room, bytes, utf8_encode(point, bytes), origin);
}

void room_append(struct text_room *room, struct room_text *to, const struct room_text *from,
                 size_t begin, size_t end) {
    if (end > begin && room_reserve(room, to, end - begin)) {
        memcpy(to->bytes + to->count, from->bytes + begin, end - begin);
        memcpy(to->origins + to->count, from->origins + begin, (end - begin) * sizeof *to->origins);
        to->count += end - begin;
    }
}

void room_copy(struct text_room *room, size_t begin, size_t end) {
    room_append(room, &room->next, &room->text, begin, end);
}

void room_exchange(struct room_text *a, struct room_text *b) {
    const struct room_text before = *a;
    *a = *b;
    *b = before;
}

void room_turn(struct text_room *room) {
    room_exchange(&room->text, &room->next);
    room->next.count = 0;
}

void room_add(struct text_room *room, struct room_pieces *pieces, size_t begin, size_t end,
              int32_t id) {
    struct room_piece *items = begin < end ? memory_grow(pieces->items, &pieces->capacity,
                                                         pieces->count + 1, sizeof *items)
                                           : NULL;
    if (items == NULL) {
        room->failed |= begin < end;
        return;
    }
    pieces->items = items;
    items[pieces->count++] = (struct room_piece){begin, end, id};
}

void room_turn_pieces(struct text_room *room) {
    const struct room_pieces before = room->pieces;
    room->pieces = room->next_pieces;
    room->next_pieces = before;
    room->next_pieces.count = 0;
}

size_t text_point(const char *bytes, size_t end, size_t at, uint32_t *point) {
    const unsigned char byte = (unsigned char)bytes[at];
    if (byte < 0x80) {
        *point = byte;
        return at + 1;
    }
    return at + utf8_decode(bytes + at, end - at, point);
}

// The end of the character of the original text that begins at `at`.
static size_t original_end(const struct text_room *room, size_t at) {
    uint32_t point;
    return room->is_valid
               ? at + utf8_whole(room->original[at])
               : at + utf8_decode(room->original + at, room->original_length - at, &point);
}

// The index of the character of the original text that begins at `at`.
static uint32_t character_at(struct text_room *room, size_t at) {
    if (at < room->byte) {
        room->byte = room->character = 0;
    }
    for (; room->byte < at; room->character++) {
        room->byte = original_end(room, room->byte);
    }
    return room->character;
}

static size_t blanks_before(const char *bytes, size_t begin, size_t end) {
    size_t count = 0;
    uint32_t point;
    while (begin < end) {
        begin = text_point(bytes, end, begin, &point);
        if ((unicode_component_of(point).kinds & UNICODE_BLANK) == 0) {
            break;
        }
        count++;
    }
    return count;
}

static size_t blanks_after(const char *bytes, size_t begin, size_t end) {
    size_t count = 0;
    uint32_t point;
    while (end > begin) {
        end -= utf8_decode_before(bytes, end, &point);
        if ((unicode_component_of(point).kinds & UNICODE_BLANK) == 0) {
            break;
        }
        count++;
    }
    return count;
}

static size_t spaces_before(const char *bytes, size_t begin, size_t end) {
    const size_t from = begin;
    while (begin < end && bytes[begin] == ' ') {
        begin++;
    }
    return begin - from;
}

static size_t spaces_after(const char *bytes, size_t begin, size_t end) {
    const size_t from = end;
    while (end > begin && bytes[end - 1] == ' ') {
        end--;
    }
    return from - end;
}

// Leaves blanks at the ends of a token out of its offsets. Of byte-level tokens only U+0020 counts.
static void trim(const struct text_room *room, struct token *token, size_t begin, size_t end,
                 int is_added) {
    const char *bytes = room->text.bytes;
    uint32_t before =
        (uint32_t)(is_added ? blanks_before(bytes, begin, end) : spaces_before(bytes, begin, end));
    uint32_t after =
        (uint32_t)(is_added ? blanks_after(bytes, begin, end) : spaces_after(bytes, begin, end));
    const int is_first = room->list->count == room->first_token || token->begin == 0;
    before = is_first && room->keeps_first_blank && before == 1 ? 0 : before;
    for (; before > 0 && token->begin < token->end; before--, token->begin++) {
        token->byte_begin = (uint32_t)original_end(room, token->byte_begin);
    }
    for (; after > 0 && token->end > token->begin; after--, token->end--) {
        uint32_t point;
        token->byte_end -= (uint32_t)utf8_decode_before(room->original, token->byte_end, &point);
    }
}

static void add_token(struct text_room *room, int32_t id, size_t begin, size_t end, int is_added) {
    struct token_list *list = room->list;
    struct token *items = memory_grow(list->items, &list->capacity, list->count + 1, sizeof *items);
    if (items == NULL) {
        room->failed = 1;
        return;
    }
    list->items = items;
    const uint32_t first = room->text.origins[begin], last = room->text.origins[end - 1];
    struct token token = {.id = id,
                          .word = room->word,
                          .begin = character_at(room, first),
                          .end = character_at(room, last) + 1,
                          .byte_begin = first,
                          .byte_end = (uint32_t)original_end(room, last)};
    if (room->trims) {
        trim(room, &token, begin, end, is_added);
    }
    list->items[list->count++] = token;
}

void room_token(struct text_room *room, int32_t id, size_t begin, size_t end) {
    add_token(room, id, begin, end, 0);
}

void room_added_token(struct text_room *room, int32_t id, size_t begin, size_t end) {
    add_token(room, id, begin, end, 1);
}

void text_pipeline_room_free(struct text_room *room) {
    if (room == NULL) {
        return;
    }
    struct room_text *const texts[] = {&room->text, &room->next, &room->joined};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        memory_free(texts[i]->bytes);
        memory_free(texts[i]->origins);
    }
    memory_free(room->pieces.items);
    memory_free(room->next_pieces.items);
    memory_free(room->found.items);
    memory_free(room->changes);
    memory_free(room->symbols);
    memory_free(room->heap);
    memory_free(room->paths);
    memory_free(room);
}

// --- reading ------------------------------------------------------------------------------------

enum berth_status component_refuse(const struct component_place *place, const char *key,
                                   const char *expected, const char *found,
                                   struct berth_error *error) {
    found = found != NULL ? found : "none";
    return error_set(error, BERTH_CONFIG, "%s: key \"%s.%s\": expected %s, found %.*s", place->file,
                     place->key, key, expected, UTF8_SHOWN(found, 60));
}

enum berth_status component_text(const json *object, const char *key,
                                 const struct component_place *place, char **text, size_t *length,
                                 struct berth_error *error) {
    const json *value = json_member(object, key);
    if (!json_is_text(value)) {
        return component_refuse(place, key, "a text", value != NULL ? "another value" : NULL,
                                error);
    }
    memory_free(*text);
    *length = json_text_length(value);
    *text = memory_string_of(json_text(value), *length);
    return *text != NULL ? BERTH_OK : error_no_memory(error, *length, place->file);
}

enum berth_status component_flag(const json *object, const char *key,
                                 const struct component_place *place, int *flag,
                                 struct berth_error *error) {
    const json *value = json_member(object, key);
    if (value == NULL || json_is_null_value(value)) {
        return BERTH_OK;
    }
    if (!json_is_boolean(value)) {
        return component_refuse(place, key, "true or false", "another value", error);
    }
    *flag = json_truth(value);
    return BERTH_OK;
}

static enum berth_status read_component(struct component_list *list,
                                        const struct component_kind *kind, const json *object,
                                        const struct component_place *place,
                                        struct berth_error *error) {
    const char *type = json_text(json_member(object, "type"));
    const struct component_row *row = kind->rows;
    while (type != NULL && row->name != NULL && strcmp(row->name, type) != 0) {
        row++;
    }
    if (type == NULL || row->name == NULL) {
        char names[400] = "";
        size_t length = 0;
        for (const struct component_row *known = kind->rows; known->name != NULL; known++) {
            length += (size_t)snprintf(names + length, sizeof names - length, "%s, ", known->name);
        }
        snprintf(names + length, sizeof names - length, "or Sequence");
        return component_refuse(place, "type", names, type, error);
    }
    struct component *items =
        memory_grow(list->items, &list->capacity, list->count + 1, sizeof *items);
    if (items == NULL) {
        return error_no_memory(error, sizeof *items, place->file);
    }
    list->items = items;
    struct component *component = &items[list->count++];
    *component = (struct component){.row = row};
    return row->read != NULL ? row->read(component, object, place, error) : BERTH_OK;
}

enum berth_status components_read(struct component_list *list, const struct component_kind *kind,
                                  const json *value, const struct component_place *place,
                                  struct berth_error *error) {
    const char *type = json_text(json_member(value, "type"));
    if (value == NULL || json_is_null_value(value)) {
        return BERTH_OK;
    }
    if (type == NULL || strcmp(type, "Sequence") != 0) {
        return read_component(list, kind, value, place, error);
    }
    const json *items = json_member(value, kind->list);
    for (size_t i = 0; i < json_length(items); i++) {
        struct component_place inner = {.file = place->file};
        snprintf(inner.key, sizeof inner.key, "%.60s.%s[%zu]", place->key, kind->list, i);
        TRY(components_read(list, kind, json_at(items, i), &inner, error));
    }
    return json_is_array_value(items)
               ? BERTH_OK
               : component_refuse(place, kind->list, "a list of components", NULL, error);
}

void components_done(struct component_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        memory_free(list->items[i].text);
        memory_free(list->items[i].content);
        memory_free(list->items[i].charsmap.units);
        memory_free(list->items[i].charsmap.texts);
    }
    memory_free(list->items);
    *list = (struct component_list){0};
}

void components_run(const struct component_list *list, struct text_room *room) {
    for (size_t i = 0; i < list->count && !room->failed; i++) {
        list->items[i].row->run(&list->items[i], room);
    }
}

// --- byte-level words ---------------------------------------------------------------------------

uint32_t byte_level_point(unsigned char byte) {
    return byte <= 0x20   ? 0x100u + byte
           : byte < 0x7F  ? byte
           : byte <= 0xA0 ? 0x121u + (byte - 0x7Fu)
           : byte == 0xAD ? 0x143u
                          : byte;
}

int byte_level_byte(uint32_t point) {
    const uint32_t byte = point < 0x100   ? point
                          : point < 0x121 ? point - 0x100
                          : point < 0x143 ? point - 0x121 + 0x7F
                                          : 0xAD;
    return byte < 0x100 && byte_level_point((unsigned char)byte) == point ? (int)byte : -1;
}

// --- decoded texts ------------------------------------------------------------------------------

void strings_add(struct component_strings *strings, const char *bytes, size_t length) {
    size_t *ends = memory_grow(strings->ends, &strings->capacity, strings->count + 1, sizeof *ends);
    if (ends == NULL) {
        strings->failed = 1;
        return;
    }
    strings->ends = ends;
    buffer_put(&strings->bytes, bytes, length);
    strings->failed |= strings->bytes.failed;
    ends[strings->count++] = strings->bytes.length;
}
