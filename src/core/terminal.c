// SPDX-License-Identifier: Apache-2.0
// Terminals, through isatty, TIOCGWINSZ and the environment. Character widths come from a short
// list of the wide and the combining blocks, not from the locale: layout needs no more.
#include "core/terminal.h"

#include "core/number.h"
#include "core/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NARROWEST 20
#define USUAL 80
#define WIDEST 1000

int terminal_is(int descriptor) {
    return isatty(descriptor) == 1;
}

int terminal_erases(int descriptor) {
    const char *term = getenv("TERM");
    return term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0 && terminal_is(descriptor);
}

static int from_environment(void) {
    const char *text = getenv("COLUMNS");
    int64_t columns = 0;
    if (text == NULL || !number_parse_integer(text, &columns) || columns > WIDEST) {
        return 0;
    }
    return (int)columns;
}

int terminal_width(int descriptor) {
    struct winsize size = {0};
    int columns = from_environment();
    if (columns <= 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0) {
        columns = size.ws_col;
    }
    if (columns <= 0) {
        columns = USUAL;
    }
    return columns < NARROWEST ? NARROWEST : columns;
}

int terminal_colour(int descriptor) {
    const char *none = getenv("NO_COLOR");
    const char *force = getenv("FORCE_COLOR");
    const char *term = getenv("TERM");
    if ((none != NULL && *none != '\0') || (term != NULL && strcmp(term, "dumb") == 0)) {
        return 0;
    }
    if (force != NULL && *force != '\0' && strcmp(force, "0") != 0) {
        return 1;
    }
    return terminal_erases(descriptor);
}

struct block {
    uint32_t first, last;
};

static int lies_in(const struct block *blocks, size_t count, uint32_t character) {
    for (size_t i = 0; i < count; i++) {
        if (character >= blocks[i].first && character <= blocks[i].last) {
            return 1;
        }
    }
    return 0;
}

static int columns_of(uint32_t character) {
    static const struct block combining[] = {
        {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F}, {0x1AB0, 0x1AFF},
        {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};
    static const struct block wide[] = {{0x1100, 0x115F},   {0x2705, 0x2705},   {0x2753, 0x2755},
                                        {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xAC00, 0xD7A3},
                                        {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                                        {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
                                        {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}};
    if (character < 0x20 || lies_in(combining, sizeof combining / sizeof *combining, character)) {
        return 0;
    }
    return lies_in(wide, sizeof wide / sizeof *wide, character) ? 2 : 1;
}

size_t terminal_character(const char *text, size_t length, int *columns) {
    uint32_t character;
    size_t bytes = utf8_decode(text, length, &character);
    *columns = character != UTF8_ILL_FORMED ? columns_of(character) : 1;
    return character != UTF8_ILL_FORMED ? bytes : 1;
}

size_t terminal_columns(const char *text, size_t length) {
    size_t total = 0;
    for (size_t at = 0; at < length;) {
        int columns;
        at += terminal_character(text + at, length - at, &columns);
        total += (size_t)columns;
    }
    return total;
}

// --- control characters -------------------------------------------------------------------------

// The length in bytes of the character at text when it is printable, else 0.
static size_t showable(const char *text) {
    static const struct block obeyed[] = {
        {0x00, 0x1F}, {0x7F, 0x9F}, {0x2028, 0x202E}, {0x2066, 0x2069}};
    uint32_t character;
    size_t bytes = utf8_decode(text, UTF8_BYTES_MAX, &character);
    int is_shown =
        character != UTF8_ILL_FORMED && !lies_in(obeyed, sizeof obeyed / sizeof *obeyed, character);
    return is_shown ? bytes : 0;
}

size_t terminal_escape(char *to, size_t size, const char *text, const char *kept) {
    size_t used = 0;
    while (*text != '\0') {
        char piece[5];
        size_t bytes = strchr(kept, *text) != NULL ? 1 : showable(text);
        size_t length = bytes > 0 ? bytes : 4;
        if (bytes > 0) {
            memcpy(piece, text, bytes);
        } else {
            snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)*text);
        }
        if (used + length >= size) {
            break;
        }
        memcpy(to + used, piece, length);
        used += length;
        text += bytes > 0 ? bytes : 1;
    }
    to[used] = '\0';
    return used;
}

size_t terminal_filter_end(struct terminal_filter *filter, char *shown) {
    filter->held[filter->count] = '\0';
    size_t length = filter->count == 1 && filter->held[0] == '\0'
                        ? (size_t)snprintf(shown, TERMINAL_SHOWN, "\\x00")
                        : terminal_escape(shown, TERMINAL_SHOWN, filter->held, "\n\t\r");
    filter->count = 0;
    return length;
}

size_t terminal_filter_put(struct terminal_filter *filter, char byte, char *shown) {
    size_t length = 0;
    if (filter->count > 0 && utf8_begins(byte)) {
        length = terminal_filter_end(filter, shown);
    }
    filter->held[filter->count++] = byte;
    size_t whole = utf8_whole(filter->held[0]);
    return filter->count == whole ? length + terminal_filter_end(filter, shown + length) : length;
}
