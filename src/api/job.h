// SPDX-License-Identifier: Apache-2.0
// A job: work on files that has a name, a row of its own in the file that does it. berth_job
// (job.c) and the program's verb of that name (cli/jobs.c) are both made from the row.
#ifndef BERTH_API_JOB_H
#define BERTH_API_JOB_H

#include "core/log.h"
#include "settings/settings.h"

#include <stdatomic.h>
#include <stdio.h>

// A setting that only one job has: a row of its name and default. One JOB_LIST a job, which on the
// command line takes several words.
#define JOB_ROW(kind, own, value) .type = (kind), .name = (own), .default_value = (value)
#define JOB_FLAG(own) JOB_ROW(OPTION_FLAG, own, "false")
#define JOB_TEXT(own, value) JOB_ROW(OPTION_TEXT, own, value)
#define JOB_INTEGER(own, value) JOB_ROW(OPTION_INTEGER, own, value)
#define JOB_REAL(own, value) JOB_ROW(OPTION_REAL, own, value)
#define JOB_LIST(own) JOB_ROW(OPTION_LIST, own, NULL)

enum { JOB_SETTINGS_MAX = 20 };
#define JOB_SETTINGS(table)                                                                        \
    .rows = (table),                                                                               \
    .row_count =                                                                                   \
        sizeof(table) / sizeof *(table) +                                                          \
        0 * sizeof(char[sizeof(table) / sizeof *(table) <= (size_t)JOB_SETTINGS_MAX ? 1 : -1])

struct job;

struct job_row {
    struct berth_job_row about;
    unsigned jobs;                 // whose settings of the option table it has
    const struct option_row *rows; // [row_count] its own
    size_t row_count;
    size_t arguments; // so many of these, the first ones, are required, and arguments of the verb
    size_t models;    // so many of the arguments are models
    const char *required; // further required settings, separated by blanks; NULL: none
    // Of the verb; usage NULL: there is none of that name.
    const char *usage, *example, *notes;
    const char *json;    // what its option --json prints; NULL: it has none
    const char *follows; // what a signal does: "nothing will be written"; NULL: it ends the program
    int only_reads; // of several processes the first one runs the verb; else it refuses, unless
                    // they divide the work
    // For what some settings imply, before the required ones are missed; or NULL.
    enum berth_status (*settle)(struct job *job, struct berth_error *error);
    enum berth_status (*run)(struct job *job, struct berth_error *error);
};

// Those of berth_job, NULL at the end.
extern const struct job_row *const job_rows[];
// Each in the file of its name; convert is berth_save's.
extern const struct job_row job_vocab, job_compare, job_verify, job_init, job_prepare, job_pack,
    job_convert, job_inspect, job_mine;

struct job {
    const struct job_row *row;
    struct settings *config;
    const char *values[JOB_SETTINGS_MAX]; // of the row's own settings; NULL: not given
    const char *const *list;              // [list_count] of its JOB_LIST
    size_t list_count;
    struct berth_log log;
    const atomic_int *stop;
    FILE *out; // for what it says to people; NULL: nowhere
    struct berth_result *result;
    int is_told;              // a job that failed has a result all the same
    struct berth_error found; // what the verb fails with after a job that succeeded
};

// Of one of the row's own settings: its value, else its default (NULL, 0 where that is NULL).
const char *job_text(const struct job *job, const char *name);
int64_t job_integer(const struct job *job, const char *name);
double job_real(const struct job *job, const char *name);
int job_flag(const struct job *job, const char *name);
// Whether a setting was given: the row's own, or one of the option table.
int job_is_given(const struct job *job, const char *name);

// Tells people something, as printf does.
void job_say(const struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The object that is the job's summary. What is put also becomes one of the result's numbers.
struct json_line *job_line(const struct job *job);
void job_put_integer(const struct job *job, const char *name, int64_t value);
void job_put_real(const struct job *job, const char *name, double value);
// The number alone.
void job_put_number(const struct job *job, const char *name, double value);

// Runs the job with the settings in it, which were checked.
enum berth_status job_perform(struct job *job, struct berth_error *error);
// The same with one more setting: the row's own, or one of the option table. BERTH_USAGE: neither.
enum berth_status job_set(struct job *job, const char *name, const char *value,
                          struct berth_error *error);

#endif
