// SPDX-License-Identifier: Apache-2.0
// When a run evaluates and saves, which of its models is the best, and when it stops early: the
// settings of transformers' Trainer (eval_strategy, save_strategy, load_best_model_at_end,
// metric_for_best_model, early_stopping_patience, ...).
#ifndef BERTH_TRAIN_STRATEGY_H
#define BERTH_TRAIN_STRATEGY_H

#include "core/error.h"
#include "core/log.h"
#include "settings/settings.h"
#include "train/tasks/task.h"

#define TRAINER_STEPS 500 // the default of the Trainer's intervals

// Translates eval_strategy and save_strategy to evaluate_every_epoch, eval_steps and save_steps,
// and completes logging_strategy; logs the settings that have no effect then. Contradictory
// settings are BERTH_CONFIG, such as a best model or early stopping without an evaluation before
// the end.
enum berth_status strategy_settle(struct settings *config, const struct berth_log *log,
                                  struct berth_error *error);

// Call once the run's number of updates is known: replaces logging_steps, eval_steps and save_steps
// that are fractions of it by numbers.
void strategy_resolve_ratios(struct settings *config, int64_t updates, const struct berth_log *log);

// --save_steps auto: the time between two checkpoints that minimises the time lost to saving and,
// at each failure, half an interval of work. Young's formula, sqrt(2 saving mean_time_to_failure),
// all in seconds.
double strategy_save_interval(double saving, double mean_time_to_failure);

// Checks the settings when there is nothing to evaluate on (`where` says what is missing). Settings
// that require evaluations are BERTH_CONFIG; those that only request them give a warning.
// `predicts`: the set is still predicted.
enum berth_status strategy_check_unevaluated(const struct settings *config, int predicts,
                                             const char *where, const struct berth_log *log,
                                             struct berth_error *error);

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
enum berth_status strategy_best_metric(const struct settings *config,
                                       const struct task_score *score, struct best_metric *best,
                                       struct berth_error *error);

// Whether checkpoints are written during the run and at its end. Without skip_checkpoint, a stop on
// request always writes one.
int strategy_has_checkpoints(const struct settings *config);

// Whether the best model must have a checkpoint, which is kept regardless of save_total_limit.
int strategy_keeps_best(const struct settings *config);

#endif
