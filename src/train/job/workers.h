// SPDX-License-Identifier: Apache-2.0
// The processes of a training job train one model together, or with --workers independent one model
// each, the best of which becomes the result.
//
// An independent worker is an ordinary single-process run with its own seed and folder. If one
// fails, the others continue; all start together and stop together. While they train they pass on
// stop requests by heartbeats (comm/heartbeat.h), so none waits for another before the end.
#ifndef BERTH_TRAIN_WORKERS_H
#define BERTH_TRAIN_WORKERS_H

#include "core/error.h"
#include "core/log.h"
#include "settings/settings.h"
#include "train/tasks/training_task.h"

#include <stdatomic.h>

// Implements job_train. *result is filled in; the caller has set it to what a failure returns.
// Sets *rank to that of this process among those that trained; 0 if they could not be connected.
enum berth_status workers_train(const struct training_task *task, const struct settings *config,
                                struct berth_log log, const atomic_int *stop,
                                struct berth_run_result *result, int *rank,
                                struct berth_error *error);

#endif
