// SPDX-License-Identifier: Apache-2.0
// An open model of berth.h: its files, the settings that it was opened with, and what was opened of
// it for the tasks that were run. Made by open.c, read by everything here that runs a task.
#ifndef BERTH_API_MODEL_H
#define BERTH_API_MODEL_H

#include "api/watch.h"
#include "settings/settings.h"
#include "task/task.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MODEL_TASKS_MAX = 16 };

// A model never changes for its users. What is opened or read only when it is needed is guarded by
// `lock`, and stays as it is from then on. It is freed when the last reference is dropped: that of
// its user, and one of each result, whose items may borrow from it.
struct berth_model {
    atomic_int references;
    char *path;                 // folder or file of weights
    struct settings *config;    // with the settings that were given to berth_open
    const struct task_row *own; // the task that it was opened for
    int without_weights;
    char *config_json;               // NULL: there is none
    char *architecture;              // ""; the class in config.json
    char *temporary;                 // folder to remove with the model; NULL: none
    struct berth_run_result trained; // steps -1: it was not just trained
    pthread_mutex_t lock;
    struct task_model *opened[MODEL_TASKS_MAX]; // each way to open it once
    size_t opened_count;
    struct berth_tensor *tensors; // [tensor_count], once they are listed
    size_t tensor_count, tensor_capacity;
    int tensors_listed;
};

struct model_opening {
    const struct task_row *task; // what the model is opened for; NULL: the task that its files name
    int without_weights;
    struct comm *comm; // of the ranks that all open it; NULL: this process alone
    const struct berth_log *log;
};
// Opens a folder or file with `config`, which the model owns from then on, also after a failure.
// The path may be NULL for the task tokenize.
enum berth_status model_open(const char *path, struct settings *config,
                             const struct model_opening *opening, struct berth_model **model,
                             struct berth_error *error);
struct berth_model *model_keep(const struct berth_model *model);
// What is opened for a task, which the model keeps.
enum berth_status model_for(const struct berth_model *model, const struct task_row *task,
                            const struct berth_log *log, const struct task_model **opened,
                            struct berth_error *error);
// Whether berth_open has a use for a setting.
int model_opens_with(const struct option_row *row);

// --- results -------------------------------------------------------------------------------------

// What a task found in texts, or the summary and the numbers of a job.
struct result_number {
    char *name;
    double value;
};

// What a call of the task asks for by settings of names and values.
enum berth_status task_settings_read(const struct task_row *task, const char *const *settings,
                                     struct call_settings *asked, struct berth_error *error);

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
