// SPDX-License-Identifier: Apache-2.0
// What the parts of the task "classify" share: its set, what becomes of labels, scores and files of
// results. For task_classify*.c alone.
#ifndef BERTH_TRAIN_TASKS_CLASSIFY_H
#define BERTH_TRAIN_TASKS_CLASSIFY_H

#include "data/pairs/glue_tasks.h"
#include "data/pairs/pair_features.h"
#include "format/json/json.h"
#include "train/tasks/task.h"

// One file of a set: MNLI's development and test sets have two.
struct classify_part {
    const char *suffix; // of the scores' names and the files of results: "", "_mm"
    char *path;
    struct pair_dataset dataset;
    struct pair_feature_set features;
    size_t first; // number of its first example in the set
};

#define CLASSIFY_PARTS_MAX 2

struct classify {
    const struct glue_task *task; // NULL: the user's own
    struct classify_part parts[CLASSIFY_PARTS_MAX];
    size_t part_count;
    size_t width;       // logits of an example
    float *logits;      // [examples][width]
    json *model;        // config.json's object, which owns the names
    const char **names; // of the classes; NULL: a regression
    int several;        // whether classes hold independently of each other
};

// --- labels (task_classify_labels.c) ------------------------------------------------------------

int classify_is_regression(const struct model_files *files);
// The labels of a training set become the model's, unless the model has classes of the same names.
enum berth_status classify_settle_labels(struct classify *own, struct task_set *set,
                                         const struct task_open *args, struct berth_error *error);
// The labels of another set become the model's numbers. One that the model does not know, and
// numbers for classes, are errors.
enum berth_status classify_match_labels(struct classify *own, const struct task_open *args,
                                        struct berth_error *error);
void classify_drop_names(struct classify *own);

// --- results (task_classify_results.c); as the functions of struct task -------------------------

enum berth_status classify_score(const struct task_set *set, struct task_score *score,
                                 struct berth_error *error);
enum berth_status classify_write(const struct task_set *set, const struct task_results *results,
                                 struct berth_error *error);

#endif
