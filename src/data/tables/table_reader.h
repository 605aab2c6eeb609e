// SPDX-License-Identifier: Apache-2.0
// A table while it is read: what table.c gives to the parser of a format (table_delimited.c,
// table_json.c) and gets back filled. Users of a table include table.h and never see it.
#ifndef BERTH_DATA_TABLE_READER_H
#define BERTH_DATA_TABLE_READER_H

#include "data/tables/table.h"

#include <stddef.h>

#define TABLE_SHOWN 60 // maximum bytes of a quotation in a message

struct table_texts {
    const char **items; // borrowed texts
    size_t count, capacity;
};

struct table_reader {
    const char *name;
    const struct table_options *options;
    char *text;        // the file after its byte order mark, NUL-terminated; changed in place
    size_t length;     // of the text in bytes
    size_t mark_bytes; // bytes of the byte order mark
    struct berth_error *error;
    // The results so far.
    struct table_texts columns, cells;
    size_t *lines;
    size_t row_count, row_capacity;
    size_t skipped_rows, skipped_line;
    json *json_rows, *json_columns; // the rows, and the keys
};

// Adds a string to a list of the reader.
enum berth_status table_reader_add(struct table_reader *reader, struct table_texts *texts,
                                   const char *text);
// Records a row that begins in `line`; the caller adds its cells.
enum berth_status table_reader_add_row(struct table_reader *reader, size_t line);

// Read the text into columns, cells (or json_rows) and lines.
enum berth_status table_read_delimited(struct table_reader *reader);
enum berth_status table_read_json_lines(struct table_reader *reader);

#endif
