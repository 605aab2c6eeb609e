// SPDX-License-Identifier: Apache-2.0
// Wraps text to the width of the terminal and highlights a span in it. Help, manual pages and the
// answers of `berth answer` and `berth show squad` are laid out here; how wide a terminal is and
// whether it has colours is found out in core/terminal.c.
#include "cli.h"
#include "core/terminal.h"

#include <stdio.h>
#include <string.h>

#define HIGHLIGHT "\033[30;48;2;144;238;144m"
#define PLAIN "\033[0m"

void cli_wrap(FILE *out, const char *text, int width, int indent, int column) {
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        int columns = (int)terminal_columns(text, length);
        if (column > indent && column + 1 + columns > width) {
            fputc('\n', out);
            column = 0;
        }
        int blanks = column < indent ? indent - column : column > indent;
        column += fprintf(out, "%*s", blanks, "") + columns;
        fwrite(text, 1, length, out);
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

int cli_next_line(struct cli_line *line) {
    line->text = line->next;
    line->length = strcspn(line->text, "\n");
    line->next += line->length + (line->text[line->length] == '\n');
    return *line->text != '\0';
}

struct highlighter {
    int64_t start, end; // characters
    int64_t character;  // the one to be printed next
    int colour, active;
    int width, column;
};

static void switch_colour(struct highlighter *out, int active) {
    if (out->colour && active != out->active) {
        cli_style(active ? HIGHLIGHT : PLAIN);
    }
    out->active = active;
}

static int is_inside(const struct highlighter *out) {
    return out->character >= out->start && out->character < out->end;
}

static void put_character(struct highlighter *out, const char *text, size_t bytes, int columns) {
    switch_colour(out, is_inside(out));
    fwrite(text, 1, bytes, stdout);
    out->column += columns;
    out->character++;
}

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The columns of the word that begins at text.
static int word_columns(const char *text, size_t length) {
    size_t bytes = 0;
    while (bytes < length && !is_blank(text[bytes])) {
        bytes++;
    }
    return (int)terminal_columns(text, bytes);
}

static void put_blank(struct highlighter *out, const char *text, size_t left) {
    int room = out->width <= 0 || out->column + 1 + word_columns(text + 1, left - 1) <= out->width;
    if (room || out->column == 0) {
        put_character(out, *text == '\n' && out->width > 0 ? " " : text, 1, 1);
    } else {
        out->character++;
        // A line must not end in colour: terminals would paint the rest of it.
        int active = out->active;
        switch_colour(out, 0);
        putchar('\n');
        out->column = 0;
        if (active && is_inside(out)) {
            switch_colour(out, 1);
        }
    }
}

void cli_highlight(const char *text, int64_t start, int64_t end, int colour, int width,
                   int indent) {
    struct highlighter out = {
        .start = start, .end = end, .colour = colour, .width = width, .column = indent};
    size_t left = strlen(text);
    while (left > 0) {
        int columns;
        size_t bytes = terminal_character(text, left, &columns);
        if (is_blank(*text)) {
            put_blank(&out, text, left);
        } else {
            put_character(&out, text, bytes, columns);
        }
        text += bytes;
        left -= bytes;
    }
    switch_colour(&out, 0);
    putchar('\n');
}
