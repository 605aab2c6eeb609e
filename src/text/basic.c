// SPDX-License-Identifier: Apache-2.0
// Splits a text into words, one at a time: the basic tokenizer.
//
// The rules, in order: control characters are dropped; white space ends a word; an ideograph is a
// word of its own; when lower-casing, NFD, strip non-spacing marks, lower-case; finally, split at
// punctuation. These are BertNormalizer and BertPreTokenizer; Google's rules differ only in their
// tables and in the final sigma.
//
// Words of ASCII letters and digits take a fast path. Stripping makes the canonical order
// irrelevant unless a combining character survives it (a spacing one, or one newer than the
// reference program); only then is a run sorted. Sorted characters get the same origins as in the
// reference program: the n-th character of the sorted run has the origin of the n-th character of
// the unsorted run; a character from a decomposition has the origin of the character before it.
// Called by tokenizer.c, which cuts the words into pieces.
#include "text/basic.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "text/unicode.h"

#include <string.h>

#define FINAL_SIGMA 0x3C2u
#define CAPITAL_SIGMA 0x3A3u
#define SMALL_SIGMA 0x3C3u
#define COMBINING_CLASSES 256

struct basic_mark {
    uint32_t point;
    uint8_t combining;
    uint8_t kept;  // survives stripping
    uint8_t added; // second or later of a decomposition
    struct basic_origin origin;
};

void basic_rules_init(struct basic_rules *rules, int column, enum unicode_mapping mapping) {
    *rules = (struct basic_rules){.column = column, .mapping = mapping};
    for (uint32_t c = 0; c < 0x80; c++) {
        unsigned flags = unicode_properties_of(c, column)->flags;
        uint32_t mapped[UNICODE_MAP_MAX];
        unicode_map(c, column, mapping, mapped);
        rules->ascii[c] = (flags & UNICODE_DROP) != 0          ? BASIC_DROP
                          : (flags & UNICODE_SPACE) != 0       ? BASIC_SPACE
                          : (flags & UNICODE_PUNCTUATION) != 0 ? BASIC_PUNCTUATION
                                                               : (unsigned char)mapped[0];
    }
}

int basic_rules_set_specials(struct basic_rules *rules, const struct added_token *specials,
                             size_t count, size_t written) {
    rules->specials = specials;
    rules->special_count = count;
    rules->written = written;
    for (size_t i = 0; i < written; i++) {
        rules->special_first[(unsigned char)specials[i].text[0]] = 1;
    }
    if (!special_build(rules)) {
        return 0;
    }
    for (size_t byte = 0; byte < sizeof rules->ascii; byte++) {
        // Otherwise the fast paths for blanks and letters would skip it.
        if (rules->special_first[byte] &&
            (rules->ascii[byte] == BASIC_SPACE || rules->ascii[byte] >= BASIC_FIRST_LETTER)) {
            rules->ascii[byte] = BASIC_SLOW;
        }
    }
    return 1;
}

void basic_rules_done(struct basic_rules *rules) {
    trie_done(&rules->normalized);
}

void basic_init(struct basic_walk *walk, const struct basic_rules *rules, const char *text,
                size_t length) {
    *walk =
        (struct basic_walk){.rules = rules, .text = (const unsigned char *)text, .length = length};
}

void basic_done(struct basic_walk *walk) {
    memory_free(walk->buffer);
    memory_free(walk->origin_buffer);
    memory_free(walk->marks);
}

// --- the word -----------------------------------------------------------------------------------

// Makes room for `extra` more bytes; 0 when out of memory.
static int reserve(struct basic_walk *walk, size_t extra) {
    if (walk->capacity - walk->count >= extra) {
        return 1;
    }
    // The buffer and the origins grow to the same capacity.
    size_t needed = walk->count + extra, capacity = walk->capacity;
    char *buffer = memory_grow(walk->buffer, &capacity, needed, 1);
    if (buffer == NULL) {
        return 0;
    }
    walk->buffer = buffer;
    struct basic_origin *origins =
        memory_grow(walk->origin_buffer, &walk->capacity, needed, sizeof *origins);
    if (origins == NULL) {
        return 0;
    }
    walk->origin_buffer = origins;
    return 1;
}

static int put(struct basic_walk *walk, uint32_t point, struct basic_origin origin) {
    if (!reserve(walk, 4)) {
        return 0;
    }
    size_t bytes = utf8_encode(point, walk->buffer + walk->count);
    for (size_t i = 0; i < bytes; i++) {
        walk->origin_buffer[walk->count + i] = origin;
    }
    walk->count += bytes;
    walk->characters++;
    return 1;
}

// --- capital sigma ------------------------------------------------------------------------------

// What a neighbouring character says about a sigma. 1: it is a cased letter; 0: it is not; -1:
// look further.
static int sigma_context(const struct basic_walk *walk, uint32_t point) {
    if (point == UTF8_ILL_FORMED) {
        return -1;
    }
    unsigned flags = basic_flags_of(walk->rules, point);
    if ((flags & (UNICODE_SPACE | UNICODE_CJK)) != 0) {
        return 0;
    }
    if ((flags & (UNICODE_DROP | UNICODE_IGNORABLE)) != 0) {
        return -1;
    }
    return (flags & UNICODE_CASED) != 0;
}

// Unicode chapter 3.13, Final_Sigma: a cased letter before and none after, ignoring case-ignorable
// characters.
static int sigma_is_final(const struct basic_walk *walk, size_t begin, size_t end) {
    uint32_t point;
    int before = -1;
    while (before < 0 && begin > 0) {
        begin -= utf8_decode_before(walk->text, begin, &point);
        before = sigma_context(walk, point);
    }
    if (before != 1) {
        return 0;
    }
    int after = -1;
    while (after < 0 && end < walk->length) {
        end += utf8_decode(walk->text + end, walk->length - end, &point);
        after = sigma_context(walk, point);
    }
    return after != 1;
}

// --- runs of combining characters ---------------------------------------------------------------

static int add_mark(struct basic_walk *walk, size_t *count, struct basic_mark mark) {
    struct basic_mark *marks =
        memory_grow(walk->marks, &walk->mark_capacity, *count + 1, sizeof *marks);
    if (marks == NULL) {
        return 0;
    }
    walk->marks = marks;
    walk->marks[(*count)++] = mark;
    return 1;
}

// Adds the combining characters at walk->offset and moves past them.
static int collect_marks(struct basic_walk *walk, size_t *count) {
    while (walk->offset < walk->length && special_at(walk).token == NULL) {
        uint32_t point;
        size_t bytes = utf8_decode(walk->text + walk->offset, walk->length - walk->offset, &point);
        int dropped = point == UTF8_ILL_FORMED;
        walk->ill_formed += (size_t)dropped;
        if (!dropped) {
            const struct unicode_properties *properties =
                unicode_properties_of(point, walk->rules->column);
            dropped = (properties->flags & UNICODE_DROP) != 0;
            if (!dropped && properties->combining == 0) {
                break;
            }
            struct basic_origin origin = {walk->character, (uint32_t)walk->offset,
                                          (uint32_t)(walk->offset + bytes)};
            struct basic_mark mark = {point, properties->combining,
                                      (properties->flags & UNICODE_KEPT) != 0, 0, origin};
            if (!dropped && !add_mark(walk, count, mark)) {
                return 0;
            }
        }
        walk->offset += bytes;
        walk->character++;
    }
    return 1;
}

// Appends the marks that survive stripping, in canonical order. `origin` is that of the character
// before them.
static int put_marks(struct basic_walk *walk, size_t count, struct basic_origin origin) {
    size_t next = 0; // origin of the next mark of the text
    size_t sizes[COMBINING_CLASSES] = {0};
    for (size_t i = 0; i < count; i++) {
        sizes[walk->marks[i].combining]++;
    }
    for (int combining = 1; combining < COMBINING_CLASSES; combining++) {
        for (size_t i = 0; sizes[combining] > 0; i++) {
            const struct basic_mark *mark = &walk->marks[i];
            if (mark->combining != combining) {
                continue;
            }
            sizes[combining]--;
            if (!mark->added) {
                while (walk->marks[next].added) {
                    next++;
                }
                origin = walk->marks[next++].origin;
            }
            if (mark->kept && !put(walk, mark->point, origin)) {
                return 0;
            }
        }
    }
    return 1;
}

// Handles the run of marks around the surviving mark at walk->offset: goes back to the start of the
// run, of which nothing has been appended yet.
static int put_run(struct basic_walk *walk) {
    size_t count = 0;
    size_t ill_formed = walk->ill_formed; // the run is decoded a second time
    size_t end = walk->offset;
    walk->offset = walk->run_offset;
    walk->character = walk->run_character;
    for (size_t at = walk->run_offset; at < end;) {
        uint32_t point;
        at += utf8_decode(walk->text + at, walk->length - at, &point);
        ill_formed -= point == UTF8_ILL_FORMED;
    }
    walk->ill_formed = ill_formed;
    struct basic_origin before = {0};
    return collect_marks(walk, &count) && put_marks(walk, count, before);
}

// Appends a character that decomposes into a starter and surviving marks; walk->offset is after it.
static int put_composed(struct basic_walk *walk, uint32_t point, struct basic_origin origin) {
    uint32_t output[UNICODE_MAP_MAX];
    size_t parts = unicode_map(point, walk->rules->column, walk->rules->mapping, output);
    size_t count = 0;
    for (size_t i = 1; i < parts; i++) {
        const struct unicode_properties *properties =
            unicode_properties_of(output[i], walk->rules->column);
        if (!add_mark(walk, &count,
                      (struct basic_mark){output[i], properties->combining, 1, 1, origin})) {
            return 0;
        }
    }
    return put(walk, output[0], origin) && collect_marks(walk, &count) &&
           put_marks(walk, count, origin);
}

// --- the walk -----------------------------------------------------------------------------------

// Takes ASCII characters from walk->offset as the word.
static void consume_plain(struct basic_walk *walk, size_t bytes) {
    walk->bytes = (const char *)walk->text + walk->offset;
    walk->count = walk->characters = bytes;
    walk->plain = 1;
    walk->plain_begin = (uint32_t)walk->offset;
    walk->plain_character = walk->character;
    walk->offset += bytes;
    walk->character += (uint32_t)bytes;
    walk->run_offset = walk->offset;
    walk->run_character = walk->character;
}

static void advance(struct basic_walk *walk, size_t bytes, int begins_run) {
    walk->offset += bytes;
    walk->character++;
    if (begins_run) {
        walk->run_offset = walk->offset;
        walk->run_character = walk->character;
    }
}

// Takes the special token; walk->offset is in it or at its beginning.
static void consume_special(struct basic_walk *walk, const struct special *special) {
    struct basic_range range = {walk->character, 0, (uint32_t)special->begin,
                                (uint32_t)special->end};
    uint32_t point;
    for (size_t at = special->begin; at < walk->offset; range.character--) {
        at += utf8_decode(walk->text + at, walk->offset - at, &point);
    }
    while (walk->offset < special->end) {
        const size_t size =
            utf8_decode(walk->text + walk->offset, special->end - walk->offset, &point);
        walk->ill_formed += point == UTF8_ILL_FORMED;
        advance(walk, size, 1);
    }
    range.character_end = walk->character;
    walk->special_end = walk->offset;
    walk->written_end = special->written ? walk->offset : walk->written_end;
    walk->bytes = special->token;
    walk->count = strlen(special->token);
    walk->special = range;
}

// The effect of one character on the word.
enum step { STEP_CONTINUE, STEP_END, STEP_NO_MEMORY };

// A character that is part of a word.
struct letter {
    uint32_t point;
    const struct unicode_properties *properties;
    struct basic_origin origin;
    uint32_t output[UNICODE_MAP_MAX]; // the mapped characters; unused if marks around it are sorted
    size_t parts;
    int alone; // a word of its own after mapping
};

static void convert(const struct basic_walk *walk, struct letter *letter) {
    const struct basic_rules *rules = walk->rules;
    unsigned flags = basic_flags_of(walk->rules, letter->point);
    letter->output[0] = letter->point;
    letter->parts = 1;
    letter->alone = (flags & (UNICODE_CJK | UNICODE_PUNCTUATION)) != 0;
    if (basic_strips(walk->rules) && (flags & UNICODE_KEPT) != 0) {
        return;
    }
    if (basic_strips(walk->rules) && (flags & UNICODE_MARK) != 0) {
        letter->parts = 0;
    } else if (letter->point == CAPITAL_SIGMA && rules->column == UNICODE_GOOGLE &&
               (rules->mapping == UNICODE_FOLD || rules->mapping == UNICODE_LOWER)) {
        int final = sigma_is_final(walk, letter->origin.begin, letter->origin.end);
        letter->output[0] = final ? FINAL_SIGMA : SMALL_SIGMA;
    } else if (rules->mapping == UNICODE_LOWER ||
               (basic_strips(walk->rules) && (flags & UNICODE_MAPPED) != 0)) {
        letter->parts = unicode_map(letter->point, rules->column, rules->mapping, letter->output);
        unsigned mapped = unicode_properties_of(letter->output[0], rules->column)->flags;
        letter->alone = ((flags & UNICODE_CJK) | (mapped & UNICODE_PUNCTUATION)) != 0;
    }
}

static int put_letter(struct basic_walk *walk, const struct letter *letter) {
    if (basic_strips(walk->rules) && (letter->properties->flags & UNICODE_KEPT) != 0) {
        // Appends a character that is part of a run to be sorted.
        int done;
        if (letter->properties->combining != 0) {
            done = put_run(walk);
        } else {
            advance(walk, letter->origin.end - letter->origin.begin, 1);
            done = put_composed(walk, letter->point, letter->origin);
        }
        walk->run_offset = walk->offset;
        walk->run_character = walk->character;
        return done;
    }
    advance(walk, letter->origin.end - letter->origin.begin, letter->properties->combining == 0);
    for (size_t i = 0; i < letter->parts; i++) {
        if (!put(walk, letter->output[i], letter->origin)) {
            return 0;
        }
    }
    return 1;
}

static enum step consume_character(struct basic_walk *walk) {
    struct letter letter;
    size_t bytes =
        utf8_decode(walk->text + walk->offset, walk->length - walk->offset, &letter.point);
    if (letter.point == UTF8_ILL_FORMED) {
        walk->ill_formed++;
        advance(walk, bytes, 0);
        return STEP_CONTINUE;
    }
    letter.properties = unicode_properties_of(letter.point, walk->rules->column);
    if ((letter.properties->flags & UNICODE_DROP) != 0) {
        advance(walk, bytes, 0);
        return STEP_CONTINUE;
    }
    if ((letter.properties->flags & UNICODE_SPACE) != 0) {
        advance(walk, bytes, 1);
        return walk->count > 0 ? STEP_END : STEP_CONTINUE;
    }
    uint32_t begin = (uint32_t)walk->offset;
    letter.origin = (struct basic_origin){walk->character, begin, begin + (uint32_t)bytes};
    convert(walk, &letter);
    if (letter.alone && walk->count > 0) {
        return STEP_END;
    }
    if (!put_letter(walk, &letter)) {
        return STEP_NO_MEMORY;
    }
    return letter.alone ? STEP_END : STEP_CONTINUE;
}

// Reads the rest of a word that the fast path could not finish; its beginning is in the buffer.
static int next_slow(struct basic_walk *walk) {
    walk->plain = 0;
    enum step step = STEP_CONTINUE;
    while (step == STEP_CONTINUE && walk->offset < walk->length) {
        if (special_at(walk).token != NULL) {
            break;
        }
        step = consume_character(walk);
    }
    walk->bytes = walk->buffer;
    walk->origins = walk->origin_buffer;
    return step == STEP_NO_MEMORY ? -1 : walk->count > 0;
}

// Takes ASCII letters and digits from walk->offset; the word is complete if a blank or punctuation
// follows.
static int consume_ascii(struct basic_walk *walk, size_t letters) {
    if (!reserve(walk, letters)) {
        return -1;
    }
    size_t begin = walk->offset;
    uint32_t character = walk->character;
    for (size_t i = 0; i < letters; i++) {
        walk->buffer[i] = (char)walk->rules->ascii[walk->text[begin + i]];
    }
    consume_plain(walk, letters);
    walk->bytes = walk->buffer;
    if (walk->offset == walk->length) {
        return 1;
    }
    unsigned char next = walk->rules->ascii[walk->text[walk->offset]];
    if (next == BASIC_SPACE || next == BASIC_PUNCTUATION) {
        return 1;
    }
    for (uint32_t i = 0; i < letters; i++) {
        uint32_t byte = (uint32_t)begin + i;
        walk->origin_buffer[i] = (struct basic_origin){character + i, byte, byte + 1};
    }
    return next_slow(walk);
}

static void skip_blanks(struct basic_walk *walk) {
    while (walk->offset < walk->length &&
           walk->rules->ascii[walk->text[walk->offset]] == BASIC_SPACE) {
        advance(walk, 1, 1);
    }
}

int basic_next(struct basic_walk *walk) {
    const unsigned char *ascii = walk->rules->ascii;
    int found = 0;
    walk->special = (struct basic_range){0};
    walk->count = walk->characters = 0;
    for (skip_blanks(walk); found == 0 && walk->offset < walk->length; skip_blanks(walk)) {
        const struct special special = special_at(walk);
        if (special.token != NULL) {
            consume_special(walk, &special);
            return 1;
        }
        if (ascii[walk->text[walk->offset]] == BASIC_PUNCTUATION) {
            consume_plain(walk, 1);
            return 1;
        }
        size_t end = walk->offset;
        while (end < walk->length && ascii[walk->text[end]] >= BASIC_FIRST_LETTER) {
            end++;
        }
        // Nothing is found if everything before a special token is dropped.
        found = end > walk->offset ? consume_ascii(walk, end - walk->offset) : next_slow(walk);
    }
    return found;
}
