// SPDX-License-Identifier: Apache-2.0
// Every schedule against its formula, written out again from its source (systems.md 3.3, 4, 5.4,
// 6.8), and the corners: first and last update, no warm-up, warm-up only.
#include "core/harness.h"
#include "core/options.h"
#include "train/schedule.h"

#include <math.h>
#include <string.h>

static const double LR = 3e-5;

static struct schedule make(const char *name, int64_t total, double proportion, int64_t steps) {
    struct berth_config config;
    struct schedule schedule;
    option_defaults(&config);
    config.schedule = name;
    config.learning_rate = LR;
    config.warmup_proportion = proportion;
    config.warmup_steps = steps;
    config.warmup_min_lr = 1e-6;
    assert_int_equal(schedule_init(&schedule, &config, total, NULL), BERTH_OK);
    return schedule;
}

static void expect(const struct schedule *schedule, int64_t step, double rate) {
    double found = schedule_rate(schedule, step);
    if (!(fabs(found - rate) <= 1e-15)) {
        fail_msg("%s: step %d: %.17g, expected %.17g", schedule->row->name, (int)step, found, rate);
    }
}

static void test_linear_is_continuous(void **state) {
    struct schedule s = make("linear", 100, 0.1, 0);
    expect(&s, 0, 0);
    expect(&s, 5, LR * 0.05 / 0.1);
    expect(&s, 10, LR);
    expect(&s, 55, LR * 0.45 / 0.9);
    expect(&s, 99, LR * 0.01 / 0.9);
    expect(&s, 100, 0);
    s = make("linear", 10, 0.1, 2); // as the golden curve: k/2, then (10-k)/8
    for (int k = 0; k < 10; k++) {
        expect(&s, k, LR * (k < 2 ? k / 2.0 : (10 - k) / 8.0));
    }
    s = make("linear", 10, 0, 0);
    expect(&s, 0, LR);
    s = make("linear", 10, 1, 0);
    expect(&s, 9, LR * 0.9);
}

static void test_bertadam_jumps(void **state) {
    struct schedule s = make("bertadam", 100, 0.1, 0);
    expect(&s, 9, LR * 0.9);
    expect(&s, 10, LR * 0.9);
    expect(&s, 50, LR * 0.5);
}

static void test_google(void **state) {
    struct schedule s = make("google", 7299, 0.1, 0);
    assert_int_equal(s.warmup_steps, 729);
    expect(&s, 0, 0);
    expect(&s, 728, LR * 728 / 729);
    expect(&s, 729, LR * (1 - 729.0 / 7299));
    expect(&s, 7299, 0);
}

static void test_poly(void **state) {
    struct schedule s = make("poly", 100, 0.2, 0);
    expect(&s, 0, LR * 0.01 / 0.2);
    expect(&s, 50, LR * sqrt(1 - 0.51));
    expect(&s, 99, 0);
}

static void test_constant_and_cosine(void **state) {
    struct schedule s = make("constant", 100, 0.1, 0);
    expect(&s, 0, LR);
    expect(&s, 99, LR);
    s = make("constant_warmup", 100, 0.1, 0);
    expect(&s, 5, LR * 0.5);
    expect(&s, 99, LR);
    s = make("cosine", 100, 0.1, 0);
    expect(&s, 5, LR * 0.5);
    expect(&s, 10, LR);
    expect(&s, 55, LR * 0.5 * (1 + cos(3.14159265358979323846 * 0.45 / 0.9)));
    expect(&s, 100, LR * 0.5 * (1 + cos(3.14159265358979323846)));
}

static void test_deepspeed_warmups(void **state) {
    const double low = 1e-6, span = LR - 1e-6;
    struct schedule s = make("warmup_log", 100, 0, 10);
    expect(&s, 0, low + span * log(1) / log(10));
    expect(&s, 4, low + span * log(5) / log(10));
    expect(&s, 10, LR);
    expect(&s, 99, LR);
    s = make("warmup_linear", 100, 0, 10);
    expect(&s, 4, low + span * 0.4);
    expect(&s, 50, LR);
    s = make("warmup_decay_linear", 100, 0, 10);
    expect(&s, 4, low + span * 0.4);
    expect(&s, 55, low + span * 45 / 90);
    expect(&s, 100, low);
    expect(&s, 150, low);
    s = make("warmup_decay_log", 100, 0, 10);
    expect(&s, 4, low + span * log(5) / log(10));
    expect(&s, 55, low + span * 45 / 90);
    s = make("warmup_log", 100, 0, 1); // a warm-up has at least two steps
    expect(&s, 1, low + span * log(2) / log(2));
}

static void test_rates_never_leave_their_range(void **state) {
    for (size_t row = 0; row < schedule_row_count; row++) {
        for (int proportion = 0; proportion <= 10; proportion += 5) {
            for (int total = 1; total <= 17; total += 8) {
                struct schedule s = make(schedule_rows[row].name, total, proportion / 10.0, 0);
                for (int step = 0; step < total; step++) {
                    double rate = schedule_rate(&s, step);
                    assert_true(rate >= 0 && rate <= LR * (1 + 1e-12));
                }
            }
        }
    }
}

static void test_unknown_name(void **state) {
    struct berth_config config;
    struct schedule schedule;
    struct berth_error error;
    option_defaults(&config);
    config.schedule = "lineer";
    assert_int_equal(schedule_init(&schedule, &config, 10, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "lineer"));
    assert_non_null(strstr(error.message, "linear"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_is_continuous),
        cmocka_unit_test(test_bertadam_jumps),
        cmocka_unit_test(test_google),
        cmocka_unit_test(test_poly),
        cmocka_unit_test(test_constant_and_cosine),
        cmocka_unit_test(test_deepspeed_warmups),
        cmocka_unit_test(test_rates_never_leave_their_range),
        cmocka_unit_test(test_unknown_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
