// SPDX-License-Identifier: Apache-2.0
// The progress of a run apart from its weights: step, log, best score. Saved as trainer_state.json,
// which transformers' TrainerState.load_from_json reads: its keys are the Trainer's, and Berth's
// own are the attributes of a callback, stateful_callbacks.Berth. The contents depend only on
// settings and data and include no times, so a resumed run writes the same bytes.
#ifndef BERTH_TRAIN_PROGRESS_H
#define BERTH_TRAIN_PROGRESS_H

#include "core/error.h"
#include "format/json/json.h"
#include "settings/run.h"
#include "train/engine/batching.h"
#include "train/engine/feed.h"
#include "train/optimizer/loss_scale.h"
#include "train/progress/save_eval.h"
#include "train/progress/spikes.h"
#include "train/tasks/training_task.h"

#include <stdint.h>

struct settings; // of which a checkpoint saves every row

// The training loop alone advances it, one update at a time; a resume and a rollback replace all of
// it by what a checkpoint has (progress_restore), or none of it. Between two updates, what
// progress_check says is true, so that a checkpoint written then can be resumed.
struct progress {
    unsigned jobs;                   // jobs whose settings are stored (core/options.h)
    struct feed *feed;               // borrowed; NULL: do not record the data
    const struct model_files *files; // borrowed; NULL: do not record the model's classes
    int64_t step;                    // number of updates, including skipped ones and earlier phases
    int64_t phase_start; // updates of earlier phases; schedule, bias correction and data start
                         // after them
    // Updates before a checkpoint without moments; bias correction starts after this or
    // phase_start, whichever is later.
    int64_t moments_start;
    int64_t skipped; // skipped updates of this phase: non-finite gradients and spikes
    struct spikes spikes;
    int64_t data_shift; // updates of the phase whose data rollbacks left out
    // The update of the phase, not counting skipped ones, at which the schedule started, or
    // restarted (--rewarmup).
    int64_t schedule_start;
    double rate_factor; // of lr_scaling; settings are saved without it
    struct loss_scale loss_scale;
    double total_flos;      // of all ranks and updates, including earlier phases and resumed runs
    double loss_sum;        // over the updates since the last logged one that have a loss
    double masked_loss_sum; // part of it from the masked tokens
    int64_t loss_count;
    // Over the updates of this phase that were applied and have a loss. Those before a checkpoint
    // of a version without these keys are missing.
    double train_loss_sum;
    int64_t train_loss_count;
    double last_loss;        // the last logged loss
    double last_masked_loss; // NaN if the head predicts no masked tokens
    double ema_loss;         // moving average of the logged losses; NaN before the first
    struct best_metric best; // score of the best model; value NaN: never evaluated
    int64_t best_step;
    int64_t evaluations_without_gain; // in a row, up to the last one
    json *log;                        // array: logged steps and evaluations
};

// Initialises for fine-tuning; the caller may change jobs, feed and files.
enum berth_status progress_init(struct progress *progress, struct berth_error *error);
void progress_done(struct progress *progress);
// NULL, or what is not true between two updates (core/check.h).
const char *progress_check(const struct progress *progress);

// The update of the phase whose data comes after `updates` updates: the same number unless data was
// left out. The data of the last update is followed by that of the first, so that the run needs no
// data beyond the plan.
int64_t progress_data_step(const struct progress *progress, const struct batching *batching,
                           int64_t updates);

// The mean losses of a report; NaN: there is none.
struct progress_losses {
    double all;
    double masked; // part of it from the masked tokens; NaN if there is no other part, too
};

// These append entries to the log. If memory runs out, writing the file reports it.
void progress_add_step(struct progress *progress, double epoch,
                       const struct progress_losses *losses, double rate, double grad_norm);
// Whether the score is of the same metric as that of the best model, in the same direction and on
// the same examples, as far as these are known; 1 if there is none.
int progress_is_comparable(const struct progress *progress, const struct best_metric *now);
// Afterwards no model is the best, and the count of evaluations without gain is 0.
void progress_forget_best(struct progress *progress);
// Keeps an existing evaluation of the same step. `best` NULL: the model cannot be the best.
void progress_add_evaluation(struct progress *progress, double epoch,
                             const struct task_score *score, const struct best_metric *best);

// Sets *follows to whether the run has come from that of the trainer_state.json `path`: its log
// begins with the file's. 0 also if the file is missing or damaged; BERTH_IO or BERTH_NO_MEMORY if
// it cannot be read.
enum berth_status progress_follows(const struct progress *progress, const char *path, int *follows,
                                   struct berth_error *error);

// The object of the file that has Berth's own keys; borrowed. In files of format 1 they are next to
// the Trainer's.
const json *progress_own_keys(const json *state);
// The object whose "train_batch_size" is that of an update: Berth's own keys, or `state` if it was
// written before these had one. Else that of `state` is the Trainer's, of a micro-batch.
const json *progress_sizes(const json *state);

// Writes trainer_state.json, with every setting of the option table as text under "settings".
enum berth_status progress_write(const struct progress *progress, const struct settings *config,
                                 const struct batching *batching, const char *path,
                                 struct berth_error *error);

// A trainer_state.json, and the run that resumes from it.
struct progress_source {
    const json *state;
    const char *path; // for messages
    const struct settings *config;
    const struct batching *batching;
    const struct berth_log *log;
};
// Settings and data that determine the sequences of an update must equal those of `config` and the
// feed, and the classes those of `files`; otherwise BERTH_CONFIG names the difference, both values
// and the remedy. Other differences are logged. If config->phase2 is set and was not before, a new
// phase starts: data, sizes and settings may differ, and updates, their losses and the best score
// are counted from zero. On failure the progress is unchanged.
enum berth_status progress_restore(struct progress *progress, const struct progress_source *source,
                                   struct berth_error *error);
// The same from the file `path`.
enum berth_status progress_read(struct progress *progress, const struct settings *config,
                                const struct batching *batching, const struct berth_log *log,
                                const char *path, struct berth_error *error);

#endif
