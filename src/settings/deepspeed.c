// SPDX-License-Identifier: Apache-2.0
// Reads a DeepSpeed JSON and sets rows of the option table by it, while a job's settings are
// settled. Leaves out which keys there are (deepspeed_keys.h) and the options of the command line.
#include "settings/deepspeed.h"

#include "core/caseless.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "settings/deepspeed_keys.h"
#include "settings/recipes.h"
#include "settings/settings.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Reading one file.
struct reading {
    struct settings *config; // modified; settings from the file then count as given
    struct settings before;  // as set on the command line
    const json *root;
    const char *path;
    const struct berth_log *log;
};

// Whether the key has a value or "auto".
static int has_key(const struct reading *r, const char *key) {
    return deepspeed_value(r->root, key) != NULL || deepspeed_is_auto(r->root, key);
}

// Sets a row from text unless the command line set it. `key` is its key in the file; if the file
// lacks it, the text is DeepSpeed's default and nothing is overridden. The text for a row of type
// OPTION_TEXT must be a constant.
static enum berth_status set_row(struct reading *r, const char *name, const char *key,
                                 const char *text, struct berth_error *error) {
    const struct option_row *row = option_find(name);
    const int is_typed = settings_row_is_given(&r->before, row);
    struct settings file = r->before;
    if (settings_set_row(is_typed ? &file : r->config, row, text, error) != BERTH_OK) {
        return error_prefix(error, BERTH_CONFIG, "%s: key \"%s\"", r->path, key);
    }
    char own[128], other[128];
    settings_print(&r->before, row, own, sizeof own);
    settings_print(&file, row, other, sizeof other);
    if (is_typed && strcmp(own, other) != 0 && has_key(r, key)) {
        log_note(r->log, "%s: %s on the command line overrides %s %s of %s", name, own, key, other,
                 r->path);
    }
    return BERTH_OK;
}

// Copies the value of a key to a setting; `fallback` (may be NULL) is DeepSpeed's default. "auto"
// leaves the setting unchanged.
static enum berth_status apply_key(struct reading *r, const char *name, const char *key,
                                   const char *fallback, struct berth_error *error) {
    const json *value = deepspeed_value(r->root, key);
    if (deepspeed_is_auto(r->root, key)) {
        return BERTH_OK;
    }
    if (value == NULL) {
        return fallback != NULL ? set_row(r, name, key, fallback, error) : BERTH_OK;
    }
    char text[NUMBER_TEXT_SIZE];
    // Prints a value as the text that settings_set_row reads; numbers and booleans only.
    // DeepSpeed's files have integers as 5e8.
    if (json_is_boolean(value)) {
        snprintf(text, NUMBER_TEXT_SIZE, "%s", json_truth(value) ? "true" : "false");
    } else {
        json_print_number(value, text);
    }
    return set_row(r, name, key, text, error);
}

// Applies the key that the setting's row names, with the default that the row has for it.
static enum berth_status apply_row(struct reading *r, const char *name, struct berth_error *error) {
    const struct option_row *row = option_find(name);
    return apply_key(r, name, row->deepspeed, row->deepspeed_default, error);
}

static int is_given(const struct reading *r, const char *name) {
    return settings_is_given(&r->before, name);
}

// --- the file's own keys ------------------------------------------------------------------------

// DeepSpeed's bfp16 is bf16.
static enum berth_status apply_communication(struct reading *r, struct berth_error *error) {
    static const char key[] = "communication_data_type";
    static const char *const types[][2] = {
        {"fp32", "fp32"}, {"bf16", "bf16"}, {"bfp16", "bf16"}, {"fp16", "fp16"}};
    const char *type = json_text(deepspeed_value(r->root, key));
    for (size_t i = 0; type != NULL && i < sizeof types / sizeof *types; i++) {
        if (strcmp(type, types[i][0]) == 0) {
            return set_row(r, key, key, types[i][1], error);
        }
    }
    return type == NULL
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG, "%s: %s: expected fp32, bf16 or fp16, found \"%s\"",
                           r->path, key, type);
}

static enum berth_status apply_top_level(struct reading *r, struct berth_error *error) {
    static const char *const zero[] = {"zero_stage", "overlap_comm", "reduce_bucket_size",
                                       "allgather_bucket_size"};
    const char *key;
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_rows[i].type != OPTION_TEXT &&
            deepspeed_is_in_section(option_rows[i].deepspeed, "", &key)) {
            TRY(apply_row(r, option_rows[i].name, error));
        }
    }
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) {
        TRY(apply_row(r, zero[i], error));
    }
    // DeepSpeed's default depends on its version.
    if (!has_key(r, "gradient_clipping") && !is_given(r, "max_grad_norm")) {
        log_note(r->log,
                 "%s: no gradient_clipping: gradients are not clipped, as in DeepSpeed before "
                 "0.19.3; later versions clip to 1, as max_grad_norm 1 does",
                 r->path);
    }
    TRY(apply_communication(r, error));
    if (!has_key(r, "train_batch_size") && !has_key(r, "train_micro_batch_size_per_gpu") &&
        !is_given(r, "train_batch_size") && !is_given(r, "per_device_train_batch_size")) {
        return error_set(error, BERTH_CONFIG,
                         "%s: missing \"train_batch_size\" or \"train_micro_batch_size_per_gpu\"; "
                         "one of them is required, here or on the command line",
                         r->path);
    }
    return BERTH_OK;
}

// --- optimizer ----------------------------------------------------------------------------------

// DeepSpeed's optimizers; names are case-insensitive.
static const struct deepspeed_optimizer {
    const char *type;
    const char *name;    // Berth's name; NULL: not available
    const char *instead; // what to use instead
    int decoupled;       // adam_w_mode is always on, whatever the file says
    const char *lacks;   // other optimizers' parameters, which DeepSpeed ignores or refuses here
} optimizers[] = {
    {.type = "Adam", .name = "adam", .lacks = "max_coeff min_coeff eps_inside_sqrt"},
    {.type = "AdamW",
     .name = "adamw",
     .decoupled = 1,
     .lacks = "max_coeff min_coeff eps_inside_sqrt"},
    {.type = "Lamb", .name = "lamb", .lacks = "adam_w_mode"},
    {.type = "OneBitAdam", .instead = "Adam, without compressed communication"},
    {.type = "ZeroOneAdam", .instead = "Adam, without compressed communication"},
    {.type = "OneBitLamb", .instead = "Lamb, without compressed communication"},
    {.type = "FusedAdam", .instead = "AdamW, which is always fused"},
    {.type = "FusedLamb", .instead = "Lamb, which is always fused"},
    {.type = "SGD", .instead = "AdamW: there is no optimizer without a second moment"},
    {.type = "Lion", .instead = "AdamW: there is no optimizer without a second moment"},
    {.type = "Adagrad", .instead = "AdamW"},
    {.type = "Muon", .instead = "AdamW"},
    {.type = "auto", .instead = "Adam, AdamW or Lamb, or leave the section out"},
};

static enum berth_status find_optimizer(const struct reading *r,
                                        const struct deepspeed_optimizer **found,
                                        struct berth_error *error) {
    const char *type = deepspeed_is_auto(r->root, "optimizer.type")
                           ? "auto"
                           : json_text(deepspeed_value(r->root, "optimizer.type"));
    *found = &optimizers[0];
    for (size_t i = 0; type != NULL && i < sizeof optimizers / sizeof *optimizers; i++) {
        if (caseless_equal(type, optimizers[i].type)) {
            *found = &optimizers[i];
            type = NULL;
        }
    }
    if (type == NULL && (*found)->name != NULL) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: key \"optimizer.type\": \"%s\" is not available; use %s", r->path,
                     type != NULL ? type : (*found)->type,
                     type != NULL ? "Adam, AdamW or Lamb" : (*found)->instead);
}

static enum berth_status apply_parameter(struct reading *r, const struct option_row *row,
                                         const struct deepspeed_optimizer *optimizer,
                                         struct berth_error *error) {
    if (words_contain(optimizer->lacks, ' ', strrchr(row->deepspeed, '.') + 1)) {
        return deepspeed_value(r->root, row->deepspeed) == NULL
                   ? BERTH_OK
                   : error_set(error, BERTH_CONFIG,
                               "%s: key \"%s\" does not belong to optimizer %s", r->path,
                               row->deepspeed, optimizer->type);
    }
    return optimizer->decoupled && strcmp(row->name, "adam_w_mode") == 0
               ? set_row(r, row->name, "optimizer.type", "true", error)
               : apply_row(r, row->name, error);
}

static enum berth_status apply_optimizer(struct reading *r, struct berth_error *error) {
    if (deepspeed_value(r->root, "optimizer") == NULL) {
        return BERTH_OK;
    }
    const struct deepspeed_optimizer *optimizer;
    TRY(find_optimizer(r, &optimizer, error));
    TRY(set_row(r, "optimizer", "optimizer.type", optimizer->name, error));
    if (!has_key(r, "optimizer.params.lr") && !is_given(r, "learning_rate")) {
        log_note(r->log,
                 "%s: no optimizer.params.lr: the learning rate is DeepSpeed's default of 0.001",
                 r->path);
    }
    static const char params[] = "optimizer.params.";
    for (size_t i = 0; i < option_row_count; i++) {
        const char *path = option_rows[i].deepspeed;
        if (path != NULL && strncmp(path, params, strlen(params)) == 0) {
            TRY(apply_parameter(r, &option_rows[i], optimizer, error));
        }
    }
    return BERTH_OK;
}

// --- schedule -----------------------------------------------------------------------------------

// DeepSpeed's schedules.
static const struct deepspeed_schedule {
    const char *type;
    const char *log, *linear; // Berth's names by warmup_type; NULL: not available
    int cosine;               // its parameters are fractions of the optimizer's rate
    int keeps_rate;           // without a maximum, that of the optimizer stays
} schedules[] = {
    {.type = "WarmupLR", .log = "warmup_log", .linear = "warmup_linear", .keeps_rate = 1},
    {.type = "WarmupDecayLR", .log = "warmup_decay_log", .linear = "warmup_decay_linear"},
    {.type = "WarmupCosineLR",
     .log = "warmup_cosine_log",
     .linear = "warmup_cosine_linear",
     .cosine = 1},
};
static const size_t schedule_count = sizeof schedules / sizeof schedules[0];

static enum berth_status find_schedule(const struct reading *r,
                                       const struct deepspeed_schedule **found,
                                       struct berth_error *error) {
    const char *type = json_text(deepspeed_value(r->root, "scheduler.type"));
    for (size_t i = 0; type != NULL && i < schedule_count; i++) {
        if (strcmp(type, schedules[i].type) == 0) {
            *found = &schedules[i];
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: key \"scheduler.type\": \"%s\" is not available; expected WarmupLR, "
                     "WarmupDecayLR or WarmupCosineLR (or omit it and use schedule)",
                     r->path, type != NULL ? type : "");
}

static enum berth_status is_linear(const struct reading *r, int *linear,
                                   struct berth_error *error) {
    const char *warmup = json_text(deepspeed_value(r->root, "scheduler.params.warmup_type"));
    *linear = warmup != NULL && strcmp(warmup, "linear") == 0;
    return warmup == NULL || *linear || strcmp(warmup, "log") == 0
               ? BERTH_OK
               : error_set(
                     error, BERTH_CONFIG,
                     "%s: key \"scheduler.params.warmup_type\": expected log or linear, found "
                     "\"%s\"",
                     r->path, warmup);
}

// Without a scheduler DeepSpeed keeps the rate constant, but a program around it may not: a
// schedule or warm-up on the command line takes precedence, and in a file with "auto" the Trainer's
// schedule.
static enum berth_status apply_no_schedule(struct reading *r, struct berth_error *error) {
    static const char *const named[] = {"schedule", "warmup_steps", "warmup_proportion", "recipe"};
    int own = deepspeed_has_auto(r->root);
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        own |= is_given(r, named[i]);
    }
    if (own) {
        log_note(r->log, "%s: no scheduler: the run's own schedule and warm-up apply", r->path);
        return BERTH_OK;
    }
    log_note(r->log,
             "%s: no scheduler: the learning rate stays constant, as in DeepSpeed; schedule NAME "
             "chooses another",
             r->path);
    return set_row(r, "schedule", "scheduler.type", "constant", error);
}

// WarmupCosineLR: rates are fractions of the optimizer's, which stays the maximum.
static enum berth_status apply_ratios(struct reading *r, struct berth_error *error) {
    const json *ratio = deepspeed_value(r->root, "scheduler.params.warmup_min_ratio");
    char text[NUMBER_TEXT_SIZE];
    number_print_real(text, sizeof text,
                      ratio != NULL ? json_as_real(ratio) * r->config->optimizer.learning_rate : 0);
    TRY(set_row(r, "warmup_min_lr", "scheduler.params.warmup_min_ratio", text, error));
    return apply_row(r, "cos_min_ratio", error);
}

// The schedule's maximum replaces the optimizer's rate, which is WarmupLR's default.
static enum berth_status apply_rates(struct reading *r, const struct deepspeed_schedule *schedule,
                                     struct berth_error *error) {
    const int keeps = schedule->keeps_rate && has_key(r, "optimizer.params.lr");
    if (!has_key(r, "scheduler.params.warmup_max_lr") && !is_given(r, "learning_rate")) {
        log_note(r->log, "%s: no scheduler.params.warmup_max_lr: the learning rate rises to %s",
                 r->path,
                 keeps ? "optimizer.params.lr, as in DeepSpeed from 0.17.2 on (0.001 before)"
                       : "DeepSpeed's default of 0.001");
    }
    TRY(apply_key(r, "learning_rate", "scheduler.params.warmup_max_lr", keeps ? NULL : "0.001",
                  error));
    return apply_row(r, "warmup_min_lr", error);
}

static enum berth_status apply_schedule(struct reading *r, struct berth_error *error) {
    if (deepspeed_value(r->root, "scheduler") == NULL) {
        return apply_no_schedule(r, error);
    }
    const struct deepspeed_schedule *schedule = NULL;
    int linear = 0;
    TRY(find_schedule(r, &schedule, error));
    TRY(is_linear(r, &linear, error));
    const char *name = linear ? schedule->linear : schedule->log;
    TRY(set_row(r, "schedule", "scheduler.type", name, error));
    if (is_given(r, "schedule") && strcmp(r->before.optimizer.schedule, name) != 0) {
        return BERTH_OK;
    }
    TRY(schedule->cosine ? apply_ratios(r, error) : apply_rates(r, schedule, error));
    if (!is_given(r, "warmup_proportion")) {
        TRY(apply_row(r, "warmup_steps", error));
    }
    if (deepspeed_value(r->root, "scheduler.params.total_num_steps") != NULL) {
        log_note(
            r->log,
            "%s: scheduler.params.total_num_steps is replaced by the run's own number of updates",
            r->path);
    }
    return BERTH_OK;
}

// --- precision ----------------------------------------------------------------------------------

static const char *const dynamic_keys[] = {"fp16.initial_scale_power", "fp16.loss_scale_window",
                                           "fp16.min_loss_scale", "fp16.hysteresis", NULL};

static int has_any(const struct reading *r, const char *const *keys) {
    while (*keys != NULL && deepspeed_value(r->root, *keys) == NULL) {
        keys++;
    }
    return *keys != NULL;
}

static enum berth_status apply_initial_scale(struct reading *r, int fallback,
                                             struct berth_error *error) {
    const json *power = deepspeed_value(r->root, "fp16.initial_scale_power");
    const int64_t exponent = power != NULL ? json_as_integer(power) : fallback;
    const int64_t least = exponent < DBL_MAX_EXP ? exponent : DBL_MAX_EXP; // infinite then
    char text[NUMBER_TEXT_SIZE];
    number_print_real(text, sizeof text, ldexp(1, least > DBL_MIN_EXP ? (int)least : DBL_MIN_EXP));
    return set_row(r, "init_loss_scale", "fp16.initial_scale_power", text, error);
}

// If a file has none of the dynamic keys, DeepSpeed's ZeRO optimizers use the defaults of their
// scaler, not those of the configuration.
static enum berth_status apply_dynamic_scale(struct reading *r, struct berth_error *error) {
    const json *stage = deepspeed_value(r->root, "zero_optimization.stage");
    const int zero = stage != NULL && json_as_integer(stage) > 0;
    const int bare = zero && !has_any(r, dynamic_keys);
    TRY(set_row(r, "loss_scale", "fp16.loss_scale", "dynamic", error));
    TRY(set_row(r, "loss_scaler", "zero_optimization.stage", zero ? "zero" : "plain", error));
    TRY(apply_initial_scale(r, bare ? 32 : 16, error));
    TRY(apply_row(r, "loss_scale_window", error));
    TRY(bare ? apply_key(r, "hysteresis", "fp16.hysteresis", "1", error)
             : apply_row(r, "hysteresis", error));
    TRY(apply_row(r, "consecutive_hysteresis", error));
    return apply_row(r, "min_loss_scale", error);
}

static enum berth_status apply_static_scale(struct reading *r, struct berth_error *error) {
    TRY(set_row(r, "loss_scale", "fp16.loss_scale", "static", error));
    return is_given(r, "loss_scale")
               ? BERTH_OK
               : apply_key(r, "init_loss_scale", "fp16.loss_scale", NULL, error);
}

// "auto" means what the run would use without the file, as with the Trainer's --fp16 and --bf16.
static int has_auto_precision(const struct reading *r) {
    return deepspeed_is_auto(r->root, "fp16.enabled") ||
           deepspeed_is_auto(r->root, "bf16.enabled") ||
           deepspeed_is_auto(r->root, "bfloat16.enabled");
}

static enum berth_status apply_precision(struct reading *r, struct berth_error *error) {
    const char *names[] = {"fp32", "bf16", "fp16", "int8", "auto"};
    int half = json_truth(deepspeed_value(r->root, "fp16.enabled"));
    int brain = json_truth(deepspeed_value(r->root, "bf16.enabled")) ||
                json_truth(deepspeed_value(r->root, "bfloat16.enabled"));
    if (half && brain) {
        return error_set(error, BERTH_CONFIG,
                         "%s: \"fp16\" and \"bf16\" are both enabled; enable only one of them",
                         r->path);
    }
    if (!half && !brain && has_auto_precision(r)) {
        log_note(r->log,
                 "%s: precision is \"auto\": the run uses its own precision, %s, without loss "
                 "scaling unless loss_scale is set",
                 r->path, names[r->config->machine.precision]);
        return BERTH_OK;
    }
    const char *key = half                             ? "fp16.enabled"
                      : has_key(r, "bfloat16.enabled") ? "bfloat16.enabled"
                                                       : "bf16.enabled";
    // Only GPUs support fp16; the device that "auto" selects is not known yet.
    const char *device = r->config->machine.device;
    const enum berth_precision half_runs_as =
        r->config->machine.precision == BERTH_FP16 ||
                (device != NULL && strcmp(device, "cpu") != 0 && strcmp(device, "auto") != 0)
            ? BERTH_FP16
            : BERTH_BF16;
    const enum berth_precision precision = half ? half_runs_as : brain ? BERTH_BF16 : BERTH_FP32;
    TRY(set_row(r, "precision", key, names[precision], error));
    if (half && r->config->machine.precision == half_runs_as) {
        const json *fixed = deepspeed_value(r->root, "fp16.loss_scale");
        if (r->config->machine.precision == BERTH_BF16) {
            log_note(r->log,
                     "%s: fp16 runs as bf16, because device names no GPU, with the loss scaling of "
                     "the file",
                     r->path);
        }
        return fixed != NULL && json_as_real(fixed) != 0 ? apply_static_scale(r, error)
                                                         : apply_dynamic_scale(r, error);
    }
    if (!half && !brain && !is_given(r, "precision")) {
        log_note(r->log, "%s: precision: fp32, because neither fp16 nor bf16 is enabled", r->path);
    }
    return BERTH_OK;
}

// --- scalars ------------------------------------------------------------------------------------

// output_path/job_name, with DeepSpeed's own defaults: no folder and a fixed name.
static enum berth_status scalars_folder(const json *root, char **folder,
                                        struct berth_error *error) {
    const char *path = json_text(deepspeed_value(root, "tensorboard.output_path"));
    const char *job = json_text(deepspeed_value(root, "tensorboard.job_name"));
    *folder = NULL;
    if (!json_truth(deepspeed_value(root, "tensorboard.enabled"))) {
        return BERTH_OK;
    }
    job = job != NULL ? job : "DeepSpeedJobName";
    *folder = path == NULL || path[0] == '\0' ? memory_string(job) : path_join(path, job);
    return *folder != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

enum berth_status deepspeed_logging_dir(const char *path, char **folder,
                                        struct berth_error *error) {
    json *root;
    *folder = NULL;
    TRY(json_read_file(path, &root, error));
    enum berth_status status = scalars_folder(root, folder, error);
    json_free(root);
    return status;
}

// --- files that override the command line -------------------------------------------------------

#define BATCH_KEYS "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps"

// The settings that DeepSpeed's engine takes from the file, and the keys that decide them.
static const struct {
    const char *name, *keys;
} engine_settings[] = {
    {"train_batch_size", BATCH_KEYS},
    {"per_device_train_batch_size", BATCH_KEYS},
    {"gradient_accumulation_steps", BATCH_KEYS},
    {"precision", "fp16 bf16 bfloat16"},
    {"learning_rate", "optimizer.params.lr"},
    {"logging_steps", "steps_per_print"},
    {"wall_clock_breakdown", "wall_clock_breakdown"},
};

// Forgets command-line settings that the file decides.
static void prefer_file(struct reading *r) {
    for (size_t i = 0; i < sizeof engine_settings / sizeof *engine_settings; i++) {
        const char *keys = engine_settings[i].keys;
        char key[OPTION_NAME_SIZE];
        int found = 0;
        while (!found && option_next_name(&keys, key)) {
            found = deepspeed_value(r->root, key) != NULL;
        }
        if (found) {
            settings_forget(r->config, option_find(engine_settings[i].name));
        }
    }
    r->before = *r->config;
}

static void note_overridden(const struct reading *r, const struct settings *typed) {
    for (size_t i = 0; i < sizeof engine_settings / sizeof *engine_settings; i++) {
        const struct option_row *row = option_find(engine_settings[i].name);
        char own[128], other[128];
        settings_print(typed, row, own, sizeof own);
        settings_print(r->config, row, other, sizeof other);
        if (settings_row_is_given(typed, row) && strcmp(own, other) != 0) {
            log_note(r->log, "%s: %s overrides %s on the command line, as in the program of %s",
                     row->name, r->path, own, typed->run.recipe);
        }
    }
}

// Reports an unavailable type first, before errors about keys that only this type has.
static enum berth_status check_names(const struct reading *r, struct berth_error *error) {
    const struct deepspeed_optimizer *optimizer;
    const struct deepspeed_schedule *schedule;
    TRY(find_optimizer(r, &optimizer, error));
    return json_is_text(deepspeed_value(r->root, "scheduler.type"))
               ? find_schedule(r, &schedule, error)
               : BERTH_OK;
}

enum berth_status deepspeed_apply(struct settings *config, const char *path,
                                  const struct berth_log *log, struct berth_error *error) {
    json *root;
    TRY(json_read_file(path, &root, error));
    const struct settings typed = *config;
    struct reading reading = {
        .config = config, .before = typed, .root = root, .path = path, .log = log};
    const int prefers_file = recipe_prefers_file(config->run.recipe);
    enum berth_status status;
    if (prefers_file) {
        prefer_file(&reading);
    }
    TRY_DONE(check_names(&reading, error));
    TRY_DONE(deepspeed_check(root, path, log, error));
    TRY_DONE(apply_top_level(&reading, error));
    TRY_DONE(apply_optimizer(&reading, error));
    TRY_DONE(apply_schedule(&reading, error));
    TRY_DONE(apply_precision(&reading, error));
    // The reporter uses the folder of scalars; this only logs that the file's is overridden.
    const struct reading *r = &reading;
    const char *own = r->before.report.logging_dir;
    char *folder;
    TRY_DONE(scalars_folder(r->root, &folder, error));
    if (folder != NULL && own != NULL && strcmp(folder, own) != 0) {
        log_note(r->log, "logging_dir: %s on the command line overrides tensorboard %s of %s", own,
                 folder, r->path);
    }
    memory_free(folder);
    if (prefers_file) {
        note_overridden(&reading, &typed);
    }
done:
    json_free(root);
    return status;
}
