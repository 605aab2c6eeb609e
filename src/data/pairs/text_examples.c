// SPDX-License-Identifier: Apache-2.0
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

static enum berth_status guess_columns(const struct table *table,
                                       const struct text_example_settings *settings,
                                       struct columns *columns, struct berth_error *error) {
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
    return found == 2 || found == 3
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: expected two or three columns of texts, found %zu; name them with "
                           "text_column, text_pair_column and negative_column",
                           table->name, found);
}

static enum berth_status find_columns(const struct table *table,
                                      const struct text_example_settings *settings,
                                      struct columns *columns, struct berth_error *error) {
    static const char *const names[] = {"text_column", "text_pair_column", "negative_column"};
    columns->score = NO_COLUMN;
    if (settings->score != NULL) {
        TRY(table_column(table, "label_column", settings->score, &columns->score, error));
    }
    if (settings->texts[0] == NULL) {
        return guess_columns(table, settings, columns, error);
    }
    for (size_t i = 0; i < TEXT_EXAMPLE_MAX && settings->texts[i] != NULL; i++) {
        TRY(table_column(table, names[i], settings->texts[i], &columns->texts[i], error));
        columns->count++;
    }
    return BERTH_OK;
}

static enum berth_status read_row(const struct table *table, size_t row,
                                  const struct columns *columns, struct text_example *example,
                                  struct berth_error *error) {
    const char *score;
    *example = (struct text_example){.score = NAN, .line = table->lines[row]};
    for (size_t i = 0; i < columns->count; i++) {
        TRY(table_text(table, row, columns->texts[i], &example->texts[i], error));
    }
    if (columns->score == NO_COLUMN) {
        return BERTH_OK;
    }
    TRY(table_text(table, row, columns->score, &score, error));
    return number_parse_real(score, &example->score) && isfinite(example->score)
               ? BERTH_OK
               : table_error(table, row, columns->score, error, "expected a number, found \"%.*s\"",
                             UTF8_SHOWN(score, 60));
}

static enum berth_status read_table(const struct text_example_settings *settings,
                                    struct text_examples *examples, struct berth_error *error) {
    const struct table *table = &examples->table;
    struct columns columns = {.count = 0};
    TRY(find_columns(table, settings, &columns, error));
    examples->texts = columns.count;
    examples->has_scores = columns.score != NO_COLUMN;
    if (examples->has_scores && columns.count > 2) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected pairs with a score or triplets without one, found three "
                         "texts and column \"%s\"",
                         table->name, table->columns[columns.score]);
    }
    for (size_t i = 0; i < columns.count; i++) {
        examples->columns[i] = table->columns[columns.texts[i]];
    }
    examples->score_column = examples->has_scores ? table->columns[columns.score] : NULL;
    examples->items = memory_array(table->row_count, sizeof *examples->items);
    if (examples->items == NULL) {
        return error_no_memory(error, table->row_count * sizeof *examples->items, "the examples");
    }
    for (; examples->count < table->row_count; examples->count++) {
        TRY(read_row(table, examples->count, &columns, &examples->items[examples->count], error));
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
    table_done(&examples->table);
    *examples = (struct text_examples){0};
}
