// SPDX-License-Identifier: Apache-2.0
// Turns the rows of a table into examples: selects rows and columns, and interprets labels.
// pair_labels.c renumbers classes and handles their entries in config.json. Called by the task
// classify when it opens a set.
#include "data/pairs/pairs.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "data/pairs/pair_labels.h"
#include "data/tables/label_names.h"
#include "data/tables/table_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_COLUMN SIZE_MAX
#define NUMBER_SIZE 64 // bytes of a number after its blanks are stripped

struct reader {
    const struct pair_settings *settings;
    struct table *table;
    struct pair_dataset *dataset;
    struct pair_storage *storage;
    size_t text, pair, label, filter; // columns
    size_t *rows;                     // of each example
    const char **texts;               // the label of each example; NULL: a JSON array
    int is_multi_label;
    struct berth_error *error;
};

// --- columns and rows ---------------------------------------------------------------------------

static enum berth_status find_column(const struct reader *reader, const char *setting,
                                     const char *column, size_t *index) {
    *index = NO_COLUMN;
    return column == NULL ? BERTH_OK
                          : table_column(reader->table, setting, column, index, reader->error);
}

// The first column from `index` on that may contain texts.
static size_t next_text(const struct reader *reader, size_t index) {
    const size_t found = table_next_text(reader->table, index);
    return found == reader->label && found != NO_COLUMN ? next_text(reader, found + 1) : found;
}

// The name of the label's column. Degrees may be called scores, too.
static const char *label_name(const struct reader *reader) {
    const struct table *table = reader->table;
    size_t i = 0;
    if (reader->settings->label_column != NULL) {
        return reader->settings->label_column;
    }
    while (i < table->column_count && !table_is_score(table->columns[i])) {
        i++;
    }
    return reader->settings->target == PAIR_DEGREE && i < table->column_count ? table->columns[i]
                                                                              : "label";
}

static enum berth_status guess_columns(struct reader *reader) {
    const struct pair_settings *settings = reader->settings;
    const char *label = label_name(reader);
    reader->filter = NO_COLUMN;
    reader->label = table_find(reader->table, label);
    if (reader->label == NO_COLUMN && !settings->label_optional) {
        return find_column(reader, "label_column", label, &reader->label);
    }
    reader->text = table_find(reader->table, "sentence1");
    reader->pair = table_find(reader->table, "sentence2");
    if (reader->text == NO_COLUMN || reader->pair == NO_COLUMN) {
        reader->text = next_text(reader, 0);
        reader->pair = reader->text != NO_COLUMN ? next_text(reader, reader->text + 1) : NO_COLUMN;
    }
    return reader->text != NO_COLUMN
               ? BERTH_OK
               : error_set(reader->error, BERTH_BAD_DATA,
                           "%s: no text column besides the label; name one with text_column",
                           reader->table->name);
}

static enum berth_status find_columns(struct reader *reader) {
    const struct pair_settings *settings = reader->settings;
    if (settings->text_column == NULL) {
        return guess_columns(reader);
    }
    TRY(find_column(reader, "text_column", settings->text_column, &reader->text));
    TRY(find_column(reader, "text_pair_column", settings->text_pair_column, &reader->pair));
    TRY(find_column(reader, "filter_column", settings->filter_column, &reader->filter));
    reader->label = NO_COLUMN;
    if (settings->label_optional && settings->label_column != NULL &&
        table_find(reader->table, settings->label_column) == SIZE_MAX) {
        return BERTH_OK;
    }
    return find_column(reader, "label_column", settings->label_column, &reader->label);
}

static const char *column_name(const struct reader *reader, size_t column) {
    return column != NO_COLUMN ? reader->table->columns[column] : NULL;
}

// The text of a row's label; NULL for an array of labels.
static enum berth_status read_label(const struct reader *reader, size_t row, const char **label) {
    const struct table *table = reader->table;
    if (reader->is_multi_label && table_list(table, row, reader->label) != NULL) {
        *label = NULL;
        return BERTH_OK;
    }
    if (!reader->is_multi_label && table_is_empty(table, row, reader->label)) {
        return table_error(table, row, reader->label, reader->error, "the label is empty%s",
                           reader->dataset->label_remedy);
    }
    return table_text(table, row, reader->label, label, reader->error);
}

static enum berth_status read_row(struct reader *reader, size_t row) {
    const struct table *table = reader->table;
    struct pair_example *example = &reader->dataset->examples[reader->dataset->count];
    const char *filter = NULL, *label = NULL;
    if (reader->filter != NO_COLUMN) {
        TRY(table_text(table, row, reader->filter, &filter, reader->error));
        if (strcmp(filter, reader->settings->filter_value) != 0) {
            return BERTH_OK;
        }
    }
    *example = (struct pair_example){
        .line = table->lines[row], .label = -1, .value = NAN, .label_count = -1};
    TRY(table_text(table, row, reader->text, &example->text, reader->error));
    if (reader->pair != NO_COLUMN) {
        TRY(table_text(table, row, reader->pair, &example->pair, reader->error));
    }
    if (reader->label != NO_COLUMN) {
        TRY(read_label(reader, row, &label));
    }
    reader->rows[reader->dataset->count] = row;
    reader->texts[reader->dataset->count++] = label;
    return BERTH_OK;
}

// --- columns without a label --------------------------------------------------------------------

// Hugging Face's data sets have -1 where the label is not published.
static int has_label(const struct reader *reader, size_t row) {
    const json *list = table_list(reader->table, row, reader->label);
    const char *text;
    double number;
    if (list != NULL || table_is_empty(reader->table, row, reader->label)) {
        return json_length(list) > 0;
    }
    return reader->settings->has_class_minus_one ||
           table_text(reader->table, row, reader->label, &text, NULL) != BERTH_OK ||
           !number_parse_real(text, &number) || number != -1;
}

// --- real labels --------------------------------------------------------------------------------

// If the label is a number with blanks around it, copies the number without them and returns 1.
static int strip_number(const char *text, char number[NUMBER_SIZE]) {
    const size_t before = strspn(text, " \t"), whole = strlen(text);
    size_t length = whole - before;
    double value;
    while (length > 0 && strchr(" \t", text[before + length - 1]) != NULL) {
        length--;
    }
    if (length == whole || length >= NUMBER_SIZE) {
        return 0;
    }
    memcpy(number, text + before, length);
    number[length] = '\0';
    return number_parse_real(number, &value);
}

static enum berth_status strip_numbers(struct reader *reader) {
    char number[NUMBER_SIZE];
    size_t bytes = 0;
    for (size_t i = 0; i < reader->dataset->count; i++) {
        bytes += strip_number(reader->texts[i], number) ? strlen(number) + 1 : 0;
    }
    if (bytes == 0) {
        return BERTH_OK;
    }
    char *to = reader->storage->text = memory_new(bytes);
    if (to == NULL) {
        return error_no_memory(reader->error, bytes, "the labels");
    }
    for (size_t i = 0; i < reader->dataset->count; i++) {
        if (strip_number(reader->texts[i], number)) {
            reader->texts[i] = to;
            to = stpcpy(to, number) + 1;
        }
    }
    return BERTH_OK;
}

// JSON rounds whole numbers beyond 64 bits, so that ids that differ may have become one number.
static enum berth_status check_size(const struct reader *reader, size_t i) {
    double value;
    return !number_parse_real(reader->texts[i], &value) || fabs(value) < 0x1p63
               ? BERTH_OK
               : table_error(reader->table, reader->rows[i], reader->label, reader->error,
                             "%s is beyond 64 bits, where numbers are rounded; write it in quotes "
                             "if it is the name of a class, or choose problem_type regression%s",
                             reader->texts[i], reader->dataset->label_remedy);
}

// Whether the labels are those of a regression: numbers, of which one has a fraction. Fractions
// beside a word may be a regression with an error in it, so they are refused.
static enum berth_status find_regression(const struct reader *reader, int *found) {
    const size_t count = reader->dataset->count;
    size_t word = count, fraction = count; // the first of each
    double value;
    for (size_t i = count; i-- > 0;) {
        const int is_whole = number_is_whole(reader->texts[i]);
        const int is_number = is_whole || number_parse_real(reader->texts[i], &value);
        word = is_number ? word : i;
        fraction = is_number && !is_whole ? i : fraction;
        TRY(is_whole ? BERTH_OK : check_size(reader, i));
    }
    *found = word == count && fraction < count;
    return word == count || fraction == count
               ? BERTH_OK
               : table_error(reader->table, reader->rows[word], reader->label, reader->error,
                             "\"%.*s\" is not a number, but line %zu has %s; correct it, "
                             "or choose problem_type single_label_classification if these are "
                             "classes%s",
                             UTF8_SHOWN(reader->texts[word], TABLE_SHOWN),
                             reader->table->lines[reader->rows[fraction]], reader->texts[fraction],
                             reader->dataset->label_remedy);
}

// --- classes ------------------------------------------------------------------------------------

// Makes the distinct `texts`, sorted, the classes; sets numbers[i] to the class of texts[i].
static enum berth_status collect_classes(struct reader *reader, const char *const *texts,
                                         size_t count, int32_t *numbers) {
    size_t kept = 0;
    const struct label_names labels = {texts, count};
    const label_order order = label_order_of(&labels);
    const char **names = memory_array(count, sizeof *names);
    if (names == NULL) {
        return error_no_memory(reader->error, count * sizeof *names, "the labels");
    }
    memcpy(names, texts, count * sizeof *names);
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
        const char **found = bsearch(&texts[i], names, kept, sizeof *names, order);
        numbers[i] = (int32_t)(found - names);
    }
    return BERTH_OK;
}

static enum berth_status collect_single(struct reader *reader) {
    size_t count = reader->dataset->count;
    int32_t *numbers = memory_array(count, sizeof *numbers);
    if (numbers == NULL) {
        return error_no_memory(reader->error, count * sizeof *numbers, "the labels");
    }
    enum berth_status status = collect_classes(reader, reader->texts, count, numbers);
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        reader->dataset->examples[i].label = numbers[i];
    }
    memory_free(numbers);
    return status;
}

// --- multi-label --------------------------------------------------------------------------------

// The labels of all examples, one after another.
struct label_list {
    const char **texts;
    size_t count, bytes;
    char *to; // where the next separated text goes
};

// An upper bound of the number of labels of example `i`, and the bytes that its text needs.
static size_t count_labels(const struct reader *reader, size_t i, size_t *bytes) {
    const char *text = reader->texts[i];
    size_t count = 1;
    *bytes = 0;
    if (text == NULL) {
        return json_length(table_list(reader->table, reader->rows[i], reader->label));
    }
    for (const char *at = text; *at != '\0'; at++) {
        count += *at == ',';
    }
    *bytes = strlen(text) + 1;
    return count;
}

static enum berth_status copy_list(const struct reader *reader, size_t i,
                                   struct label_list *labels) {
    const json *list = table_list(reader->table, reader->rows[i], reader->label);
    for (size_t k = 0; k < json_length(list); k++) {
        const char *text = json_text(json_at(list, k));
        if (text == NULL || text[0] == '\0') {
            return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                               "expected an array of strings or numbers");
        }
        labels->texts[labels->count++] = text;
    }
    return BERTH_OK;
}

// Whether these are a multi-hot vector (1.0, 0.0, 1.0) instead of labels. "0" and "1", once each,
// may be the labels of two classes.
static int is_multi_hot(const char *const *texts, size_t count) {
    double number = 0;
    size_t i = 0;
    while (i < count && number_parse_real(texts[i], &number) && (number == 0 || number == 1)) {
        i++;
    }
    const int may_be_labels =
        count == 2 && strlen(texts[0]) == 1 && strlen(texts[1]) == 1 && texts[0][0] != texts[1][0];
    return count >= 2 && i == count && !may_be_labels;
}

// Whether these are numbers and one has a fraction: (0.5, 1).
static int are_fractions(const char *const *texts, size_t count) {
    double number;
    size_t i = 0;
    int found = 0;
    while (i < count && number_parse_real(texts[i], &number)) {
        found |= number != floor(number);
        i++;
    }
    return found && i == count;
}

// An array of numbers that is no list of labels.
static enum berth_status refuse_vector(const struct reader *reader, size_t i,
                                       const char *const *texts, size_t count) {
    if (is_multi_hot(texts, count)) {
        return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                           "expected the labels of the text, found a vector of zeros and ones; "
                           "write the names or numbers of the classes that have a one");
    }
    // In a text, separated by commas, they may be names.
    if (reader->texts[i] == NULL && are_fractions(texts, count)) {
        return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                           "expected the labels of the text, found an array of fractions; write "
                           "the names or numbers of its classes or, for a regression, one number "
                           "without an array");
    }
    return BERTH_OK;
}

static enum berth_status split_labels(struct reader *reader, struct label_list *labels) {
    for (size_t i = 0; i < reader->dataset->count; i++) {
        struct pair_example *example = &reader->dataset->examples[i];
        size_t before = labels->count;
        if (reader->texts[i] != NULL) {
            const char *text = reader->texts[i];
            while (*text != '\0') {
                text += strspn(text, ", ");
                size_t length = strcspn(text, ","), kept = length;
                while (kept > 0 && text[kept - 1] == ' ') {
                    kept--;
                }
                if (kept > 0) {
                    labels->texts[labels->count++] = memcpy(labels->to, text, kept);
                    labels->to[kept] = '\0';
                    labels->to += kept + 1;
                }
                text += length;
            }
        } else {
            TRY(copy_list(reader, i, labels));
        }
        TRY(refuse_vector(reader, i, labels->texts + before, labels->count - before));
        example->labels = reader->storage->numbers + before;
        example->label_count = (int32_t)(labels->count - before);
    }
    return labels->count > 0
               ? collect_classes(reader, labels->texts, labels->count, reader->storage->numbers)
               : error_set(reader->error, BERTH_BAD_DATA, "%s: no example has a label",
                           reader->table->name);
}

static enum berth_status read_multi_label(struct reader *reader) {
    struct label_list labels = {.count = 0};
    size_t capacity = 0;
    for (size_t i = 0; i < reader->dataset->count; i++) {
        size_t bytes;
        capacity += count_labels(reader, i, &bytes);
        labels.bytes += bytes;
    }
    reader->storage->numbers = memory_array(capacity + 1, sizeof *reader->storage->numbers);
    reader->storage->text = labels.to = memory_new(labels.bytes + 1);
    labels.texts = memory_array(capacity + 1, sizeof *labels.texts);
    enum berth_status status =
        reader->storage->numbers != NULL && labels.to != NULL && labels.texts != NULL
            ? split_labels(reader, &labels)
            : error_no_memory(reader->error, capacity * sizeof *labels.texts, "the labels");
    memory_free(labels.texts);
    for (size_t i = 0; i < reader->dataset->count && status == BERTH_OK; i++) {
        pair_labels_drop_duplicates(&reader->dataset->examples[i]);
    }
    return status;
}

static int32_t class_of(const struct pair_settings *settings, const char *text) {
    for (size_t i = 0; i < settings->label_count; i++) {
        const struct pair_label *label = &settings->labels[i];
        if (strcmp(text, label->text) == 0 || strcmp(text, label->name) == 0 ||
            (label->alias != NULL && strcmp(text, label->alias) == 0)) {
            return (int32_t)i;
        }
    }
    return -1;
}

static enum berth_status read_classes(struct reader *reader) {
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
            const struct label_names classes = {names, settings->label_count};
            label_names_list(&classes, known, sizeof known);
            return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                               "unknown label \"%.*s\"; expected one of %s",
                               UTF8_SHOWN(text, TABLE_SHOWN), known);
        }
        reader->dataset->examples[i].label = label;
    }
    for (size_t i = 0; i < settings->label_count; i++) {
        names[i] = settings->labels[i].name;
    }
    return BERTH_OK;
}

// --- the whole ----------------------------------------------------------------------------------

static enum berth_status read_labels(struct reader *reader) {
    enum pair_target target = reader->settings->target;
    reader->dataset->target = PAIR_CLASS;
    reader->dataset->has_labels = reader->label != NO_COLUMN;
    if (!reader->dataset->has_labels) {
        return BERTH_OK;
    }
    if (reader->is_multi_label) {
        reader->dataset->target = PAIR_MULTI_LABEL;
        return read_multi_label(reader);
    }
    TRY(strip_numbers(reader));
    int is_number = pair_target_is_number(target);
    TRY(target == PAIR_AUTO ? find_regression(reader, &is_number) : BERTH_OK);
    if (is_number) {
        reader->dataset->target = target == PAIR_DEGREE ? PAIR_DEGREE : PAIR_REAL;
        const struct pair_settings *settings = reader->settings;
        for (size_t i = 0; i < reader->dataset->count; i++) {
            double *value = &reader->dataset->examples[i].value;
            const char *text = reader->texts[i];
            if (!number_parse_real(text, value)) {
                return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                                   "expected a number, found \"%.*s\"%s",
                                   UTF8_SHOWN(text, TABLE_SHOWN), reader->dataset->label_remedy);
            }
            if (settings->min < settings->max &&
                !(*value >= settings->min && *value <= settings->max)) {
                return table_error(reader->table, reader->rows[i], reader->label, reader->error,
                                   "expected a number from %g to %g, found %.*s%s", settings->min,
                                   settings->max, UTF8_SHOWN(text, TABLE_SHOWN),
                                   reader->dataset->label_remedy);
            }
        }
        return BERTH_OK;
    }
    return reader->settings->labels != NULL ? read_classes(reader) : collect_single(reader);
}

static enum berth_status read_examples(struct reader *reader) {
    TRY(find_columns(reader));
    if (reader->settings->label_optional && reader->label != NO_COLUMN) {
        size_t row = 0;
        while (row < reader->table->row_count && !has_label(reader, row)) {
            row++;
        }
        if (row == reader->table->row_count) {
            reader->dataset->empty_label_column = column_name(reader, reader->label);
            reader->label = NO_COLUMN;
        }
    }
    reader->dataset->text_column = column_name(reader, reader->text);
    reader->dataset->text_pair_column = column_name(reader, reader->pair);
    reader->dataset->label_column = column_name(reader, reader->label);
    const enum pair_target target = reader->settings->target;
    const int is_list =
        reader->label != NO_COLUMN && table_list(reader->table, 0, reader->label) != NULL;
    reader->is_multi_label = target == PAIR_MULTI_LABEL || (target == PAIR_AUTO && is_list);
    size_t rows = reader->table->row_count;
    reader->dataset->examples = memory_array(rows, sizeof *reader->dataset->examples);
    reader->rows = memory_array(rows, sizeof *reader->rows);
    reader->texts = memory_array(rows, sizeof *reader->texts);
    if (reader->dataset->examples == NULL || reader->rows == NULL || reader->texts == NULL) {
        return error_no_memory(reader->error, rows * sizeof *reader->dataset->examples,
                               "the examples");
    }
    for (size_t row = 0; row < rows; row++) {
        TRY(read_row(reader, row));
    }
    if (reader->dataset->count == 0) {
        return error_set(
            reader->error, BERTH_BAD_DATA, "%s: none of the %zu rows has \"%.*s\" in column \"%s\"",
            reader->table->name, rows, UTF8_SHOWN(reader->settings->filter_value, TABLE_SHOWN),
            reader->settings->filter_column);
    }
    return read_labels(reader);
}

// Takes ownership of the table, even on failure.
static enum berth_status read_table(struct table *table, const struct pair_settings *settings,
                                    struct pair_dataset *dataset, struct berth_error *error) {
    struct pair_storage *storage = memory_array_zeroed(1, sizeof *storage);
    if (storage == NULL) {
        table_done(table);
        return error_no_memory(error, sizeof *storage, "a data set");
    }
    storage->table = *table;
    *dataset = (struct pair_dataset){
        .skipped_rows = table->skipped_rows,
        .skipped_line = table->skipped_line,
        .label_remedy = settings->label_remedy != NULL ? settings->label_remedy : "",
        .name = table->name,
        .storage = storage};
    struct reader reader = {.settings = settings,
                            .table = &storage->table,
                            .dataset = dataset,
                            .storage = storage,
                            .error = error};
    enum berth_status status = read_examples(&reader);
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

enum berth_status pairs_put_prompts(struct pair_dataset *dataset, char **texts,
                                    struct berth_error *error) {
    size_t bytes = 0;
    *texts = NULL;
    for (size_t i = 0; i < dataset->count; i++) {
        const struct pair_example *example = &dataset->examples[i];
        bytes += example->prompt != NULL ? strlen(example->prompt) + strlen(example->text) + 1 : 0;
    }
    if (bytes > 0 && (*texts = memory_new(bytes)) == NULL) {
        return error_no_memory(error, bytes, "the texts with their prompt");
    }
    char *to = *texts;
    for (size_t i = 0; i < dataset->count; i++) {
        struct pair_example *example = &dataset->examples[i];
        if (example->prompt != NULL) {
            const char *text = example->text;
            example->text = to;
            to = stpcpy(stpcpy(to, example->prompt), text) + 1;
        }
    }
    return BERTH_OK;
}

void pair_dataset_done(struct pair_dataset *dataset) {
    struct pair_storage *storage = dataset->storage;
    if (storage != NULL) {
        table_done(&storage->table);
        memory_free(storage->labels);
        memory_free(storage->numbers);
        memory_free(storage->text);
        memory_free(storage);
        memory_free(dataset->examples);
    }
    *dataset = (struct pair_dataset){0};
}
