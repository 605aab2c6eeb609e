// SPDX-License-Identifier: Apache-2.0
// A training job, from settings to files: read, plan, train, evaluate, write. The jobs of the API
// and independent workers (workers.h) open one, run it and close it.
#ifndef BERTH_TRAIN_TRAINING_JOB_H
#define BERTH_TRAIN_TRAINING_JOB_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/log.h"
#include "settings/settings.h"
#include "train/progress/save_eval.h"
#include "train/tasks/training_task.h"

#include <stdatomic.h>

struct training_job;

struct training_job_args {
    const struct training_task *task;
    const struct settings *config;
    struct berth_log log;
    struct comm *comm;      // the ranks that compute each update together
    struct comm *all_ranks; // the ranks that start together and use the memory of their hosts:
                            // those of `comm`, or those of several single-process jobs
};

// Reads settings, data and weights, makes the plan, and locks the output folder; with dry_run it
// stops after the plan. All ranks succeed, or all fail with the same status. Call
// training_job_close even on failure.
enum berth_status training_job_open(const struct training_job_args *args, struct training_job **job,
                                    struct berth_error *error);

struct training_outcome {
    struct berth_run_result result;
    int is_scored;            // whether the resulting model was evaluated
    struct best_metric score; // which then compares it with others
};

// Trains, evaluates and writes the model and its results. After an error the outcome has what was
// done before it. Makes no calls to `all_ranks`.
enum berth_status training_job_train(struct training_job *job, const atomic_int *stop,
                                     struct training_outcome *outcome, struct berth_error *error);

// Also closes the communicator `comm`. NULL is allowed.
void training_job_close(struct training_job *job);

#endif
