// SPDX-License-Identifier: Apache-2.0
// The log of a training job in its output folder, FOLDER/log.jsonl, and the report made from it
// while the job runs and at its end. Passes all records on to the caller's log.
//
// Records that come before the folder exists are kept in memory. A failing disk does not stop the
// job: the caller's log gets one warning. The page is made by page/html.c.
#ifndef BERTH_REPORT_RUN_LOG_H
#define BERTH_REPORT_RUN_LOG_H

#include "core/log.h"

#include <stdint.h>

struct run_log;

struct run_log_settings {
    struct berth_log next; // borrowed
    const char *report;    // HTML file; NULL: none
    int64_t report_every;  // seconds; 0: only at the start and the end
};

// BERTH_CANT_CREATE if the report would replace another kind of file.
enum berth_status run_log_open(const struct run_log_settings *settings, struct run_log **log,
                               struct berth_error *error);
struct berth_log run_log_log(struct run_log *log);
// Creates the log in `folder`, or continues it, and the first report, so that one that cannot be
// written is an error now.
enum berth_status run_log_begin(struct run_log *log, const char *folder, int append,
                                struct berth_error *error);
// Writes the last report, if the log has begun. NULL is allowed.
void run_log_close(struct run_log *log);

#endif
