// SPDX-License-Identifier: Apache-2.0
#include "train/job/unused.h"

#include "core/memory.h"
#include "core/words.h"
#include "settings/deepspeed.h"
#include "settings/settings.h"
#include "train/optimizer/loss_scale.h"

#include <string.h>

static const struct {
    const char *option;
    const char *setting, *values; // it has an effect where the setting has one of these values
} rows[] = {{"decay_rate", "schedule", "EE LE"},
            {"decay_step", "schedule", "EE LE"},
            {"warmup_min_lr", "schedule",
             "warmup_log warmup_linear warmup_decay_log warmup_decay_linear warmup_cosine_log "
             "warmup_cosine_linear"},
            {"cos_min_ratio", "schedule", "warmup_cosine_log warmup_cosine_linear"},
            {"clip_by", "max_grad_norm", "positive"},
            {"spike_factor", "spike_policy", "warn skip rollback"},
            {"save_steps", "skip_checkpoint", "false"},
            {"save_strategy", "skip_checkpoint", "false"},
            {"save_total_limit", "skip_checkpoint", "false"},
            {"on_save_error", "skip_checkpoint", "false"},
            {"max_coeff", "optimizer", "lamb"},
            {"min_coeff", "optimizer", "lamb"},
            {"init_loss_scale", "loss_scale", "static zero plain"},
            {"loss_scaler", "loss_scale", "zero plain"},
            {"min_loss_scale", "loss_scale", "zero plain"},
            {"loss_scale_window", "loss_scale", "zero plain"},
            {"hysteresis", "loss_scale", "zero"},
            {"consecutive_hysteresis", "loss_scale", "zero"}};

// Options that have an effect only if another one is given, or only if it is not.
static const struct {
    const char *option, *other;
    int needs_other;
} pairs[] = {{"logging_axis", "logging_dir", 1},
             {"initializer", "model_name_or_path", 0},
             {"vocab_multiple", "model_name_or_path", 0}};

// A dynamic scale is called by its rule, and a number by itself.
static const char *loss_scale_of(const struct settings *config) {
    struct loss_scale scale = {0};
    (void)loss_scale_settle(&scale, config, NULL);
    return scale.kind == LOSS_SCALE_ZERO    ? "zero"
           : scale.kind == LOSS_SCALE_PLAIN ? "plain"
                                            : loss_scale_text(config);
}

static const char *value_of(const struct settings *config, const char *setting) {
    const struct {
        const char *setting, *value;
    } values[] = {
        {"optimizer", config->optimizer.optimizer},
        {"schedule", config->optimizer.schedule != NULL ? config->optimizer.schedule : "linear"},
        {"max_grad_norm", config->optimizer.max_grad_norm > 0 ? "positive" : "0"},
        {"spike_policy", config->run.spike_policy != NULL ? config->run.spike_policy : "none"},
        {"skip_checkpoint", config->run.skip_checkpoint ? "true" : "false"},
        {"loss_scale", loss_scale_of(config)}};
    size_t i = 0;
    while (strcmp(values[i].setting, setting) != 0) {
        i++;
    }
    return values[i].value;
}

// A DeepSpeed JSON may name the folder, too.
static int logs_scalars(const struct settings *config) {
    char *folder = NULL;
    if (config->report.logging_dir == NULL && config->run.deepspeed_config != NULL) {
        (void)deepspeed_logging_dir(config->run.deepspeed_config, &folder, NULL);
    }
    const int answer = config->report.logging_dir != NULL || folder != NULL;
    memory_free(folder);
    return answer;
}

static void note_pairs(const struct settings *typed, const struct settings *config,
                       const struct berth_log *log) {
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const int is_there = strcmp(pairs[i].other, "logging_dir") == 0
                                 ? logs_scalars(config)
                                 : config->model.model_name_or_path != NULL;
        if (settings_is_chosen(typed, pairs[i].option) && is_there != pairs[i].needs_other) {
            log_note(log, "%s has no effect %s %s", pairs[i].option,
                     pairs[i].needs_other ? "without" : "with", pairs[i].other);
        }
    }
}

// No warm-up, asked for by name, is no mistake.
static void note_warmup(const struct settings *typed, const struct settings *config,
                        const struct berth_log *log) {
    const struct {
        const char *option;
        int is_some;
    } warmups[] = {{"warmup_steps", typed->optimizer.warmup_steps != 0},
                   {"warmup_proportion", typed->optimizer.warmup_proportion > 0}};
    for (size_t i = 0; i < 2 && strcmp(value_of(config, "schedule"), "constant") == 0; i++) {
        if (settings_is_chosen(typed, warmups[i].option) && warmups[i].is_some) {
            log_note(log, "%s has no effect with schedule constant; constant_warmup has a warm-up",
                     warmups[i].option);
        }
    }
}

void unused_note(const struct settings *typed, const struct settings *config,
                 const struct berth_log *log) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *value = value_of(config, rows[i].setting);
        if (settings_is_chosen(typed, rows[i].option) &&
            !words_contain(rows[i].values, ' ', value)) {
            const char *setting = strcmp(value, "plain") == 0 ? "loss_scaler" : rows[i].setting;
            log_note(log, "%s has no effect with %s %s", rows[i].option, setting, value);
        }
    }
    note_warmup(typed, config, log);
    note_pairs(typed, config, log);
}
