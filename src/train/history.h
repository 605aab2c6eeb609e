// SPDX-License-Identifier: Apache-2.0
// What a run knows about itself besides its numbers: how far it is, what it logged, its best score.
// Saved as trainer_state.json with the keys of Hugging Face's trainer where it has them. Everything
// in it is a function of settings and data: no times, so that a resumed run writes the same bytes.
#ifndef BERTH_TRAIN_HISTORY_H
#define BERTH_TRAIN_HISTORY_H

#include "core/error.h"
#include "format/json.h"
#include "train/batching.h"
#include "train/loss_scale.h"
#include "train/task.h"

#include <stdint.h>

struct history {
    int64_t step;    // updates done, skipped ones included
    int64_t skipped; // of these: their gradient was not finite
    // The update, skipped ones not counted, at which the schedule began (again: --rewarmup).
    int64_t schedule_start;
    struct loss_scale loss_scale;
    double loss_sum; // of the updates since the last logged one
    int64_t loss_count;
    double last_loss;   // the last logged loss
    double best_metric; // the score that tells (task.h); NaN: never evaluated
    int64_t best_step;
    json *log; // array: logged steps and evaluations
};

enum berth_status history_init(struct history *history, struct berth_error *error);
void history_done(struct history *history);

// Entries of the log. Memory that is out shows when the file is written.
void history_add_step(struct history *history, double epoch, double loss, double learning_rate,
                      double grad_norm);
// Replaces an evaluation of the same step.
void history_add_evaluation(struct history *history, double epoch, const struct task_score *score);

// trainer_state.json, with every setting of the option table as text under "settings".
enum berth_status history_write(const struct history *history, const struct berth_config *config,
                                const struct batching *batching, const char *path,
                                struct berth_error *error);

// Reads the file back. Settings that decide which sequences an update holds must be those of
// `config` (BERTH_CONFIG naming the setting, both values and the remedy); others that differ are
// noted in the log. On failure the history is as it was.
enum berth_status history_read(struct history *history, const struct berth_config *config,
                               const struct batching *batching, const struct berth_log *log,
                               const char *path, struct berth_error *error);

#endif
