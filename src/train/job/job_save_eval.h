// SPDX-License-Identifier: Apache-2.0
// Completes and checks the settings of when a run evaluates and saves, while a job is opened.
// Afterwards the loop reads only numbers of updates, and train/progress/save_eval.h says which
// model is the best.
#ifndef BERTH_TRAIN_JOB_SAVE_EVAL_H
#define BERTH_TRAIN_JOB_SAVE_EVAL_H

#include "core/log.h"
#include "settings/settings.h"

// Translates eval_strategy and save_strategy to evaluate_every_epoch, eval_steps and save_steps.
// Contradictory
// settings are BERTH_CONFIG, such as a best model or early stopping without an evaluation before
// the end.
enum berth_status save_eval_resolve(struct settings *config, const struct berth_log *log,
                                    struct berth_error *error);

// Call once the run's number of updates is known: replaces logging_steps, eval_steps and save_steps
// that are fractions of it by numbers.
void save_eval_resolve_ratios(struct settings *config, int64_t updates,
                              const struct berth_log *log);

// Checks the settings when there is nothing to evaluate on (`where` says what is missing). Settings
// that require evaluations are BERTH_CONFIG; those that only request them give a warning.
// `predicts`: the set is still predicted.
enum berth_status save_eval_check_unevaluated(const struct settings *config, int predicts,
                                              const char *where, const struct berth_log *log,
                                              struct berth_error *error);

#endif
