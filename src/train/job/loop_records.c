// SPDX-License-Identifier: Apache-2.0
// What a training loop counts and reports about its updates.
#include "core/memory.h"
#include "train/job/loop_run.h"
#include "train/machine/machine.h"

#include <math.h>
#include <string.h>

// Only for shards, which were not read before training; for other sets the plan has the lengths.
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

void loop_report_lengths(const struct run *run, int is_end) {
    const int64_t updates = run->result->updates;
    const struct shard_list *shards = run->loop->feed->shards;
    if (shards != NULL && updates > 0 && (is_end || (updates & (updates - 1)) == 0)) {
        lengths_log(&run->lengths, shards->length, run->loop->log);
    }
}

void loop_count_update(struct run *run, const struct update_result *update,
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
    window->required_flops += update->required_flops;
    run->progress->total_flos += update->total_flops;
    struct training_result *result = run->result;
    result->updates++;
    result->sequences += (int64_t)(data->count + data->others);
    result->waited_seconds += data->waited;
    result->tokens += update->tokens;
    result->seconds += seconds;
    result->required_flops += update->required_flops;
    result->forward_seconds += update->forward_seconds;
    result->backward_seconds += update->backward_seconds;
    result->step_seconds += update->step_seconds;
    loop_report_lengths(run, 0);
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
    if (progress->step == loop_end(run->loop)) {
        fields[count++] = log_real("final_loss", progress->last_loss);
    }
    return count;
}

// With several ranks: what this one exchanged since the last record, and how balanced the parts
// were.
static size_t add_exchanges(struct run *run, struct berth_field *fields, size_t count) {
    struct comm *comm = run->loop->updater->engine->comm;
    const struct comm_stats now = comm->stats(comm), before = run->exchanged;
    const double exposed = now.exposed_seconds - before.exposed_seconds;
    if (comm->size == 1) {
        return count;
    }
    fields[count++] = log_real("comm_exposed_seconds", exposed);
    fields[count++] =
        log_real("comm_hidden_seconds", fmax(0, now.busy_seconds - before.busy_seconds - exposed));
    fields[count++] = log_integer("comm_bytes", (int64_t)(now.bytes - before.bytes));
    fields[count++] = log_real("imbalance", run->window.imbalance / (double)run->window.updates);
    if (run->stragglers.slowest.rank >= 0) {
        fields[count++] = log_integer("slowest_rank", run->stragglers.slowest.rank);
        fields[count++] = log_real("slowest_ratio", run->stragglers.slowest.ratio);
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
        log_integer("total_steps", loop_end(loop)),
        log_real("epoch", loop_epoch(loop, run->progress->step)),
        log_real("loss", run->progress->last_loss),
        log_real("learning_rate", learning_rate),
        log_real("grad_norm", grad_norm),
        log_real("samples_per_second", (double)window->sequences / window->seconds),
        log_real("tokens_per_second", (double)window->tokens / window->seconds),
    };
    size_t count = add_exchanges(run, fields, add_masked(run, fields, 8));
    fields[count++] = log_text("task", loop->task);
    fields[count++] = log_integer("updates", window->updates);
    fields[count++] = log_integer("sample_count", loop_own_step(loop, run->progress->step) *
                                                      loop->batching->update_sequences);
    fields[count++] = log_real("train_ema_loss", run->progress->ema_loss);
    fields[count++] = log_real("model_flops", window->required_flops / window->seconds);
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
    log_fields(run->loop->log, BERTH_RECORD_VALUES, "lamb_coeffs", fields, count);
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

// The moving average of the losses.
static void update_ema(struct run *run) {
    double *ema = &run->progress->ema_loss;
    double loss = run->progress->last_loss, alpha = run->loop->config->loss_plot_alpha;
    *ema = isnan(*ema) ? loss : alpha * *ema + (1 - alpha) * loss;
}

static int predicts_masked(const struct run *run) {
    return run->loop->updater->engine->model.table->head == PARAM_HEAD_PRETRAINING;
}

enum berth_status loop_log_step(struct run *run, double learning_rate, double grad_norm,
                                struct berth_error *error) {
    struct progress *progress = run->progress;
    if (progress->loss_count > 0) { // otherwise all updates were skipped
        double updates = (double)progress->loss_count;
        progress->last_loss = progress->loss_sum / updates;
        progress->last_masked_loss =
            predicts_masked(run) ? progress->masked_loss_sum / updates : NAN;
        update_ema(run);
    }
    progress->loss_sum = progress->masked_loss_sum = 0;
    progress->loss_count = 0;
    progress_add_step(progress, loop_epoch(run->loop, progress->step), progress->last_loss,
                      learning_rate, grad_norm);
    report_step(run, learning_rate, grad_norm);
    return report_coefficients(run, error);
}

int loop_log_is_due(const struct training_loop *loop, int64_t step) {
    const struct berth_config *config = loop->config;
    const char *strategy = config->logging_strategy;
    const int64_t every = config->logging_steps > 0 ? config->logging_steps : 1;
    const int is_first = config->logging_first_step && loop_own_step(loop, step) == 1;
    return step == loop_end(loop) || is_first ||
           (strcmp(strategy, "steps") == 0 && loop_is_every(loop, step, every)) ||
           (strcmp(strategy, "epoch") == 0 && loop_ends_epoch(loop, step));
}
