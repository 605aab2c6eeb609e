// SPDX-License-Identifier: Apache-2.0
// When a run evaluates and saves, which of its models is the best, and when it stops early: the
// settings of transformers' Trainer (eval_strategy, save_strategy, load_best_model_at_end,
// metric_for_best_model, early_stopping_patience, ...).
#ifndef BERTH_TRAIN_SAVE_EVAL_H
#define BERTH_TRAIN_SAVE_EVAL_H

#include "core/error.h"
#include "core/log.h"
#include "settings/run.h"
#include "train/tasks/training_task.h"

#define TRAINER_STEPS 500 // the default of the Trainer's intervals

// --save_steps auto: the time between two checkpoints that minimises the time lost to saving and,
// at each failure, half an interval of work. Young's formula, sqrt(2 saving mean_time_to_failure),
// all in seconds.
double save_eval_interval(double saving, double mean_time_to_failure);

// The score that determines the best model, from one evaluation.
struct best_metric {
    char name[48];
    double value;
    int lower_is_better;
    double threshold;  // an improvement up to this size does not count for early stopping
    uint64_t examples; // checksum of what was evaluated (evaluate.h); 0: unknown
};

// BERTH_CONFIG if the evaluation has no score with the requested name; the error lists those it
// has.
enum berth_status save_eval_best_metric(const struct run_settings *settings,
                                        const struct task_score *score, struct best_metric *best,
                                        struct berth_error *error);

// Whether checkpoints are written during the run and at its end. Without skip_checkpoint, a stop on
// request always writes one.
int save_eval_has_checkpoints(const struct run_settings *settings);

// Whether the best model must have a checkpoint, which is kept regardless of save_total_limit.
int save_eval_keeps_best(const struct run_settings *settings);

#endif
