// SPDX-License-Identifier: Apache-2.0
// Reads and writes trainer_state.json. A run writes it with every checkpoint; a resumed run reads
// it first into a copy, compares settings, data and classes with its own, and takes the copy over
// only if all of them fit. Weights and moments are left to train/checkpoint/.
#include "train/progress/progress.h"

#include "core/check.h"
#include "core/file.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/number.h"
#include "settings/settings.h"
#include "train/tasks/class_names.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_FORMAT 2
#define CHECKSUM_TEXT 17

const json *progress_own_keys(const json *state) {
    const json *callback = json_member(json_member(state, "stateful_callbacks"), "Berth");
    const json *own = json_member(callback, "attributes");
    return own != NULL ? own : state;
}

const json *progress_sizes(const json *state) {
    const json *own = progress_own_keys(state);
    return json_member(own, "train_batch_size") != NULL ? own : state;
}

// The progress of the same run when it has done nothing yet.
static struct progress progress_of(const struct progress *run, json *log) {
    return (struct progress){.jobs = run->jobs,
                             .rate_factor = run->rate_factor,
                             .feed = run->feed,
                             .files = run->files,
                             .last_loss = NAN,
                             .last_masked_loss = NAN,
                             .ema_loss = NAN,
                             .best = {.value = NAN},
                             .log = log};
}

enum berth_status progress_init(struct progress *progress, struct berth_error *error) {
    static const struct progress run = {.jobs = JOB_FINETUNE, .rate_factor = 1};
    *progress = progress_of(&run, json_new_array());
    return progress->log != NULL ? BERTH_OK : error_no_memory(error, 0, "the run's log");
}

void progress_done(struct progress *progress) {
    json_free(progress->log);
    *progress = (struct progress){0};
}

const char *progress_check(const struct progress *progress) {
    const int64_t phase = progress->step - progress->phase_start;
    CLAUSE(progress->jobs != 0, "the settings of at least one job are stored");
    CLAUSE(progress->phase_start >= 0 && phase >= 0, "a phase begins before its updates");
    CLAUSE(progress->skipped >= 0 && progress->skipped <= phase,
           "the skipped updates are some of the phase's");
    CLAUSE(progress->schedule_start >= 0 && progress->schedule_start <= phase - progress->skipped,
           "the schedule started at an update of the phase that was not skipped");
    CLAUSE(progress->moments_start >= 0 && progress->moments_start <= progress->step,
           "the moments start at an update of the run");
    CLAUSE(progress->data_shift >= 0, "data can only be left out");
    CLAUSE(progress->rate_factor > 0, "the factor of the learning rate is positive");
    CLAUSE(progress->loss_scale.kind == LOSS_SCALE_NONE || progress->loss_scale.scale > 0,
           "the loss scale is positive");
    CLAUSE(progress->loss_count >= 0 && progress->train_loss_count >= 0,
           "losses are counted, and their sums are of those counted");
    CLAUSE(progress->evaluations_without_gain >= 0, "evaluations are counted");
    return NULL;
}

int64_t progress_data_step(const struct progress *progress, const struct batching *batching,
                           int64_t updates) {
    return progress->data_shift > 0 ? (updates + progress->data_shift) % batching->total_steps
                                    : updates;
}

// --- entries ------------------------------------------------------------------------------------

// If memory for an entry runs out, the log becomes NULL, and writing the file fails.
static void add_entry(struct progress *progress, json *entry) {
    if (json_append(progress->log, entry) != 0) {
        json_free(progress->log);
        progress->log = NULL;
    }
}

void progress_add_step(struct progress *progress, double epoch,
                       const struct progress_losses *losses, double rate, double grad_norm) {
    const int has_parts = !isnan(losses->masked);
    add_entry(
        progress,
        JSON_OBJECT(
            {"step", json_new_integer(progress->step)}, {"epoch", json_new_real(epoch)},
            {isnan(losses->all) ? NULL : "loss", json_new_real(losses->all)},
            {has_parts ? "masked_lm_loss" : NULL, json_new_real(losses->masked)},
            {has_parts ? "next_sentence_loss" : NULL, json_new_real(losses->all - losses->masked)},
            {"learning_rate", json_new_real(rate)}, {"grad_norm", json_new_real(grad_norm)}));
}

static int has_evaluation(const struct progress *progress) {
    size_t length = json_length(progress->log);
    const json *last = length > 0 ? json_at(progress->log, length - 1) : NULL;
    struct json_walk walk = {.object = last};
    while (last != NULL && json_walk_next(&walk)) {
        if (strncmp(walk.key, "eval_", 5) == 0) {
            return json_as_integer(json_member(last, "step")) == progress->step;
        }
    }
    return 0;
}

int progress_is_comparable(const struct progress *progress, const struct best_metric *now) {
    const struct best_metric *best = &progress->best;
    const int same_metric =
        strcmp(best->name, now->name) == 0 && !best->lower_is_better == !now->lower_is_better;
    return isnan(best->value) || ((best->name[0] == '\0' || same_metric) &&
                                  (best->examples == 0 || best->examples == now->examples));
}

void progress_forget_best(struct progress *progress) {
    progress->best = (struct best_metric){.value = NAN};
    progress->evaluations_without_gain = 0;
}

static void compare_with_best(struct progress *progress, const struct best_metric *now) {
    const double value = now->value, best = progress->best.value;
    const int better =
        !isnan(value) && (isnan(best) || (now->lower_is_better ? value < best : value > best));
    const int gains = better && (isnan(best) || fabs(value - best) > now->threshold);
    progress->evaluations_without_gain = gains ? 0 : progress->evaluations_without_gain + 1;
    if (better) {
        progress->best = *now;
        progress->best_step = progress->step;
    }
}

void progress_add_evaluation(struct progress *progress, double epoch,
                             const struct task_score *score, const struct best_metric *best) {
    const int is_known = has_evaluation(progress);
    const int is_forgotten = best != NULL && isnan(progress->best.value) && !isnan(best->value);
    if (best != NULL && (!is_known || is_forgotten)) {
        compare_with_best(progress, best);
    }
    if (is_known) {
        return;
    }
    json *entry =
        JSON_OBJECT({"step", json_new_integer(progress->step)}, {"epoch", json_new_real(epoch)},
                    {isnan(score->loss) ? NULL : "eval_loss", json_new_real(score->loss)});
    int failed = 0;
    for (size_t i = 0; i < score->count; i++) {
        char key[64];
        snprintf(key, sizeof key, "eval_%s", score->items[i].name);
        failed |= json_set(entry, key, json_new_real(score->items[i].value));
    }
    add_entry(progress, json_unless_failed(entry, failed));
}

// --- writing ------------------------------------------------------------------------------------

static json *settings_of(const struct settings *config, unsigned jobs) {
    json *settings = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if ((row->jobs & jobs) == 0) {
            continue;
        }
        char text[4096];
        settings_print(config, row, text, sizeof text);
        failed |= json_set(settings, row->name, json_new_path(text));
    }
    return json_unless_failed(settings, failed);
}

// The Trainer's form of the path: it looks for this folder. null if the best model has no
// checkpoint there; that of the present step may not be published yet.
static json *best_checkpoint(const struct progress *progress, const struct run_settings *settings) {
    char folder[4096 + 64];
    const char *output = settings->output_dir != NULL ? settings->output_dir : ".";
    snprintf(folder, sizeof folder, "%.*s/checkpoint-%" PRId64, (int)path_length(output), output,
             progress->best_step);
    const int is_saved = !isnan(progress->best.value) && save_eval_has_checkpoints(settings) &&
                         (progress->best_step == progress->step || dir_exists(folder));
    return is_saved ? json_new_path(folder) : json_new_null();
}

static json *loss_scale_object(const struct loss_scale *scale) {
    return JSON_OBJECT({"scale", json_new_real(scale->scale)},
                       {"updates", json_new_integer(scale->updates)},
                       {"last_overflow", json_new_integer(scale->last_overflow)},
                       {"hysteresis_left", json_new_integer(scale->hysteresis_left)});
}

static json *spikes_object(const struct spikes *spikes) {
    return JSON_OBJECT(
        {"loss", json_new_real(spikes->loss)}, {"grad_norm", json_new_real(spikes->grad_norm)},
        {"updates", json_new_integer(spikes->updates)}, {"found", json_new_integer(spikes->found)});
}

// Keys that only pre-training has. 0 on success.
static int set_pretraining(json *own, const struct progress *progress,
                           const struct batching *batching) {
    if ((progress->jobs & JOB_PRETRAIN) == 0) {
        return 0;
    }
    int failed = json_set(own, "phase_start", json_new_integer(progress->phase_start));
    failed |= json_set(own, "masked_loss_sum", json_new_real(progress->masked_loss_sum));
    failed |= json_set(own, "last_masked_loss", json_new_real(progress->last_masked_loss));
    if (progress->feed != NULL && progress->feed->ops->record != NULL) {
        int64_t updates = progress->step - progress->phase_start;
        const int64_t step = progress_data_step(progress, batching, updates);
        failed |=
            json_set(own, "data", progress->feed->ops->record(progress->feed, batching, step));
    }
    return failed;
}

// The checksum is text, because JSON readers lose bits of large integers.
static void print_checksum(uint64_t checksum, char text[CHECKSUM_TEXT]) {
    snprintf(text, CHECKSUM_TEXT, "%016" PRIx64, checksum);
}

static json *checksum_text(uint64_t checksum) {
    char text[CHECKSUM_TEXT];
    print_checksum(checksum, text);
    return json_new_text(text);
}

// What the score of the best model is.
static json *best_object(const struct best_metric *best) {
    return JSON_OBJECT({"metric", json_new_text(best->name)},
                       {"lower_is_better", json_new_boolean(best->lower_is_better)},
                       {"examples_checksum", checksum_text(best->examples)});
}

// Berth's own keys. The Trainer accepts no unknown keys, but keeps those of callbacks.
static json *own_keys(const struct progress *progress, const struct settings *config,
                      const struct batching *batching) {
    const int64_t updates = progress->step - progress->phase_start;
    const int has_spikes = spike_policy_of(&config->run) != SPIKE_NONE;
    const int has_scale = loss_scale_is_dynamic(&progress->loss_scale);
    const uint64_t checksum = progress->feed != NULL ? progress->feed->checksum : 0;
    const int has_classes = progress->files != NULL && class_names_exist(progress->files);
    const int64_t in_epoch = batching->crosses_epochs ? 0 : updates % batching->updates_per_epoch;
    json *own = JSON_OBJECT(
        {"format_version", json_new_integer(HISTORY_FORMAT)},
        {"skipped_steps", json_new_integer(progress->skipped)},
        {"schedule_start", json_new_integer(progress->schedule_start)},
        {progress->rate_factor > 1 ? "rate_factor" : NULL, json_new_real(progress->rate_factor)},
        {progress->moments_start > 0 ? "moments_start" : NULL,
         json_new_integer(progress->moments_start)},
        {has_spikes ? "spikes" : NULL, spikes_object(&progress->spikes)},
        {progress->data_shift > 0 ? "data_shift" : NULL, json_new_integer(progress->data_shift)},
        {has_scale ? "loss_scale" : NULL, loss_scale_object(&progress->loss_scale)},
        {batching->crosses_epochs ? NULL : "update_in_epoch", json_new_integer(in_epoch)},
        {"updates_per_epoch", json_new_integer(batching->updates_per_epoch)},
        {"train_batch_size", json_new_integer(batching->update_sequences)},
        {"train_features", json_new_integer(batching->features)},
        {checksum != 0 ? "train_checksum" : NULL, checksum_text(checksum)},
        {has_classes ? "id2label" : NULL, has_classes ? class_names_json(progress->files) : NULL},
        {"loss_sum", json_new_real(progress->loss_sum)},
        {"loss_count", json_new_integer(progress->loss_count)},
        {"train_loss_sum", json_new_real(progress->train_loss_sum)},
        {"train_loss_count", json_new_integer(progress->train_loss_count)},
        {"last_loss", json_new_real(progress->last_loss)},
        {"ema_loss", json_new_real(progress->ema_loss)},
        {isnan(progress->best.value) ? NULL : "best", best_object(&progress->best)},
        {"early_stopping_patience_counter", json_new_integer(progress->evaluations_without_gain)},
        {"settings", settings_of(config, progress->jobs)});
    return json_unless_failed(own, set_pretraining(own, progress, batching));
}

// An interval in updates; the Trainer's default if there is none (INT64_MAX: only the best models
// are saved), because the Trainer divides by it.
static json *interval(int64_t steps) {
    return json_new_integer(steps > 0 && steps < INT64_MAX ? steps : TRAINER_STEPS);
}

// The Trainer's switches, which it needs to save after resuming.
static json *trainer_control(void) {
    json *switches = JSON_OBJECT(
        {"should_training_stop", json_new_boolean(0)}, {"should_epoch_stop", json_new_boolean(0)},
        {"should_save", json_new_boolean(0)}, {"should_evaluate", json_new_boolean(0)},
        {"should_log", json_new_boolean(0)});
    return JSON_OBJECT({"args", switches}, {"attributes", json_new_object()});
}

enum berth_status progress_write(const struct progress *progress, const struct settings *config,
                                 const struct batching *batching, const char *path,
                                 struct berth_error *error) {
    const int64_t updates = progress->step - progress->phase_start;
    json *best =
        isnan(progress->best.value) ? json_new_null() : json_new_integer(progress->best_step);
    json *berth = JSON_OBJECT({"attributes", own_keys(progress, config, batching)});
    json *callbacks = JSON_OBJECT({"Berth", berth}, {"TrainerControl", trainer_control()});
    json *state = JSON_OBJECT(
        {"global_step", json_new_integer(progress->step)},
        {"epoch", json_new_real(batching_epochs(batching, updates))},
        {"max_steps", json_new_integer(batching->total_steps)},
        {"num_train_epochs", json_new_real(config->engine.num_train_epochs)},
        // The Trainer counts the sequences of a process in a micro-batch.
        {"train_batch_size",
         json_new_integer(batching->micro.tokens == INT64_MAX ? batching->micro.sequences
                                                              : batching->update_sequences)},
        {"logging_steps", interval(config->run.logging_steps)},
        {"eval_steps", interval(config->run.eval_steps)},
        {"save_steps", interval(config->run.save_steps)},
        {"total_flos", json_new_real(progress->total_flos)},
        {"log_history", json_copy_deep(progress->log)},
        {"best_metric", json_new_real(progress->best.value)}, {"best_global_step", best},
        {"best_model_checkpoint", best_checkpoint(progress, &config->run)},
        {"stateful_callbacks", callbacks});
    enum berth_status status = json_write_file(state, JSON_INDENT_2_SORTED, path, error);
    json_free(state);
    return status;
}

// --- reading ------------------------------------------------------------------------------------

static enum berth_status check_number(const json *state, const char *path, const char *key,
                                      int64_t expected, struct berth_error *error) {
    int64_t found = -1;
    TRY(json_get_integer(state, path, key, &found, error));
    if (found != expected) {
        return error_set(error, BERTH_CONFIG,
                         "%s: %s was %" PRId64 " in the run to resume and is now %" PRId64
                         "; resume with the same data and settings or start over",
                         path, key, found, expected);
    }
    return BERTH_OK;
}

// The value for a message. Where the largest value is a job's default, it means no limit, and is
// shown as in --help.
static const char *value_shown(const struct option_row *row, const char *value) {
    for (size_t i = 0; i < sizeof row->job_defaults / sizeof *row->job_defaults; i++) {
        const struct option_default *own = &row->job_defaults[i];
        double number = 0;
        if (own->shown != NULL && own->value != NULL && strcmp(own->value, value) == 0 &&
            number_parse_real(value, &number) && number == row->maximum) {
            return own->shown;
        }
    }
    return value[0] != '\0' ? value : "unset";
}

// Earlier versions recorded the default itself, which tells nothing, or -1 for what is now "auto".
static int is_unresolved(const struct option_row *row, const char *then) {
    return (row->resolved && strcmp(then, row->default_value) == 0) ||
           (row->has_auto && strcmp(then, "-1") == 0);
}

static enum berth_status check_settings(const struct progress_source *source,
                                        struct berth_error *error) {
    const json *settings = json_member(progress_own_keys(source->state), "settings");
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        const char *then = json_text(json_member(settings, row->name));
        char now[4096];
        settings_print(source->config, row, now, sizeof now);
        if (then == NULL || strcmp(then, now) == 0 || row->resume == OPTION_FREE ||
            is_unresolved(row, then)) {
            continue;
        }
        if (row->resume == OPTION_KEPT) {
            return error_set(
                error, BERTH_CONFIG,
                "%s: the run to resume had %s %s, not %s; resume with the same value or start over",
                source->path, row->name, value_shown(row, then), value_shown(row, now));
        }
        log_note(source->log, "resume: %s was %s and is now %s", row->name, value_shown(row, then),
                 value_shown(row, now));
    }
    return BERTH_OK;
}

// The rates of both runs are their settings times these; files without one have it in the settings.
static void note_rate_factor(const struct progress *progress,
                             const struct progress_source *source) {
    const json *found = json_member(progress_own_keys(source->state), "rate_factor");
    const double then = json_is_number_value(found) ? json_as_real(found) : 1;
    char text[96];
    if (then != progress->rate_factor) {
        number_format(text, sizeof text,
                      "resume: lr_scaling multiplied learning_rate by %.10g and now by %.10g", then,
                      progress->rate_factor);
        log_note(source->log, "%s", text);
    }
}

static enum berth_status read_loss_scale(struct loss_scale *scale, const json *object,
                                         const char *path, struct berth_error *error) {
    TRY(json_get_real(object, path, "scale", &scale->scale, error));
    TRY(json_get_integer(object, path, "updates", &scale->updates, error));
    TRY(json_get_integer(object, path, "last_overflow", &scale->last_overflow, error));
    TRY(json_get_integer(object, path, "hysteresis_left", &scale->hysteresis_left, error));
    if (!(scale->scale > 0) || scale->updates < 0 || scale->last_overflow < -1 ||
        scale->last_overflow >= scale->updates) {
        return error_set(
            error, BERTH_BAD_DATA,
            "%s: key \"loss_scale\": expected a scale above 0 and a last overflow from "
            "-1 to below the number of updates, %" PRId64,
            path, scale->updates);
    }
    scale->restored = 1;
    return BERTH_OK;
}

static enum berth_status read_spikes(struct progress *progress, const json *own, const char *path,
                                     struct berth_error *error) {
    struct spikes *spikes = &progress->spikes;
    const json *object = json_member(own, "spikes");
    TRY(json_get_integer(own, path, "data_shift", &progress->data_shift, error));
    if (object != NULL) {
        TRY(json_get_real(object, path, "loss", &spikes->loss, error));
        TRY(json_get_real(object, path, "grad_norm", &spikes->grad_norm, error));
        TRY(json_get_integer(object, path, "updates", &spikes->updates, error));
        TRY(json_get_integer(object, path, "found", &spikes->found, error));
    }
    return progress->data_shift >= 0 && spikes->updates >= 0 && spikes->found >= 0 &&
                   spikes->loss >= 0 && spikes->grad_norm >= 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: keys \"data_shift\" and \"spikes\": expected no negative numbers",
                           path);
}

// A file written before these keys existed means 0.
static enum berth_status read_skipped(struct progress *progress, const json *own, const char *path,
                                      struct berth_error *error) {
    TRY(json_get_integer(own, path, "skipped_steps", &progress->skipped, error));
    TRY(json_get_integer(own, path, "schedule_start", &progress->schedule_start, error));
    TRY(json_get_integer(own, path, "phase_start", &progress->phase_start, error));
    TRY(json_get_integer(own, path, "moments_start", &progress->moments_start, error));
    int64_t applied = progress->step - progress->phase_start - progress->skipped;
    if (progress->skipped < 0 || progress->phase_start < 0 || applied < 0 ||
        progress->schedule_start < 0 || progress->schedule_start > applied ||
        progress->moments_start < 0 || progress->moments_start > progress->step) {
        return error_set(
            error, BERTH_BAD_DATA,
            "%s: keys \"skipped_steps\", \"phase_start\", \"moments_start\" and "
            "\"schedule_start\": expected numbers from 0 that fit global_step %" PRId64,
            path, progress->step);
    }
    const json *scale = json_member(own, "loss_scale");
    return scale != NULL ? read_loss_scale(&progress->loss_scale, scale, path, error) : BERTH_OK;
}

// null means that there is no loss.
static enum berth_status read_if_number(const json *state, const char *path, const char *key,
                                        double *value, struct berth_error *error) {
    return json_is_number_value(json_member(state, key))
               ? json_get_real(state, path, key, value, error)
               : BERTH_OK;
}

// A file written before "best" existed does not tell which metric it was.
static enum berth_status read_best(struct progress *progress, const struct progress_source *source,
                                   struct berth_error *error) {
    const json *state = source->state;
    const json *object = json_member(progress_own_keys(state), "best");
    struct best_metric *best = &progress->best;
    if (!json_is_number_value(json_member(state, "best_metric"))) {
        return BERTH_OK;
    }
    TRY(json_get_real(state, source->path, "best_metric", &best->value, error));
    TRY(json_get_integer(state, source->path, "best_global_step", &progress->best_step, error));
    const char *name = json_text(json_member(object, "metric"));
    const char *examples = json_text(json_member(object, "examples_checksum"));
    snprintf(best->name, sizeof best->name, "%s", name != NULL ? name : "");
    best->examples = examples != NULL ? strtoull(examples, NULL, 16) : 0;
    return json_get_boolean(object, source->path, "lower_is_better", &best->lower_is_better, error);
}

static enum berth_status read_numbers(struct progress *progress,
                                      const struct progress_source *source,
                                      struct berth_error *error) {
    const json *state = source->state, *own = progress_own_keys(source->state);
    const char *path = source->path;
    int64_t format = 0;
    TRY(json_get_integer(own, path, "format_version", &format, error));
    if (format < 1) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected the state of a run of Berth, found no \"format_version\"; "
                         "to start from the weights alone, name the folder with model_name_or_path",
                         path);
    }
    if (format > HISTORY_FORMAT) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: format_version %" PRId64
                         " is newer than this program (%s), which supports %d; use a newer program",
                         path, format, BERTH_VERSION, HISTORY_FORMAT);
    }
    progress->step = -1;
    TRY(json_get_integer(state, path, "global_step", &progress->step, error));
    if (progress->step < 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: key \"global_step\" is missing or negative",
                         path);
    }
    TRY(json_get_real(state, path, "total_flos", &progress->total_flos, error));
    TRY(read_skipped(progress, own, path, error));
    TRY(read_spikes(progress, own, path, error));
    TRY(json_get_real(own, path, "loss_sum", &progress->loss_sum, error));
    TRY(json_get_real(own, path, "masked_loss_sum", &progress->masked_loss_sum, error));
    TRY(json_get_integer(own, path, "loss_count", &progress->loss_count, error));
    TRY(json_get_real(own, path, "train_loss_sum", &progress->train_loss_sum, error));
    TRY(json_get_integer(own, path, "train_loss_count", &progress->train_loss_count, error));
    TRY(read_if_number(own, path, "last_loss", &progress->last_loss, error));
    TRY(read_if_number(own, path, "last_masked_loss", &progress->last_masked_loss, error));
    TRY(read_if_number(own, path, "ema_loss", &progress->ema_loss, error));
    TRY(read_best(progress, source, error));
    TRY(json_get_integer(own, path, "early_stopping_patience_counter",
                         &progress->evaluations_without_gain, error));
    return BERTH_OK;
}

// Whether a flag was set in the run to resume.
static int was_set(const struct progress_source *source, const char *flag) {
    const char *then =
        json_text(json_member(json_member(progress_own_keys(source->state), "settings"), flag));
    return then != NULL && strcmp(then, "true") == 0;
}

// Settings and data must be the same as at the start of the run.
static enum berth_status check_same_run(struct progress *found,
                                        const struct progress_source *source,
                                        struct berth_error *error) {
    const json *state = source->state, *own = progress_own_keys(state);
    const char *path = source->path;
    const struct batching *batching = source->batching;
    TRY(check_number(progress_sizes(state), path, "train_batch_size", batching->update_sequences,
                     error));
    TRY(check_settings(source, error));
    if (found->files != NULL) {
        TRY(class_names_check(found->files, own, path, error));
    }
    if (found->feed != NULL && found->feed->ops->record != NULL) {
        const struct feed_record record = {json_member(own, "data"), path, source->log};
        const int64_t step = progress_data_step(found, batching, found->step - found->phase_start);
        TRY(found->feed->ops->restore(found->feed, batching, step, &record, error));
    }
    // After the checks that say why it has changed.
    TRY(check_number(own, path, "train_features", batching->features, error));
    // The data may have changed, as some settings for making it may change, too.
    const char *then = json_text(json_member(own, "train_checksum"));
    char now[CHECKSUM_TEXT];
    if (then != NULL && found->feed != NULL && found->feed->checksum != 0) {
        print_checksum(found->feed->checksum, now);
        if (strcmp(then, now) != 0) {
            log_warning(
                source->log,
                "resume: the training examples have changed since %s was written: their number "
                "is the same, but not their texts, labels or order",
                source->path);
        }
    }
    // If the run restarted its schedule and is itself resumed, that schedule continues.
    if (source->config->optimizer.rewarmup && !was_set(source, "rewarmup")) {
        found->schedule_start = found->step - found->phase_start - found->skipped;
    }
    return BERTH_OK;
}

static enum berth_status check_phase(const struct progress *found,
                                     const struct progress_source *source,
                                     struct berth_error *error) {
    const struct settings *config = source->config;
    const char *path = source->path;
    const int in_second = was_set(source, "phase2");
    int64_t first = in_second ? found->phase_start : found->step;
    if (!config->run.phase2 && in_second) {
        return error_set(error, BERTH_CONFIG,
                         "%s: the run to resume is in its second phase; add phase2", path);
    }
    if (config->run.phase2 && config->run.phase1_end_step > 0 &&
        config->run.phase1_end_step != first) {
        return error_set(error, BERTH_CONFIG,
                         "%s: phase1_end_step is %" PRId64
                         ", but the first phase ended with update %" PRId64
                         "; omit the option or name another checkpoint",
                         path, config->run.phase1_end_step, first);
    }
    return BERTH_OK;
}

// Keeps step, FLOPs and log; everything else starts from zero.
static void begin_phase(struct progress *progress) {
    const int64_t step = progress->step;
    const double total_flos = progress->total_flos;
    *progress = progress_of(progress, progress->log);
    progress->step = progress->phase_start = step;
    progress->total_flos = total_flos;
}

enum berth_status progress_restore(struct progress *progress, const struct progress_source *source,
                                   struct berth_error *error) {
    struct progress found = progress_of(progress, NULL);
    TRY(read_numbers(&found, source, error));
    TRY(check_phase(&found, source, error));
    note_rate_factor(progress, source);
    if (source->config->run.phase2 && !was_set(source, "phase2")) {
        begin_phase(&found);
        log_note(source->log, "second phase, after %" PRId64 " updates of the first", found.step);
    } else {
        TRY(check_same_run(&found, source, error));
    }
    const json *entries = json_member(source->state, "log_history");
    if (!json_is_array_value(entries)) {
        return error_set(error, BERTH_BAD_DATA, "%s: key \"log_history\": expected an array",
                         source->path);
    }
    found.log = json_copy_deep(entries);
    if (found.log == NULL) {
        return error_no_memory(error, 0, "the run's log");
    }
    json_free(progress->log);
    *progress = found;
    return BERTH_OK;
}

enum berth_status progress_follows(const struct progress *progress, const char *path, int *follows,
                                   struct berth_error *error) {
    json *state;
    struct berth_error own;
    const enum berth_status status = json_read_file(path, &state, &own);
    *follows = 0;
    if (status != BERTH_OK) {
        return file_probe(status, &own, error);
    }
    const json *entries = json_member(state, "log_history");
    const size_t count = json_is_array_value(entries) ? json_length(entries) : SIZE_MAX;
    *follows = count <= json_length(progress->log);
    for (size_t i = 0; i < count && *follows; i++) {
        // Whatever the order of their members: that of a file is another.
        const json *a = json_at(entries, i);
        const json *b = json_at(progress->log, i);
        char *texts[] = {json_write(a, JSON_INDENT_2_SORTED), json_write(b, JSON_INDENT_2_SORTED)};
        const int same = texts[0] != NULL && texts[1] != NULL && strcmp(texts[0], texts[1]) == 0;
        memory_free(texts[0]);
        memory_free(texts[1]);
        *follows = same;
    }
    json_free(state);
    return BERTH_OK;
}

enum berth_status progress_read(struct progress *progress, const struct settings *config,
                                const struct batching *batching, const struct berth_log *log,
                                const char *path, struct berth_error *error) {
    json *state;
    TRY(json_read_file(path, &state, error));
    const struct progress_source source = {state, path, config, batching, log};
    const enum berth_status status = progress_restore(progress, &source, error);
    json_free(state);
    return status;
}
