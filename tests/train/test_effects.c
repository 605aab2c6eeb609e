// SPDX-License-Identifier: Apache-2.0
// Tests which options of schedules, optimizers, loss scales and exchanges are noted as without
// effect.
#include "core/harness.h"
#include "core/scratch.h"
#include "settings/effects.h"

#include <stdio.h>
#include <string.h>

static char notes[2048];

static void collect(void *context, const struct berth_record *record) {
    size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", record->text);
}

static const struct berth_log log_to_notes = {.write = collect};

// `typed` and `others` are names and values, the latter of a file or recipe.
static void expect(const char *expected, const char *const *typed, const char *const *others) {
    struct settings config, before;
    settings_init(&config);
    for (; *typed != NULL; typed += 2) {
        assert_int_equal(settings_set_row(&config, option_find(typed[0]), typed[1], NULL),
                         BERTH_OK);
    }
    before = config;
    for (; *others != NULL; others += 2) {
        assert_int_equal(settings_set_row(&config, option_find(others[0]), others[1], NULL),
                         BERTH_OK);
    }
    config.optimizer.optimizer =
        config.optimizer.optimizer != NULL ? config.optimizer.optimizer : "adamw";
    notes[0] = '\0';
    settings_note_effects(&before, &config, JOB_TRAIN, 1, &log_to_notes);
    assert_string_equal(notes, expected);
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE ((const char *const[]){NULL})

static void test_schedules(void **state) {
    (void)state;
    expect("decay_rate has no effect with schedule linear\n"
           "decay_step has no effect with schedule linear\n",
           LIST("decay_rate", "0.5", "decay_step", "3"), NONE);
    expect("", LIST("decay_rate", "0.5", "decay_step", "3", "schedule", "EE"), NONE);
    expect("", LIST("decay_rate", "0.5"), LIST("schedule", "LE"));
    expect("", NONE, LIST("decay_rate", "0.5", "cos_min_ratio", "0.1", "hysteresis", "3"));
    expect("cos_min_ratio has no effect with schedule warmup_log\n",
           LIST("cos_min_ratio", "0.1", "warmup_min_lr", "1e-6", "schedule", "warmup_log"), NONE);
    expect("warmup_min_lr has no effect with schedule poly\n",
           LIST("warmup_min_lr", "1e-6", "schedule", "poly"), NONE);
    expect("", LIST("cos_min_ratio", "0.1", "schedule", "warmup_cosine_linear"), NONE);
}

static void test_a_constant_rate_has_no_warmup(void **state) {
    (void)state;
    expect("warmup_proportion has no effect with schedule constant\n"
           "warmup_steps has no effect with schedule constant\n",
           LIST("warmup_steps", "3", "warmup_proportion", "0.2", "schedule", "constant"), NONE);
    expect("", LIST("warmup_steps", "0", "warmup_proportion", "0", "schedule", "constant"), NONE);
    expect("", LIST("warmup_steps", "3", "schedule", "constant_warmup"), NONE);
    expect("", NONE, LIST("warmup_steps", "3", "schedule", "constant"));
}

static void test_optimizers(void **state) {
    (void)state;
    expect("max_coeff has no effect with optimizer nvlamb\n"
           "min_coeff has no effect with optimizer nvlamb\n",
           LIST("max_coeff", "5", "min_coeff", "0.1", "optimizer", "nvlamb"), NONE);
    expect("", LIST("max_coeff", "5", "min_coeff", "0.1", "optimizer", "lamb"), NONE);
}

static void test_other_options(void **state) {
    (void)state;
    expect("clip_by has no effect with max_grad_norm 0\n"
           "spike_factor has no effect with spike_policy none\n",
           LIST("clip_by", "tensor", "max_grad_norm", "0", "spike_factor", "5"), NONE);
    expect("", LIST("clip_by", "tensor", "spike_factor", "5", "spike_policy", "warn"), NONE);
    expect("clip_by has no effect with max_grad_norm 0\n", LIST("clip_by", "both"),
           LIST("max_grad_norm", "0"));
    expect("save_steps has no effect with skip_checkpoint true\n"
           "save_total_limit has no effect with skip_checkpoint true\n"
           "save_strategy has no effect with skip_checkpoint true\n"
           "on_save_error has no effect with skip_checkpoint true\n",
           LIST("save_steps", "3", "save_total_limit", "4", "on_save_error", "continue",
                "save_strategy", "steps", "skip_checkpoint", "true"),
           LIST("async_save", "true"));
    expect("", LIST("save_steps", "3", "save_total_limit", "4", "on_save_error", "continue"), NONE);
    expect("", LIST("skip_checkpoint", "true"), LIST("save_steps", "1000"));
    expect("vocab_multiple has no effect with model_name_or_path\n"
           "initializer has no effect with model_name_or_path\n"
           "logging_axis has no effect without logging_dir\n",
           LIST("logging_axis", "steps", "initializer", "truncated_normal", "vocab_multiple", "8",
                "model_name_or_path", "model"),
           NONE);
    expect("", LIST("logging_axis", "steps", "logging_dir", "scalars", "vocab_multiple", "8"),
           LIST("initializer", "normal"));
}

// The folder of scalars may be DeepSpeed's.
static void a_deepspeed_file_names_the_folder_of_scalars(void **state) {
    const char *const files[] = {"{\"tensorboard\": {\"enabled\": false}}",
                                 "{\"tensorboard\": {\"enabled\": true}}"};
    for (int enabled = 0; enabled < 2; enabled++) {
        scratch_write("ds.json", files[enabled]);
        expect(enabled ? "" : "logging_axis has no effect without logging_dir\n",
               LIST("logging_axis", "steps", "deepspeed_config", scratch("ds.json")), NONE);
    }
}

static void test_loss_scales(void **state) {
    (void)state;
    expect("loss_scaler has no effect with loss_scale none\n"
           "init_loss_scale has no effect with loss_scale none\n"
           "min_loss_scale has no effect with loss_scale none\n"
           "loss_scale_window has no effect with loss_scale none\n"
           "hysteresis has no effect with loss_scale none\n"
           "consecutive_hysteresis has no effect with loss_scale none\n",
           LIST("init_loss_scale", "8", "loss_scaler", "zero", "min_loss_scale", "2",
                "loss_scale_window", "3", "hysteresis", "3", "consecutive_hysteresis", "true"),
           NONE);
    expect("init_loss_scale has no effect with loss_scale 128\n",
           LIST("init_loss_scale", "8", "loss_scale", "128"), NONE);
    expect("loss_scale_window has no effect with loss_scale static\n",
           LIST("init_loss_scale", "8", "loss_scale_window", "3", "loss_scale", "static"), NONE);
    expect("hysteresis has no effect with loss_scaler plain\n",
           LIST("hysteresis", "3", "loss_scale_window", "3", "loss_scale", "0", "loss_scaler",
                "plain"),
           NONE);
    expect("", LIST("hysteresis", "3", "loss_scale_window", "3", "precision", "fp16"), NONE);
}

static void expect_with_ranks(int ranks, const char *expected, const char *const *typed) {
    struct settings config;
    settings_init(&config);
    for (; *typed != NULL; typed += 2) {
        assert_int_equal(settings_set_row(&config, option_find(typed[0]), typed[1], NULL),
                         BERTH_OK);
    }
    notes[0] = '\0';
    settings_note_effects(&config, &config, JOB_TRAIN, ranks, &log_to_notes);
    assert_string_equal(notes, expected);
}

static void test_exchanges(void **state) {
    (void)state;
    expect_with_ranks(1,
                      "zero_stage has no effect in one process\n"
                      "communication_data_type has no effect in one process\n",
                      LIST("zero_stage", "1", "communication_data_type", "bf16"));
    expect_with_ranks(2, "", LIST("zero_stage", "1", "communication_data_type", "bf16"));
    expect_with_ranks(2, "allgather_bucket_size has no effect with zero_stage 0\n",
                      LIST("allgather_bucket_size", "1000"));
    expect_with_ranks(2, "communication_data_type has no effect with virtual_ranks 4\n",
                      LIST("communication_data_type", "bf16", "virtual_ranks", "4"));
}

// A clause names a setting, and values that it can have.
static void check_clause(const struct option_row *row, char *clause) {
    char *name = clause + (*clause == '!'), *rest = name + strcspn(name, "=!");
    const int has_values = *rest != '\0';
    char *values = has_values ? rest + 1 + (*rest == '!') : rest;
    *rest = '\0';
    const struct option_row *other = option_find(name);
    if (other == NULL && strcmp(name, "processes") != 0 && strcmp(name, "ranks") != 0) {
        fail_msg("%s: only_with: no setting %s", row->name, name);
    }
    assert_true(other != NULL || !has_values);
    for (char *value = strtok(values, "|"); value != NULL; value = strtok(NULL, "|")) {
        struct settings config;
        settings_init(&config);
        const int is_rule = strcmp(name, "loss_scale") == 0 &&
                            (strcmp(value, "zero") == 0 || strcmp(value, "plain") == 0);
        if (!is_rule && settings_set_row(&config, other, value, NULL) != BERTH_OK) {
            fail_msg("%s: only_with: %s is no value of %s", row->name, value, name);
        }
    }
}

static void every_requirement_names_settings_and_their_values(void **state) {
    size_t rows = 0;
    (void)state;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        char text[512], clause[256];
        snprintf(text, sizeof text, "%s", row->only_with != NULL ? row->only_with : "");
        rows += text[0] != '\0';
        for (char *at = text; *at != '\0';) {
            const size_t length = strcspn(at, "; ");
            snprintf(clause, sizeof clause, "%.*s", (int)length, at);
            check_clause(row, clause);
            at += length;
            at += strncmp(at, "; ", 2) == 0 ? 2 : strncmp(at, " or ", 4) == 0 ? 4 : strlen(at);
        }
    }
    assert_true(rows > 50);
}

static void requirements_are_told_in_words(void **state) {
    static const struct {
        const char *option, *text;
        unsigned jobs;
    } cases[] = {
        {"decay_rate", "only with schedule EE or LE", JOB_TRAIN},
        {"save_steps", "not with skip_checkpoint; only with save_strategy steps", JOB_TRAIN},
        {"eval_delay", "only with evaluate_every_epoch or only with eval_steps", JOB_TRAIN},
        {"warmup_steps", "not with schedule constant", JOB_TRAIN},
        {"zero_stage", "only with several processes", JOB_TRAIN},
        {"text_column", "not with task_name", JOB_FINETUNE_CLASSIFY},
        {"text_column", "", JOB_FINETUNE_EMBED}, // which has no task_name
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer text = {0};
        settings_put_only_with(&text, option_find(cases[i].option), cases[i].jobs);
        buffer_put_byte(&text, 0);
        assert_string_equal(text.bytes, cases[i].text);
        buffer_done(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_a_constant_rate_has_no_warmup),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_loss_scales),
        cmocka_unit_test(test_other_options),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(every_requirement_names_settings_and_their_values),
        cmocka_unit_test(requirements_are_told_in_words),
        SCRATCH_TEST(a_deepspeed_file_names_the_folder_of_scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
