// SPDX-License-Identifier: Apache-2.0
// The recipes, as in the published scripts of NVIDIA, DeepSpeed's BingBert and BingBertSquad,
// Google, Intel, Habana, CSCS (Piz Daint, LUMI) and Hugging Face: for each name settings and their
// values, which become defaults before a run's own settings are applied (train/job/job_settings.c).
// Command lines of those programs are translated by compat/.
#include "settings/recipes.h"

#include "core/text_util.h"
#include "settings/settings.h"

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

// The program's own values. The rest is in the experiment's and DeepSpeed's files; regardless of
// them, the program sets the learning rate itself and the weight decay of its parameter groups.
static const struct setting bing_bert[] = {
    {"max_seq_length", "512"},
    {"max_predictions_per_seq", "80"},
    {"schedule", "LE"},
    {"weight_decay", "0.01"},
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

static const struct setting google_finetuning[] = {
    {"train_batch_size", "32"},   {"learning_rate", "5e-5"},  {"num_train_epochs", "3"},
    {"warmup_proportion", "0.1"}, {"weight_decay", "0.01"},   {"optimizer", "adam_weight_decay"},
    {"schedule", "google"},       {"save_steps", "1000"},     {"predict_batch_size", "8"},
    {"max_grad_norm", "1"},       {"steps_rule", "examples"}, {"pair_truncation", "google"},
};

// The defaults of Intel's launcher.
static const struct setting intel[] = {
    {"train_batch_size", "24"},  {"max_steps", "20"},
    {"learning_rate", "3e-5"},   {"warmup_steps", "10"},
    {"weight_decay", "0.01"},    {"optimizer", "adam_weight_decay"},
    {"schedule", "google"},      {"save_steps", "1000"},
    {"max_seq_length", "512"},   {"max_predictions_per_seq", "20"},
    {"predict_batch_size", "8"}, {"initializer", "truncated_normal"},
};

static const struct setting intel_finetuning[] = {
    {"train_batch_size", "24"},    {"learning_rate", "3e-5"}, {"num_train_epochs", "20"},
    {"warmup_proportion", "0.1"},  {"weight_decay", "0.01"},  {"optimizer", "adam_weight_decay"},
    {"schedule", "google"},        {"save_steps", "1000"},    {"predict_batch_size", "8"},
    {"max_grad_norm", "1"},        {"max_seq_length", "512"}, {"steps_rule", "examples"},
    {"pair_truncation", "google"},
};

// On its devices it uses no weight decay.
static const struct setting habana[] = {
    {"train_batch_size", "32"},   {"learning_rate", "5e-5"}, {"num_train_epochs", "3"},
    {"warmup_proportion", "0.1"}, {"optimizer", "adamw"},    {"bias_correction", "false"},
    {"weight_decay", "0"},        {"adam_epsilon", "1e-6"},  {"schedule", "linear_ahead"},
    {"predict_batch_size", "8"},  {"max_grad_norm", "1"},    {"logging_steps", "50"},
    {"steps_rule", "epochs"},
};

// apex's FusedAdam, of NVIDIA's run_squad in fp16.
static const struct setting nvidia_squad[] = {
    {"train_batch_size", "32"},   {"learning_rate", "5e-5"}, {"num_train_epochs", "3"},
    {"warmup_proportion", "0.1"}, {"optimizer", "adamw"},    {"bias_correction", "false"},
    {"weight_decay", "0.01"},     {"adam_epsilon", "1e-8"},  {"schedule", "linear_ahead"},
    {"predict_batch_size", "8"},  {"max_grad_norm", "1"},    {"logging_steps", "50"},
    {"steps_rule", "epochs"},
};

// BertAdam of NVIDIA's run_squad. The program clips the global norm before BertAdam clips each
// tensor. Its schedule has no jump, unlike that of pytorch-pretrained-bert's BertAdam.
static const struct setting nvidia_bertadam[] = {
    {"train_batch_size", "32"},   {"learning_rate", "5e-5"}, {"num_train_epochs", "3"},
    {"warmup_proportion", "0.1"}, {"optimizer", "bertadam"}, {"weight_decay", "0.01"},
    {"clip_by", "both"},          {"max_grad_norm", "1"},    {"schedule", "linear"},
    {"predict_batch_size", "8"},  {"logging_steps", "50"},   {"steps_rule", "epochs"},
};

// Habana's copy of it has no weight decay on its devices.
static const struct setting habana_bertadam[] = {
    {"train_batch_size", "32"},   {"learning_rate", "5e-5"}, {"num_train_epochs", "3"},
    {"warmup_proportion", "0.1"}, {"optimizer", "bertadam"}, {"weight_decay", "0"},
    {"clip_by", "both"},          {"max_grad_norm", "1"},    {"schedule", "linear"},
    {"predict_batch_size", "8"},  {"logging_steps", "50"},   {"steps_rule", "epochs"},
};

// transformers' TrainingArguments.
static const struct setting hugging_face[] = {
    {"per_device_train_batch_size", "8"},
    {"learning_rate", "5e-5"},
    {"num_train_epochs", "3"},
    {"warmup_proportion", "0"},
    {"warmup_round_up", "true"},
    {"weight_decay", "0"},
    {"optimizer", "adamw"},
    {"schedule", "linear"},
    {"max_grad_norm", "1"},
};

// Keras's features, no schedule, no clipping and no weight decay. A weight decay that the user sets
// applies to all parameters, which are one group.
static const struct setting piz_daint[] = {
    {"features", "keras"},     {"keras_answers", "all"},  {"keras_end", "exclusive"},
    {"max_seq_length", "384"}, {"num_train_epochs", "1"}, {"train_batch_size", "512"},
    {"learning_rate", "5e-5"}, {"schedule", "constant"},  {"weight_decay", "0"},
    {"max_grad_norm", "0"},    {"no_decay", "none"},
};

static const struct setting lumi[] = {
    {"features", "keras"},     {"keras_answers", "first"}, {"keras_end", "inclusive"},
    {"max_seq_length", "384"}, {"num_train_epochs", "2"},  {"train_batch_size", "256"},
    {"learning_rate", "5e-5"}, {"schedule", "constant"},   {"weight_decay", "0"},
    {"max_grad_norm", "0"},    {"no_decay", "none"},
};

// apex's FusedAdam if there is no DeepSpeed file. The program sets the learning rate itself and the
// weight decay of its parameter groups.
static const struct setting bing_bert_squad[] = {
    {"schedule", "bertadam"},     {"warmup_proportion", "0.1"}, {"weight_decay", "0.01"},
    {"bias_correction", "false"}, {"learning_rate", "5e-5"},    {"num_train_epochs", "3"},
    {"max_grad_norm", "1"},       {"logging_steps", "100"},     {"predict_batch_size", "8"},
    {"steps_rule", "epochs"},
};

static const struct setting bing_bert_squad_baseline[] = {
    {"schedule", "bertadam"}, {"warmup_proportion", "0.1"}, {"optimizer", "bertadam"},
    {"clip_by", "both"},      {"learning_rate", "5e-5"},    {"num_train_epochs", "3"},
    {"max_grad_norm", "1"},   {"logging_steps", "100"},     {"predict_batch_size", "8"},
    {"steps_rule", "epochs"}, {"precision", "fp32"},
};

#define RECIPE(its_job, its_name, list)                                                            \
    .name = (its_name), .job = (its_job), .settings = (list),                                      \
    .count = sizeof(list) / sizeof((list)[0])

static const struct recipe {
    const char *name;
    unsigned job;
    const struct setting *settings;
    size_t count;
    int is_fp32;                // recipe_is_fp32
    int prefers_file;           // recipe_prefers_file
    const char *overrides_file; // settings whose value is the program's own, whatever the DeepSpeed
                                // file says; separated by spaces
} recipes[] = {
    {RECIPE(JOB_PRETRAIN, "nvidia-phase1", nvidia_phase1)},
    {RECIPE(JOB_PRETRAIN, "nvidia-phase2", nvidia_phase2)},
    {RECIPE(JOB_PRETRAIN, "bing-128", bing_128)},
    {RECIPE(JOB_PRETRAIN, "bing-512", bing_512)},
    {RECIPE(JOB_PRETRAIN, "bing-bert", bing_bert), .overrides_file = "schedule weight_decay"},
    {RECIPE(JOB_PRETRAIN, "google", google), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE, "google", google_finetuning), .is_fp32 = 1},
    {RECIPE(JOB_PRETRAIN, "intel", intel), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE, "intel", intel_finetuning), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE | JOB_PRETRAIN_MLM, "hugging-face", hugging_face), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE_SQUAD, "habana", habana), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE_SQUAD, "habana-bertadam", habana_bertadam), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE_SQUAD, "nvidia-squad", nvidia_squad)},
    {RECIPE(JOB_FINETUNE_SQUAD, "nvidia-squad-bertadam", nvidia_bertadam), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE_SQUAD, "piz-daint", piz_daint), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE_SQUAD, "lumi", lumi), .is_fp32 = 1},
    {RECIPE(JOB_FINETUNE_SQUAD, "bing-bert-squad", bing_bert_squad), .prefers_file = 1,
     .overrides_file = "schedule weight_decay"},
    {RECIPE(JOB_FINETUNE_SQUAD, "bing-bert-squad-baseline", bing_bert_squad_baseline)},
};

// Settings that another setting decides, too.
static const struct setting exclusive_settings[] = {
    {"max_steps", "num_train_epochs"},
    {"warmup_steps", "warmup_proportion"},
    {"warmup_proportion", "warmup_steps"},
    {"per_device_train_batch_size", "train_batch_size"},
};

// Whether the user chose a setting, by its own name or an equivalent one.
static int is_decided(const struct settings *config, const char *name) {
    int decided = settings_is_chosen(config, name);
    for (size_t i = 0; i < sizeof exclusive_settings / sizeof *exclusive_settings; i++) {
        decided |= strcmp(exclusive_settings[i].name, name) == 0 &&
                   settings_is_chosen(config, exclusive_settings[i].value);
    }
    // Two of the batch sizes determine the third.
    return decided || (strcmp(name, "train_batch_size") == 0 &&
                       settings_is_chosen(config, "per_device_train_batch_size") &&
                       settings_is_chosen(config, "gradient_accumulation_steps"));
}

// The recipe for the job, if a name has several; NULL: none.
static const struct recipe *find_recipe(const char *name, unsigned job) {
    const struct recipe *found = NULL;
    for (size_t i = 0; name != NULL && i < sizeof recipes / sizeof *recipes; i++) {
        if (strcmp(name, recipes[i].name) == 0 && (found == NULL || (recipes[i].job & job) != 0)) {
            found = &recipes[i];
        }
    }
    return found;
}

static int overrides_file(const struct recipe *recipe, const struct setting *setting) {
    return words_contain(recipe->overrides_file, ' ', setting->name);
}

int recipe_is_fp32(const char *name, unsigned job) {
    const struct recipe *recipe = find_recipe(name, job);
    return recipe != NULL && recipe->is_fp32;
}

int recipe_prefers_file(const char *name) {
    const struct recipe *recipe = find_recipe(name, JOB_FINETUNE);
    return recipe != NULL && recipe->prefers_file;
}

enum berth_status recipe_apply(struct settings *config, const struct settings *typed, unsigned job,
                               struct berth_error *error) {
    const struct recipe *recipe = find_recipe(config->run.recipe, job);
    if (config->run.recipe == NULL) {
        return BERTH_OK;
    }
    if (recipe == NULL) {
        return settings_set_row(config, option_find("recipe"), config->run.recipe, error);
    }
    if ((recipe->job & job) == 0) {
        return error_set(error, BERTH_USAGE, "recipe %s is for %s", recipe->name,
                         (recipe->job & JOB_PRETRAIN) != 0   ? "pre-training"
                         : recipe->job == JOB_FINETUNE_SQUAD ? "fine-tuning on SQuAD"
                                                             : "fine-tuning");
    }
    for (size_t i = 0; i < recipe->count; i++) {
        const struct setting *setting = &recipe->settings[i];
        const struct option_row *row = option_find(setting->name);
        if ((row->jobs & job) != 0 &&
            !is_decided(overrides_file(recipe, setting) ? typed : config, setting->name)) {
            TRY(settings_set_row(config, row, setting->value, error));
        }
    }
    return BERTH_OK;
}
