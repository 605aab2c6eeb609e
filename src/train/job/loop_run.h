// SPDX-License-Identifier: Apache-2.0
// A running training loop, shared by training_loop.c (updates, evaluations, stopping),
// loop_saving.c, loop_records.c and loop_spikes.c, which nothing else includes. What must survive
// the run is in struct progress; what is here ends with it.
#ifndef BERTH_TRAIN_LOOP_RUN_H
#define BERTH_TRAIN_LOOP_RUN_H

#include "train/engine/profile.h"
#include "train/job/lengths.h"
#include "train/job/stragglers.h"
#include "train/job/training_loop.h"

// Counters since the last step record.
struct window {
    int64_t sequences, tokens, updates, micro_batches;
    int64_t masked;
    int64_t without_loss; // updates of which no word was to be predicted
    double last_loss;     // of the last update
    double last_rate;     // sequences in a second of it
    double seconds, forward, backward, step, waited;
    double imbalance; // sum over the updates
    double required_flops;
};

struct run {
    const struct training_loop *loop;
    struct progress *progress;
    struct training_result *result;
    struct window window;
    struct schedule schedule;    // including its start
    struct comm_stats exchanged; // totals at the last step record
    struct stragglers stragglers;
    struct profile profile; // --profile
    struct lengths lengths; // of shards' sequences
    enum spike_policy spike_policy;
    int rollbacks;      // to the newest checkpoint
    int64_t first_step; // step at which the run began or was resumed
    int is_own_branch;  // output_dir has no checkpoints that this run abandoned
    int64_t saved_step; // newest step that has a checkpoint in output_dir; -1: none
    int64_t next_save;  // --save_steps auto: the next step to save at
    int64_t saves;
    double save_began;    // of the checkpoint that is written in the background
    int64_t without_loss; // updates of this run of which no word was to be predicted
    // What the first two updates took, which are slower: DeepSpeed's average rate begins after
    // them.
    int64_t warm_sequences;
    double warm_seconds;
    int has_expected_time; // it was reported
    int64_t pause_step;    // step after which --steps_this_run ends the run early; -1: none
    int64_t last_step;     // last step of the run
    int stop;              // the strongest request (stop.h), as last agreed on by all ranks
    int is_finished;       // 1: on request, last_step is the end as if max_steps had been that
};

// The step counted from the beginning of the phase.
static inline int64_t loop_own_step(const struct training_loop *loop, int64_t step) {
    return step - loop->content->progress->phase_start;
}

// The last step of the phase.
static inline int64_t loop_end(const struct training_loop *loop) {
    return loop->content->progress->phase_start + loop->batching->total_steps;
}

static inline double loop_epoch(const struct training_loop *loop, int64_t step) {
    return batching_epochs(loop->batching, loop_own_step(loop, step));
}

static inline int loop_is_every(const struct training_loop *loop, int64_t step, int64_t every) {
    return every > 0 && loop_own_step(loop, step) % every == 0;
}

static inline int loop_ends_epoch(const struct training_loop *loop, int64_t step) {
    return batching_ends_epoch(loop->batching, loop_own_step(loop, step)) || step == loop_end(loop);
}

static inline void loop_enter(const struct run *run, enum comm_phase phase, int64_t update) {
    struct comm *comm = run->loop->updater->engine->comm;
    comm->enter(comm, phase, update);
}

// loop_saving.c
int loop_save_is_due(const struct run *run);
enum berth_status loop_save(struct run *run, struct berth_error *error);
// At the start: removes old checkpoints that a killed run did not get to remove.
enum berth_status loop_rotate(struct run *run, struct berth_error *error);
// Continues writing a checkpoint in the background, if there is one; with `waits` completes it.
enum berth_status loop_continue_saving(struct run *run, int waits, struct berth_error *error);

// loop_records.c Counts an update that took `seconds`, whether it was applied or not.
void loop_count_update(struct run *run, const struct update_result *update,
                       const struct feed_update *data, double seconds);
int loop_log_is_due(const struct training_loop *loop, int64_t step);
// Whether the update had words to predict, or its head predicts no words: else it has no loss.
int loop_has_loss(const struct run *run, const struct update_result *update);
// Reports the loss as the mean over the updates since the last report that were applied and have
// one; if there is none, the record says why.
enum berth_status loop_log_step(struct run *run, double rate, double grad_norm,
                                struct berth_error *error);
// An update that was skipped because of the loss scale.
void loop_report_skip(const struct run *run, const struct loss_scale *before,
                      enum loss_scale_event event);
// At the end: how many updates had no loss.
void loop_warn_of_no_loss(const struct run *run);
// Reports after 1, 2, 4, 8, ... updates and at the end; each report replaces the previous one.
void loop_report_lengths(const struct run *run, int is_end);

// loop_spikes.c Handles an update that was not applied because it is a spike: skips it or rolls the
// run back.
enum berth_status loop_handle_spike(struct run *run, const struct update_result *update,
                                    const struct spike_limits *limits, struct berth_error *error);
void loop_report_spike(const struct run *run, const struct update_result *update,
                       const struct spike_limits *limits, const char *outcome);
void loop_record_spikes(struct run *run, const struct update_result *update,
                        const struct spike_limits *limits);

#endif
