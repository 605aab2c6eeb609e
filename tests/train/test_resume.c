// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 14 and 15: a run stopped at any update boundary (mid-epoch, at an epoch's end, at the
// last update) and resumed ends with the bytes of a run that was not, in fp32 and bf16, with and
// without accumulation, with every optimizer.
#include "fixture.h"

// Checkpoints of every update of a straight run, then a resumption from each of them.
static void resume_everywhere(enum berth_precision precision, int64_t micro) {
    struct fixture_run straight = fixture_default("straight");
    straight.config.precision = precision;
    straight.config.per_device_train_batch_size = micro;
    straight.config.train_batch_size = micro > 0 ? 2 * micro : 11;
    straight.config.save_total_limit = 100;
    straight.config.validation_file = fixture_keep("dev.json");
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    for (int step = 1; step <= FIXTURE_UPDATES; step++) {
        char from[64], to[64], output[32];
        snprintf(output, sizeof output, "resumed-%d", step);
        snprintf(from, sizeof from, "straight/checkpoint-%d", step);
        snprintf(to, sizeof to, "%s/checkpoint-%d", output, step);
        fixture_copy(in_folder(from), in_folder(to));
        struct fixture_run resumed = straight;
        resumed.config.output_dir = fixture_keep(output);
        resumed.config.resume_from_checkpoint = "auto";
        resumed.config.save_steps = 3; // saving is no part of the numbers
        assert_int_equal(fixture_execute(&resumed), BERTH_OK);
        assert_same_run("straight", output);
        assert_same_file(fixture_path("straight", "predictions.json"),
                         fixture_path(output, "predictions.json"));
        assert_same_file(fixture_path("straight", "nbest_predictions.json"),
                         fixture_path(output, "nbest_predictions.json"));
    }
}

static void test_fp32(void **state) {
    resume_everywhere(BERTH_FP32, 0);
}

static void test_bf16_with_accumulation(void **state) {
    resume_everywhere(BERTH_BF16, 6);
}

static void test_named_folder_and_other_settings(void **state) {
    struct fixture_run run = fixture_default("a");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run resumed = fixture_default("b");
    resumed.config.resume_from_checkpoint = fixture_keep("a/checkpoint-7");
    assert_int_equal(fixture_execute(&resumed), BERTH_OK);
    assert_same_run("a", "b");
    resumed.config.output_dir = fixture_keep("c");
    resumed.config.seed = 12; // another order of the data
    assert_int_equal(fixture_execute(&resumed), BERTH_CONFIG);
    resumed.config.seed = 11;
    resumed.config.train_batch_size = 9;
    assert_int_equal(fixture_execute(&resumed), BERTH_CONFIG);
}

// Half-way through the first epoch and at its end, with the settings that make most of each.
static void test_every_optimizer(void **state) {
    static const char *const names[] = {"adam", "adam_weight_decay", "bertadam", "nvlamb", "lamb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char output[32], resumed[32], from[64], to[64];
        snprintf(output, sizeof output, "%s", names[i]);
        struct fixture_run straight = fixture_default(output);
        straight.config.optimizer = names[i];
        straight.config.clip_by = "both";
        straight.config.max_grad_norm = 0.5;
        straight.config.save_total_limit = 100;
        assert_int_equal(fixture_execute(&straight), BERTH_OK);
        for (int step = 2; step <= 5; step += 3) {
            snprintf(resumed, sizeof resumed, "%s-from-%d", names[i], step);
            snprintf(from, sizeof from, "%s/checkpoint-%d", output, step);
            snprintf(to, sizeof to, "%s/checkpoint-%d", resumed, step);
            fixture_copy(in_folder(from), in_folder(to));
            struct fixture_run run = straight;
            run.config.output_dir = fixture_keep(resumed);
            run.config.resume_from_checkpoint = "auto";
            assert_int_equal(fixture_execute(&run), BERTH_OK);
            assert_same_run(output, resumed);
        }
        struct fixture_run other = fixture_default("other");
        other.config.resume_from_checkpoint = fixture_keep(to);
        assert_int_equal(fixture_execute(&other), BERTH_CONFIG); // the moments are another's
    }
}

static void test_auto_without_checkpoints_starts_anew(void **state) {
    struct fixture_run run = fixture_default("fresh");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run again = fixture_default("auto");
    again.config.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&again), BERTH_OK);
    assert_same_run("fresh", "auto");
}

// A finished run resumed does no update and writes the same files again.
static void test_finished_run(void **state) {
    struct fixture_run run = fixture_default("done");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    fixture_copy(fixture_path("done", "checkpoint-8"), in_folder("before"));
    run.config.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_file(fixture_path("done", "checkpoint-8/model.safetensors"),
                     fixture_path("before", "model.safetensors"));
    assert_same_file(fixture_path("done", "model.safetensors"),
                     fixture_path("before", "model.safetensors"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_fp32),
        FIXTURE_TEST(test_bf16_with_accumulation),
        FIXTURE_TEST(test_named_folder_and_other_settings),
        FIXTURE_TEST(test_every_optimizer),
        FIXTURE_TEST(test_auto_without_checkpoints_starts_anew),
        FIXTURE_TEST(test_finished_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
