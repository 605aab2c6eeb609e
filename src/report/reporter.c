// SPDX-License-Identifier: Apache-2.0
// Receives the records of a run and decides which lines they become: what is printed now, what only
// with `verbose`, what on a terminal, and which files get it too. api/report.c opens it and the job
// logs to it; lines are formatted by lines.c and its kin, and written by console.c, json_file.c and
// event_file.c.
#include "report/reporter.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/terminal.h"
#include "report/lines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_format(const struct report_settings *settings, const char *format) {
    return strcmp(settings->log_format, format) == 0;
}

enum berth_status reporter_open(const struct report_settings *settings,
                                const struct reported_run *run, int descriptor,
                                struct berth_reporter **reporter, struct berth_error *error) {
    *reporter = NULL;
    struct berth_reporter *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a reporter");
    }
    opened->bert_programs = is_format(settings, "deepspeed-bert");
    opened->deepspeed =
        is_format(settings, "deepspeed") || (opened->bert_programs && run->has_deepspeed);
    opened->dllogger = is_format(settings, "dllogger");
    const struct json_file_options options = {.append = run->resumes, .dllogger = opened->dllogger};
    enum berth_status status = json_file_check(settings->json_summary, error);
    if (status == BERTH_OK) {
        status = json_file_open(&opened->json, settings->json_summary, &options, error);
    }
    if (status != BERTH_OK) {
        (void)error_prefix(error, status, "json_summary");
    } else {
        status = event_file_open(&opened->events, settings->logging_dir, error);
        opened->events.by_steps = strcmp(settings->logging_axis, "steps") == 0;
    }
    if (status != BERTH_OK) {
        json_file_close(&opened->json);
        memory_free(opened);
        return status;
    }
    opened->quiet = settings->quiet;
    opened->verbose = settings->verbose || !is_format(settings, "plain");
    opened->whole_steps = opened->verbose || settings->wall_clock_breakdown;
    opened->thins = !opened->verbose && !run->chooses_steps;
    console_init(&opened->console, descriptor,
                 settings->no_progress || settings->quiet ? CONSOLE_NO_PROGRESS
                 : opened->verbose                        ? CONSOLE_LINES
                                                          : CONSOLE_BAR);
    memcpy(opened->adam_betas, run->adam_betas, sizeof opened->adam_betas);
    *reporter = opened;
    return BERTH_OK;
}

#define BRIEF_WIDTH 60
#define STEP_LINES 20

static size_t console_width(const struct console *console) {
    return console->terminal ? (size_t)terminal_width(console->descriptor) : SIZE_MAX;
}

static size_t brief_width(const struct console *console) {
    const size_t width = console_width(console);
    return width < BRIEF_WIDTH ? width : BRIEF_WIDTH;
}

static void print_brief(struct berth_reporter *reporter, const struct berth_record *record,
                        const char *heading) {
    char text[2 * LINES_SIZE];
    lines_brief(record, record->text != NULL ? record->text : heading,
                brief_width(&reporter->console), text, sizeof text);
    for (char *line = text; *line != '\0';) {
        char *end = line + strcspn(line, "\n");
        const int is_last = *end == '\0';
        *end = '\0';
        console_line(&reporter->console, line);
        line = is_last ? end : end + 1;
    }
}

// Prints a heading and one aligned row per field; without fields only the text.
static void print_table(struct berth_reporter *reporter, const struct berth_record *record,
                        const char *heading) {
    char line[LINES_SIZE];
    console_line(&reporter->console, record->text != NULL ? record->text : heading);
    for (size_t i = 0; i < record->field_count; i++) {
        const struct berth_field *field = &record->fields[i];
        if (field->type != BERTH_REAL || field->real == field->real) { // omit unknown values
            lines_row(field, line, sizeof line);
            console_line(&reporter->console, line);
        }
    }
}

// Prints the record as one line. A terminal gets as much as fits without wrapping; a pipe or a file
// gets all of it.
static void print_fields(struct berth_reporter *reporter, const struct berth_record *record,
                         enum lines_fields which) {
    struct console *console = &reporter->console;
    const size_t width = which == LINES_BRIEF ? brief_width(console) : console_width(console);
    char line[LINES_SIZE];
    lines_plain(record, which, width, line, sizeof line);
    console_line(console, line);
}

// Whether one of the evenly spaced lines is due; the first update and the last one always are.
static int step_is_due(struct berth_reporter *reporter, const struct berth_record *record) {
    const double step = lines_real(record, "step", 0), total = lines_real(record, "total_steps", 0);
    const int64_t lines = total > 0 ? (int64_t)(step * (STEP_LINES - 1) / total) : 0;
    const int is_due =
        !reporter->thins || total <= 0 || step <= 1 || step >= total || lines > reporter->thinned;
    reporter->thinned = is_due ? lines : reporter->thinned;
    return is_due;
}

static void print_step(struct berth_reporter *reporter, const struct berth_record *record) {
    struct console *console = &reporter->console;
    const int has_loss = lines_field(record, "loss") != NULL;
    number_format(console->detail, sizeof console->detail, has_loss ? "loss %.4f" : "no loss",
                  lines_real(record, "loss", 0.0));
    if (reporter->deepspeed) {
        lines_deepspeed_step(console, record, reporter->adam_betas);
    } else if (!reporter->dllogger && step_is_due(reporter, record)) {
        print_fields(reporter, record, reporter->whole_steps ? LINES_ALL : LINES_BRIEF);
    }
    if (reporter->bert_programs) {
        lines_deepspeed_program(console, record);
    }
}

static void print_eval(struct berth_reporter *reporter, const struct berth_record *record) {
    struct berth_record named = *record;
    named.text = record->text != NULL ? record->text : "evaluation";
    if (reporter->deepspeed) {
        char line[LINES_SIZE];
        lines_plain(&named, LINES_ALL, SIZE_MAX, line, sizeof line);
        lines_deepspeed_text(&reporter->console, line);
    } else if (!reporter->dllogger) {
        print_fields(reporter, &named, LINES_ALL);
    }
}

static void print_summary(struct berth_reporter *reporter, const struct berth_record *record) {
    const int is_training = lines_field(record, "predict_seconds") == NULL;
    if (reporter->deepspeed && is_training) {
        console_line(&reporter->console, "Finished Training");
    }
    if (reporter->verbose) {
        print_table(reporter, record, "summary");
    } else {
        print_brief(reporter, record, "summary");
    }
}

static void print_progress(struct berth_reporter *reporter, const struct berth_record *record) {
    const int bytes = lines_field(record, "total_bytes") != NULL;
    console_advance(&reporter->console, record->text != NULL ? record->text : "", bytes,
                    (int64_t)lines_real(record, bytes ? "done_bytes" : "done", 0.0),
                    (int64_t)lines_real(record, bytes ? "total_bytes" : "total", 0.0));
}

static void print_note(struct berth_reporter *reporter, const struct berth_record *record) {
    if (reporter->deepspeed) {
        lines_deepspeed_note(&reporter->console, record);
    } else {
        console_line(&reporter->console, record->text != NULL ? record->text : "");
    }
}

static void print_record(struct berth_reporter *reporter, const struct berth_record *record) {
    const char *text = record->text != NULL ? record->text : "";
    switch (record->kind) {
    case BERTH_NOTE:
        print_note(reporter, record);
        break;
    case BERTH_WARNING:
        console_warning(&reporter->console, text);
        break;
    case BERTH_PLAN:
        if (reporter->verbose) {
            print_table(reporter, record, "plan");
        } else {
            print_brief(reporter, record, "plan");
        }
        break;
    case BERTH_STEP:
        print_step(reporter, record);
        break;
    case BERTH_PROGRESS:
        print_progress(reporter, record);
        break;
    case BERTH_EVAL:
        print_eval(reporter, record);
        break;
    case BERTH_SUMMARY:
        print_summary(reporter, record);
        break;
    case BERTH_VALUES: // too many for people; they are in the JSON lines and TensorBoard's
                       // histograms
    case BERTH_EVENT:  // for other programs
        break;
    case BERTH_DETAIL: // other details are for reports
        if (reporter->verbose && log_detail_text(record) != NULL) {
            print_note(reporter,
                       &(struct berth_record){.kind = BERTH_NOTE, .text = log_detail_text(record)});
        }
        break;
    }
    char line[LINES_SIZE];
    if (reporter->dllogger && dllogger_text(record, line, sizeof line)) {
        console_line(&reporter->console, line);
    }
}

static void write_record(void *context, const struct berth_record *record) {
    struct berth_reporter *reporter = context;
    if (!reporter->quiet || record->kind == BERTH_WARNING) {
        print_record(reporter, record);
    }
    if (record->kind != BERTH_PROGRESS && !json_file_record(&reporter->json, record)) {
        char text[256];
        snprintf(text, sizeof text, "json_summary: writing failed (%s); no more lines are written",
                 strerror(reporter->json.failed));
        console_warning(&reporter->console, text);
    }
    struct berth_error error;
    if (event_file_record(&reporter->events, record, &error) != BERTH_OK) {
        (void)error_prefix(&error, error.status, "logging_dir: no more scalars are written");
        console_warning(&reporter->console, error.message);
    }
}

struct berth_log reporter_log(struct berth_reporter *reporter) {
    return (struct berth_log){.write = write_record, .context = reporter};
}

enum berth_status reporter_check(const struct berth_reporter *reporter, struct berth_error *error) {
    const struct {
        int descriptor, failed;
    } outputs[] = {{reporter->console.descriptor, reporter->console.failed},
                   {reporter->json.descriptor, reporter->json.failed}};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        if (outputs[i].descriptor == STDOUT_FILENO && outputs[i].failed != 0 &&
            outputs[i].failed != EPIPE) {
            return error_set_errno(error, BERTH_IO, outputs[i].failed,
                                   "cannot write to standard output");
        }
    }
    return BERTH_OK;
}

void reporter_close(struct berth_reporter *reporter) {
    if (reporter != NULL) {
        console_clear(&reporter->console);
        json_file_close(&reporter->json);
        event_file_close(&reporter->events);
        memory_free(reporter);
    }
}
