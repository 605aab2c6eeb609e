// SPDX-License-Identifier: Apache-2.0
// A training job from settings to files: read, plan, train, evaluate, write.
#ifndef BERTH_TRAIN_TRAINING_JOB_H
#define BERTH_TRAIN_TRAINING_JOB_H

#include "core/error.h"
#include "core/log.h"
#include "train/tasks/task.h"

// Implements berth_train.
enum berth_status training_job_run(const struct task *task, const struct berth_config *config,
                                   struct berth_log log, const volatile int *stop,
                                   struct berth_run_result *result, struct berth_error *error);

#endif
