// SPDX-License-Identifier: Apache-2.0
// Tests the rules of loss scaling with injected overflows: each rule alone, then both scalers
// against models written from DeepSpeed's descriptions over a long random series. Also tests the
// meaning of the settings and what is refused.
#include "core/harness.h"
#include "core/rng.h"
#include "settings/settings.h"
#include "train/optimizer/loss_scale.h"

#include <string.h>

static struct settings defaults(const char *rule) {
    struct settings config;
    settings_init(&config);
    config.optimizer.loss_scale = "dynamic";
    config.optimizer.loss_scaler = rule;
    config.optimizer.init_loss_scale = 1024;
    config.optimizer.loss_scale_window = 4;
    return config;
}

static struct loss_scale make(const struct settings *config) {
    struct loss_scale scale = {0};
    struct berth_error error = {0};
    if (loss_scale_settle(&scale, &config->optimizer, 0, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return scale;
}

// A series of updates, "." without and "x" with an overflow, and the result of each: "." nothing,
// "+" doubled, "-" halved, "o" tolerated, "!" ended the run.
static void expect(struct loss_scale *scale, const char *updates, const char *events, double end) {
    static const char names[] = {'.', '+', '-', 'o', '!'};
    for (size_t i = 0; updates[i] != '\0'; i++) {
        char found = names[loss_scale_update(scale, updates[i] == 'x')];
        if (found != events[i]) {
            fail_msg("update %d of %s: found %c, not %c of %s", (int)i, updates, found, events[i],
                     events);
        }
    }
    if (scale->scale != end) {
        fail_msg("after %s the scale is %g, not %g", updates, scale->scale, end);
    }
}

// --- zero ---------------------------------------------------------------------------------------

static void test_zero_doubles_after_a_window(void **state) {
    struct settings config = defaults("zero");
    struct loss_scale scale = make(&config);
    expect(&scale, "........", "...+...+", 4096); // the "overflow" before the first counts
    expect(&scale, "..x....x", "..o...+o", 8192); // and then the real one
}

static void test_zero_hysteresis_is_used_up_and_refilled_by_a_window(void **state) {
    struct settings config = defaults("zero");
    struct loss_scale scale = make(&config);
    expect(&scale, "xx", "o-", 512);    // two by default
    expect(&scale, "xx", "--", 128);    // none left
    expect(&scale, "...x", "...-", 64); // three updates without overflow restore none
    expect(&scale, "....xx", "...+o-", 64);
    config.optimizer.hysteresis = 1;
    scale = make(&config);
    expect(&scale, "x", "-", 512);
    config.optimizer.hysteresis = 3;
    scale = make(&config);
    expect(&scale, "xxxx", "oo--", 256);
}

static void test_zero_consecutive_hysteresis_is_refilled_by_every_clean_update(void **state) {
    struct settings config = defaults("zero");
    config.optimizer.consecutive_hysteresis = 1;
    struct loss_scale scale = make(&config);
    expect(&scale, "x.x.x.xx", "o.o.o.o-", 512);
}

static void test_zero_ends_the_run_at_the_floor(void **state) {
    struct settings config = defaults("zero");
    config.optimizer.hysteresis = 1;
    config.optimizer.min_loss_scale = 300; // no power of two: the last step is a short one
    struct loss_scale scale = make(&config);
    expect(&scale, "xx", "--", 300);
    expect(&scale, "x", "!", 300);
    config.optimizer.hysteresis = 2; // an overflow that is tolerated does not end it
    config.optimizer.init_loss_scale = config.optimizer.min_loss_scale = 1;
    scale = make(&config);
    expect(&scale, "x", "o", 1);
    expect(&scale, "x", "!", 1);
}

// --- plain --------------------------------------------------------------------------------------

static void test_plain_halves_at_once_and_never_ends_the_run(void **state) {
    struct settings config = defaults("plain");
    config.optimizer.min_loss_scale = 200;
    struct loss_scale scale = make(&config);
    expect(&scale, "xxx", "---", 200);
    expect(&scale, "xx", "oo", 200);
}

static void test_plain_doubles_one_update_later(void **state) {
    struct settings config = defaults("plain");
    struct loss_scale scale = make(&config);
    expect(&scale, ".........", "....+...+", 4096);
    expect(&scale, "x.....", "-....+", 4096);
    config.optimizer.loss_scale_window =
        1; // for the first after an overflow there is nothing in between
    scale = make(&config);
    expect(&scale, "x...", "-.++", 2048);
}

// --- static and none ----------------------------------------------------------------------------

static void test_static_never_changes(void **state) {
    struct settings config = defaults("zero");
    config.optimizer.loss_scale = "128";
    struct loss_scale scale = make(&config);
    assert_int_equal(scale.kind, LOSS_SCALE_STATIC);
    expect(&scale, "....xxxx....", "....oooo....", 128);
    assert_false(loss_scale_is_dynamic(&scale));
}

// Fifty overflows in a row without remedy; one good update in between restarts the count.
static void test_being_stuck_ends_the_run(void **state) {
    struct settings config = defaults("plain");
    config.optimizer.init_loss_scale = config.optimizer.min_loss_scale = 8;
    struct settings fixed = defaults("zero");
    fixed.optimizer.loss_scale = "8";
    for (int i = 0; i < 2; i++) {
        struct loss_scale scale = make(i == 0 ? &config : &fixed);
        for (int update = 0; update < 49; update++) {
            assert_int_equal(loss_scale_update(&scale, 1), SCALE_TOLERATED);
        }
        assert_int_equal(loss_scale_update(&scale, 0), SCALE_KEPT);
        for (int update = 0; update < 49; update++) {
            assert_int_equal(loss_scale_update(&scale, 1), SCALE_TOLERATED);
        }
        assert_int_equal(loss_scale_update(&scale, 1), SCALE_EXHAUSTED);
    }
}

static void test_settings(void **state) {
    struct settings config;
    settings_init(&config);
    struct loss_scale scale = make(&config);
    assert_int_equal(scale.kind, LOSS_SCALE_NONE);
    assert_true(scale.scale == 1);
    config.optimizer.loss_scale = "0"; // as --loss_scale 0 and "loss_scale": 0 mean it
    scale = make(&config);
    assert_int_equal(scale.kind, LOSS_SCALE_ZERO);
    assert_true(scale.scale == 65536 && scale.window == 1000 && scale.hysteresis == 2);
    assert_true(scale.minimum == 1 && scale.last_overflow == -1);
    config.optimizer.loss_scale = "dynamic";
    config.optimizer.loss_scaler = "plain";
    assert_int_equal(make(&config).kind, LOSS_SCALE_PLAIN);
    config.optimizer.loss_scale = "static";
    config.optimizer.init_loss_scale = 128;
    assert_int_equal(make(&config).kind, LOSS_SCALE_STATIC);
    assert_true(make(&config).scale == 128);
}

static void refuse(const char *text, double start, enum berth_status status, const char *part) {
    struct settings config = defaults("zero");
    struct loss_scale scale = {0};
    struct berth_error error = {0};
    config.optimizer.loss_scale = text;
    config.optimizer.init_loss_scale = start;
    assert_int_equal(loss_scale_settle(&scale, &config.optimizer, 0, &error), status);
    assert_non_null(strstr(error.message, part));
}

static void test_refusals(void **state) {
    refuse("dynamik", 1024, BERTH_USAGE, "\"dynamik\"");
    refuse("-1", 1024, BERTH_USAGE, "\"-1\"");
    refuse("1e39", 1024, BERTH_USAGE, "2^126");
    refuse("dynamic", 0.5, BERTH_CONFIG, "min_loss_scale 1");
}

// The state of a checkpoint continues, with the rules of the current settings.
static void test_restored_numbers_go_on(void **state) {
    struct settings config = defaults("zero");
    struct loss_scale straight = make(&config), resumed;
    expect(&straight, ".x...x", ".o...-", 512);
    resumed = (struct loss_scale){.scale = straight.scale,
                                  .updates = straight.updates,
                                  .last_overflow = straight.last_overflow,
                                  .hysteresis_left = straight.hysteresis_left,
                                  .restored = 1};
    assert_int_equal(loss_scale_settle(&resumed, &config.optimizer, 0, NULL), BERTH_OK);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(loss_scale_update(&straight, i == 5), loss_scale_update(&resumed, i == 5));
        assert_true(straight.scale == resumed.scale);
    }
}

// --- against models -----------------------------------------------------------------------------

struct model {
    double scale, minimum;
    int64_t i, last, window, shift, left;
    int consecutive, ended;
};

static void model_zero(struct model *m, int overflow) {
    if (overflow) {
        if (m->shift == 1 || m->left == 1) {
            if (m->scale == m->minimum) {
                m->ended = 1;
            }
            m->scale = m->scale / 2 < m->minimum ? m->minimum : m->scale / 2;
        } else {
            m->left -= 1;
        }
        m->last = m->i;
    } else {
        if (m->consecutive) {
            m->left = m->shift;
        }
        if ((m->i - m->last) % m->window == 0) {
            m->left = m->shift;
            m->scale *= 2;
        }
    }
    m->i += 1;
}

static void model_plain(struct model *m, int overflow) {
    if (overflow) {
        m->scale = m->scale / 2 < m->minimum ? m->minimum : m->scale / 2;
        m->last = m->i;
    } else {
        int64_t stable = m->i - m->last - 1;
        if (stable > 0 && stable % m->window == 0) {
            m->scale *= 2;
        }
    }
    m->i += 1;
}

// Overflows occur at random, and whenever the scale is above a moving ceiling.
static int overflows(uint64_t seed, int update, double scale) {
    uint64_t index = (uint64_t)update;
    double u = rng_draw(seed, 1, &index) * 0x1p-32;
    return u < 0.05 || scale > (update / 500 % 2 != 0 ? 256 : 65536);
}

static void follow(const char *rule, int64_t hysteresis, int consecutive, uint64_t seed) {
    struct settings config = defaults(rule);
    config.optimizer.init_loss_scale = 0x1p32;
    config.optimizer.loss_scale_window = 7;
    config.optimizer.hysteresis = hysteresis;
    config.optimizer.consecutive_hysteresis = consecutive;
    struct loss_scale scale = make(&config);
    struct model model = {.scale = 0x1p32,
                          .minimum = 1,
                          .last = -1,
                          .window = 7,
                          .shift = hysteresis,
                          .left = hysteresis,
                          .consecutive = consecutive};
    for (int update = 0; update < 3000 && !model.ended; update++) {
        int overflow = overflows(seed, update, scale.scale);
        enum loss_scale_event event = loss_scale_update(&scale, overflow);
        (strcmp(rule, "zero") == 0 ? model_zero : model_plain)(&model, overflow);
        assert_int_equal(event == SCALE_EXHAUSTED, model.ended);
        if (scale.scale != model.scale) {
            fail_msg("%s, update %d: %g, expected %g", rule, update, scale.scale, model.scale);
        }
    }
}

static void test_long_series(void **state) {
    for (uint64_t seed = 0; seed < 5; seed++) {
        for (int64_t hysteresis = 1; hysteresis <= 3; hysteresis++) {
            follow("zero", hysteresis, 0, seed);
            follow("zero", hysteresis, 1, seed);
        }
        follow("plain", 2, 0, seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_doubles_after_a_window),
        cmocka_unit_test(test_zero_hysteresis_is_used_up_and_refilled_by_a_window),
        cmocka_unit_test(test_zero_consecutive_hysteresis_is_refilled_by_every_clean_update),
        cmocka_unit_test(test_zero_ends_the_run_at_the_floor),
        cmocka_unit_test(test_plain_halves_at_once_and_never_ends_the_run),
        cmocka_unit_test(test_plain_doubles_one_update_later),
        cmocka_unit_test(test_static_never_changes),
        cmocka_unit_test(test_being_stuck_ends_the_run),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_restored_numbers_go_on),
        cmocka_unit_test(test_long_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
