// SPDX-License-Identifier: Apache-2.0
#include "train/progress/strategy.h"

#include "core/words.h"
#include "settings/settings.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int is(const char *strategy, const char *name) {
    return strategy != NULL && strcmp(strategy, name) == 0;
}

// --- when to evaluate and save -------------------------------------------------------------------

static void note_unused(const struct settings *config, const char *name, const char *strategy,
                        const struct berth_log *log) {
    if (settings_is_given(config, name)) {
        log_note(log, "%s has no effect with %s", name, strategy);
    }
}

static void settle_evaluations(struct settings *config, const struct berth_log *log) {
    const char *strategy = config->run.eval_strategy;
    if (strategy == NULL) {
        return;
    }
    char text[64];
    snprintf(text, sizeof text, "eval_strategy %s", strategy);
    note_unused(config, "evaluate_every_epoch", text, log);
    config->run.evaluate_every_epoch = is(strategy, "epoch");
    if (!is(strategy, "steps")) {
        note_unused(config, "eval_steps", text, log);
        config->run.eval_steps = 0;
    } else if (config->run.eval_steps == 0) {
        config->run.eval_steps =
            settings_is_chosen(config, "logging_steps") ? config->run.logging_steps : TRAINER_STEPS;
    }
}

// The evaluation at the end is never delayed.
static void note_unused_delay(const struct settings *config, const struct berth_log *log) {
    if (!config->run.evaluate_every_epoch && config->run.eval_steps == 0) {
        note_unused(config, "eval_delay",
                    is(config->run.eval_strategy, "no") ? "eval_strategy no"
                                                        : "evaluate_every_epoch false",
                    log);
    }
}

// The interval of reports may also be that of evaluations.
static void settle_reports(struct settings *config, const struct berth_log *log) {
    if (config->run.logging_strategy == NULL) {
        config->run.logging_strategy = "steps";
    }
    if (!is(config->run.logging_strategy, "steps") && !is(config->run.eval_strategy, "steps")) {
        char text[64];
        snprintf(text, sizeof text, "logging_strategy %s", config->run.logging_strategy);
        note_unused(config, "logging_steps", text, log);
    }
}

static void settle_checkpoints(struct settings *config, const struct berth_log *log) {
    const char *strategy = config->run.save_strategy;
    if (strategy == NULL) {
        return;
    }
    char text[64];
    snprintf(text, sizeof text, "save_strategy %s", strategy);
    if (is(strategy, "steps")) {
        config->run.save_steps =
            config->run.save_steps != 0 ? config->run.save_steps : TRAINER_STEPS;
        return;
    }
    note_unused(config, "save_steps", text, log);
    config->run.save_steps = is(strategy, "best") ? INT64_MAX : 0;
}

int strategy_has_checkpoints(const struct settings *config) {
    return !config->run.skip_checkpoint && !is(config->run.save_strategy, "no");
}

// The setting that is meaningless without evaluations, or NULL.
static const char *needs_evaluations(const struct settings *config) {
    return config->run.load_best_model_at_end        ? "load_best_model_at_end"
           : config->run.early_stopping_patience > 0 ? "early_stopping_patience"
           : is(config->run.save_strategy, "best")   ? "save_strategy best"
                                                     : NULL;
}

// A single evaluation at the end has nothing to compare with.
static enum berth_status check_evaluations(const struct settings *config,
                                           struct berth_error *error) {
    const char *needing = needs_evaluations(config);
    if (needing == NULL || config->run.evaluate_every_epoch || config->run.eval_steps != 0) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG, "%s needs evaluations before the end: %s", needing,
                     is(config->run.eval_strategy, "no")
                         ? "omit eval_strategy no"
                         : "set eval_steps or evaluate_every_epoch true");
}

// Notes a combination that the Trainer refuses.
static void note_separate_saves(const struct settings *config, const struct berth_log *log) {
    const int64_t evaluations = config->run.eval_steps, saves = config->run.save_steps;
    const int at_steps = evaluations > 0 && (saves <= 0 || saves % evaluations != 0);
    const int at_epochs = config->run.evaluate_every_epoch && saves != 0;
    if (config->run.load_best_model_at_end && !is(config->run.save_strategy, "best") &&
        (at_steps || at_epochs)) {
        log_note(log, "load_best_model_at_end: not every evaluation has a checkpoint of its own; a "
                      "new best model is saved as soon as it is found");
    }
}

static void note_unused_failures(const struct settings *config, const struct berth_log *log) {
    const char *instead = config->run.skip_checkpoint         ? "skip_checkpoint true"
                          : !strategy_has_checkpoints(config) ? "save_strategy no"
                          : config->run.save_steps != OPTION_AUTO
                              ? "a fixed interval of checkpoints"
                              : NULL;
    if (instead != NULL) {
        note_unused(config, "mean_time_to_failure", instead, log);
    }
}

enum berth_status strategy_settle(struct settings *config, const struct berth_log *log,
                                  struct berth_error *error) {
    settle_reports(config, log);
    settle_evaluations(config, log);
    note_unused_delay(config, log);
    settle_checkpoints(config, log);
    note_unused_failures(config, log);
    if (config->run.steps_this_run == 0) {
        log_note(log, "steps_this_run 0 has no effect: the run stops at max_steps");
    }
    if (config->run.skip_checkpoint && config->run.steps_this_run > 0) {
        log_note(log, "steps_this_run saves nothing with skip_checkpoint: the run cannot go on");
    }
    if (!strategy_has_checkpoints(config) && config->run.load_best_model_at_end) {
        return error_set(error, BERTH_CONFIG, "load_best_model_at_end needs checkpoints: omit %s",
                         is(config->run.save_strategy, "no") ? "save_strategy no"
                                                             : "skip_checkpoint");
    }
    TRY(check_evaluations(config, error));
    if (config->run.early_stopping_patience == 0) {
        note_unused(config, "early_stopping_threshold", "early_stopping_patience 0", log);
    } else if (!config->run.load_best_model_at_end) {
        log_note(log, "early_stopping_patience: the result is the model at which the run stops; "
                      "load_best_model_at_end uses the best one");
    }
    return BERTH_OK;
}

static void resolve_ratio(int64_t *steps, int64_t updates) {
    const double ratio = option_fraction(*steps);
    if (ratio > 0) {
        const double every = ceil(ratio * (double)updates); // the Trainer rounds up
        *steps = every > 1 ? (int64_t)every : 1;
    }
}

void strategy_resolve_ratios(struct settings *config, int64_t updates,
                             const struct berth_log *log) {
    resolve_ratio(&config->run.logging_steps, updates);
    resolve_ratio(&config->run.eval_steps, updates);
    resolve_ratio(&config->run.save_steps, updates);
    note_separate_saves(config, log);
}

enum berth_status strategy_check_unevaluated(const struct settings *config, int predicts,
                                             const char *where, const struct berth_log *log,
                                             struct berth_error *error) {
    // The last two choose what is predicted.
    static const char *const requests[] = {
        "eval_strategy",   "evaluate_every_epoch",  "eval_steps",        "eval_delay",
        "eval_on_start",   "metric_for_best_model", "greater_is_better", "do_eval",
        "max_eval_samples"};
    const size_t count = sizeof requests / sizeof requests[0] - (predicts ? 2 : 0);
    const char *needing = needs_evaluations(config);
    if (needing != NULL) {
        return error_set(error, BERTH_CONFIG,
                         "%s needs evaluations, and there is nothing to "
                         "evaluate on: %s",
                         needing, where);
    }
    for (size_t i = 0; i < count; i++) {
        const int declined = strcmp(requests[i], "do_eval") == 0 && !config->run.do_eval;
        if (settings_is_given(config, requests[i]) && !declined) {
            log_warning(log, "%s has no effect, because there is nothing to evaluate on: %s",
                        requests[i], where);
        }
    }
    return BERTH_OK;
}

double strategy_save_interval(double saving, double mean_time_to_failure) {
    return sqrt(2 * saving * mean_time_to_failure);
}

// --- which model is best -------------------------------------------------------------------------

int strategy_keeps_best(const struct settings *config) {
    return strategy_has_checkpoints(config) &&
           (config->run.load_best_model_at_end || is(config->run.save_strategy, "best"));
}

static enum berth_status unknown_metric(const char *name, const struct task_score *score,
                                        struct berth_error *error) {
    char known[512] = "";
    for (size_t i = 0; i < score->count; i++) {
        words_add(known, sizeof known, score->items[i].name);
    }
    if (!isnan(score->loss)) {
        words_add(known, sizeof known, "loss");
    }
    return error_set(error, BERTH_CONFIG,
                     "metric_for_best_model %s: the evaluation has no such score; it has %s", name,
                     known);
}

static enum berth_status find_metric(const char *name, const struct task_score *score,
                                     struct best_metric *best, struct berth_error *error) {
    const char *plain = strncmp(name, "eval_", 5) == 0 ? name + 5 : name;
    best->lower_is_better = text_ends_with(plain, "loss") || strcmp(plain, "mse") == 0 ||
                            strcmp(plain, "perplexity") == 0;
    snprintf(best->name, sizeof best->name, "%s", plain);
    if (strcmp(plain, "loss") == 0 && !isnan(score->loss)) {
        best->value = score->loss;
        return BERTH_OK;
    }
    for (size_t i = 0; i < score->count; i++) {
        if (strcmp(score->items[i].name, plain) == 0) {
            best->value = score->items[i].value;
            return BERTH_OK;
        }
    }
    return unknown_metric(name, score, error);
}

enum berth_status strategy_best_metric(const struct settings *config,
                                       const struct task_score *score, struct best_metric *best,
                                       struct berth_error *error) {
    const char *name = config->run.metric_for_best_model;
    if (name == NULL && config->run.load_best_model_at_end && !isnan(score->loss)) {
        name = "loss"; // as in the Trainer
    }
    *best = (struct best_metric){.threshold = config->run.early_stopping_threshold};
    if (name != NULL) {
        TRY(find_metric(name, score, best, error));
    } else {
        const struct berth_metric *item = &score->items[score->best_by];
        snprintf(best->name, sizeof best->name, "%s", item->name);
        best->value = item->value;
        best->lower_is_better = score->lower_is_better;
    }
    if (config->run.greater_is_better >= 0) {
        best->lower_is_better = !config->run.greater_is_better;
    }
    return BERTH_OK;
}
