// SPDX-License-Identifier: Apache-2.0
// The state of the task "classify" that its parts share (classify*.c): its set, labels, scores and
// result files; and what the task "rerank" shares with it. No file outside src/task includes it.
#ifndef BERTH_TASK_CLASSIFY_H
#define BERTH_TASK_CLASSIFY_H

#include "data/pairs/glue_tasks.h"
#include "data/pairs/pair_features.h"
#include "metrics/results.h"
#include "task/task.h"
#include "train/tasks/class_names.h"

// One file of a set: MNLI's development and test sets have two.
struct classify_part {
    const char *suffix; // suffix of score names and result files: "", "_mm"
    char *path;
    struct pair_dataset dataset;
    struct pair_feature_set features;
    size_t first; // index of its first example in the set
};

#define CLASSIFY_PARTS_MAX 2

struct classify {
    const struct glue_task *task; // NULL: the user's own data
    struct classify_part parts[CLASSIFY_PARTS_MAX];
    size_t part_count;
    size_t width;             // logits per example
    float *logits;            // [examples][width]
    struct class_names names; // of the classes; empty: a regression
    int is_multi_label;       // classes apply independently
    int is_ranking;           // of pairs, with labels from 0 to 1: how well their texts fit
    double smoothing;         // of the labels in an evaluation's loss
    double positive_weight;   // of the pairs that fit, there
};

// --- the rows (classify.c) ----------------------------------------------------------------------

// Functions of struct task_row.
enum berth_status classify_open(struct task_model *model, const struct task_opening *opening,
                                struct berth_error *error);
void classify_close(void *own);
size_t classify_width(const struct task_model *model);
const char *classify_label(const struct task_model *model, size_t index);
// The texts of the call become rows of the scores that they ask for.
enum berth_status classify_compute(const struct task_model *model, struct task_text *const *texts,
                                   size_t count, struct berth_error *error);

// Functions of struct training_task.
enum berth_status classify_open_set(struct task_set *set, const struct task_open *args,
                                    struct berth_error *error);
void classify_close_set(void *own);
void classify_receive(void *set, size_t index, const float *logits, int64_t count);

// --- labels (classify_labels.c) ------------------------------------------------------------------

// As class_names_read; a regression has none.
enum berth_status classify_read_names(struct class_names *names, const struct model_files *files,
                                      struct berth_error *error);
// A regression to several numbers is BERTH_CONFIG.
enum berth_status classify_check_outputs(const struct model_files *files,
                                         struct berth_error *error);
// Makes the labels of a training set the model's, unless they are among the classes that the model
// was trained for.
enum berth_status classify_settle_labels(struct classify *own, struct task_set *set,
                                         const struct task_open *args, struct berth_error *error);
// Translates the labels of another set to the numbers of own->names. A label that the model does
// not know, or a number for a class, is an error.
enum berth_status classify_match_labels(struct classify *own, const struct task_open *args,
                                        struct berth_error *error);

// --- results (classify_results.c) ----------------------------------------------------------------

struct results_predictions classify_predictions(const struct classify *own,
                                                const struct classify_part *part);

// The most memory that scores and details of `count` examples take while they are made.
size_t classify_score_bytes(const struct classify *own, size_t count);
size_t classify_detail_bytes(const struct classify *own, size_t count); // classify_details.c

// Functions of struct training_task:
enum berth_status classify_score(const struct task_set *set, struct task_score *score,
                                 struct berth_error *error);
// classify_details.c
enum berth_status classify_detail(const struct task_set *set, int64_t step,
                                  const struct berth_log *log, struct berth_error *error);
enum berth_status classify_write(const struct task_set *set, const struct task_results *results,
                                 struct berth_error *error);

#endif
