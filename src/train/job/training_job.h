// SPDX-License-Identifier: Apache-2.0
// The job "fine-tune on a task" from settings to files: read, plan, train, evaluate, write.
#ifndef BERTH_TRAIN_TRAINING_JOB_H
#define BERTH_TRAIN_TRAINING_JOB_H

#include "core/error.h"
#include "core/log.h"
#include "train/tasks/task.h"

// As berth_finetune_squad and its like, which differ in the task alone.
enum berth_status training_job_run(const struct task *task, const struct berth_config *config,
                                   struct berth_log log, const volatile int *stop,
                                   struct berth_run_result *result, struct berth_error *error);

#endif
