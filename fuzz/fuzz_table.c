// SPDX-License-Identifier: Apache-2.0
// Fuzzes the table reader, and reading text pairs from what it accepts.
//
// Settings: bits 0 and 1 the format (3: JSON lines, too), bit 2 column names given, bit 3 skip
// ragged rows, bit 4 through a file, bit 5 a table for pairs with real labels, bit 6 with the
// labels of a task, both: with several labels at once; bit 7 only some rows, with bit 2: the
// columns of texts are guessed.
#include "data/pairs/pairs.h"
#include "data/tables/table.h"
#include "input.h"

#include <math.h>

enum { NAMED = 4, RAGGED = 8, THROUGH_FILE = 16, REAL = 32, KNOWN = 64, ONLY = 128 };

static const char *const names[] = {"a", "b", "c", NULL};
static const struct pair_label labels[] = {{"0", NULL, "no"}, {"1", "x", "yes"}};

static struct table_options options_of(const struct fuzz_input *input) {
    static const enum table_format formats[] = {TABLE_TSV, TABLE_CSV, TABLE_JSON_LINES,
                                                TABLE_JSON_LINES};
    return (struct table_options){
        .format = formats[input->settings & 3],
        .column_names = (input->settings & NAMED) != 0 ? names : NULL,
        .ragged = (input->settings & RAGGED) != 0,
    };
}

// Every cell is a terminated string, or an error with a message.
static void check_cells(const struct table *table) {
    for (size_t row = 0; row < table->row_count; row++) {
        require(table->lines[row] > (row == 0 ? 0 : table->lines[row - 1]));
        for (size_t column = 0; column < table->column_count; column++) {
            const char *text = NULL;
            struct berth_error error = {0};
            enum berth_status status = table_text(table, row, column, &text, &error);
            require(status == BERTH_OK || error.message[0] != '\0');
            if (status == BERTH_OK) {
                fuzz_read_text(text);
            }
        }
    }
}

static void check_columns(const struct table *table) {
    size_t index;
    struct berth_error error = {0};
    for (size_t i = 0; i < table->column_count; i++) {
        require(table_column(table, "x", table->columns[i], &index, &error) == BERTH_OK);
        require(index == i);
    }
    if (table_find(table, "label") == SIZE_MAX) {
        require(table_column(table, "x", "label", &index, &error) == BERTH_BAD_DATA);
        require(error.message[0] != '\0');
    }
}

static void read_table(const struct fuzz_input *input) {
    struct table_options options = options_of(input);
    struct table table;
    struct berth_error error = {0};
    enum berth_status status;
    fuzz_failing_begin(input->fail_at);
    if ((input->settings & THROUGH_FILE) != 0) {
        status = table_read(fuzz_file(input->bytes, input->size), &options, &table, &error);
    } else {
        status = table_read_memory("fuzz", (const char *)input->bytes, input->size, &options,
                                   &table, &error);
    }
    fuzz_failing_end(input->fail_at, status, &error);
    if (status != BERTH_OK) {
        require(table.storage == NULL);
        return;
    }
    require(table.row_count > 0);
    check_cells(&table);
    check_columns(&table);
    table_done(&table);
}

// Each at most once.
static void check_labels(const struct pair_dataset *set, const struct pair_example *example) {
    require(example->label == -1 && example->label_count >= 0);
    for (int32_t i = 0; i < example->label_count; i++) {
        require(example->labels[i] >= 0 && (size_t)example->labels[i] < set->label_count);
        for (int32_t k = 0; k < i; k++) {
            require(example->labels[k] != example->labels[i]);
        }
    }
}

static void check_examples(const struct pair_dataset *set) {
    require(set->count > 0);
    for (size_t i = 0; i < set->count; i++) {
        const struct pair_example *example = &set->examples[i];
        require(example->text != NULL &&
                (example->pair != NULL) == (set->text_pair_column != NULL));
        require(set->target == PAIR_MULTI_LABEL || example->label_count <= 0);
        if (set->target == PAIR_MULTI_LABEL) {
            check_labels(set, example);
        } else if (!set->has_labels) {
            require(isnan(example->value) && example->label == -1);
        } else if (set->target == PAIR_REAL) {
            require(isfinite(example->value) && example->label == -1);
        } else {
            require(example->label >= 0 && (size_t)example->label < set->label_count);
        }
    }
}

static void read_pairs(const struct fuzz_input *input) {
    static const enum pair_target targets[] = {PAIR_AUTO, PAIR_REAL, PAIR_AUTO, PAIR_MULTI_LABEL};
    const int through_file = (input->settings & THROUGH_FILE) != 0;
    const int guesses = (input->settings & (NAMED | ONLY)) == (NAMED | ONLY);
    const enum pair_target target = targets[(input->settings & (REAL | KNOWN)) / REAL];
    struct pair_settings settings = {
        .table = options_of(input),
        .text_column = guesses ? NULL : "a",
        .text_pair_column = "b",
        .label_column = "c",
        .label_optional = (input->settings & RAGGED) != 0,
        .filter_column = (input->settings & ONLY) != 0 ? "a" : NULL,
        .filter_value = "x",
        .target = target,
        .labels = target != PAIR_MULTI_LABEL && (input->settings & KNOWN) != 0 ? labels : NULL,
        .label_count = 2,
        .max = 5,
    };
    static const char *const model[] = {"b", "a", "c", "yes", "no"};
    struct pair_dataset set;
    struct berth_error error = {0};
    fuzz_failing_begin(input->fail_at);
    enum berth_status status =
        through_file ? pairs_read(fuzz_file(input->bytes, input->size), &settings, &set, &error)
                     : pairs_read_memory("fuzz", (const char *)input->bytes, input->size, &settings,
                                         &set, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    if (status != BERTH_OK) {
        require(set.storage == NULL);
        return;
    }
    check_examples(&set);
    status = pairs_relabel(&set, model, 5, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA);
    check_examples(&set);
    pair_dataset_done(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    read_table(&input);
    read_pairs(&input);
    return 0;
}
