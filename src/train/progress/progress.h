// SPDX-License-Identifier: Apache-2.0
// What a run knows about itself besides its numbers: how far it is, what it logged, its best score.
// Saved as trainer_state.json with the keys of Hugging Face's trainer where it has them. Everything
// in it is a function of settings and data: no times, so that a resumed run writes the same bytes.
#ifndef BERTH_TRAIN_PROGRESS_H
#define BERTH_TRAIN_PROGRESS_H

#include "core/error.h"
#include "format/json/json.h"
#include "train/engine/batching.h"
#include "train/engine/feed.h"
#include "train/optimizer/loss_scale.h"
#include "train/progress/strategy.h"
#include "train/tasks/task.h"

#include <stdint.h>

struct progress {
    unsigned jobs;     // whose settings are kept (core/options.h)
    struct feed *feed; // borrowed; NULL: the data are not recorded
    int64_t step;      // updates done, skipped ones and those of earlier phases included
    int64_t
        phase_start; // updates of earlier phases: schedule, bias corrections and data begin there
    // Updates whose moments are not there, of a checkpoint without them: bias corrections begin
    // after the later of the two.
    int64_t moments_start;
    int64_t skipped; // of the phase's updates: their gradient was not finite
    // The update of the phase, skipped ones not counted, at which the schedule began (again:
    // --rewarmup).
    int64_t schedule_start;
    struct loss_scale loss_scale;
    double loss_sum;        // of the updates since the last logged one
    double masked_loss_sum; // the masked tokens' part of it
    int64_t loss_count;
    double last_loss;        // the last logged loss
    double last_masked_loss; // NaN: of a head that predicts no masked tokens
    double best_metric;      // the score that tells (strategy.h); NaN: never evaluated
    int64_t best_step;
    int64_t evaluations_without_gain; // in a row, up to the last one
    json *log;                        // array: logged steps and evaluations
};

// For fine-tuning; the caller changes jobs and feed.
enum berth_status progress_init(struct progress *progress, struct berth_error *error);
void progress_done(struct progress *progress);

// Entries of the log. Memory that is out shows when the file is written.
void progress_add_step(struct progress *progress, double epoch, double loss, double learning_rate,
                       double grad_norm);
// An evaluation of the same step that is there already stays.
void progress_add_evaluation(struct progress *progress, double epoch,
                             const struct task_score *score, const struct best_metric *best);

// trainer_state.json, with every setting of the option table as text under "settings".
enum berth_status progress_write(const struct progress *progress, const struct berth_config *config,
                                 const struct batching *batching, const char *path,
                                 struct berth_error *error);

// Reads the file back. Settings and data that decide which sequences an update holds must be those
// of `config` and the feed (BERTH_CONFIG naming what differs, both values and the remedy); others
// that differ are noted in the log. Where config->phase2 is set and was not, a phase begins: data,
// sizes and settings may be others, and the updates, their losses and the best score are counted
// anew. On failure the progress is as it was.
enum berth_status progress_read(struct progress *progress, const struct berth_config *config,
                                const struct batching *batching, const struct berth_log *log,
                                const char *path, struct berth_error *error);

#endif
