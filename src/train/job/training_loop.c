// SPDX-License-Identifier: Apache-2.0
// The loop over the updates of a run. It takes the sequences of an update from the feed, computes
// it (train/engine/update.c), and decides what becomes of it: applied, skipped, rolled back, or the
// end of the run. Between two updates it logs, saves, evaluates and obeys a request to stop, which
// all ranks agree on. Reports are written in loop_records.c, checkpoints in loop_saving.c, spikes
// handled in loop_spikes.c. Before it writes anything, rank 0 checks that it still has the lock of
// the output folder.
#include "train/job/training_loop.h"

#include "core/clock.h"
#include "core/number.h"
#include "core/stop.h"
#include "metrics/results.h"
#include "settings/settings.h"
#include "train/checkpoint/foreign_write.h"
#include "train/checkpoint/stale_files.h"
#include "train/job/loop_run.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Rank 0 holds the lock of the output folder.
static enum berth_status check_lock(const struct training_loop *loop, struct berth_error *error) {
    return loop->updater->engine->comm->rank == 0 ? file_lock_check(loop->lock, error) : BERTH_OK;
}

// A request to finish makes the update before it the last one.
static void obey_finish(struct run *run) {
    if (run->stop != STOP_FINISH || run->is_finished) {
        return;
    }
    run->is_finished = 1;
    run->last_step = run->progress->step;
    log_note(run->loop->log, "finished on request after update %" PRId64 " of %" PRId64,
             run->last_step, loop_end(run->loop));
}

// Lets all ranks agree on the strongest request; an update does so itself (update.h).
static enum berth_status agree_on_stop(struct run *run, struct berth_error *error) {
    struct comm *comm = run->loop->updater->engine->comm;
    run->stop = stop_request_of(run->loop->stop);
    TRY(comm->agree(comm, BERTH_OK, &run->stop, error));
    obey_finish(run);
    return BERTH_OK;
}

// --- evaluation ---------------------------------------------------------------------------------

static int evaluation_is_due(const struct run *run) {
    const struct training_loop *loop = run->loop;
    const struct settings *config = loop->config;
    const int64_t step = run->progress->step, own = loop_own_step(loop, step);
    if (loop->evaluation == NULL) {
        return 0;
    }
    if (step == loop_end(loop) || run->is_finished) {
        return 1;
    }
    return own > 0 && ((loop_is_every(loop, step, config->run.eval_steps) &&
                        (double)own >= config->run.eval_delay) ||
                       (config->run.evaluate_every_epoch && loop_ends_epoch(loop, step) &&
                        loop_epoch(loop, step) >= config->run.eval_delay));
}

static void report_evaluation(const struct run *run, const struct infer_result *timing) {
    double seconds = timing->timed_seconds > 0 ? timing->timed_seconds : NAN;
    const struct task_score *score = &run->result->score;
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("step", run->progress->step),
            log_real("epoch", loop_epoch(run->loop, run->progress->step)));
    log_add_metrics(&record, score->items, score->count);
    if (!isnan(score->loss)) {
        LOG_ADD(&record, log_real("eval_loss", score->loss));
    }
    LOG_ADD(&record, log_real("samples_per_second", (double)timing->timed_sequences / seconds),
            log_real("tokens_per_second", (double)timing->timed_tokens / seconds));
    log_record(run->loop->log, BERTH_EVAL, "eval", &record);
}

enum evaluation_use { EVALUATE_TO_REPORT, EVALUATE_TO_CHOOSE }; // whether the model may be the best

static enum berth_status record_evaluation(struct run *run, enum evaluation_use use,
                                           struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    const struct task_score *score = &run->result->score;
    struct best_metric best;
    if (use == EVALUATE_TO_CHOOSE) {
        TRY(save_eval_best_metric(&loop->config->run, score, &best, error));
        best.examples = loop->evaluation->checksum;
        // A resumed run may have another metric or other examples: a score is then neither better
        // nor worse than those before.
        const struct progress *progress = run->progress;
        if (!progress_is_comparable(progress, &best)) {
            log_note(run->loop->log,
                     "evaluations are now of %s (%s is better)%s: the best score so far, of update "
                     "%" PRId64 " by %s, is forgotten",
                     best.name, best.lower_is_better ? "lower" : "higher",
                     best.examples != progress->best.examples ? " on other examples" : "",
                     progress->best_step, progress->best.name);
            progress_forget_best(run->progress);
        }
    }
    progress_add_evaluation(run->progress, loop_epoch(loop, run->progress->step), score,
                            use == EVALUATE_TO_CHOOSE ? &best : NULL);
    return BERTH_OK;
}

static enum berth_status evaluate(struct run *run, enum evaluation_use use,
                                  struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    loop_enter(run, COMM_EVALUATION, run->progress->step);
    double begin = clock_now();
    struct infer_result timing;
    struct evaluation_run how = {.engine = loop->updater->engine,
                                 .files = loop->content->files,
                                 .log = loop->log,
                                 .stop = loop->stop,
                                 .step = run->progress->step};
    struct task_score score;
    TRY(evaluation_predict(loop->evaluation, &how, &timing, &score, error));
    if (!timing.stopped) {
        run->result->score = score;
        run->result->prediction_seconds = timing.seconds;
        run->result->predicted_per_second = (double)timing.timed_sequences / timing.timed_seconds;
        run->result->evaluated_step = run->progress->step;
    }
    profile_add(&run->profile, "evaluation", "evaluate", begin);
    if (!timing.stopped && score.count > 0) {
        TRY(record_evaluation(run, use, error));
        report_evaluation(run, &timing);
    }
    run->result->evaluation_seconds += clock_now() - begin;
    return agree_on_stop(run, error);
}

static void note_early_stop(const struct run *run) {
    const struct progress *progress = run->progress;
    if (isnan(progress->best.value)) {
        log_note(run->loop->log,
                 "early stopping after update %" PRId64 ": in %" PRId64
                 " evaluations in a row the score by which models are compared was not a number",
                 progress->step, progress->evaluations_without_gain);
        return;
    }
    log_note(run->loop->log,
             "early stopping after update %" PRId64 ": %" PRId64
             " evaluations in a row were not better than that of update %" PRId64,
             progress->step, progress->evaluations_without_gain, progress->best_step);
}

// After an evaluation: decides on early stopping, and saves the last model and a best model that
// must be kept.
static enum berth_status act_on_evaluation(struct run *run, struct berth_error *error) {
    const struct settings *config = run->loop->config;
    const struct progress *progress = run->progress;
    const int64_t patience = config->run.early_stopping_patience;
    const int is_best = save_eval_keeps_best(&config->run) && progress->best_step == progress->step;
    const int ends_early = patience > 0 && progress->evaluations_without_gain >= patience &&
                           progress->step < run->last_step;
    if (ends_early) {
        note_early_stop(run);
        run->last_step = progress->step;
        run->result->is_complete = 1;
    }
    const int is_end = ends_early || run->is_finished;
    if (!is_best && !(is_end && loop_save_is_due(run))) {
        return BERTH_OK;
    }
    TRY(check_lock(run->loop, error)); // the evaluation may have taken hours
    return loop_save(run, error);
}

// --- stops and errors ---------------------------------------------------------------------------

// After an error: completes a checkpoint in the background, which is still good. Not if other ranks
// may not have the error, because they would not take part.
static void finish_saving(struct run *run, enum berth_status status) {
    struct berth_error own = {0};
    const int is_alone = run->loop->updater->engine->comm->size == 1;
    if ((is_alone || status == BERTH_FAILURE) && loop_continue_saving(run, 1, &own) != BERTH_OK) {
        log_warning(run->loop->log, "%s", own.message);
    }
}

#define ADVICE_SIZE 64

static const char *restart_advice(const struct run *run, char text[ADVICE_SIZE]) {
    if (run->saved_step < 0) {
        return run->first_step > 0 ? "as this run has saved nothing yet, resume as before"
                                   : "as this run has no checkpoint, start again";
    }
    snprintf(text, ADVICE_SIZE, "resume from checkpoint-%" PRId64, run->saved_step);
    return text;
}

static enum berth_status interrupted(const struct run *run, const char *outcome, const char *advice,
                                     struct berth_error *error) {
    return error_set(error, BERTH_INTERRUPTED,
                     "stopped on request after update %" PRId64 " of %" PRId64 "%s: %s",
                     run->progress->step, loop_end(run->loop), outcome, advice);
}

static enum berth_status interrupted_at_once(struct run *run, struct berth_error *error) {
    char advice[ADVICE_SIZE];
    finish_saving(run, BERTH_INTERRUPTED);
    return interrupted(run, ", at once, without saving", restart_advice(run, advice), error);
}

// --- one update ---------------------------------------------------------------------------------

// The sign of a NaN has no meaning.
static double plain_nan(double value) {
    return isnan(value) ? NAN : value;
}

static enum berth_status fail_not_finite(struct run *run, const struct update_args *args,
                                         const struct update_result *update,
                                         struct berth_error *error) {
    char cause[256], advice[ADVICE_SIZE];
    TRY(update_find_nonfinite(run->loop->updater, args, cause, sizeof cause, error));
    finish_saving(run, BERTH_FAILURE);
    return error_set(
        error, BERTH_FAILURE,
        "update %" PRId64
        ": loss %g, gradient norm %g: %s; %s with a lower learning_rate, or check the data",
        run->progress->step + 1, plain_nan(update->loss), plain_nan(update->grad_norm), cause,
        restart_advice(run, advice));
}

// Adds to the message of a run that ends why its loss scale is no remedy.
static enum berth_status explain_exhausted(const struct loss_scale *scale,
                                           struct berth_error *error) {
    if (scale->kind == LOSS_SCALE_ZERO) {
        return error_prefix(error, BERTH_FAILURE, "loss scale %g is already at its minimum",
                            scale->scale);
    }
    return error_prefix(error, BERTH_FAILURE,
                        "%d updates in a row overflowed at loss scale %g, which is %s",
                        LOSS_SCALE_STUCK_LIMIT, scale->scale,
                        scale->kind == LOSS_SCALE_STATIC ? "static" : "min_loss_scale");
}

// Ends the run if there is no loss scaling or it is exhausted, otherwise skips the update.
static enum berth_status handle_nonfinite(struct run *run, const struct update_args *args,
                                          const struct update_result *update,
                                          struct berth_error *error) {
    struct progress *progress = run->progress;
    const struct loss_scale before = progress->loss_scale;
    if (before.kind == LOSS_SCALE_NONE) {
        return fail_not_finite(run, args, update, error);
    }
    enum loss_scale_event event = loss_scale_update(&progress->loss_scale, 1);
    if (event == SCALE_EXHAUSTED) {
        enum berth_status status = fail_not_finite(run, args, update, error);
        return status == BERTH_FAILURE ? explain_exhausted(&before, error) : status;
    }
    update_discard(run->loop->updater);
    progress->step++;
    progress->skipped++;
    loop_report_skip(run, &before, event);
    return BERTH_OK;
}

// The number of updates that did not contribute to the moments.
static int64_t without_moments(const struct progress *progress) {
    int64_t start = progress->phase_start > progress->moments_start ? progress->phase_start
                                                                    : progress->moments_start;
    return start + progress->skipped;
}

// Warns of a rank that is slow.
static void check_stragglers(struct run *run, const struct update_result *update, double seconds) {
    const struct comm *comm = run->loop->updater->engine->comm;
    struct slow_rank found;
    if (stragglers_add(&run->stragglers, seconds, update->required_flops, &found)) {
        log_warning(run->loop->log,
                    "rank %d on host %s is slow: it computes %.1f times as long as others for the "
                    "same work, and all wait for it, so an update takes %.0f %% longer (updates "
                    "%" PRId64 " to %" PRId64 ")",
                    found.rank, comm->host_names[found.rank], found.ratio, 100 * found.delay,
                    run->progress->step + 1 - found.updates, run->progress->step);
    }
}

// Decides what becomes of an update, by its loss and gradient norm.
static enum berth_status handle_update(struct run *run, const struct update_args *args,
                                       const struct update_result *update,
                                       const struct spike_limits *limits,
                                       struct berth_error *error) {
    struct progress *progress = run->progress;
    if (!isfinite(update->loss) || !isfinite(update->grad_norm)) {
        return handle_nonfinite(run, args, update, error);
    }
    if (update->exceeds_limit) {
        return loop_handle_spike(run, update, limits, error);
    }
    if (run->spike_policy == SPIKE_WARN &&
        spike_limits_exceeded(limits, update->loss, update->grad_norm)) {
        loop_report_spike(run, update, limits, "it is applied");
    }
    if (loop_has_loss(run, update)) {
        loop_record_spikes(run, update, limits);
        progress->loss_sum += update->loss;
        progress->masked_loss_sum += update->masked_loss;
        progress->loss_count++;
        progress->train_loss_sum += update->loss;
        progress->train_loss_count++;
    }
    progress->step++;
    if (progress->loss_scale.kind != LOSS_SCALE_NONE &&
        loss_scale_update(&progress->loss_scale, 0) == SCALE_RAISED) {
        log_detail(run->loop->log, "loss scale %.10g from update %" PRId64 " on",
                   progress->loss_scale.scale, progress->step + 1);
    }
    return BERTH_OK;
}

// A record may make the caller ask for a stop, which must not wait for another update. Of several
// ranks, which would have to exchange it, only the record of a step is such a one.
static enum berth_status report_update(struct run *run, const struct update_args *args,
                                       double grad_norm, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    const int64_t step = run->progress->step;
    const int is_due = loop_log_is_due(loop, step) || run->is_finished;
    TRY(is_due ? loop_log_step(run, args->rate, grad_norm, error) : BERTH_OK);
    log_progress(loop->log, "train", step, loop_end(loop));
    TRY(is_due || loop->updater->engine->comm->size == 1 ? agree_on_stop(run, error) : BERTH_OK);
    return run->is_finished && !is_due // the last update has a report
               ? loop_log_step(run, args->rate, grad_norm, error)
               : BERTH_OK;
}

static enum berth_status do_update(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    struct progress *progress = run->progress;
    int64_t step = loop_own_step(loop, progress->step);
    const struct spike_limits limits =
        spikes_limits(&progress->spikes, loop->config->run.spike_factor);
    const int skips_spikes = run->spike_policy > SPIKE_WARN;
    loop_enter(run, COMM_UPDATE, progress->step + 1);
    stragglers_begin(&run->stragglers);
    double begin = clock_now();
    struct feed_update data;
    TRY(loop->feed->ops->get_update(loop->feed, loop->batching,
                                    progress_data_step(progress, loop->batching, step), &data,
                                    error));
    profile_add(&run->profile, "data", "take", begin);
    struct update_args args = {.batching = loop->batching,
                               .source = data.source,
                               .order = data.order,
                               .count = data.count,
                               .others = data.others,
                               .step = progress->step,
                               .without_moments = without_moments(progress),
                               .rate = schedule_rate(&run->schedule, step - progress->skipped),
                               .loss_scale = progress->loss_scale.scale,
                               .loss_limit = skips_spikes ? limits.loss : 0,
                               .grad_norm_limit = skips_spikes ? limits.grad_norm : 0,
                               .stop = loop->stop};
    struct update_result update;
    TRY(update_run(loop->updater, &args, &update, error));
    profile_add(&run->profile, "update", "update", begin);
    run->stop = update.stop;
    if (update.aborted) {
        return interrupted_at_once(run, error);
    }
    TRY(handle_update(run, &args, &update, &limits, error));
    loop_count_update(run, &update, &data, clock_now() - begin);
    check_stragglers(run, &update, clock_now() - begin);
    obey_finish(run);
    if (progress->step <= args.step) { // rolled back; these steps were already reported
        run->window = (struct window){0};
        log_progress(loop->log, "train", progress->step, loop_end(loop));
        return BERTH_OK;
    }
    return report_update(run, &args, update.grad_norm, error);
}

// --- the profile --------------------------------------------------------------------------------

static void end_profile(struct run *run) {
    if (run->profile.is_on) {
        profile_stop(&run->profile);
        // A file that cannot be written does not end the run.
        const struct training_loop *loop = run->loop;
        const struct settings *config = loop->config;
        const struct profile *profile = &run->profile;
        const struct path usual = path_in(config->run.output_dir, "profile.json");
        const char *path =
            config->run.profile_output != NULL ? config->run.profile_output : usual.text;
        struct berth_error own = {0};
        if (profile_write(profile, path, &own) != BERTH_OK) {
            log_warning(loop->log, "cannot write the profile: %s", own.message);
        } else {
            log_note(loop->log, "profile of updates %" PRId64 " to %" PRId64 ": %s", profile->first,
                     run->progress->step, path);
        }
        if (profile->lost > 0) {
            log_warning(loop->log, "the profile lacks %zu spans: out of memory", profile->lost);
        }
    }
}

// --- the run ------------------------------------------------------------------------------------

// Saves, even where the run has no other checkpoints, unless this step is saved or no update was
// done, and stops.
static enum berth_status stop_here(struct run *run, struct berth_error *error) {
    if (run->stop == STOP_AT_ONCE) {
        TRY(loop_continue_saving(run, 1, error));
        return interrupted_at_once(run, error);
    }
    if (run->loop->config->run.skip_checkpoint) {
        return interrupted(run, "; nothing is saved", "skip_checkpoint is set", error);
    }
    TRY(check_lock(run->loop, error));
    TRY(loop_continue_saving(run, 1, error));
    if (run->saved_step != run->progress->step && run->first_step != run->progress->step) {
        TRY(loop_save(run, error));
        TRY(loop_continue_saving(run, 1, error));
    }
    // Wait for rank 0, which may still be deleting old checkpoints.
    TRY(comm_settle(run->loop->updater->engine->comm, BERTH_OK, error));
    // Saving may have failed, which on_save_error tolerates.
    char advice[ADVICE_SIZE];
    if (run->progress->step == run->first_step) {
        return interrupted(run, "", "no update was done", error);
    }
    if (run->saved_step == run->progress->step) {
        return interrupted(run, "; everything is saved", "resume with resume_from_checkpoint auto",
                           error);
    }
    return interrupted(run, "; this update could not be saved", restart_advice(run, advice), error);
}

// Before the first update: removes scores in the folder, which are those of an earlier model, or
// all of an overwritten run. One that is stopped earlier keeps its checkpoints and scores.
static enum berth_status begin_updates(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    struct comm *comm = loop->updater->engine->comm;
    if (run->result->updates > 0) {
        return BERTH_OK;
    }
    enum berth_status status = check_lock(loop, error);
    if (status == BERTH_OK && comm->rank == 0) {
        status = loop->overwrites
                     ? stale_files_remove(loop->config->run.output_dir, loop->log, error)
                     : results_remove(loop->config->run.output_dir, error);
    }
    return comm_settle(comm, status, error);
}

static enum berth_status end_here(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    TRY(loop_continue_saving(run, 1, error));
    run->result->is_complete |= run->result->updates > 0 && run->progress->step == loop_end(loop);
    if (run->progress->step == run->pause_step && !run->is_finished) {
        log_note(loop->log,
                 "steps_this_run ends this part of the run after update %" PRId64 " of %" PRId64
                 "; the result is the model of this update%s",
                 run->pause_step, loop_end(loop),
                 loop->config->run.skip_checkpoint ? ""
                                                   : ", and resume_from_checkpoint auto continues");
    }
    return BERTH_OK;
}

static enum berth_status run_all(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    struct progress *progress = run->progress;
    TRY(loop_rotate(run, error));
    for (;;) {
        // Before an update: ends the profile after its last update, including what was saved then,
        // or starts it.
        struct engine *engine = run->loop->updater->engine;
        struct profile *profile = &run->profile;
        if (run->progress->step >= profile->last) {
            end_profile(run);
        } else if (engine->comm->rank == 0) {
            profile_start_update(profile, run->progress->step + 1, engine->state->device,
                                 engine->comm);
        }
        if (run->stop <= STOP_FINISH && evaluation_is_due(run)) {
            TRY(evaluate(run, EVALUATE_TO_CHOOSE, error));
            TRY(act_on_evaluation(run, error));
        } else if (run->stop <= STOP_FINISH && loop->config->run.eval_on_start &&
                   loop->evaluation != NULL && run->progress->step == run->first_step) {
            TRY(evaluate(run, EVALUATE_TO_REPORT, error));
        }
        if (run->stop > STOP_FINISH) {
            return stop_here(run, error);
        }
        if (progress->step >= run->last_step) {
            return end_here(run, error);
        }
        TRY(begin_updates(run, error));
        TRY(do_update(run, error));
        TRY(check_lock(loop, error));
        TRY(loop_continue_saving(run, 0, error));
        if (run->stop < STOP_AT_ONCE && loop_save_is_due(run)) {
            TRY(loop_save(run, error));
        }
    }
}

enum berth_status training_loop_run(const struct training_loop *loop,
                                    struct training_result *result, struct berth_error *error) {
    *result = (struct training_result){
        .score.loss = NAN, .predicted_per_second = NAN, .evaluated_step = -1};
    struct progress *progress = loop->content->progress;
    struct comm *comm = loop->updater->engine->comm;
    assert(feed_check(loop->feed) == NULL);
    assert(checkpoint_content_check(loop->content) == NULL);
    struct run run = {.loop = loop,
                      .spike_policy = spike_policy_of(&loop->config->run),
                      .progress = progress,
                      .result = result,
                      .schedule = *loop->schedule,
                      .first_step = progress->step,
                      .saved_step = loop->saved_step,
                      .next_save = progress->step + 1, // to learn what saving takes
                      .pause_step = -1,
                      .last_step = loop_end(loop)};
    int64_t steps = loop->config->run.steps_this_run;
    if (steps > 0 && steps < run.last_step - progress->step) {
        run.last_step = run.pause_step = progress->step + steps;
    }
    TRY(profile_init(&run.profile, loop->config->run.profile, error));
    TRY(agree_on_stop(&run, error));
    TRY(loss_scale_settle(&progress->loss_scale, &loop->config->optimizer,
                          loop->config->machine.precision == BERTH_FP16, error));
    if (progress->schedule_start > 0) {
        schedule_restart(&run.schedule, &loop->config->optimizer, progress->schedule_start);
        log_note(loop->log, "the schedule restarts after %" PRId64 " updates",
                 progress->schedule_start);
    }
    log_progress(loop->log, "train", progress->step, loop_end(loop)); // start the clock
    enum berth_status status =
        comm_settle(comm, stragglers_init(&run.stragglers, comm, error), error);
    loop->updater->engine->profile = &run.profile;
    status = status == BERTH_OK ? run_all(&run, error) : status;
    end_profile(&run);
    loop->updater->engine->profile = NULL;
    if (status != BERTH_OK) {
        finish_saving(&run, status);
    }
    loop_report_lengths(&run, 1);
    loop_warn_of_no_loss(&run);
    loop_enter(&run, COMM_BETWEEN, 0);
    result->model_step = progress->step;
    result->exchanged = comm->stats(comm);
    if (run.profile.first > 0 && run.profile.count == 0) {
        log_warning(loop->log, "no profile: none of updates %" PRId64 " to %" PRId64 " was done",
                    run.profile.first, run.profile.last);
    }
    profile_done(&run.profile);
    stragglers_done(&run.stragglers);
    return status;
}
