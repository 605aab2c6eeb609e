// SPDX-License-Identifier: Apache-2.0
// Tests that the inner functions that the program and the library share (core/calls.h) refuse NULL
// for a required argument, and that the error names the function and the argument. Those of
// berth.h: test_interface.c.
#include "core/calls.h"
#include "core/harness.h"

#include <math.h>
#include <string.h>

#define GOLDEN BERTH_TEST_SOURCE_DIR "/tests/golden/"

static const struct berth_log silent;

static struct berth_config config_of(const char *folder) {
    struct berth_config config;
    berth_config_init(&config);
    config.model_name_or_path = folder;
    config.device = "cpu";
    config.threads = 1;
    config.max_seq_length = 8;
    config.allow_new_head = 1;
    return config;
}

#define NEEDS(function, argument, ...)                                                             \
    do {                                                                                           \
        struct berth_error found_error = {.status = BERTH_OK};                                     \
        assert_int_equal(function(__VA_ARGS__, &found_error), BERTH_USAGE);                        \
        assert_int_equal(found_error.status, BERTH_USAGE);                                         \
        assert_string_equal(found_error.message,                                                   \
                            #function ": the argument \"" argument "\" is NULL");                  \
        assert_int_equal(function(__VA_ARGS__, NULL), BERTH_USAGE);                                \
    } while (0)

static char *text;

static void settings(void **state) {
    struct berth_config config = config_of(NULL);
    struct berth_reporter *reporter;
    NEEDS(berth_config_set, "config", NULL, "seed", "1");
    NEEDS(berth_config_set, "name", &config, NULL, "1");
    NEEDS(berth_config_set, "value", &config, "seed", NULL);
    NEEDS(berth_reporter_open, "config", NULL, 1, &reporter);
    NEEDS(berth_reporter_open, "reporter", &config, 1, NULL);
}

// The library refuses what only the program does.
static void program(void **state) {
    static const struct berth_prepare_input input = {.wikipedia = "dump.xml"};
    struct berth_prepare_result result;
    struct berth_error error;
    struct berth_config config = config_of(NULL);
    config.stages = "text";
    config.output_dir = "none";
    assert_int_equal(berth_prepare(&config, &input, silent, NULL, &result, &error),
                     BERTH_UNAVAILABLE);
    assert_non_null(strstr(error.message, "only the program reads dump.xml"));
    config.report = "report.html";
    assert_int_equal(job_train("squad", &config, silent, NULL, NULL, &error), BERTH_UNAVAILABLE);
    assert_non_null(strstr(error.message, "only the program writes report.html"));
}

static int see(void *context, const struct berth_sample *sample) {
    return 0;
}

static void jobs(void **state) {
    const struct berth_config config = config_of(NULL);
    const struct berth_tag_scoring scoring = {.scheme = NULL};
    const struct berth_selection samples = {.count = 1};
    NEEDS(job_train, "task", NULL, &config, silent, NULL, NULL);
    NEEDS(job_train, "config", "squad", NULL, silent, NULL, NULL);
    NEEDS(job_predict, "task", NULL, &config, silent, NULL, NULL);
    NEEDS(job_predict, "config", "squad", NULL, silent, NULL, NULL);
    NEEDS(job_evaluate, "task", NULL, &config, silent, NULL, NULL);
    NEEDS(job_evaluate, "config", "squad", NULL, silent, NULL, NULL);
    NEEDS(berth_evaluate_tokens, "dataset_path", NULL, "b", &scoring, &text);
    NEEDS(berth_evaluate_tokens, "predictions_path", "a", NULL, &scoring, &text);
    NEEDS(berth_evaluate_tokens, "scoring", "a", "b", NULL, &text);
    NEEDS(berth_evaluate_tokens, "json", "a", "b", &scoring, NULL);
    NEEDS(berth_evaluate_squad, "dataset_path", NULL, "b", NULL, 0, silent, &text);
    NEEDS(berth_evaluate_squad, "predictions_path", "a", NULL, NULL, 0, silent, &text);
    NEEDS(berth_show_squad, "config", NULL, samples, silent, see, NULL);
    NEEDS(berth_show_squad, "visit", &config, samples, silent, NULL, NULL);
}

// What a job returns if it fails before it begins.
static void results(void **state) {
    static enum berth_status (*const functions[])(
        const char *task, const struct berth_config *config, struct berth_log log,
        const volatile int *stop, struct berth_run_result *result,
        struct berth_error *error) = {job_train, job_predict, job_evaluate};
    const struct berth_config config = config_of(NULL);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct berth_run_result result = {.steps = 7, .final_loss = 7, .metric_count = 7};
        assert_int_equal(functions[i]("sqaud", &config, silent, NULL, &result, NULL), BERTH_USAGE);
        assert_true(result.steps == 0 && result.metric_count == 0);
        assert_true(isnan(result.final_loss) && isnan(result.mfu));
    }
}

static void files(void **state) {
    const struct berth_convert_settings conversion = {.to = "hf"}, none = {.to = NULL};
    NEEDS(berth_inspect, "path", NULL, NULL, NULL, &text);
    NEEDS(berth_inspect_data, "path", NULL, NULL);
    NEEDS(berth_verify, "path", NULL, NULL);
    NEEDS(berth_init_model, "name_or_file", NULL, "b", 1);
    NEEDS(berth_init_model, "output_dir", "tiny", NULL, 1);
    NEEDS(berth_convert, "input", NULL, "b", &conversion, silent);
    NEEDS(berth_convert, "output_dir", "a", NULL, &conversion, silent);
    NEEDS(berth_convert, "settings", "a", "b", NULL, silent);
    NEEDS(berth_convert, "settings->to", "a", "b", &none, silent);
    NEEDS(berth_compare, "a", NULL, "b", 0, NULL, NULL, NULL);
    NEEDS(berth_compare, "b", "a", NULL, 0, NULL, NULL, NULL);
    NEEDS(berth_find_data, "name", NULL, "dev", &text);
    NEEDS(berth_find_data, "split", "squad", NULL, &text);
    NEEDS(berth_find_data, "path", "squad", "dev", NULL);
    NEEDS(berth_find_model, "name_or_path", NULL, &text);
    NEEDS(berth_find_model, "path", "a/b", NULL);
}

static void data_for_pretraining(void **state) {
    const struct berth_config config = config_of(NULL);
    const struct berth_prepare_input input = {.name = NULL};
    const struct berth_vocab_settings vocabulary = {.output = NULL};
    NEEDS(berth_prepare, "config", NULL, &input, silent, NULL, NULL);
    NEEDS(berth_prepare, "input", &config, NULL, silent, NULL, NULL);
    NEEDS(berth_pack, "config", NULL, "a", "b", silent, NULL, NULL);
    NEEDS(berth_pack, "input_dir", &config, NULL, "b", silent, NULL, NULL);
    NEEDS(berth_pack, "output_dir", &config, "a", NULL, silent, NULL, NULL);
    NEEDS(berth_vocab_train, "config", NULL, &vocabulary, silent, NULL, NULL);
    NEEDS(berth_vocab_train, "settings", &config, NULL, silent, NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings), cmocka_unit_test(program),
        cmocka_unit_test(jobs),     cmocka_unit_test(results),
        cmocka_unit_test(files),    cmocka_unit_test(data_for_pretraining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
