// SPDX-License-Identifier: Apache-2.0
// The table of tasks: which there are, which one a name or the files of a model mean, and the check
// of a row. The library and the server look a task up here once, when they read a name or open a
// model, and then call the row's functions; what a task does is in the file of its row.
#include "core/check.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/hub/model_files.h"
#include "model/folder_class.h"
#include "model/sentence.h"
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
extern const struct training_task task_pretrain;

const struct training_task *task_training_at(size_t index) {
    size_t seen = 1;
    for (size_t i = 0; task_rows[i] != NULL && index > 0; i++) {
        if (task_rows[i]->training != NULL && seen++ == index) {
            return task_rows[i]->training;
        }
    }
    return index == 0 ? &task_pretrain : NULL;
}

const struct training_task *task_training_find(const char *name) {
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

// --- the task of a model -------------------------------------------------------------------------

// The row for a model's architecture, the class in its config.json: that of the longest end.
static const struct task_row *find_row(const char *architecture) {
    const struct task_row *found = NULL;
    size_t longest = 0;
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        for (size_t k = 0; k < 2 && task_rows[i]->architectures[k] != NULL; k++) {
            const char *end = task_rows[i]->architectures[k];
            if (text_ends_with(architecture, end) && (found == NULL || strlen(end) > longest)) {
                found = task_rows[i];
                longest = strlen(end);
            }
        }
    }
    return found;
}

enum berth_status task_of_folder(const char *folder, const struct task_row **task,
                                 struct berth_error *error) {
    char name[128];
    enum sentence_kind kind;
    TRY(folder_read_architecture(folder, name, sizeof name, error));
    TRY(sentence_find_kind(folder, &kind, error));
    *task = kind == SENTENCE_SPARSE  ? task_find("embed_sparse")
            : kind == SENTENCE_DENSE ? find_row("") // the weights may have a head
                                     : find_row(name);
    return BERTH_OK;
}

enum berth_status task_of_model(const char *name, const struct task_row **task,
                                struct berth_error *error) {
    OWNED char *path = NULL;
    TRY(hub_find_model(name, &path, error));
    TRY(path_require(path, "the folder of a model, or its file of weights", error));
    // The other files of a model are beside its file of weights.
    if (dir_exists(path)) {
        return task_of_folder(path, task, error);
    }
    char *folder = file_parent(path);
    const enum berth_status status =
        folder != NULL ? task_of_folder(folder, task, error) : error_no_memory(error, 0, "a path");
    memory_free(folder);
    return status;
}

// --- the check of a row --------------------------------------------------------------------------

static int has_verb(const char *name) {
    const struct task_row *row = task_find(name);
    return row != NULL && row->verb.of == NULL;
}

static const char *check_training(const struct training_task *training) {
    CLAUSE(training->name != NULL && training->title != NULL && training->jobs != 0,
           "a training has a name, a title and the jobs of its settings");
    CLAUSE(training->open != NULL && training->done != NULL && training->own_size > 0,
           "a training opens a set and closes it");
    CLAUSE(training->receive != NULL && training->score != NULL && training->write != NULL,
           "a training receives, scores and writes what was predicted");
    return NULL;
}

// Whether `names` are tasks, the row's own among them.
static int are_tasks_of(const struct task_row *row, const char *names) {
    char name[OPTION_NAME_SIZE];
    int is_among_them = 0;
    while (option_next_name(&names, name)) {
        is_among_them |= strcmp(name, row->about.name) == 0;
        if (strcmp(name, row->about.name) != 0 && task_find(name) == NULL) {
            return 0;
        }
    }
    return is_among_them;
}

const char *task_check(const struct task_row *row) {
    const struct berth_task *about = &row->about;
    const struct task_verb *verb = &row->verb;
    const char *settings = row->settings;
    char name[OPTION_NAME_SIZE];
    size_t outputs = 0;
    CLAUSE(about->name != NULL && about->pipeline != NULL && about->help != NULL &&
               about->text != NULL,
           "a task has a name, a pipeline, help and the name of a text");
    // How many rows of the table a name or pipeline of this one would find.
    int count = 0;
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        const struct berth_task *other = &task_rows[i]->about;
        count += strcmp(other->name, row->about.name) == 0 ||
                 strcmp(other->pipeline, row->about.pipeline) == 0;
    }
    CLAUSE(count <= 1, "no two tasks have the same name or pipeline");
    CLAUSE(!about->needs_pair || about->pair != NULL,
           "a task that needs a pair has a name for its second text");
    CLAUSE(about->has_items || about->has_rows,
           "a text's result is items, or rows of numbers, or both");
    CLAUSE((row->width != NULL) == about->has_rows,
           "a task says the width of its numbers exactly if it has any");
    CLAUSE(row->open != NULL && row->run != NULL && row->write != NULL,
           "a task opens a model, runs texts and writes results");
    CLAUSE(row->done == NULL || row->own_size > 0, "a task that frees something has own_size");
    CLAUSE(row->job != 0 && (row->job & (row->job - 1)) == 0,
           "a model is opened with the settings of one job");
    CLAUSE(!row->uses_windows || !row->can_use_windows,
           "texts that are too long are read in windows always or on request, not both");
    CLAUSE((verb->of != NULL) == (verb->flag != NULL) && (verb->of == NULL || has_verb(verb->of)),
           "a flag belongs to the verb of another task");
    while (option_next_name(&settings, name)) {
        CLAUSE(task_option_find(name) != NULL, "each setting of a task is one of task_options");
    }
    CLAUSE(row->tasks[0] != NULL && are_tasks_of(row, row->tasks[0]) &&
               (row->tasks[1] == NULL || are_tasks_of(row, row->tasks[1])),
           "a task names the tasks that its models have heads for, itself among them");
    while (outputs < sizeof row->outputs / sizeof *row->outputs &&
           row->outputs[outputs].name != NULL) {
        outputs++;
    }
    CLAUSE(outputs > 0 && outputs < sizeof row->outputs / sizeof *row->outputs,
           "a task has an output, and a NULL name after the last one");
    CLAUSE((row->training != NULL) == about->trains, "a task has a training exactly if it trains");
    return row->training != NULL ? check_training(row->training) : NULL;
}
