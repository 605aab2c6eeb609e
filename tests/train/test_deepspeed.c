// SPDX-License-Identifier: Apache-2.0
// Tests the DeepSpeed JSON: the published configurations, defaults, conflicts with the command
// line, and every error.
#include "core/buffer.h"
#include "core/scratch.h"
#include "settings/deepspeed.h"
#include "settings/deepspeed_keys.h"
#include "settings/settings.h"

#include <math.h>

static char notes[8192];

static void collect(void *context, const struct berth_record *record) {
    size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", record->text);
}

static const struct berth_log log_to_notes = {.write = collect};

static void set(struct settings *config, const char *name, const char *value) {
    assert_int_equal(settings_set_row(config, option_find(name), value, NULL), BERTH_OK);
}

static enum berth_status apply(struct settings *config, const char *text,
                               struct berth_error *error) {
    notes[0] = '\0';
    scratch_write("ds.json", text);
    return deepspeed_apply(config, scratch("ds.json"), &log_to_notes, error);
}

static struct settings good(const char *text) {
    struct settings config;
    struct berth_error error = {0};
    settings_init(&config);
    if (apply(&config, text, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return config;
}

static void assert_note(const char *part) {
    if (strstr(notes, part) == NULL) {
        fail_msg("no note with \"%s\" in \"%s\"", part, notes);
    }
}

// deepspeed_bsz24_config.json of BingBertSquad.
static void test_bing_bert_squad(void **state) {
    struct settings config =
        good("{\"train_batch_size\":24,\"train_micro_batch_size_per_gpu\":3,\"steps_per_print\":5,"
             "\"optimizer\":{\"type\":\"Adam\",\"params\":{\"lr\":3e-5,\"weight_decay\":0.0,"
             "\"bias_correction\":false}},\"gradient_clipping\":1.0,\"fp16\":{\"enabled\":true}}");
    assert_int_equal(config.engine.train_batch_size, 24);
    assert_int_equal(config.engine.per_device_train_batch_size, 3);
    assert_int_equal(config.run.logging_steps, 5);
    assert_true(config.optimizer.learning_rate == 3e-5);
    assert_true(config.optimizer.weight_decay == 0);
    assert_int_equal(config.optimizer.bias_correction, 0);
    assert_int_equal(config.optimizer.adam_w_mode, 1); // "Adam" means AdamW's logic
    assert_true(config.optimizer.max_grad_norm == 1);
    assert_int_equal(config.machine.precision, BERTH_BF16);
    assert_note("fp16 runs as bf16");
}

// ds_config.json of the CSCS system.
static void test_cscs(void **state) {
    struct settings config =
        good("{\"train_batch_size\":512,\"gradient_accumulation_steps\":1,\"steps_per_print\":10,"
             "\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":5e-5}},"
             "\"zero_optimization\":{\"stage\":1,\"allgather_bucket_size\":5e8}}");
    assert_int_equal(config.engine.train_batch_size, 512);
    assert_int_equal(config.engine.gradient_accumulation_steps, 1);
    assert_true(config.optimizer.learning_rate == 5e-5);
    assert_true(config.optimizer.weight_decay == 0);  // DeepSpeed's default
    assert_true(config.optimizer.max_grad_norm == 0); // absent: off
    assert_int_equal(config.machine.precision, BERTH_FP32);
    assert_int_equal(config.engine.zero_stage, 1);
    assert_int_equal(config.engine.allgather_bucket_size, 500000000);
    assert_null(strstr(notes, "no effect"));
}

static void test_exchanges(void **state) {
    struct settings config =
        good("{\"train_batch_size\":8,\"communication_data_type\":\"fp16\","
             "\"zero_optimization\":{\"stage\":2,\"overlap_comm\":false,\"reduce_bucket_size\":1e6,"
             "\"allgather_bucket_size\":2000}}");
    assert_int_equal(config.engine.zero_stage, 2);
    assert_int_equal(config.engine.overlap_comm, 0);
    assert_int_equal(config.engine.reduce_bucket_size, 1000000);
    assert_int_equal(config.engine.allgather_bucket_size, 2000);
    assert_string_equal(config.engine.communication_data_type, "fp16");
    config = good("{\"train_batch_size\":8,\"zero_optimization\":{\"stage\":1,"
                  "\"overlap_comm\":\"auto\",\"reduce_bucket_size\":\"auto\"}}");
    assert_int_equal(config.engine.overlap_comm, 1);
    assert_int_equal(config.engine.reduce_bucket_size, 0);
}

// A key that asks for what is always so has no note, one that asks for something else the reason.
static void test_keys_without_effect_say_why(void **state) {
    good("{\"train_batch_size\":8,\"prescale_gradients\":false,\"zero_optimization\":{"
         "\"stage\":1,\"allgather_partitions\":true,\"reduce_scatter\":true,"
         "\"contiguous_gradients\":true,\"round_robin_gradients\":false,"
         "\"load_from_fp32_weights\":true,\"elastic_checkpoint\":true},"
         "\"comms_logger\":{\"enabled\":false}}");
    assert_null(strstr(notes, "no effect"));
    good("{\"train_batch_size\":8,\"prescale_gradients\":true,\"gradient_predivide_factor\":8.0,"
         "\"zero_optimization\":{\"stage\":1,\"allgather_partitions\":false,"
         "\"reduce_scatter\":false,\"contiguous_gradients\":false,"
         "\"round_robin_gradients\":true,\"load_from_fp32_weights\":false,"
         "\"elastic_checkpoint\":false},\"comms_logger\":{\"enabled\":true}}");
    static const char *const expected[] = {
        "prescale_gradients: no effect: gradients are divided before they are added, in fp32",
        "gradient_predivide_factor: no effect: gradients are divided before they are added",
        "allgather_partitions: no effect: each process sends its part",
        "reduce_scatter: no effect: sums of gradients go only to",
        "contiguous_gradients: no effect: gradients are one block",
        "round_robin_gradients: no effect: every layer's gradients are divided",
        "load_from_fp32_weights: no effect: a checkpoint has the fp32 master weights",
        "elastic_checkpoint: no effect: any number of processes",
        "comms_logger: no effect: comm_exposed_seconds"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_note(expected[i]);
    }
    good("{\"train_batch_size\":8,\"amp\":{\"enabled\":true},\"torch_autocast\":{\"enabled\":"
         "true}}"); // with one reason
    assert_note("ds.json: torch_autocast, amp: no effect: bf16 and fp16 decide the precision");
}

// Sections of features that Berth does not have: a note if one is enabled, however deep.
static void test_sections_without_effect(void **state) {
    good("{\"train_batch_size\":8,\"managed_gradient_accumulation\":true,\"comet\":{\"enabled\":"
         "false,\"project\":\"p\"},\"compression_training\":{\"weight_quantization\":{"
         "\"shared_parameters\":{\"enabled\":false,\"rounding\":\"nearest\"}}},\"compile\":{"
         "\"deepcompile\":false},\"timers\":{\"throughput\":{\"enabled\":false}},\"pipeline\":{},"
         "\"tensor_parallel\":{},\"hybrid_engine\":{\"enabled\":false,\"max_out_tokens\":512},"
         "\"zero_optimization\":{\"stage\":2,\"compute_grad_norm\":true,\"parameter_alignment\":"
         "false,\"zenflow\":null,\"leaf_module\":{},\"enable_sanity_checks\":false}}");
    assert_null(strstr(notes, "no effect"));
    good(
        "{\"train_batch_size\":8,\"managed_gradient_accumulation\":false,\"comet\":{\"enabled\":"
        "true},\"compression_training\":{\"weight_quantization\":{\"shared_parameters\":{"
        "\"enabled\":true}}},\"compile\":{\"deepcompile\":true},\"timers\":{\"throughput\":{"
        "\"enabled\":true}},\"pipeline\":{\"stages\":\"auto\"},\"tensor_parallel\":{"
        "\"autotp_size\":4},\"hybrid_engine\":{\"enabled\":true},\"zero_optimization\":{\"stage\":"
        "2,"
        "\"compute_grad_norm\":false,\"parameter_alignment\":true,\"zenflow\":{\"topk_ratio\":0.1},"
        "\"leaf_module\":{\"classes\":[\"a\"]},\"enable_sanity_checks\":true,"
        "\"prefetch_bucket_size\":1}}");
    static const char *const expected[] = {
        "managed_gradient_accumulation: no effect: the run adds up the gradients",
        "comet: no effect: json_summary",
        "compression_training: no effect: not supported",
        "compile: no effect: every operation is compiled",
        "timers: no effect: use profile",
        "pipeline, tensor_parallel: no effect: processes divide updates",
        "hybrid_engine: no effect: BERT generates no text",
        "zero_optimization.compute_grad_norm: no effect: every update has its norm",
        "zero_optimization.parameter_alignment: no effect: the weights are one block",
        "zero_optimization.zenflow: no effect: a device keeps everything",
        "zero_optimization.leaf_module: no effect: for stage 3",
        "zero_optimization.enable_sanity_checks: no effect: replica_check_steps",
        "zero_optimization.prefetch_bucket_size: no effect: for stage 3"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_note(expected[i]);
    }
}

// The optimizer of BingBert's pre-training, phase 128.
static void test_lamb(void **state) {
    struct settings config =
        good("{\"train_batch_size\":64,\"optimizer\":{\"type\":\"Lamb\",\"params\":{\"lr\":11e-3,"
             "\"weight_decay\":0.01,\"bias_correction\":false,\"max_coeff\":0.3,"
             "\"min_coeff\":0.02}},\"gradient_clipping\":1.0}");
    assert_null(strstr(notes, "gradient_clipping"));
    assert_string_equal(config.optimizer.optimizer, "lamb");
    assert_true(config.optimizer.learning_rate == 11e-3 && config.optimizer.weight_decay == 0.01);
    assert_true(config.optimizer.max_coeff == 0.3 && config.optimizer.min_coeff == 0.02 &&
                config.optimizer.adam_epsilon == 1e-8);
    assert_int_equal(config.optimizer.bias_correction, 0);
    assert_int_equal(config.optimizer.eps_inside_sqrt, 0);
    config = good("{\"train_batch_size\":64,\"optimizer\":{\"type\":\"lamb\",\"params\":"
                  "{\"eps_inside_sqrt\":true}}}");
    assert_true(config.optimizer.learning_rate == 0.001 && config.optimizer.weight_decay == 0);
    assert_true(config.optimizer.max_grad_norm == 0);
    assert_note("no gradient_clipping: gradients are not clipped, as in DeepSpeed before 0.19.3");
    assert_true(config.optimizer.max_coeff == 10 && config.optimizer.min_coeff == 0.01);
    assert_int_equal(config.optimizer.eps_inside_sqrt, 1);
    config = good("{\"train_batch_size\":64,\"optimizer\":{\"type\":\"Adam\",\"params\":"
                  "{\"adam_w_mode\":false}}}");
    assert_string_equal(config.optimizer.optimizer, "adam");
    assert_int_equal(config.optimizer.adam_w_mode, 0);
    config = good("{\"train_batch_size\":64,\"optimizer\":{\"type\":\"AdamW\",\"params\":"
                  "{\"adam_w_mode\":false}}}");
    assert_string_equal(config.optimizer.optimizer, "adamw");
    assert_int_equal(config.optimizer.adam_w_mode, 1); // the name wins, as there
}

static struct settings with_settings(const char *text, const char *name, const char *value) {
    struct settings config;
    struct berth_error error = {0};
    settings_init(&config);
    set(&config, name, value);
    if (apply(&config, text, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return config;
}

static void test_schedules(void **state) {
    struct settings config =
        good("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"adam\",\"params\":{\"lr\":1e-4}},"
             "\"scheduler\":{\"type\":\"WarmupLR\",\"params\":{\"warmup_min_lr\":1e-6,"
             "\"warmup_max_lr\":2e-4,\"warmup_num_steps\":50}}}");
    assert_string_equal(config.optimizer.schedule, "warmup_log");
    assert_true(config.optimizer.learning_rate == 2e-4 && config.optimizer.warmup_min_lr == 1e-6);
    assert_int_equal(config.optimizer.warmup_steps, 50);
    config = good("{\"train_batch_size\":8,\"scheduler\":{\"type\":\"WarmupDecayLR\",\"params\":"
                  "{\"warmup_type\":\"linear\",\"total_num_steps\":100}}}");
    assert_string_equal(config.optimizer.schedule, "warmup_decay_linear");
    assert_int_equal(config.optimizer.warmup_steps, 1000);
    assert_true(config.optimizer.learning_rate == 0.001);
    config =
        good("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"adam\",\"params\":{\"lr\":1e-4}},"
             "\"scheduler\":{\"type\":\"WarmupCosineLR\",\"params\":{\"warmup_min_ratio\":0.1,"
             "\"warmup_num_steps\":50,\"cos_min_ratio\":0.2,\"warmup_type\":\"linear\"}}}");
    assert_string_equal(config.optimizer.schedule, "warmup_cosine_linear");
    assert_true(config.optimizer.learning_rate == 1e-4 &&
                fabs(config.optimizer.warmup_min_lr - 1e-5) < 1e-20);
    assert_true(config.optimizer.cos_min_ratio == 0.2);
    config = good("{\"train_batch_size\":8,\"scheduler\":{\"type\":\"WarmupLR\",\"params\":"
                  "{\"warmup_num_steps\":0}}}");
    assert_int_equal(config.optimizer.warmup_steps, 0);
    assert_int_equal(settings_row_is_given(&config, option_find("warmup_steps")), 1); // none
    config =
        with_settings("{\"train_batch_size\":8,\"scheduler\":{\"type\":\"WarmupLR\",\"params\":"
                      "{\"warmup_num_steps\":50}}}",
                      "warmup_proportion", "0.5");
    assert_int_equal(config.optimizer.warmup_steps, 0); // the command line takes precedence
    config = good("{\"train_batch_size\":8,\"scheduler\":{\"type\":\"WarmupLR\"}}");
    assert_note("no scheduler.params.warmup_max_lr: the learning rate rises to DeepSpeed's default "
                "of 0.001");
}

// WarmupLR keeps the optimizer's rate, WarmupDecayLR does not.
static void test_schedules_without_a_maximum(void **state) {
    struct settings config =
        good("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"adam\",\"params\":{\"lr\":1e-4}},"
             "\"scheduler\":{\"type\":\"WarmupLR\"}}");
    assert_true(config.optimizer.learning_rate == 1e-4);
    assert_note("no scheduler.params.warmup_max_lr: the learning rate rises to "
                "optimizer.params.lr, as in DeepSpeed");
    config =
        good("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"adam\",\"params\":{\"lr\":1e-4}},"
             "\"scheduler\":{\"type\":\"WarmupDecayLR\"}}");
    assert_true(config.optimizer.learning_rate == 0.001);
    assert_note("DeepSpeed's default of 0.001");
}

static void test_without_a_scheduler(void **state) {
    static const char text[] = "{\"train_batch_size\":8}";
    struct settings config = good(text);
    assert_string_equal(config.optimizer.schedule, "constant");
    assert_note("the learning rate stays constant");
    config = with_settings(text, "schedule", "cosine");
    assert_string_equal(config.optimizer.schedule, "cosine");
    assert_note("the run's own schedule");
    config = with_settings(text, "warmup_proportion", "0.2"); // BingBertSquad's
    assert_string_equal(config.optimizer.schedule, "linear");
    config = with_settings(text, "recipe", "bing-128"); // it has one
    assert_int_equal(settings_row_is_given(&config, option_find("schedule")), 0);
    config = good("{\"train_batch_size\":\"auto\"}"); // the Trainer's
    assert_string_equal(config.optimizer.schedule, "linear");
    assert_note("the run's own schedule");
}

// The integration file of transformers' documentation, with no value but the run's own.
static const char trainers[] =
    "{\"fp16\":{\"enabled\":\"auto\",\"loss_scale\":0,\"loss_scale_window\":1000,"
    "\"initial_scale_power\":16,\"hysteresis\":2,\"min_loss_scale\":1},"
    "\"bf16\":{\"enabled\":\"auto\"},"
    "\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":\"auto\",\"betas\":\"auto\","
    "\"eps\":\"auto\",\"weight_decay\":\"auto\"}},"
    "\"scheduler\":{\"type\":\"WarmupDecayLR\",\"params\":{\"warmup_min_lr\":\"auto\","
    "\"warmup_max_lr\":\"auto\",\"warmup_num_steps\":\"auto\",\"total_num_steps\":\"auto\"}},"
    "\"zero_optimization\":{\"stage\":3,\"offload_optimizer\":{\"device\":\"cpu\"},"
    "\"sub_group_size\":1e9,\"reduce_bucket_size\":\"auto\","
    "\"stage3_prefetch_bucket_size\":\"auto\",\"stage3_param_persistence_threshold\":\"auto\","
    "\"stage3_gather_16bit_weights_on_model_save\":true},"
    "\"gradient_accumulation_steps\":\"auto\",\"gradient_clipping\":\"auto\","
    "\"steps_per_print\":2000,\"train_batch_size\":\"auto\","
    "\"train_micro_batch_size_per_gpu\":\"auto\",\"wall_clock_breakdown\":false}";

static void test_auto_is_the_runs_own(void **state) {
    struct settings own, config = good(trainers);
    settings_init(&own);
    static const char *const same[] = {
        "learning_rate", "adam_beta1",    "adam_beta2",        "adam_epsilon",
        "weight_decay",  "max_grad_norm", "train_batch_size",  "per_device_train_batch_size",
        "precision",     "warmup_min_lr", "warmup_proportion", "gradient_accumulation_steps",
        "warmup_steps",  "loss_scale",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        char is[128], was[128];
        settings_print(&config, option_find(same[i]), is, sizeof is);
        settings_print(&own, option_find(same[i]), was, sizeof was);
        assert_string_equal(is, was);
        assert_int_equal(settings_row_is_given(&config, option_find(same[i])), 0);
    }
    assert_string_equal(config.optimizer.schedule, "warmup_decay_log");
    assert_string_equal(config.optimizer.optimizer, "adamw");
    assert_note("precision is \"auto\"");
    config = with_settings(trainers, "learning_rate", "7e-5");
    assert_true(config.optimizer.learning_rate == 7e-5);
    assert_null(strstr(notes, "wins"));
    config = with_settings(trainers, "precision", "bf16");
    assert_int_equal(config.machine.precision, BERTH_BF16);
    config = good("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"AdamW\",\"params\":"
                  "{\"lr\":\"auto\"}}}"); // DeepSpeed's defaults for what the file omits
    assert_true(config.optimizer.learning_rate == own.optimizer.learning_rate &&
                config.optimizer.weight_decay == 0);
}

static struct settings with_fp16(const char *keys, const char *rest) {
    char text[512];
    snprintf(text, sizeof text, "{\"train_batch_size\":8,\"fp16\":{\"enabled\":true%s}%s}", keys,
             rest);
    return good(text);
}

static void test_loss_scaling(void **state) {
    static const char zero[] = ",\"zero_optimization\":{\"stage\":1}";
    struct settings config = with_fp16("", zero);
    assert_string_equal(config.optimizer.loss_scale, "dynamic");
    assert_true(config.optimizer.init_loss_scale == 0x1p32);
    config = with_fp16("", "");
    assert_string_equal(config.optimizer.loss_scale, "dynamic");
    assert_string_equal(config.optimizer.loss_scaler, "plain");
    assert_true(config.optimizer.init_loss_scale == 0x1p16);
    config = with_fp16(",\"loss_scale\":128", zero);
    assert_string_equal(config.optimizer.loss_scale, "static");
    assert_true(config.optimizer.init_loss_scale == 128);
    config = with_fp16(",\"loss_scale\":0,\"initial_scale_power\":20,\"loss_scale_window\":500,"
                       "\"hysteresis\":3,\"min_loss_scale\":4,\"consecutive_hysteresis\":true",
                       zero);
    assert_string_equal(config.optimizer.loss_scale, "dynamic");
    assert_string_equal(config.optimizer.loss_scaler, "zero");
    assert_true(config.optimizer.init_loss_scale == 0x1p20 && config.optimizer.min_loss_scale == 4);
    assert_int_equal(config.optimizer.loss_scale_window, 500);
    assert_int_equal(config.optimizer.hysteresis, 3);
    assert_int_equal(config.optimizer.consecutive_hysteresis, 1);
    assert_note("with the loss scaling of the file");
    config = with_fp16(",\"loss_scale_window\":500", zero); // the other dynamic keys' defaults
    assert_true(config.optimizer.init_loss_scale == 0x1p16 && config.optimizer.min_loss_scale == 1);
    assert_int_equal(config.optimizer.hysteresis, 2);
    config = with_fp16(",\"loss_scale\":0", zero); // no dynamic key at all: the scaler's own
    assert_true(config.optimizer.init_loss_scale == 0x1p32);
    assert_int_equal(config.optimizer.hysteresis, 1);
    assert_int_equal(config.optimizer.loss_scale_window, 1000);
    config = with_fp16(",\"loss_scale\":0", "");
    assert_string_equal(config.optimizer.loss_scaler, "plain");
    assert_true(config.optimizer.init_loss_scale == 0x1p16);
    config = good("{\"train_batch_size\":8,\"fp16\":{\"enabled\":false,\"loss_scale\":128}}");
    assert_null(config.optimizer.loss_scale);
}

static void test_fp16_runs_as_such_on_a_gpu(void **state) {
    struct settings config;
    struct berth_error error;
    settings_init(&config);
    set(&config, "device", "cuda");
    assert_int_equal(apply(&config, "{\"train_batch_size\":8,\"fp16\":{\"enabled\":true}}", &error),
                     BERTH_OK);
    assert_int_equal(config.machine.precision, BERTH_FP16);
    assert_string_equal(config.optimizer.loss_scale, "dynamic");
    assert_null(strstr(notes, "bf16"));
    settings_init(&config); // the device is chosen later
    set(&config, "precision", "fp16");
    assert_int_equal(
        apply(&config, "{\"train_batch_size\":8,\"fp16\":{\"enabled\":true,\"loss_scale\":128}}",
              &error),
        BERTH_OK);
    assert_int_equal(config.machine.precision, BERTH_FP16);
    assert_string_equal(config.optimizer.loss_scale, "static");
    assert_true(config.optimizer.init_loss_scale == 128);
    assert_null(strstr(notes, "fp16"));
}

static void test_command_line_wins_and_says_so(void **state) {
    struct settings config;
    struct berth_error error;
    settings_init(&config);
    set(&config, "learning_rate", "1e-5");
    set(&config, "precision", "fp32");
    set(&config, "train_batch_size", "16");
    assert_int_equal(apply(&config,
                           "{\"train_batch_size\":16,\"bf16\":{\"enabled\":true},"
                           "\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":5e-5}}}",
                           &error),
                     BERTH_OK);
    assert_true(config.optimizer.learning_rate == 1e-5);
    assert_int_equal(config.machine.precision, BERTH_FP32);
    assert_note("learning_rate: 1e-05 on the command line overrides optimizer.params.lr 5e-05");
    assert_note("precision: fp32 on the command line overrides bf16.enabled bf16");
    assert_null(strstr(notes, "train_batch_size")); // the same value is no conflict
    assert_int_equal(
        apply(&config, "{\"train_batch_size\":16,\"bfloat16\":{\"enabled\":true}}", &error),
        BERTH_OK);
    assert_note("precision: fp32 on the command line overrides bfloat16.enabled bf16");
}

// DeepSpeed's defaults are not in the file.
static void test_command_line_overrides_no_default(void **state) {
    struct settings config;
    struct berth_error error;
    settings_init(&config);
    set(&config, "learning_rate", "1e-5");
    set(&config, "precision", "bf16");
    set(&config, "max_grad_norm", "1");
    assert_int_equal(apply(&config,
                           "{\"train_batch_size\":16,\"optimizer\":{\"type\":\"Adam\","
                           "\"params\":{\"weight_decay\":0.0}}}",
                           &error),
                     BERTH_OK);
    assert_true(config.optimizer.learning_rate == 1e-5 && config.optimizer.max_grad_norm == 1);
    assert_null(strstr(notes, "overrides"));
}

static void expect_scalars(const char *section, const char *expected) {
    char text[256], *folder;
    snprintf(text, sizeof text, "{\"train_batch_size\":8,\"tensorboard\":%s}", section);
    scratch_write("ds.json", text);
    assert_int_equal(deepspeed_logging_dir(scratch("ds.json"), &folder, NULL), BERTH_OK);
    if (expected == NULL) {
        assert_null(folder);
    } else {
        assert_string_equal(folder, expected);
    }
    memory_free(folder);
}

static void test_scalars_go_where_the_section_says(void **state) {
    expect_scalars("{\"enabled\":true,\"output_path\":\"logs/\",\"job_name\":\"a\"}", "logs/a");
    expect_scalars("{\"enabled\":true,\"output_path\":\"logs\"}", "logs/DeepSpeedJobName");
    expect_scalars("{\"enabled\":true,\"output_path\":\"\",\"job_name\":\"a\"}", "a");
    expect_scalars("{\"enabled\":true}", "DeepSpeedJobName");
    expect_scalars("{\"enabled\":false,\"output_path\":\"logs\"}", NULL);
    expect_scalars("{\"output_path\":\"logs\"}", NULL);
    expect_scalars("null", NULL);
    static const char text[] = "{\"train_batch_size\":8,\"tensorboard\":{\"enabled\":true,"
                               "\"output_path\":\"logs\",\"job_name\":\"a\"}}";
    good(text);
    assert_null(strstr(notes, "tensorboard")); // followed: neither without effect nor lost
    struct settings config;
    settings_init(&config);
    set(&config, "logging_dir", "elsewhere");
    assert_int_equal(apply(&config, text, NULL), BERTH_OK);
    assert_note("logging_dir: elsewhere on the command line overrides tensorboard logs/a");
    char *folder;
    assert_int_equal(deepspeed_logging_dir(scratch("none.json"), &folder, NULL), BERTH_NO_INPUT);
    assert_null(folder);
}

static void test_auto_leaves_the_setting(void **state) {
    struct settings config =
        good("{\"train_batch_size\":8,\"gradient_clipping\":\"auto\",\"steps_per_print\":null,"
             "\"wall_clock_breakdown\":true}");
    assert_int_equal(config.run.logging_steps, 10);
    assert_int_equal(config.report.wall_clock_breakdown, 1);
}

// What the file has wrong is not the command line's, which overrides it.
static void test_errors_of_overridden_keys(void **state) {
    struct settings config;
    struct berth_error error;
    settings_init(&config);
    set(&config, "train_batch_size", "8");
    assert_int_equal(apply(&config, "{\"train_batch_size\":0}", &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "ds.json: key \"train_batch_size\": "));
}

static void refuse(const char *text, enum berth_status status, const char *part,
                   const char *other) {
    struct settings config;
    struct berth_error error = {0};
    settings_init(&config);
    if (apply(&config, text, &error) != status || strstr(error.message, part) == NULL ||
        strstr(error.message, other) == NULL || strstr(error.message, "ds.json") == NULL) {
        fail_msg("%s: %d \"%s\"", text, (int)error.status, error.message);
    }
}

static void test_errors_name_file_and_key(void **state) {
    refuse("{\"train_batch_sise\":8}", BERTH_CONFIG, "train_batch_sise", "\"train_batch_size\"");
    refuse("{\"train_batch_size\":8,\"flops_profiler timers\":{}}", BERTH_CONFIG, // two names
           "flops_profiler timers", "");
    refuse("{\"train_batch_size\":8,\"comets\":{}}", BERTH_CONFIG, "comets", "\"comet\"");
    refuse("{\"train_batch_size\":8,\"nebula\":{}}", BERTH_CONFIG, "nebula",
           "no known key has a similar name");
    refuse("{\"train_batch_size\":8,\"fp16\":{\"enable\":true}}", BERTH_CONFIG, "fp16.enable",
           "\"enabled\"");
    refuse("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"Adam\",\"params\":{\"weight_decai\":"
           "1}}}",
           BERTH_CONFIG, "optimizer.params.weight_decai", "nearest known one is \"weight_decay\"");
    refuse("{\"train_batch_size\":8,\"optimizer\":{\"params\":{\"max_grad_norm\":1.0}}}",
           BERTH_CONFIG, "max_grad_norm", "gradient_clipping");
    refuse("{\"train_batch_size\":\"many\"}", BERTH_CONFIG, "train_batch_size", "an integer");
    refuse("{\"train_batch_size\":8,\"optimizer\":{\"params\":{\"betas\":[0.9]}}}", BERTH_CONFIG,
           "betas", "two numbers");
    refuse("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"Lion\"}}", BERTH_CONFIG, "Lion",
           "AdamW");
    refuse(
        "{\"train_batch_size\":8,\"optimizer\":{\"type\":\"SGD\",\"params\":{\"momentum\":0.9}}}",
        BERTH_CONFIG, "\"SGD\" is not available", "AdamW");
    refuse("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"auto\"}}", BERTH_CONFIG, "auto",
           "AdamW");
    refuse("{\"train_batch_size\":8,\"scheduler\":{\"type\":\"LRRangeTest\",\"params\":"
           "{\"lr_range_test_min_lr\":1}}}",
           BERTH_CONFIG, "\"LRRangeTest\" is not available", "WarmupCosineLR");
    refuse("{\"train_batch_size\":8,\"scheduler\":{\"type\":\"OneCycle\",\"params\":"
           "{\"cycle_min_lr\":1}}}",
           BERTH_CONFIG, "\"OneCycle\" is not available", "WarmupCosineLR");
    refuse("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"onebitlamb\"}}", BERTH_CONFIG,
           "OneBitLamb", "use Lamb, without compressed communication");
    refuse(
        "{\"train_batch_size\":8,\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"max_coeff\":1}}}",
        BERTH_CONFIG, "optimizer.params.max_coeff", "optimizer AdamW");
    refuse("{\"train_batch_size\":8,\"optimizer\":{\"type\":\"Lamb\",\"params\":{\"adam_w_mode\":"
           "true}}}",
           BERTH_CONFIG, "optimizer.params.adam_w_mode", "optimizer Lamb");
    refuse("{\"train_batch_size\":8,\"scheduler\":{\"type\":\"OneCycle\"}}", BERTH_CONFIG,
           "OneCycle", "WarmupLR");
    refuse("{\"train_batch_size\":8,\"fp16\":{\"enabled\":true},\"bf16\":{\"enabled\":true}}",
           BERTH_CONFIG, "fp16", "bf16");
    refuse("{\"train_batch_size\":8,\"tensorboard\":{\"job\":\"a\"}}", BERTH_CONFIG,
           "tensorboard.job", "job_name");
    refuse("{\"train_batch_size\":8,\"tensorboard\":{\"output_path\":1}}", BERTH_CONFIG,
           "tensorboard.output_path", "expected a string");
    refuse("{\"gradient_accumulation_steps\":4}", BERTH_CONFIG, "train_batch_size",
           "train_micro_batch_size_per_gpu");
    refuse("{\"train_batch_size\":-8}", BERTH_CONFIG, "train_batch_size", "");
    refuse("{\"train_batch_size\":8,\"optimizer\":{\"params\":{\"betas\":[0.9,2]}}}", BERTH_CONFIG,
           "adam", "");
    refuse("{\"train_batch_size\":8,\"zero_optimization\":{\"reduce_bucket_size\":0.5}}",
           BERTH_CONFIG, "zero_optimization.reduce_bucket_size", "a whole number");
    refuse("[1]", BERTH_CONFIG, "object", "");
    refuse("{\"train_batch_size\":8,\"train_batch_size\":9}", BERTH_BAD_DATA, "train_batch_size",
           "");
    refuse("{\"train_batch_size\":8", BERTH_BAD_DATA, "line", "");
}

static void test_missing_file(void **state) {
    struct settings config;
    settings_init(&config);
    assert_int_equal(deepspeed_apply(&config, scratch("none.json"), &log_to_notes, NULL),
                     BERTH_NO_INPUT);
}

// --- every key ----------------------------------------------------------------------------------

static const char *const contexts[] = {
    "{\"train_batch_size\":8,\"optimizer\":{\"type\":\"Adam\",\"params\":{}},\"fp16\":{\"enabled\":"
    "true},"
    "\"scheduler\":{\"type\":\"WarmupLR\",\"params\":{}},\"tensorboard\":{\"enabled\":true}}",
    "{\"train_batch_size\":8,\"optimizer\":{\"type\":\"Lamb\",\"params\":{}},"
    "\"scheduler\":{\"type\":\"WarmupCosineLR\",\"params\":{}}}"};
enum { CONTEXTS = sizeof contexts / sizeof *contexts };

static json *parse(const char *text) {
    json *value;
    assert_int_equal(json_read_memory("a test", text, strlen(text), &value, NULL), BERTH_OK);
    return value;
}

// The context with one key more; the number of an array's element is left out of its path.
static char *with_key(const char *context, const char *path, const char *value) {
    char text[128];
    snprintf(text, sizeof text, "[%s]", value);
    json *root = parse(context), *object = root, *list = parse(text);
    size_t length = strcspn(path, ".");
    for (; path[length] == '.' && strspn(path + length + 1, "01") == 0;
         length = strcspn(path, ".")) {
        snprintf(text, sizeof text, "%.*s", (int)length, path);
        if (json_member(object, text) == NULL) {
            json_set(object, text, json_new_object());
        }
        object = (json *)json_member(object, text);
        path += length + 1;
    }
    snprintf(text, sizeof text, "%.*s", (int)length, path);
    json_set(object, text, json_copy_deep(json_at(list, 0)));
    char *written = json_write(root, JSON_COMPACT);
    assert_non_null(written);
    json_free(root);
    json_free(list);
    return written;
}

// The setting (NULL: all), the notes and the folder of scalars that a file comes to; 0: refused.
static int outcome(const char *file, const struct option_row *row, struct buffer *seen) {
    struct settings config;
    char value[256], *folder = NULL;
    settings_init(&config);
    buffer_clear(seen);
    if (apply(&config, file, NULL) != BERTH_OK) {
        return 0;
    }
    for (size_t i = 0; i < option_row_count; i++) {
        if (row == NULL || row == &option_rows[i]) {
            settings_print(&config, &option_rows[i], value, sizeof value);
            buffer_put_text(seen, value);
            buffer_put_byte(seen, '\n');
        }
    }
    if (row == NULL) {
        assert_int_equal(deepspeed_logging_dir(scratch("ds.json"), &folder, NULL), BERTH_OK);
        buffer_put_text(seen, folder != NULL ? folder : "");
        buffer_put_text(seen, notes);
        memory_free(folder);
    }
    return 1;
}

static int has_effect(const char *path, const struct option_row *row) {
    static const char *const values[] = {"true",      "false",
                                         "1",         "0.5",
                                         "[0.5,0.6]", "{\"enabled\":true}",
                                         "\"x\"",     "\"linear\"",
                                         "\"Lamb\"",  "\"WarmupCosineLR\"",
                                         "7",         "\"bf16\""};
    struct buffer without = {0}, with = {0};
    int effect = 0;
    for (size_t i = 0; i < CONTEXTS * (sizeof values / sizeof *values) && !effect; i++) {
        const char *context = contexts[i % CONTEXTS];
        char *file = with_key(context, path, values[i / CONTEXTS]);
        assert_true(outcome(context, row, &without));
        effect = outcome(file, row, &with) &&
                 (with.length != without.length || memcmp(with.bytes, without.bytes, with.length));
        memory_free(file);
    }
    buffer_done(&without);
    buffer_done(&with);
    return effect;
}

static void test_every_key_of_the_option_table_sets_its_row(void **state) {
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->deepspeed != NULL && !has_effect(row->deepspeed, row)) {
            fail_msg("%s does not set %s", row->deepspeed, row->name);
        }
    }
}

static void test_every_other_key_has_an_effect_or_a_note(void **state) {
    for (size_t i = 0; i < deepspeed_keys_count; i++) {
        const struct deepspeed_keys *keys = &deepspeed_keys[i];
        const char *names = keys->names;
        char name[OPTION_NAME_SIZE], path[128];
        while (keys->use != KEY_SECTION && option_next_name(&names, name)) {
            snprintf(path, sizeof path, "%s%s%s", keys->section, *keys->section ? "." : "", name);
            if (!has_effect(path, NULL)) {
                fail_msg("%s: neither an effect nor a note", path);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_every_key_of_the_option_table_sets_its_row),
        SCRATCH_TEST(test_every_other_key_has_an_effect_or_a_note),
        SCRATCH_TEST(test_bing_bert_squad),
        SCRATCH_TEST(test_cscs),
        SCRATCH_TEST(test_exchanges),
        SCRATCH_TEST(test_keys_without_effect_say_why),
        SCRATCH_TEST(test_sections_without_effect),
        SCRATCH_TEST(test_lamb),
        SCRATCH_TEST(test_schedules),
        SCRATCH_TEST(test_schedules_without_a_maximum),
        SCRATCH_TEST(test_loss_scaling),
        SCRATCH_TEST(test_fp16_runs_as_such_on_a_gpu),
        SCRATCH_TEST(test_command_line_wins_and_says_so),
        SCRATCH_TEST(test_command_line_overrides_no_default),
        SCRATCH_TEST(test_scalars_go_where_the_section_says),
        SCRATCH_TEST(test_without_a_scheduler),
        SCRATCH_TEST(test_auto_is_the_runs_own),
        SCRATCH_TEST(test_auto_leaves_the_setting),
        SCRATCH_TEST(test_errors_of_overridden_keys),
        SCRATCH_TEST(test_errors_name_file_and_key),
        SCRATCH_TEST(test_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
