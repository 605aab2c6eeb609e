// SPDX-License-Identifier: Apache-2.0
// Tests when to evaluate and save, which model is the best, and when to stop early, against
// transformers' Trainer and its callback (best_model.golden.h), and the meaning of each setting.
#include "best_model.golden.h"
#include "core/harness.h"
#include "settings/effects.h"
#include "settings/settings.h"
#include "train/job/job_save_eval.h"
#include "train/progress/progress.h"
#include "train/progress/save_eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static char notes[2048];

static void collect(void *context, const struct berth_record *record) {
    size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", record->text);
}

static const struct berth_log log_to_notes = {.write = collect};

static struct settings with(const char *const settings[]) {
    struct settings config;
    settings_init(&config);
    for (; settings[0] != NULL; settings += 2) {
        assert_int_equal(settings_set_row(&config, option_find(settings[0]), settings[1], NULL),
                         BERTH_OK);
    }
    notes[0] = '\0';
    return config;
}
#define WITH(...) with((const char *const[]){__VA_ARGS__, NULL})

static struct settings settled(struct settings config) {
    const struct settings given = config;
    struct berth_error error = {0};
    if (save_eval_resolve(&config, &log_to_notes, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    settings_note_effects(&given, &config, JOB_TRAIN, 1, &log_to_notes);
    return config;
}

// --- when ---------------------------------------------------------------------------------------

static void test_when_to_evaluate(void **state) {
    struct settings config = settled(WITH("eval_strategy", "no"));
    assert_true(!config.run.evaluate_every_epoch && config.run.eval_steps == 0);
    config = settled(WITH("evaluation_strategy", "steps", "logging_steps", "7"));
    assert_true(!config.run.evaluate_every_epoch && config.run.eval_steps == 7);
    config = settled(WITH("eval_strategy", "steps"));
    assert_true(!config.run.evaluate_every_epoch && config.run.eval_steps == 500); // the Trainer's
    config = settled(WITH("eval_strategy", "steps", "eval_steps", "3"));
    assert_true(!config.run.evaluate_every_epoch && config.run.eval_steps == 3);
    config = settled(WITH("eval_strategy", "epoch", "eval_steps", "3", "no_progress", "true"));
    assert_true(config.run.evaluate_every_epoch && config.run.eval_steps == 0);
    assert_non_null(strstr(notes, "eval_steps has no effect with eval_strategy epoch"));
    config = settled(WITH("eval_steps", "3", "eval_delay", "2")); // without a strategy, both
    assert_true(config.run.evaluate_every_epoch && config.run.eval_steps == 3);
    assert_null(strstr(notes, "eval_delay"));
    settled(WITH("eval_strategy", "no", "eval_delay", "2"));
    assert_non_null(strstr(notes, "eval_delay has no effect without evaluate_every_epoch"));
    settled(WITH("evaluate_every_epoch", "false", "eval_delay", "2"));
    assert_non_null(strstr(notes, "eval_delay has no effect without evaluate_every_epoch"));
}

// Fractions of the updates, rounded up as the Trainer rounds them.
static void test_fractions_of_the_updates(void **state) {
    struct settings config =
        settled(WITH("eval_strategy", "steps", "eval_steps", "0.07", "save_steps", "0.32",
                     "logging_steps", "0.001", "load_best_model_at_end", "true"));
    save_eval_resolve_ratios(&config, 100, &log_to_notes);
    assert_int_equal(config.run.eval_steps,
                     8); // ceil(100 * 0.07), which is above 7 in floating point
    assert_int_equal(config.run.save_steps, 32);
    assert_int_equal(config.run.logging_steps, 1);
    assert_null(strstr(notes, "not every evaluation has a checkpoint"));
    config = settled(WITH("eval_strategy", "steps", "logging_steps", "0.5"));
    save_eval_resolve_ratios(&config, 7, &log_to_notes);
    assert_int_equal(config.run.eval_steps, 4);
    config = settled(WITH("eval_steps", "6", "save_steps", "auto"));
    save_eval_resolve_ratios(&config, 7, &log_to_notes);
    assert_true(config.run.eval_steps == 6 && config.run.save_steps == OPTION_AUTO);
}

static void test_when_to_save(void **state) {
    struct settings config = settled(WITH("save_strategy", "no"));
    assert_false(save_eval_has_checkpoints(&config.run));
    config = settled(WITH("save_strategy", "steps"));
    assert_int_equal(config.run.save_steps, 500);
    config = settled(WITH("save_strategy", "steps", "save_steps", "20"));
    assert_int_equal(config.run.save_steps, 20);
    config = settled(WITH("save_strategy", "epoch", "save_steps", "20"));
    assert_int_equal(config.run.save_steps, 0);
    assert_non_null(strstr(notes, "save_steps has no effect with save_strategy epoch"));
    config = settled(WITH("save_strategy", "best"));
    assert_true(config.run.save_steps > (int64_t)1e12 && save_eval_has_checkpoints(&config.run));
    assert_true(save_eval_keeps_best(&config.run));
    config = settled(WITH("save_strategy", "best", "skip_checkpoint", "true"));
    assert_false(save_eval_has_checkpoints(&config.run) || save_eval_keeps_best(&config.run));
    config = WITH("save_strategy", "no", "load_best_model_at_end", "true");
    struct berth_error error;
    assert_int_equal(save_eval_resolve(&config, &log_to_notes, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "save_strategy no"));
    settled(WITH("early_stopping_threshold", "0.1"));
    assert_non_null(strstr(notes, "early_stopping_threshold has no effect"));
}

static void test_no_evaluation_before_the_end(void **state) {
    static const char *const needing[][2] = {{"load_best_model_at_end", "true"},
                                             {"early_stopping_patience", "2"},
                                             {"save_strategy", "best"}};
    static const char *const without[][2] = {{"eval_strategy", "no"},
                                             {"evaluate_every_epoch", "false"}};
    for (size_t i = 0; i < 6; i++) {
        const char *const *need = needing[i / 2], *const *no = without[i % 2];
        struct settings config = WITH(need[0], need[1], no[0], no[1]);
        struct berth_error error;
        assert_int_equal(save_eval_resolve(&config, &log_to_notes, &error), BERTH_CONFIG);
        assert_non_null(strstr(error.message, need[0]));
        assert_non_null(strstr(error.message, no[0]));
    }
    struct settings config = WITH("early_stopping_patience", "3");
    struct berth_error error;
    settings_apply_defaults(&config, JOB_PRETRAIN); // which evaluates only at the end
    assert_int_equal(save_eval_resolve(&config, &log_to_notes, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, ": set eval_steps or evaluate_every_epoch true"));
    settled(WITH("eval_strategy", "no"));
    settled(
        WITH("evaluate_every_epoch", "false", "eval_steps", "2", "load_best_model_at_end", "true"));
}

// The Trainer refuses these settings; here a note says when the best model is saved.
static void test_evaluations_without_checkpoint(void **state) {
    static const struct {
        const char *eval_strategy, *eval_steps, *save_strategy, *save_steps;
        int noted;
    } cases[] = {
        {"epoch", "1", "epoch", "1", 0}, {"steps", "2", "steps", "4", 0},
        {"steps", "2", "best", "1", 0},  {"steps", "3", "steps", "4", 1},
        {"steps", "2", "epoch", "2", 1}, {"epoch", "2", "steps", "2", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int best = 0; best < 2; best++) {
            struct settings config = settled(
                WITH("eval_strategy", cases[i].eval_strategy, "eval_steps", cases[i].eval_steps,
                     "save_strategy", cases[i].save_strategy, "save_steps", cases[i].save_steps,
                     "load_best_model_at_end", best ? "true" : "false"));
            save_eval_resolve_ratios(&config, 100, &log_to_notes);
            assert_int_equal(strstr(notes, "is saved as soon as it is found") != NULL,
                             best && cases[i].noted);
        }
    }
}

static void test_nothing_to_evaluate_on(void **state) {
    static const char *const needing[][2] = {{"load_best_model_at_end", "true"},
                                             {"early_stopping_patience", "2"},
                                             {"save_strategy", "best"}};
    for (size_t i = 0; i < sizeof needing / sizeof needing[0]; i++) {
        struct berth_error error;
        struct settings config = WITH(needing[i][0], needing[i][1]);
        assert_int_equal(
            save_eval_check_unevaluated(&config, 0, "name a file", &log_to_notes, &error),
            BERTH_CONFIG);
        assert_non_null(strstr(error.message, needing[i][0]));
        assert_non_null(strstr(error.message, "name a file"));
    }
    struct settings config = WITH("do_eval", "true", "eval_steps", "4");
    assert_int_equal(save_eval_check_unevaluated(&config, 0, "name a file", &log_to_notes, NULL),
                     BERTH_OK);
    assert_non_null(strstr(notes, "do_eval has no effect"));
    assert_non_null(strstr(notes, "eval_steps has no effect"));
    config = WITH("do_eval", "false");
    assert_int_equal(save_eval_check_unevaluated(&config, 0, "", &log_to_notes, NULL), BERTH_OK);
    assert_string_equal(notes, "");
    // What is not scored may still be predicted.
    config = WITH("do_eval", "true", "max_eval_samples", "4", "metric_for_best_model", "f1");
    assert_int_equal(save_eval_check_unevaluated(&config, 1, "", &log_to_notes, NULL), BERTH_OK);
    assert_non_null(strstr(notes, "metric_for_best_model has no effect"));
    assert_null(strstr(notes, "do_eval"));
    assert_null(strstr(notes, "max_eval_samples"));
}

// --- which --------------------------------------------------------------------------------------

static struct best_metric metric_of(struct settings config, const struct task_score *score) {
    struct best_metric best;
    assert_int_equal(save_eval_best_metric(&config.run, score, &best, NULL), BERTH_OK);
    return best;
}

static void test_which_score(void **state) {
    const struct task_score score = {.items = {{"mse", 3.0}, {"f1", 4.0}, {"next_loss", 5.0}},
                                     .count = 3,
                                     .loss = 6.0,
                                     .best_by = 1};
    struct best_metric best = metric_of(WITH("seed", "1"), &score);
    assert_true(best.value == 4.0 && !best.lower_is_better);
    best = metric_of(WITH("load_best_model_at_end", "true"), &score); // the Trainer's default
    assert_true(best.value == 6.0 && best.lower_is_better);
    assert_string_equal(best.name, "loss");
    best = metric_of(WITH("metric_for_best_model", "eval_next_loss"), &score);
    assert_true(best.value == 5.0 && best.lower_is_better);
    best = metric_of(WITH("metric_for_best_model", "mse"), &score);
    assert_true(best.value == 3.0 && best.lower_is_better);
    best = metric_of(WITH("metric_for_best_model", "mse", "greater_is_better", "true"), &score);
    assert_true(!best.lower_is_better);
    struct task_score without = score;
    without.loss = NAN;
    best = metric_of(WITH("load_best_model_at_end", "true"), &without);
    assert_string_equal(best.name, "f1");
    struct berth_error error;
    struct settings config = WITH("metric_for_best_model", "accuracy");
    assert_int_equal(save_eval_best_metric(&config.run, &score, &best, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "mse, f1, next_loss, loss"));
}

// The Trainer's best evaluation and its last one, in every series.
static void test_best_and_early_stops(void **state) {
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        struct progress progress;
        assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
        while (progress.step < EVALUATIONS &&
               (progress.step == 0 || progress.evaluations_without_gain < series[i].patience)) {
            struct best_metric now = {.value = series[i].scores[progress.step],
                                      .lower_is_better = !series[i].greater,
                                      .threshold = series[i].threshold};
            struct task_score score = {.items = {{"f1", now.value}}, .count = 1, .loss = NAN};
            progress.step++;
            progress_add_evaluation(&progress, 1.0, &score, &now);
            progress_add_evaluation(&progress, 1.0, &score, &now); // as a resumed run does again
        }
        assert_int_equal(progress.step, series[i].last);
        assert_int_equal(progress.best_step, series[i].best);
        progress_done(&progress);
    }
}

// Only one entry of the log is of an update, but a resumed run that evaluates by another metric
// begins with that update's model as the best.
static void test_an_update_evaluated_again(void **state) {
    static const struct task_score score = {.items = {{"f1", 0.5}}, .count = 1, .loss = NAN};
    const struct best_metric first = {.value = 0.5}, second = {.value = 0.25};
    struct progress progress;
    assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
    progress_add_evaluation(&progress, 0.0, &score, NULL); // before the first update
    assert_true(isnan(progress.best.value));
    progress.step = 3;
    progress_add_evaluation(&progress, 1.0, &score, &first);
    progress_add_evaluation(&progress, 1.0, &score, &second);
    assert_true(progress.best.value == 0.5);
    progress_forget_best(&progress);
    progress_add_evaluation(&progress, 1.0, &score, NULL);
    assert_true(isnan(progress.best.value));
    progress_add_evaluation(&progress, 1.0, &score, &second);
    assert_true(progress.best.value == 0.25 && progress.best_step == 3);
    assert_int_equal(json_length(progress.log), 2);
    progress_done(&progress);
}

// The first-order optimum of saving / interval + interval / (2 mean time to failure).
static void test_save_interval(void **state) {
    static const struct {
        double saving, mean;
    } cases[] = {{2, 3600}, {0.05, 86400}, {600, 1200}, {0, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double saving = cases[i].saving, mean = cases[i].mean;
        const double best = save_eval_interval(saving, mean);
        const double lost = saving > 0 ? saving / best + best / (2 * mean) : 0;
        for (double factor = 0.5; factor < 3 && saving > 0; factor += 0.3) {
            const double other = best * factor;
            assert_true(saving / other + other / (2 * mean) >= lost);
        }
        assert_true(saving > 0 || best == 0);
    }
    assert_true(fabs(save_eval_interval(2, 3600) - 120) < 1e-9);
    struct settings config = settled(WITH("save_steps", "auto"));
    assert_int_equal(config.run.save_steps, OPTION_AUTO);
    config = settled(WITH("save_strategy", "steps", "save_steps", "auto"));
    assert_int_equal(config.run.save_steps, OPTION_AUTO);
    assert_string_equal(notes, "");
    settled(WITH("save_steps", "5", "mean_time_to_failure", "60"));
    assert_non_null(strstr(notes, "mean_time_to_failure has no effect with save_steps 5"));
    settled(WITH("save_steps", "auto", "mean_time_to_failure", "60", "skip_checkpoint", "true"));
    assert_non_null(strstr(notes, "mean_time_to_failure has no effect with skip_checkpoint true"));
    settled(WITH("save_steps", "auto", "mean_time_to_failure", "60", "save_strategy", "no"));
    assert_non_null(strstr(notes, "mean_time_to_failure has no effect with save_strategy no"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when_to_evaluate),
        cmocka_unit_test(test_fractions_of_the_updates),
        cmocka_unit_test(test_when_to_save),
        cmocka_unit_test(test_save_interval),
        cmocka_unit_test(test_no_evaluation_before_the_end),
        cmocka_unit_test(test_evaluations_without_checkpoint),
        cmocka_unit_test(test_nothing_to_evaluate_on),
        cmocka_unit_test(test_which_score),
        cmocka_unit_test(test_best_and_early_stops),
        cmocka_unit_test(test_an_update_evaluated_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
