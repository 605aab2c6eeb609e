// SPDX-License-Identifier: Apache-2.0
// What training, prediction and evaluation of a task found.
#ifndef BERTH_TRAIN_TASKS_RUN_RESULT_H
#define BERTH_TRAIN_TASKS_RUN_RESULT_H

#include <stddef.h>
#include <stdint.h>

#define BERTH_METRICS_MAX 12

struct berth_metric {
    char name[48]; /* "accuracy", ...; SQuAD 1.1: "exact_match" and "f1" in percent; SQuAD 2.0:
                      the official script's ("exact", "f1", "HasAns_f1", "best_f1_thresh", ...) */
    double value;
};

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
};

#endif
