// SPDX-License-Identifier: Apache-2.0
// Output for people: whether a file descriptor is a terminal, its width, whether it gets colours,
// and which characters are safe to write. Each descriptor is examined separately.
#ifndef BERTH_CORE_TERMINAL_H
#define BERTH_CORE_TERMINAL_H

#include <stddef.h>

int terminal_is(int descriptor);

// Whether it is a terminal on which a line can be erased and rewritten: not if TERM is "dumb",
// empty or unset.
int terminal_erases(int descriptor);

// Columns: the environment variable COLUMNS, else the terminal's width, else 80; at least 20.
int terminal_width(int descriptor);

// Colours are off with NO_COLOR (non-empty) or TERM=dumb, on with FORCE_COLOR (non-empty, not "0"),
// else on where terminal_erases; the first of these rules that applies decides.
int terminal_colour(int descriptor);

// The length in bytes of the UTF-8 character at text[0, length), length > 0; *columns gets its
// width on a terminal (0 for combining marks, 2 for wide characters). Ill-formed bytes count 1 and
// 1.
size_t terminal_character(const char *text, size_t length, int *columns);

// The width of text[0, length) in columns.
size_t terminal_columns(const char *text, size_t length);

// Writes the text to to[size], NUL-terminated. What a terminal may interpret (control characters,
// characters that change the writing direction, ill-formed UTF-8) is escaped as "\x1b", except the
// characters of `kept` (such as "\n"). Truncated at a character boundary. Returns the length.
size_t terminal_escape(char *to, size_t size, const char *text, const char *kept);

// Escapes a stream of bytes on its way to a terminal; pieces may end within a character.
// Zero-initialise.
struct terminal_filter {
    char held[5]; // an incomplete character
    size_t count;
};
// Filters the next byte, writes the output that is ready to shown[TERMINAL_SHOWN] and returns its
// length. Newlines, tabs and carriage returns pass unchanged.
#define TERMINAL_SHOWN 24
size_t terminal_filter_put(struct terminal_filter *filter, char byte, char *shown);
// The same for the bytes still held at the end.
size_t terminal_filter_end(struct terminal_filter *filter, char *shown);

#endif
