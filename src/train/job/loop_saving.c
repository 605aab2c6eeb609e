// SPDX-License-Identifier: Apache-2.0
// When a training loop saves checkpoints, in the background or between updates, and what it does if
// one cannot be written. train/checkpoint writes them.
#include "core/clock.h"
#include "core/file.h"
#include "core/number.h"
#include "settings/settings.h"
#include "train/checkpoint/foreign_write.h"
#include "train/checkpoint/stale_files.h"
#include "train/job/loop_run.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int loop_save_is_due(const struct run *run) {
    const struct training_loop *loop = run->loop;
    int64_t every = loop->config->run.save_steps, step = run->progress->step;
    if (step == run->pause_step && !run->is_finished) {
        return !loop->config->run.skip_checkpoint;
    }
    if (!save_eval_has_checkpoints(&loop->config->run)) {
        return 0;
    }
    if (step == run->last_step) {
        return 1;
    }
    return every == OPTION_AUTO ? step >= run->next_save
           : every > 0          ? loop_is_every(loop, step, every)
                                : loop_ends_epoch(loop, step);
}

static void note_interval(const struct run *run, double saving, double update, int64_t steps) {
    const struct training_loop *loop = run->loop;
    const double mean = loop->config->run.mean_time_to_failure;
    const double interval = save_eval_interval(saving, mean);
    char text[256];
    number_format(text, sizeof text,
                  "save_steps auto: the next checkpoint is due in %" PRId64
                  " updates: saving takes %.3g s, an update takes %.3g s, and a failure is "
                  "expected every %.10g s, so it is best to save every %.3g s",
                  steps, saving, update, mean, interval);
    LOG_RECORD(loop->log, BERTH_NOTE, text, log_integer("step", run->progress->step),
               log_real("saving_seconds", saving), log_real("update_seconds", update),
               log_real("mean_time_to_failure", mean), log_real("save_interval_seconds", interval),
               log_integer("save_interval_steps", steps));
}

// Called after the first update and each save but the last: rank 0's clock decides for all ranks.
static void choose_next_save(struct run *run) {
    const struct training_loop *loop = run->loop;
    const struct training_result *result = run->result;
    struct comm *comm = loop->updater->engine->comm;
    const int is_last = run->progress->step >= run->last_step;
    if (loop->config->run.save_steps != OPTION_AUTO || result->updates == 0 || is_last) {
        return;
    }
    const double saving = result->save_seconds / (double)run->saves;
    const double update = result->seconds / (double)result->updates;
    const double interval =
        save_eval_interval(saving, loop->config->run.mean_time_to_failure) / update;
    int64_t steps = interval < 1 ? 1 : interval < 1e15 ? llround(interval) : (int64_t)1e15;
    comm->broadcast(comm, &steps, sizeof steps, 0);
    run->next_save = run->progress->step + steps;
    note_interval(run, saving, update, steps);
}

static struct checkpoint_limits limits_of(const struct run *run, int64_t newest) {
    const struct settings *config = run->loop->config;
    // The Trainer keeps the best checkpoint even if a metric is only named, and so does this.
    const int is_wanted =
        save_eval_keeps_best(&config->run) || config->run.metric_for_best_model != NULL;
    return (struct checkpoint_limits){
        .newest = newest,
        .limit = config->run.save_total_limit,
        .best = is_wanted && !isnan(run->progress->best.value) ? run->progress->best_step : -1,
        .phase_start = run->progress->phase_start,
        .originals = foreign_is_written(&config->run)};
}

static enum berth_status rotate(const struct run *run, struct berth_error *error) {
    struct comm *comm = run->loop->updater->engine->comm;
    const struct checkpoint_limits limits = limits_of(run, run->saved_step);
    int stop = 0;
    const enum berth_status status =
        comm->rank == 0 ? checkpoint_rotate(run->loop->config->run.output_dir, &limits, error)
                        : BERTH_OK;
    return comm->agree(comm, status, &stop, error);
}

static void report_saved(struct run *run, int64_t step) {
    const struct training_loop *loop = run->loop;
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("step", step), log_real("epoch", loop_epoch(loop, step)),
            log_integer("checkpoint_step", step));
    if (run->progress->phase_start > 0) {
        LOG_ADD(&record, log_integer("phase_step", loop_own_step(loop, step)));
    }
    if (loop->saver != NULL) {
        LOG_ADD(&record, log_real("background_save_seconds", clock_now() - run->save_began));
    }
    run->saved_step = step;
    run->rollbacks = 0;
    const char *folder = loop->config->run.output_dir;
    log_detail(loop->log, "saved %.*s/checkpoint-%" PRId64, (int)path_length(folder), folder, step);
    log_record(loop->log, BERTH_EVENT, NULL, &record);
}

// Applies on_save_error to an error of saving `step`. Errors of other ranks, and of the state
// itself, such as non-finite weights, are always errors. An old checkpoint that cannot be removed
// never is: the new one is there.
static enum berth_status handle_save_error(const struct run *run, int64_t step,
                                           enum berth_status status, const struct berth_error *own,
                                           struct berth_error *error) {
    if (status == BERTH_OK) {
        return BERTH_OK;
    }
    struct comm *comm = run->loop->updater->engine->comm;
    if (status == BERTH_UNAVAILABLE || comm->status(comm, NULL) != BERTH_OK) {
        return error_set(error, status, "%s", own->message);
    }
    const int is_saved = run->saved_step == step;
    if (is_saved && status != BERTH_BAD_DATA && status != BERTH_NO_MEMORY) {
        log_warning(run->loop->log,
                    "checkpoint of step %" PRId64 " saved, but an older one could not be removed "
                    "and stays: %s; remove it by hand, as its owner",
                    step, own->message);
        return BERTH_OK;
    }
    const char *outcome = is_saved ? "damaged, so older ones were kept" : "not saved";
    const int has_diverged = status == BERTH_FAILURE; // a weight is not finite (state_file.c)
    const char *on_error = run->loop->config->run.on_save_error;
    if (!has_diverged && on_error != NULL && strcmp(on_error, "continue") == 0) {
        log_warning(run->loop->log, "checkpoint of step %" PRId64 " %s: %s", step, outcome,
                    own->message);
        return BERTH_OK;
    }
    return error_set(error, status == BERTH_NO_MEMORY || has_diverged ? status : BERTH_IO,
                     "checkpoint of step %" PRId64 " %s: %s", step, outcome, own->message);
}

enum berth_status loop_continue_saving(struct run *run, int waits, struct berth_error *error) {
    struct saver *saver = run->loop->saver;
    struct berth_error own = {0};
    int64_t saved;
    if (saver == NULL || !saver_is_busy(saver)) {
        return BERTH_OK;
    }
    const double begin = clock_now();
    const int64_t step = saver->step;
    if (waits) {
        loop_enter(run, COMM_SAVING, step);
    }
    const enum berth_status status = saver_poll(saver, waits, &saved, &own);
    if (saved >= 0) {
        report_saved(run, saved);
    }
    run->result->save_seconds += clock_now() - begin;
    return handle_save_error(run, step, status, &own, error);
}

enum berth_status loop_rotate(struct run *run, struct berth_error *error) {
    struct berth_error own = {0};
    if (run->saved_step < 0 || !save_eval_has_checkpoints(&run->loop->config->run)) {
        return BERTH_OK;
    }
    return handle_save_error(run, run->saved_step, rotate(run, &own), &own, error);
}

// Called before the first checkpoint: sets checkpoints of an abandoned branch aside. If the run is
// killed right after that, a resumed one continues from the same step as this one.
static enum berth_status leave_branch(struct run *run, struct berth_error *error) {
    const struct settings *config = run->loop->config;
    struct comm *comm = run->loop->updater->engine->comm;
    const struct stale_files_branch branch = {config->run.output_dir, run->first_step,
                                              foreign_is_written(&config->run)};
    if (run->is_own_branch) {
        return BERTH_OK;
    }
    TRY(comm_settle(
        comm, comm->rank == 0 ? stale_files_set_aside(&branch, run->loop->log, error) : BERTH_OK,
        error));
    run->is_own_branch = 1;
    return BERTH_OK;
}

static enum berth_status write_checkpoint(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    if (run->saved_step == run->progress->step) {
        return rotate(run, error);
    }
    TRY(leave_branch(run, error));
    if (loop->saver != NULL) {
        const struct checkpoint_limits limits = limits_of(run, run->progress->step);
        run->save_began = clock_now();
        return saver_begin(loop->saver, &limits, error);
    }
    TRY(checkpoint_write(loop->content, loop->config->run.output_dir, error));
    report_saved(run, run->progress->step);
    return rotate(run, error);
}

enum berth_status loop_save(struct run *run, struct berth_error *error) {
    TRY(loop_continue_saving(run, 1, error));
    loop_enter(run, COMM_SAVING, run->progress->step);
    const double begin = clock_now();
    struct berth_error own = {0};
    const enum berth_status status = write_checkpoint(run, &own);
    run->result->save_seconds += clock_now() - begin;
    profile_add(&run->profile, "saving", "checkpoint", begin);
    run->saves++;
    choose_next_save(run);
    return handle_save_error(run, run->progress->step, status, &own, error);
}
