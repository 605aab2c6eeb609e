// SPDX-License-Identifier: Apache-2.0
// The table of tasks, by name and by the class that a model's config.json names.
#include "task/task.h"

#include <string.h>

extern const struct task_row row_answer, row_classify, row_tag, row_fill, row_embed, row_rerank,
    row_hidden, row_tokenize;

// A model's own task is the first row whose architecture it has; any model has that of row_embed.
const struct task_row *const task_rows[] = {&row_answer, &row_classify, &row_tag,    &row_fill,
                                            &row_embed,  &row_rerank,   &row_hidden, &row_tokenize};
const size_t task_row_count = sizeof task_rows / sizeof *task_rows;

const struct task_row *task_find(const char *name) {
    for (size_t i = 0; i < task_row_count; i++) {
        const struct berth_task *about = &task_rows[i]->about;
        if (strcmp(about->name, name) == 0 || strcmp(about->pipeline, name) == 0) {
            return task_rows[i];
        }
    }
    return NULL;
}

const char *task_field(const struct task_row *task, size_t which) {
    return which == 0 ? task->about.text : task->about.pair;
}

int task_has_field(const struct task_row *task, const char *name) {
    return strcmp(name, task->about.text) == 0 ||
           (task->about.pair != NULL && strcmp(name, task->about.pair) == 0);
}

int task_has_one_score(const struct task_model *model) {
    const struct task_row *task = model->task;
    return task->label != NULL && task->width != NULL && task->width(model) == 1;
}
