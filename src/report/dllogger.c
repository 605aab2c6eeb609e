// SPDX-License-Identifier: Apache-2.0
// Records as dllogger's lines, as NVIDIA's BERT scripts write them to --json-summary and print
// them. The table of keys has dllogger's names.
//
// In the file: DLLL {"timestamp": "...", "datetime": "...", "elapsedtime": "...", "type": "LOG",
// "step": "PARAMETER" | [epoch, step] | [], "data": {...}}, and once at the start a line of type
// METADATA with the unit of each metric. For people: DLL <datetime> - <step> <metric> : <value>
// <unit> ...
//
//   PLAN, EVENT without a step         "PARAMETER"
//   STEP, EVAL, EVENT and NOTE with one [epoch, step], epochs counted from 0
//   SUMMARY                            []
// An EVENT is {text: true}; with fields {text: {fields}}; without a text its fields. An EVAL record
// contains all of its fields. Of other records, only the keys that dllogger knows are written. NaN
// is left out.
//
// reporter.c prints them for people, and json_file.c writes those of the file.
#include "core/number.h"
#include "core/text_util.h"
#include "report/keys.h"
#include "report/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// --- step and epoch ------------------------------------------------------------------------------

// The epoch of the update: the last update of an epoch ends at a whole number.
static int64_t epoch_of(const struct berth_record *record) {
    const double epoch = ceil(lines_real(record, "epoch", 0.0)) - 1;
    return epoch > 0 ? (int64_t)epoch : 0;
}

// Counted from the beginning of the phase, as NVIDIA's programs count; the names of their
// checkpoints count the first phase, too.
static int64_t step_of(const struct berth_record *record) {
    return (int64_t)lines_real(record, "phase_step", lines_real(record, "step", 0.0));
}

// Formats what stands for the step of a record without one, with one, and of the summary.
static void print_step(const struct berth_record *record, const char *const forms[3], char *text,
                       size_t size) {
    const int is_numbered = record->kind != BERTH_PLAN && lines_field(record, "step") != NULL;
    number_format(text, size, forms[record->kind == BERTH_SUMMARY ? 2 : is_numbered],
                  epoch_of(record), step_of(record));
}

// --- metrics -------------------------------------------------------------------------------------

// The metrics whose units are written at the beginning of the file.
static const char units[] = "average_training_time_step average_perf_per_step e2e_train_time "
                            "raw_train_time training_sequences_per_second e2e_inference_time "
                            "inference_sequences_per_second average_loss step_loss final_loss "
                            "learning_rate exact_match F1";

// The unit of one of these; NULL: it has none.
static const char *unit_of(const char *metric) {
    for (size_t i = 0; i < key_row_count; i++) {
        const char *words = key_rows[i].dllogger;
        for (char word[KEY_WORD_SIZE]; key_next_word(&words, word);) {
            if (strcmp(strchr(word, ':') + 1, metric) == 0) {
                return key_rows[i].unit;
            }
        }
    }
    return NULL;
}

// The metrics of a record. Zero-initialise but for the record.
struct metrics {
    const struct berth_record *record;
    size_t next;             // field
    struct berth_field from; // the metric's, and its names that are left
    const char *words;
    char word[KEY_WORD_SIZE];
    const char *name; // of the metric
};

// Whether the first word of the text is that before the colon.
static int begins(const char *text, const char *word) {
    const size_t length = strcspn(word, ":");
    return text != NULL && strcspn(text, " ") == length && strncmp(text, word, length) == 0;
}

// Whether a name of the table, "where:name", is meant for the record.
static int fits(const struct berth_record *record, const char *word) {
    return begins(lines_kind(record->kind), word) ||
           (record->kind == BERTH_SUMMARY && begins(record->text, word));
}

static int next_name(struct metrics *metrics) {
    while (key_next_word(&metrics->words, metrics->word)) {
        if (fits(metrics->record, metrics->word)) {
            // A loss is a mean if the last one is there, too.
            const int is_mean = strcmp(metrics->from.key, "loss") == 0 &&
                                lines_field(metrics->record, "step_loss") != NULL;
            metrics->name = is_mean ? "average_loss" : strchr(metrics->word, ':') + 1;
            return 1;
        }
    }
    return 0;
}

// Finds the next metric: a field may have several names. 0: there are no more.
static int next_metric(struct metrics *metrics) {
    const struct berth_record *record = metrics->record;
    const int has_all = record->kind == BERTH_EVENT || record->kind == BERTH_EVAL;
    int is_found = next_name(metrics);
    while (!is_found && metrics->next < record->field_count) {
        const struct berth_field *field = &record->fields[metrics->next++];
        const struct key_row *row = key_row(field->key);
        const int is_known = field->type != BERTH_REAL || !isnan(field->real);
        metrics->from = *field;
        if (strcmp(field->key, "checkpoint_step") == 0) {
            metrics->from.integer = step_of(record);
        }
        metrics->words = is_known ? row->dllogger : NULL;
        is_found = next_name(metrics);
        if (!is_found && is_known && has_all && !row->counts) {
            metrics->name = field->key;
            is_found = 1;
        }
    }
    return is_found;
}

static int has_content(const struct berth_record *record) {
    struct metrics metrics = {.record = record};
    return (record->kind == BERTH_EVENT && record->text != NULL) || next_metric(&metrics);
}

// --- the file -----------------------------------------------------------------------------------

static void open_line(struct json_line *line, const char *type, double elapsed) {
    char datetime[LINES_DATE_SIZE], timestamp[64], since[64];
    const struct timespec now = lines_now(datetime);
    const long microseconds = now.tv_nsec / 1000;
    const size_t used = strlen(datetime);
    snprintf(datetime + used, sizeof datetime - used, ".%06ld", microseconds);
    snprintf(timestamp, sizeof timestamp, "%" PRId64 ".%06ld", (int64_t)now.tv_sec, microseconds);
    number_format(since, sizeof since, "%.6f", elapsed);
    json_line_raw(line, NULL, "DLLL ");
    json_line_open(line, NULL, '{');
    json_line_text(line, "timestamp", timestamp);
    json_line_text(line, "datetime", datetime);
    json_line_text(line, "elapsedtime", since);
    json_line_text(line, "type", type);
}

static void close_line(struct json_line *line) {
    json_line_close(line, '}');
    json_line_end(line);
}

int dllogger_line(struct json_line *line, double elapsed, const struct berth_record *record) {
    if (!has_content(record)) {
        return 0;
    }
    static const char *const forms[] = {"\"PARAMETER\"", "[%" PRId64 ",%" PRId64 "]", "[]"};
    char step[64];
    print_step(record, forms, step, sizeof step);
    open_line(line, "LOG", elapsed);
    json_line_raw(line, "step", step);
    const char *name = record->kind == BERTH_EVENT ? record->text : NULL;
    json_line_open(line, "data", '{');
    if (name != NULL && record->field_count == 0) {
        json_line_boolean(line, name, 1);
    } else if (name != NULL) {
        json_line_open(line, name, '{');
    }
    for (struct metrics metrics = {.record = record}; next_metric(&metrics);) {
        lines_json_field(line, metrics.name, &metrics.from);
    }
    if (name != NULL && record->field_count > 0) {
        json_line_close(line, '}');
    }
    json_line_close(line, '}');
    close_line(line);
    return 1;
}

void dllogger_metadata(struct json_line *line, double elapsed) {
    const char *words = units;
    for (char metric[KEY_WORD_SIZE]; key_next_word(&words, metric);) {
        open_line(line, "METADATA", elapsed);
        json_line_text(line, "metric", metric);
        json_line_open(line, "metadata", '{');
        json_line_text(line, "unit", unit_of(metric));
        json_line_close(line, '}');
        close_line(line);
    }
}

// --- for people ---------------------------------------------------------------------------------

static void append_metric(const char *name, const struct berth_field *field, char *text,
                          size_t size) {
    char value[256] = "True";
    const char *unit = words_contain(units, ' ', name) ? unit_of(name) : NULL;
    if (field != NULL && field->type == BERTH_TEXT) {
        snprintf(value, sizeof value, "%s", field->text != NULL ? field->text : "None");
    } else if (field != NULL && field->type == BERTH_INTEGER) {
        snprintf(value, sizeof value, "%" PRId64, field->integer);
    } else if (field != NULL) {
        number_print_real(value, sizeof value, field->real);
    }
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s : %s %s%s", name, value, unit != NULL ? unit : "",
             unit != NULL ? " " : "");
}

int dllogger_text(const struct berth_record *record, char *text, size_t size) {
    char datetime[LINES_DATE_SIZE];
    if (!has_content(record)) {
        return 0;
    }
    static const char *const forms[] = {
        "PARAMETER", "Training Epoch: %" PRId64 " Training Iteration: %" PRId64 " ", ""};
    char step[96];
    print_step(record, forms, step, sizeof step);
    const struct timespec now = lines_now(datetime);
    snprintf(text, size, "DLL %s.%06ld - %s ", datetime, now.tv_nsec / 1000, step);
    if (record->kind == BERTH_EVENT && record->text != NULL && record->field_count == 0) {
        append_metric(record->text, NULL, text, size);
    }
    for (struct metrics metrics = {.record = record}; next_metric(&metrics);) {
        append_metric(metrics.name, &metrics.from, text, size);
    }
    text[strcspn(text, "\r\n")] = '\0';
    return 1;
}
