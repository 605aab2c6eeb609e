// SPDX-License-Identifier: Apache-2.0
// What may be written to a file descriptor that people look at: is it a terminal, how wide, colours
// or not, which characters. Every descriptor is judged by itself.
#ifndef BERTH_CORE_TERMINAL_H
#define BERTH_CORE_TERMINAL_H

#include <stddef.h>

int terminal_is(int descriptor);

// Columns: COLUMNS of the environment, else what the terminal says, else 80; at least 20.
int terminal_width(int descriptor);

// Colours are off with NO_COLOR (non-empty) or TERM=dumb, on with FORCE_COLOR (non-empty, not "0"),
// else as the descriptor is a terminal; the first of these rules that applies decides.
int terminal_colour(int descriptor);

// The UTF-8 character at text[0, length), length > 0: its bytes; *columns gets the columns that it
// takes on a terminal (0 for combining marks, 2 for wide ones). Ill-formed bytes count 1 and 1.
size_t terminal_character(const char *text, size_t length, int *columns);

// The columns of text[0, length).
size_t terminal_columns(const char *text, size_t length);

// Writes the text to to[size], ending with NUL; what a terminal may obey in place of showing it
// (control characters, those that turn the direction of writing, bytes that are no UTF-8) becomes
// "\\x1b", except the characters of `kept` (such as "\n"). Cut at the end of a character. Returns
// the length.
size_t terminal_escape(char *to, size_t size, const char *text, const char *kept);

// A stream of bytes on its way to a terminal, cut anywhere. Zero-initialise.
struct terminal_filter {
    char held[5]; // a character that is not whole yet
    size_t count;
};
// Takes the next byte; shown[TERMINAL_SHOWN] gets what may be written now, its length is returned.
// Newlines, tabs and carriage returns pass.
#define TERMINAL_SHOWN 24
size_t terminal_filter_take(struct terminal_filter *filter, char byte, char *shown);
// The same for what is held, at the end.
size_t terminal_filter_end(struct terminal_filter *filter, char *shown);

#endif
