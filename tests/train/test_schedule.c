// SPDX-License-Identifier: Apache-2.0
// Tests every schedule against its formula, written out again from its source, and the corner
// cases: first and last update, no warm-up, only warm-up.
#include "core/harness.h"
#include "deepspeed_rates.golden.h"
#include "settings/settings.h"
#include "train/optimizer/schedule.h"
#include "transformers_rates.golden.h"

#include <math.h>
#include <string.h>

static const double LR = 3e-5;

static struct schedule make(const char *name, int64_t total, double proportion, int64_t steps) {
    struct settings config;
    struct schedule schedule;
    settings_init(&config);
    config.optimizer.schedule = name;
    config.optimizer.learning_rate = LR;
    config.optimizer.warmup_proportion = proportion;
    config.optimizer.warmup_steps = steps;
    config.optimizer.warmup_min_lr = 1e-6;
    schedule = schedule_of(&config.optimizer, 1, total);
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

// As Habana's fused Adam has them: its scheduler steps before the update.
static void test_linear_ahead_begins_with_the_second_rate(void **state) {
    struct schedule s = make("linear_ahead", 20, 0.1, 0);
    expect(&s, 0, 1.5e-5);
    expect(&s, 1, 3e-5);
    for (int step = 2; step < 20; step++) {
        expect(&s, step, 3e-5 * (19 - step) / 18);
    }
    s = make("linear_ahead", 10, 1, 0); // where the original divides by zero
    expect(&s, 8, LR * 0.9);
    expect(&s, 9, LR);
}

// As transformers: 2.6 updates are three.
static void test_warmup_is_rounded_up(void **state) {
    struct settings config;
    struct schedule s;
    settings_init(&config);
    config.optimizer.learning_rate = LR;
    config.optimizer.warmup_proportion = 0.13;
    config.optimizer.warmup_round_up = 1;
    s = schedule_of(&config.optimizer, 1, 20);
    assert_int_equal(s.warmup_steps, 3);
    for (int step = 0; step < 20; step++) {
        expect(&s, step, LR * (step < 3 ? step / 3.0 : (20 - step) / 17.0));
    }
    config.optimizer.warmup_steps = 4; // overrides the proportion
    s = schedule_of(&config.optimizer, 1, 20);
    expect(&s, 3, LR * 0.75);
    config.optimizer.warmup_steps = 0;
    config.optimizer.warmup_proportion = 0;
    s = schedule_of(&config.optimizer, 1, 20);
    expect(&s, 0, LR);
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
    expect(&s, 100, 0);
    expect(&s, 101, 0);
    expect(&s, 190, 0); // the cosine itself would be at its top again
}

// As DeepSpeed's engine has them in each update: the golden's settings, and its rates.
static void test_deepspeed_schedules(void **state) {
    for (size_t i = 0; i < sizeof deepspeed_rates / sizeof deepspeed_rates[0]; i++) {
        const char *name = deepspeed_rates[i].schedule;
        struct settings config;
        struct schedule s;
        settings_init(&config);
        config.optimizer.schedule = name;
        config.optimizer.learning_rate = 1e-3;
        config.optimizer.warmup_steps = 5;
        config.optimizer.warmup_min_lr = 1e-5;
        config.optimizer.cos_min_ratio = 0.05;
        s = schedule_of(&config.optimizer, 1, DEEPSPEED_UPDATES);
        for (int step = 0; step < DEEPSPEED_UPDATES; step++) {
            expect(&s, step, deepspeed_rates[i].rates[step]);
        }
    }
}

// As transformers' get_scheduler has them.
static void test_transformers_schedules(void **state) {
    for (size_t i = 0; i < sizeof transformers_rates / sizeof transformers_rates[0]; i++) {
        struct settings config;
        struct schedule s;
        settings_init(&config);
        config.optimizer.schedule = transformers_rates[i].schedule;
        config.optimizer.learning_rate = 1e-3;
        config.optimizer.warmup_proportion = 0;
        config.optimizer.warmup_steps = transformers_rates[i].warmup_steps;
        s = schedule_of(&config.optimizer, 1, TRANSFORMERS_UPDATES);
        for (int step = 0; step < TRANSFORMERS_UPDATES; step++) {
            expect(&s, step, transformers_rates[i].rates[step]);
        }
    }
}

static void test_polynomial_after_the_end(void **state) {
    struct schedule s = make("polynomial", 40, 0.2, 0);
    expect(&s, 40, 1e-7);
    expect(&s, 90, 1e-7);
    s = make("polynomial", 8, 0, 8); // only warm-up
    expect(&s, 7, LR * 7 / 8);
    expect(&s, 8, 1e-7);
    s.peak = 0;
    expect(&s, 3, 0);
    expect(&s, 20, 0);
}

static void test_deepspeed_corners(void **state) {
    const double low = 1e-6, span = LR - 1e-6;
    struct schedule s = make("warmup_log", 100, 0, 1); // a warm-up has at least two steps
    expect(&s, 1, low);
    expect(&s, 2, low + span);
    s = make("warmup_decay_linear", 100, 0, 10);
    expect(&s, 101, low);
    expect(&s, 150, low);
    s = make("warmup_cosine_log", 10, 0, 20); // no room for the cosine
    expect(&s, 25, LR * 0.0001);
}

// The number of updates that warm up, as it is shown and as the rates are.
static void test_updates_that_warm_up(void **state) {
    static const struct {
        const char *name;
        int64_t total;
        double proportion;
        int64_t warm;
    } cases[] = {
        {"linear", 1, 0.1, 1},      {"linear", 7299, 0.1, 730},   {"cosine", 5, 0.5, 3},
        {"google", 7299, 0.1, 729}, {"poly", 7038, 0.2843, 2000}, {"constant", 100, 0.1, 0},
        {"linear", 100, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schedule s = make(cases[i].name, cases[i].total, cases[i].proportion, 0);
        assert_int_equal(s.warmup_steps, cases[i].warm);
    }
    struct schedule zero = make("linear", 1, 0.1, 0), some = make("linear", 2, 0.1, 0);
    assert_int_equal(schedule_is_zero(&zero, 1), 1);
    assert_int_equal(schedule_is_zero(&some, 2), 0);
    assert_int_equal(schedule_is_zero(&some, 1), 1); // a run that ends before its schedule
    assert_int_equal(schedule_is_zero(&some, 0), 0);
    zero = make("poly", 1, 0.01, 0);
    assert_int_equal(schedule_is_zero(&zero, 1), 1);
    some = make("constant", 1, 0.5, 0);
    assert_int_equal(schedule_is_zero(&some, 1), 0);
    some.peak = some.minimum = 0;
    assert_int_equal(schedule_is_zero(&some, INT64_MAX), 1); // without asking each update
    some.offset = LR;
    assert_int_equal(schedule_is_zero(&some, 1), 0);
}

// --- at every step ------------------------------------------------------------------------------

enum { TOTAL = 40, WARM = 8 };

static double power(double base, double exponent) {
    return exp(exponent * log(base));
}

static double want_linear(int s) {
    return s < WARM ? s / 8.0 : (40 - s) / 32.0;
}
static double want_linear_ahead(int s) {
    return s + 1 < WARM ? (s + 1) / 8.0 : (39 - s) / 32.0;
}
static double want_bertadam(int s) {
    return s < WARM ? s / 8.0 : (40 - s) / 40.0;
}
static double want_poly(int s) {
    return s + 1 < WARM ? (s + 1) / 8.0 : sqrt((39 - s) / 40.0);
}
static double want_constant(int s) {
    return 1;
}
static double want_constant_warmup(int s) {
    return s < WARM ? s / 8.0 : 1;
}
static double want_cosine(int s) {
    return s < WARM ? s / 8.0 : (1 + cos(3.14159265358979323846 * (s - 8) / 32)) / 2;
}
static double want_polynomial(int s) {
    const double end = 1e-7 / LR;
    return s < WARM ? s / 8.0 : end + (1 - end) * (40 - s) / 32;
}
static double want_inverse_sqrt(int s) {
    return s < WARM ? s / 8.0 : 1 / sqrt(s / 8.0);
}
static double want_ee(int s) {
    return s < WARM ? s / 8.0 * s / 8 : power(0.8, (s - 8) / 5.0);
}
static double want_le(int s) {
    return s < WARM ? s / 8.0 : power(0.8, (s - 8) / 5.0);
}
static double want_ep(int s) {
    return s < WARM ? s / 8.0 * sqrt(s / 8.0) : (40 - s) / 40.0 * (40 - s) / 40;
}
// DeepSpeed's are one update late.
static double want_log(int s) {
    return s == 0 ? 0 : s - 1 < WARM ? log(s) / log(8) : 1;
}
static double want_late_linear(int s) {
    return s == 0 ? 0 : s - 1 < WARM ? (s - 1) / 8.0 : 1;
}
static double want_decay_log(int s) {
    return s == 0 ? 0 : s - 1 < WARM ? log(s) / log(8) : (41 - s) / 32.0;
}
static double want_decay_linear(int s) {
    return s == 0 ? 0 : s - 1 < WARM ? (s - 1) / 8.0 : (41 - s) / 32.0;
}
static double want_cosine_end(int s) {
    return 0.0001 + 0.9999 * (1 + cos(3.14159265358979323846 * (s - 8) / 32)) / 2;
}
// Of the whole rate: the minimum applies only to the warm-up.
static double want_cosine_log(int s) {
    return s == 0         ? 0
           : s - 1 < WARM ? (1e-6 + (LR - 1e-6) * log(s) / log(8)) / LR
                          : want_cosine_end(s);
}
static double want_cosine_linear(int s) {
    return s == 0 ? 0 : s - 1 < WARM ? (1e-6 + (LR - 1e-6) * (s - 1) / 8) / LR : want_cosine_end(s);
}

static const struct {
    const char *name;
    double (*want)(int step); // of the way from `low` to the peak
    int from_minimum;         // low: warmup_min_lr, else 0
} every[] = {
    {"linear", want_linear, 0},
    {"linear_ahead", want_linear_ahead, 0},
    {"bertadam", want_bertadam, 0},
    {"google", want_bertadam, 0},
    {"poly", want_poly, 0},
    {"constant", want_constant, 0},
    {"constant_warmup", want_constant_warmup, 0},
    {"cosine", want_cosine, 0},
    {"polynomial", want_polynomial, 0},
    {"inverse_sqrt", want_inverse_sqrt, 0},
    {"EE", want_ee, 0},
    {"LE", want_le, 0},
    {"EP", want_ep, 0},
    {"warmup_log", want_log, 1},
    {"warmup_linear", want_late_linear, 1},
    {"warmup_decay_log", want_decay_log, 1},
    {"warmup_decay_linear", want_decay_linear, 1},
    {"warmup_cosine_log", want_cosine_log, 0},
    {"warmup_cosine_linear", want_cosine_linear, 0},
};

// By warmup_steps and by proportion, with and without lr_offset, from the start and started again.
static void test_every_schedule_at_every_step(void **state) {
    assert_int_equal(sizeof every / sizeof *every, schedule_row_count);
    for (size_t row = 0; row < schedule_row_count; row++) {
        assert_string_equal(every[row].name, schedule_rows[row].name);
        for (int variant = 0; variant < 8; variant++) {
            const int64_t first = (variant & 4) != 0 ? 60 : 0;
            const double low = every[row].from_minimum ? 1e-6 : 0;
            struct settings config;
            struct schedule s;
            settings_init(&config);
            config.optimizer.schedule = every[row].name;
            config.optimizer.learning_rate = LR;
            config.optimizer.warmup_min_lr = 1e-6;
            config.optimizer.warmup_proportion = 0.2;
            config.optimizer.warmup_steps = (variant & 1) != 0 ? WARM : 0;
            config.optimizer.lr_offset = (variant & 2) != 0 ? 1e-3 : 0;
            config.optimizer.decay_rate = 0.8;
            config.optimizer.decay_step = 5;
            s = schedule_of(&config.optimizer, 1, first + TOTAL);
            if (first > 0) {
                schedule_restart(&s, &config.optimizer, 30);
                schedule_restart(&s, &config.optimizer, first);
            }
            for (int step = 0; step < TOTAL; step++) {
                expect(&s, first + step,
                       config.optimizer.lr_offset + low + (LR - low) * every[row].want(step));
            }
        }
    }
}

static void test_exponential_decay_without_warmup(void **state) {
    struct schedule s = make("EE", 1000, 0, 0);
    expect(&s, 0, LR);
    expect(&s, 250, LR * 0.9); // decay_rate and decay_step as BingBert's configuration has them
    expect(&s, 500, LR * 0.81);
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

// A run that continues after its planned end: a rate that has fallen to zero stays there.
static void test_after_the_end(void **state) {
    static const char *const falling[] = {"linear", "linear_ahead", "bertadam", "google",
                                          "poly",   "cosine",       "EP"};
    for (size_t i = 0; i < sizeof falling / sizeof *falling; i++) {
        struct schedule s = make(falling[i], 40, 0.2, 0);
        for (int step = 40; step < 120; step++) {
            expect(&s, step, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_is_continuous),
        cmocka_unit_test(test_linear_ahead_begins_with_the_second_rate),
        cmocka_unit_test(test_warmup_is_rounded_up),
        cmocka_unit_test(test_bertadam_jumps),
        cmocka_unit_test(test_google),
        cmocka_unit_test(test_poly),
        cmocka_unit_test(test_constant_and_cosine),
        cmocka_unit_test(test_deepspeed_schedules),
        cmocka_unit_test(test_transformers_schedules),
        cmocka_unit_test(test_polynomial_after_the_end),
        cmocka_unit_test(test_deepspeed_corners),
        cmocka_unit_test(test_updates_that_warm_up),
        cmocka_unit_test(test_every_schedule_at_every_step),
        cmocka_unit_test(test_exponential_decay_without_warmup),
        cmocka_unit_test(test_rates_never_leave_their_range),
        cmocka_unit_test(test_after_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
