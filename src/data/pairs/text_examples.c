// SPDX-License-Identifier: Apache-2.0
// From the rows of a table (data/tables) to examples for embeddings: finds the columns, borrows the
// texts, reads numbers and lists of numbers. What examples a loss takes is task/embed_losses.c's.
// Also read by the job mine (api/mine.c).
#include "data/pairs/text_examples.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"

#include <math.h>
#include <string.h>

#define NO_COLUMN SIZE_MAX

struct columns {
    size_t texts[TEXT_EXAMPLE_MAX], count;
    size_t score;
};

static int is_score(const char *name, const struct text_example_settings *settings) {
    return settings->score != NULL ? strcmp(name, settings->score) == 0 : table_is_score(name);
}

static enum berth_status add_column(const struct table *table, const char *setting,
                                    const char *name, struct columns *columns,
                                    struct berth_error *error) {
    if (columns->count == TEXT_EXAMPLE_MAX) {
        return error_set(error, BERTH_USAGE,
                         "%s: expected at most %d columns of texts, found \"%s\"", setting,
                         TEXT_EXAMPLE_MAX, name);
    }
    return table_column(table, setting, name, &columns->texts[columns->count++], error);
}

// The list "A,B,...".
static enum berth_status add_negatives(const struct table *table, const char *list,
                                       struct columns *columns, struct berth_error *error) {
    OWNED char *names = memory_string(list);
    char *rest = NULL;
    if (names == NULL) {
        return error_no_memory(error, strlen(list), "the names of columns");
    }
    for (char *name = strtok_r(names, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        TRY(add_column(table, "negative_column", name, columns, error));
    }
    return BERTH_OK;
}

static enum berth_status find_columns(const struct table *table,
                                      const struct text_example_settings *settings,
                                      struct columns *columns, struct berth_error *error) {
    columns->score = NO_COLUMN;
    if (settings->score != NULL) {
        TRY(table_column(table, "label_column", settings->score, &columns->score, error));
    }
    if (settings->text == NULL) {
        size_t found = 0;
        for (size_t i = 0; i < table->column_count; i++) {
            if (is_score(table->columns[i], settings)) {
                columns->score = i;
            } else if (table_next_text(table, i) == i) {
                columns->texts[found < TEXT_EXAMPLE_MAX ? found : 0] = i;
                found++;
            }
        }
        columns->count = found;
        return found > 0 && found <= TEXT_EXAMPLE_MAX
                   ? BERTH_OK
                   : error_set(error, BERTH_BAD_DATA,
                               "%s: expected 1 to %d columns of texts, found %zu; name them with "
                               "text_column, text_pair_column and negative_column",
                               table->name, TEXT_EXAMPLE_MAX, found);
    }
    TRY(add_column(table, "text_column", settings->text, columns, error));
    if (settings->pair != NULL) {
        TRY(add_column(table, "text_pair_column", settings->pair, columns, error));
    }
    return settings->negatives != NULL ? add_negatives(table, settings->negatives, columns, error)
                                       : BERTH_OK;
}

// --- scores -------------------------------------------------------------------------------------

// The list of numbers in a cell: an array of the table, or the text of one.
struct list {
    const json *numbers; // NULL: the cell is none
    json *parsed;        // json_free
};

static enum berth_status find_list(const struct table *table, size_t row, size_t column,
                                   struct list *list, struct berth_error *error) {
    const char *text;
    *list = (struct list){.numbers = table_list(table, row, column)};
    if (list->numbers != NULL) {
        return BERTH_OK;
    }
    TRY(table_text(table, row, column, &text, error));
    if (text[0] == '[' &&
        json_read_memory(table->name, text, strlen(text), &list->parsed, NULL) != BERTH_OK) {
        return table_error(table, row, column, error, "expected a list of numbers, found \"%.*s\"",
                           UTF8_SHOWN(text, 60));
    }
    list->numbers = list->parsed;
    return BERTH_OK;
}

// An item of a list; a table has numbers as texts.
static int is_finite_number(const json *item, double *number) {
    if (json_text(item) != NULL) {
        return number_parse_real(json_text(item), number) && isfinite(*number);
    }
    *number = json_as_real(item);
    return json_is_number_value(item) && isfinite(*number);
}

static enum berth_status read_list(const struct table *table, size_t row, size_t column,
                                   const json *list, double *scores, size_t count,
                                   struct berth_error *error) {
    if (json_length(list) != count) {
        return table_error(table, row, column, error,
                           "expected %zu numbers as in the first example, found %zu", count,
                           json_length(list));
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_finite_number(json_at(list, i), &scores[i])) {
            return table_error(table, row, column, error, "expected a number as item %zu of a list",
                               i + 1);
        }
    }
    return BERTH_OK;
}

static enum berth_status read_number(const struct table *table, size_t row, size_t column,
                                     double *score, struct berth_error *error) {
    const char *text;
    TRY(table_text(table, row, column, &text, error));
    return number_parse_real(text, score) && isfinite(*score)
               ? BERTH_OK
               : table_error(table, row, column, error, "expected a number, found \"%.*s\"",
                             UTF8_SHOWN(text, 60));
}

static enum berth_status read_scores(const struct table *table, size_t row, size_t column,
                                     double *scores, size_t count, struct berth_error *error) {
    struct list list;
    TRY(find_list(table, row, column, &list, error));
    const enum berth_status status =
        list.numbers != NULL ? read_list(table, row, column, list.numbers, scores, count, error)
        : count == 1         ? read_number(table, row, column, scores, error)
                             : table_error(table, row, column, error,
                                           "expected a list of %zu numbers as in the first example, "
                                                   "found one number",
                                           count);
    json_free(list.parsed);
    return status;
}

// How many numbers the first example has.
static enum berth_status count_scores(const struct table *table, size_t column, size_t *count,
                                      struct berth_error *error) {
    struct list list;
    *count = 0;
    if (column == NO_COLUMN) {
        return BERTH_OK;
    }
    TRY(find_list(table, 0, column, &list, error));
    *count = list.numbers != NULL ? json_length(list.numbers) : 1;
    json_free(list.parsed);
    return *count > 0
               ? BERTH_OK
               : table_error(table, 0, column, error, "expected numbers, found an empty list");
}

// --- rows ---------------------------------------------------------------------------------------

static enum berth_status read_table(const struct text_example_settings *settings,
                                    struct text_examples *examples, struct berth_error *error) {
    const struct table *table = &examples->table;
    const size_t rows = table->row_count;
    struct columns columns = {.count = 0};
    TRY(find_columns(table, settings, &columns, error));
    TRY(count_scores(table, columns.score, &examples->scores, error));
    examples->texts = columns.count;
    for (size_t i = 0; i < columns.count; i++) {
        examples->columns[i] = table->columns[columns.texts[i]];
    }
    examples->score_column = examples->scores > 0 ? table->columns[columns.score] : NULL;
    examples->items = memory_array(rows, sizeof *examples->items);
    examples->text_pool = memory_array(rows * examples->texts, sizeof *examples->text_pool);
    examples->score_pool = memory_array(rows * examples->scores, sizeof *examples->score_pool);
    if (examples->items == NULL || examples->text_pool == NULL || examples->score_pool == NULL) {
        return error_no_memory(error, rows * sizeof *examples->items, "the examples");
    }
    for (; examples->count < rows; examples->count++) {
        const size_t row = examples->count;
        const char **texts = examples->text_pool + row * examples->texts;
        double *scores = examples->score_pool + row * examples->scores;
        examples->items[row] =
            (struct text_example){.texts = texts, .scores = scores, .line = table->lines[row]};
        for (size_t i = 0; i < examples->texts; i++) {
            TRY(table_text(table, row, columns.texts[i], &texts[i], error));
        }
        if (columns.score != NO_COLUMN) {
            TRY(read_scores(table, row, columns.score, scores, examples->scores, error));
        }
    }
    return BERTH_OK;
}

enum berth_status text_examples_read(const char *path, const struct text_example_settings *settings,
                                     struct text_examples *examples, struct berth_error *error) {
    struct table_options options = {0};
    *examples = (struct text_examples){0};
    TRY(table_format_of(path, &options.format, error));
    TRY(table_read(path, &options, &examples->table, error));
    return read_table(settings, examples, error);
}

void text_examples_done(struct text_examples *examples) {
    memory_free(examples->items);
    memory_free(examples->text_pool);
    memory_free(examples->score_pool);
    table_done(&examples->table);
    *examples = (struct text_examples){0};
}
