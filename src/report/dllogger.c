// SPDX-License-Identifier: Apache-2.0
#include "report/dllogger.h"

#include "core/number.h"
#include "report/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// --- names --------------------------------------------------------------------------------------

// dllogger's name for a record's field; a field may have several. `job`: prefix of the record's
// text; NULL: any record.
static const struct name {
    enum berth_record_kind kind;
    const char *job, *ours, *theirs;
} names[] = {
    {BERTH_PLAN, NULL, "seed", "SEED"},
    {BERTH_PLAN, NULL, "parameters", "model_weights_num"},
    {BERTH_PLAN, NULL, "train_examples", "training_samples"},
    {BERTH_PLAN, NULL, "train_features", "training_features"},
    {BERTH_PLAN, NULL, "sequences_per_micro_batch", "train_batch_size"},
    {BERTH_PLAN, NULL, "sequences_per_micro_batch", "batch_size_per_pu"},
    {BERTH_PLAN, NULL, "total_steps", "steps"},
    {BERTH_PLAN, NULL, "learning_rate", "learning_rate"},
    {BERTH_STEP, NULL, "step_loss", "step_loss"},
    {BERTH_STEP, NULL, "learning_rate", "learning_rate"},
    {BERTH_STEP, NULL, "average_training_time_step", "average_training_time_step"},
    {BERTH_STEP, NULL, "samples_per_second", "average_perf_per_step"},
    {BERTH_STEP, NULL, "final_loss", "final_loss"},
    {BERTH_NOTE, NULL, "loss_scale", "loss_scale"},
    {BERTH_EVAL, NULL, "f1", "F1"},
    {BERTH_EVAL, NULL, "samples_per_second", "inference_sequences_per_second"},
    {BERTH_SUMMARY, "finetune", "train_seconds", "e2e_train_time"},
    {BERTH_SUMMARY, "finetune", "samples_per_second", "training_sequences_per_second"},
    {BERTH_SUMMARY, "finetune", "evaluation_seconds", "e2e_inference_time"},
    {BERTH_SUMMARY, "finetune", "evaluation_samples_per_second", "inference_sequences_per_second"},
    {BERTH_SUMMARY, "pretrain", "seconds", "e2e_train_time"},
    {BERTH_SUMMARY, "pretrain", "train_seconds", "raw_train_time"},
    {BERTH_SUMMARY, "pretrain", "samples_per_second", "training_sequences_per_second"},
    {BERTH_SUMMARY, "predict", "predict_seconds", "e2e_inference_time"},
    {BERTH_SUMMARY, "predict", "samples_per_second", "inference_sequences_per_second"},
    {BERTH_SUMMARY, "evaluate", "predict_seconds", "e2e_inference_time"},
    {BERTH_SUMMARY, "evaluate", "samples_per_second", "inference_sequences_per_second"},
    {BERTH_SUMMARY, NULL, "final_loss", "final_loss"},
    {BERTH_SUMMARY, NULL, "exact_match", "exact_match"},
    {BERTH_SUMMARY, NULL, "f1", "F1"},
};

static const struct unit {
    const char *metric, *unit;
} units[] = {
    {"average_training_time_step", "s"},
    {"average_perf_per_step", "sequences/s"},
    {"e2e_train_time", "s"},
    {"raw_train_time", "s"},
    {"training_sequences_per_second", "sequences/s"},
    {"e2e_inference_time", "s"},
    {"inference_sequences_per_second", "sequences/s"},
    {"average_loss", NULL},
    {"step_loss", NULL},
    {"final_loss", NULL},
    {"learning_rate", NULL},
    {"exact_match", "%"},
    {"F1", "%"},
};
#define UNITS (sizeof units / sizeof *units)

static int fits_job(const struct name *name, const struct berth_record *record) {
    return name->job == NULL ||
           (record->text != NULL && strncmp(record->text, name->job, strlen(name->job)) == 0);
}

// The `which`-th name of a record's field; NULL: there are no more.
static const char *name_of(const struct berth_record *record, const struct berth_field *field,
                           int which) {
    if (lines_is_position(field->key) || (field->type == BERTH_REAL && isnan(field->real))) {
        return NULL;
    }
    if (record->kind == BERTH_STEP && strcmp(field->key, "loss") == 0 && which == 0) {
        return lines_field(record, "step_loss") != NULL ? "average_loss" : "step_loss";
    }
    int seen = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].kind == record->kind && strcmp(names[i].ours, field->key) == 0 &&
            fits_job(&names[i], record) && seen++ == which) {
            return names[i].theirs;
        }
    }
    if (which > 0 || seen > 0) {
        return NULL;
    }
    return record->kind == BERTH_EVENT || record->kind == BERTH_EVAL ? field->key : NULL;
}

static int has_content(const struct berth_record *record) {
    if (record->kind == BERTH_EVENT && record->text != NULL) {
        return 1;
    }
    for (size_t i = 0; i < record->field_count; i++) {
        if (name_of(record, &record->fields[i], 0) != NULL) {
            return 1;
        }
    }
    return 0;
}

// --- step and epoch ------------------------------------------------------------------------------

enum step_form { STEP_PARAMETER, STEP_NUMBERED, STEP_SUMMARY };

static enum step_form step_form_of(const struct berth_record *record) {
    if (record->kind == BERTH_SUMMARY) {
        return STEP_SUMMARY;
    }
    return record->kind != BERTH_PLAN && lines_field(record, "step") != NULL ? STEP_NUMBERED
                                                                             : STEP_PARAMETER;
}

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

static struct timespec print_now(char text[64]) {
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    size_t used = strftime(text, 48, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(text + used, 64 - used, ".%06ld", now.tv_nsec / 1000);
    return now;
}

// --- the file -----------------------------------------------------------------------------------

static void open_line(struct json_line *line, const char *type, double elapsed) {
    char datetime[64], timestamp[64], since[64];
    struct timespec now = print_now(datetime);
    snprintf(timestamp, sizeof timestamp, "%" PRId64 ".%06ld", (int64_t)now.tv_sec,
             now.tv_nsec / 1000);
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

static void add_step(struct json_line *line, const struct berth_record *record) {
    const enum step_form step_form = step_form_of(record);
    if (step_form == STEP_PARAMETER) {
        json_line_text(line, "step", "PARAMETER");
        return;
    }
    json_line_open(line, "step", '[');
    if (step_form == STEP_NUMBERED) {
        json_line_integer(line, NULL, epoch_of(record));
        json_line_integer(line, NULL, step_of(record));
    }
    json_line_close(line, ']');
}

static struct berth_field value_of(const struct berth_record *record, size_t index) {
    struct berth_field field = record->fields[index];
    if (strcmp(field.key, "checkpoint_step") == 0) {
        field.integer = step_of(record);
    }
    return field;
}

static void add_fields(struct json_line *line, const struct berth_record *record) {
    for (size_t i = 0; i < record->field_count; i++) {
        const struct berth_field field = value_of(record, i);
        const char *name;
        for (int which = 0; (name = name_of(record, &field, which)) != NULL; which++) {
            lines_json_field(line, name, &field);
        }
    }
}

static void add_data(struct json_line *line, const struct berth_record *record) {
    const int named = record->kind == BERTH_EVENT && record->text != NULL;
    json_line_open(line, "data", '{');
    if (named && record->field_count == 0) {
        json_line_boolean(line, record->text, 1);
    } else if (named) {
        json_line_open(line, record->text, '{');
        add_fields(line, record);
        json_line_close(line, '}');
    } else {
        add_fields(line, record);
    }
    json_line_close(line, '}');
}

int dllogger_line(struct json_line *line, double elapsed, const struct berth_record *record) {
    if (!has_content(record)) {
        return 0;
    }
    open_line(line, "LOG", elapsed);
    add_step(line, record);
    add_data(line, record);
    close_line(line);
    return 1;
}

void dllogger_metadata(struct json_line *line, double elapsed) {
    for (size_t i = 0; i < UNITS; i++) {
        open_line(line, "METADATA", elapsed);
        json_line_text(line, "metric", units[i].metric);
        json_line_open(line, "metadata", '{');
        json_line_text(line, "unit", units[i].unit);
        json_line_close(line, '}');
        close_line(line);
    }
}

// --- for people ---------------------------------------------------------------------------------

static void append_metric(const char *name, const struct berth_field *field, char *text,
                          size_t size) {
    char value[256] = "True";
    const char *unit = "";
    if (field != NULL && field->type == BERTH_TEXT) {
        snprintf(value, sizeof value, "%s", field->text != NULL ? field->text : "None");
    } else if (field != NULL && field->type == BERTH_INTEGER) {
        snprintf(value, sizeof value, "%" PRId64, field->integer);
    } else if (field != NULL) {
        number_print_real(value, sizeof value, field->real);
    }
    for (size_t i = 0; i < UNITS; i++) {
        unit = strcmp(units[i].metric, name) == 0 && units[i].unit != NULL ? units[i].unit : unit;
    }
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s : %s %s%s", name, value, unit, *unit != '\0' ? " " : "");
}

int dllogger_text(const struct berth_record *record, char *text, size_t size) {
    char datetime[64];
    if (!has_content(record)) {
        return 0;
    }
    print_now(datetime);
    const enum step_form step_form = step_form_of(record);
    if (step_form == STEP_NUMBERED) {
        snprintf(text, size,
                 "DLL %s - Training Epoch: %" PRId64 " Training Iteration: %" PRId64 "  ", datetime,
                 epoch_of(record), step_of(record));
    } else {
        snprintf(text, size, "DLL %s - %s ", datetime,
                 step_form == STEP_PARAMETER ? "PARAMETER" : "");
    }
    if (record->kind == BERTH_EVENT && record->text != NULL && record->field_count == 0) {
        append_metric(record->text, NULL, text, size);
    }
    for (size_t i = 0; i < record->field_count; i++) {
        const struct berth_field field = value_of(record, i);
        const char *name;
        for (int which = 0; (name = name_of(record, &field, which)) != NULL; which++) {
            append_metric(name, &field, text, size);
        }
    }
    text[strcspn(text, "\r\n")] = '\0';
    return 1;
}
