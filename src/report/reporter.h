// SPDX-License-Identifier: Apache-2.0
// The reporter: turns records (berth.h) into lines for people on one file descriptor and into JSON
// lines in a file.
//
// For people: notes, warnings, the plan as an aligned table, a line per STEP and EVAL record, the
// summary. On a terminal those lines lose as many of their last fields as it takes to fit (in the
// plain format). PROGRESS moves a bar on a terminal; elsewhere it gives a plain line at most every
// ten seconds. `quiet` leaves warnings only. JSON: every record but PROGRESS, one object a line:
// {"time": unix seconds, "elapsed": seconds, "kind": "step", "text": ..., fields...}.
//
// Any field is printed; these keys are known and get a unit or a short name:
//   step total_steps epoch loss learning_rate grad_norm skipped samples_per_second
//   tokens_per_second mfu exact_match f1 seconds, *_seconds, *_ms, *_bytes, *_flops
// In the deepspeed format a STEP record also uses, when they are there: skipped (else 0),
// adam_beta1 and adam_beta2 (else the config's), average_samples_per_second (else the mean of
// samples_per_second over the records after the first two), forward_ms, backward_ms, step_ms.
// Memory in those lines is the process's resident size and its peak.
//
// In dllogger's format (dllogger.h) its lines stand in place of those of STEP and EVAL records and
// beside the plan and the summary, and the file holds nothing but its lines.
//
// TensorBoard's scalars: event_file.h.
#ifndef BERTH_REPORT_REPORTER_H
#define BERTH_REPORT_REPORTER_H

#include "core/error.h"
#include "report/console.h"
#include "report/event_file.h"
#include "report/json_file.h"

struct berth_reporter {
    struct console console;
    struct json_file json;
    struct event_file events;
    int quiet;
    int deepspeed, dllogger; // the form of the lines
    double adam_beta1, adam_beta2;
    int64_t rates;   // STEP records with a rate so far
    double rate_sum; // of those after the first two
};

// Opens config->json_summary if there is one ("-": standard output; appended to when the run
// resumes); config->logging_dir gets a file of its own with each run's first scalar. Closing is
// reporter_close; the descriptor stays open.
enum berth_status reporter_open(const struct berth_config *config, int descriptor,
                                struct berth_reporter **reporter, struct berth_error *error);
struct berth_log reporter_log(struct berth_reporter *reporter);
// As berth_reporter_check.
enum berth_status reporter_check(const struct berth_reporter *reporter, struct berth_error *error);
void reporter_close(struct berth_reporter *reporter);

#endif
