// SPDX-License-Identifier: Apache-2.0
// Turns the Trainer's eval_strategy and save_strategy into the intervals that the training loop
// tests (evaluate_every_epoch, eval_steps, save_steps), before data and model are read, and
// fractions of the run into numbers of updates once its length is known. The loop asks
// train/progress/save_eval.c what a checkpoint is kept for.
#include "train/job/job_save_eval.h"

#include "train/progress/save_eval.h"

#include <math.h>
#include <string.h>

static int is(const char *strategy, const char *name) {
    return strategy != NULL && strcmp(strategy, name) == 0;
}

static void settle_evaluations(struct settings *config) {
    struct run_settings *run = &config->run;
    if (run->eval_strategy == NULL) {
        return;
    }
    run->evaluate_every_epoch = is(run->eval_strategy, "epoch");
    if (!is(run->eval_strategy, "steps")) {
        run->eval_steps = 0;
    } else if (run->eval_steps == 0) {
        run->eval_steps =
            settings_is_chosen(config, "logging_steps") ? run->logging_steps : TRAINER_STEPS;
    }
}

// The setting that is meaningless without evaluations, or NULL.
static const char *needs_evaluations(const struct run_settings *settings) {
    return settings->load_best_model_at_end        ? "load_best_model_at_end"
           : settings->early_stopping_patience > 0 ? "early_stopping_patience"
           : is(settings->save_strategy, "best")   ? "save_strategy best"
                                                   : NULL;
}

enum berth_status save_eval_resolve(struct settings *config, const struct berth_log *log,
                                    struct berth_error *error) {
    settle_evaluations(config);
    struct run_settings *run = &config->run;
    if (is(run->save_strategy, "steps")) {
        run->save_steps = run->save_steps != 0 ? run->save_steps : TRAINER_STEPS;
    } else if (run->save_strategy != NULL) {
        run->save_steps = is(run->save_strategy, "best") ? INT64_MAX : 0;
    }
    if (config->run.steps_this_run == 0) {
        log_note(log, "steps_this_run 0 has no effect: the run stops at max_steps");
    }
    if (config->run.skip_checkpoint && config->run.steps_this_run > 0) {
        log_note(log, "steps_this_run saves no checkpoint with skip_checkpoint, so this run cannot "
                      "be continued");
    }
    if (!save_eval_has_checkpoints(&config->run) && config->run.load_best_model_at_end) {
        return error_set(error, BERTH_CONFIG, "load_best_model_at_end needs checkpoints: omit %s",
                         is(config->run.save_strategy, "no") ? "save_strategy no"
                                                             : "skip_checkpoint");
    }
    // A single evaluation at the end has nothing to compare with.
    const char *needing = needs_evaluations(&config->run);
    if (needing != NULL && !config->run.evaluate_every_epoch && config->run.eval_steps == 0) {
        TRY(error_set(error, BERTH_CONFIG, "%s needs evaluations before the end: %s", needing,
                      is(config->run.eval_strategy, "no")
                          ? "omit eval_strategy no"
                          : "set eval_steps or evaluate_every_epoch true"));
    }
    if (config->run.early_stopping_patience > 0 && !config->run.load_best_model_at_end) {
        log_note(log, "early_stopping_patience: the result is the last model, not the best; set "
                      "load_best_model_at_end for the best");
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

void save_eval_resolve_ratios(struct settings *config, int64_t updates,
                              const struct berth_log *log) {
    resolve_ratio(&config->run.logging_steps, updates);
    resolve_ratio(&config->run.eval_steps, updates);
    resolve_ratio(&config->run.save_steps, updates);
    // The Trainer refuses this combination.
    const int64_t evaluations = config->run.eval_steps, saves = config->run.save_steps;
    const int at_steps = evaluations > 0 && (saves <= 0 || saves % evaluations != 0);
    const int at_epochs = config->run.evaluate_every_epoch && saves != 0;
    if (config->run.load_best_model_at_end && !is(config->run.save_strategy, "best") &&
        (at_steps || at_epochs)) {
        log_note(log, "load_best_model_at_end: not every evaluation has a checkpoint of its own; a "
                      "new best model is saved as soon as it is found");
    }
}

enum berth_status save_eval_check_unevaluated(const struct settings *config, int predicts,
                                              const char *where, const struct berth_log *log,
                                              struct berth_error *error) {
    // The last two choose what is predicted.
    static const char *const requests[] = {
        "eval_strategy",   "evaluate_every_epoch",  "eval_steps",        "eval_delay",
        "eval_on_start",   "metric_for_best_model", "greater_is_better", "do_eval",
        "max_eval_samples"};
    const size_t count = sizeof requests / sizeof requests[0] - (predicts ? 2 : 0);
    const char *needing = needs_evaluations(&config->run);
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
