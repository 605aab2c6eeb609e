// SPDX-License-Identifier: Apache-2.0
// Reads JSON lines, one object per line, or one array of objects that may span lines. Numbers are
// converted to text while reading, so that cells can be borrowed. Called by table.c, which then
// checks the table.
#include "core/memory.h"
#include "core/utf8.h"
#include "data/tables/table_reader.h"

#include <string.h>

#define EXPECTED                                                                                   \
    "expected one JSON object per line, such as {\"text\": \"...\", \"label\": \"...\"}"

static json *cell_of(const json *value);

// The stored form of an array: the stored forms of its entries; if one of them is nested, that of
// an object.
static json *list_of(const json *value) {
    json *list = json_new_array();
    for (size_t i = 0; i < json_length(value); i++) {
        const json *entry = json_at(value, i);
        if (json_is_array_value(entry) || json_is_object_value(entry)) {
            json_free(list);
            return json_new_object();
        }
        if (json_append(list, cell_of(entry)) != 0) {
            json_free(list);
            return NULL;
        }
    }
    return list;
}

// The stored form of a value: strings and null as they are, numbers, true and false as text, arrays
// of these, objects as empty objects. NULL when out of memory.
static json *cell_of(const json *value) {
    if (json_is_text(value) || json_is_null_value(value)) {
        return json_copy_deep(value);
    }
    if (json_is_array_value(value) || json_is_object_value(value)) {
        return json_is_array_value(value) ? list_of(value) : json_new_object();
    }
    char *text = json_write(value, JSON_COMPACT);
    json *cell = text != NULL ? json_new_text(text) : NULL;
    memory_free(text);
    return cell;
}

static enum berth_status no_memory(const struct table_reader *reader) {
    return error_no_memory(reader->error, reader->length, "a table of JSON lines");
}

// Adds a column for a new key; json_columns owns its name.
static enum berth_status add_column(struct table_reader *reader, const char *key) {
    if (json_member(reader->json_columns, key) != NULL) {
        return BERTH_OK;
    }
    json *name = json_new_text(key);
    if (json_set(reader->json_columns, key, name) != 0) {
        return no_memory(reader);
    }
    return table_reader_add(reader, &reader->columns, json_text(name));
}

static int text_has_nul(const json *value) {
    return json_is_text(value) && strlen(json_text(value)) != json_text_length(value);
}

static enum berth_status copy_row(struct table_reader *reader, const json *object, json *row,
                                  size_t line) {
    struct json_walk walk = {.object = object};
    while (json_walk_next(&walk)) {
        // A string with a NUL, also in an array, is not stored; nothing deeper is.
        int found = text_has_nul(walk.value);
        for (size_t i = 0; json_is_array_value(walk.value) && i < json_length(walk.value); i++) {
            found |= text_has_nul(json_at(walk.value, i));
        }
        if (found) {
            return error_set(reader->error, BERTH_BAD_DATA,
                             "%s: line %zu, column \"%.*s\": a string contains U+0000; remove it",
                             reader->name, line, UTF8_SHOWN(walk.key, TABLE_SHOWN));
        }
        TRY(add_column(reader, walk.key));
        if (json_set(row, walk.key, cell_of(walk.value)) != 0) {
            return no_memory(reader);
        }
    }
    return BERTH_OK;
}

static enum berth_status add_object(struct table_reader *reader, const json *object, size_t line) {
    if (!json_is_object_value(object)) {
        return error_set(reader->error, BERTH_BAD_DATA, "%s: line %zu, column 1: " EXPECTED,
                         reader->name, line);
    }
    json *row = json_new_object();
    if (json_append(reader->json_rows, row) != 0) {
        return no_memory(reader);
    }
    TRY(copy_row(reader, object, row, line));
    return table_reader_add_row(reader, line);
}

// Parses the object that begins in `line` and adds it as a row.
static enum berth_status read_object(struct table_reader *reader, const char *bytes, size_t length,
                                     size_t line) {
    json *object = NULL;
    struct berth_error problem = {0};
    enum berth_status status = json_read_memory("JSON", bytes, length, &object, &problem);
    if (status == BERTH_NO_MEMORY) {
        return no_memory(reader);
    }
    if (status != BERTH_OK) {
        return error_line(reader->error, status, reader->name, line,
                          "%s; " EXPECTED
                          ", with no comma after it and no NaN, or one array of them",
                          problem.message);
    }
    status = add_object(reader, object, line);
    json_free(object);
    return status;
}

static int is_blank(const char *bytes, size_t length) {
    size_t i = 0;
    while (i < length && memchr(" \t\r", bytes[i], 3) != NULL) {
        i++;
    }
    return i == length;
}

// --- an array of objects ------------------------------------------------------------------------

// A position in the text and its line.
struct cursor {
    const char *at;
    size_t line;
};

static void advance(struct cursor *cursor, size_t bytes) {
    for (const char *end = cursor->at + bytes; cursor->at < end; cursor->at++) {
        cursor->line += *cursor->at == '\n';
    }
}

static void skip_blanks(struct cursor *cursor) {
    advance(cursor, strspn(cursor->at, " \t\r\n"));
}

static enum berth_status array_error(const struct table_reader *reader, const struct cursor *cursor,
                                     const char *expected) {
    const int ends = *cursor->at == '\0';
    const size_t character = ends ? 0 : utf8_skip(cursor->at, strnlen(cursor->at, 4), 1);
    return error_line(reader->error, BERTH_BAD_DATA, reader->name, cursor->line,
                      "expected %s in the array of rows, found %s%.*s%s", expected,
                      ends ? "the end of the file" : "\"", (int)character, cursor->at,
                      ends ? "" : "\"");
}

// Reads the object at the cursor, and the comma or bracket after it; *is_last: it was a bracket.
static enum berth_status read_entry(struct table_reader *reader, struct cursor *cursor,
                                    int *is_last) {
    skip_blanks(cursor);
    if (*cursor->at != '{') {
        return array_error(reader, cursor, "an object such as {\"text\": \"...\"}");
    }
    const char *end = reader->text + reader->length;
    const size_t length = json_first_end(cursor->at, (size_t)(end - cursor->at));
    TRY(read_object(reader, cursor->at, length, cursor->line));
    advance(cursor, length);
    skip_blanks(cursor);
    *is_last = *cursor->at == ']';
    if (*cursor->at != ',' && !*is_last) {
        return array_error(reader, cursor, "a comma or ]");
    }
    advance(cursor, 1);
    return BERTH_OK;
}

enum berth_status table_read_json_lines(struct table_reader *reader) {
    struct cursor cursor = {.at = reader->text, .line = 1};
    reader->json_rows = json_new_array();
    reader->json_columns = json_new_object();
    if (reader->json_rows == NULL || reader->json_columns == NULL) {
        return no_memory(reader);
    }
    skip_blanks(&cursor);
    if (*cursor.at != '[') {
        size_t line = 1;
        for (size_t at = 0; at < reader->length; line++) {
            size_t length = strcspn(reader->text + at, "\n");
            if (!is_blank(reader->text + at, length)) {
                TRY(read_object(reader, reader->text + at, length, line));
            }
            at += length + 1;
        }
        return BERTH_OK;
    }
    advance(&cursor, 1);
    int is_last = 0;
    while (!is_last) {
        TRY(read_entry(reader, &cursor, &is_last));
    }
    skip_blanks(&cursor);
    return *cursor.at == '\0' ? BERTH_OK
                              : error_line(reader->error, BERTH_BAD_DATA, reader->name, cursor.line,
                                           "text after the array of rows");
}
