// SPDX-License-Identifier: Apache-2.0
// From the rows of a table to examples: which rows, which texts, and what their labels mean.
// Renumbering classes and their place in config.json are in pair_labels.c.
#include "data/pairs.h"

#include "core/memory.h"
#include "core/number.h"
#include "data/pair_labels.h"
#include "data/table_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_COLUMN SIZE_MAX

struct reader {
    const struct pair_settings *settings;
    struct table *table;
    struct pair_dataset *dataset;
    struct pair_storage *storage;
    size_t text, pair, label, only; // columns
    size_t *rows;                   // of each example
    const char **texts;             // the label of each example
    struct berth_error *error;
};

// --- columns and rows ---------------------------------------------------------------------------

static enum berth_status find_column(const struct reader *reader, const char *setting,
                                     const char *column, size_t *index) {
    *index = NO_COLUMN;
    return column == NULL ? BERTH_OK
                          : table_column(reader->table, setting, column, index, reader->error);
}

static enum berth_status find_columns(struct reader *reader) {
    const struct pair_settings *settings = reader->settings;
    TRY(find_column(reader, "text_column", settings->text_column, &reader->text));
    TRY(find_column(reader, "text_pair_column", settings->text_pair_column, &reader->pair));
    TRY(find_column(reader, "only_column", settings->only_column, &reader->only));
    reader->label = NO_COLUMN;
    if (settings->label_optional && settings->label_column != NULL &&
        table_find(reader->table, settings->label_column) == SIZE_MAX) {
        return BERTH_OK;
    }
    return find_column(reader, "label_column", settings->label_column, &reader->label);
}

static enum berth_status take_row(struct reader *reader, size_t row) {
    const struct table *table = reader->table;
    struct pair_example *example = &reader->dataset->examples[reader->dataset->count];
    const char *only = NULL, *label = NULL;
    if (reader->only != NO_COLUMN) {
        TRY(table_text(table, row, reader->only, &only, reader->error));
        if (strcmp(only, reader->settings->only_value) != 0) {
            return BERTH_OK;
        }
    }
    *example = (struct pair_example){.line = table->lines[row], .label = -1, .value = NAN};
    TRY(table_text(table, row, reader->text, &example->text, reader->error));
    if (reader->pair != NO_COLUMN) {
        TRY(table_text(table, row, reader->pair, &example->pair, reader->error));
    }
    if (reader->label != NO_COLUMN) {
        TRY(table_text(table, row, reader->label, &label, reader->error));
        if (label[0] == '\0') {
            return table_error(table, row, reader->label, reader->error, "the label is empty");
        }
    }
    reader->rows[reader->dataset->count] = row;
    reader->texts[reader->dataset->count++] = label;
    return BERTH_OK;
}

static enum berth_status take_rows(struct reader *reader) {
    size_t rows = reader->table->row_count;
    reader->dataset->examples = memory_array(rows, sizeof *reader->dataset->examples);
    reader->rows = memory_array(rows, sizeof *reader->rows);
    reader->texts = memory_array(rows, sizeof *reader->texts);
    if (reader->dataset->examples == NULL || reader->rows == NULL || reader->texts == NULL) {
        return error_no_memory(reader->error, rows * sizeof *reader->dataset->examples,
                               "the examples");
    }
    for (size_t row = 0; row < rows; row++) {
        TRY(take_row(reader, row));
    }
    if (reader->dataset->count == 0) {
        return error_set(reader->error, BERTH_BAD_DATA,
                         "%s: none of the %zu rows has \"%.*s\" in column \"%s\"",
                         reader->table->name, rows, table_shown(reader->settings->only_value),
                         reader->settings->only_value, reader->settings->only_column);
    }
    return BERTH_OK;
}

// --- real labels --------------------------------------------------------------------------------

static int are_real(const struct reader *reader) {
    int fraction = 0;
    double value;
    int64_t integer;
    for (size_t i = 0; i < reader->dataset->count; i++) {
        if (!number_parse_real(reader->texts[i], &value)) {
            return 0;
        }
        fraction |= !number_parse_integer(reader->texts[i], &integer);
    }
    return fraction;
}

static enum berth_status take_values(struct reader *reader) {
    const struct pair_settings *settings = reader->settings;
    for (size_t i = 0; i < reader->dataset->count; i++) {
        double *value = &reader->dataset->examples[i].value;
        const char *text = reader->texts[i];
        if (!number_parse_real(text, value)) {
            return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                               "expected a number, found \"%.*s\"", table_shown(text), text);
        }
        if (settings->least < settings->most &&
            !(*value >= settings->least && *value <= settings->most)) {
            return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                               "expected a number from %g to %g, found %.*s", settings->least,
                               settings->most, table_shown(text), text);
        }
    }
    return BERTH_OK;
}

// --- classes ------------------------------------------------------------------------------------

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_integer(const void *a, const void *b) {
    int64_t x = 0, y = 0;
    number_parse_integer(*(const char *const *)a, &x);
    number_parse_integer(*(const char *const *)b, &y);
    return x != y ? (x > y) - (x < y) : by_bytes(a, b);
}

static int are_integers(const struct reader *reader) {
    int64_t integer;
    for (size_t i = 0; i < reader->dataset->count; i++) {
        if (!number_parse_integer(reader->texts[i], &integer)) {
            return 0;
        }
    }
    return 1;
}

// The different labels of the file, sorted, become the classes.
static enum berth_status collect_classes(struct reader *reader) {
    size_t count = reader->dataset->count, kept = 0;
    int (*order)(const void *, const void *) = are_integers(reader) ? by_integer : by_bytes;
    const char **names = memory_array(count, sizeof *names);
    if (names == NULL) {
        return error_no_memory(reader->error, count * sizeof *names, "the labels");
    }
    memcpy(names, reader->texts, count * sizeof *names);
    qsort(names, count, sizeof *names, order);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0) {
            names[kept++] = names[i];
        }
    }
    reader->storage->labels = names;
    reader->dataset->labels = names;
    reader->dataset->label_count = kept;
    for (size_t i = 0; i < count; i++) {
        const char **found = bsearch(&reader->texts[i], names, kept, sizeof *names, order);
        reader->dataset->examples[i].label = (int32_t)(found - names);
    }
    return BERTH_OK;
}

static int32_t class_of(const struct pair_settings *settings, const char *text) {
    for (size_t i = 0; i < settings->label_count; i++) {
        const struct pair_label *label = &settings->labels[i];
        if (strcmp(text, label->text) == 0 || strcmp(text, label->name) == 0 ||
            (label->also != NULL && strcmp(text, label->also) == 0)) {
            return (int32_t)i;
        }
    }
    return -1;
}

static enum berth_status take_classes(struct reader *reader) {
    const struct pair_settings *settings = reader->settings;
    const char **names = memory_array(settings->label_count, sizeof *names);
    if (names == NULL) {
        return error_no_memory(reader->error, settings->label_count * sizeof *names, "the labels");
    }
    reader->storage->labels = names;
    reader->dataset->labels = names;
    reader->dataset->label_count = settings->label_count;
    for (size_t i = 0; i < settings->label_count; i++) {
        names[i] = settings->labels[i].text;
    }
    for (size_t i = 0; i < reader->dataset->count; i++) {
        const char *text = reader->texts[i];
        int32_t label = class_of(settings, text);
        if (label < 0) {
            char known[256];
            pair_labels_list(names, settings->label_count, known, sizeof known);
            return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                               "the label \"%.*s\" is not one of the task's: %s", table_shown(text),
                               text, known);
        }
        reader->dataset->examples[i].label = label;
    }
    for (size_t i = 0; i < settings->label_count; i++) {
        names[i] = settings->labels[i].name;
    }
    return BERTH_OK;
}

// --- the whole ----------------------------------------------------------------------------------

static enum berth_status take_labels(struct reader *reader) {
    enum pair_target target = reader->settings->target;
    reader->dataset->target = PAIR_CLASS;
    reader->dataset->has_labels = reader->label != NO_COLUMN;
    if (!reader->dataset->has_labels) {
        return BERTH_OK;
    }
    if (target == PAIR_REAL || (target == PAIR_AUTO && are_real(reader))) {
        reader->dataset->target = PAIR_REAL;
        return take_values(reader);
    }
    return reader->settings->labels != NULL ? take_classes(reader) : collect_classes(reader);
}

static enum berth_status take_table(struct reader *reader) {
    TRY(find_columns(reader));
    TRY(take_rows(reader));
    return take_labels(reader);
}

// Takes the table over, in every case.
static enum berth_status read_table(struct table *table, const struct pair_settings *settings,
                                    struct pair_dataset *dataset, struct berth_error *error) {
    struct pair_storage *storage = memory_array_zeroed(1, sizeof *storage);
    if (storage == NULL) {
        table_done(table);
        return error_no_memory(error, sizeof *storage, "a data set");
    }
    storage->table = *table;
    *dataset = (struct pair_dataset){.left_out = table->left_out,
                                     .left_out_line = table->left_out_line,
                                     .name = table->name,
                                     .storage = storage};
    struct reader reader = {.settings = settings,
                            .table = &storage->table,
                            .dataset = dataset,
                            .storage = storage,
                            .error = error};
    enum berth_status status = take_table(&reader);
    memory_free(reader.rows);
    memory_free(reader.texts);
    if (status != BERTH_OK) {
        pair_dataset_done(dataset);
    }
    return status;
}

enum berth_status pairs_read_memory(const char *name, const char *bytes, size_t length,
                                    const struct pair_settings *settings,
                                    struct pair_dataset *dataset, struct berth_error *error) {
    struct table table;
    *dataset = (struct pair_dataset){0};
    TRY(table_read_memory(name, bytes, length, &settings->table, &table, error));
    return read_table(&table, settings, dataset, error);
}

enum berth_status pairs_read(const char *path, const struct pair_settings *settings,
                             struct pair_dataset *dataset, struct berth_error *error) {
    struct table table;
    *dataset = (struct pair_dataset){0};
    TRY(table_read(path, &settings->table, &table, error));
    return read_table(&table, settings, dataset, error);
}

void pair_dataset_done(struct pair_dataset *dataset) {
    struct pair_storage *storage = dataset->storage;
    if (storage != NULL) {
        table_done(&storage->table);
        memory_free(storage->labels);
        memory_free(storage);
        memory_free(dataset->examples);
    }
    *dataset = (struct pair_dataset){0};
}
