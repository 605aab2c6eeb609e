// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of pipelines: rows that cut the pieces of a room into smaller ones, of which a
// model makes tokens. Regular expressions are those that folders have, each written as a function.
#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "text/components.h"
#include "text/unicode.h"

#include <string.h>

static unsigned kinds_of(uint32_t point) {
    return unicode_component_of(point).kinds;
}

static unsigned flags_of(uint32_t point) {
    return unicode_properties_of(point, UNICODE_HUGGINGFACE)->flags;
}

// --- cutting ------------------------------------------------------------------------------------

// The parts of one piece: what was matched and what lies between.
struct parts {
    struct text_room *room;
    enum split_behavior behavior;
    int was_match, is_first;
    size_t waiting; // where a match begins that the next part joins; SIZE_MAX: none
};

static void add_part(struct parts *parts, size_t begin, size_t end, int is_match) {
    struct room_pieces *pieces = &parts->room->next_pieces;
    const int extends = parts->behavior == SPLIT_CONTIGUOUS ? is_match == parts->was_match
                        : parts->behavior == SPLIT_MERGED_WITH_PREVIOUS
                            ? is_match && !parts->was_match
                            : 0;
    if (parts->behavior == SPLIT_MERGED_WITH_NEXT && is_match) {
        if (parts->waiting != SIZE_MAX) {
            room_add(parts->room, pieces, parts->waiting, begin, -1);
        }
        parts->waiting = begin;
    } else if (extends && !parts->is_first && pieces->count > 0) {
        pieces->items[pieces->count - 1].end = end;
    } else if (parts->behavior != SPLIT_REMOVED || !is_match) {
        room_add(parts->room, pieces, parts->waiting != SIZE_MAX ? parts->waiting : begin, end, -1);
        parts->waiting = SIZE_MAX;
    }
    parts->was_match = is_match;
    parts->is_first = 0;
}

static void cut_piece(const struct component *component, struct text_room *room,
                      const struct room_piece *piece) {
    struct parts parts = {room, component->behavior, 0, 1, SIZE_MAX};
    size_t kept = piece->begin;
    for (size_t at = piece->begin; at < piece->end;) {
        const size_t end = component->match(component, room->text.bytes, piece->end, at);
        if (end > at) {
            if (at > kept) {
                add_part(&parts, kept, at, component->inverts);
            }
            add_part(&parts, at, end, !component->inverts);
            kept = end;
        }
        at = end > at ? end : at + utf8_whole(room->text.bytes[at]);
    }
    if (kept < piece->end) {
        add_part(&parts, kept, piece->end, component->inverts);
    }
    if (parts.waiting != SIZE_MAX) {
        room_add(room, &room->next_pieces, parts.waiting, piece->end, -1);
    }
}

static void run_cut(const struct component *component, struct text_room *room) {
    for (size_t i = 0; i < room->pieces.count; i++) {
        const struct room_piece *piece = &room->pieces.items[i];
        if (piece->id >= 0) {
            room_add(room, &room->next_pieces, piece->begin, piece->end, piece->id);
        } else {
            cut_piece(component, room, piece);
        }
    }
    room_turn_pieces(room);
}

// --- what is matched ----------------------------------------------------------------------------

static size_t match_blank(const struct component *component, const char *bytes, size_t end,
                          size_t at) {
    uint32_t point;
    const size_t next = text_point(bytes, end, at, &point);
    (void)component;
    return (kinds_of(point) & UNICODE_BLANK) != 0 ? next : at;
}

static size_t match_blanks(const struct component *component, const char *bytes, size_t end,
                           size_t at) {
    for (size_t next = at; at < end; at = next) {
        next = match_blank(component, bytes, end, at);
        if (next == at) {
            break;
        }
    }
    return at;
}

static size_t match_spaces(const struct component *component, const char *bytes, size_t end,
                           size_t at) {
    (void)component;
    while (at < end && bytes[at] == ' ') {
        at++;
    }
    return at;
}

static size_t match_many_spaces(const struct component *component, const char *bytes, size_t end,
                                size_t at) {
    const size_t next = match_spaces(component, bytes, end, at);
    return next - at >= 2 ? next : at;
}

static size_t match_punctuation(const struct component *component, const char *bytes, size_t end,
                                size_t at) {
    uint32_t point;
    const size_t next = text_point(bytes, end, at, &point);
    (void)component;
    return (flags_of(point) & UNICODE_PUNCTUATION) != 0 ? next : at;
}

static size_t match_digit(const struct component *component, const char *bytes, size_t end,
                          size_t at) {
    uint32_t point;
    const size_t next = text_point(bytes, end, at, &point);
    (void)component;
    return (kinds_of(point) & UNICODE_NUMERIC) != 0 ? next : at;
}

static size_t match_text(const struct component *component, const char *bytes, size_t end,
                         size_t at) {
    const size_t length = component->text_length;
    return length > 0 && end - at >= length && memcmp(bytes + at, component->text, length) == 0
               ? at + length
               : at;
}

// 0: white space, 1: part of a word, 2: another character.
static int word_class(uint32_t point) {
    return (kinds_of(point) & UNICODE_BLANK) != 0  ? 0
           : (flags_of(point) & UNICODE_WORD) != 0 ? 1
                                                   : 2;
}

static size_t match_word(const struct component *component, const char *bytes, size_t end,
                         size_t at) {
    uint32_t point;
    size_t next = text_point(bytes, end, at, &point);
    const int class = word_class(point);
    (void)component;
    while (class != 0 && at < end && word_class(point) == class) {
        at = next;
        next = at < end ? text_point(bytes, end, at, &point) : end;
    }
    return at;
}

// --- GPT-2's words ------------------------------------------------------------------------------

// The length of 's, 't, 're, 've, 'm, 'll or 'd after an apostrophe; 0: none of them.
static size_t contraction(const char *bytes, size_t end, size_t at) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t length = strlen(endings[i]);
        if (end - at > length && memcmp(bytes + at + 1, endings[i], length) == 0) {
            return length + 1;
        }
    }
    return 0;
}

enum { GPT2_BLANK, GPT2_LETTER, GPT2_NUMBER, GPT2_OTHER };

static int gpt2_class(uint32_t point) {
    if (point < 0x80) {
        const uint32_t letter = point | 0x20;
        return letter >= 'a' && letter <= 'z'                     ? GPT2_LETTER
               : point == ' ' || (point >= '\t' && point <= '\r') ? GPT2_BLANK
               : point >= '0' && point <= '9'                     ? GPT2_NUMBER
                                                                  : GPT2_OTHER;
    }
    const unsigned kinds = kinds_of(point);
    return (kinds & UNICODE_LETTER) != 0   ? GPT2_LETTER
           : (kinds & UNICODE_NUMBER) != 0 ? GPT2_NUMBER
           : (kinds & UNICODE_BLANK) != 0  ? GPT2_BLANK
                                           : GPT2_OTHER;
}

// The end of the characters of the class from `at` on; *last is where the last one begins.
static size_t skip_class(const char *bytes, size_t end, size_t at, int class, size_t *last) {
    while (at < end) {
        uint32_t point;
        const size_t next = text_point(bytes, end, at, &point);
        if (gpt2_class(point) != class) {
            break;
        }
        *last = at;
        at = next;
    }
    return at;
}

// A contraction; letters, numbers or others with a space before them; white space but for the last
// one before something else.
static size_t match_gpt2(const struct component *component, const char *bytes, size_t end,
                         size_t at) {
    uint32_t point;
    size_t last = at;
    (void)component;
    if (bytes[at] == '\'') {
        const size_t length = contraction(bytes, end, at);
        if (length > 0) {
            return at + length;
        }
    }
    const size_t begin = at + (bytes[at] == ' ' && at + 1 < end);
    text_point(bytes, end, begin, &point);
    if (gpt2_class(point) != GPT2_BLANK) {
        return skip_class(bytes, end, begin, gpt2_class(point), &last);
    }
    const size_t next = skip_class(bytes, end, at, GPT2_BLANK, &last);
    return next < end && last > at ? last : next;
}

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *expression;
    size_t (*match)(const struct component *component, const char *bytes, size_t end, size_t at);
} patterns[] = {{GPT2, match_gpt2},   {"\\s+", match_blanks},
                {"\\s", match_blank}, {" {2,}", match_many_spaces},
                {" +", match_spaces}, {"\\w+|[^\\w\\s]+", match_word}};

enum berth_status component_pattern(struct component *component, const json *object,
                                    const struct component_place *place,
                                    struct berth_error *error) {
    const json *text = json_member(object, "String");
    const char *expression = json_text(json_member(object, "Regex"));
    if (json_is_text(text)) {
        component->match = match_text;
        return component_text(object, "String", place, &component->text, &component->text_length,
                              error);
    }
    for (size_t i = 0; expression != NULL && i < sizeof patterns / sizeof *patterns; i++) {
        if (strcmp(patterns[i].expression, expression) == 0) {
            component->match = patterns[i].match;
            return BERTH_OK;
        }
    }
    return component_refuse(place, "pattern",
                            "a \"String\", or the \"Regex\" of GPT-2, \\s+, \\s, {2,} or + of "
                            "blanks, or \\w+|[^\\w\\s]+",
                            expression != NULL ? expression : "another value", error);
}

// --- reading ------------------------------------------------------------------------------------

static enum berth_status read_behavior(struct component *component, const json *object,
                                       const struct component_place *place, int is_needed,
                                       struct berth_error *error) {
    static const char *const names[] = {[SPLIT_REMOVED] = "Removed",
                                        [SPLIT_ISOLATED] = "Isolated",
                                        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
                                        [SPLIT_CONTIGUOUS] = "Contiguous"};
    const char *name = json_text(json_member(object, "behavior"));
    component->behavior = SPLIT_ISOLATED;
    if (name == NULL && !is_needed) {
        return BERTH_OK;
    }
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            component->behavior = (enum split_behavior)i;
            return BERTH_OK;
        }
    }
    return component_refuse(place, "behavior",
                            "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
                            name, error);
}

static enum berth_status read_split(struct component *component, const json *object,
                                    const struct component_place *place,
                                    struct berth_error *error) {
    TRY(component_pattern(component, json_member(object, "pattern"), place, error));
    TRY(component_flag(object, "invert", place, &component->inverts, error));
    return read_behavior(component, object, place, 1, error);
}

static enum berth_status read_digits(struct component *component, const json *object,
                                     const struct component_place *place,
                                     struct berth_error *error) {
    int is_individual = 0;
    TRY(component_flag(object, "individual_digits", place, &is_individual, error));
    component->match = match_digit;
    component->behavior = is_individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return BERTH_OK;
}

static enum berth_status read_punctuation(struct component *component, const json *object,
                                          const struct component_place *place,
                                          struct berth_error *error) {
    component->match = match_punctuation;
    return read_behavior(component, object, place, 0, error);
}

static enum berth_status read_whitespace(struct component *component, const json *object,
                                         const struct component_place *place,
                                         struct berth_error *error) {
    (void)object;
    (void)place;
    (void)error;
    component->match = match_word;
    component->inverts = 1;
    component->behavior = SPLIT_REMOVED;
    return BERTH_OK;
}

static enum berth_status read_blanks(struct component *component, const json *object,
                                     const struct component_place *place,
                                     struct berth_error *error) {
    (void)object;
    (void)place;
    (void)error;
    component->match = match_blank;
    component->behavior = SPLIT_REMOVED;
    return BERTH_OK;
}

static void run_bert(const struct component *component, struct text_room *room) {
    const struct component punctuation = {.match = match_punctuation, .behavior = SPLIT_ISOLATED};
    run_cut(component, room);
    run_cut(&punctuation, room);
}

// --- the beginning of words ---------------------------------------------------------------------

// Copies a piece from room->text to room->next with the text before it, which gets the origin of
// its first character; the text is left out if the piece begins with it.
static struct room_piece copy_with_prefix(struct text_room *room, const struct room_piece *piece,
                                          const char *prefix) {
    const struct room_text *text = &room->text;
    const size_t length = strlen(prefix), begin = room->next.count;
    if (piece->end - piece->begin < length ||
        memcmp(text->bytes + piece->begin, prefix, length) != 0) {
        room_put_bytes(room, prefix, length, text->origins[piece->begin]);
    }
    room_copy(room, piece->begin, piece->end);
    return (struct room_piece){begin, room->next.count, piece->id};
}

enum { BYTES_PREFIX, BYTES_SPLITS };

static enum berth_status read_bytes(struct component *component, const json *object,
                                    const struct component_place *place,
                                    struct berth_error *error) {
    int *flags = component->flags;
    flags[BYTES_PREFIX] = flags[BYTES_SPLITS] = 1;
    TRY(component_flag(object, "add_prefix_space", place, &flags[BYTES_PREFIX], error));
    TRY(component_flag(object, "use_regex", place, &flags[BYTES_SPLITS], error));
    component->match = match_gpt2;
    component->behavior = SPLIT_ISOLATED;
    return BERTH_OK;
}

// The model reads the bytes as they are; its pieces were translated when it was read.
static void run_bytes(const struct component *component, struct text_room *room) {
    if (component->flags[BYTES_PREFIX]) {
        for (size_t i = 0; i < room->pieces.count && !room->failed; i++) {
            struct room_piece *piece = &room->pieces.items[i];
            *piece = copy_with_prefix(room, piece, piece->id < 0 ? " " : "");
        }
        room_turn(room);
    }
    if (component->flags[BYTES_SPLITS]) {
        run_cut(component, room);
    }
}

enum {
    METASPACE_PREFIX, // the decoder's flag, too
    METASPACE_FIRST_ONLY,
    METASPACE_SPLITS
};

enum berth_status component_read_metaspace(struct component *component, const json *object,
                                           const struct component_place *place,
                                           struct berth_error *error) {
    const char *scheme = json_text(json_member(object, "prepend_scheme"));
    int prefix = 1, *flags = component->flags;
    TRY(component_text(object, "replacement", place, &component->text, &component->text_length,
                       error));
    TRY(component_flag(object, "add_prefix_space", place, &prefix, error));
    if (json_member(object, "prepend_scheme") != NULL) {
        const int is_known =
            scheme != NULL && (strcmp(scheme, "always") == 0 || strcmp(scheme, "first") == 0 ||
                               strcmp(scheme, "never") == 0);
        if (!is_known || (!prefix && strcmp(scheme, "never") != 0)) {
            return component_refuse(place, "prepend_scheme",
                                    prefix ? "always, first or never" : "never", scheme, error);
        }
        prefix = strcmp(scheme, "never") != 0;
        flags[METASPACE_FIRST_ONLY] = strcmp(scheme, "first") == 0;
    }
    if (component->text_length == 0 || utf8_whole(component->text[0]) != component->text_length) {
        return component_refuse(place, "replacement", "one character", component->text, error);
    }
    flags[METASPACE_PREFIX] = prefix;
    flags[METASPACE_SPLITS] = 1;
    component->match = match_text;
    component->behavior = SPLIT_MERGED_WITH_NEXT;
    return component_flag(object, "split", place, &flags[METASPACE_SPLITS], error);
}

// Copies a piece with the mark in place of blanks and, perhaps, before it.
static void mark_blanks(const struct component *component, struct text_room *room,
                        struct room_piece *piece) {
    const struct room_text *text = &room->text;
    const size_t begin = room->next.count, length = component->text_length;
    const int is_first = text->origins[piece->begin] == 0,
              is_marked =
                  text->bytes[piece->begin] == ' ' ||
                  match_text(component, text->bytes, piece->end, piece->begin) > piece->begin;
    if (component->flags[METASPACE_PREFIX] && !is_marked &&
        (is_first || !component->flags[METASPACE_FIRST_ONLY])) {
        room_put_bytes(room, component->text, length, text->origins[piece->begin]);
    }
    for (size_t at = piece->begin; at < piece->end;) {
        const char *blank = memchr(text->bytes + at, ' ', piece->end - at);
        const size_t end = blank != NULL ? (size_t)(blank - text->bytes) : piece->end;
        room_copy(room, at, end);
        if (blank != NULL) {
            room_put_bytes(room, component->text, length, text->origins[end]);
        }
        at = end + (blank != NULL);
    }
    *piece = (struct room_piece){begin, room->next.count, piece->id};
}

static void run_metaspace(const struct component *component, struct text_room *room) {
    for (size_t i = 0; i < room->pieces.count && !room->failed; i++) {
        struct room_piece *piece = &room->pieces.items[i];
        if (piece->id >= 0) {
            *piece = copy_with_prefix(room, piece, "");
        } else {
            mark_blanks(component, room, piece);
        }
    }
    room_turn(room);
    if (component->flags[METASPACE_SPLITS] && !room->failed) {
        run_cut(component, room);
    }
}

const struct component_row pre_tokenizer_rows[] = {
    {"BertPreTokenizer", read_blanks, run_bert, NULL},
    {"ByteLevel", read_bytes, run_bytes, NULL},
    {"Digits", read_digits, run_cut, NULL},
    {"Metaspace", component_read_metaspace, run_metaspace, NULL},
    {"Punctuation", read_punctuation, run_cut, NULL},
    {"Split", read_split, run_cut, NULL},
    {"Whitespace", read_whitespace, run_cut, NULL},
    {"WhitespaceSplit", read_blanks, run_cut, NULL},
    {.name = NULL}};
