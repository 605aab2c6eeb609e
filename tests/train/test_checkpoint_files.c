// SPDX-License-Identifier: Apache-2.0
// Tests the files from which a run resumes, manifest.json, trainer_state.json and
// optimizer.safetensors, each with its reader. Truncated at any length (RELIABILITY 9), or written
// by another version or for another model, they are refused with the file's name, and what was in
// memory is unchanged. test_checkpoint_folder.c tests the output folder that holds them.
#include "core/json_memory.h"
#include "core/scratch.h"
#include "device/device.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint_manifest.h"
#include "train/checkpoint/state_file.h"
#include "train/progress/progress.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

// --- a small state ------------------------------------------------------------------------------

static struct param_table table;
static struct device *device;
static struct state numbers;

static struct bert_config small_shape(void) {
    return (struct bert_config){.vocab_size = 5,
                                .hidden_size = 4,
                                .num_hidden_layers = 1,
                                .num_attention_heads = 2,
                                .intermediate_size = 3,
                                .max_position_embeddings = 6,
                                .type_vocab_size = 2};
}

static int setup(void **state) {
    struct bert_config shape = small_shape();
    struct device_options options = {.threads = 1};
    assert_int_equal(device_cpu_open(&options, &device, NULL), BERTH_OK);
    assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    assert_int_equal(state_init(&numbers, device, &table, DTYPE_F32, 1, NULL), BERTH_OK);
    return scratch_setup(state);
}

static int teardown(void **state) {
    state_done(&numbers);
    param_table_done(&table);
    device->close(device);
    return scratch_teardown(state);
}

static void fill_moments(float value) {
    for (int64_t i = 0; i < table.total; i++) {
        numbers.moment1[i] = numbers.moment2[i] = value;
    }
}

static void assert_moments(float value) {
    for (size_t p = 0; p < table.count; p++) {
        const struct param *param = &table.params[p];
        for (int64_t i = param->offset; i < param->offset + param->rows * param->cols; i++) {
            assert_true(numbers.moment1[i] == value && numbers.moment2[i] == value);
        }
    }
}

#define STATE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

// --- cutting ------------------------------------------------------------------------------------

// Reads the file again after each truncation; from `dense` bytes on only every 61st length is
// tried.
static void refuse_prefixes(const char *name, size_t dense,
                            enum berth_status (*read)(struct berth_error *error)) {
    char *bytes;
    size_t length;
    assert_int_equal(read(NULL), BERTH_OK);
    assert_int_equal(file_read(scratch(name), 1 << 24, &bytes, &length, NULL), BERTH_OK);
    scratch_write_bytes(name, bytes, length);
    size_t end = bytes[length - 1] == '\n' ? length - 1 : length; // JSON is complete without it
    for (size_t left = end; left-- > 0;) {
        if (left > dense && left % 61 != 0 && left + 1 < end) {
            continue;
        }
        struct berth_error error = {0};
        assert_int_equal(truncate(scratch(name), (off_t)left), 0);
        assert_int_equal(read(&error), BERTH_BAD_DATA);
        assert_message_has(&error, name);
    }
    scratch_write_bytes(name, bytes, length);
    assert_int_equal(read(NULL), BERTH_OK);
    memory_free(bytes);
}

static enum berth_status read_manifest(struct berth_error *error) {
    int64_t files = -1;
    enum berth_status status = checkpoint_manifest_verify(scratch_folder, &files, error);
    assert_int_equal(files, status == BERTH_OK ? 2 : -1);
    return status;
}

static void write_manifest(void) {
    scratch_write("a.txt", "some");
    scratch_write("b.txt", "more");
    assert_int_equal(checkpoint_manifest_write(scratch_folder, NULL), BERTH_OK);
}

static void test_cut_manifest(void **state) {
    write_manifest();
    refuse_prefixes("manifest.json", SIZE_MAX, read_manifest);
}

static const struct batching batching = {.features = 7,
                                         .update_sequences = 2,
                                         .micro = {.tokens = INT64_MAX, .sequences = 1},
                                         .parts = 1,
                                         .accumulation = 2,
                                         .updates_per_epoch = 4,
                                         .total_steps = 8};

// The settings of the run whose history is written and read.
static struct settings history_settings(void) {
    struct settings config;
    settings_init(&config);
    config.run.spike_policy = "skip";
    return config;
}

static enum berth_status read_history(struct berth_error *error) {
    const struct settings config = history_settings();
    struct berth_log log = {0};
    struct progress progress;
    assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
    enum berth_status status =
        progress_read(&progress, &config, &batching, &log, scratch("trainer_state.json"), error);
    assert_int_equal(progress.step, status == BERTH_OK ? 3 : 0);
    assert_int_equal(json_length(progress.log), status == BERTH_OK ? 2 : 0);
    progress_done(&progress);
    return status;
}

static enum berth_status save_history(const struct settings *config) {
    struct progress progress;
    TRY(progress_init(&progress, NULL));
    progress.jobs = JOB_PRETRAIN;
    progress.step = 3;
    progress.skipped = 1;
    progress.total_flos = 1.5;
    progress.moments_start = 1;
    progress.data_shift = 6;
    progress.spikes = (struct spikes){.loss = 2.5, .grad_norm = 1.5, .updates = 2, .found = 7};
    progress.loss_sum = 4.5;
    progress.masked_loss_sum = 3.5;
    progress.loss_count = 11;
    progress.train_loss_sum = 6.5;
    progress.train_loss_count = 12;
    progress.loss_scale = (struct loss_scale){.kind = LOSS_SCALE_ZERO,
                                              .scale = 8,
                                              .updates = 3,
                                              .last_overflow = 1,
                                              .hysteresis_left = 2};
    static const struct progress_losses losses = {1.25, NAN};
    progress_add_step(&progress, 0.5, &losses, 1e-5, 0.1);
    struct task_score score = {
        .items = {{"exact_match", 50.0}, {"f1", 60.0}}, .count = 2, .loss = NAN, .best_by = 1};
    struct best_metric best = {.name = "f1", .value = 60.0};
    progress_add_evaluation(&progress, 1.0, &score, &best);
    const enum berth_status status =
        progress_write(&progress, config, &batching, scratch("trainer_state.json"), NULL);
    progress_done(&progress);
    return status;
}

static void write_history(void) {
    const struct settings config = history_settings();
    assert_int_equal(save_history(&config), BERTH_OK);
}

// What transformers' Trainer needs to resume: it divides by the intervals, also by those that this
// run has not, and looks its own switches up. dev/others lets it resume.
static void test_what_the_trainer_needs(void **state) {
    static const char *const intervals[] = {"logging_steps", "eval_steps", "save_steps"};
    static const char *const switches[] = {"should_training_stop", "should_epoch_stop",
                                           "should_save", "should_evaluate", "should_log"};
    json *found;
    struct settings config = history_settings();
    config.run.eval_steps = config.run.save_steps = 0;
    assert_int_equal(save_history(&config), BERTH_OK);
    assert_int_equal(json_read_file(scratch("trainer_state.json"), &found, NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        assert_true(json_as_integer(json_member(found, intervals[i])) > 0);
    }
    const json *control = json_member(json_member(found, "stateful_callbacks"), "TrainerControl");
    const json *arguments = json_member(control, "args");
    assert_int_equal(json_length(arguments), sizeof switches / sizeof *switches);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        assert_true(json_is_boolean(json_member(arguments, switches[i])));
    }
    assert_true(json_is_object_value(json_member(control, "attributes")));
    json_free(found);
}

static json *saved_history(const struct settings *config) {
    json *found;
    assert_int_equal(save_history(config), BERTH_OK);
    assert_int_equal(json_read_file(scratch("trainer_state.json"), &found, NULL), BERTH_OK);
    return found;
}

// The Trainer counts the sequences of a micro-batch, and saves every 500 updates where Berth saves
// only the best models. Berth resumes all the same, also from a file without a key of its own.
static void test_sizes_as_the_trainer_counts(void **state) {
    struct settings config = history_settings();
    config.run.save_steps = INT64_MAX;
    json *found = saved_history(&config);
    assert_int_equal(json_as_integer(json_member(found, "train_batch_size")), 1);
    assert_int_equal(json_as_integer(json_member(found, "save_steps")), 500);
    json_free(found);
    assert_int_equal(read_history(NULL), BERTH_OK);
}

// Whether the history of update 3 names a checkpoint of the best model, which is that of `best`.
static int names_best(const struct settings *config, int64_t best) {
    const struct task_score score = {.items = {{"f1", 60.0}}, .count = 1, .loss = NAN};
    const struct best_metric metric = {.name = "f1", .value = 60.0};
    struct progress progress;
    json *found;
    assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
    progress.step = best;
    progress_add_evaluation(&progress, 1.0, &score, &metric);
    progress.step = 3;
    assert_int_equal(
        progress_write(&progress, config, &batching, scratch("trainer_state.json"), NULL),
        BERTH_OK);
    assert_int_equal(json_read_file(scratch("trainer_state.json"), &found, NULL), BERTH_OK);
    const int is_named = json_text(json_member(found, "best_model_checkpoint")) != NULL;
    json_free(found);
    progress_done(&progress);
    return is_named;
}

// The Trainer looks for the folder of the best model. That of the update itself is being written.
static void test_the_best_model_may_have_no_checkpoint(void **state) {
    struct settings config = history_settings();
    config.run.output_dir = scratch_folder;
    assert_false(names_best(&config, 2));
    assert_true(names_best(&config, 3));
    config.run.save_strategy = "no";
    assert_false(names_best(&config, 3));
    config.run.save_strategy = NULL;
    assert_int_equal(mkdir(scratch("checkpoint-2"), 0755), 0);
    assert_true(names_best(&config, 2));
}

static void test_cut_trainer_state(void **state) {
    write_history();
    refuse_prefixes("trainer_state.json", SIZE_MAX, read_history);
}

static enum berth_status read_optimizer(struct berth_error *error) {
    fill_moments(-1.0f);
    enum berth_status status = state_file_read_moments(&numbers, scratch_folder, error);
    assert_moments(status == BERTH_OK ? 0.25f : -1.0f);
    return status;
}

static void test_cut_optimizer_file(void **state) {
    fill_moments(0.25f);
    assert_int_equal(state_file_make(STATE_FILE_MOMENTS, numbers.table, scratch_folder, NULL),
                     BERTH_OK);
    assert_int_equal(state_file_fill(STATE_FILE_MOMENTS, &numbers, scratch_folder, NULL), BERTH_OK);
    refuse_prefixes("optimizer.safetensors", 4096, read_optimizer);
}

// Also where the numbers are not in the host's memory but pass through a part of it.
static void test_optimizer_file_without_memory(void **state) {
    for (int is_host = 0; is_host < 2; is_host++) {
        uint64_t made, call = 0;
        device->is_host = is_host;
        do {
            (void)unlink(scratch("optimizer.safetensors"));
            fill_moments(0.25f);
            memory_fail_at(++call, 0);
            enum berth_status status =
                state_file_make(STATE_FILE_MOMENTS, &table, scratch_folder, NULL);
            status = status == BERTH_OK
                         ? state_file_fill(STATE_FILE_MOMENTS, &numbers, scratch_folder, NULL)
                         : status;
            fill_moments(-1.0f);
            status = status == BERTH_OK ? state_file_read_moments(&numbers, scratch_folder, NULL)
                                        : status;
            made = memory_fail_at(0, 0);
            assert_int_equal(status, made >= call ? BERTH_NO_MEMORY : BERTH_OK);
        } while (made >= call);
        assert_moments(0.25f);
        assert_true(call > 10);
        device->is_host = 1;
    }
}

// --- files with another meaning ------------------------------------------------------------------

static void replace(const char *name, const char *old, const char *new) {
    char *text, changed[16384];
    size_t length;
    assert_int_equal(file_read(scratch(name), sizeof changed / 2, &text, &length, NULL), BERTH_OK);
    const char *at = strstr(text, old);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    scratch_write(name, changed);
    memory_free(text);
}

static void refuse_change(const char *name, const char *const change[3],
                          enum berth_status (*read)(struct berth_error *error)) {
    struct berth_error error = {0};
    replace(name, change[0], change[1]);
    assert_int_equal(read(&error), BERTH_BAD_DATA);
    assert_message_has(&error, name);
    assert_message_has(&error, change[2]);
    replace(name, change[1], change[0]);
    assert_int_equal(read(NULL), BERTH_OK);
}

static void test_other_manifests(void **state) {
    static const char *const changes[][3] = {
        {"\"format_version\": 1", "\"format_version\": 2", "use a newer program"},
        {"\"format_version\": 1", "\"format_version\": 0", "not a manifest of format_version 1"},
        {"\"files\": {", "\"folders\": {", "not a manifest of format_version 1"},
        {"\"bytes\": 4", "\"bytes\": \"4\"",
         "manifest.json: damaged manifest: file \"a.txt\": expected key \"bytes\" to be an "
         "integer"},
        {"\"bytes\": 4", "\"bytes\": -4", "file \"a.txt\": expected counts from 0"},
        {"\"bytes\": 4", "\"bytes\": null", "file \"a.txt\": expected \"bytes\", an integer"},
        {"\"a.txt\"", "\"../a.txt\"",
         "file \"../a.txt\": expected a name in the manifest's folder"},
        {"\"a.txt\"", "\"b/c/a.txt\"",
         "file \"b/c/a.txt\": expected a name in the manifest's folder"},
        {"\"a.txt\"", "\"/a.txt\"", "file \"/a.txt\": expected a name in the manifest's folder"},
        {"\"a.txt\"", "\"b/.a.txt\"",
         "file \"b/.a.txt\": expected a name in the manifest's folder"},
        {"\"a.txt\"", "\"b/\"", "file \"b/\": expected a name in the manifest's folder"},
        {"\"sha256\"", "\"sha1\"",
         "file \"a.txt\": expected \"bytes\", an integer, and \"sha256\""},
        {"\"sha256\": \"", "\"sha256\": 1, \"x\": \"",
         "file \"a.txt\": expected key \"sha256\" to be 64 hexadecimal digits"},
        {"\"bytes\": 4", "\"bytes\": 4, \"mode\": 4",
         "file \"a.txt\": expected \"bytes\", an integer, and \"sha256\""},
        {"\"format_version\": 1", "\"format_version\": \"1\"",
         "not a manifest of format_version 1"},
        {"\"format_version\": 1", "\"format_version\": 1, \"x\": 1",
         "not a manifest of format_version 1"},
    };
    write_manifest();
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        refuse_change("manifest.json", changes[i], read_manifest);
    }
}

static void test_other_trainer_states(void **state) {
    static const char *const changes[][3] = {
        {"\"skipped_steps\": 1", "\"skipped_steps\": 4", "\"skipped_steps\""},
        {"\"skipped_steps\": 1", "\"skipped_steps\": -1", "\"skipped_steps\""},
        {"\"schedule_start\": 0", "\"schedule_start\": 3", "\"schedule_start\""},
        {"\"scale\": 8.0", "\"scale\": -8.0", "\"loss_scale\": expected a scale above 0"},
        {"\"last_overflow\": 1", "\"last_overflow\": 3", "below the number of updates, 3"},
        {"\"format_version\": 2", "\"format_version\": 3", "use a newer program"},
        {"\"format_version\": 2", "\"format_version\": 0", "expected the state of a run of Berth"},
        {"\"global_step\": 3", "\"global_step\": -3", "\"global_step\" is missing or negative"},
        {"\"global_step\": 3", "\"global_stop\": 3", "\"global_step\" is missing or negative"},
        {"\"log_history\": [", "\"log\": [", "\"log_history\": expected an array"},
        {"\"updates\": 3", "\"updates\": -1", "\"loss_scale\": expected"},
        {"\"last_overflow\": 1", "\"last_overflow\": -2", "a last overflow from -1"},
        {"\"phase_start\": 0", "\"phase_start\": -1", "\"phase_start\""},
        {"\"phase_start\": 0", "\"phase_start\": 3", "\"phase_start\""},
        {"\"schedule_start\": 0", "\"schedule_start\": -1", "\"schedule_start\""},
        {"\"moments_start\": 1", "\"moments_start\": -1", "\"moments_start\""},
        {"\"moments_start\": 1", "\"moments_start\": 4", "that fit global_step 3"},
        {"\"data_shift\": 6", "\"data_shift\": -6", "\"data_shift\" and \"spikes\""},
        {"\"loss\": 2.5", "\"loss\": -2.5", "expected no negative numbers"},
        {"\"grad_norm\": 1.5", "\"grad_norm\": -1.5", "expected no negative numbers"},
        {"\"updates\": 2", "\"updates\": -2", "expected no negative numbers"},
        {"\"found\": 7", "\"found\": -7", "expected no negative numbers"},
    };
    write_history();
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        refuse_change("trainer_state.json", changes[i], read_history);
    }
}

// Each number is refused by its key where it is of another type.
static void test_trainer_states_of_other_types(void **state) {
    static const char *const members[] = {"\"format_version\": 2",
                                          "\"global_step\": 3",
                                          "\"total_flos\": 1.5",
                                          "\"skipped_steps\": 1",
                                          "\"schedule_start\": 0",
                                          "\"phase_start\": 0",
                                          "\"moments_start\": 1",
                                          "\"data_shift\": 6",
                                          "\"loss\": 2.5",
                                          "\"grad_norm\": 1.5",
                                          "\"updates\": 2",
                                          "\"found\": 7",
                                          "\"scale\": 8.0",
                                          "\"updates\": 3",
                                          "\"last_overflow\": 1",
                                          "\"hysteresis_left\": 2",
                                          "\"loss_sum\": 4.5",
                                          "\"masked_loss_sum\": 3.5",
                                          "\"loss_count\": 11",
                                          "\"train_loss_sum\": 6.5",
                                          "\"train_loss_count\": 12",
                                          "\"best_global_step\": 3",
                                          "\"train_batch_size\": 2",
                                          "\"train_features\": 7",
                                          "\"early_stopping_patience_counter\": 0"};
    write_history();
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct berth_error error;
        char changed[64];
        const char *value = strchr(members[i], ':');
        const int key = (int)(value - members[i]);
        snprintf(changed, sizeof changed, "%.*s: true", key, members[i]);
        replace("trainer_state.json", members[i], changed);
        assert_int_equal(read_history(&error), BERTH_CONFIG);
        assert_message_has(&error, "trainer_state.json");
        changed[key] = '\0';
        assert_message_has(&error, changed);
        changed[key] = ':';
        replace("trainer_state.json", changed, members[i]);
        assert_int_equal(read_history(NULL), BERTH_OK);
    }
}

static void write_phase(int is_second, int64_t start) {
    struct settings config = history_settings();
    struct progress progress;
    config.run.phase2 = is_second;
    assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
    progress.jobs = JOB_PRETRAIN;
    progress.step = 3;
    progress.phase_start = start;
    assert_int_equal(
        progress_write(&progress, &config, &batching, scratch("trainer_state.json"), NULL),
        BERTH_OK);
    progress_done(&progress);
}

// The second phase goes on after the first, and is resumed as such.
static void test_phases(void **state) {
    static const struct {
        int is_second, resumes_second;
        int64_t first_end, start; // start: of the resumed phase; -1: refused
        const char *says;
    } cases[] = {{0, 0, 0, 0, NULL},
                 {0, 1, 0, 3, NULL},
                 {0, 1, 3, 3, NULL},
                 {0, 1, 2, -1, "phase1_end_step is 2, but the first phase ended with update 3"},
                 {1, 1, 0, 1, NULL},
                 {1, 1, 1, 1, NULL},
                 {1, 1, 3, -1, "phase1_end_step is 3, but the first phase ended with update 1"},
                 {1, 0, 0, -1, "in its second phase; add phase2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct berth_log log = {0};
        struct settings config = history_settings();
        struct berth_error error;
        struct progress progress;
        write_phase(cases[i].is_second, cases[i].is_second ? 1 : 0);
        config.run.phase2 = cases[i].resumes_second;
        config.run.phase1_end_step = cases[i].first_end;
        assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
        progress.jobs = JOB_PRETRAIN;
        const enum berth_status status = progress_read(&progress, &config, &batching, &log,
                                                       scratch("trainer_state.json"), &error);
        assert_int_equal(status, cases[i].start < 0 ? BERTH_CONFIG : BERTH_OK);
        if (status == BERTH_OK) {
            assert_int_equal(progress.step, 3);
            assert_int_equal(progress.phase_start, cases[i].start);
        } else {
            assert_message_has(&error, cases[i].says);
        }
        progress_done(&progress);
    }
}

static enum berth_status read_history_again(void) {
    const struct settings config = history_settings();
    const struct berth_log log = {0};
    struct progress progress;
    enum berth_status status = progress_init(&progress, NULL);
    if (status == BERTH_OK) {
        status =
            progress_read(&progress, &config, &batching, &log, scratch("trainer_state.json"), NULL);
        assert_int_equal(progress.step, status == BERTH_OK ? 3 : 0);
    }
    progress_done(&progress);
    return status;
}

// Whether the file has all that it had, or is not there.
static enum berth_status all_or_nothing(const char *name, enum berth_status status) {
    if (status == BERTH_OK) {
        assert_same_file(scratch(name), scratch("whole.json"));
    } else {
        assert_false(file_exists(scratch(name)));
    }
    return status;
}

static enum berth_status save_history_again(void) {
    const struct settings config = history_settings();
    unlink(scratch("trainer_state.json"));
    return all_or_nothing("trainer_state.json", save_history(&config));
}

// A file that lacked one of its members would be resumed from as if that were 0.
static void test_history_is_whole_or_not_written(void **state) {
    write_history();
    assert_int_equal(rename(scratch("trainer_state.json"), scratch("whole.json")), 0);
    assert_true(json_memory_fail_each(save_history_again) > 100);
}

// Names of folders may have any bytes, which JSON has not.
static void test_history_of_a_folder_that_is_no_text(void **state) {
    struct settings config = history_settings();
    json *found;
    config.run.output_dir = "\xFF/run";
    assert_int_equal(save_history(&config), BERTH_OK);
    assert_int_equal(json_read_file(scratch("trainer_state.json"), &found, NULL), BERTH_OK);
    assert_true(json_is_null_value(json_member(found, "best_model_checkpoint")));
    assert_int_equal(json_as_integer(json_member(found, "best_global_step")), 3);
    json_free(found);
    assert_int_equal(read_history(NULL), BERTH_OK);
}

// Each allocation fails once; the progress in memory is then unchanged.
static void test_history_without_memory(void **state) {
    uint64_t made, call = 0;
    write_history();
    do {
        memory_fail_at(++call, 0);
        const enum berth_status status = read_history(NULL);
        made = memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
    } while (made >= call);
    assert_true(call > 1);
    assert_true(json_memory_fail_each(read_history_again) > 10);
}

// In format 1 Berth's keys are beside the Trainer's.
static void test_trainer_state_of_format_1(void **state) {
    json *now, *then;
    write_history();
    assert_int_equal(json_read_file(scratch("trainer_state.json"), &now, NULL), BERTH_OK);
    assert_ptr_not_equal(progress_own_keys(now), now);
    then = json_copy_deep(progress_own_keys(now));
    static const char *const keys[] = {"global_step", "log_history"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_set(then, keys[i], json_copy_deep(json_member(now, keys[i])));
    }
    json_set(then, "format_version", json_new_integer(1));
    assert_int_equal(
        json_write_file(then, JSON_INDENT_2_SORTED, scratch("trainer_state.json"), NULL), BERTH_OK);
    json_free(now);
    json_free(then);
    assert_int_equal(read_history(NULL), BERTH_OK);
    replace("trainer_state.json", "\"skipped_steps\": 1", "\"skipped_steps\": 4");
    assert_int_equal(read_history(NULL), BERTH_BAD_DATA);
}

// --- settings that a resumed run changes --------------------------------------------------------

static size_t notes;

static void count_note(void *context, const struct berth_record *record) {
    notes++;
}

// Some value other than the default.
static void change(struct settings *config, const struct option_row *row) {
    const char *last = row->choices != NULL ? strrchr(row->choices, '|') + 1 : "text";
    const char *values[] = {"3", "0.25", "16", "true", "false", "bf16", last};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        settings_init(config);
        if (settings_set_row(config, row, values[i], NULL) == BERTH_OK) {
            memset(config->given, 0, sizeof config->given);
        }
        if (settings_row_is_chosen(config, row)) {
            return;
        }
    }
    fail_msg("no other value of %s", row->name);
}

static enum berth_status resume_with(const struct settings *config, struct berth_error *error) {
    const struct berth_log log = {.write = count_note};
    struct progress progress;
    assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
    notes = 0;
    enum berth_status status =
        progress_read(&progress, config, &batching, &log, scratch("trainer_state.json"), error);
    progress_done(&progress);
    return status;
}

static void test_a_changed_setting_follows_its_rows_rule(void **state) {
    struct settings config;
    struct berth_error error;
    struct progress progress;
    settings_init(&config);
    assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
    progress.jobs = JOB_TRAIN;
    assert_int_equal(
        progress_write(&progress, &config, &batching, scratch("trainer_state.json"), NULL),
        BERTH_OK);
    progress_done(&progress);
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if ((row->jobs & JOB_TRAIN) == 0 || strcmp(row->name, "phase2") == 0) {
            continue; // the second phase is another run
        }
        change(&config, row);
        enum berth_status status = resume_with(&config, &error);
        // A default that is resolved before it is written is of an earlier version.
        const int is_kept = row->resume == OPTION_KEPT && !row->resolved;
        assert_int_equal(status, is_kept ? BERTH_CONFIG : BERTH_OK);
        assert_int_equal(notes, row->resume == OPTION_NOTED);
        if (status != BERTH_OK) {
            assert_message_has(&error, row->name);
        }
    }
}

// The optimizer's file of a model that has another layer, or other shapes.
static void test_optimizer_of_another_model(void **state) {
    static const struct {
        const char *name, *says;
        int64_t layers, intermediate;
    } cases[] = {
        {"a layer more", "missing tensor exp_avg.bert.encoder.layer.1.", 2, 3},
        {"wider", "intermediate.dense.weight: expected F32 with 5 x 4 elements", 1, 5},
    };
    fill_moments(0.25f);
    assert_int_equal(state_file_make(STATE_FILE_MOMENTS, numbers.table, scratch_folder, NULL),
                     BERTH_OK);
    assert_int_equal(state_file_fill(STATE_FILE_MOMENTS, &numbers, scratch_folder, NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bert_config shape = small_shape();
        struct param_table other_table;
        struct state other;
        struct berth_error error;
        shape.num_hidden_layers = cases[i].layers;
        shape.intermediate_size = cases[i].intermediate;
        assert_int_equal(param_table_init(&other_table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
        assert_int_equal(state_init(&other, device, &other_table, DTYPE_F32, 1, NULL), BERTH_OK);
        assert_int_equal(state_file_read_moments(&other, scratch_folder, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "optimizer.safetensors");
        assert_message_has(&error, cases[i].says);
        state_done(&other);
        param_table_done(&other_table);
    }
}

// The file's header with as many other bytes in it.
static void test_optimizer_of_another_shape(void **state) {
    static const struct {
        const char *old, *new;
    } cases[] = {{"\"F32\",\"shape\":[3,4]", "\"I32\",\"shape\":[3,4]"},
                 {"\"shape\":[3,4]", "\"shape\":[ 12]"},
                 {"\"shape\":[3,4]", "\"shape\":[4,3]"}};
    char *bytes;
    size_t length;
    fill_moments(0.25f);
    assert_int_equal(state_file_make(STATE_FILE_MOMENTS, numbers.table, scratch_folder, NULL),
                     BERTH_OK);
    assert_int_equal(file_read(scratch("optimizer.safetensors"), 1 << 24, &bytes, &length, NULL),
                     BERTH_OK);
    char *name = strstr(bytes + 8, "exp_avg.bert.encoder.layer.0.intermediate.dense.weight");
    assert_non_null(name);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct berth_error error;
        char *at = strstr(name, cases[i].old);
        const size_t size = strlen(cases[i].new);
        char *kept = memory_string_of(bytes, length);
        assert_non_null(at);
        memcpy(at, cases[i].new, size);
        scratch_write_bytes("optimizer.safetensors", bytes, length);
        memcpy(bytes, kept, length);
        memory_free(kept);
        assert_int_equal(state_file_read_moments(&numbers, scratch_folder, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "exp_avg.bert.encoder.layer.0.intermediate.dense.weight");
        assert_message_has(&error, "expected F32 with 3 x 4 elements");
    }
    memory_free(bytes);
}

// --- manifests without memory -------------------------------------------------------------------

static enum berth_status write_manifest_again(void) {
    char *folder = memory_string(scratch("folder"));
    unlink(scratch("folder/manifest.json"));
    const enum berth_status status = checkpoint_manifest_write(folder, NULL);
    memory_free(folder);
    return all_or_nothing("folder/manifest.json", status);
}

// A file that the manifest lacked would not be verified.
static void test_manifest_is_whole_or_not_written(void **state) {
    assert_int_equal(dir_make(scratch("folder"), NULL), BERTH_OK);
    scratch_write("folder/a.txt", "some");
    scratch_write("folder/b.txt", "more");
    assert_int_equal(checkpoint_manifest_write(scratch("folder"), NULL), BERTH_OK);
    assert_int_equal(rename(scratch("folder/manifest.json"), scratch("whole.json")), 0);
    assert_true(json_memory_fail_each(write_manifest_again) > 10);
}

static enum berth_status verify_again(void) {
    return checkpoint_manifest_verify(scratch_folder, NULL, NULL);
}

static void test_manifest_without_memory(void **state) {
    uint64_t made, call = 0;
    write_manifest();
    do {
        memory_fail_at(++call, 0);
        enum berth_status status = checkpoint_manifest_write(scratch_folder, NULL);
        status =
            status == BERTH_OK ? checkpoint_manifest_verify(scratch_folder, NULL, NULL) : status;
        made = memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        assert_int_equal(checkpoint_manifest_verify(scratch_folder, NULL, NULL), BERTH_OK);
    } while (made >= call);
    assert_true(json_memory_fail_each(verify_again) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STATE_TEST(test_cut_manifest),
        STATE_TEST(test_what_the_trainer_needs),
        STATE_TEST(test_sizes_as_the_trainer_counts),
        STATE_TEST(test_the_best_model_may_have_no_checkpoint),
        STATE_TEST(test_cut_trainer_state),
        STATE_TEST(test_cut_optimizer_file),
        STATE_TEST(test_optimizer_file_without_memory),
        STATE_TEST(test_other_manifests),
        STATE_TEST(test_other_trainer_states),
        STATE_TEST(test_trainer_states_of_other_types),
        STATE_TEST(test_phases),
        STATE_TEST(test_history_without_memory),
        STATE_TEST(test_history_is_whole_or_not_written),
        STATE_TEST(test_history_of_a_folder_that_is_no_text),
        STATE_TEST(test_trainer_state_of_format_1),
        STATE_TEST(test_a_changed_setting_follows_its_rows_rule),
        STATE_TEST(test_optimizer_of_another_model),
        STATE_TEST(test_optimizer_of_another_shape),
        STATE_TEST(test_manifest_without_memory),
        STATE_TEST(test_manifest_is_whole_or_not_written),
    };
    return cmocka_run_group_tests_name("checkpoint files", tests, NULL, NULL);
}
