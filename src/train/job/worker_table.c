// SPDX-License-Identifier: Apache-2.0
// The table of what independent workers have reached, one row for each rank, which all ranks have
// after training. It picks the best worker, writes the table as workers.json and as records, and
// copies the winner's files to the common output folder.
#include "train/job/worker_table.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "format/json/json.h"
#include "metrics/results.h"
#include "model/sentence.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/foreign_checkpoint.h"
#include "train/checkpoint/state_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void worker_name(int rank, char name[32]) {
    snprintf(name, 32, "worker-%d", rank);
}

struct path worker_folder(const char *output_dir, int rank) {
    char name[32];
    worker_name(rank, name);
    return path_in(output_dir, name);
}

// --- which one is best --------------------------------------------------------------------------

static int is_candidate(const struct worker_row *row) {
    return row->error.status == BERTH_OK && row->outcome.is_scored &&
           !isnan(row->outcome.score.value);
}

static int is_better(const struct best_metric *a, const struct best_metric *b) {
    return a->lower_is_better ? a->value < b->value : a->value > b->value;
}

void worker_table_pick(struct worker_table *table) {
    const struct worker_row *rows = table->rows;
    table->best = -1;
    for (int i = 0; i < table->count; i++) {
        if (is_candidate(&rows[i]) &&
            (table->best < 0 ||
             is_better(&rows[i].outcome.score, &rows[table->best].outcome.score))) {
            table->best = i;
        }
    }
}

static int first_with(const struct worker_table *table, int interrupted) {
    for (int i = 0; i < table->count; i++) {
        const enum berth_status status = table->rows[i].error.status;
        if (interrupted ? status == BERTH_INTERRUPTED : status != BERTH_OK) {
            return i;
        }
    }
    return -1;
}

int worker_table_unfinished(const struct worker_table *table) {
    const int interrupted = first_with(table, 1);
    return interrupted >= 0 ? interrupted : first_with(table, 0);
}

// --- the report ---------------------------------------------------------------------------------

static const char *state_of(const struct worker_row *row) {
    return row->error.status == BERTH_OK            ? "finished"
           : row->error.status == BERTH_INTERRUPTED ? "stopped"
                                                    : "failed";
}

// All that is known about a worker. `folder` must live as long as the record.
static struct log_record record_of(const struct worker_table *table, int rank, const char *folder) {
    const struct worker_row *row = &table->rows[rank];
    const struct berth_run_result *result = &row->outcome.result;
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("worker", rank), log_text("host", row->host),
            log_integer("seed", row->seed), log_text("state", state_of(row)),
            log_integer("steps", result->steps), log_real("final_loss", result->final_loss));
    log_add_metrics(&record, result->metrics, result->metric_count);
    LOG_ADD(&record, log_real("eval_loss", result->eval_loss), log_text("folder", folder),
            log_text("error", row->error.status == BERTH_OK ? NULL : row->error.message));
    return record;
}

static void print_number(char text[32], double value) {
    number_format(text, 32, isnan(value) ? "-" : "%.6g", value);
}

// The name of the score by which workers are compared: that of the first worker with a score.
static const char *score_name(const struct worker_table *table) {
    for (int i = 0; i < table->count; i++) {
        if (table->rows[i].outcome.is_scored) {
            return table->rows[i].outcome.score.name;
        }
    }
    return "score";
}

#define COLUMNS "%-7s %-20.20s %-12s %-9s %-11s %-12s %-20.20s %s"

static void report_row(const struct worker_table *table, int rank, const struct berth_log *log) {
    const struct worker_row *row = &table->rows[rank];
    const struct training_outcome *outcome = &row->outcome;
    char text[2048], number[32], seed[32], steps[32], loss[32], score[32], folder[32];
    worker_name(rank, folder);
    snprintf(number, sizeof number, "%d", rank);
    snprintf(seed, sizeof seed, "%" PRId64, row->seed);
    snprintf(steps, sizeof steps, "%" PRId64, outcome->result.steps);
    print_number(loss, outcome->result.final_loss);
    print_number(score, outcome->is_scored ? outcome->score.value : NAN);
    snprintf(text, sizeof text, COLUMNS, number, row->host, seed, steps, loss, score, folder,
             rank == table->best ? "best" : state_of(row));
    if (row->error.status != BERTH_OK) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ": %s", row->error.message);
    }
    const struct log_record record = record_of(table, rank, folder);
    log_record(log, BERTH_NOTE, text, &record);
}

void worker_table_report(const struct worker_table *table, const struct berth_log *log) {
    char head[256];
    snprintf(head, sizeof head, COLUMNS, "worker", "host", "seed", "updates", "loss",
             score_name(table), "folder", "state");
    log_note(log, "%s", head);
    for (int i = 0; i < table->count; i++) {
        report_row(table, i, log);
    }
}

// --- the output folder --------------------------------------------------------------------------

static json *object_of(const struct worker_table *table, int rank) {
    char folder[32];
    worker_name(rank, folder);
    const struct log_record record = record_of(table, rank, folder);
    json *object = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < record.count; i++) {
        failed |= json_set(object, record.fields[i].key, results_value(&record.fields[i]));
    }
    return json_unless_failed(object, failed);
}

// Whether it is a result of a worker: a regular file, not a checkpoint. Weights are copied apart.
static int is_result(const char *folder, const char *name) {
    return file_exists(path_in(folder, name).text) && name[0] != '.' &&
           !checkpoint_is_temporary(name) && !foreign_is_name(name) &&
           strcmp(name, state_file_name(STATE_FILE_WEIGHTS)) != 0;
}

static enum berth_status copy_named(const char *from, const char *to, const char *name,
                                    struct berth_error *error) {
    return file_copy(path_in(from, name).text, path_in(to, name).text, error);
}

static enum berth_status copy_results(const char *from, const char *to, struct berth_error *error) {
    char **names;
    enum berth_status status = BERTH_OK;
    TRY(dir_list(from, &names, error));
    for (char **name = names; *name != NULL && status == BERTH_OK; name++) {
        if (is_result(from, *name)) {
            status = copy_named(from, to, *name, error);
        }
    }
    memory_free(names);
    return status;
}

enum berth_status worker_table_publish(const struct worker_table *table,
                                       struct berth_error *error) {
    if (table->best >= 0) {
        const char *const weights = state_file_name(STATE_FILE_WEIGHTS);
        const struct path folder = worker_folder(table->output_dir, table->best);
        TRY(file_remove(path_in(table->output_dir, weights).text, error));
        TRY(copy_results(folder.text, table->output_dir, error));
        TRY(sentence_copy(folder.text, table->output_dir, error));
        TRY(copy_named(folder.text, table->output_dir, weights, error));
    }
    const struct path path = path_in(table->output_dir, "workers.json");
    json *workers = json_new_array();
    int failed = 0;
    for (int i = 0; i < table->count; i++) {
        failed |= json_append(workers, object_of(table, i));
    }
    json *root = JSON_OBJECT(
        {"best_worker", table->best >= 0 ? json_new_integer(table->best) : json_new_null()},
        {"metric", json_new_text(score_name(table))},
        {"workers", json_unless_failed(workers, failed)});
    enum berth_status status = json_write_file(root, JSON_INDENT_2_SORTED, path.text, error);
    json_free(root);
    return status;
}
