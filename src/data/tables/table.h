// SPDX-License-Identifier: Apache-2.0
// Reads tables, rows of named columns, from text files.
//
//   TSV         fields separated by tabs, one row per line; quotes are ordinary characters and
//               there are no escapes (as in GLUE). A CR before the LF belongs to the line end.
//   CSV         RFC 4180: fields separated by commas, in quotes if they contain a comma, a quote
//               (doubled) or a line break; lines end in LF or CR LF.
//   JSON lines  one object per line, or one array of objects that may span lines; a column for each
//               key, in order of first appearance.
//
// The first line of TSV and CSV names the columns unless the options do. A byte order mark and
// empty lines are skipped, except that in TSV and CSV with a single column an empty line is a row
// with an empty field. Not supported: comments, types (every cell is a string), nested values. What
// a column means is decided by the readers in data/pairs, data/masked and data/tagging.
#ifndef BERTH_DATA_TABLE_H
#define BERTH_DATA_TABLE_H

#include "core/error.h"
#include "format/json/json.h"

#include <stddef.h>

enum table_format { TABLE_TSV, TABLE_CSV, TABLE_JSON_LINES };

struct table_options {
    enum table_format format;
    // Column names for a TSV or CSV file without a header, NULL-terminated; NULL: it has a header.
    const char *const *column_names;
    int ragged; // 1: rows with a wrong number of fields are skipped and counted; 0: an error
};

struct table {
    const char *name; // the file, for messages
    enum table_format format;
    const char **columns;
    size_t column_count;
    size_t row_count;
    size_t skipped_rows;   // ragged rows that were skipped
    size_t skipped_line;   // line of the first of them
    const size_t *lines;   // [row_count] first line of each row, from 1
    const char **cells;    // [row_count][column_count]; NULL for JSON lines
    const json *json_rows; // JSON lines: an array of objects
    void *storage;         // owns everything
};

// The format by the file's extension: .tsv and .txt, .csv, .jsonl, .ndjson and .json, in upper or
// lower case. BERTH_USAGE: another extension.
enum berth_status table_format_of(const char *path, enum table_format *format,
                                  struct berth_error *error);

// Reads a table; free with table_done (allowed after a failure). Errors (BERTH_BAD_DATA) name file,
// line and column: a file that is empty, has no rows, is not UTF-8 or has a NUL byte, a duplicate
// column, a wrong number of fields, an unclosed quote, a quote in an unquoted field, a line that is
// not a JSON object.
enum berth_status table_read(const char *path, const struct table_options *options,
                             struct table *table, struct berth_error *error);
// The same from memory; messages call it `name`.
enum berth_status table_read_memory(const char *name, const char *bytes, size_t length,
                                    const struct table_options *options, struct table *table,
                                    struct berth_error *error);
void table_done(struct table *table);

// The index of a column; SIZE_MAX if there is no such column.
size_t table_find(const struct table *table, const char *column);
// Whether sentence-transformers takes a column of this name for scores: score, scores, label,
// labels.
int table_is_score(const char *column);
// The same, but BERTH_BAD_DATA if there is no such column; the message names `setting` (such as
// "text_column"), the nearest column and all columns.
enum berth_status table_column(const struct table *table, const char *setting, const char *column,
                               size_t *index, struct berth_error *error);

// The first column from `index` on that may hold texts: its name is neither "id" nor "idx" nor
// empty, as pandas writes the numbers of rows, and the first row has no array there. SIZE_MAX:
// none.
size_t table_next_text(const struct table *table, size_t index);

// The text of a cell, borrowed. JSON numbers, true and false are converted to text. A missing key,
// null and nested values are BERTH_BAD_DATA.
enum berth_status table_text(const struct table *table, size_t row, size_t column,
                             const char **text, struct berth_error *error);

// Whether a cell has no content: an empty text, null or a missing key.
int table_is_empty(const struct table *table, size_t row, size_t column);

// The array of strings in a cell, borrowed; NULL if the cell is not a JSON array.
const json *table_list(const struct table *table, size_t row, size_t column);

// Fills `error` with "FILE: line L, column "C": " and a formatted message; returns BERTH_BAD_DATA.
enum berth_status table_error(const struct table *table, size_t row, size_t column,
                              struct berth_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
