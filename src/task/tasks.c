// SPDX-License-Identifier: Apache-2.0
// The table of tasks, by name and by the class that a model's config.json names.
#include "task/task.h"

#include <string.h>

extern const struct task_row row_answer, row_classify, row_tag, row_fill, row_embed,
    row_embed_sparse, row_embed_tokens, row_rerank, row_hidden, row_tokenize;
// The row of a program that has a task of its own, which its file defines; NULL in others. So the
// tests show that a row is all that a task takes.
extern const struct task_row berth_added_task __attribute__((weak));

const struct task_row *const task_rows[] = {&row_answer,       &row_classify,     &row_tag,
                                            &row_fill,         &row_embed,        &row_embed_sparse,
                                            &row_embed_tokens, &row_rerank,       &row_hidden,
                                            &row_tokenize,     &berth_added_task, NULL};

// What is trained, but not run with texts.
extern const struct task task_pretrain;

const struct task *task_training_at(size_t index) {
    size_t seen = 1;
    for (size_t i = 0; task_rows[i] != NULL && index > 0; i++) {
        if (task_rows[i]->training != NULL && seen++ == index) {
            return task_rows[i]->training;
        }
    }
    return index == 0 ? &task_pretrain : NULL;
}

const struct task *task_training_find(const char *name) {
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        if (strcmp(task_rows[i]->about.name, name) == 0 && task_rows[i]->training != NULL) {
            return task_rows[i]->training;
        }
    }
    size_t i = 0;
    while (task_training_at(i) != NULL && strcmp(task_training_at(i)->name, name) != 0) {
        i++;
    }
    return task_training_at(i);
}

const struct task_row *task_find(const char *name) {
    for (size_t i = 0; task_rows[i] != NULL; i++) {
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
