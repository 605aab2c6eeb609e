// SPDX-License-Identifier: Apache-2.0
// The recipes, as in the published scripts of NVIDIA, DeepSpeed's BingBert and Google.
#include "train/settings/recipes.h"

#include "core/options.h"

#include <string.h>

struct setting {
    const char *name, *value;
};

static const struct setting nvidia_phase1[] = {
    {"max_seq_length", "128"},     {"max_predictions_per_seq", "20"},
    {"train_batch_size", "65536"}, {"max_steps", "7038"},
    {"learning_rate", "6e-3"},     {"warmup_proportion", "0.2843"},
    {"optimizer", "nvlamb"},       {"schedule", "poly"},
    {"weight_decay", "0.01"},      {"save_steps", "200"},
};

static const struct setting nvidia_phase2[] = {
    {"max_seq_length", "512"},
    {"max_predictions_per_seq", "80"},
    {"train_batch_size", "32768"},
    {"max_steps", "1563"},
    {"learning_rate", "4e-3"},
    {"warmup_proportion", "0.128"},
    {"optimizer", "nvlamb"},
    {"schedule", "poly"},
    {"weight_decay", "0.01"},
    {"save_steps", "200"},
    {"phase2", "true"},
};

static const struct setting bing_128[] = {
    {"max_seq_length", "128"},
    {"max_predictions_per_seq", "20"},
    {"train_batch_size", "65536"},
    {"max_steps", "7500"},
    {"learning_rate", "11e-3"},
    {"warmup_proportion", "0.06"},
    {"lr_offset", "10e-4"},
    {"decay_step", "250"},
    {"schedule", "EE"},
    {"decay_rate", "0.9"},
    {"optimizer", "lamb"},
    {"weight_decay", "0.01"},
    {"bias_correction", "false"},
    {"max_coeff", "0.3"},
    {"min_coeff", "0.01"},
    {"max_grad_norm", "1"},
};

static const struct setting bing_512[] = {
    {"max_seq_length", "512"},
    {"max_predictions_per_seq", "80"},
    {"train_batch_size", "32768"},
    {"max_steps", "7500"},
    {"learning_rate", "2e-3"},
    {"warmup_proportion", "0.02"},
    {"lr_offset", "0"},
    {"decay_step", "150"},
    {"phase2", "true"},
    {"schedule", "EE"},
    {"decay_rate", "0.9"},
    {"optimizer", "lamb"},
    {"weight_decay", "0.01"},
    {"bias_correction", "false"},
    {"max_coeff", "0.3"},
    {"min_coeff", "0.01"},
    {"max_grad_norm", "1"},
};

static const struct setting google[] = {
    {"max_seq_length", "128"},
    {"max_predictions_per_seq", "20"},
    {"train_batch_size", "32"},
    {"max_steps", "100000"},
    {"learning_rate", "5e-5"},
    {"warmup_steps", "10000"},
    {"optimizer", "adam_weight_decay"},
    {"schedule", "google"},
    {"weight_decay", "0.01"},
    {"save_steps", "1000"},
    {"initializer", "truncated_normal"},
};

#define RECIPE(name, list)                                                                         \
    { name, list, sizeof(list) / sizeof((list)[0]) }

static const struct recipe {
    const char *name;
    const struct setting *settings;
    size_t count;
} recipes[] = {
    RECIPE("nvidia-phase1", nvidia_phase1),
    RECIPE("nvidia-phase2", nvidia_phase2),
    RECIPE("bing-128", bing_128),
    RECIPE("bing-512", bing_512),
    RECIPE("google", google),
};

// Equivalent settings.
static const struct setting rivals[] = {
    {"max_steps", "num_train_epochs"},
    {"warmup_steps", "warmup_proportion"},
};

static int is_chosen(const struct berth_config *config, const char *name) {
    return option_is_chosen(config, option_find(name));
}

// Whether the user chose a setting, by its own name or an equivalent one.
static int is_decided(const struct berth_config *config, const char *name) {
    int decided = is_chosen(config, name);
    for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++) {
        decided |= strcmp(rivals[i].name, name) == 0 && is_chosen(config, rivals[i].value);
    }
    // Two of the batch sizes determine the third.
    return decided || (strcmp(name, "train_batch_size") == 0 &&
                       is_chosen(config, "per_device_train_batch_size") &&
                       is_chosen(config, "gradient_accumulation_steps"));
}

enum berth_status recipe_apply(struct berth_config *config, struct berth_error *error) {
    const struct recipe *recipe = NULL;
    if (config->recipe == NULL) {
        return BERTH_OK;
    }
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        recipe = strcmp(config->recipe, recipes[i].name) == 0 ? &recipes[i] : recipe;
    }
    if (recipe == NULL) {
        return option_set(config, option_find("recipe"), config->recipe, error);
    }
    for (size_t i = 0; i < recipe->count; i++) {
        const struct setting *setting = &recipe->settings[i];
        if (!is_decided(config, setting->name)) {
            TRY(option_set(config, option_find(setting->name), setting->value, error));
        }
    }
    return BERTH_OK;
}
