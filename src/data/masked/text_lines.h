// SPDX-License-Identifier: Apache-2.0
// The lines of a file of text, or one column of a table (CSV, TSV, JSON lines): a text each.
#ifndef BERTH_DATA_TEXT_LINES_H
#define BERTH_DATA_TEXT_LINES_H

#include "core/error.h"
#include "data/tables/table.h"

#include <stddef.h>

struct text_lines {
    const char **items; // [count]
    size_t count;
    char *bytes;        // of a file of text
    struct table table; // or a table
};

// Reads `path`. A name that ends in .csv, .tsv, .jsonl, .ndjson or .json is a table, whose texts
// are in `column` (NULL: "text", or the first column if there is none of that name); any other file
// is text in UTF-8 or UTF-16, whose lines end in LF, CR LF or CR. Free with text_lines_done, also
// after a failure. BERTH_BAD_DATA: neither of these, a NUL byte, no line, or as table_read.
enum berth_status text_lines_read(const char *path, const char *column, struct text_lines *lines,
                                  struct berth_error *error);
void text_lines_done(struct text_lines *lines);

#endif
