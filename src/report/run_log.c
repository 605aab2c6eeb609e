// SPDX-License-Identifier: Apache-2.0
// Writes log.jsonl in the output folder while a training runs, and from time to time the report
// made of it. The job opens it when the folder is locked (train/job/training_job.c) and logs
// everything through it; the page itself is page/html.c's.
#include "report/run_log.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "core/memory.h"
#include "report/json_file.h"
#include "report/run.h"

#include <errno.h>
#include <string.h>

struct run_log {
    struct run_log_settings settings;
    struct json_line waiting; // lines that were not written yet
    struct json_file file;
    double start;       // monotonic seconds
    double last_report; // when the report was last written (clock_now)
    int has_begun;
    int has_warned; // a warning about the report was given
    struct run run; // only for a report
};

enum berth_status run_log_open(const struct run_log_settings *settings, struct run_log **log,
                               struct berth_error *error) {
    *log = NULL;
    if (settings->report != NULL) {
        TRY(html_check_output(settings->report, error));
    }
    struct run_log *opened = memory_array_zeroed(1, sizeof *opened);
    *log = opened;
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a log");
    }
    opened->settings = *settings;
    opened->start = clock_now();
    opened->file.descriptor = -1;
    return BERTH_OK;
}

// --- the report ----------------------------------------------------------------------------------

static enum berth_status write_report(struct run_log *log, struct berth_error *error) {
    const struct run_set set = {.runs = &log->run, .count = 1};
    log->last_report = clock_now();
    TRY(run_end(&log->run, error));
    return html_write_report(&set, log->settings.report, error);
}

static void refresh_report(struct run_log *log) {
    struct berth_error error;
    if (write_report(log, &error) != BERTH_OK && !log->has_warned) {
        log->has_warned = 1;
        log_warning(&log->settings.next, "%s", error.message);
    }
}

static int is_due(const struct run_log *log, const struct berth_record *record) {
    return log->settings.report != NULL && log->settings.report_every > 0 &&
           (record->kind == BERTH_STEP || record->kind == BERTH_EVAL) &&
           clock_now() - log->last_report >= (double)log->settings.report_every;
}

// --- records -------------------------------------------------------------------------------------

// Writes the waiting lines, and adds them to the report's run.
static void flush(struct run_log *log) {
    const int could_write = log->file.failed == 0;
    if (log->settings.report != NULL) {
        run_feed(&log->run, log->waiting.text, log->waiting.length);
    }
    log->file.failed = log->waiting.failed && could_write ? ENOMEM : log->file.failed;
    if (!json_file_write(&log->file, log->waiting.text, log->waiting.length) && could_write) {
        log_warning(&log->settings.next,
                    RUN_LOG_NAME ": writing failed (%s); no more records are written",
                    strerror(log->file.failed));
    }
    json_line_clear(&log->waiting);
}

static void write_record(void *context, const struct berth_record *record) {
    struct run_log *log = context;
    const struct berth_log *next = &log->settings.next;
    if (next->write != NULL) {
        next->write(next->context, record);
    }
    if (record->kind == BERTH_PROGRESS) {
        return;
    }
    json_file_build(&log->waiting, log->start, record);
    if (log->has_begun) {
        flush(log);
    }
    if (log->has_begun && is_due(log, record)) {
        refresh_report(log);
    }
}

struct berth_log run_log_log(struct run_log *log) {
    return (struct berth_log){.write = write_record, .context = log};
}

// --- the log -------------------------------------------------------------------------------------

// A damaged log does not prevent a run from being resumed.
static enum berth_status read_earlier(struct run_log *log, const char *folder,
                                      struct berth_error *error) {
    struct berth_error ignored;
    run_done(&log->run);
    if (log->settings.report != NULL && run_read(&log->run, folder, &ignored) == BERTH_OK) {
        return BERTH_OK;
    }
    run_done(&log->run);
    return run_init(&log->run, folder, error);
}

enum berth_status run_log_begin(struct run_log *log, const char *folder, int append,
                                struct berth_error *error) {
    const struct json_file_options options = {.append = append};
    const struct path path = path_in(folder, RUN_LOG_NAME);
    TRY(run_init(&log->run, folder, error));
    if (append && file_exists(path.text)) {
        TRY(read_earlier(log, folder, error));
    }
    TRY(json_file_open(&log->file, path.text, &options, error));
    log->has_begun = 1;
    flush(log);
    if (log->settings.report == NULL) {
        return BERTH_OK;
    }
    enum berth_status status = dir_make_parent(log->settings.report, error);
    return status == BERTH_OK ? write_report(log, error) : error_prefix(error, status, "report");
}

void run_log_close(struct run_log *log) {
    if (log == NULL) {
        return;
    }
    if (log->has_begun && log->settings.report != NULL) {
        refresh_report(log);
    }
    json_file_close(&log->file);
    json_line_done(&log->waiting);
    run_done(&log->run);
    memory_free(log);
}
