// SPDX-License-Identifier: Apache-2.0
// Reads texts: the lines of a text file, or one column of a table (CSV, TSV, JSON lines). The task
// fill reads its files with it; tokens are made by text_sequences.h.
#ifndef BERTH_DATA_TEXT_LINES_H
#define BERTH_DATA_TEXT_LINES_H

#include "core/error.h"
#include "data/tables/table.h"

#include <stddef.h>

struct text_lines {
    const char **items; // [count]
    size_t count;
    char *bytes;        // of a text file
    struct table table; // or the table
    const char *column; // its column
};

// Reads `path`. A file with the extension .csv, .tsv, .jsonl, .ndjson or .json is a table with the
// texts in `column` (NULL: "text" or, without such a column, that of table_next_text). Any other
// file is text in UTF-8 or UTF-16 with lines that end in LF, CR LF or CR. Free with
// text_lines_done, also after a failure. BERTH_BAD_DATA: another encoding, a NUL byte, no line, or
// as for table_read.
enum berth_status text_lines_read(const char *path, const char *column, struct text_lines *lines,
                                  struct berth_error *error);
void text_lines_done(struct text_lines *lines);

#endif
