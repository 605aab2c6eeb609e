// SPDX-License-Identifier: Apache-2.0
#include "train/job/unused.h"

#include "core/options.h"
#include "core/words.h"
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
            {"max_coeff", "optimizer", "lamb"},
            {"min_coeff", "optimizer", "lamb"},
            {"init_loss_scale", "loss_scale", "static zero plain"},
            {"loss_scaler", "loss_scale", "zero plain"},
            {"min_loss_scale", "loss_scale", "zero plain"},
            {"loss_scale_window", "loss_scale", "zero plain"},
            {"hysteresis", "loss_scale", "zero"},
            {"consecutive_hysteresis", "loss_scale", "zero"}};

// A dynamic scale is called by its rule, and a number by itself.
static const char *loss_scale_of(const struct berth_config *config) {
    struct loss_scale scale = {0};
    (void)loss_scale_settle(&scale, config, NULL);
    return scale.kind == LOSS_SCALE_ZERO    ? "zero"
           : scale.kind == LOSS_SCALE_PLAIN ? "plain"
                                            : loss_scale_text(config);
}

static const char *value_of(const struct berth_config *config, const char *setting) {
    return strcmp(setting, "optimizer") == 0  ? config->optimizer
           : strcmp(setting, "schedule") != 0 ? loss_scale_of(config)
           : config->schedule != NULL         ? config->schedule
                                              : "linear";
}

void unused_note(const struct berth_config *typed, const struct berth_config *config,
                 const struct berth_log *log) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *value = value_of(config, rows[i].setting);
        if (option_name_is_chosen(typed, rows[i].option) &&
            !words_contain(rows[i].values, ' ', value)) {
            const char *setting = strcmp(value, "plain") == 0 ? "loss_scaler" : rows[i].setting;
            log_note(log, "%s has no effect with %s %s", rows[i].option, setting, value);
        }
    }
}
