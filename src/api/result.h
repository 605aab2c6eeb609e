// SPDX-License-Identifier: Apache-2.0
// A result of berth.h: what a task found in texts, or the summary and the numbers of a job.
#ifndef BERTH_API_RESULT_H
#define BERTH_API_RESULT_H

#include "api/model.h"

struct result_number {
    char *name;
    double value;
};

// What a call of the task asks for by settings of names and values.
enum berth_status task_settings_read(const struct task_row *task, const char *const *settings,
                                     struct task_settings *asked, struct berth_error *error);

struct berth_result {
    // Of a task; otherwise NULL and 0.
    struct berth_model *model; // a reference
    const struct task_row *task;
    const struct task_model *opened;
    size_t count;
    struct task_text *texts;        // [count]; their rows are in `rows`
    float *rows;                    // NULL: the task has none
    struct berth_outcome *outcomes; // [count]
    // Of a job.
    struct result_number *numbers; // [number_count]
    size_t number_count, number_capacity;
    // The last JSON that was asked for; of a job its summary.
    struct json_line line;
};

#endif
