// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's trainer_state.json says of its run (train/progress/run_facts.h).
#include "core/scratch.h"
#include "train/progress/run_facts.h"

#define SETTINGS                                                                                   \
    "\"settings\":{\"optimizer\":\"lamb\",\"learning_rate\":\"0.25\",\"weight_decay\":\"0.5\","    \
    "\"no_decay\":\"\",\"adam_beta2\":\"0.75\",\"train_batch_size\":\"x\"}"

static enum berth_status read_facts(struct run_facts *facts, const char *text,
                                    struct berth_error *error) {
    scratch_write("trainer_state.json", text);
    return run_facts_read(facts, scratch("trainer_state.json"), error);
}

static void test_settings_and_numbers(void **state) {
    struct run_facts facts;
    struct berth_error error;
    if (read_facts(&facts,
                   "{\"global_step\":20,\"skipped_steps\":3,\"phase_start\":10,\"moments_start\":4,"
                   "\"train_batch_size\":8,\"log_history\":[{\"learning_rate\":0.125},"
                   "{\"eval_f1\":1}]," SETTINGS "}",
                   &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(facts.optimizer.row->name, "lamb");
    assert_true(facts.optimizer.weight_decay == 0.5 && facts.optimizer.beta2 == 0.75);
    assert_true(facts.optimizer.epsilon == 1e-8); // the optimizer's own
    assert_false(optimizer_decays(&facts.optimizer, "bert.pooler.dense.bias"));
    assert_true(facts.last_rate == 0.125);
    assert_int_equal(facts.step, 20);
    assert_int_equal(facts.skipped, 3);
    assert_int_equal(facts.updates, 7); // of the second phase
    assert_int_equal(facts.sequences, 8);
    run_facts_done(&facts);
    assert_int_equal(read_facts(&facts,
                                "{\"global_step\":20,\"moments_start\":4,\"log_history\":[],"
                                "\"train_batch_size\":8," SETTINGS "}",
                                NULL),
                     BERTH_OK);
    assert_int_equal(facts.updates, 16);
    assert_true(facts.last_rate == 0.25);
    run_facts_done(&facts);
    // Since Berth has a key of its own, the other one is of a micro-batch.
    assert_int_equal(
        read_facts(&facts,
                   "{\"global_step\":20,\"train_batch_size\":2,\"stateful_callbacks\":{\"Berth\":"
                   "{\"attributes\":{\"train_batch_size\":8," SETTINGS "}}}}",
                   NULL),
        BERTH_OK);
    assert_int_equal(facts.sequences, 8);
    run_facts_done(&facts);
}

// Of an update that follows skipped ones, an earlier phase, a restart of the schedule.
static void test_the_next_rate(void **state) {
    static const struct {
        const char *text;
        int64_t scheduled;
        double rate;
    } cases[] = {
        {"\"max_steps\":20", 10, 0.25},
        {"\"max_steps\":20,\"skipped_steps\":2", 8, 0.3},
        {"\"max_steps\":20,\"skipped_steps\":2,\"phase_start\":3", 5, 0.375},
        {"\"max_steps\":20,\"schedule_start\":6", 10, 0.35714285714285715}, // 10 of 14 are left
        {"\"max_steps\":0", 10, 0.125},                                     // the last one logged
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_facts facts;
        char text[600];
        snprintf(text, sizeof text,
                 "{\"global_step\":10,%s,\"log_history\":[{\"learning_rate\":0.125}],\"settings\":{"
                 "\"learning_rate\":\"0.5\",\"warmup_proportion\":\"0\",\"freeze_layers\":\"2\"}}",
                 cases[i].text);
        assert_int_equal(read_facts(&facts, text, NULL), BERTH_OK);
        assert_int_equal(facts.scheduled, cases[i].scheduled);
        assert_true(facts.next_rate == cases[i].rate);
        assert_true(facts.schedule.peak == 0.5);
        assert_int_equal(facts.optimizer.frozen.layers, 2);
        run_facts_done(&facts);
    }
    // The length of such a schedule is not in the file.
    struct run_facts facts;
    assert_int_equal(
        read_facts(&facts,
                   "{\"global_step\":10,\"max_steps\":20,\"log_history\":[],\"settings\":{"
                   "\"learning_rate\":\"0.5\",\"steps_rule\":\"epochs\"}}",
                   NULL),
        BERTH_OK);
    assert_null(facts.schedule.row);
    assert_true(facts.next_rate == 0.5);
    run_facts_done(&facts);
}

static void test_what_does_not_fit_is_refused(void **state) {
    static const struct {
        const char *text, *part;
    } cases[] = {{"{\"train_batch_size\":8}", "global_step"},
                 {"{\"global_step\":2,\"skipped_steps\":3}", "fit each other"},
                 {"{\"global_step\":2,\"phase_start\":3}", "fit each other"},
                 {"{\"global_step\":2,\"settings\":{\"optimizer\":\"sgd\"}}", "sgd"},
                 {"{\"global_step\":\"2\"}", "expected an integer"},
                 {"{\"global_step\":2", "line"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_facts facts;
        struct berth_error error = {0};
        assert_int_not_equal(read_facts(&facts, cases[i].text, &error), BERTH_OK);
        if (strstr(error.message, cases[i].part) == NULL) {
            fail_msg("%s: %s", cases[i].text, error.message);
        }
        assert_null(facts.state);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_settings_and_numbers),
        SCRATCH_TEST(test_the_next_rate),
        SCRATCH_TEST(test_what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
