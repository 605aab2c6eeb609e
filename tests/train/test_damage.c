// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 8 and 9 for checkpoints: verify finds every flipped bit and every truncation. A
// resumed run falls back to the previous checkpoint with a warning, and refuses if none is left.
//
// BERTH_FLIPS sets the number of flips (the long test: 1000).
#include "core/rng.h"
#include "fixture.h"
#include "train/checkpoint/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const files[] = {"config.json",
                                    "manifest.json",
                                    "model.safetensors",
                                    "optimizer.safetensors",
                                    "special_tokens_map.json",
                                    "tokenizer_config.json",
                                    "trainer_state.json",
                                    "vocab.txt"};
#define FILES (sizeof files / sizeof files[0])

static void flip(const char *path, uint64_t bit) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(bit / 8), SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, (long)(bit / 8), SEEK_SET), 0);
    fputc(byte ^ 1 << bit % 8, file);
    assert_int_equal(fclose(file), 0);
}

static uint32_t size_of(const char *path) {
    struct file_reader reader;
    assert_int_equal(file_reader_open(&reader, path, NULL), BERTH_OK);
    uint32_t size = (uint32_t)reader.size;
    file_reader_close(&reader);
    return size;
}

// A run that is stopped with its checkpoints 1 to 3.
static void make_run(const char *output) {
    struct fixture_run run = fixture_default(output);
    int64_t newest;
    run.stop_at_step = 2; // after the next update
    run.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    assert_int_equal(fixture_good_checkpoints(output, &newest), 3);
}

static void assert_all_files_are_listed(const char *checkpoint) {
    char **names;
    size_t count = 0;
    assert_int_equal(dir_list(in_folder(checkpoint), &names, NULL), BERTH_OK);
    for (; names[count] != NULL; count++) {
        assert_true(count < FILES);
        assert_string_equal(names[count], files[count]);
    }
    assert_int_equal(count, FILES);
    memory_free(names);
}

static void assert_bad(const char *folder, const char *what) {
    struct berth_error error = {0};
    if (checkpoint_verify(folder, NULL, &error) == BERTH_OK || error.message[0] == '\0') {
        fail_msg("%s was not noticed", what);
    }
}

static void test_flips_are_found(void **state) {
    make_run("run");
    assert_all_files_are_listed("run/checkpoint-3");
    const char *text = getenv("BERTH_FLIPS");
    int flips = text != NULL ? atoi(text) : 160;
    uint64_t draws = 0;
    const char *folder = fixture_keep("run/checkpoint-3");
    for (int i = 0; i < flips; i++) {
        char path[600], what[700];
        snprintf(path, sizeof path, "%s/%s", folder, files[(size_t)i % FILES]);
        uint32_t bit = rng_below(5, 1, &draws, 8 * size_of(path));
        snprintf(what, sizeof what, "bit %u of %s", bit, path);
        flip(path, bit);
        assert_bad(folder, what);
        flip(path, bit);
    }
    assert_int_equal(checkpoint_verify(folder, NULL, NULL), BERTH_OK);
}

static void test_truncations_and_strays_are_found(void **state) {
    make_run("run");
    const char *folder = fixture_keep("run/checkpoint-3");
    for (size_t i = 0; i < FILES; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        char *bytes;
        size_t length;
        assert_int_equal(file_read(path, 1 << 24, &bytes, &length, NULL), BERTH_OK);
        size_t stride = length > 400 ? length / 37 : 9;
        for (size_t left = 0; left < length - 1; left += stride) {
            assert_int_equal(truncate(path, (off_t)left), 0);
            assert_bad(folder, path);
            FILE *file = fopen(path, "wb");
            assert_non_null(file);
            assert_int_equal(fwrite(bytes, 1, length, file), length);
            assert_int_equal(fclose(file), 0);
        }
        memory_free(bytes);
    }
    assert_int_equal(checkpoint_verify(folder, NULL, NULL), BERTH_OK);
    char stray[600];
    snprintf(stray, sizeof stray, "%s/extra.bin", folder);
    FILE *file = fopen(stray, "wb");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_bad(folder, "a stray file");
}

static void test_resume_falls_back(void **state) {
    struct fixture_run straight = fixture_default("straight");
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    make_run("hurt");
    flip(in_folder("hurt/checkpoint-3/optimizer.safetensors"), 8 * 40000 + 3);
    struct fixture_run run = fixture_default("hurt");
    run.config.run.resume_from_checkpoint = "auto";
    fixture_expect(&run, BERTH_OK, "warning: skipping a damaged checkpoint");
    fixture_assert_logged("/hurt/checkpoint-2");
    assert_same_run("straight", "hurt");
}

static void test_resume_refuses_when_all_are_damaged(void **state) {
    make_run("hurt");
    for (int step = 1; step <= 3; step++) {
        char name[64];
        snprintf(name, sizeof name, "hurt/checkpoint-%d/model.safetensors", step);
        flip(in_folder(name), 99999);
    }
    struct fixture_run run = fixture_default("hurt");
    run.config.run.resume_from_checkpoint = "auto";
    fixture_expect(&run, BERTH_BAD_DATA, "no checkpoint is intact (3 damaged); the newest: ");
    fixture_expect(&run, BERTH_BAD_DATA, "hurt/checkpoint-3/model.safetensors: ");
    run.config.run.resume_from_checkpoint = fixture_keep("hurt/checkpoint-2");
    fixture_expect(&run, BERTH_BAD_DATA, "checkpoint-2");
    run.config.run.resume_from_checkpoint = NULL;
    run.config.run.overwrite_output_dir = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
}

// A folder that was made and not filled is no checkpoint: it neither counts nor stops the run.
static void test_resume_with_an_empty_folder(void **state) {
    struct fixture_run straight = fixture_default("straight");
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    assert_int_equal(dir_make(in_folder("started/checkpoint-2"), NULL), BERTH_OK);
    struct fixture_run run = fixture_default("started");
    run.config.run.resume_from_checkpoint = "auto";
    fixture_expect(&run, BERTH_OK, "started/checkpoint-2 is an empty folder");
    assert_same_run("straight", "started");
}

static void touch(const char *name) {
    assert_int_equal(file_write(in_folder(name), "", 0, NULL), BERTH_OK);
}

// The files of a file manager do not take a checkpoint from its run, and it is not advised to
// remove what is intact.
static void test_resume_with_strays(void **state) {
    make_run("hurt");
    struct fixture_run run = fixture_default("hurt");
    run.config.engine.max_steps = 4;
    run.config.run.resume_from_checkpoint = "auto";
    touch("hurt/checkpoint-3/.DS_Store");
    touch("hurt/checkpoint-3/notes.txt");
    fixture_expect(&run, BERTH_OK, "notes.txt is not listed in the manifest and is ignored");
    fixture_assert_logged("note: resumed from");
    fixture_assert_not_logged("warning: skipping");
    run.config.engine.max_steps = 5;
    run.config.run.resume_from_checkpoint = fixture_keep("hurt/checkpoint-4");
    touch("hurt/checkpoint-4/.DS_Store");
    fixture_expect(&run, BERTH_OK, "checkpoint-4/.DS_Store is not listed");
}

// The last model is the result if the best one's checkpoint is damaged, as if it is missing.
static void test_damaged_best_model(void **state) {
    struct fixture_run run = fixture_default("best");
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.run.load_best_model_at_end = 1;
    run.config.run.eval_steps = 1;
    run.config.run.evaluate_every_epoch = 0;
    run.config.optimizer.learning_rate =
        1e-12; // all scores are the same, so the first one is the best
    fixture_expect(&run, BERTH_OK, "the result is the best model, that of update 1");
    run.config.run.resume_from_checkpoint = "auto";
    run.fail_errno = EIO;
    run.fail_after_step = FIXTURE_UPDATES;
    // A read error, first in trainer_state.json, then while checkpoint-1 is verified, is no damage.
    for (run.fail_at = 24; run.fail_at <= 50; run.fail_at += 13) {
        fixture_expect(&run, BERTH_IO, "best/checkpoint-1/");
        fixture_assert_not_logged("is damaged");
    }
    run.fail_at = 0;
    flip(in_folder("best/checkpoint-1/model.safetensors"), 99999);
    assert_int_equal(file_remove(in_folder("best/model.safetensors"), NULL), BERTH_OK);
    fixture_expect(&run, BERTH_OK,
                   "checkpoint-1 is damaged: the result is the last model, not the best: ");
    assert_same_file(in_folder("best/model.safetensors"),
                     in_folder("best/checkpoint-8/model.safetensors"));
}

// The best model of a run that goes on in another folder is where the run came from; a checkpoint
// of the same step there, of another run, is not taken.
static void test_best_model_of_another_folder(void **state) {
    struct fixture_run run = fixture_default("best"), other = run;
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.run.load_best_model_at_end = 1;
    run.config.run.eval_steps = 1;
    run.config.optimizer.learning_rate =
        1e-12; // all scores are the same, so the first one is the best
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    other.config.run.output_dir = fixture_keep("other");
    other.config.engine.max_steps = other.config.run.logging_steps = 1;
    assert_int_equal(fixture_execute(&other), BERTH_OK);
    run.config.run.resume_from_checkpoint = fixture_keep("best/checkpoint-7");
    run.config.run.output_dir = fixture_keep("on");
    fixture_expect(&run, BERTH_OK, "the result is the best model, that of update 1");
    assert_same_file(in_folder("best/model.safetensors"), in_folder("on/model.safetensors"));
    assert_int_equal(symlink("best/checkpoint-7", in_folder("latest")), 0); // a link to it
    assert_int_equal(dir_remove(in_folder("on"), NULL), BERTH_OK);
    run.config.run.resume_from_checkpoint = fixture_keep("latest");
    fixture_expect(&run, BERTH_OK, "the result is the best model, that of update 1");
    assert_int_equal(dir_remove(in_folder("best/checkpoint-1"), NULL), BERTH_OK);
    assert_int_equal(dir_remove(in_folder("on"), NULL), BERTH_OK);
    fixture_expect(&run, BERTH_OK, "has no checkpoint-1 of this run: the result is the last model");
    fixture_copy_checkpoint("other", "on", 1);
    run.config.run.resume_from_checkpoint = "auto";
    fixture_expect(&run, BERTH_OK, "has no checkpoint-1 of this run: the result is the last model");
    fixture_assert_logged("on/checkpoint-1 belongs to another run");
    char *log = fixture_text(in_folder("log"));
    const char *note = strstr(log, "on/checkpoint-1 belongs to another run");
    assert_non_null(note);
    assert_null(strstr(note + 1, "on/checkpoint-1 belongs to another run"));
    memory_free(log);
}

static void test_no_manifest_is_no_checkpoint(void **state) {
    struct berth_error error = {0};
    assert_int_equal(checkpoint_verify(in_folder("model"), NULL, &error), BERTH_BAD_DATA);
    assert_non_null(strstr(error.message, "manifest.json"));
    assert_int_equal(checkpoint_verify(in_folder("none"), NULL, &error), BERTH_NO_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_flips_are_found),
        FIXTURE_TEST(test_truncations_and_strays_are_found),
        FIXTURE_TEST(test_resume_falls_back),
        FIXTURE_TEST(test_resume_refuses_when_all_are_damaged),
        FIXTURE_TEST(test_resume_with_an_empty_folder),
        FIXTURE_TEST(test_resume_with_strays),
        FIXTURE_TEST(test_damaged_best_model),
        FIXTURE_TEST(test_best_model_of_another_folder),
        FIXTURE_TEST(test_no_manifest_is_no_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
