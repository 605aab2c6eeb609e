// SPDX-License-Identifier: Apache-2.0
// The table of tasks: which there are, which one a name means, and the check of a row. A program or
// the library looks a task up here once, when it reads a command line or a name, and then calls the
// row's functions. Which task a folder of a model is for, says own_task.c.
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

// --- the check of a row --------------------------------------------------------------------------

// How many rows of the table a name or pipeline of this one would find.
static int count_rows_named_as(const struct task_row *row) {
    int count = 0;
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        const struct berth_task *about = &task_rows[i]->about;
        count += strcmp(about->name, row->about.name) == 0 ||
                 strcmp(about->pipeline, row->about.pipeline) == 0;
    }
    return count;
}

static int has_verb(const char *name) {
    const struct task_row *row = task_find(name);
    return row != NULL && row->verb.of == NULL;
}

static const char *check_settings(const char *names) {
    char name[OPTION_NAME_SIZE];
    while (option_next_name(&names, name)) {
        if (task_option_find(name) == NULL) {
            return "each setting of a task is one of task_options";
        }
    }
    return NULL;
}

static const char *check_outputs(const struct task_output *outputs, size_t size) {
    size_t count = 0;
    while (count < size && outputs[count].name != NULL) {
        count++;
    }
    return count > 0 && count < size ? NULL
                                     : "a task has an output, and a NULL name after the last one";
}

static const char *check_training(const struct task *training, int trains) {
    return (training != NULL) != trains ? "a task has a training exactly if it trains"
           : training == NULL           ? NULL
           : training->name == NULL || training->title == NULL || training->jobs == 0
               ? "a training has a name, a title and the jobs of its settings"
           : training->open == NULL || training->done == NULL || training->own_size == 0
               ? "a training opens a set and closes it"
           : training->receive == NULL || training->score == NULL || training->write == NULL
               ? "a training receives, scores and writes what was predicted"
               : NULL;
}

const char *task_check(const struct task_row *row) {
    const struct berth_task *about = &row->about;
    const struct task_verb *verb = &row->verb;
    if (about->name == NULL || about->pipeline == NULL || about->help == NULL ||
        about->text == NULL) {
        return "a task has a name, a pipeline, help and the name of a text";
    }
    const char *broken =
        count_rows_named_as(row) > 1               ? "no two tasks have the same name or pipeline"
        : about->needs_pair && about->pair == NULL ? "a task that needs a pair has a name for it"
        : !about->has_items && !about->has_rows
            ? "a text's result is items, or rows of numbers, or both"
        : (row->width != NULL) != about->has_rows
            ? "a task says the width of its numbers exactly if it has any"
        : row->open == NULL || row->run == NULL || row->write == NULL
            ? "a task opens a model, runs texts and writes results"
        : row->done != NULL && row->own_size == 0 ? "a task that frees something has own_size"
        : row->job == 0 || (row->job & (row->job - 1)) != 0 ? "a task opens with one job's settings"
        : row->uses_windows && row->can_use_windows
            ? "texts that are too long are read in windows always or on request, not both"
        : (verb->of != NULL) != (verb->flag != NULL) || (verb->of != NULL && !has_verb(verb->of))
            ? "a flag belongs to the verb of another task"
            : check_settings(row->settings);
    broken = broken != NULL
                 ? broken
                 : check_outputs(row->outputs, sizeof row->outputs / sizeof *row->outputs);
    return broken != NULL ? broken : check_training(row->training, about->trains);
}
