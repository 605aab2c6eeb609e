// SPDX-License-Identifier: Apache-2.0
// Reads the lines of a text file, or one column of a table, for the task fill, which trains on
// masked text. The text is held once, and lines point into it; text_sequences.c makes tokens of
// them.
#include "data/masked/text_lines.h"

#include "core/caseless.h"
#include "core/encoding.h"
#include "core/file.h"
#include "core/memory.h"
#include "text/python.h"

#include <string.h>

#define TEXT_FILE_LIMIT ((size_t)64 << 30)

// --- text ---------------------------------------------------------------------------------------

static enum berth_status read_text(const char *path, struct text_lines *lines,
                                   struct berth_error *error) {
    size_t length;
    char *text;
    TRY(file_read(path, TEXT_FILE_LIMIT, &lines->bytes, &length, error));
    TRY(encoding_read_text(path, &lines->bytes, &text, &length, error));
    if (length == 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: the file is empty", path);
    }
    size_t count = 0, line_end;
    for (size_t at = 0; at < length; count++) {
        at += python_line_length(text + at, length - at, &line_end);
        at += line_end;
    }
    lines->items = memory_array(count, sizeof *lines->items);
    if (lines->items == NULL) {
        return error_no_memory(error, count * sizeof *lines->items, "the lines of a text");
    }
    size_t end;
    for (size_t at = 0; at < length; at += end) {
        lines->items[lines->count++] = text + at;
        at += python_line_length(text + at, length - at, &end);
        text[at] = '\0';
    }
    return BERTH_OK;
}

// --- tables -------------------------------------------------------------------------------------

static enum berth_status find_column(const struct table *table, const char *name, size_t *column,
                                     struct berth_error *error) {
    if (name != NULL) {
        return table_column(table, "text_column", name, column, error);
    }
    *column = table_find(table, "text");
    *column = *column != SIZE_MAX ? *column : table_next_text(table, 0);
    return *column != SIZE_MAX
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: every column is without a name, or called id or idx; name that of "
                           "the text with text_column",
                           table->name);
}

static enum berth_status read_table(const char *path, const char *name, struct text_lines *lines,
                                    struct berth_error *error) {
    struct table_options options = {0};
    size_t column;
    TRY(table_format_of(path, &options.format, error));
    TRY(table_read(path, &options, &lines->table, error));
    TRY(find_column(&lines->table, name, &column, error));
    lines->column = lines->table.columns[column];
    lines->items = memory_array(lines->table.row_count, sizeof *lines->items);
    if (lines->items == NULL) {
        return error_no_memory(error, lines->table.row_count * sizeof *lines->items, "the texts");
    }
    for (; lines->count < lines->table.row_count; lines->count++) {
        TRY(table_text(&lines->table, lines->count, column, &lines->items[lines->count], error));
    }
    return BERTH_OK;
}

// ------------------------------------------------------------------------------------------------

static int is_table(const char *path) {
    static const char *const extensions[] = {".csv", ".tsv", ".jsonl", ".ndjson", ".json"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof extensions / sizeof *extensions; i++) {
        if (caseless_equal(dot, extensions[i])) {
            return 1;
        }
    }
    return 0;
}

enum berth_status text_lines_read(const char *path, const char *column, struct text_lines *lines,
                                  struct berth_error *error) {
    *lines = (struct text_lines){0};
    return is_table(path) ? read_table(path, column, lines, error) : read_text(path, lines, error);
}

void text_lines_done(struct text_lines *lines) {
    memory_free(lines->items);
    memory_free(lines->bytes);
    table_done(&lines->table);
    *lines = (struct text_lines){0};
}
