// SPDX-License-Identifier: Apache-2.0
// Tasks whose result is a row of numbers for each text: embeddings and classes.
#ifndef BERTH_SERVE_TASK_ROWS_H
#define BERTH_SERVE_TASK_ROWS_H

#include "serve/task.h"

// Texts that are computed with the same setting, and their rows.
struct text_rows {
    struct item **items; // [count], as all below
    struct berth_text *texts;
    struct berth_text_status *statuses;
    float *rows;
    size_t count, size; // of a row
};

// How a task computes rows.
struct text_work {
    size_t size;    // of a row
    int first, end; // settings are the numbers first .. end - 1
    int (*setting)(const struct item *item);
    enum berth_status (*compute)(const struct instance *instance, struct text_rows *rows,
                                 int setting, struct berth_error *error);
};

// Runs the items with the same setting together and stores each row in its item's numbers.
enum berth_status task_run_texts(const struct text_work *work, const struct instance *instance,
                                 struct item *const *items, size_t count,
                                 struct berth_error *error);
// Writes the numbers of an item.
void task_put_numbers(struct tensor_writer *writer, const struct instance *instance,
                      const struct item *item);

#endif
