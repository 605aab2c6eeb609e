// SPDX-License-Identifier: Apache-2.0
// Tests dllogger's lines, read back as JSON line by line: framing, steps, keys of fine-tuning,
// prediction and pre-training; and the lines for people.

#include "core/log.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "report/lines.h"
#include "report/reporter.h"
#include "settings/settings.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- one record ---------------------------------------------------------------------------------

static enum berth_status open_reporter_of(const struct settings *config, int descriptor,
                                          struct berth_reporter **reporter,
                                          struct berth_error *error) {
    const struct reported_run run = {
        .resumes = settings_resume(config),
        .has_deepspeed = config->run.deepspeed_config != NULL,
        .adam_betas = {config->optimizer.adam_beta1, config->optimizer.adam_beta2}};
    return reporter_open(&config->report, &run, descriptor, reporter, error);
}

static struct berth_record record_of(enum berth_record_kind kind, const char *text,
                                     const struct berth_field *fields, size_t count) {
    return (struct berth_record){
        .kind = kind, .text = text, .fields = fields, .field_count = count};
}

// The line after its prefix; the caller frees it.
static json *parse(const char *line, size_t length) {
    json *value;
    struct berth_error error = {0};
    assert_true(length > 5);
    assert_memory_equal(line, "DLLL ", 5);
    if (json_read_memory("line", line + 5, length - 5, &value, &error) != BERTH_OK) {
        fail_msg("%s in: %.*s", error.message, (int)length, line);
    }
    return value;
}

// For a record that has a line.
static json *line_of(struct berth_record record) {
    struct json_line line = {0};
    assert_int_equal(dllogger_line(&line, 1.5, &record), 1);
    assert_int_equal(line.text[line.length - 1], '\n');
    assert_ptr_equal(strchr(line.text, '\n'), line.text + line.length - 1);
    json *value = parse(line.text, line.length - 1);
    json_line_done(&line);
    return value;
}

static const json *data_of(const json *line) {
    const json *data = json_member(line, "data");
    assert_true(json_is_object_value(data));
    return data;
}

static double number(const json *data, const char *key) {
    const json *value = json_member(data, key);
    if (!json_is_number_value(value)) {
        fail_msg("\"%s\" is no number", key);
    }
    return json_as_real(value);
}

static void expect_step(const json *line, int length, int64_t epoch, int64_t step) {
    const json *found = json_member(line, "step");
    assert_true(json_is_array_value(found));
    assert_int_equal(json_length(found), length);
    if (length == 2) {
        assert_int_equal(json_as_integer(json_at(found, 0)), epoch);
        assert_int_equal(json_as_integer(json_at(found, 1)), step);
    }
}

static void a_line_is_framed(void **state) {
    const struct berth_field seed = log_integer("seed", 42);
    json *line = line_of(record_of(BERTH_PLAN, "optimizer", &seed, 1));
    double seconds, elapsed;
    int fields[7], end = 0;
    const char *timestamp = json_text(json_member(line, "timestamp"));
    const char *datetime = json_text(json_member(line, "datetime"));
    assert_non_null(timestamp);
    assert_non_null(datetime);
    assert_int_equal(sscanf(timestamp, "%lf", &seconds), 1);
    assert_true(seconds > 1.5e9);
    sscanf(datetime, "%4d-%2d-%2d %2d:%2d:%2d.%6d%n", &fields[0], &fields[1], &fields[2],
           &fields[3], &fields[4], &fields[5], &fields[6], &end);
    assert_int_equal(end, strlen("2026-01-31 12:00:00.123456"));
    assert_int_equal(strlen(datetime), end);
    assert_int_equal(sscanf(json_text(json_member(line, "elapsedtime")), "%lf", &elapsed), 1);
    assert_true(elapsed == 1.5);
    assert_string_equal(json_text(json_member(line, "type")), "LOG");
    assert_string_equal(json_text(json_member(line, "step")), "PARAMETER");
    assert_true(number(data_of(line), "SEED") == 42);
    json_free(line);
}

// The batch size, which is that of one process at once, is written under both of its names.
static void a_field_may_have_two_names(void **state) {
    const struct berth_field batch[] = {log_integer("train_batch_size", 65536),
                                        log_text("sequences_per_update", "8 processes x 8192"),
                                        log_integer("sequences_per_micro_batch", 32)};
    json *line = line_of(record_of(BERTH_PLAN, "batches", batch, 3));
    assert_int_equal(json_length(data_of(line)), 2);
    assert_true(number(data_of(line), "train_batch_size") == 32);
    assert_true(number(data_of(line), "batch_size_per_pu") == 32);
    json_free(line);
}

static void an_event_is_true_or_its_fields(void **state) {
    const struct berth_field settings[] = {log_text("optimizer", "lamb"),
                                           log_text("output_dir", "a\"b")};
    json *line = line_of(record_of(BERTH_EVENT, "train_start", NULL, 0));
    assert_true(json_truth(json_member(data_of(line), "train_start")));
    json_free(line);
    line = line_of(record_of(BERTH_EVENT, "Config", settings, 2));
    const json *config = json_member(data_of(line), "Config");
    assert_string_equal(json_text(json_member(config, "optimizer")), "lamb");
    assert_string_equal(json_text(json_member(config, "output_dir")), "a\"b");
    json_free(line);
}

static void steps_of_fine_tuning(void **state) {
    const struct berth_field step[] = {log_integer("step", 20),
                                       log_integer("total_steps", 40),
                                       log_real("epoch", 1.0),
                                       log_real("loss", 1.25),
                                       log_real("learning_rate", 3e-5),
                                       log_real("grad_norm", NAN),
                                       log_real("samples_per_second", NAN)};
    json *line = line_of(record_of(BERTH_STEP, NULL, step, 7));
    expect_step(line, 2, 0, 20); // the last update of the first epoch
    const json *data = data_of(line);
    assert_int_equal(json_length(data), 2);
    assert_true(number(data, "step_loss") == 1.25);
    assert_true(number(data, "learning_rate") == 3e-5);
    json_free(line);
}

static void steps_of_pre_training(void **state) {
    const struct berth_field step[] = {
        log_integer("step", 7),
        log_real("epoch", 2.5),
        log_real("loss", 1.25),
        log_real("step_loss", 1.5),
        log_real("learning_rate", 6e-3),
        log_real("samples_per_second", 12.5),
        log_real("average_training_time_step", 0.25),
        log_real("final_loss", 1.125),
    };
    const struct berth_field saved[] = {log_integer("step", 7), log_real("epoch", 2.5),
                                        log_integer("checkpoint_step", 7)};
    const struct berth_field skipped[] = {log_integer("step", 7),
                                          log_real("attempted_loss_scale", 65536),
                                          log_real("loss_scale", 32768)};
    json *line = line_of(record_of(BERTH_STEP, NULL, step, 8));
    expect_step(line, 2, 2, 7);
    const json *data = data_of(line);
    assert_int_equal(json_length(data), 6);
    assert_true(number(data, "average_loss") == 1.25);
    assert_true(number(data, "step_loss") == 1.5);
    assert_true(number(data, "learning_rate") == 6e-3);
    assert_true(number(data, "average_perf_per_step") == 12.5);
    assert_true(number(data, "average_training_time_step") == 0.25);
    assert_true(number(data, "final_loss") == 1.125);
    json_free(line);
    line = line_of(record_of(BERTH_EVENT, NULL, saved, 3));
    expect_step(line, 2, 2, 7);
    assert_int_equal(json_length(data_of(line)), 1);
    assert_true(number(data_of(line), "checkpoint_step") == 7);
    json_free(line);
    line = line_of(record_of(BERTH_NOTE, "skipped", skipped, 3));
    expect_step(line, 2, 0, 7);
    assert_int_equal(json_length(data_of(line)), 1);
    assert_true(number(data_of(line), "loss_scale") == 32768);
    json_free(line);
}

// In a second phase the lines count its own updates, and only names of files count the first.
static void steps_of_a_second_phase(void **state) {
    const struct berth_field step[] = {log_integer("step", 12), log_real("epoch", 2.5),
                                       log_real("step_loss", 1.5), log_integer("phase_step", 2)};
    const struct berth_field saved[] = {log_integer("step", 12), log_integer("checkpoint_step", 12),
                                        log_integer("phase_step", 2)};
    char text[512];
    json *line = line_of(record_of(BERTH_STEP, NULL, step, 4));
    expect_step(line, 2, 2, 2);
    assert_int_equal(json_length(data_of(line)), 1);
    json_free(line);
    const struct berth_record event = record_of(BERTH_EVENT, NULL, saved, 3);
    line = line_of(event);
    expect_step(line, 2, 0, 2);
    assert_int_equal(json_length(data_of(line)), 1);
    assert_true(number(data_of(line), "checkpoint_step") == 2);
    json_free(line);
    assert_true(dllogger_text(&event, text, sizeof text));
    assert_non_null(strstr(text, "Training Iteration: 2 "));
    assert_non_null(strstr(text, "checkpoint_step : 2 "));
}

// The summaries of four jobs: the same fields under the names of each.
static void the_summary_has_no_step(void **state) {
    const struct berth_field fields[] = {
        log_real("train_seconds", 60),
        log_real("seconds", 90),
        log_real("predict_seconds", 8),
        log_real("evaluation_seconds", 20),
        log_real("samples_per_second", 32),
        log_real("evaluation_samples_per_second", 64),
        log_real("final_loss", 1.5),
        log_real("exact_match", 80.5),
        log_real("f1", 88.5),
        log_text("output_dir", "out"),
    };
    static const struct {
        const char *text, *key;
        double value;
    } wanted[] = {
        {"finetune squad", "e2e_train_time", 60},
        {"finetune squad", "training_sequences_per_second", 32},
        {"finetune squad", "final_loss", 1.5},
        {"finetune squad", "e2e_inference_time", 20},
        {"finetune squad", "inference_sequences_per_second", 64},
        {"finetune squad", "exact_match", 80.5},
        {"finetune squad", "F1", 88.5},
        {"predict squad", "e2e_inference_time", 8},
        {"predict squad", "inference_sequences_per_second", 32},
        {"evaluate pretrain", "e2e_inference_time", 8},
        {"evaluate pretrain", "inference_sequences_per_second", 32},
        {"pretrain", "e2e_train_time", 90},
        {"pretrain", "raw_train_time", 60},
        {"pretrain", "training_sequences_per_second", 32},
        {"pretrain", "final_loss", 1.5},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        json *line = line_of(
            record_of(BERTH_SUMMARY, wanted[i].text, fields, sizeof fields / sizeof *fields));
        expect_step(line, 0, 0, 0);
        assert_true(number(data_of(line), wanted[i].key) == wanted[i].value);
        assert_null(json_member(data_of(line), "output_dir"));
        json_free(line);
    }
}

static void what_it_has_no_name_for_is_left_out(void **state) {
    struct json_line line = {0};
    const struct berth_field fields[] = {log_integer("hidden_size", 768), log_real("seed", NAN)};
    struct berth_record plan = record_of(BERTH_PLAN, "model", fields, 2);
    struct berth_record note = record_of(BERTH_NOTE, "reading", NULL, 0);
    struct berth_record progress = record_of(BERTH_PROGRESS, "train", fields, 1);
    char text[256];
    assert_int_equal(dllogger_line(&line, 0, &plan), 0);
    assert_int_equal(dllogger_line(&line, 0, &note), 0);
    assert_int_equal(dllogger_line(&line, 0, &progress), 0);
    assert_int_equal(dllogger_text(&plan, text, sizeof text), 0);
    assert_int_equal(line.length, 0);
    json_line_done(&line);
}

// --- for people ---------------------------------------------------------------------------------

static void expect_text(struct berth_record record, const char *wanted) {
    char text[256];
    assert_int_equal(dllogger_text(&record, text, sizeof text), 1);
    assert_memory_equal(text, "DLL ", 4);
    assert_string_equal(text + strlen("DLL 2026-01-31 12:00:00.123456"), wanted);
}

static void people_get_metrics_with_units(void **state) {
    const struct berth_field step[] = {log_integer("step", 3), log_real("epoch", 0.5),
                                       log_real("loss", 1.25),
                                       log_real("average_training_time_step", 0.5)};
    const struct berth_field plan[] = {log_integer("train_examples", 12), log_integer("seed", 7)};
    const struct berth_field scores[] = {log_real("f1", 90.5), log_real("train_seconds", 2)};
    expect_text(record_of(BERTH_STEP, NULL, step, 4),
                " - Training Epoch: 0 Training Iteration: 3  step_loss : 1.25 "
                "average_training_time_step : 0.5 s ");
    expect_text(record_of(BERTH_PLAN, "data", plan, 2),
                " - PARAMETER training_samples : 12 SEED : 7 ");
    expect_text(record_of(BERTH_EVENT, "train_start", NULL, 0), " - PARAMETER train_start : True ");
    expect_text(record_of(BERTH_SUMMARY, "finetune squad", scores, 2),
                " -  F1 : 90.5 % e2e_train_time : 2 s ");
}

// --- the reporter -------------------------------------------------------------------------------

static char *read_all(const char *path, size_t *length) {
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[*length] = '\0';
    return text;
}

// Counts the file's lines of each type; every one is JSON in its frame.
static void count_lines(const char *path, int *metadata, int *logged) {
    size_t length;
    const char *at = read_all(path, &length);
    *metadata = *logged = 0;
    while (*at != '\0') {
        size_t bytes = strcspn(at, "\n");
        json *line = parse(at, bytes);
        const char *type = json_text(json_member(line, "type"));
        if (strcmp(type, "METADATA") == 0) {
            assert_non_null(json_text(json_member(line, "metric")));
            assert_non_null(json_member(json_member(line, "metadata"), "unit"));
            assert_int_equal(*logged, 0); // before all others
            ++*metadata;
        } else {
            assert_string_equal(type, "LOG");
            ++*logged;
        }
        json_free(line);
        at += bytes + 1;
    }
}

static void report(const struct settings *config) {
    struct berth_reporter *reporter;
    struct berth_error error;
    int nowhere = open("/dev/null", O_WRONLY);
    assert_int_equal(open_reporter_of(config, nowhere, &reporter, &error), BERTH_OK);
    struct berth_log log = reporter_log(reporter);
    const struct berth_field seed = log_integer("seed", 42);
    log_fields(&log, BERTH_PLAN, "optimizer", &seed, 1);
    log_note(&log, "nothing for the file");
    log_fields(&log, BERTH_EVENT, "train_start", NULL, 0);
    reporter_close(reporter);
    close(nowhere);
}

static void the_file_begins_with_units(void **state) {
    const char *path = scratch("log");
    int metadata, again, logged;
    struct settings config;
    settings_init(&config);
    config.report.log_format = "dllogger";
    config.report.json_summary = path;
    report(&config);
    count_lines(path, &metadata, &logged);
    assert_true(metadata > 5);
    assert_int_equal(logged, 2);
    report(&config); // which empties the file first
    count_lines(path, &again, &logged);
    assert_int_equal(again, metadata);
    assert_int_equal(logged, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_framed),
        cmocka_unit_test(a_field_may_have_two_names),
        cmocka_unit_test(an_event_is_true_or_its_fields),
        cmocka_unit_test(steps_of_fine_tuning),
        cmocka_unit_test(steps_of_pre_training),
        cmocka_unit_test(steps_of_a_second_phase),
        cmocka_unit_test(the_summary_has_no_step),
        cmocka_unit_test(what_it_has_no_name_for_is_left_out),
        cmocka_unit_test(people_get_metrics_with_units),
        SCRATCH_TEST(the_file_begins_with_units),
    };
    return cmocka_run_group_tests_name("dllogger", tests, NULL, NULL);
}
