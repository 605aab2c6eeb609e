// SPDX-License-Identifier: Apache-2.0
// Tests an output folder with its checkpoints: what a killed run leaves there is removed, old
// checkpoints too, but nothing that could still be needed or is not of a run. What is in a
// checkpoint's files: test_checkpoint_files.c.
#include "core/scratch.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"

// --- leftovers ----------------------------------------------------------------------------------

static void test_leftovers_are_removed(void **state) {
    static const char *const leftovers[] = {".tmp-checkpoint-3-new/config.json",
                                            "trainer_state.json.4711.0.tmp", "log.jsonl"};
    static const char *const kept[] = {"notes.tmp",    "notes.7.tmp", "notes.a.7.tmp",
                                       "notes.7.0.tm", "7.0.tmp",     ".7.0.tmp"};
    assert_int_equal(dir_make(scratch(".tmp-checkpoint-3-new"), NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof leftovers / sizeof leftovers[0]; i++) {
        scratch_write(leftovers[i], "half");
    }
    assert_false(checkpoint_dir_is_used(scratch_folder, NULL));
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        scratch_write(kept[i], "mine");
        assert_true(checkpoint_dir_is_used(scratch_folder, NULL));
    }
    assert_int_equal(checkpoint_clean(scratch_folder, NULL), BERTH_OK);
    assert_int_equal(scratch_count(), sizeof kept / sizeof kept[0] + 1); // and the log
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        assert_file_holds(scratch(kept[i]), "mine");
    }
}

// A folder with nothing but the files that the settings place there is not in use.
static void test_logs_do_not_use_a_folder(void **state) {
    struct berth_config config;
    char *summary = memory_string(scratch("logs/summary.json"));
    char *report = memory_string(scratch("report.html"));
    berth_config_init(&config);
    assert_int_equal(dir_make(scratch("logs"), NULL), BERTH_OK);
    scratch_write("logs/summary.json", "{}");
    assert_true(checkpoint_dir_is_used(scratch_folder, &config));
    config.json_summary = summary;
    config.report = report;
    assert_false(checkpoint_dir_is_used(scratch_folder, &config));
    scratch_write("report.html", "");
    assert_false(checkpoint_dir_is_used(scratch_folder, &config));
    config.report = NULL;
    assert_true(checkpoint_dir_is_used(scratch_folder, &config));
    assert_false(checkpoint_dir_is_used(scratch("none"), &config));
    memory_free(summary);
    memory_free(report);
}

static void test_no_output_folder(void **state) {
    struct berth_config config;
    struct berth_error error;
    berth_config_init(&config);
    for (int i = 0; i < 2; i++) {
        config.output_dir = i == 0 ? NULL : "";
        assert_int_equal(output_check(&config, NULL, &error), BERTH_USAGE);
        assert_message_has(&error, "--output_dir is missing");
    }
}

// --- rotation -----------------------------------------------------------------------------------

// checkpoint-STEP with one file and its manifest.
static void make_checkpoint(int step) {
    char name[64];
    snprintf(name, sizeof name, "checkpoint-%d", step);
    assert_int_equal(dir_make(scratch(name), NULL), BERTH_OK);
    snprintf(name, sizeof name, "checkpoint-%d/model.safetensors", step);
    scratch_write(name, "weights");
    snprintf(name, sizeof name, "checkpoint-%d", step);
    assert_int_equal(manifest_write(scratch(name), NULL), BERTH_OK);
}

// Which of the checkpoints 2 to 10 exist, as bits.
static unsigned checkpoints(void) {
    unsigned found = 0;
    for (int step = 2; step <= 10; step++) {
        char name[64];
        snprintf(name, sizeof name, "checkpoint-%d", step);
        found |= dir_exists(scratch(name)) ? 1u << step : 0;
    }
    return found;
}

static void make_checkpoints(void) {
    for (int step = 2; step <= 10; step += 2) {
        make_checkpoint(step);
    }
}

static enum berth_status rotate(int64_t newest, int64_t limit, struct berth_error *error) {
    const struct checkpoint_limits limits = {
        .newest = newest, .limit = limit, .best = -1, .originals_after = -1};
    return checkpoint_rotate(scratch_folder, &limits, error);
}

// The oldest are removed; those newer than the one just written, of an earlier run, are not
// counted.
static void test_rotation_keeps_the_newest(void **state) {
    make_checkpoints();
    assert_int_equal(rotate(10, 0, NULL), BERTH_OK);
    assert_int_equal(rotate(10, 5, NULL), BERTH_OK);
    assert_int_equal(checkpoints(), 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10);
    assert_int_equal(rotate(8, 3, NULL), BERTH_OK);
    assert_int_equal(checkpoints(), 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10);
    assert_int_equal(rotate(10, 1, NULL), BERTH_OK);
    assert_int_equal(checkpoints(), 1 << 10);
    assert_int_equal(scratch_count(), 1);
}

// Folders that only look like checkpoints are neither resumed from nor removed.
static void test_names_that_are_no_checkpoints(void **state) {
    static const char *const names[] = {"checkpoint-", "checkpoint-x", "checkpoint-07",
                                        "checkpoint-99999999999999999999", "checkpoint-9x"};
    char *found;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(dir_make(scratch(names[i]), NULL), BERTH_OK);
    }
    assert_int_equal(checkpoint_find(scratch_folder, NULL, &found, NULL), BERTH_OK);
    assert_null(found);
    assert_int_equal(checkpoint_remove_all(scratch_folder, NULL), BERTH_OK);
    assert_int_equal(scratch_count(), sizeof names / sizeof *names);
}

// Each allocation fails once: nothing but what was asked for is removed, and no checkpoint is taken
// for a damaged one.
static void test_checkpoints_without_memory(void **state) {
    uint64_t made, call = 0;
    do {
        char *found = NULL;
        make_checkpoints();
        scratch_write("a.1.2.tmp", "half");
        memory_fail_at(++call, 0);
        enum berth_status status = checkpoint_find(scratch_folder, NULL, &found, NULL);
        if (status == BERTH_OK) {
            assert_string_equal(strrchr(found, '/'), "/checkpoint-10");
            status = checkpoint_clean(scratch_folder, NULL);
        }
        status = status == BERTH_OK ? rotate(10, 2, NULL) : status;
        made = memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        assert_true((checkpoints() & 1 << 10) != 0);
        memory_free(found);
        assert_int_equal(checkpoint_remove_all(scratch_folder, NULL), BERTH_OK);
        assert_int_equal(checkpoint_clean(scratch_folder, NULL), BERTH_OK);
    } while (made >= call);
    assert_true(call > 10);
}

// A kill while a checkpoint was being removed has left its temporary name.
static void test_rotation_after_a_kill(void **state) {
    make_checkpoints();
    assert_int_equal(dir_make(scratch(".tmp-checkpoint-2-old"), NULL), BERTH_OK);
    scratch_write(".tmp-checkpoint-2-old/model.safetensors", "half");
    assert_int_equal(rotate(10, 1, NULL), BERTH_OK);
    assert_int_equal(checkpoints(), 1 << 10);
    assert_int_equal(scratch_count(), 1);
}

// While the newest does not verify, a run would resume from the older ones.
static void test_rotation_verifies_the_newest(void **state) {
    static const char *const damages[] = {"weightz", "weight", "weights and more"};
    struct berth_error error;
    make_checkpoints();
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        scratch_write("checkpoint-10/model.safetensors", damages[i]);
        assert_int_equal(rotate(10, 2, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "checkpoint-10");
        assert_int_equal(checkpoints(), 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10);
    }
    scratch_write("checkpoint-10/model.safetensors", "weights");
    scratch_write("checkpoint-8/model.safetensors", "damaged"); // not the newest: it may
    assert_int_equal(rotate(10, 2, &error), BERTH_OK);
    assert_int_equal(checkpoints(), 1 << 8 | 1 << 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_leftovers_are_removed),
        SCRATCH_TEST(test_logs_do_not_use_a_folder),
        SCRATCH_TEST(test_no_output_folder),
        SCRATCH_TEST(test_names_that_are_no_checkpoints),
        SCRATCH_TEST(test_rotation_keeps_the_newest),
        SCRATCH_TEST(test_checkpoints_without_memory),
        SCRATCH_TEST(test_rotation_after_a_kill),
        SCRATCH_TEST(test_rotation_verifies_the_newest),
    };
    return cmocka_run_group_tests_name("checkpoint folder", tests, NULL, NULL);
}
