// SPDX-License-Identifier: Apache-2.0
// Tables in text files: rows of named columns.
//
//   TSV         fields between tabs, one row a line; quotes are ordinary characters and nothing is
//               escaped (GLUE's way). A CR before the line's end is no part of it.
//   CSV         RFC 4180: fields between commas, in quotes where they hold a comma, a quote
//               (doubled) or a line break; lines end in LF or CR LF.
//   JSON lines  one object a line; a column for each key, in the order they first appear.
//
// The first line of TSV and CSV names the columns unless the options do. A byte order mark in front
// is passed over, and so are empty lines; but in TSV and CSV with a single column an empty line is
// a row with an empty field. Left out: comments, types (every cell is text), nested values.
#ifndef BERTH_DATA_TABLE_H
#define BERTH_DATA_TABLE_H

#include "core/error.h"
#include "format/json/json.h"

#include <stddef.h>

enum table_format { TABLE_TSV, TABLE_CSV, TABLE_JSON_LINES };

struct table_options {
    enum table_format format;
    // NULL-terminated names of the columns of a TSV or CSV file without a header; NULL: it has one.
    const char *const *column_names;
    int ragged; // 1: rows with another number of fields are left out and counted, 0: an error
};

struct table {
    const char *name; // the file, for messages
    const char **columns;
    size_t column_count;
    size_t row_count;
    size_t left_out;       // ragged rows
    size_t left_out_line;  // the line of the first of them
    const size_t *lines;   // the line where each row begins, from 1
    const char **cells;    // [row_count][column_count]; NULL for JSON lines
    const json *json_rows; // JSON lines: an array of objects
    void *storage;         // owns everything
};

// The format that a file's name says: .tsv and .txt, .csv, .jsonl, .ndjson and .json, in any case.
// BERTH_USAGE for other names.
enum berth_status table_format_of(const char *path, enum table_format *format,
                                  struct berth_error *error);

// Reads a table; free with table_done (also fine after a failure). Errors (BERTH_BAD_DATA) name
// file, line and column: a file that is empty, has no rows, is not UTF-8 or holds a NUL byte, a
// header with a name twice, a wrong number of fields, a quote that is not closed or stands in a
// field without quotes, a line that is not a JSON object.
enum berth_status table_read(const char *path, const struct table_options *options,
                             struct table *table, struct berth_error *error);
// The same from memory; `name` stands for the file in messages.
enum berth_status table_read_memory(const char *name, const char *bytes, size_t length,
                                    const struct table_options *options, struct table *table,
                                    struct berth_error *error);
void table_done(struct table *table);

// The column of that name; SIZE_MAX when there is none.
size_t table_find(const struct table *table, const char *column);
// The same; a column that is not there is BERTH_BAD_DATA naming `setting` (such as "text_column"),
// the nearest column and all of them.
enum berth_status table_column(const struct table *table, const char *setting, const char *column,
                               size_t *index, struct berth_error *error);

// The text of a cell, borrowed. Numbers, true and false of JSON are text too. A key that the row
// lacks, null and nested values are BERTH_BAD_DATA.
enum berth_status table_text(const struct table *table, size_t row, size_t column,
                             const char **text, struct berth_error *error);

// The array of texts in a cell of JSON lines, borrowed; NULL where the cell is something else.
const json *table_list(const struct table *table, size_t row, size_t column);

// Fills `error` with "FILE: line L, column "C": " and a formatted message; returns BERTH_BAD_DATA.
enum berth_status table_error(const struct table *table, size_t row, size_t column,
                              struct berth_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
