// SPDX-License-Identifier: Apache-2.0
// Reads tables: checks common to all formats, ownership, and look-ups. table_delimited.c and
// table_json.c parse their formats. Tasks and jobs on tables open them here.
#include "data/tables/table.h"

#include "core/caseless.h"
#include "core/compressed.h"
#include "core/encoding.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/string_index.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "data/tables/label_names.h"
#include "data/tables/table_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TABLE_FILE_LIMIT ((size_t)4 << 30)
#define TABLE_LINE_LIMIT ((size_t)64 << 20)

struct storage {
    char *name, *bytes;
    json *json_rows, *json_columns;
    size_t *lines;
};

// --- checks of the bytes ------------------------------------------------------------------------

// Sets the error for the byte at `offset` of the text.
static enum berth_status byte_error(const struct table_reader *reader, size_t offset,
                                    const char *problem) {
    size_t line = 1, begin = 0;
    for (size_t i = 0; i < offset; i++) {
        if (reader->text[i] == '\n') {
            line++;
            begin = i + 1;
        }
    }
    return error_set(reader->error, BERTH_BAD_DATA, "%s: line %zu, column %lld (byte %zu): %s",
                     reader->name, line,
                     (long long)utf8_count(reader->text + begin, offset - begin) + 1,
                     offset + reader->mark_bytes, problem);
}

// Refuses lines that are too long for any table.
static enum berth_status check_lines(const struct table_reader *reader) {
    const char *end = reader->text + reader->length, *next;
    for (const char *line = reader->text; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline != NULL ? newline + 1 : end;
        if ((size_t)(next - line) > TABLE_LINE_LIMIT) {
            return byte_error(reader, (size_t)(line - reader->text),
                              "a line longer than 64 MiB; expected one row per line");
        }
    }
    return BERTH_OK;
}

static enum berth_status check_bytes(struct table_reader *reader) {
    const size_t valid = utf8_text_prefix(reader->text, reader->length);
    if (valid < reader->length) {
        return byte_error(reader, valid,
                          reader->text[valid] == '\0'
                              ? "a NUL byte; expected a text file: is it damaged?"
                              : "not UTF-8; save the file as UTF-8");
    }
    TRY(check_lines(reader));
    if (strspn(reader->text, " \t\r\n") == reader->length) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: the file is empty; expected a table with one row per line",
                         reader->name);
    }
    return BERTH_OK;
}

static enum berth_status check_column(const struct table_reader *reader, size_t column,
                                      struct string_index *before) {
    const char *name = reader->columns.items[column];
    const uint32_t number = string_index_put(before, name, strlen(name));
    return number == STRING_INDEX_NONE
               ? error_no_memory(reader->error, before->count * sizeof *before->starts, "a header")
           : number < column
               ? error_set(
                     reader->error, BERTH_BAD_DATA,
                     "%s: line 1: duplicate column \"%.*s\" in the header (columns %zu and %zu)",
                     reader->name, UTF8_SHOWN(name, TABLE_SHOWN), (size_t)number + 1, column + 1)
               : BERTH_OK;
}

// --- the whole ----------------------------------------------------------------------------------

static enum berth_status read_rows(struct table_reader *reader) {
    TRY(check_bytes(reader));
    TRY(reader->options->format == TABLE_JSON_LINES ? table_read_json_lines(reader)
                                                    : table_read_delimited(reader));
    struct string_index before = {0};
    enum berth_status status = BERTH_OK;
    const size_t count = reader->json_columns == NULL ? reader->columns.count : 0;
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = check_column(reader, i, &before);
    }
    string_index_done(&before);
    TRY(status);
    if (reader->row_count == 0) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: the table has no rows%s; expected one row per line", reader->name,
                         reader->skipped_rows > 0 ? " with as many fields as columns"
                                                  : " after its header");
    }
    return BERTH_OK;
}

// Converts the text to UTF-8 without a byte order mark; may replace the block *bytes.
static enum berth_status normalise(struct table_reader *reader, char **bytes) {
    char *text;
    TRY(encoding_normalise_owned(reader->name, bytes, &text, &reader->length, reader->error));
    reader->text = text;
    reader->mark_bytes = (size_t)(text - *bytes);
    return BERTH_OK;
}

// Takes ownership of `bytes` (NUL-terminated), even on failure.
static enum berth_status read_owned(const char *name, char *bytes, size_t length,
                                    const struct table_options *options, struct table *table,
                                    struct berth_error *error) {
    struct table_reader reader = {
        .name = name, .options = options, .text = bytes, .length = length, .error = error};
    struct storage *storage = memory_array_zeroed(1, sizeof *storage);
    char *kept_name = memory_string(name);
    enum berth_status status = storage == NULL || kept_name == NULL
                                   ? error_no_memory(error, sizeof *storage, "a table")
                                   : normalise(&reader, &bytes);
    if (status == BERTH_OK) {
        status = read_rows(&reader);
    }
    if (storage == NULL) {
        memory_free(bytes);
        memory_free(kept_name);
        return status;
    }
    *storage = (struct storage){.name = kept_name,
                                .bytes = bytes,
                                .json_rows = reader.json_rows,
                                .json_columns = reader.json_columns,
                                .lines = reader.lines};
    *table = (struct table){.name = storage->name,
                            .format = options->format,
                            .columns = reader.columns.items,
                            .column_count = reader.columns.count,
                            .row_count = reader.row_count,
                            .skipped_rows = reader.skipped_rows,
                            .skipped_line = reader.skipped_line,
                            .lines = reader.lines,
                            .cells = reader.cells.items,
                            .json_rows = reader.json_rows,
                            .storage = storage};
    if (status != BERTH_OK) {
        table_done(table);
    }
    return status;
}

enum berth_status table_read_memory(const char *name, const char *bytes, size_t length,
                                    const struct table_options *options, struct table *table,
                                    struct berth_error *error) {
    *table = (struct table){0};
    char *copy = memory_string_of(bytes, length);
    if (copy == NULL) {
        return error_no_memory(error, length, name);
    }
    return read_owned(name, copy, length, options, table, error);
}

enum berth_status table_read(const char *path, const struct table_options *options,
                             struct table *table, struct berth_error *error) {
    char *bytes;
    size_t length;
    *table = (struct table){0};
    TRY(file_read(path, TABLE_FILE_LIMIT, &bytes, &length, error));
    return read_owned(path, bytes, length, options, table, error);
}

void table_done(struct table *table) {
    memory_free(table->columns);
    memory_free(table->cells);
    struct storage *storage = table->storage;
    if (storage != NULL) {
        json_free(storage->json_rows);
        json_free(storage->json_columns);
        memory_free(storage->lines);
        memory_free(storage->bytes);
        memory_free(storage->name);
        memory_free(storage);
    }
    *table = (struct table){0};
}

// --- looking things up --------------------------------------------------------------------------

// Finds the format by the ending of the first `length` bytes of the path; returns 0 if it is
// unknown.
static int find_format(const char *path, size_t length, enum table_format *format) {
    static const struct {
        const char *extension;
        enum table_format format;
    } extensions[] = {{".tsv", TABLE_TSV},           {".txt", TABLE_TSV},
                      {".csv", TABLE_CSV},           {".jsonl", TABLE_JSON_LINES},
                      {".ndjson", TABLE_JSON_LINES}, {".json", TABLE_JSON_LINES}};
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
        const size_t own = strlen(extensions[i].extension);
        if (length >= own &&
            caseless_equal_bytes(path + length - own, extensions[i].extension, own)) {
            *format = extensions[i].format;
            return 1;
        }
    }
    return 0;
}

enum berth_status table_format_of(const char *path, enum table_format *format,
                                  struct berth_error *error) {
    const char *dot = strrchr(path, '.');
    if (find_format(path, strlen(path), format)) {
        return BERTH_OK;
    }
    if (dot != NULL && find_format(path, (size_t)(dot - path), format)) { // train.csv.gz
        TRY(compressed_refuse_file(path, error));
    }
    return error_set(error, BERTH_USAGE,
                     "%s: unknown file format; expected a name that ends in .tsv, .txt (tabs), "
                     ".csv, .jsonl, .ndjson or .json (JSON lines)",
                     path);
}

size_t table_find(const struct table *table, const char *column) {
    for (size_t i = 0; i < table->column_count; i++) {
        if (strcmp(table->columns[i], column) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

int table_is_score(const char *column) {
    return words_contain("score scores label labels", ' ', column);
}

size_t table_next_text(const struct table *table, size_t index) {
    while (index < table->column_count && (table->columns[index][0] == '\0' ||
                                           words_contain("id idx", ' ', table->columns[index]) ||
                                           table_list(table, 0, index) != NULL)) {
        index++;
    }
    return index < table->column_count ? index : SIZE_MAX;
}

static const char *nearest_column(const struct table *table, const char *column) {
    const char *nearest = NULL;
    unsigned min_distance = ~0u;
    for (size_t i = 0; i < table->column_count; i++) {
        unsigned distance = option_distance(column, table->columns[i]);
        if (distance < min_distance) {
            min_distance = distance;
            nearest = table->columns[i];
        }
    }
    return nearest != NULL && option_is_near(column, min_distance) ? nearest : NULL;
}

// What to say of a header that was not split into columns. The files of GLUE have tabs, whatever
// their names.
static const char *separators(const struct table *table) {
    enum table_format by_name;
    if (table->column_count != 1 || strpbrk(table->columns[0], ",;\t|") == NULL) {
        return "";
    }
    const int has_other_name =
        table_format_of(table->name, &by_name, NULL) == BERTH_OK && by_name != TABLE_TSV;
    return table->format == TABLE_TSV && has_other_name
               ? "; expected tabs between the columns, as in GLUE's files; without task_name, "
                 "the ending of the name decides"
               : "; expected commas between the columns of a .csv file, tabs otherwise";
}

enum berth_status table_column(const struct table *table, const char *setting, const char *column,
                               size_t *index, struct berth_error *error) {
    *index = table_find(table, column);
    if (*index != SIZE_MAX) {
        return BERTH_OK;
    }
    char columns[512], hint[TABLE_SHOWN + 32] = "";
    const char *near = nearest_column(table, column);
    if (near != NULL) {
        snprintf(hint, sizeof hint, "did you mean \"%.*s\"? ", UTF8_SHOWN(near, TABLE_SHOWN));
    }
    const struct label_names all = {table->columns, table->column_count};
    label_names_list(&all, columns, sizeof columns);
    return error_set(error, BERTH_BAD_DATA,
                     "%s: line 1: %s: no column \"%.*s\"; %sthe file has %s%s", table->name,
                     setting, UTF8_SHOWN(column, TABLE_SHOWN), hint, columns, separators(table));
}

enum berth_status table_error(const struct table *table, size_t row, size_t column,
                              struct berth_error *error, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return error_set(error, BERTH_BAD_DATA, "%s: line %zu, column \"%.*s\": %s", table->name,
                     table->lines[row], UTF8_SHOWN(table->columns[column], TABLE_SHOWN), message);
}

static const json *value_at(const struct table *table, size_t row, size_t column) {
    return json_member(json_at(table->json_rows, row), table->columns[column]);
}

int table_is_empty(const struct table *table, size_t row, size_t column) {
    if (table->json_rows == NULL) {
        return table->cells[row * table->column_count + column][0] == '\0';
    }
    const json *value = value_at(table, row, column);
    return value == NULL || json_is_null_value(value) ||
           (json_is_text(value) && json_text_length(value) == 0);
}

const json *table_list(const struct table *table, size_t row, size_t column) {
    const json *value = table->json_rows == NULL ? NULL : value_at(table, row, column);
    return json_is_array_value(value) ? value : NULL;
}

enum berth_status table_text(const struct table *table, size_t row, size_t column,
                             const char **text, struct berth_error *error) {
    if (table->json_rows == NULL) {
        *text = table->cells[row * table->column_count + column];
        return BERTH_OK;
    }
    const json *value = value_at(table, row, column);
    *text = json_text(value);
    if (*text != NULL) {
        return BERTH_OK;
    }
    return table_error(table, row, column, error, "expected a string or a number, found %s",
                       value == NULL                ? "nothing"
                       : json_is_null_value(value)  ? "null"
                       : json_is_array_value(value) ? "an array"
                                                    : "a nested array or object");
}
