// SPDX-License-Identifier: Apache-2.0
// What training, prediction and evaluation of a task found: steps, losses, scores and speed. Jobs
// fill it (train/job, train/inference), and the API turns it into the summary that the caller gets.
#ifndef BERTH_TRAIN_TASKS_RUN_RESULT_H
#define BERTH_TRAIN_TASKS_RUN_RESULT_H

#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

struct berth_run_result {
    int64_t steps;
    double final_loss;
    struct berth_metric metrics[BERTH_METRICS_MAX]; /* of the last evaluation */
    size_t metric_count;                            /* 0: no evaluation took place */
    double eval_loss;                               /* NaN without an evaluation, and for SQuAD */
    double samples_per_second;
    double tokens_per_second;
    double mfu;      /* model FLOPs utilisation: required FLOPs over the measured peak; NaN if the
                        peak was not measured */
    int64_t workers; /* number of independent workers; 0: none. All other fields are then those
                        of the best one */
    int64_t best_worker; /* its rank; -1: none was evaluated */
    int64_t best_seed;
    int is_complete; /* it was trained to its end, which was not one on request or by steps_this_run
                      */
};

#endif
