// SPDX-License-Identifier: Apache-2.0
// Answers what the settings say about checkpoints and the best model: the score by which models are
// compared, whether a run has checkpoints at all, and the interval of save_steps auto. The training
// loop asks; job_save_eval.c has checked the settings before.
#include "train/progress/save_eval.h"

#include "core/text_util.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int is(const char *strategy, const char *name) {
    return strategy != NULL && strcmp(strategy, name) == 0;
}

// --- when to evaluate and save -------------------------------------------------------------------

int save_eval_has_checkpoints(const struct run_settings *settings) {
    return !settings->skip_checkpoint && !is(settings->save_strategy, "no");
}

double save_eval_interval(double saving, double mean_time_to_failure) {
    return sqrt(2 * saving * mean_time_to_failure);
}

// --- which model is best -------------------------------------------------------------------------

int save_eval_keeps_best(const struct run_settings *settings) {
    return save_eval_has_checkpoints(settings) &&
           (settings->load_best_model_at_end || is(settings->save_strategy, "best"));
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

enum berth_status save_eval_best_metric(const struct run_settings *settings,
                                        const struct task_score *score, struct best_metric *best,
                                        struct berth_error *error) {
    const char *name = settings->metric_for_best_model;
    if (name == NULL && settings->load_best_model_at_end && !isnan(score->loss)) {
        name = "loss"; // as in the Trainer
    }
    *best = (struct best_metric){.threshold = settings->early_stopping_threshold};
    if (name != NULL) {
        TRY(find_metric(name, score, best, error));
    } else {
        const struct berth_metric *item = &score->items[score->best_by];
        snprintf(best->name, sizeof best->name, "%s", item->name);
        best->value = item->value;
        best->lower_is_better = score->lower_is_better;
    }
    if (settings->greater_is_better >= 0) {
        best->lower_is_better = !settings->greater_is_better;
    }
    return BERTH_OK;
}
