// SPDX-License-Identifier: Apache-2.0
#include "train/job/training_loop.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/options.h"
#include "train/checkpoint/original_write.h"
#include "train/job/lengths.h"
#include "train/job/paces.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// Counters since the last step record.
struct window {
    int64_t sequences, tokens, updates, micro_batches;
    int64_t masked;
    double last_loss; // of the last update
    double seconds, forward, backward, step, waited;
    double imbalance; // of the parts of updates, added up
    double needed_flops;
};

struct run {
    const struct training_loop *loop;
    struct progress *progress;
    struct training_result *result;
    struct window window;
    struct schedule schedule;    // including where it starts
    struct comm_stats exchanged; // until the last step record
    struct paces paces;
    struct lengths lengths; // of shards' sequences
    double ema_loss;        // over the step records; NaN before the first
    int64_t first_step;     // step at which the run began or was resumed
    int64_t saved_step;     // newest step that has a checkpoint
    int64_t next_save;      // --save_steps auto: the next step to save at
    int64_t saves;
    double save_began; // of the checkpoint that is written beside the updates
    int64_t last_step; // last step of the run
    int stop;          // *loop->stop, as last agreed on by all ranks
};

// Agrees on *stop if no update has done so (update.h).
static enum berth_status ask_stop(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    struct comm *comm = loop->updater->engine->comm;
    run->stop = loop->stop != NULL ? *loop->stop : 0;
    return comm->agree(comm, BERTH_OK, &run->stop, error);
}

// The step counted from the beginning of the phase.
static int64_t own_step(const struct training_loop *loop, int64_t step) {
    return step - loop->content->progress->phase_start;
}

// The last step of the phase.
static int64_t end_of(const struct training_loop *loop) {
    return loop->content->progress->phase_start + loop->batching->total_steps;
}

static double epoch_of(const struct training_loop *loop, int64_t step) {
    return batching_epochs(loop->batching, own_step(loop, step));
}

static int is_every(const struct training_loop *loop, int64_t step, int64_t every) {
    return every > 0 && own_step(loop, step) % every == 0;
}

static void enter(const struct run *run, enum comm_phase phase, int64_t update) {
    struct comm *comm = run->loop->updater->engine->comm;
    comm->enter(comm, phase, update);
}

// --- evaluation ---------------------------------------------------------------------------------

static int is_epoch_end(const struct training_loop *loop, int64_t step) {
    return batching_ends_epoch(loop->batching, own_step(loop, step)) || step == end_of(loop);
}

static int evaluation_is_due(const struct training_loop *loop, int64_t step) {
    if (loop->evaluation == NULL || own_step(loop, step) == 0) {
        return 0;
    }
    return step == end_of(loop) || is_every(loop, step, loop->config->eval_steps) ||
           (loop->config->evaluate_every_epoch && is_epoch_end(loop, step));
}

static void report_evaluation(const struct run *run, const struct infer_result *timing) {
    double seconds = timing->seconds > 0 ? timing->seconds : NAN;
    const struct task_score *score = &run->result->score;
    struct berth_field fields[BERTH_METRICS_MAX + 5] = {
        log_integer("step", run->progress->step),
        log_real("epoch", epoch_of(run->loop, run->progress->step)),
    };
    size_t count = 2;
    for (size_t i = 0; i < score->count; i++) {
        fields[count++] = log_real(score->items[i].name, score->items[i].value);
    }
    if (!isnan(score->loss)) {
        fields[count++] = log_real("eval_loss", score->loss);
    }
    fields[count++] = log_real("samples_per_second", (double)timing->timed_sequences / seconds);
    fields[count++] = log_real("tokens_per_second", (double)timing->timed_tokens / seconds);
    log_fields(run->loop->log, BERTH_RECORD_EVAL, "eval", fields, count);
}

static enum berth_status evaluate(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    enter(run, COMM_EVALUATION, run->progress->step);
    double begin = machine_seconds();
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
        run->result->predicted_per_second = (double)timing.timed_sequences / timing.seconds;
        run->result->evaluated_step = run->progress->step;
    }
    if (!timing.stopped && score.count > 0) {
        struct best_metric best;
        TRY(strategy_best_metric(loop->config, &score, &best, error));
        progress_add_evaluation(run->progress, epoch_of(loop, run->progress->step), &score, &best);
        report_evaluation(run, &timing);
    }
    run->result->evaluation_seconds += machine_seconds() - begin;
    return ask_stop(run, error);
}

// --- saving -------------------------------------------------------------------------------------

static int save_is_due(const struct run *run) {
    const struct training_loop *loop = run->loop;
    int64_t every = loop->config->save_steps, step = run->progress->step;
    if (loop->config->skip_checkpoint) {
        return 0;
    }
    if (step == run->last_step) {
        return 1;
    }
    return every == OPTION_AUTO ? step >= run->next_save
           : every > 0          ? is_every(loop, step, every)
                                : is_epoch_end(loop, step);
}

static void note_interval(const struct run *run, double saving, double update, int64_t steps) {
    const struct training_loop *loop = run->loop;
    const double mean = loop->config->mean_time_to_failure;
    const double interval = strategy_save_interval(saving, mean);
    const struct berth_field fields[] = {
        log_integer("step", run->progress->step),    log_real("saving_seconds", saving),
        log_real("update_seconds", update),          log_real("mean_time_to_failure", mean),
        log_real("save_interval_seconds", interval), log_integer("save_interval_steps", steps)};
    char text[256];
    number_format(text, sizeof text,
                  "save_steps auto: the next checkpoint is due in %" PRId64
                  " updates: saving takes %.3g s, an update %.3g s, and every %.10g s a failure "
                  "is expected: save every %.3g s",
                  steps, saving, update, mean, interval);
    log_fields(loop->log, BERTH_RECORD_NOTE, text, fields, sizeof fields / sizeof *fields);
}

// After the first update and each save: the first rank's clock decides for all.
static void choose_next_save(struct run *run) {
    const struct training_loop *loop = run->loop;
    const struct training_result *result = run->result;
    struct comm *comm = loop->updater->engine->comm;
    if (loop->config->save_steps != OPTION_AUTO || result->updates == 0) {
        return;
    }
    const double saving = result->save_seconds / (double)run->saves;
    const double update = result->seconds / (double)result->updates;
    const double interval =
        strategy_save_interval(saving, loop->config->mean_time_to_failure) / update;
    int64_t steps = interval < 1 ? 1 : interval < 1e15 ? llround(interval) : (int64_t)1e15;
    comm->broadcast(comm, &steps, sizeof steps, 0);
    run->next_save = run->progress->step + steps;
    note_interval(run, saving, update, steps);
}

static int goes_on_after_save_error(const struct training_loop *loop) {
    return loop->config->on_save_error != NULL &&
           strcmp(loop->config->on_save_error, "continue") == 0;
}

static struct checkpoint_limits limits_of(const struct run *run, int64_t newest) {
    const struct berth_config *config = run->loop->config;
    const int keeps = strategy_keeps_best(config) && !isnan(run->progress->best_metric);
    return (struct checkpoint_limits){
        .newest = newest,
        .limit = config->save_total_limit,
        .best = keeps ? run->progress->best_step : -1,
        .originals_after = original_is_written(config) ? run->progress->phase_start : -1};
}

static enum berth_status rotate(const struct run *run, struct berth_error *error) {
    struct comm *comm = run->loop->updater->engine->comm;
    const struct checkpoint_limits limits = limits_of(run, run->saved_step);
    int stop = 0;
    const enum berth_status status =
        comm->rank == 0 ? checkpoint_rotate(run->loop->config->output_dir, &limits, error)
                        : BERTH_OK;
    return comm->agree(comm, status, &stop, error);
}

static void report_saved(struct run *run, int64_t step) {
    const struct training_loop *loop = run->loop;
    const struct berth_field facts[] = {
        log_integer("step", step), log_real("epoch", epoch_of(loop, step)),
        log_integer("checkpoint_step", step),
        log_real("background_save_seconds", machine_seconds() - run->save_began)};
    const size_t count = sizeof facts / sizeof facts[0];
    run->saved_step = step;
    log_note(loop->log, "saved %s/checkpoint-%" PRId64, loop->config->output_dir, step);
    log_facts(loop->log, facts, loop->saver != NULL ? count : count - 1);
}

// What on_save_error says to an error of saving `step`; not to one of other ranks or of the state
// itself.
static enum berth_status judge(const struct run *run, int64_t step, enum berth_status status,
                               const struct berth_error *own, struct berth_error *error) {
    if (status == BERTH_OK) {
        return BERTH_OK;
    }
    struct comm *comm = run->loop->updater->engine->comm;
    if (status == BERTH_UNAVAILABLE || comm->status(comm, NULL) != BERTH_OK) {
        return error_set(error, status, "%s", own->message);
    }
    const char *outcome =
        run->saved_step == step ? "saved, but an older one could not be removed" : "not saved";
    if (goes_on_after_save_error(run->loop)) {
        log_warning(run->loop->log, "checkpoint of step %" PRId64 " %s: %s", step, outcome,
                    own->message);
        return BERTH_OK;
    }
    return error_set(error, status == BERTH_NO_MEMORY ? status : BERTH_IO,
                     "checkpoint of step %" PRId64 " %s: %s", step, outcome, own->message);
}

// The checkpoint that is written beside the updates, if there is one: its next steps, or with
// `waits` all of them.
static enum berth_status go_on_saving(struct run *run, int waits, struct berth_error *error) {
    struct saver *saver = run->loop->saver;
    struct berth_error own = {0};
    int64_t saved;
    if (saver == NULL || !saver_is_busy(saver)) {
        return BERTH_OK;
    }
    const double begin = machine_seconds();
    const int64_t step = saver->step;
    if (waits) {
        enter(run, COMM_SAVING, step);
    }
    const enum berth_status status = saver_poll(saver, waits, &saved, &own);
    if (saved >= 0) {
        report_saved(run, saved);
    }
    run->result->save_seconds += machine_seconds() - begin;
    return judge(run, step, status, &own, error);
}

static enum berth_status write_checkpoint(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    if (run->saved_step == run->progress->step) {
        return rotate(run, error);
    }
    if (loop->saver != NULL) {
        const struct checkpoint_limits limits = limits_of(run, run->progress->step);
        run->save_began = machine_seconds();
        return saver_begin(loop->saver, &limits, error);
    }
    TRY(checkpoint_write(loop->content, loop->config->output_dir, error));
    run->saved_step = run->progress->step;
    TRY(rotate(run, error));
    report_saved(run, run->saved_step);
    return BERTH_OK;
}

static enum berth_status save(struct run *run, struct berth_error *error) {
    TRY(go_on_saving(run, 1, error));
    enter(run, COMM_SAVING, run->progress->step);
    const double begin = machine_seconds();
    struct berth_error own = {0};
    const enum berth_status status = write_checkpoint(run, &own);
    run->result->save_seconds += machine_seconds() - begin;
    run->saves++;
    choose_next_save(run);
    return judge(run, run->progress->step, status, &own, error);
}

// After an evaluation: saves a best model that must be kept, and decides whether the run ends here.
static enum berth_status follow_evaluation(struct run *run, struct berth_error *error) {
    const struct berth_config *config = run->loop->config;
    const struct progress *progress = run->progress;
    const int64_t patience = config->early_stopping_patience;
    if (strategy_keeps_best(config) && progress->best_step == progress->step) {
        TRY(save(run, error));
    }
    if (patience > 0 && progress->evaluations_without_gain >= patience &&
        progress->step < run->last_step) {
        log_note(run->loop->log,
                 "early stopping after update %" PRId64 ": %" PRId64
                 " evaluations in a row were not better than that of update %" PRId64,
                 progress->step, progress->evaluations_without_gain, progress->best_step);
        run->last_step = progress->step;
    }
    return BERTH_OK;
}

// --- one update ---------------------------------------------------------------------------------

// Of shards, which are not read before; of the other sets the plan has them.
static void count_lengths(struct run *run, const struct feed_update *data) {
    if (run->loop->feed->shards == NULL) {
        return;
    }
    if (run->result->updates == 0) {
        lengths_init(&run->lengths, run->loop->feed->shards->length);
    }
    for (size_t i = 0; i < data->count; i++) {
        lengths_add(&run->lengths, data->source->get(data->source->data, data->order[i]).length);
    }
}

// After 1, 2, 4, 8, ... updates and at the end: each replaces the one before.
static void report_lengths(const struct run *run, int is_end) {
    const int64_t updates = run->result->updates;
    const struct shard_list *shards = run->loop->feed->shards;
    if (shards != NULL && updates > 0 && (is_end || (updates & (updates - 1)) == 0)) {
        lengths_log(&run->lengths, shards->length, run->loop->log);
    }
}

static void count_update(struct run *run, const struct update_result *update,
                         const struct feed_update *data, double seconds) {
    count_lengths(run, data);
    struct window *window = &run->window;
    window->sequences += (int64_t)(data->count + data->others);
    window->waited += data->waited;
    window->masked += update->masked;
    window->tokens += update->tokens;
    window->updates++;
    window->micro_batches += update->micro_batches;
    window->last_loss = update->loss;
    window->seconds += seconds;
    window->forward += update->forward_seconds;
    window->backward += update->backward_seconds;
    window->step += update->step_seconds;
    window->imbalance += update->imbalance;
    window->needed_flops += update->needed_flops;
    struct training_result *result = run->result;
    result->updates++;
    result->sequences += (int64_t)(data->count + data->others);
    result->waited_seconds += data->waited;
    result->tokens += update->tokens;
    result->seconds += seconds;
    result->needed_flops += update->needed_flops;
    result->forward_seconds += update->forward_seconds;
    result->backward_seconds += update->backward_seconds;
    result->step_seconds += update->step_seconds;
    report_lengths(run, 0);
}

static const double thousand = 1000;

// Only for the pre-training head.
static size_t add_masked(const struct run *run, struct berth_field *fields, size_t count) {
    const struct progress *progress = run->progress;
    if (isnan(progress->last_masked_loss)) {
        return count;
    }
    fields[count++] = log_real("masked_lm_loss", progress->last_masked_loss);
    fields[count++] =
        log_real("next_sentence_loss", progress->last_loss - progress->last_masked_loss);
    fields[count++] = log_real("data_wait_ms", thousand * run->window.waited);
    fields[count++] = log_real("step_loss", run->window.last_loss);
    fields[count++] = log_real("average_training_time_step",
                               run->window.seconds / (double)run->window.micro_batches);
    if (progress->step == end_of(run->loop)) {
        fields[count++] = log_real("final_loss", progress->last_loss);
    }
    return count;
}

// With several ranks: what this one exchanged since the last record, and how even the parts were.
static size_t add_exchanges(struct run *run, struct berth_field *fields, size_t count) {
    struct comm *comm = run->loop->updater->engine->comm;
    const struct comm_stats now = comm->stats(comm), before = run->exchanged;
    const double exposed = now.exposed_seconds - before.exposed_seconds;
    if (comm->size == 1) {
        return count;
    }
    fields[count++] = log_real("comm_exposed_seconds", exposed);
    fields[count++] =
        log_real("comm_hidden_seconds", now.busy_seconds - before.busy_seconds - exposed);
    fields[count++] = log_integer("comm_bytes", (int64_t)(now.bytes - before.bytes));
    fields[count++] = log_real("imbalance", run->window.imbalance / (double)run->window.updates);
    if (run->paces.slowest.rank >= 0) {
        fields[count++] = log_integer("slowest_rank", run->paces.slowest.rank);
        fields[count++] = log_real("slowest_ratio", run->paces.slowest.ratio);
    }
    run->exchanged = now;
    return count;
}

static void report_step(struct run *run, double learning_rate, double grad_norm) {
    const struct training_loop *loop = run->loop;
    const struct window *window = &run->window;
    double updates = (double)window->updates;
    struct berth_field fields[32] = {
        log_integer("step", run->progress->step),
        log_integer("total_steps", end_of(loop)),
        log_real("epoch", epoch_of(loop, run->progress->step)),
        log_real("loss", run->progress->last_loss),
        log_real("learning_rate", learning_rate),
        log_real("grad_norm", grad_norm),
        log_real("samples_per_second", (double)window->sequences / window->seconds),
        log_real("tokens_per_second", (double)window->tokens / window->seconds),
    };
    size_t count = add_exchanges(run, fields, add_masked(run, fields, 8));
    fields[count++] = log_text("task", loop->task);
    fields[count++] = log_integer("updates", window->updates);
    fields[count++] = log_integer("sample_count", own_step(loop, run->progress->step) *
                                                      loop->batching->update_sequences);
    fields[count++] = log_real("train_ema_loss", run->ema_loss);
    fields[count++] = log_real("model_flops", window->needed_flops / window->seconds);
    fields[count++] = log_integer("rss_bytes", (int64_t)machine_resident());
    if (run->progress->loss_scale.kind != LOSS_SCALE_NONE) {
        fields[count++] = log_integer("skipped", run->progress->skipped);
        fields[count++] = log_real("loss_scale", run->progress->loss_scale.scale);
    }
    if (loop->config->wall_clock_breakdown) {
        fields[count++] = log_real("forward_ms", thousand * window->forward / updates);
        fields[count++] = log_real("backward_ms", thousand * window->backward / updates);
        fields[count++] = log_real("step_ms", thousand * window->step / updates);
    }
    log_fields(loop->log, BERTH_RECORD_STEP, NULL, fields, count);
    run->window = (struct window){0};
}

// Reports the coefficients of a layer-wise optimizer in the last update: one number for each
// parameter that has one.
static enum berth_status report_coefficients(const struct run *run, struct berth_error *error) {
    const struct updater *updater = run->loop->updater;
    const struct state *state = updater->engine->state;
    const struct optimizer *optimizer = &updater->rules.optimizer;
    const struct param_table *table = state->table;
    if (optimizer->row->trust == TRUST_NONE) {
        return BERTH_OK;
    }
    struct lamb_stats *stats = memory_array(table->count, sizeof *stats);
    struct berth_field *fields = memory_array(table->count + 1, sizeof *fields);
    enum berth_status status = BERTH_OK;
    if (stats == NULL || fields == NULL) {
        status = error_no_memory(error, table->count * sizeof *fields, "the coefficients");
    } else {
        state->device->download(state->device, stats, updater->plan.lamb,
                                table->count * sizeof *stats);
        size_t count = 0;
        fields[count++] = log_integer("step", run->progress->step);
        for (size_t i = 0; i < table->count; i++) {
            if (optimizer_scales(optimizer, table->params[i].name)) {
                fields[count++] = log_real(table->params[i].name, stats[i].coefficient);
            }
        }
        log_fields(run->loop->log, BERTH_RECORD_VALUES, "lamb_coeffs", fields, count);
    }
    memory_free(stats);
    memory_free(fields);
    return status;
}

// BingBertSquad's running mean; a record whose updates were all skipped does not change it.
static void follow_loss(struct run *run) {
    double loss = run->progress->last_loss, alpha = run->loop->config->loss_plot_alpha;
    if (!isnan(loss)) {
        run->ema_loss = isnan(run->ema_loss) ? loss : alpha * run->ema_loss + (1 - alpha) * loss;
    }
}

static int predicts_masked(const struct run *run) {
    return run->loop->updater->engine->model.table->head == PARAM_HEAD_PRETRAINING;
}

// Reports the loss as the mean over the updates since the last report; if all of them were skipped,
// repeats the previous one.
static enum berth_status log_step(struct run *run, double learning_rate, double grad_norm,
                                  struct berth_error *error) {
    struct progress *progress = run->progress;
    if (progress->loss_count > 0) {
        double updates = (double)progress->loss_count;
        progress->last_loss = progress->loss_sum / updates;
        progress->last_masked_loss =
            predicts_masked(run) ? progress->masked_loss_sum / updates : NAN;
    }
    progress->loss_sum = progress->masked_loss_sum = 0;
    progress->loss_count = 0;
    progress_add_step(progress, epoch_of(run->loop, progress->step), progress->last_loss,
                      learning_rate, grad_norm);
    follow_loss(run);
    report_step(run, learning_rate, grad_norm);
    return report_coefficients(run, error);
}

static int log_is_due(const struct training_loop *loop, int64_t step) {
    int64_t every = loop->config->logging_steps > 0 ? loop->config->logging_steps : 1;
    return is_every(loop, step, every) || step == end_of(loop);
}

static enum berth_status fail_not_finite(const struct run *run, const struct update_args *args,
                                         const struct update_result *update,
                                         struct berth_error *error) {
    const int64_t step = run->progress->step;
    char place[256];
    TRY(update_blame(run->loop->updater, args, place, sizeof place, error));
    return error_set(error, BERTH_FAILURE,
                     "update %" PRId64 ": loss %g, gradient norm %g: %s; the weights are those of "
                     "update %" PRId64 "; resume with a lower learning_rate or check the data",
                     step + 1, update->loss, update->grad_norm, place, step);
}

static const char *says_of(enum loss_scale_event event, const struct loss_scale *scale) {
    if (event == SCALE_LOWERED) {
        return "it is lowered";
    }
    if (scale->kind == LOSS_SCALE_STATIC) {
        return "it is static";
    }
    return scale->kind == LOSS_SCALE_ZERO ? "hysteresis tolerates it" : "it is at min_loss_scale";
}

// The reporter formats this in DeepSpeed's words.
static void report_skip(const struct run *run, const struct loss_scale *before,
                        enum loss_scale_event event) {
    const struct loss_scale *now = &run->progress->loss_scale;
    struct berth_field fields[] = {
        log_integer("step", run->progress->step),
        log_integer("skipped", run->progress->skipped),
        log_real("attempted_loss_scale", before->scale),
        log_real("loss_scale", now->scale),
        log_integer("attempted_hysteresis", before->hysteresis_left),
        log_integer("hysteresis", now->hysteresis_left),
    };
    char text[256];
    number_format(text, sizeof text,
                  "update %" PRId64
                  " skipped: the gradient overflows at loss scale %.10g; %s: %.10g",
                  run->progress->step, before->scale, says_of(event, now), now->scale);
    log_fields(run->loop->log, BERTH_RECORD_NOTE, text, fields, sizeof fields / sizeof fields[0]);
}

// Handles an update that is not finite: ends the run without loss scaling or at the scale's floor,
// otherwise skips the update.
static enum berth_status overflow(struct run *run, const struct update_args *args,
                                  const struct update_result *update, struct berth_error *error) {
    struct progress *progress = run->progress;
    const struct loss_scale before = progress->loss_scale;
    if (before.kind == LOSS_SCALE_NONE) {
        return fail_not_finite(run, args, update, error);
    }
    enum loss_scale_event event = loss_scale_update(&progress->loss_scale, 1);
    if (event == SCALE_AT_FLOOR) {
        enum berth_status status = fail_not_finite(run, args, update, error);
        return status == BERTH_FAILURE
                   ? error_prefix(error, status, "loss scale %g is already at its minimum",
                                  before.scale)
                   : status;
    }
    update_discard(run->loop->updater);
    progress->step++;
    progress->skipped++;
    report_skip(run, &before, event);
    return BERTH_OK;
}

static void take_loss(struct run *run, const struct update_result *update) {
    struct progress *progress = run->progress;
    progress->step++;
    progress->loss_sum += update->loss;
    progress->masked_loss_sum += update->masked_loss;
    progress->loss_count++;
    if (progress->loss_scale.kind != LOSS_SCALE_NONE &&
        loss_scale_update(&progress->loss_scale, 0) == SCALE_RAISED) {
        log_note(run->loop->log, "loss scale %.10g from update %" PRId64 " on",
                 progress->loss_scale.scale, progress->step + 1);
    }
}

static enum berth_status interrupted(const struct run *run, const char *outcome,
                                     struct berth_error *error) {
    return error_set(error, BERTH_INTERRUPTED,
                     "stopped on request after update %" PRId64 " of %" PRId64 "; %s",
                     run->progress->step, end_of(run->loop), outcome);
}

// The number of updates that did not contribute to the moments.
static int64_t without_moments(const struct progress *progress) {
    int64_t start = progress->phase_start > progress->moments_start ? progress->phase_start
                                                                    : progress->moments_start;
    return start + progress->skipped;
}

// Warns of a rank that is slow.
static void look_at_paces(struct run *run, const struct update_result *update, double seconds) {
    const struct comm *comm = run->loop->updater->engine->comm;
    struct slow_rank found;
    if (paces_add(&run->paces, seconds, update->needed_flops, &found)) {
        log_warning(run->loop->log,
                    "rank %d on host %s is slow: it computes %.1f times as long as others for the "
                    "same work, and all wait for it, so an update takes %.0f %% longer (updates "
                    "%" PRId64 " to %" PRId64 ")",
                    found.rank, comm->host_names[found.rank], found.ratio, 100 * found.delay,
                    run->progress->step + 1 - found.updates, run->progress->step);
    }
}

static enum berth_status do_update(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    struct progress *progress = run->progress;
    int64_t step = own_step(loop, progress->step);
    enter(run, COMM_UPDATE, progress->step + 1);
    paces_begin(&run->paces);
    double begin = machine_seconds();
    struct feed_update data;
    TRY(loop->feed->kind->take(loop->feed, loop->batching, step, &data, error));
    struct update_args args = {.batching = loop->batching,
                               .source = data.source,
                               .order = data.order,
                               .count = data.count,
                               .others = data.others,
                               .step = progress->step,
                               .skipped = without_moments(progress),
                               .learning_rate =
                                   schedule_rate(&run->schedule, step - progress->skipped),
                               .loss_scale = progress->loss_scale.scale,
                               .stop = loop->stop};
    struct update_result update;
    TRY(update_run(loop->updater, &args, &update, error));
    run->stop = update.stop;
    if (update.left) {
        return interrupted(run, "at once, without saving: resume from the last checkpoint", error);
    }
    if (!isfinite(update.loss) || !isfinite(update.grad_norm)) {
        TRY(overflow(run, &args, &update, error));
    } else {
        take_loss(run, &update);
    }
    count_update(run, &update, &data, machine_seconds() - begin);
    look_at_paces(run, &update, machine_seconds() - begin);
    if (log_is_due(loop, progress->step)) {
        TRY(log_step(run, args.learning_rate, update.grad_norm, error));
    }
    log_progress(loop->log, "train", progress->step, end_of(loop));
    return BERTH_OK;
}

// --- the run ------------------------------------------------------------------------------------

// The first rank has the lock of the output folder.
static enum berth_status check_lock(const struct training_loop *loop, struct berth_error *error) {
    return loop->updater->engine->comm->rank == 0 ? file_lock_check(loop->lock, error) : BERTH_OK;
}

// After the last attempt to save, which on_save_error may have let fail.
static const char *resume_advice(const struct run *run) {
    if (run->progress->step == run->first_step) {
        return "no update was done";
    }
    return run->saved_step == run->progress->step
               ? "everything is saved: resume with --resume_from_checkpoint auto"
               : "this update could not be saved: resume from the last checkpoint";
}

// Saves, unless that is already done, and stops.
static enum berth_status stop_here(struct run *run, struct berth_error *error) {
    if (run->stop >= 2) {
        TRY(go_on_saving(run, 1, error));
        return interrupted(run, "at once: resume from the last checkpoint", error);
    }
    if (run->loop->config->skip_checkpoint) {
        return interrupted(run, "nothing is saved: checkpoints are off", error);
    }
    TRY(check_lock(run->loop, error));
    TRY(go_on_saving(run, 1, error));
    if (run->saved_step != run->progress->step) {
        TRY(save(run, error));
        TRY(go_on_saving(run, 1, error));
    }
    // The first rank may still have been deleting old checkpoints.
    TRY(comm_settle(run->loop->updater->engine->comm, BERTH_OK, error));
    return interrupted(run, resume_advice(run), error);
}

static enum berth_status run_all(struct run *run, struct berth_error *error) {
    const struct training_loop *loop = run->loop;
    struct progress *progress = run->progress;
    for (;;) {
        if (run->stop == 0 && evaluation_is_due(loop, progress->step)) {
            TRY(evaluate(run, error));
            TRY(follow_evaluation(run, error));
        }
        if (run->stop != 0) {
            return stop_here(run, error);
        }
        if (progress->step >= run->last_step) {
            return go_on_saving(run, 1, error);
        }
        TRY(do_update(run, error));
        TRY(check_lock(loop, error));
        TRY(go_on_saving(run, 0, error));
        if (run->stop < 2 && save_is_due(run)) {
            TRY(save(run, error));
        }
    }
}

// After an error: what is being written is good. Not where other ranks may not have met the error:
// they would not agree.
static void finish_saving(struct run *run, enum berth_status status) {
    struct berth_error own = {0};
    const int is_alone = run->loop->updater->engine->comm->size == 1;
    if ((is_alone || status == BERTH_FAILURE) && go_on_saving(run, 1, &own) != BERTH_OK) {
        log_warning(run->loop->log, "%s", own.message);
    }
}

enum berth_status training_loop_run(const struct training_loop *loop,
                                    struct training_result *result, struct berth_error *error) {
    *result = (struct training_result){
        .score.loss = NAN, .predicted_per_second = NAN, .evaluated_step = -1};
    struct progress *progress = loop->content->progress;
    struct comm *comm = loop->updater->engine->comm;
    struct run run = {.loop = loop,
                      .ema_loss = NAN,
                      .progress = progress,
                      .result = result,
                      .schedule = *loop->schedule,
                      .first_step = progress->step,
                      .saved_step = progress->step,
                      .next_save = progress->step + 1, // to learn what saving takes
                      .last_step = end_of(loop)};
    int64_t steps = loop->config->steps_this_run;
    if (steps > 0 && steps < run.last_step - progress->step) {
        run.last_step = progress->step + steps;
    }
    TRY(ask_stop(&run, error));
    TRY(loss_scale_settle(&progress->loss_scale, loop->config, error));
    if (progress->schedule_start > 0) {
        schedule_restart(&run.schedule, loop->config, progress->schedule_start);
        log_note(loop->log, "the schedule restarts after %" PRId64 " updates",
                 progress->schedule_start);
    }
    log_progress(loop->log, "train", progress->step, end_of(loop)); // start the clock
    enum berth_status status = comm_settle(comm, paces_init(&run.paces, comm, error), error);
    status = status == BERTH_OK ? run_all(&run, error) : status;
    if (status != BERTH_OK) {
        finish_saving(&run, status);
    }
    report_lengths(&run, 1);
    enter(&run, COMM_BETWEEN, 0);
    result->model_step = progress->step;
    result->exchanged = comm->stats(comm);
    paces_done(&run.paces);
    return status;
}
