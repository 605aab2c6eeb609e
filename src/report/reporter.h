// SPDX-License-Identifier: Apache-2.0
// The reporter: turns records (berth.h) into lines for people on a file descriptor, JSON lines in a
// file, and TensorBoard scalars (event_file.h).
//
// For people: notes, warnings, a few lines of plan, one line per EVAL record, at most 20 lines of
// STEP records unless the settings say which updates to report, the summary. On a terminal, lines
// lose the last fields that do not fit (in the plain format), and PROGRESS moves a bar. `verbose`
// (also: a dry run, a recipe, and the formats of other programs) adds the details called "note"
// (log_detail), the plan and the summary as tables, every STEP record with all fields and, without
// a terminal, a line of progress at most every ten seconds. `quiet` leaves only warnings. JSON:
// every record except PROGRESS, one object per line: {"time": unix seconds, "elapsed": seconds,
// "kind": "step", "text": ..., fields...}.
//
// keys.h says how each field is shown. In the deepspeed format memory is the process's resident
// size and its peak. The deepspeed-bert format adds the lines of DeepSpeed's BERT programs; without
// an engine's file these follow the plain ones.
//
// In dllogger's format (lines.h) its lines replace those of STEP and EVAL records and are added
// to the plan and the summary; the file contains only its lines.
#ifndef BERTH_REPORT_REPORTER_H
#define BERTH_REPORT_REPORTER_H

#include "core/error.h"
#include "core/log.h"
#include "report/console.h"
#include "report/event_file.h"
#include "report/json_file.h"
#include "settings/report.h"

struct berth_reporter {
    struct console console;
    struct json_file json;
    struct event_file events;
    int quiet, verbose;
    int whole_steps;         // step lines have all fields
    int thins;               // they are at most STEP_LINES
    int64_t thinned;         // lines that were due so far, if all were shown evenly
    int deepspeed, dllogger; // the form of the lines
    int bert_programs;       // further lines
    double adam_betas[2];
};

// What the reports of a run depend on besides its settings of reports.
struct reported_run {
    int resumes;
    int has_deepspeed; // the run has an engine's file
    int chooses_steps; // which updates to report was asked for
    double adam_betas[2];
};

// Opens json_summary if set ("-": standard output; appends if the run resumes). logging_dir gets a
// new file with the first scalar of each run. Close with reporter_close; the descriptor stays open.
enum berth_status reporter_open(const struct report_settings *settings,
                                const struct reported_run *run, int descriptor,
                                struct berth_reporter **reporter, struct berth_error *error);
struct berth_log reporter_log(struct berth_reporter *reporter);
// See berth_reporter_check.
enum berth_status reporter_check(const struct berth_reporter *reporter, struct berth_error *error);
void reporter_close(struct berth_reporter *reporter);

#endif
