// SPDX-License-Identifier: Apache-2.0
// The second pass of cleaning: lines, quote marks, entities, blanks, what dropped templates leave
// behind, such as "(; )", and sentences with a gap. It enforces the guarantees of wikitext.h on
// every byte that it writes. Called by wikitext.c when a page was read.
#include "core/utf8.h"
#include "data/corpus/sentences.h"
#include "wiki/wikitext_entities.h"
#include "wiki/wikitext_parts.h"

#include <stdlib.h>

#define LEVELS 7 // of headings: 2 to 6

struct span {
    size_t at, length;
};

struct lines {
    struct wikitext *wikitext;
    struct span headings[LEVELS]; // headings not followed by text so far; in wikitext->headings
};

// --- protected characters -----------------------------------------------------------------------

// Where a page writes these as entities or in <nowiki>, the byte at their place in `shields` stands
// for them. All are control characters that are neither white space nor marks of the first pass.
static const char shielded[] = "{}|[]<='*#:;";
static const char shields[] = "\x01\x02\x03\x04\x05\x06\x07\x08\x0E\x0F\x10\x11";

char wikitext_protect(char byte) {
    const char *found = byte != '\0' ? strchr(shielded, byte) : NULL;
    return found != NULL ? shields[found - shielded] : byte;
}

// The character for which the byte stands; '\0': for itself.
static char unprotect(char byte) {
    const char *found = byte != '\0' ? strchr(shields, byte) : NULL;
    return found != NULL ? shielded[found - shields] : '\0';
}

// --- entities -----------------------------------------------------------------------------------

static int compare_name(const void *key, const void *entry) {
    return strcmp(key, (const char *)entry); // an entry begins with its name
}

static uint32_t named_point(const char *name, size_t length) {
    char key[sizeof wikitext_entities[0].name];
    if (length == 0 || length >= sizeof key) {
        return 0;
    }
    memcpy(key, name, length);
    key[length] = '\0';
    size_t size = sizeof wikitext_entities[0];
    const char *found =
        bsearch(key, wikitext_entities, sizeof wikitext_entities / size, size, compare_name);
    if (found == NULL) {
        return 0;
    }
    return wikitext_entities[(size_t)(found - (const char *)wikitext_entities) / size].point;
}

static uint32_t numbered_point(const char *digits, size_t length) {
    uint32_t base = 10, point = 0;
    if (length > 0 && (digits[0] == 'x' || digits[0] == 'X')) {
        base = 16;
        digits++;
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        char small = (char)(digits[i] | 32);
        int is_digit = digits[i] >= '0' && digits[i] <= '9';
        uint32_t digit = is_digit                       ? (uint32_t)(digits[i] - '0')
                         : small >= 'a' && small <= 'f' ? (uint32_t)(small - 'a') + 10
                                                        : base;
        if (digit >= base || point > 0x10FFFF) {
            return 0;
        }
        point = point * base + digit;
    }
    return point;
}

// Decodes the entity "&...;" at text[0, length) to UTF-8; returns the number of bytes. *used is the
// length of the entity. 0: it is not an entity.
static size_t read_entity(const char *text, size_t length, char bytes[4], size_t *used) {
    size_t limit = length < 12 ? length : 12;
    const char *end = memchr(text, ';', limit);
    if (end == NULL) {
        return 0;
    }
    size_t name = (size_t)(end - text) - 1;
    uint32_t point = name > 0 && text[1] == '#' ? numbered_point(text + 2, name - 1)
                                                : named_point(text + 1, name);
    if (point == 0 || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) {
        return 0;
    }
    *used = name + 2;
    if (point < 0x80) {
        bytes[0] = point < ' ' ? ' ' : wikitext_protect((char)point);
        return 1;
    }
    return utf8_encode(point, bytes);
}

// --- quote marks, entities, switches ------------------------------------------------------------

static size_t quote_run(const char *text, size_t length) {
    size_t run = 0;
    while (run < length && text[run] == '\'') {
        run++;
    }
    return run;
}

// MediaWiki's rule for lines in which neither bold nor italics are balanced, as in L'''amour'': one
// of the runs of three is an apostrophe and italics. Which one depends on what precedes it; in
// order of preference: a word of one letter, a longer word, a blank. SIZE_MAX: none.
static size_t find_apostrophe(const char *text, size_t length) {
    size_t bold = 0, italics = 0, found[3] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; i < length;) {
        size_t run = quote_run(text + i, length - i);
        bold += run >= 3;
        italics += run == 2 || run >= 5;
        if (run == 3) {
            int after_blank = i == 0 || text[i - 1] == ' ';
            int after_letter = i == 1 || (i > 1 && text[i - 2] == ' ');
            size_t *slot = &found[after_blank ? 2 : after_letter ? 0 : 1];
            *slot = *slot == SIZE_MAX ? i : *slot;
        }
        i += run > 0 ? run : 1;
    }
    if (bold % 2 == 0 || italics % 2 == 0) {
        return SIZE_MAX;
    }
    return found[0] != SIZE_MAX ? found[0] : found[1] != SIZE_MAX ? found[1] : found[2];
}

// The length of a switch such as "__TOC__", or 0.
static size_t switch_length(const char *text, size_t length) {
    size_t i = 2;
    if (length < 5 || text[1] != '_') {
        return 0;
    }
    while (i < length && text[i] >= 'A' && text[i] <= 'Z') {
        i++;
    }
    return i > 2 && i + 1 < length && text[i] == '_' && text[i + 1] == '_' ? i + 2 : 0;
}

// Copies the text to the line buffer without quote marks and switches, and decodes entities.
static void decode(struct buffer *line, const char *text, size_t length) {
    static const char special[256] = {['\''] = 1, ['&'] = 1, ['_'] = 1};
    size_t apostrophe = SIZE_MAX;
    buffer_clear(line);
    if (memmem(text, length, "'''", 3) != NULL) {
        apostrophe = find_apostrophe(text, length);
    }
    for (size_t i = 0; i < length;) {
        size_t from = i;
        while (i < length && !special[(unsigned char)text[i]]) {
            i++;
        }
        buffer_put(line, text + from, i - from);
        if (i == length) {
            break;
        }
        char bytes[4];
        size_t used = 1, put = 0;
        if (text[i] == '\'') {
            used = quote_run(text + i, length - i);
            size_t literal = used == 1 || used == 4 || i == apostrophe ? 1
                             : used > 5                                ? used - 5
                                                                       : 0;
            buffer_put(line, text + i, literal);
        } else if (text[i] == '&' && (put = read_entity(text + i, length - i, bytes, &used)) > 0) {
            buffer_put(line, bytes, put);
        } else if (text[i] == '_' && switch_length(text + i, length - i) > 0) {
            used = switch_length(text + i, length - i);
        } else {
            buffer_put_byte(line, text[i]);
        }
        i += used;
    }
}

// --- blanks and punctuation ---------------------------------------------------------------------

struct tidy {
    struct buffer *out;
    size_t start; // start of the line in `out`
    int blank;    // a blank is pending before the next character
};

static char last(const struct tidy *tidy) {
    return tidy->out->length > tidy->start ? tidy->out->bytes[tidy->out->length - 1] : '\0';
}

static void put(struct tidy *tidy, const char *bytes, size_t length) {
    if (tidy->blank && last(tidy) != '\0' && strchr("([", last(tidy)) == NULL) {
        buffer_put_byte(tidy->out, ' ');
    }
    tidy->blank = 0;
    buffer_put(tidy->out, bytes, length);
}

// 1 if a blank is at `text`, 2 if an invisible character is, otherwise 0; *length is its length.
static int invisible(const unsigned char *text, size_t left, size_t *length) {
    *length = 1;
    if (text[0] < 0x20 || text[0] == ' ' || text[0] == 0x7F) {
        return 1;
    }
    if (text[0] == 0xC2 && left > 1 && (text[1] == 0xA0 || text[1] == 0xAD)) {
        *length = 2;
        return text[1] == 0xA0 ? 1 : 2; // no-break space; soft hyphen
    }
    *length = 3;
    if (text[0] == 0xE2 && left > 2 && text[1] == 0x80) {
        // U+2000 to U+200A, U+202F are blanks; U+200B to U+200F have no width.
        int is_blank = text[2] <= 0x8A || text[2] == 0xAF || text[2] == 0xA8 || text[2] == 0xA9;
        return is_blank ? 1 : text[2] <= 0x8F ? 2 : 0;
    }
    if (text[0] == 0xE2 && left > 2 && text[1] == 0x81) {
        return text[2] == 0x9F ? 1 : text[2] == 0xA0 ? 2 : 0;
    }
    return text[0] == 0xEF && left > 2 && text[1] == 0xBB && text[2] == 0xBF ? 2 : 0;
}

static void close_parenthesis(struct tidy *tidy) {
    // Dropped text has left commas and blanks at the end.
    while (last(tidy) != '\0' && strchr(" ,;", last(tidy)) != NULL) {
        tidy->out->length--;
    }
    tidy->blank = 0;
    if (last(tidy) != '(') {
        put(tidy, ")", 1);
        return;
    }
    tidy->out->length--; // the parentheses are empty
    tidy->blank = 1;
    if (last(tidy) == ' ') {
        tidy->out->length--;
    }
}

static int is_word_byte(unsigned char byte) {
    return byte >= 0x80 || (byte >= '0' && byte <= '9') ||
           ((byte | 32) >= 'a' && (byte | 32) <= 'z');
}

// Appends a punctuation mark; `next` is the byte after it, 0 at the end of the line.
static void put_mark(struct tidy *tidy, char byte, unsigned char next) {
    if (last(tidy) == '(' && byte != '.') {
        return; // the text before it was dropped
    }
    if (tidy->blank && !is_word_byte(next)) {
        tidy->blank = 0;
    }
    if (!tidy->blank && last(tidy) == ',' && (byte == ',' || byte == '.')) {
        tidy->out->length--;
    }
    size_t dots = tidy->out->length - tidy->start;
    if (byte == '.' && dots >= 3 && !tidy->blank &&
        memcmp(tidy->out->bytes + tidy->out->length - 3, "...", 3) == 0) {
        return; // three are enough
    }
    put(tidy, &byte, 1);
}

// Handles the special character at text[0, left); returns the number of bytes consumed.
static size_t tidy_special(struct tidy *tidy, const char *text, size_t left) {
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char next = left > 1 ? bytes[1] : 0;
    size_t length;
    const char shown = unprotect(text[0]);
    if (shown != '\0' || text[0] == WIKITEXT_GAP) {
        put(tidy, shown != '\0' ? &shown : text, 1);
        return 1;
    }
    int kind = invisible(bytes, left, &length);
    if (kind > 0) {
        tidy->blank |= kind == 1;
        return length;
    }
    if (text[0] == '|') {
        tidy->blank = 1;
    } else if (text[0] == ')') {
        close_parenthesis(tidy);
    } else if (strchr(",.;:", text[0]) != NULL) {
        put_mark(tidy, text[0], next);
    } else if (text[0] == ']') {
        tidy->blank = 0;
        if (last(tidy) != ']') {
            put(tidy, text, 1);
        }
    } else if (text[0] == '[') {
        if (last(tidy) != '[') {
            put(tidy, text, 1);
        }
    } else if (text[0] != '{' && text[0] != '}') {
        put(tidy, text, 1);
    }
    return 1;
}

static int has_word(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (is_word_byte((unsigned char)text[i])) {
            return 1;
        }
    }
    return 0;
}

// --- gaps ---------------------------------------------------------------------------------------

// The length of the mark with which the text ends; 0: it ends with none of them.
static size_t mark_at_end(const char *text, size_t length, const char *const *marks) {
    for (; *marks != NULL; marks++) {
        const size_t own = strlen(*marks);
        if (length >= own && memcmp(text + length - own, *marks, own) == 0) {
            return own;
        }
    }
    return 0;
}

// Whether a full stop or the like ends the text, possibly within quotation marks or brackets.
static int ends_sentence(const char *text, size_t length) {
    static const char *const closing[] = {"\"", "'", ")", "]", "”", "’", "»", "」", "』", NULL};
    static const char *const stops[] = {".", "!", "?", "。", "！", "？", "।", "؟", "۔", NULL};
    size_t own;
    while ((own = mark_at_end(text, length, closing)) > 0) {
        length -= own;
    }
    return mark_at_end(text, length, stops) > 0;
}

// Whether the gap at offset `gap` of the text, which has no gaps itself, is part of the sentence:
// within it, at its end without a full stop, or before a word that begins no sentence.
static int is_part(const char *sentence, size_t begin, size_t length, size_t gap) {
    if (gap <= begin) { // possibly with a blank between them
        return !sentences_may_begin(sentence, length);
    }
    return gap > begin &&
           (gap < begin + length || (gap == begin + length && !ends_sentence(sentence, length)));
}

// Removes the sentences with a gap, and all gaps, from out[start...]; returns the number of
// sentences.
static int64_t leave_out(struct wikitext *wikitext, struct buffer *out, size_t start) {
    struct buffer *text = &wikitext->line, *gaps = &wikitext->gaps;
    int64_t count = 0;
    buffer_clear(text);
    buffer_clear(gaps);
    for (size_t i = start; i < out->length; i++) {
        if (out->bytes[i] != WIKITEXT_GAP) {
            buffer_put_byte(text, out->bytes[i]);
            continue;
        }
        const size_t blank = text->length > 0 && text->bytes[text->length - 1] == ' ' &&
                             (i + 1 == out->length || out->bytes[i + 1] == ' ');
        text->length -= blank; // of the two around it
        buffer_put(gaps, &text->length, sizeof text->length);
    }
    out->length = start;
    struct sentences sentences = {.text = text->bytes, .length = text->length};
    const char *begin;
    size_t length, next = 0;
    while (!text->failed && !gaps->failed && sentences_next(&sentences, &begin, &length)) {
        const size_t at = (size_t)(begin - text->bytes);
        int is_incomplete = 0;
        for (size_t gap; next < gaps->length / sizeof gap; next++) {
            memcpy(&gap, gaps->bytes + next * sizeof gap, sizeof gap);
            if (gap > at + length) {
                break;
            }
            is_incomplete |= is_part(begin, at, length, gap);
        }
        count += is_incomplete;
        if (!is_incomplete) {
            buffer_put_text(out, out->length > start ? " " : "");
            buffer_put(out, begin, length);
        }
    }
    return count;
}

// Appends the line buffer to `out` if it has a word; returns whether it has.
static int tidy_line(struct wikitext *wikitext, struct buffer *out) {
    const struct buffer *line = &wikitext->line;
    static const char special[256] = {
        [' '] = 1, [','] = 1, ['.'] = 1, [':'] = 1,  [';'] = 1,  [')'] = 1,  ['['] = 1, [']'] = 1,
        ['{'] = 1, ['}'] = 1, ['|'] = 1, [0x7F] = 1, [0xC2] = 1, [0xE2] = 1, [0xEF] = 1};
    struct tidy tidy = {.out = out, .start = out->length};
    for (size_t i = 0; i < line->length && !out->failed;) {
        size_t from = i;
        while (i < line->length && !special[(unsigned char)line->bytes[i]] &&
               (unsigned char)line->bytes[i] >= 0x20) {
            i++;
        }
        if (i > from) {
            put(&tidy, line->bytes + from, i - from);
        } else {
            i += tidy_special(&tidy, line->bytes + i, line->length - i);
        }
    }
    if (out->failed) {
        return 0;
    }
    if (out->length > tidy.start &&
        memchr(out->bytes + tidy.start, WIKITEXT_GAP, out->length - tidy.start) != NULL) {
        wikitext->left_out += leave_out(wikitext, out, tidy.start);
    }
    if (out->length == tidy.start || !has_word(out->bytes + tidy.start, out->length - tidy.start)) {
        out->length = tidy.start;
        return 0;
    }
    return 1;
}

// --- headings -----------------------------------------------------------------------------------

static size_t count_leading(const char *text, size_t length, char byte) {
    size_t count = 0;
    while (count < length && text[count] == byte) {
        count++;
    }
    return count;
}

static size_t count_trailing(const char *text, size_t length, char byte) {
    size_t count = 0;
    while (count < length && text[length - 1 - count] == byte) {
        count++;
    }
    return count;
}

// Keeps "== History ==" until text follows. Returns 1 if the line is a heading.
static int store_heading(struct lines *lines, const char *text, size_t length) {
    size_t leading = count_leading(text, length, '='), trailing = count_trailing(text, length, '=');
    size_t level = leading < trailing ? leading : trailing;
    if (leading == length || level < 2) {
        return leading == length;
    }
    level = level < LEVELS - 1 ? level : LEVELS - 1;
    struct buffer *store = &lines->wikitext->headings;
    size_t at = store->length;
    decode(&lines->wikitext->line, text + leading, length - leading - trailing);
    if (tidy_line(lines->wikitext, store)) {
        char end = store->bytes[store->length - 1];
        if (strchr(".!?", end) == NULL) {
            buffer_put_byte(store, '.');
        }
    }
    for (size_t i = level; i < LEVELS; i++) {
        lines->headings[i] = (struct span){0, 0};
    }
    lines->headings[level] = (struct span){at, store->length - at};
    return 1;
}

// --- lines --------------------------------------------------------------------------------------

static int is_dropped_line(const char *text, size_t length) {
    char first = text[0], end = text[length - 1];
    // Lists, remains of tables and templates, rulers, and notes in parentheses.
    return strchr("*#;{|", first) != NULL || first == WIKITEXT_SEPARATOR || end == '}' ||
           (first == '(' && end == ')') || (length >= 4 && memcmp(text, "----", 4) == 0);
}

static void put_line(struct lines *lines, const char *text, size_t length) {
    struct wikitext *wikitext = lines->wikitext;
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        length--;
    }
    size_t indent = 0;
    while (indent < length && strchr(" \t:", text[indent]) != NULL) {
        indent++;
    }
    int at_margin = indent == 0;
    text += indent;
    length -= indent;
    if (length == 0 || (at_margin && store_heading(lines, text, length)) ||
        is_dropped_line(text, length)) {
        return;
    }
    decode(&wikitext->line, text, length);
    struct buffer *kept = &wikitext->scratch; // if the line is kept, its headings come first
    buffer_clear(kept);
    if (!tidy_line(wikitext, kept)) {
        return;
    }
    struct buffer *store = &lines->wikitext->headings;
    for (size_t i = 0; i < LEVELS && !store->failed; i++) {
        if (lines->headings[i].length > 0) {
            buffer_put(&lines->wikitext->plain, store->bytes + lines->headings[i].at,
                       lines->headings[i].length);
            buffer_put_byte(&lines->wikitext->plain, '\n');
        }
        lines->headings[i] = (struct span){0, 0};
    }
    buffer_clear(store);
    buffer_put(&wikitext->plain, kept->bytes, kept->length);
    buffer_put_byte(&wikitext->plain, '\n');
}

void wikitext_finish_lines(struct wikitext *wikitext) {
    struct lines lines = {.wikitext = wikitext};
    if (wikitext->stripped.length == 0) {
        return;
    }
    const char *at = wikitext->stripped.bytes;
    const char *end = at + wikitext->stripped.length;
    buffer_reserve(&wikitext->plain, wikitext->stripped.length);
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline != NULL ? newline : end) - at);
        put_line(&lines, at, length);
        at += length + 1;
    }
}
