// SPDX-License-Identifier: Apache-2.0
// What a training loop counts and reports about its updates: the record of a step with loss, rate,
// speed and expected time, skipped updates, lengths, and a warning if no update has a loss. The
// loop calls these after each update; when a record is due is also decided here, what becomes of
// the update in training_loop.c.
#include "core/memory.h"
#include "core/number.h"
#include "settings/settings.h"
#include "train/job/loop_run.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// The first updates are slower than others.
#define WARM_UPDATES 2
// The updates, or seconds, after them from which the expected time is computed.
#define TIMED_UPDATES 8
#define TIMED_SECONDS 10.0

void loop_report_lengths(const struct run *run, int is_end) {
    const int64_t updates = run->result->updates;
    const struct shard_list *shards = run->loop->feed->shards;
    if (shards != NULL && updates > 0 && (is_end || (updates & (updates - 1)) == 0)) {
        lengths_log(&run->lengths, shards->length, run->loop->log);
    }
}

// Once, when enough updates are timed: what the updates that are left will take. Evaluations and
// checkpoints come on top.
static void report_expected_time(struct run *run) {
    const int64_t timed = run->result->updates - WARM_UPDATES;
    const int64_t left = run->last_step - run->progress->step;
    const double seconds = run->result->seconds - run->warm_seconds, each = seconds / (double)timed;
    if (run->has_expected_time || timed < 1 || left < 1 ||
        (timed < TIMED_UPDATES && seconds < TIMED_SECONDS)) {
        return;
    }
    run->has_expected_time = 1;
    const double expected = each * (double)left;
    const int64_t whole = (int64_t)fmin(ceil(expected), 1e15);
    char text[256];
    number_format(text, sizeof text,
                  "expected time: %" PRId64 ":%02d:%02d for the %" PRId64
                  " updates that are left, %.3g s each, without evaluations and checkpoints",
                  whole / 3600, (int)(whole / 60 % 60), (int)(whole % 60), left, each);
    LOG_RECORD(run->loop->log, BERTH_DETAIL, "note", log_text("note", text),
               log_integer("step", run->progress->step), log_real("expected_seconds", expected));
}

void loop_count_update(struct run *run, const struct update_result *update,
                       const struct feed_update *data, double seconds) {
    // Only for shards, which were not read before training; for other sets the plan has the
    // lengths.
    if (run->loop->feed->shards != NULL) {
        if (run->result->updates == 0) {
            lengths_init(&run->lengths, run->loop->feed->shards->length);
        }
        for (size_t i = 0; i < data->count; i++) {
            lengths_add(&run->lengths,
                        data->source->get(data->source->data, data->order[i]).length);
        }
    }
    struct window *window = &run->window;
    window->sequences += (int64_t)(data->count + data->others);
    window->waited += data->waited;
    window->masked += update->masked;
    window->tokens += update->tokens;
    window->updates++;
    window->without_loss += !loop_has_loss(run, update);
    window->micro_batches += update->micro_batches;
    window->last_loss = update->loss;
    window->last_rate = (double)(data->count + data->others) / seconds;
    window->seconds += seconds;
    window->forward += update->forward_seconds;
    window->backward += update->backward_seconds;
    window->step += update->step_seconds;
    window->imbalance += update->imbalance;
    window->required_flops += update->required_flops;
    run->progress->total_flos += update->total_flops;
    struct training_result *result = run->result;
    run->without_loss += !loop_has_loss(run, update);
    result->updates++;
    result->sequences += (int64_t)(data->count + data->others);
    result->waited_seconds += data->waited;
    result->tokens += update->tokens;
    result->seconds += seconds;
    result->required_flops += update->required_flops;
    result->forward_seconds += update->forward_seconds;
    result->backward_seconds += update->backward_seconds;
    result->step_seconds += update->step_seconds;
    if (result->updates <= WARM_UPDATES) {
        run->warm_sequences = result->sequences;
        run->warm_seconds = result->seconds;
    }
    loop_report_lengths(run, 0);
    report_expected_time(run);
}

// Sequences in a second of all updates from the third on, as DeepSpeed counts them; NaN before
// that.
static double average_rate(const struct run *run) {
    const struct training_result *result = run->result;
    return result->updates > WARM_UPDATES ? (double)(result->sequences - run->warm_sequences) /
                                                (result->seconds - run->warm_seconds)
                                          : NAN;
}

static enum param_head head_of(const struct run *run) {
    return run->loop->updater->engine->model.table->head;
}

int loop_has_loss(const struct run *run, const struct update_result *update) {
    const enum param_head head = head_of(run);
    return update->masked > 0 || (head != PARAM_HEAD_MASKED && head != PARAM_HEAD_TOKEN);
}

static const double thousand = 1000;

// Why a report has no loss.
static const char *no_loss(const struct window *window) {
    return window->without_loss == 0                 ? "all updates were skipped"
           : window->without_loss == window->updates ? "no word was to be predicted"
                                                     : "skipped, or no word was to be predicted";
}

// Only for the pre-training head.
static void add_masked(const struct run *run, const struct progress_losses *losses,
                       struct log_record *record) {
    const struct progress *progress = run->progress;
    const struct window *window = &run->window;
    if (head_of(run) != PARAM_HEAD_PRETRAINING) {
        return;
    }
    if (!isnan(losses->masked)) {
        LOG_ADD(record, log_real("masked_lm_loss", losses->masked),
                log_real("next_sentence_loss", losses->all - losses->masked));
    }
    LOG_ADD(record, log_real("data_wait_ms", thousand * window->waited));
    if (isfinite(window->last_loss)) { // else the update was skipped
        LOG_ADD(record, log_real("step_loss", window->last_loss));
    }
    LOG_ADD(record, log_real("average_training_time_step",
                             window->seconds / (double)window->micro_batches));
    if (progress->step == loop_end(run->loop) || run->is_finished) {
        LOG_ADD(record, log_real("final_loss", progress->last_loss));
    }
}

// With several ranks: what this one exchanged since the last record, and how balanced the parts
// were.
static void add_exchanges(struct run *run, struct log_record *record) {
    struct comm *comm = run->loop->updater->engine->comm;
    const struct comm_stats now = comm->stats(comm), before = run->exchanged;
    const double exposed = now.exposed_seconds - before.exposed_seconds;
    const double hidden = now.busy_seconds - before.busy_seconds - exposed;
    if (comm->size == 1) {
        return;
    }
    LOG_ADD(record, log_real("comm_exposed_seconds", exposed),
            log_real("comm_hidden_seconds", fmax(0, hidden)),
            log_integer("comm_bytes", (int64_t)(now.bytes - before.bytes)),
            log_real("imbalance", run->window.imbalance / (double)run->window.updates));
    if (run->stragglers.slowest.rank >= 0) {
        LOG_ADD(record, log_integer("slowest_rank", run->stragglers.slowest.rank),
                log_real("slowest_ratio", run->stragglers.slowest.ratio));
    }
    run->exchanged = now;
}

static void report_step(struct run *run, const struct progress_losses *losses, double rate,
                        double grad_norm) {
    const struct training_loop *loop = run->loop;
    const struct window *window = &run->window;
    const double updates = (double)window->updates;
    const int64_t step = run->progress->step, own_step = loop_own_step(loop, step);
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("step", step), log_integer("total_steps", loop_end(loop)),
            log_real("epoch", loop_epoch(loop, step)),
            isnan(losses->all) ? log_text("no_loss", no_loss(window))
                               : log_real("loss", losses->all),
            log_real("learning_rate", rate), log_real("grad_norm", grad_norm),
            log_real("samples_per_second", (double)window->sequences / window->seconds),
            log_real("tokens_per_second", (double)window->tokens / window->seconds));
    add_masked(run, losses, &record);
    add_exchanges(run, &record);
    if (run->progress->phase_start > 0) {
        LOG_ADD(&record, log_integer("phase_step", own_step));
    }
    LOG_ADD(&record, log_real("average_samples_per_second", average_rate(run)),
            log_real("last_samples_per_second", window->last_rate), log_text("task", loop->task),
            log_integer("updates", window->updates),
            log_integer("sample_count", own_step * loop->batching->update_sequences),
            log_real("train_ema_loss", run->progress->ema_loss),
            log_real("model_flops", window->required_flops / window->seconds),
            log_integer("rss_bytes", (int64_t)machine_resident()));
    if (run->progress->loss_scale.kind != LOSS_SCALE_NONE) {
        LOG_ADD(&record, log_integer("skipped", run->progress->skipped),
                log_real("loss_scale", run->progress->loss_scale.scale));
    }
    if (loop->config->report.wall_clock_breakdown) {
        LOG_ADD(&record, log_real("forward_ms", thousand * window->forward / updates),
                log_real("backward_ms", thousand * window->backward / updates),
                log_real("step_ms", thousand * window->step / updates),
                log_real("micro_batches_per_update", (double)window->micro_batches / updates));
    }
    log_record(loop->log, BERTH_STEP, NULL, &record);
    run->window = (struct window){0};
}

// One field for each parameter that has a trust ratio.
static void report_values(const struct run *run, const double *coefficients,
                          struct berth_field *fields) {
    const struct updater *updater = run->loop->updater;
    const struct optimizer *optimizer = &updater->rules.optimizer;
    const struct param_table *table = updater->engine->state->table;
    size_t count = 0;
    fields[count++] = log_integer("step", run->progress->step);
    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->params[i].name;
        if (optimizer_scales(optimizer, name) && !optimizer_freezes(optimizer, name)) {
            fields[count++] = log_real(name, coefficients[i]);
        }
    }
    log_fields(run->loop->log, BERTH_VALUES, "lamb_coeffs", fields, count);
}

// Reports the trust ratios of a layer-wise optimizer in the last update.
static enum berth_status report_coefficients(const struct run *run, struct berth_error *error) {
    const struct updater *updater = run->loop->updater;
    const size_t count = updater->engine->state->table->count;
    if (updater->rules.optimizer.row->trust == TRUST_NONE) {
        return BERTH_OK;
    }
    struct lamb_stats *stats = memory_array(count, sizeof *stats);
    double *coefficients = memory_array(count, sizeof *coefficients);
    struct berth_field *fields = memory_array(count + 1, sizeof *fields);
    enum berth_status status = BERTH_OK;
    if (stats == NULL || coefficients == NULL || fields == NULL) {
        status = error_no_memory(error, count * sizeof *fields, "the coefficients");
    }
    status = comm_settle(updater->engine->comm, status, error);
    if (status == BERTH_OK) {
        optimizer_coefficients(&updater->plan, stats, coefficients);
        report_values(run, coefficients, fields);
    }
    memory_free(stats);
    memory_free(coefficients);
    memory_free(fields);
    return status;
}

enum berth_status loop_log_step(struct run *run, double rate, double grad_norm,
                                struct berth_error *error) {
    struct progress *progress = run->progress;
    struct progress_losses losses = {NAN, NAN};
    if (progress->loss_count > 0) {
        const double updates = (double)progress->loss_count;
        const int has_masked = head_of(run) == PARAM_HEAD_PRETRAINING;
        losses.all = progress->last_loss = progress->loss_sum / updates;
        losses.masked = progress->last_masked_loss =
            has_masked ? progress->masked_loss_sum / updates : NAN;
        // The moving average of the losses.
        double *ema = &run->progress->ema_loss;
        double loss = run->progress->last_loss, alpha = run->loop->config->report.loss_plot_alpha;
        *ema = isnan(*ema) ? loss : alpha * *ema + (1 - alpha) * loss;
    }
    progress->loss_sum = progress->masked_loss_sum = 0;
    progress->loss_count = 0;
    progress_add_step(progress, loop_epoch(run->loop, progress->step), &losses, rate, grad_norm);
    report_step(run, &losses, rate, grad_norm);
    return report_coefficients(run, error);
}

int loop_log_is_due(const struct training_loop *loop, int64_t step) {
    const struct settings *config = loop->config;
    const char *strategy = config->run.logging_strategy;
    const int64_t every = config->run.logging_steps > 0 ? config->run.logging_steps : 1;
    const int is_first = config->run.logging_first_step && loop_own_step(loop, step) == 1;
    return step == loop_end(loop) || is_first ||
           (strcmp(strategy, "steps") == 0 && loop_is_every(loop, step, every)) ||
           (strcmp(strategy, "epoch") == 0 && loop_ends_epoch(loop, step));
}

// --- notes ---------------------------------------------------------------------------------------

static const char *describe_event(enum loss_scale_event event, const struct loss_scale *scale) {
    if (event == SCALE_LOWERED) {
        return "it is lowered";
    }
    if (scale->kind == LOSS_SCALE_STATIC) {
        return "it is static";
    }
    return scale->kind == LOSS_SCALE_ZERO ? "hysteresis tolerates it" : "it is at min_loss_scale";
}

// The reporter formats this in DeepSpeed's words.
void loop_report_skip(const struct run *run, const struct loss_scale *before,
                      enum loss_scale_event event) {
    const struct loss_scale *now = &run->progress->loss_scale;
    char text[256];
    number_format(text, sizeof text,
                  "update %" PRId64
                  " skipped: the gradient overflows at loss scale %.10g; %s: %.10g",
                  run->progress->step, before->scale, describe_event(event, now), now->scale);
    LOG_RECORD(run->loop->log, BERTH_NOTE, text, log_integer("step", run->progress->step),
               log_integer("skipped", run->progress->skipped),
               log_real("attempted_loss_scale", before->scale), log_real("loss_scale", now->scale),
               log_integer("attempted_hysteresis", before->hysteresis_left),
               log_integer("hysteresis", now->hysteresis_left));
}

void loop_warn_of_no_loss(const struct run *run) {
    const int64_t updates = run->without_loss;
    if (updates > 0) {
        log_warning(run->loop->log,
                    "%" PRId64 " of %" PRId64 " updates had no word to predict, such as a masked "
                    "one: they have no loss and do not count in its means; use longer texts or "
                    "larger batches",
                    updates, run->result->updates);
    }
}
