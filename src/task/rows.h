// SPDX-License-Identifier: Apache-2.0
// Tasks whose result is a row of numbers for each text: embeddings and classes.
#ifndef BERTH_TASK_ROWS_H
#define BERTH_TASK_ROWS_H

#include "task/task.h"

// Texts that are computed with the same setting, and their rows.
struct text_rows {
    struct task_text **items; // [count], as all below
    struct berth_text *texts;
    struct berth_text_status *statuses;
    float *rows;
    size_t count, size; // of a row
};

// How a task computes rows.
struct text_work {
    size_t size;    // of a row
    int first, end; // settings are the numbers first .. end - 1
    int (*setting)(const struct task_text *text);
    enum berth_status (*compute)(const struct task_model *model, struct text_rows *rows,
                                 int setting, struct berth_error *error);
};

// Runs the texts with the same setting together and stores each row in its text's numbers.
enum berth_status task_run_texts(const struct text_work *work, const struct task_model *model,
                                 struct task_text *const *texts, size_t count,
                                 struct berth_error *error);
// Writes the numbers of a text as a list.
void task_write_numbers(struct json_line *line, const struct task_model *model,
                        const struct task_text *text);

#endif
