// SPDX-License-Identifier: Apache-2.0
// Reads TSV and CSV. One pass splits the text into fields in place: a NUL replaces each delimiter.
// Called by table.c, which then checks the table.
#include "core/number.h"
#include "core/utf8.h"
#include "data/tables/table_reader.h"

#include <string.h>

struct cursor {
    char *at, *end;      // *end is a NUL
    size_t line;         // from 1
    const char *counted; // the line up to here has ...
    int64_t characters;  // ... so many characters, before quotes are removed
};

enum delimiter { ENDS_FIELD, ENDS_ROW };

static void next_line(struct cursor *cursor) {
    cursor->line++;
    cursor->counted = cursor->at;
    cursor->characters = 0;
}

static int64_t characters_before(const struct cursor *cursor, const char *at) {
    return cursor->characters + utf8_count(cursor->counted, (size_t)(at - cursor->counted));
}

// --- TSV ----------------------------------------------------------------------------------------

static enum delimiter cut_tsv_field(struct cursor *cursor) {
    char *stop = cursor->at + strcspn(cursor->at, "\t\n");
    char found = *stop;
    *stop = '\0';
    if (found == '\t') {
        cursor->at = stop + 1;
        return ENDS_FIELD;
    }
    if (found == '\n' && stop > cursor->at && stop[-1] == '\r') {
        stop[-1] = '\0';
    }
    cursor->at = found == '\n' ? stop + 1 : stop;
    next_line(cursor);
    return ENDS_ROW;
}

// --- CSV ----------------------------------------------------------------------------------------

static enum berth_status csv_error(const struct table_reader *reader, const struct cursor *cursor,
                                   const char *at, const char *problem) {
    return error_set(reader->error, BERTH_BAD_DATA, "%s: line %zu, column %lld: %s", reader->name,
                     cursor->line, (long long)characters_before(cursor, at) + 1, problem);
}

// The length of the line end at `at`: LF, CR LF, or the end of the text, which has length 0. *ends:
// whether there is one.
static size_t line_end(const struct cursor *cursor, const char *at, int *ends) {
    *ends = 1;
    if (at == cursor->end) {
        return 0;
    }
    if (*at == '\n') {
        return 1;
    }
    if (at[0] == '\r' && at[1] == '\n') {
        return 2;
    }
    *ends = 0;
    return 0;
}

// Moves past the closing quote of the field; *stop is that quote.
static enum berth_status find_closing_quote(struct table_reader *reader, struct cursor *cursor,
                                            char **stop) {
    const struct cursor begin = *cursor;
    char *at = cursor->at + 1;
    while (at < cursor->end && (*at != '"' || at[1] == '"')) {
        at += *at == '"' ? 2 : 1;
        if (at[-1] == '\n') {
            cursor->at = at;
            next_line(cursor);
        }
    }
    if (at == cursor->end) {
        return csv_error(reader, &begin, begin.at,
                         "unclosed quote; close it, or double the quotes within the field");
    }
    *stop = at;
    cursor->at = at + 1;
    return BERTH_OK;
}

static enum berth_status find_plain_end(struct table_reader *reader, struct cursor *cursor,
                                        char **stop) {
    *stop = cursor->at + strcspn(cursor->at, ",\"\r\n");
    if (**stop == '"') {
        return csv_error(reader, cursor, *stop,
                         "a quote in an unquoted field; put the field in quotes and double the "
                         "quotes within it");
    }
    cursor->at = *stop;
    return BERTH_OK;
}

static enum berth_status cut_csv_field(struct table_reader *reader, struct cursor *cursor,
                                       enum delimiter *delimiter) {
    char *begin = cursor->at, *stop = begin;
    int quoted = *begin == '"', ends;
    TRY(quoted ? find_closing_quote(reader, cursor, &stop) : find_plain_end(reader, cursor, &stop));
    size_t bytes = line_end(cursor, cursor->at, &ends);
    if (!ends && *cursor->at != ',') {
        return csv_error(reader, cursor, cursor->at,
                         "text after the closing quote; expected a comma or the end of the line");
    }
    *delimiter = ends ? ENDS_ROW : ENDS_FIELD;
    cursor->at += ends ? bytes : 1;
    cursor->characters = characters_before(cursor, cursor->at);
    cursor->counted = cursor->at;
    if (ends) {
        next_line(cursor);
    }
    if (quoted) {
        // The surrounding quotes go, and of two quotes inside one.
        char *to = begin;
        for (const char *from = begin + 1; from < stop; from++) {
            from += *from == '"';
            *to++ = *from;
        }
        *to = '\0';
    } else {
        *stop = '\0';
    }
    return BERTH_OK;
}

// --- rows ---------------------------------------------------------------------------------------

// Appends the cells of the row at the cursor.
static enum berth_status cut_row(struct table_reader *reader, struct cursor *cursor) {
    enum delimiter delimiter = ENDS_FIELD;
    while (delimiter == ENDS_FIELD) {
        TRY(table_reader_add(reader, &reader->cells, cursor->at));
        if (reader->options->format == TABLE_TSV) {
            delimiter = cut_tsv_field(cursor);
        } else {
            TRY(cut_csv_field(reader, cursor, &delimiter));
        }
    }
    return BERTH_OK;
}

static enum berth_status read_header(struct table_reader *reader, struct cursor *cursor) {
    const char *const *names = reader->options->column_names;
    if (names == NULL) {
        TRY(cut_row(reader, cursor));
        reader->columns = reader->cells;
        reader->cells = (struct table_texts){0};
        return BERTH_OK;
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        TRY(table_reader_add(reader, &reader->columns, names[i]));
    }
    return BERTH_OK;
}

static enum berth_status read_row(struct table_reader *reader, struct cursor *cursor) {
    size_t before = reader->cells.count, line = cursor->line;
    TRY(cut_row(reader, cursor));
    size_t fields = reader->cells.count - before;
    if (fields == reader->columns.count) {
        return table_reader_add_row(reader, line);
    }
    reader->cells.count = before;
    if (!reader->options->ragged) {
        size_t columns = reader->columns.count;
        const char *last = reader->columns.items[fields < columns ? fields : columns - 1];
        return error_line(reader->error, BERTH_BAD_DATA, reader->name, line,
                          "the row has %zu field%s, expected %zu; %s column \"%.*s\"", fields,
                          number_plural((int64_t)fields), columns,
                          fields < columns ? "nothing for" : "more text after",
                          UTF8_SHOWN(last, TABLE_SHOWN));
    }
    reader->skipped_line = reader->skipped_rows == 0 ? line : reader->skipped_line;
    reader->skipped_rows++;
    return BERTH_OK;
}

// Skips an empty line, unless it is a row.
static int skip_empty_line(const struct table_reader *reader, struct cursor *cursor) {
    int ends;
    size_t bytes = line_end(cursor, cursor->at, &ends);
    if (bytes == 0 || reader->columns.count == 1) {
        return 0;
    }
    cursor->at += bytes;
    next_line(cursor);
    return 1;
}

enum berth_status table_read_delimited(struct table_reader *reader) {
    struct cursor cursor = {.at = reader->text,
                            .end = reader->text + reader->length,
                            .line = 1,
                            .counted = reader->text};
    while (reader->options->column_names == NULL && skip_empty_line(reader, &cursor)) {
    }
    TRY(read_header(reader, &cursor));
    while (cursor.at < cursor.end) {
        if (!skip_empty_line(reader, &cursor)) {
            TRY(read_row(reader, &cursor));
        }
    }
    return BERTH_OK;
}
