// SPDX-License-Identifier: Apache-2.0
// The classes of a model that classifies texts or words: their names, in config.json and in the
// data, and their weights in the loss. Shared by the tasks that classify (task/classify.c,
// task/tag.c).
#ifndef BERTH_TRAIN_TASKS_CLASS_NAMES_H
#define BERTH_TRAIN_TASKS_CLASS_NAMES_H

#include "data/pairs/pairs.h"
#include "format/json/json.h"
#include "settings/settings.h"
#include "train/tasks/training_task.h"

// The names in config.json, or transformers' LABEL_0, LABEL_1, ... where it has none. Free with
// class_names_done, also after a failure.
struct class_names {
    json *model;       // object of config.json, which owns the names
    const char **list; // [count]
    size_t count;
    int has_head; // whether config.json says that the model has a head of this kind: one without it
                  // may have any number of classes there
};
enum berth_status class_names_read(struct class_names *names, const struct model_files *files,
                                   struct berth_error *error);
void class_names_done(struct class_names *names);
// Makes the labels of a data set the classes of the model. BERTH_BAD_DATA: one of them contains one
// of the `separators`, between which a file of predictions has its classes.
enum berth_status class_names_set(struct model_files *files, const struct pair_dataset *dataset,
                                  const char *separators, struct berth_error *error);
// BERTH_BAD_DATA, as above, for names that come from the model.
enum berth_status class_names_check_written(const struct class_names *names, const char *separators,
                                            struct berth_error *error);
// Whether the labels of a training set can be classes of the model: there are as many, or fewer
// than the model's head was trained for, and, unless the classes are placeholders, the problem is
// the same.
int class_names_are_comparable(const struct class_names *names, const struct model_files *files,
                               const struct pair_dataset *dataset);
// Notes that the file `path` has only so many labels, all of them classes of the model.
void class_names_note_missing(const struct class_names *names, size_t labels, const char *path,
                              const struct berth_log *log);
// Sets set->new_head if the model's head has another number of outputs or, with a warning, is for
// other classes; `are_same`: the labels of the training set are its classes, and have been
// renumbered.
void class_names_settle_head(struct task_set *set, const struct class_names *names,
                             const struct task_open *args, const struct pair_dataset *dataset,
                             int are_same);
// Whether the model chooses among classes.
int class_names_exist(const struct model_files *files);
// The object id2label of such a model; the caller frees it. NULL: out of memory.
json *class_names_json(const struct model_files *files);
// BERTH_CONFIG if the id2label of `object`, of the file `path`, has other classes than the model,
// or the same in another order. Files of 0.1.0 have none; the configuration beside them then
// counts. No effect if there is none or the model has no classes.
enum berth_status class_names_check(const struct model_files *files, const json *object,
                                    const char *path, struct berth_error *error);
// The index of a class; names->count: there is none of that name.
size_t class_names_find(const struct class_names *names, const char *name);
// 1 for LABEL_0, LABEL_1, ..., and without names.
int class_names_are_placeholders(const struct class_names *names);
// Logs that the labels of the file `path` were taken in order for such classes.
void class_names_note_order(const char *path, const char *const *labels, size_t count,
                            const struct berth_log *log);

// Sets set->class_weights from config->class_weights: "balanced" gives a class with n of N examples
// the weight N / (classes * n). counts[names->count] are those of the training set. NULL if there
// are no weights.
enum berth_status class_weights_set(struct task_set *set, const struct settings *config,
                                    const struct class_names *names, const size_t *counts,
                                    struct berth_error *error);
// BERTH_CONFIG if the settings weight or smooth classes, but the model does not choose one of
// several.
enum berth_status class_weights_refuse(const struct settings *config, struct berth_error *error);

#endif
