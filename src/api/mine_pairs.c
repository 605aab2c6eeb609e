// SPDX-License-Identifier: Apache-2.0
// Reads what the job mine searches negatives for: the pairs of a table, and the texts of a corpus,
// each text once and known by its number; and puts the positives of each query together. mine.c
// calls it in every process before any model is opened; vectors and scores are its own.
#include "api/mine_pairs.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "data/pairs/text_examples.h"

#include <string.h>

static enum berth_status number_text(struct string_index *index, const char *text, uint32_t *number,
                                     struct berth_error *error) {
    *number = string_index_put(index, text, strlen(text) + 1);
    return *number != STRING_INDEX_NONE ? BERTH_OK
                                        : error_no_memory(error, strlen(text) + 1, "the texts");
}

static enum berth_status find_text_column(const struct table *table, const char *name,
                                          size_t *column, struct berth_error *error) {
    if (name != NULL) {
        return table_column(table, "corpus_column", name, column, error);
    }
    *column = table_next_text(table, 0);
    return *column != SIZE_MAX
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: no column of texts; name it with corpus_column", table->name);
}

// A file .txt has a text in each line and no header.
static enum berth_status read_corpus(const struct job *job, struct mine_pairs *pairs,
                                     struct berth_error *error) {
    static const char *const only[] = {"text", NULL};
    const char *path = job_text(job, "corpus");
    struct table_options options = {0};
    struct table table DONE_BY(table_done) = {0};
    if (path == NULL) {
        return BERTH_OK;
    }
    TRY(table_format_of(path, &options.format, error));
    if (name_has_extension(path, ".txt")) {
        options.column_names = only;
    }
    TRY(table_read(path, &options, &table, error));
    size_t column;
    uint32_t number;
    const char *text;
    TRY(find_text_column(&table, job_text(job, "corpus_column"), &column, error));
    for (size_t row = 0; row < table.row_count; row++) {
        TRY(table_text(&table, row, column, &text, error));
        TRY(number_text(&pairs->corpus, text, &number, error));
    }
    return BERTH_OK;
}

// Puts the positives of each query together, each once. numbers[rows][2]: of queries and texts.
static size_t group_positives(struct mine_pairs *pairs, uint32_t (*numbers)[2], size_t rows) {
    size_t most = 0, used = 0;
    for (size_t i = 0; i < rows; i++) {
        pairs->starts[numbers[i][0] + 1]++;
    }
    for (size_t query = 0; query < pairs->queries.count; query++) {
        most = pairs->starts[query + 1] > most ? pairs->starts[query + 1] : most;
        pairs->starts[query + 1] += pairs->starts[query];
    }
    for (size_t i = 0; i < rows; i++) { // the ends of the queries before, while they are filled
        pairs->positives[pairs->starts[numbers[i][0]]++] = numbers[i][1];
    }
    for (size_t query = 0, first = 0; query < pairs->queries.count; query++) {
        const size_t end = pairs->starts[query], own = used;
        pairs->starts[query] = own;
        for (; first < end; first++) {
            size_t same = own;
            while (same < used && pairs->positives[same] != pairs->positives[first]) {
                same++;
            }
            pairs->positives[same] = pairs->positives[first];
            used += same == used;
        }
    }
    pairs->starts[pairs->queries.count] = used;
    return most;
}

enum berth_status mine_pairs_read(const struct job *job, struct mine_pairs *pairs,
                                  struct berth_error *error) {
    const struct feature_settings *features = &job->config->features;
    const struct text_example_settings settings = {.text = features->text_column,
                                                   .pair = features->text_pair_column};
    struct text_examples examples DONE_BY(text_examples_done) = {0};
    TRY(read_corpus(job, pairs, error));
    TRY(text_examples_read(job_text(job, "pairs"), &settings, &examples, error));
    if (examples.texts < 2) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected two columns of texts, found one; name them with text_column "
                         "and text_pair_column",
                         examples.table.name);
    }
    for (size_t i = 2; i < examples.texts; i++) {
        log_note(&job->log, "%s: column %s has no effect: pairs have two texts",
                 examples.table.name, examples.columns[i]);
    }
    if (examples.scores > 0) {
        log_note(&job->log, "%s: column %s has no effect: every pair counts as right",
                 examples.table.name, examples.score_column);
    }
    const size_t rows = pairs->rows = examples.count;
    OWNED uint32_t(*numbers)[2] = memory_array(rows, sizeof *numbers);
    pairs->positives = memory_array(rows, sizeof *pairs->positives);
    pairs->starts = memory_array_zeroed(rows + 2, sizeof *pairs->starts);
    if (numbers == NULL || pairs->positives == NULL || pairs->starts == NULL) {
        return error_no_memory(error, rows * sizeof *numbers, "the pairs");
    }
    for (size_t i = 0; i < rows; i++) {
        TRY(number_text(&pairs->queries, examples.items[i].texts[0], &numbers[i][0], error));
        TRY(number_text(&pairs->corpus, examples.items[i].texts[1], &numbers[i][1], error));
    }
    pairs->most = group_positives(pairs, numbers, rows);
    return BERTH_OK;
}

void mine_pairs_done(struct mine_pairs *pairs) {
    string_index_done(&pairs->queries);
    string_index_done(&pairs->corpus);
    memory_free(pairs->positives);
    memory_free(pairs->starts);
}
