// SPDX-License-Identifier: Apache-2.0
// Tests what jobs that the program and the library share (api/jobs.h) refuse, and what they return
// if they fail before they begin. Those of berth.h: test_interface.c.
#include "api/jobs.h"
#include "core/harness.h"
#include "settings/settings.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define GOLDEN BERTH_TEST_SOURCE_DIR "/tests/golden/"

static const struct berth_log silent;

static struct settings config_of(const char *folder) {
    struct settings config;
    settings_init(&config);
    config.model.model_name_or_path = folder;
    config.machine.device = "cpu";
    config.machine.threads = 1;
    config.features.max_seq_length = 8;
    config.model.allow_new_head = 1;
    return config;
}

// The library refuses what only the program does.
static void program(void **state) {
    static const char *const settings[] = {"wikipedia",  "dump.xml", "stages", "text",
                                           "output_dir", "none",     NULL};
    struct berth_error error;
    struct settings config = config_of(NULL);
    assert_null(berth_job("prepare", settings, NULL, &error));
    assert_int_equal(error.status, BERTH_UNAVAILABLE);
    assert_non_null(strstr(error.message, "does not read dumps (dump.xml)"));
    config.report.report = "report.html";
    assert_int_equal(job_train("squad", &config, silent, NULL, NULL, &error), BERTH_UNAVAILABLE);
    assert_non_null(strstr(error.message, "does not write pages (report.html)"));
}

// What a job returns if it fails before it begins.
static void results(void **state) {
    static enum berth_status (*const functions[])(
        const char *task, const struct settings *config, struct berth_log log,
        const atomic_int *stop, struct berth_run_result *result,
        struct berth_error *error) = {job_train, job_predict, job_evaluate};
    const struct settings config = config_of(NULL);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct berth_run_result result = {.steps = 7, .final_loss = 7, .metric_count = 7};
        assert_int_equal(functions[i]("sqaud", &config, silent, NULL, &result, NULL), BERTH_USAGE);
        assert_true(result.steps == 0 && result.metric_count == 0);
        assert_true(isnan(result.final_loss) && isnan(result.mfu));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program),
        cmocka_unit_test(results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
