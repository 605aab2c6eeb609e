// SPDX-License-Identifier: Apache-2.0
// The content of a run's log: series of numbers over its updates, and facts. Reports and plots are
// made from it alone (page/); run_read.c fills it.
//
// The log is untrusted input: a line that is not a record is counted and skipped, and memory is
// bounded however long the log is. What is drawn is page's.
#ifndef BERTH_REPORT_RUN_H
#define BERTH_REPORT_RUN_H

#include "core/buffer.h"
#include "core/error.h"
#include "format/json/json.h"

#include <stddef.h>
#include <stdint.h>

#define RUN_BUCKETS 1024         // of a series
#define RUN_LOG_NAME "log.jsonl" // in an output folder

// Neighbouring points: a single one, or several of a long series.
struct run_bucket {
    double first, last;   // updates
    double min, max, sum; // of the values
    int64_t count;
    double latest; // the value of the last one
};

// The values of one key of the STEP records ("loss") or, after "eval_", of the EVAL records
// ("eval_f1"), by ascending updates.
struct run_series {
    char *name;
    struct run_bucket *buckets; // [count]
    size_t count;
    int64_t stride; // points of a full bucket
};

// One process of the run: the first, or one that resumed.
struct run_process {
    double begin, end;  // Unix seconds of its first and last record; 0: unknown
    double first, last; // reported updates; first > last: none
    char *resumed_from; // NULL: from the beginning
};

struct run {
    char *name; // what the caller calls it
    struct run_series *series;
    size_t series_count, series_capacity;
    struct run_process *processes;
    size_t process_count, process_capacity;
    // JSON values, NULL where the log has none:
    json *plan;          // the plan's parts by name, each an object
    json *settings;      // every option's text by its name
    json *summary;       // of the end of the run
    json *figures;       // of a benchmark: what `berth bench --json` prints
    json *details;       // arrays of objects by the kind of detail: "length", "sample", ...
    json *warnings;      // texts
    double details_step; // update of the evaluation to which some details belong
    int details_are_complete;
    double total_steps;
    int has_ended;      // its last update is done, even if the log has no summary
    int has_history;    // it is a Trainer's log_history, possibly empty
    size_t records;     // lines that are records
    size_t skipped;     // lines that are not
    struct buffer line; // the incomplete last line
    int line_is_long;
    int failed; // out of memory
};

// `name` is copied. Zero the struct or call this first; run_done may follow any failure.
enum berth_status run_init(struct run *run, const char *name, struct berth_error *error);
void run_done(struct run *run);

// Reads a log: the file `path`, or in the output folder `path` log.jsonl, else the newest
// trainer_state.json. BERTH_NO_INPUT: there is none; BERTH_BAD_DATA: no line of it is a record.
enum berth_status run_read(struct run *run, const char *path, struct berth_error *error);
// The same in chunks, which may end within a line. run_end reads a last line that lacks only its
// newline, and derives the series "mfu".
void run_feed(struct run *run, const char *bytes, size_t length);
enum berth_status run_end(struct run *run, struct berth_error *error);

// Adds a point; creates the series if it does not exist. Points at or after `step` are replaced: a
// resumed process repeats updates.
void run_add(struct run *run, const char *name, double step, double value);
const struct run_series *run_series_find(const struct run *run, const char *name);
// Merges neighbours until at most `limit` (at least 2) buckets are left; returns their number.
size_t run_thin(struct run_bucket *buckets, size_t count, size_t limit);
static inline double run_mean(const struct run_bucket *bucket) {
    return bucket->sum / (double)bucket->count;
}

// The objects of a kind of detail; NULL: none.
const json *run_details(const struct run *run, const char *kind);

// Several runs.
struct run_set {
    struct run *runs; // [count]
    size_t count;
};
enum berth_status run_set_read(struct run_set *set, const char *const *paths, size_t count,
                               struct berth_error *error);
void run_set_done(struct run_set *set);

// --- the page (page/html.c; src/absent/page.c in the library) ------------------------------------

// The report of one or several runs as one HTML page, which loads nothing else: style, script and
// charts (SVG) are inline, and its Content-Security-Policy forbids the browser anything more. All
// text of the log is escaped.

// Appends the page. Long series are thinned so that it stays below 1 MB.
enum berth_status html_put_report(const struct run_set *set, struct buffer *page,
                                  struct berth_error *error);
// BERTH_CANT_CREATE if `path` is a file that is no report; BERTH_USAGE if it is "-", because a run
// writes its page more than once.
enum berth_status html_check_output(const char *path, struct berth_error *error);
// Writes it to standard output ("-") or to a file, which is replaced as a whole. Checks again that
// it replaces only a report: another file may have got this name during the run.
enum berth_status html_write_report(const struct run_set *set, const char *path,
                                    struct berth_error *error);

#endif
