// SPDX-License-Identifier: Apache-2.0
// What the parts of the table reader share while a table is read.
#ifndef BERTH_DATA_TABLE_READER_H
#define BERTH_DATA_TABLE_READER_H

#include "data/tables/table.h"

#include <stddef.h>

#define TABLE_SHOWN 60 // bytes of a name or text that a message quotes

struct table_texts {
    const char **items; // borrowed texts
    size_t count, capacity;
};

struct table_reader {
    const char *name;
    const struct table_options *options;
    char *text;     // the file after its byte order mark, with a NUL at its end; changed in place
    size_t length;  // bytes of it
    size_t skipped; // bytes of the byte order mark
    struct berth_error *error;
    // What is read so far.
    struct table_texts columns, cells;
    size_t *lines;
    size_t row_count, row_capacity;
    size_t left_out, left_out_line;
    json *json_rows, *json_columns; // rows; the set of keys
};

// Adds a text to a list of the reader's.
enum berth_status table_reader_add(struct table_reader *reader, struct table_texts *texts,
                                   const char *text);
// Notes a row that begins in `line`; what it holds is with the caller.
enum berth_status table_reader_row(struct table_reader *reader, size_t line);

// Read the text into columns, cells (or json_rows) and lines.
enum berth_status table_read_delimited(struct table_reader *reader);
enum berth_status table_read_json_lines(struct table_reader *reader);

// Length of `text` cut to what a message can show, at a character's beginning.
int table_shown(const char *text);

#endif
