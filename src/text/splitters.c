// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of pipelines: rows that cut the pieces of a room into smaller ones, of which a
// model makes tokens; and the decoders, rows that turn the texts of tokens into that of a sentence.
// Regular expressions are those that folders have, each written as a function. text_pipeline.c runs
// them between the normalizers and the model.
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

static void run_cut(const struct component *component, struct text_room *room) {
    for (size_t i = 0; i < room->pieces.count; i++) {
        const struct room_piece *piece = &room->pieces.items[i];
        if (piece->id >= 0) {
            room_add(room, &room->next_pieces, piece->begin, piece->end, piece->id);
        } else {
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

// Returns 0 for white space, 1 for a part of a word, 2 for any other character.
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

// --- decoders -----------------------------------------------------------------------------------

void component_clean_up(char *text) {
    static const char *const before[] = {" .",   " ?",  " !",  " ,",   " ' ",
                                         " n't", " 'm", " 's", " 've", " 're"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        // Each `from` loses a blank at its beginning and, if it has one, at its end.
        const size_t length = strlen(before[i]), kept = length - 1 - (before[i][length - 1] == ' ');
        char *to = text;
        for (const char *at = text; *at != '\0';) {
            if (strncmp(at, before[i], length) == 0) {
                memcpy(to, before[i] + 1, kept);
                to += kept;
                at += length;
            } else {
                *to++ = *at++;
            }
        }
        *to = '\0';
    }
}

// Appends the bytes that the token's characters stand for; 0: not all of them stand for one.
static int put_level_bytes(struct buffer *bytes, const char *token, size_t length) {
    for (size_t at = 0; at < length;) {
        uint32_t point;
        at = text_point(token, length, at, &point);
        if (byte_level_byte(point) < 0) {
            return 0;
        }
        buffer_put_byte(bytes, (char)byte_level_byte(point));
    }
    return 1;
}

static void decode_bytes(const struct component *component, const struct component_strings *tokens,
                         struct component_strings *decoded) {
    struct buffer bytes = {0}, text = {0};
    (void)component;
    for (size_t i = 0; i < tokens->count; i++) {
        const size_t before = bytes.length, begin = strings_begin(tokens, i);
        if (!put_level_bytes(&bytes, tokens->bytes.bytes + begin, tokens->ends[i] - begin)) {
            bytes.length = before;
            buffer_put(&bytes, tokens->bytes.bytes + begin, tokens->ends[i] - begin);
        }
    }
    for (size_t at = 0; at < bytes.length && !bytes.failed;) {
        uint32_t point;
        char encoded[4];
        at += utf8_decode(bytes.bytes + at, bytes.length - at, &point);
        buffer_put(&text, encoded, utf8_encode(point == UTF8_ILL_FORMED ? 0xFFFD : point, encoded));
    }
    strings_add(decoded, text.bytes, text.length);
    decoded->failed |= bytes.failed || text.failed;
    buffer_done(&bytes);
    buffer_done(&text);
}

// Replaces what the component's pattern matches in each token by its content.
static void decode_replace(const struct component *component,
                           const struct component_strings *tokens,
                           struct component_strings *decoded) {
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes = tokens->bytes.bytes;
        const size_t end = tokens->ends[i];
        struct buffer text = {0};
        for (size_t at = strings_begin(tokens, i); at < end;) {
            const size_t match = component->match(component, bytes, end, at),
                         next = match > at ? match : at + utf8_whole(bytes[at]);
            if (match > at) {
                buffer_put(&text, component->content, component->content_length);
            } else {
                buffer_put(&text, bytes + at, next - at);
            }
            at = next;
        }
        strings_add(decoded, text.bytes, text.length);
        decoded->failed |= text.failed;
        buffer_done(&text);
    }
}

enum berth_status component_read_replace(struct component *component, const json *object,
                                         const struct component_place *place,
                                         struct berth_error *error) {
    TRY(component_pattern(component, json_member(object, "pattern"), place, error));
    return component_text(object, "content", place, &component->content, &component->content_length,
                          error);
}

// A mark becomes a blank; those of the first token, which were added, are left out.
static void decode_metaspace(const struct component *component,
                             const struct component_strings *tokens,
                             struct component_strings *decoded) {
    struct component blank = *component;
    const struct component_strings first = {tokens->bytes, tokens->ends, 1, 1, 0};
    char space[] = " ";
    blank.content = space;
    blank.content_length = component->flags[0] ? 0 : 1;
    decode_replace(&blank, &first, decoded);
    for (size_t i = 1; i < tokens->count; i++) {
        const size_t begin = strings_begin(tokens, i);
        size_t end = tokens->ends[i] - begin;
        struct component_strings token = {
            {tokens->bytes.bytes + begin, end, end, 0}, &end, 1, 1, 0};
        blank.content_length = 1;
        decode_replace(&blank, &token, decoded);
    }
}

static void decode_fuse(const struct component *component, const struct component_strings *tokens,
                        struct component_strings *decoded) {
    (void)component;
    strings_add(decoded, tokens->bytes.bytes, tokens->bytes.length);
}

enum { STRIP_START, STRIP_STOP };

static enum berth_status read_strip(struct component *component, const json *object,
                                    const struct component_place *place,
                                    struct berth_error *error) {
    static const char *const keys[] = {[STRIP_START] = "start", [STRIP_STOP] = "stop"};
    TRY(component_text(object, "content", place, &component->text, &component->text_length, error));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json *number = json_member(object, keys[i]);
        const int64_t value = json_is_integer_value(number) ? json_as_integer(number) : -1;
        if (value < 0 || value > INT32_MAX) {
            return component_refuse(place, keys[i], "a number of characters", NULL, error);
        }
        component->flags[i] = (int)value;
    }
    return component->text_length > 0
               ? BERTH_OK
               : component_refuse(place, "content", "a character", NULL, error);
}

static void decode_strip(const struct component *component, const struct component_strings *tokens,
                         struct component_strings *decoded) {
    const size_t length = component->text_length;
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes = tokens->bytes.bytes;
        size_t begin = strings_begin(tokens, i), end = tokens->ends[i];
        for (int k = 0; k < component->flags[STRIP_START] && end - begin >= length &&
                        memcmp(bytes + begin, component->text, length) == 0;
             k++) {
            begin += length;
        }
        for (int k = 0; k < component->flags[STRIP_STOP] && end - begin >= length &&
                        memcmp(bytes + end - length, component->text, length) == 0;
             k++) {
            end -= length;
        }
        strings_add(decoded, bytes + begin, end - begin);
    }
}

// The byte of "<0x0A>"; -1: the token is another.
static int fallback_byte(const char *token, size_t length) {
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    int value = 0;
    if (length != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') {
        return -1;
    }
    for (int i = 3; i < 5; i++) {
        const char *digit = memchr(digits, token[i], sizeof digits - 1);
        if (digit == NULL) {
            return -1;
        }
        value = value * 16 + (int)(digit - digits) % 16;
    }
    return value;
}

// Adds bytes in a row as one text, or U+FFFD for each if they are none.
static void end_bytes(struct buffer *bytes, struct component_strings *decoded) {
    if (utf8_is_valid(bytes->bytes, bytes->length)) {
        if (bytes->length > 0) {
            strings_add(decoded, bytes->bytes, bytes->length);
        }
    } else {
        for (size_t i = 0; i < bytes->length; i++) {
            strings_add(decoded, "\xEF\xBF\xBD", 3);
        }
    }
    decoded->failed |= bytes->failed;
    buffer_clear(bytes);
}

static void decode_fallback(const struct component *component,
                            const struct component_strings *tokens,
                            struct component_strings *decoded) {
    struct buffer bytes = {0};
    (void)component;
    for (size_t i = 0; i < tokens->count; i++) {
        const size_t begin = strings_begin(tokens, i), length = tokens->ends[i] - begin;
        const int byte = fallback_byte(tokens->bytes.bytes + begin, length);
        if (byte >= 0) {
            buffer_put_byte(&bytes, (char)byte);
        } else {
            end_bytes(&bytes, decoded);
            strings_add(decoded, tokens->bytes.bytes + begin, length);
        }
    }
    end_bytes(&bytes, decoded);
    buffer_done(&bytes);
}

static enum berth_status read_suffix(struct component *component, const json *object,
                                     const struct component_place *place,
                                     struct berth_error *error) {
    return component_text(object, "suffix", place, &component->text, &component->text_length,
                          error);
}

// A suffix becomes a blank, but for those of the last token.
static void decode_suffix(const struct component *component, const struct component_strings *tokens,
                          struct component_strings *decoded) {
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes = tokens->bytes.bytes;
        const size_t length = component->text_length;
        struct buffer text = {0};
        for (size_t at = strings_begin(tokens, i), end = tokens->ends[i]; at < end;) {
            const int is_suffix = length > 0 && end - at >= length &&
                                  memcmp(bytes + at, component->text, length) == 0;
            if (!is_suffix) {
                buffer_put_byte(&text, bytes[at]);
            } else if (i + 1 < tokens->count) {
                buffer_put_byte(&text, ' ');
            }
            at += is_suffix ? length : 1;
        }
        strings_add(decoded, text.bytes, text.length);
        decoded->failed |= text.failed;
        buffer_done(&text);
    }
}

static enum berth_status read_prefix(struct component *component, const json *object,
                                     const struct component_place *place,
                                     struct berth_error *error) {
    component->flags[0] = 1;
    TRY(component_flag(object, "cleanup", place, &component->flags[0], error));
    return component_text(object, "prefix", place, &component->text, &component->text_length,
                          error);
}

// A token with the prefix continues a word, another one begins it.
static void decode_prefix(const struct component *component, const struct component_strings *tokens,
                          struct component_strings *decoded) {
    for (size_t i = 0; i < tokens->count; i++) {
        const char *token = tokens->bytes.bytes + strings_begin(tokens, i);
        const size_t length = tokens->ends[i] - strings_begin(tokens, i),
                     prefix = component->text_length;
        const int continues =
            i > 0 && length >= prefix && memcmp(token, component->text, prefix) == 0;
        struct buffer text = {0};
        if (i > 0 && !continues) {
            buffer_put_byte(&text, ' ');
        }
        buffer_put(&text, token + (continues ? prefix : 0), length - (continues ? prefix : 0));
        buffer_put_byte(&text, '\0');
        if (!text.failed) {
            if (component->flags[0]) {
                component_clean_up(text.bytes);
            }
            strings_add(decoded, text.bytes, strlen(text.bytes));
        }
        decoded->failed |= text.failed;
        buffer_done(&text);
    }
}

const struct component_row decoder_rows[] = {
    {"BPEDecoder", read_suffix, NULL, decode_suffix},
    {"ByteFallback", NULL, NULL, decode_fallback},
    {"ByteLevel", NULL, NULL, decode_bytes},
    {"Fuse", NULL, NULL, decode_fuse},
    {"Metaspace", component_read_metaspace, NULL, decode_metaspace},
    {"Replace", component_read_replace, NULL, decode_replace},
    {"Strip", read_strip, NULL, decode_strip},
    {"WordPiece", read_prefix, NULL, decode_prefix},
    {.name = NULL}};
