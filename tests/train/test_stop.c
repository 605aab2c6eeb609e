// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 17, 18, 25, 4, 28, 29, 30, 47 and the plan's refusal: stopping at every moment,
// numbers that are not finite, full disks, folders in use, clocks that jump, locales with a decimal
// comma.
#include "core/foreign_locale.h"
#include "fixture.h"
#include "format/safetensors/safetensors.h"
#include "train/checkpoint/manifest.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

// --- a clock that jumps -------------------------------------------------------------------------

// These replace the C library's functions in the whole test program: the time of day jumps by years
// at each reading, the monotonic clock is unaffected.
int clock_gettime(clockid_t clock, struct timespec *time) {
    static long leaps;
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME) {
        time->tv_sec += ++leaps % 2 == 0 ? 400000000 : -400000000;
    }
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

// --- helpers ------------------------------------------------------------------------------------

static char *text_of(const char *path) {
    static char *text; // static, because gcc 12 takes what file_read stores for the address of a
                       // local
    size_t length;
    assert_int_equal(file_read(path, 1 << 24, &text, &length, NULL), BERTH_OK);
    return text;
}

static void assert_log_has(const char *part) {
    char *text = text_of(in_folder("log"));
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in %s", part, text);
    }
    memory_free(text);
}

static void resume_and_compare(struct fixture_run run, const char *output) {
    struct fixture_run straight = run;
    straight.config.output_dir = fixture_keep("straight");
    straight.config.resume_from_checkpoint = NULL;
    straight.stop_at_step = straight.stop_in_predict = straight.stop_at_start = 0;
    straight.fail_at = 0;
    run.stop_at_step = run.stop_in_predict = run.stop_at_start = 0;
    run.fail_at = 0;
    run.config.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_run("straight", output);
}

// --- stopping -----------------------------------------------------------------------------------

static void test_stop_saves_and_says_so(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.save_steps = 100; // only the stop itself saves
    run.stop_at_step = 2;        // noticed with the next update
    run.stop_level = 1;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 3);
    assert_int_equal(fixture_temporaries("out"), 0);
    assert_log_has("resume_from_checkpoint auto");
    resume_and_compare(run, "out");
}

static void test_second_signal_leaves_at_once(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.save_steps = 2;
    run.stop_at_step = 3;
    run.stop_level = 2;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 2); // nothing was saved when leaving
    resume_and_compare(run, "out");
}

static void test_stop_before_the_first_step(void **state) {
    for (int level = 1; level <= 2; level++) {
        struct fixture_run run = fixture_default("out");
        run.config.resume_from_checkpoint = "auto";
        run.stop_at_start = 1;
        run.stop_level = level;
        assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
        int64_t newest;
        assert_int_equal(fixture_good_checkpoints("out", &newest), 0);
        assert_int_equal(fixture_temporaries("out"), 0);
    }
    resume_and_compare(fixture_default("out"), "out");
}

static void test_stop_during_evaluation(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.validation_file = fixture_keep("dev.json");
    run.config.save_steps = 100;
    run.stop_in_predict = 1;
    run.stop_level = 1;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 4); // the end of the first epoch
    resume_and_compare(run, "out");
}

// --- not finite ---------------------------------------------------------------------------------

// Sets the first element of a tensor of a folder's weights.
static void spoil(const char *folder, const char *tensor, float value) {
    const char *path = fixture_path(folder, "model.safetensors");
    struct safetensors file;
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    const struct tensor_entry *entry = safetensors_find(&file, tensor);
    assert_non_null(entry);
    long place = (long)(file.data_begin + entry->begin);
    safetensors_close(&file);
    FILE *raw = fopen(path, "r+b");
    assert_non_null(raw);
    assert_int_equal(fseek(raw, place, SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, raw), 1);
    assert_int_equal(fclose(raw), 0);
}

static void test_nan_names_step_and_layer(void **state) {
    spoil("model", "bert.encoder.layer.1.attention.self.query.bias", 3e38f);
    struct fixture_run run = fixture_default("out");
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
    assert_log_has("update 1");
    assert_log_has("the output of bert.encoder.layer.1 is the first that is not finite");
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 0);
}

static void test_nan_in_a_model_is_refused(void **state) {
    spoil("model", "bert.encoder.layer.1.intermediate.dense.bias", NAN);
    struct fixture_run run = fixture_default("out");
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_BAD_DATA);
    assert_log_has("/model: number 1 of the weight bert.encoder.layer.1.intermediate.dense.bias is "
                   "not finite (nan)");
    assert_false(dir_exists(in_folder("out")));
}

static void assert_finite(const char *folder) {
    struct safetensors file;
    const char *path = fixture_path(folder, "model.safetensors");
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    for (size_t i = 0; i < file.count; i++) {
        const int64_t count = (int64_t)(file.entries[i].end - file.entries[i].begin) / 4;
        float *values = memory_array((size_t)count, sizeof *values);
        assert_int_equal(safetensors_read_f32(&file, &file.entries[i], 0, count, values, NULL),
                         BERTH_OK);
        for (int64_t k = 0; k < count; k++) {
            assert_true(isfinite(values[k]));
        }
        memory_free(values);
    }
    safetensors_close(&file);
}

// A rate that makes the weights diverge: earlier checkpoints stay intact and finite.
static void test_divergence_keeps_the_last_good_state(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.learning_rate = 1e38;
    run.config.schedule = "constant";
    run.config.max_steps = 50;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
    assert_log_has("not finite");
    int64_t newest;
    char name[64];
    assert_true(fixture_good_checkpoints("out", &newest) >= 1);
    snprintf(name, sizeof name, "out/checkpoint-%d", (int)newest);
    assert_finite(name);
}

// A run that keeps one checkpoint, that of update 2, and whose third update divides by 0.
static struct fixture_run last_update_diverges(void) {
    struct fixture_run run = fixture_default("out");
    run.config.max_steps = 2;
    run.config.save_total_limit = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.resume_from_checkpoint = "auto";
    run.config.max_steps = 3;
    run.config.adam_epsilon = 0;
    run.config.do_eval = 0;
    run.log_file = fixture_keep("log");
    return run;
}

// RELIABILITY 25: loss and gradient of the last update are finite, and only its weights are not.
// They are not saved, whatever --on_save_error says, and what was saved before stays.
static void test_the_last_update_may_diverge(void **state) {
    struct fixture_run run = last_update_diverges();
    for (int i = 0; i < 3; i++) {
        run.config.async_save = i == 1;
        run.config.on_save_error = i == 2 ? "continue" : "stop";
        assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
        assert_log_has("checkpoint of step 3 not saved: number 1 of the weight ");
        assert_log_has("is not finite");
        int64_t newest;
        assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
        assert_int_equal(newest, 2);
        assert_finite("out/checkpoint-2");
        assert_finite("out");
        assert_int_equal(fixture_temporaries("out"), 0);
        assert_int_equal(file_remove(in_folder("log"), NULL), BERTH_OK);
    }
}

static void test_no_model_without_checkpoints_either(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.max_steps = 1;
    run.config.adam_epsilon = 0;
    run.config.do_eval = 0;
    run.config.skip_checkpoint = 1;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
    assert_log_has("is not finite");
    assert_false(file_exists(in_folder("out/model.safetensors")));
    assert_int_equal(fixture_temporaries("out"), 0);
}

// Of a program that did not look: intact, but of no use.
static void test_resume_names_weights_that_are_not_finite(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    spoil("out/checkpoint-2", "qa_outputs.bias", NAN);
    assert_int_equal(manifest_write(in_folder("out/checkpoint-2"), NULL), BERTH_OK);
    run.config.max_steps = 3;
    run.config.resume_from_checkpoint = "auto";
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_BAD_DATA);
    assert_log_has("out/checkpoint-2: number 1 of the weight qa_outputs.bias is not finite (nan)");
    assert_log_has("use another model or an earlier checkpoint");
}

// --- disks --------------------------------------------------------------------------------------

// The call of the file layer, counted from the report of update 2, that finds the disk full. Each
// is in that update's save.
static const uint64_t failing_calls[] = {3, 12, 20, 40};

// A save beside the updates has no fixed place among the calls of the file layer.
static void skip_unless_saves_wait(void) {
    if (getenv("BERTH_ASYNC_SAVE") != NULL) {
        skip();
    }
}

static void fail_save(const char *on_save_error, int expected) {
    skip_unless_saves_wait();
    for (size_t i = 0; i < sizeof failing_calls / sizeof failing_calls[0]; i++) {
        char output[16];
        snprintf(output, sizeof output, "out-%d", (int)i);
        struct fixture_run run = fixture_default(output);
        run.config.on_save_error = on_save_error;
        run.fail_at = failing_calls[i];
        run.fail_errno = ENOSPC;
        run.fail_after_step = 2;
        run.log_file = fixture_keep("log");
        assert_int_equal(fixture_execute(&run), expected);
        assert_log_has("No space left on device");
        assert_log_has("checkpoint of step 2 not saved");
        assert_int_equal(fixture_temporaries(output), 0);
        assert_false(dir_exists(fixture_path(output, "checkpoint-2")));
        int64_t newest;
        assert_true(fixture_good_checkpoints(output, &newest) >= 1);
        if (i == 0) {
            resume_and_compare(run, output);
        }
        assert_int_equal(file_remove(in_folder("log"), NULL), BERTH_OK);
    }
}

static void test_full_disk_stops(void **state) {
    fail_save("stop", BERTH_IO);
}

static void test_full_disk_may_be_passed_over(void **state) {
    fail_save("continue", BERTH_OK);
}

static void assert_log_has_not(const char *part) {
    char *text = text_of(in_folder("log"));
    assert_null(strstr(text, part));
    memory_free(text);
}

// A stopped run's message is true, even after a failed save that was tolerated.
static void test_stop_does_not_claim_what_was_not_saved(void **state) {
    skip_unless_saves_wait();
    struct fixture_run run = fixture_default("out");
    run.config.save_steps = 2;
    run.config.on_save_error = "continue";
    run.stop_at_step = 2; // noticed with the next update
    run.stop_level = 1;
    run.fail_at = failing_calls[0];
    run.fail_errno = ENOSPC;
    run.fail_after_step = 3;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    int64_t newest;
    fixture_good_checkpoints("out", &newest);
    assert_int_equal(newest, 2);
    assert_log_has("this update could not be saved: resume from the last checkpoint");
    assert_log_has_not("everything is saved");
    resume_and_compare(run, "out");
}

// Beside the updates: the run waits for the last save, so its calls are in a fixed order. Whatever
// fails of it, in the thread or before, is reported as of a save that waits.
static void test_failures_of_an_async_save(void **state) {
    static const char *const outcomes[] = {"stop", "continue"};
    struct fixture_run base = fixture_default("base");
    base.config.save_steps = 100;
    base.stop_at_step = 1; // noticed with the next update
    base.stop_level = 1;
    assert_int_equal(fixture_execute(&base), BERTH_INTERRUPTED);
    struct fixture_run run = base;
    run.config.output_dir = fixture_keep("out");
    run.config.resume_from_checkpoint = "auto";
    run.config.async_save = 1;
    run.stop_at_step = 3;
    run.fail_errno = ENOSPC;
    run.fail_after_step = 4;
    run.log_file = fixture_keep("log");
    int failed = 0;
    for (run.fail_at = 3; run.fail_at < 100; run.fail_at += 8) {
        const int goes_on = failed % 2;
        fixture_copy(in_folder("base/checkpoint-2"), in_folder("out/checkpoint-2"));
        run.config.on_save_error = outcomes[goes_on];
        const int status = fixture_execute(&run);
        int64_t newest;
        fixture_good_checkpoints("out", &newest);
        assert_int_equal(fixture_temporaries("out"), 0);
        if (newest == 2) {
            failed++;
            assert_int_equal(status, goes_on ? BERTH_INTERRUPTED : BERTH_IO);
            assert_log_has("checkpoint of step 4 not saved");
            assert_log_has("No space left on device");
        } else {
            assert_int_equal(newest, 4);
        }
        assert_int_equal(file_remove(in_folder("log"), NULL), BERTH_OK);
        assert_int_equal(dir_remove(in_folder("out"), NULL), BERTH_OK);
    }
    assert_true(failed > 3);
}

// A checkpoint of another folder does not count.
static void test_stop_at_the_start_of_a_resumed_run(void **state) {
    struct fixture_run first = fixture_default("first");
    first.config.max_steps = 1;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    struct fixture_run run = fixture_default("out");
    run.config.max_steps = 2;
    run.config.resume_from_checkpoint = fixture_keep("first/checkpoint-1");
    run.stop_at_start = 1;
    run.stop_level = 1;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    assert_log_has("no update was done");
    assert_log_has_not("everything is saved");
}

// An old checkpoint that cannot be removed, here for its depth, does not unmake the new one.
static void test_rotation_that_fails_is_told_as_such(void **state) {
    struct fixture_run first = fixture_default("first");
    first.config.max_steps = 1;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    char deep[256] = "out/checkpoint-0";
    for (int i = 0; i < 40; i++) {
        strcat(deep, "/d");
    }
    assert_int_equal(dir_make(in_folder(deep), NULL), BERTH_OK);
    deep[strlen(deep) - 40] = '\0'; // half of them
    struct fixture_run run = fixture_default("out");
    run.config.max_steps = 2;
    run.config.save_total_limit = 1;
    run.config.resume_from_checkpoint = fixture_keep("first/checkpoint-1");
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_IO);
    assert_log_has("checkpoint of step 2 saved, but an older one could not be removed");
    int64_t newest;
    fixture_good_checkpoints("out", &newest);
    assert_int_equal(newest, 2);
    assert_int_equal(dir_remove(in_folder(deep), NULL), BERTH_OK); // or the teardown would fail
}

// A real file system of 600 KiB: a checkpoint takes 250, so the third does not fit.
static void test_small_tmpfs(void **state) {
    struct fixture_run run = fixture_default("small/out");
    assert_int_equal(dir_make(in_folder("small"), NULL), BERTH_OK);
    if (mount("tmpfs", in_folder("small"), "tmpfs", 0, "size=600k") != 0) {
        skip();
    }
    run.config.save_total_limit = 5;
    int status = fixture_execute(&run);
    int64_t newest;
    int good = fixture_good_checkpoints("small/out", &newest);
    int temporaries = fixture_temporaries("small/out");
    umount(in_folder("small"));
    assert_int_equal(status, BERTH_IO);
    assert_int_equal(good, 2);
    assert_int_equal(newest, 2);
    assert_int_equal(temporaries, 0);
}

// --- folders ------------------------------------------------------------------------------------

static void test_two_runs_on_one_folder(void **state) {
    struct fixture_run first = fixture_default("out");
    struct file_lock lock;
    assert_int_equal(dir_make(in_folder("out"), NULL), BERTH_OK);
    assert_int_equal(file_lock_take(&lock, in_folder("out"), NULL), BERTH_OK);
    first.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&first), BERTH_CANT_CREATE);
    char holder[32];
    snprintf(holder, sizeof holder, "pid %ld", (long)getpid());
    assert_log_has(holder);
    file_lock_release(&lock);
    // A lock file that a killed run left does not block a run.
    FILE *file = fopen(in_folder("out/.lock"), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(fixture_execute(&first), BERTH_OK);
}

static void remove_folder(void) {
    assert_int_equal(dir_remove(in_folder("out"), NULL), BERTH_OK);
}

// Another run's lock, in the place of the one that is held.
static void replace_lock(void) {
    FILE *file = fopen(in_folder("out/.lock.new"), "w");
    assert_non_null(file);
    fputs("another", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(in_folder("out/.lock.new"), in_folder("out/.lock")), 0);
}

static void replace_folder(void) {
    remove_folder();
    assert_int_equal(dir_make(in_folder("out"), NULL), BERTH_OK);
    replace_lock();
}

// A run that no longer has its folder leaves it alone.
static void test_lost_folder_stops_the_run(void **state) {
    static void (*const losses[])(void) = {remove_folder, replace_lock, replace_folder};
    static const int64_t steps[] = {1, 3, FIXTURE_UPDATES};
    for (size_t i = 0; i < 9; i++) {
        struct fixture_run run = fixture_default("out");
        run.config.save_steps = i % 2 == 0 ? 1 : 100;
        run.config.on_save_error = "continue"; // which is not one
        run.act = losses[i / 3];
        run.act_at_step = steps[i % 3];
        run.log_file = fixture_keep("log");
        assert_int_equal(fixture_execute(&run), BERTH_IO);
        assert_log_has("the lock of this run is lost");
        assert_false(file_exists(in_folder("out/model.safetensors")));
        if (losses[i / 3] == remove_folder) {
            assert_false(dir_exists(in_folder("out")));
        } else {
            char *text = text_of(in_folder("out/.lock")); // and so does its end
            assert_string_equal(text, "another");
            memory_free(text);
            remove_folder();
        }
    }
}

static void test_lost_folder_takes_no_predictions(void **state) {
    struct fixture_run run = fixture_default("out");
    run.job = berth_predict;
    run.config.predict_file = fixture_keep("dev.json");
    run.act = remove_folder;
    run.act_in_predict = 1;
    assert_int_equal(fixture_execute(&run), BERTH_IO);
    assert_false(dir_exists(in_folder("out")));
}

static void expect_same_file(const char *name, char *before) {
    char *after = text_of(in_folder(name));
    assert_string_equal(after, before);
    memory_free(after);
    memory_free(before);
}

// The original programs predict into the folder that they trained in; its other files stay.
static void test_predictions_beside_the_trained_model(void **state) {
    struct fixture_run run = fixture_default("out");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    char *log = text_of(in_folder("out/log.jsonl")),
         *config = text_of(in_folder("out/config.json"));
    struct fixture_run predicting = fixture_default("out");
    predicting.job = berth_predict;
    predicting.config.predict_file = fixture_keep("dev.json");
    for (int i = 0; i < 2; i++) { // the second time over the first one's
        assert_int_equal(fixture_execute(&predicting), BERTH_OK);
        assert_true(file_exists(in_folder("out/predictions.json")));
        assert_int_equal(file_remove(in_folder("out/nbest_predictions.json"), NULL), BERTH_OK);
    }
    expect_same_file("out/log.jsonl", log);
    expect_same_file("out/config.json", config);
    int64_t newest;
    assert_true(fixture_good_checkpoints("out", &newest) > 0);
    // Files of nobody's training run are not mixed with predictions.
    predicting.config.output_dir = fixture_keep("model");
    assert_int_equal(fixture_execute(&predicting), BERTH_CANT_CREATE);
}

static void test_output_folder_rules(void **state) {
    struct fixture_run run = fixture_default("out");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE); // not empty
    run.config.overwrite_output_dir = 1;
    run.config.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 2);
    assert_int_equal(newest, 2); // the old run's checkpoints are gone
    run = fixture_default("train.json");
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE); // a file
    run = fixture_default("train.json/out");
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE);
    run.config.output_dir = "/proc/berth"; // read-only, even for root
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE);
    char *text = text_of(in_folder("log"));
    assert_null(strstr(text, "step:")); // before any training
    memory_free(text);
}

// The shape and the vocabulary of a resumed run may be those of a checkpoint of its own output
// folder, which it then removes.
static void test_start_from_a_checkpoint_that_goes(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.max_steps = 3;
    run.config.model_name_or_path = fixture_keep("out/checkpoint-1");
    run.config.resume_from_checkpoint = "auto";
    run.config.save_total_limit = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 3);
    assert_same_file(in_folder("model/vocab.txt"), in_folder("out/checkpoint-3/vocab.txt"));
}

// A model that the run would remove before it has saved another: a kill would leave none.
static void test_overwriting_the_model_it_starts_from(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.model_name_or_path = fixture_keep("out/checkpoint-1");
    run.config.overwrite_output_dir = 1;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE);
    assert_log_has("--overwrite_output_dir would remove");
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 2);
    run.config.model_name_or_path = fixture_keep("out");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
}

// Nothing of an overwritten run is left from which the new one could be resumed, or that would pass
// for its result.
static void test_overwriting_leaves_nothing_of_a_run(void **state) {
    static const char *const gone[] = {
        "ckpt_8.pt",        "model.ckpt-8.index", "pytorch_model.bin", "bert_config.json",
        "checkpoint",       "train_results.json", "all_results.json",  "checkpoint-8/config.json",
        "eval_results.json"};
    struct fixture_run run = fixture_default("out");
    run.config.validation_file = fixture_keep("dev.json");
    run.config.save_format = "torch,nvidia,tensorflow";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        assert_true(file_exists(fixture_path("out", gone[i])));
    }
    run.config.save_format = "hf";
    run.config.overwrite_output_dir = 1;
    run.stop_at_start = 1;
    run.stop_level = 1;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        assert_false(file_exists(fixture_path("out", gone[i])));
    }
    assert_true(file_exists(fixture_path("out", "model.safetensors"))); // until it is replaced
}

// Runs and predictions, including dry ones, whose inputs are missing too: counts those that do not
// report that the output cannot be created.
static int wrong_refusals(const char *output) {
    struct fixture_run run = fixture_default("out");
    run.config.output_dir = output;
    run.config.train_file = run.config.predict_file = fixture_keep("none.json");
    run.config.model_name_or_path = fixture_keep("none");
    int wrong = 0;
    for (int i = 0; i < 4; i++) {
        run.job = i / 2 ? berth_predict : berth_train;
        run.config.dry_run = i % 2;
        wrong += fixture_execute(&run) != BERTH_CANT_CREATE;
    }
    return wrong;
}

static void test_output_is_checked_before_anything_is_read(void **state) {
    assert_int_equal(wrong_refusals(fixture_keep("train.json")), 0);
    assert_int_equal(wrong_refusals(fixture_keep("train.json/out")), 0);
    assert_int_equal(wrong_refusals(fixture_keep("train.json/a/b/")), 0);
    assert_int_equal(dir_make(in_folder("full"), NULL), BERTH_OK);
    assert_int_equal(file_write(in_folder("full/kept"), "kept", 4, NULL), BERTH_OK);
    assert_int_equal(wrong_refusals(fixture_keep("full")), 0);
}

static void test_read_only_output_is_told_before_anything_is_read(void **state) {
    const char *folder = fixture_keep("locked");
    assert_int_equal(dir_make(folder, NULL), BERTH_OK);
    assert_int_equal(chmod(folder, 0555), 0);
    // For root only a file system without writing is read-only.
    int mounted = access(folder, W_OK) == 0;
    if (mounted && mount("tmpfs", folder, "tmpfs", MS_RDONLY, "size=64k") != 0) {
        skip();
    }
    int wrong = wrong_refusals(folder) + wrong_refusals(fixture_keep("locked/a/b"));
    if (mounted) {
        umount(folder);
    }
    assert_int_equal(wrong, 0);
}

static void test_bad_input_leaves_no_folder(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.train_file = fixture_keep("none.json");
    assert_int_equal(fixture_execute(&run), BERTH_NO_INPUT);
    run.config.train_file = fixture_keep("model/config.json");
    assert_int_equal(fixture_execute(&run), BERTH_BAD_DATA);
    run = fixture_default("out");
    run.config.max_seq_length = 65;
    assert_int_equal(fixture_execute(&run), BERTH_CONFIG);
    run = fixture_default("out");
    FILE *file = fopen(in_folder("model/model.safetensors"), "r+b");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 5000), 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(fixture_execute(&run), BERTH_BAD_DATA);
    file = fopen(in_folder("model/vocab.txt"), "a");
    assert_non_null(file);
    fprintf(file, "more\n");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(fixture_execute(&run), BERTH_CONFIG);
    assert_false(dir_exists(in_folder("out")));
}

static void test_dry_run_writes_nothing(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.dry_run = 1;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_false(dir_exists(in_folder("out")));
    assert_log_has("plan: memory");
    assert_log_has("total_steps=8");
}

// --- memory -------------------------------------------------------------------------------------

static void test_little_address_space_is_no_crash(void **state) {
    if (SANITIZED) {
        skip(); // the sanitizers need terabytes of it
    }
    enum { STEP = 8 << 20, SMALL = 56 << 20 };
    int refused = 0, status = BERTH_CONFIG;
    // An accepted plan suffices: tests from too little memory to the first accepted size, and
    // beyond.
    for (uint64_t space = SMALL, beyond = 0; beyond < 4; space += STEP) {
        struct fixture_run run = fixture_default("out");
        run.config.overwrite_output_dir = 1;
        run.config.threads = 2;
        run.config.max_steps = 2;
        run.address_space = space;
        run.log_file = fixture_keep("log");
        status = fixture_execute(&run);
        if (status != BERTH_OK && status != BERTH_CONFIG) {
            fail_msg("status %d with %d MiB of addresses", status, (int)(space >> 20));
        }
        refused += status == BERTH_CONFIG;
        beyond += status == BERTH_OK;
        assert_true(space < (uint64_t)1 << 32);
    }
    assert_true(refused > 0);
    assert_log_has("the address space limit (ulimit -v)");
}

// --- clock and locale ---------------------------------------------------------------------------

static double logged(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at != NULL ? strtod(at + strlen(key), NULL) : -1;
}

static void test_jumping_clock(void **state) {
    struct fixture_run run = fixture_default("out");
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    char *text = text_of(in_folder("log"));
    assert_true(logged(text, "samples_per_second=") > 0);
    double seconds = logged(text, " seconds=");
    assert_true(seconds > 0 && seconds < 3600);
    memory_free(text);
}

static void test_locales_change_nothing(void **state) {
    static const char *const locales[] = {FOREIGN_LOCALE, "C.UTF-8"};
    foreign_locale_find();
    struct fixture_run run = fixture_default("straight");
    run.config.validation_file = fixture_keep("dev.json");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        char output[16];
        snprintf(output, sizeof output, "locale-%d", (int)i);
        run.config.output_dir = fixture_keep(output);
        run.locale = locales[i];
        assert_int_equal(fixture_execute(&run), BERTH_OK);
        assert_same_run("straight", output);
        assert_same_file(fixture_path("straight", "nbest_predictions.json"),
                         fixture_path(output, "nbest_predictions.json"));
        assert_same_file(fixture_path("straight", "config.json"),
                         fixture_path(output, "config.json"));
    }
}

// --- numbers that change by themselves -----------------------------------------------------------

// The numbers of a position that no sequence reaches, so that updates leave them as they are in the
// model's file; inverted, so that only the model itself has them in memory.
enum { ROW = 32 };
static uint32_t inverted_row[ROW];

static void read_unused_row(void) {
    struct safetensors file;
    assert_int_equal(safetensors_open(&file, in_folder("model/model.safetensors"), NULL), BERTH_OK);
    const struct tensor_entry *entry =
        safetensors_find(&file, "bert.embeddings.position_embeddings.weight");
    assert_non_null(entry);
    assert_int_equal(safetensors_read_raw(&file, entry, 63 * sizeof inverted_row,
                                          sizeof inverted_row, inverted_row, NULL),
                     BERTH_OK);
    safetensors_close(&file);
    for (int i = 0; i < ROW; i++) {
        inverted_row[i] = ~inverted_row[i];
    }
}

static int is_row(const uint32_t *words) {
    int i = 0;
    while (i < ROW && words[i] == ~inverted_row[i]) {
        i++;
    }
    return i == ROW;
}

// In the run's process, after an update and before its checkpoint: every copy of the row loses a
// bit.
static void flip_bit(void) {
    char line[512];
    unsigned long first, end, inode;
    char access[5];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &first, &end, access, &inode) != 4 ||
            strncmp(access, "rw", 2) != 0 || inode != 0) {
            continue;
        }
        for (uint32_t *words = (uint32_t *)first; words + ROW <= (uint32_t *)end; words += 16) {
            if (is_row(words)) {
                words[7] ^= 1;
            }
        }
    }
    fclose(maps);
}

// RELIABILITY 24: what changed after the update is not saved, whatever on_save_error says.
static void test_changed_memory_is_not_saved(void **state) {
    struct fixture_run run = fixture_default("out");
    int64_t newest;
    if (SANITIZED) {
        skip(); // it reads all memory
    }
    read_unused_row();
    run.config.replica_check_steps = 5;
    run.config.weight_decay = 0;
    run.config.on_save_error = "continue";
    run.config.save_steps = 1;
    run.act = flip_bit;
    run.act_at_step = 3;
    assert_int_equal(fixture_execute(&run), BERTH_UNAVAILABLE);
    fixture_good_checkpoints("out", &newest);
    assert_int_equal(newest, 2);
    assert_int_equal(fixture_temporaries("out"), 0);
    run.act = NULL;
    run.config.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_stop_saves_and_says_so),
        FIXTURE_TEST(test_second_signal_leaves_at_once),
        FIXTURE_TEST(test_stop_before_the_first_step),
        FIXTURE_TEST(test_stop_during_evaluation),
        FIXTURE_TEST(test_nan_names_step_and_layer),
        FIXTURE_TEST(test_nan_in_a_model_is_refused),
        FIXTURE_TEST(test_the_last_update_may_diverge),
        FIXTURE_TEST(test_no_model_without_checkpoints_either),
        FIXTURE_TEST(test_resume_names_weights_that_are_not_finite),
        FIXTURE_TEST(test_divergence_keeps_the_last_good_state),
        FIXTURE_TEST(test_full_disk_stops),
        FIXTURE_TEST(test_full_disk_may_be_passed_over),
        FIXTURE_TEST(test_stop_does_not_claim_what_was_not_saved),
        FIXTURE_TEST(test_failures_of_an_async_save),
        FIXTURE_TEST(test_stop_at_the_start_of_a_resumed_run),
        FIXTURE_TEST(test_rotation_that_fails_is_told_as_such),
        FIXTURE_TEST(test_small_tmpfs),
        FIXTURE_TEST(test_two_runs_on_one_folder),
        FIXTURE_TEST(test_lost_folder_stops_the_run),
        FIXTURE_TEST(test_lost_folder_takes_no_predictions),
        FIXTURE_TEST(test_changed_memory_is_not_saved),
        FIXTURE_TEST(test_predictions_beside_the_trained_model),
        FIXTURE_TEST(test_output_folder_rules),
        FIXTURE_TEST(test_start_from_a_checkpoint_that_goes),
        FIXTURE_TEST(test_overwriting_the_model_it_starts_from),
        FIXTURE_TEST(test_overwriting_leaves_nothing_of_a_run),
        FIXTURE_TEST(test_output_is_checked_before_anything_is_read),
        FIXTURE_TEST(test_read_only_output_is_told_before_anything_is_read),
        FIXTURE_TEST(test_bad_input_leaves_no_folder),
        FIXTURE_TEST(test_dry_run_writes_nothing),
        FIXTURE_TEST(test_little_address_space_is_no_crash),
        FIXTURE_TEST(test_jumping_clock),
        FIXTURE_TEST(test_locales_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
