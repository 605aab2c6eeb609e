// SPDX-License-Identifier: Apache-2.0
// Writes records as JSON lines to a file. Each line is written at once with a single write, so the
// file can be followed, and a killed run leaves complete lines (except possibly the last one). The
// lines are in dllogger's form if requested (dllogger.c).
#ifndef BERTH_REPORT_JSON_FILE_H
#define BERTH_REPORT_JSON_FILE_H

#include "core/error.h"
#include "core/json_line.h"

struct json_file {
    int descriptor; // -1: none
    int owned;      // close the descriptor at the end
    int failed;     // errno of the first failed write
    int dllogger;
    int fresh;    // dllogger's header lines are not written yet
    int waits;    // the file still has an earlier run's lines; `line` has this run's
    double start; // monotonic seconds
    struct json_line line;
};

struct json_file_options {
    int append;   // begin a new line at the end of the file; 0: replace the file's lines
    int dllogger; // write dllogger's lines instead of ours
};

// BERTH_CANT_CREATE if `path` is a file without such lines.
enum berth_status json_file_check(const char *path, struct berth_error *error);
// `path` NULL: write nothing; "-": standard output. A file that already is standard output or
// standard error is written through that descriptor. The lines of a file are replaced when the plan
// comes, so that a run that is refused before does not lose them.
enum berth_status json_file_open(struct json_file *file, const char *path,
                                 const struct json_file_options *options,
                                 struct berth_error *error);
// Writes a record. Returns 0 when a write fails for the first time (file->failed is the errno).
int json_file_record(struct json_file *file, const struct berth_record *record);
// Writes whole lines that json_file_build has made; returns as json_file_record.
int json_file_write(struct json_file *file, const char *bytes, size_t length);
void json_file_close(struct json_file *file);

// Appends the record's line; `start` is what "elapsed" counts from, in monotonic seconds.
void json_file_build(struct json_line *line, double start, const struct berth_record *record);

#endif
