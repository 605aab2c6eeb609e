// SPDX-License-Identifier: Apache-2.0
// The training loop: updates, logging, checkpoints, evaluation, stopping.
//
// After an update the order is: log, save, evaluate. A resumed run begins with the evaluation that
// is due at its step, so none is lost wherever the run was killed.
#ifndef BERTH_TRAIN_TRAINING_LOOP_H
#define BERTH_TRAIN_TRAINING_LOOP_H

#include "core/error.h"
#include "core/log.h"
#include "settings/settings.h"
#include "train/checkpoint/saver.h"
#include "train/engine/batching.h"
#include "train/engine/feed.h"
#include "train/engine/update.h"
#include "train/inference/evaluate.h"
#include "train/optimizer/schedule.h"
#include "train/progress/progress.h"

#include <stdatomic.h>
#include <stdint.h>

struct training_loop {
    const char *task; // name of the task, for the log
    const struct settings *config;
    const struct berth_log *log;
    const atomic_int *stop;       // may be NULL (stop.h)
    const struct file_lock *lock; // of the output folder; once it is lost, nothing more is written
    int overwrites;               // whether the first update removes what an earlier run left there
    struct updater *updater;
    const struct batching *batching;
    const struct schedule *schedule;
    struct feed *feed;
    const struct checkpoint_content *content; // contains the progress of the run
    int64_t saved_step;            // newest step that has a checkpoint in output_dir; -1: none
    struct saver *saver;           // writes checkpoints in the background; NULL: between updates
    struct evaluation *evaluation; // NULL: none
};

// The result of a run since it was started or resumed.
struct training_result {
    int64_t updates, sequences, tokens;
    double seconds;        // of updates only
    double required_flops; // of this rank
    double forward_seconds, backward_seconds, step_seconds, save_seconds, evaluation_seconds;
    struct comm_stats exchanged; // with other ranks, by this one
    double waited_seconds;       // part of `seconds` spent waiting for data
    struct task_score score;     // of the last evaluation; count 0 if there was none
    double prediction_seconds;   // that the model took for it
    double predicted_per_second; // sequences
    int64_t evaluated_step;      // -1: none
    int64_t model_step;          // step of the resulting weights
    int is_complete;             // trained to its end: no later run has anything left
};

// BERTH_FAILURE if loss or gradient is not finite, BERTH_INTERRUPTED if *stop interrupted it,
// BERTH_IO if a checkpoint cannot be written (on_save_error "stop").
enum berth_status training_loop_run(const struct training_loop *loop,
                                    struct training_result *result, struct berth_error *error);

#endif
