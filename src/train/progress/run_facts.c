// SPDX-License-Identifier: Apache-2.0
// Reads from a checkpoint's trainer_state.json what writers of other formats need: step, length,
// schedule, rate and optimizer. Conversion (src/api/convert_optimizer.c) and the checkpoints of the
// original programs use it without a running job.
#include "train/progress/run_facts.h"

#include "settings/settings.h"
#include "train/progress/progress.h"

#include <stdio.h>
#include <string.h>

enum berth_status run_facts_settings(const json *state, struct optimizer_settings *found,
                                     struct berth_error *error) {
    const json *settings = json_member(progress_own_keys(state), "settings");
    struct settings all;
    settings_init(&all);
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        const char *text = json_text(json_member(settings, row->name));
        if ((strcmp(row->group, "optimizer") == 0 || strcmp(row->group, "learning-rate") == 0 ||
             strncmp(row->name, "freeze_", 7) == 0) &&
            text != NULL && text[0] != '\0') {
            TRY(settings_set_row(&all, row, text, error));
        }
    }
    *found = all.optimizer;
    return optimizer_settle(found, error);
}

// The factor of lr_scaling. In files without this key the settings include the factor.
static double rate_factor(const struct run_facts *facts) {
    const json *factor = json_member(progress_own_keys(facts->state), "rate_factor");
    return json_is_number_value(factor) ? json_as_real(factor) : 1;
}

// The length of the schedule: the run's updates, 0 if the file does not say it. By the steps_rule
// "epochs" it is another one, which is not in the file.
static enum berth_status read_length(const struct run_facts *facts, const char *path,
                                     int64_t *length, struct berth_error *error) {
    const json *settings = json_member(progress_own_keys(facts->state), "settings");
    const char *rule = json_text(json_member(settings, "steps_rule"));
    *length = 0;
    return rule != NULL && strcmp(rule, "epochs") == 0
               ? BERTH_OK
               : json_get_integer(facts->state, path, "max_steps", length, error);
}

static enum berth_status read_settings(struct run_facts *facts, const char *path,
                                       struct berth_error *error) {
    struct optimizer_settings settings;
    TRY(run_facts_settings(facts->state, &settings, error));
    facts->optimizer = optimizer_of(&settings);
    facts->last_rate = rate_factor(facts) * settings.learning_rate;
    const json *history = json_member(facts->state, "log_history");
    for (size_t i = 0; json_is_array_value(history) && i < json_length(history); i++) {
        const json *rate = json_member(json_at(history, i), "learning_rate");
        facts->last_rate = json_is_number_value(rate) ? json_as_real(rate) : facts->last_rate;
    }
    facts->next_rate = facts->last_rate;
    int64_t length, start = 0;
    TRY(read_length(facts, path, &length, error));
    TRY(json_get_integer(progress_own_keys(facts->state), path, "schedule_start", &start, error));
    facts->schedule.peak = rate_factor(facts) * settings.learning_rate;
    if (length > 0) {
        facts->schedule = schedule_of(&settings, rate_factor(facts), length);
        if (start > 0) {
            schedule_restart(&facts->schedule, &settings, start);
        }
        facts->next_rate = schedule_rate(&facts->schedule, facts->scheduled);
    }
    return BERTH_OK;
}

enum berth_status run_facts_read(struct run_facts *facts, const char *path,
                                 struct berth_error *error) {
    enum berth_status status;
    *facts = (struct run_facts){0};
    TRY_DONE(json_read_file(path, &facts->state, error));
    const json *own = progress_own_keys(facts->state);
    int64_t phase_start = 0, moments_start = 0;
    facts->step = -1;
    TRY_DONE(json_get_integer(facts->state, path, "global_step", &facts->step, error));
    TRY_DONE(json_get_integer(own, path, "skipped_steps", &facts->skipped, error));
    TRY_DONE(json_get_integer(own, path, "phase_start", &phase_start, error));
    TRY_DONE(json_get_integer(own, path, "moments_start", &moments_start, error));
    TRY_DONE(json_get_integer(progress_sizes(facts->state), path, "train_batch_size",
                              &facts->sequences, error));
    const int64_t start = phase_start > moments_start ? phase_start : moments_start;
    facts->updates = facts->step - start - facts->skipped;
    facts->scheduled = facts->step - phase_start - facts->skipped;
    if (facts->step < 0 || facts->skipped < 0 || facts->updates < 0) {
        TRY_DONE(error_set(error, BERTH_BAD_DATA,
                           "%s: keys \"global_step\", \"skipped_steps\", \"phase_start\" and "
                           "\"moments_start\": expected numbers of updates that fit each other",
                           path));
    }
    TRY_DONE(read_settings(facts, path, error));
done:
    if (status != BERTH_OK) {
        run_facts_done(facts);
    }
    return status;
}

void run_facts_done(struct run_facts *facts) {
    json_free(facts->state);
    *facts = (struct run_facts){0};
}
