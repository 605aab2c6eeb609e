// SPDX-License-Identifier: Apache-2.0
// Reads words and tags from JSON lines, each with one list of both, into a data set of tagged.c.
// Lines are read as a table (data/tables/table.h), whose cells the words borrow from.
#include "data/tagging/tagged_reader.h"

#include <string.h>

#define NO_COLUMN SIZE_MAX

static size_t default_column(const struct table *table, const char *const defaults[3]) {
    size_t column = NO_COLUMN;
    for (size_t i = 0; i < 3 && column == NO_COLUMN; i++) {
        column = table_find(table, defaults[i]);
    }
    return column;
}

// The column `name`; if that is NULL, the first of the default columns.
static enum berth_status find_column(const struct tagged_reader *reader, const char *setting,
                                     const char *name, const char *const defaults[3],
                                     size_t *column) {
    const struct table *table = &reader->storage->table;
    *column = name == NULL ? default_column(table, defaults) : NO_COLUMN;
    return *column != NO_COLUMN ? BERTH_OK
                                : table_column(table, setting, name != NULL ? name : defaults[0],
                                               column, reader->error);
}

static enum berth_status find_columns(struct tagged_reader *reader, size_t *words, size_t *tags) {
    static const char *const word_names[3] = {"tokens", "words", "tokens"};
    static const char *const tag_names[3] = {"ner_tags", "tags", "labels"};
    const struct tagged_settings *settings = reader->settings;
    const char *tag = settings->tag_column;
    TRY(find_column(reader, "text_column", settings->word_column, word_names, words));
    *tags = NO_COLUMN;
    if (tag != NULL && strcmp(tag, "0") == 0) {
        return BERTH_OK;
    }
    if (tag == NULL && settings->tag_optional) {
        *tags = default_column(&reader->storage->table, tag_names);
        return BERTH_OK;
    }
    return find_column(reader, "label_column", tag, tag_names, tags);
}

// In a file to predict, a column without any tag counts as missing.
static void ignore_empty_tags(struct tagged_reader *reader, size_t *tags) {
    const struct table *table = &reader->storage->table;
    size_t row = 0;
    while (row < table->row_count && (table_is_empty(table, row, *tags) ||
                                      (table_list(table, row, *tags) != NULL &&
                                       json_length(table_list(table, row, *tags)) == 0))) {
        row++;
    }
    if (row == table->row_count) {
        reader->dataset->empty_tag_column = table->columns[*tags];
        *tags = NO_COLUMN;
    }
}

static enum berth_status list_at(const struct tagged_reader *reader, size_t row, size_t column,
                                 const json **list) {
    const struct table *table = &reader->storage->table;
    *list = table_list(table, row, column);
    return *list != NULL
               ? BERTH_OK
               : table_error(table, row, column, reader->error,
                             "expected an array of strings, such as [\"EU\", \"rejects\"]");
}

static enum berth_status text_at(const struct tagged_reader *reader, size_t row, size_t column,
                                 const json *entry, const char **text) {
    *text = json_text(entry);
    return *text != NULL && (*text)[0] != '\0'
               ? BERTH_OK
               : table_error(&reader->storage->table, row, column, reader->error,
                             "expected strings that are not empty");
}

static enum berth_status read_row(struct tagged_reader *reader, size_t row, size_t word_column,
                                  size_t tag_column) {
    const struct table *table = &reader->storage->table;
    const json *words, *tags = NULL;
    const char *word, *tag = NULL;
    TRY(list_at(reader, row, word_column, &words));
    if (reader->has_tags) {
        TRY(list_at(reader, row, tag_column, &tags));
        if (json_length(words) != json_length(tags)) {
            return table_error(table, row, tag_column, reader->error,
                               "%zu tags for %zu words; expected one for each", json_length(tags),
                               json_length(words));
        }
    }
    TRY(tagged_reader_begin_sentence(reader, table->lines[row]));
    for (size_t i = 0; i < json_length(words); i++) {
        TRY(text_at(reader, row, word_column, json_at(words, i), &word));
        if (reader->has_tags) {
            TRY(text_at(reader, row, tag_column, json_at(tags, i), &tag));
        }
        TRY(tagged_reader_add_word(reader, word, tag));
    }
    return BERTH_OK;
}

enum berth_status tagged_read_json(struct tagged_reader *reader, const char *path) {
    static const struct table_options options = {.format = TABLE_JSON_LINES};
    struct table *table = &reader->storage->table;
    size_t words, tags;
    TRY(table_read(path, &options, table, reader->error));
    TRY(find_columns(reader, &words, &tags));
    if (reader->settings->tag_optional && tags != NO_COLUMN) {
        ignore_empty_tags(reader, &tags);
    }
    reader->has_tags = tags != NO_COLUMN;
    for (size_t row = 0; row < table->row_count && !tagged_reader_is_full(reader); row++) {
        TRY(read_row(reader, row, words, tags));
    }
    return BERTH_OK;
}
