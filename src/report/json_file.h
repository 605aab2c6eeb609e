// SPDX-License-Identifier: Apache-2.0
// Records as JSON lines in a file. Each line goes out in one write as it happens, so that the file
// can be followed and a killed run leaves whole lines (at worst a torn last one). In dllogger's
// form where that is asked for (dllogger.h).
#ifndef BERTH_REPORT_JSON_FILE_H
#define BERTH_REPORT_JSON_FILE_H

#include "core/error.h"
#include "core/json_line.h"

struct json_file {
    int descriptor; // -1: none
    int owned;      // to be closed
    int failed;     // errno of the first write that failed
    int dllogger;
    int fresh;    // the lines that come first are still to be written
    double start; // monotonic seconds
    struct json_line line;
};

struct json_file_how {
    int append;   // else the file is emptied
    int dllogger; // its lines in place of ours
};

// `path` NULL: nothing will be written; "-": standard output.
enum berth_status json_file_open(struct json_file *file, const char *path,
                                 const struct json_file_how *how, struct berth_error *error);
// Returns 0 when a write has just failed for the first time (file->failed is the errno).
int json_file_record(struct json_file *file, const struct berth_record *record);
void json_file_close(struct json_file *file);

#endif
