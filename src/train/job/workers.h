// SPDX-License-Identifier: Apache-2.0
// The processes of a training job: they train one model together, or with --workers independent
// each one trains a model of its own, of which the best becomes the result.
//
// An independent worker is an ordinary run of one process with a seed and a folder of its own. Its
// failure leaves the others alone; all start together and stop together. The workers exchange
// heartbeats while they train (core/heartbeat.h), so none waits for another before the end.
#ifndef BERTH_TRAIN_WORKERS_H
#define BERTH_TRAIN_WORKERS_H

#include "core/error.h"
#include "core/log.h"
#include "train/tasks/task.h"

// Implements berth_train.
enum berth_status workers_train(const struct task *task, const struct berth_config *config,
                                struct berth_log log, const volatile int *stop,
                                struct berth_run_result *result, struct berth_error *error);

#endif
