// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 17, 18, 4, 24, 30, 32 and 47: stopping at every moment, full disks, little memory,
// memory that changes, clocks that jump, locales with a decimal comma.
#include "core/foreign_locale.h"
#include "fixture.h"
#include "format/safetensors/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mount.h>
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

static void resume_and_compare(struct fixture_run run, const char *output) {
    struct fixture_run straight = run;
    straight.config.run.output_dir = fixture_keep("straight");
    straight.config.run.resume_from_checkpoint = NULL;
    straight.stop_at_step = straight.stop_in_predict = straight.stop_at_start = 0;
    straight.fail_at = 0;
    run.stop_at_step = run.stop_in_predict = run.stop_at_start = 0;
    run.fail_at = 0;
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_run("straight", output);
}

// --- stopping -----------------------------------------------------------------------------------

// Runs until it is asked to stop after the update that follows `step`.
static void execute_until_stop(struct fixture_run *run, int64_t step, enum stop_request level) {
    run->stop_at_step = step;
    run->stop_level = level;
    run->log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(run), BERTH_INTERRUPTED);
}

static void test_stop_saves_and_says_so(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_steps = 100; // only the stop itself saves
    execute_until_stop(&run, 2, STOP_AND_SAVE);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 3);
    assert_int_equal(fixture_temporaries("out"), 0);
    fixture_assert_logged("resume_from_checkpoint auto");
    resume_and_compare(run, "out");
}

// With --save_strategy no, a stop would lose the work, so it saves all the same; with
// --skip_checkpoint it does not.
static void test_stop_without_checkpoints(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_strategy = "no";
    execute_until_stop(&run, 2, STOP_AND_SAVE);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 3);
    fixture_assert_logged("of 8; everything is saved: resume with resume_from_checkpoint auto");
    run.stop_at_step = 0;
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run straight = fixture_default("straight");
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    assert_same_file(fixture_path("straight", "model.safetensors"),
                     fixture_path("out", "model.safetensors"));
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);

    run = fixture_default("none");
    run.config.run.skip_checkpoint = 1;
    execute_until_stop(&run, 2, STOP_AND_SAVE);
    assert_int_equal(fixture_good_checkpoints("none", &newest), 0);
    fixture_assert_logged("of 8; nothing is saved: skip_checkpoint is set");
}

static void test_second_signal_leaves_at_once(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_steps = 2;
    execute_until_stop(&run, 3, STOP_AT_ONCE);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 2); // nothing was saved when leaving
    fixture_assert_logged("at once, without saving: resume from checkpoint-2");
    resume_and_compare(run, "out");
}

static void test_stop_before_the_first_step(void **state) {
    for (enum stop_request level = STOP_AND_SAVE; level <= STOP_AT_ONCE; level++) {
        struct fixture_run run = fixture_default("out");
        run.config.run.resume_from_checkpoint = "auto";
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
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.run.save_steps = 100;
    run.stop_in_predict = 1;
    run.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 4); // the end of the first epoch
    resume_and_compare(run, "out");
}

// --- finishing ----------------------------------------------------------------------------------

// A run that is asked to finish after update 3 of 8 is one with max_steps 3, if the learning rate
// does not depend on the end.
static struct fixture_run finishing_run(const char *output) {
    struct fixture_run run = fixture_default(output);
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.optimizer.schedule = "constant";
    run.config.run.save_steps = 2;
    run.config.run.logging_steps = 100;
    run.log_file = fixture_keep("log");
    return run;
}

static void test_finish_is_max_steps(void **state) {
    static const char *const strategies[] = {NULL, "no"};
    static const char *const names[][2] = {{"out", "shorter"}, {"out-no", "shorter-no"}};
    for (int i = 0; i < 2; i++) {
        struct fixture_run run = finishing_run(names[i][0]), shorter = finishing_run(names[i][1]);
        run.config.run.save_strategy = shorter.config.run.save_strategy = strategies[i];
        run.stop_at_step = 2;
        run.stop_level = STOP_FINISH;
        shorter.config.engine.max_steps = 3;
        fixture_expect(&run, BERTH_OK, "finished on request after update 3 of 8");
        fixture_expect(&shorter, BERTH_OK, "");
        assert_same_file(fixture_path(names[i][0], "model.safetensors"),
                         fixture_path(names[i][1], "model.safetensors"));
        assert_same_file(fixture_path(names[i][0], "predictions.json"),
                         fixture_path(names[i][1], "predictions.json"));
    }
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 2);
    assert_int_equal(newest, 3);
    assert_int_equal(fixture_good_checkpoints("out-no", &newest), 0);
    assert_true(fixture_history("out", 3, "loss") == fixture_history("shorter", 3, "loss"));
    assert_true(fixture_history("out", 3, "eval_f1") == fixture_history("shorter", 3, "eval_f1"));
}

static void test_finish_before_the_first_step(void **state) {
    struct fixture_run run = finishing_run("out");
    run.stop_at_start = 1;
    run.stop_level = STOP_FINISH;
    fixture_expect(&run, BERTH_OK, "finished on request after update 0 of 8");
    assert_true(file_exists(fixture_path("out", "model.safetensors")));
}

// The wish may come in the middle of an evaluation, which goes on.
static void test_finish_during_evaluation(void **state) {
    struct fixture_run run = finishing_run("out");
    run.config.run.save_strategy = "no";
    run.stop_in_predict = 1;
    run.stop_level = STOP_FINISH;
    fixture_expect(&run, BERTH_OK, "finished on request after update 4 of 8");
    assert_true(file_exists(fixture_path("out", "eval_results.json")));
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 0);
}

// --- disks --------------------------------------------------------------------------------------

// The call of the file layer, counted from the report of update 2, that finds the disk full. Each
// is in that update's save.
static const uint64_t failing_calls[] = {3, 12, 20, 40};

// The calls of a save beside the updates have no fixed numbers.
static void skip_unless_saves_wait(void) {
    if (getenv("BERTH_ASYNC_SAVE") != NULL) {
        print_message("skipped: this test is of saves that the updates wait for\n");
        skip();
    }
}

static void fail_save(const char *on_save_error, int expected) {
    skip_unless_saves_wait();
    for (size_t i = 0; i < sizeof failing_calls / sizeof failing_calls[0]; i++) {
        char output[16];
        snprintf(output, sizeof output, "out-%d", (int)i);
        struct fixture_run run = fixture_default(output);
        run.config.run.on_save_error = on_save_error;
        run.fail_at = failing_calls[i];
        run.fail_errno = ENOSPC;
        run.fail_after_step = 2;
        run.log_file = fixture_keep("log");
        assert_int_equal(fixture_execute(&run), expected);
        fixture_assert_logged("No space left on device");
        fixture_assert_logged("checkpoint of step 2 not saved");
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

// A stopped run's message is true, even after a failed save that was tolerated.
static void test_stop_does_not_claim_what_was_not_saved(void **state) {
    skip_unless_saves_wait();
    struct fixture_run run = fixture_default("out");
    run.config.run.save_steps = 2;
    run.config.run.on_save_error = "continue";
    run.stop_at_step = 2; // after the next update
    run.stop_level = STOP_AND_SAVE;
    run.fail_at = failing_calls[0];
    run.fail_errno = ENOSPC;
    run.fail_after_step = 3;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    int64_t newest;
    fixture_good_checkpoints("out", &newest);
    assert_int_equal(newest, 2);
    fixture_assert_logged("this update could not be saved: resume from checkpoint-2");
    fixture_assert_not_logged("everything is saved");
    resume_and_compare(run, "out");
}

// The run waits for its last save, so the calls of this one have a fixed order even beside the
// updates. Whatever fails, in the thread or before, is reported as in a save that updates wait for.
static void test_failures_of_an_async_save(void **state) {
    static const char *const outcomes[] = {"stop", "continue"};
    struct fixture_run base = fixture_default("base");
    base.config.run.save_steps = 100;
    base.stop_at_step = 1; // after the next update
    base.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&base), BERTH_INTERRUPTED);
    struct fixture_run run = base;
    run.config.run.output_dir = fixture_keep("out");
    run.config.run.resume_from_checkpoint = "auto";
    run.config.run.async_save = 1;
    run.stop_at_step = 3;
    run.fail_errno = ENOSPC;
    run.fail_after_step = 4;
    run.log_file = fixture_keep("log");
    int failed = 0;
    for (run.fail_at = 3; run.fail_at < 100; run.fail_at += 8) {
        const int goes_on = failed % 2;
        fixture_copy(in_folder("base/checkpoint-2"), in_folder("out/checkpoint-2"));
        run.config.run.on_save_error = outcomes[goes_on];
        const int status = fixture_execute(&run);
        int64_t newest;
        fixture_good_checkpoints("out", &newest);
        assert_int_equal(fixture_temporaries("out"), 0);
        if (newest == 2) {
            failed++;
            assert_int_equal(status, goes_on ? BERTH_INTERRUPTED : BERTH_IO);
            fixture_assert_logged("checkpoint of step 4 not saved");
            fixture_assert_logged("No space left on device");
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
    first.config.engine.max_steps = 1;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 2;
    run.config.run.resume_from_checkpoint = fixture_keep("first/checkpoint-1");
    run.stop_at_start = 1;
    run.stop_level = STOP_AND_SAVE;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    fixture_assert_logged("no update was done");
    fixture_assert_not_logged("everything is saved");
}

// Makes a folder that is too deep to be removed, or makes it removable.
static void set_deep(const char *folder, int is_deep) {
    char path[256];
    snprintf(path, sizeof path, "%s%*s", folder, is_deep ? 80 : 40, "");
    for (char *at = path + strlen(folder); *at != '\0'; at += 2) {
        memcpy(at, "/d", 2);
    }
    const enum berth_status status =
        is_deep ? dir_make(in_folder(path), NULL) : dir_remove(in_folder(path), NULL);
    assert_int_equal(status, BERTH_OK);
}

static void make_stuck(void) {
    set_deep("out/checkpoint-0", 1);
    set_deep("out/.tmp-checkpoint-2-new", 1);
    set_deep("out/.tmp-checkpoint-1-old", 1);
}

// What cannot be removed stops neither this run nor one that resumes; the others go.
static void test_what_cannot_be_removed_stops_no_run(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_total_limit = 1;
    run.config.run.resume_from_checkpoint = "auto";
    run.log_file = fixture_keep("log");
    run.act = make_stuck;
    run.act_at_step = 1;
    for (int steps = 3; steps <= 4; steps++) {
        run.config.engine.max_steps = steps;
        assert_int_equal(fixture_execute(&run), BERTH_OK);
        fixture_assert_logged("saved, but an older one could not be removed and stays: ");
        fixture_assert_logged("out/checkpoint-0: ");
        int64_t newest;
        assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
        assert_int_equal(newest, steps);
    }
    fixture_assert_logged("out/.tmp-checkpoint-1-old.kept, which an earlier run left, cannot be "
                          "removed and stays: ");
    assert_true(dir_exists(in_folder("out/.tmp-checkpoint-2-new.kept")));
    assert_true(dir_exists(in_folder("out/.tmp-checkpoint-1-old.kept")));
    set_deep("out/checkpoint-0", 0); // or the teardown would fail
    set_deep("out/.tmp-checkpoint-2-new.kept", 0);
    set_deep("out/.tmp-checkpoint-1-old.kept", 0);
}

// A real file system of 600 KiB: a checkpoint takes 250, so the third does not fit.
static void test_small_tmpfs(void **state) {
    struct fixture_run run = fixture_default("small/out");
    assert_int_equal(dir_make(in_folder("small"), NULL), BERTH_OK);
    if (mount("tmpfs", in_folder("small"), "tmpfs", 0, "size=600k") != 0) {
        print_message("skipped: this process may not mount a file system\n");
        skip();
    }
    run.config.run.save_total_limit = 5;
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

// --- memory -------------------------------------------------------------------------------------

static void test_little_address_space_is_no_crash(void **state) {
    if (SANITIZED) {
        print_message("skipped: sanitizers need terabytes of addresses\n");
        skip();
    }
    enum { STEP = 8 << 20, SMALL = 56 << 20 };
    int refused = 0;
    // From too little memory to the first size that is accepted, and beyond: an accepted plan is
    // enough.
    for (uint64_t space = SMALL, beyond = 0; beyond < 4; space += STEP) {
        struct fixture_run run = fixture_default("out");
        run.config.run.overwrite_output_dir = 1;
        run.config.machine.threads = 2;
        run.config.engine.max_steps = 2;
        run.address_space = space;
        run.log_file = fixture_keep("log");
        const int status = fixture_execute(&run);
        if (status != BERTH_OK && status != BERTH_CONFIG) {
            fail_msg("status %d with %d MiB of addresses", status, (int)(space >> 20));
        }
        refused += status == BERTH_CONFIG;
        beyond += status == BERTH_OK;
        assert_true(space < (uint64_t)1 << 32);
    }
    assert_true(refused > 0);
    fixture_assert_logged("the address space limit (ulimit -v)");
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
    char *text = fixture_text(in_folder("log"));
    assert_true(logged(text, "samples_per_second=") > 0);
    double seconds = logged(text, " seconds=");
    assert_true(seconds > 0 && seconds < 3600);
    memory_free(text);
}

static void test_locales_change_nothing(void **state) {
    static const char *const locales[] = {FOREIGN_LOCALE, "C.UTF-8"};
    foreign_locale_find();
    struct fixture_run run = fixture_default("straight");
    run.config.task.validation_file = fixture_keep("dev.json");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        char output[16];
        snprintf(output, sizeof output, "locale-%d", (int)i);
        run.config.run.output_dir = fixture_keep(output);
        run.locale = locales[i];
        assert_int_equal(fixture_execute(&run), BERTH_OK);
        assert_same_run("straight", output);
        assert_same_file(fixture_path("straight", "nbest_predictions.json"),
                         fixture_path(output, "nbest_predictions.json"));
        assert_same_file(fixture_path("straight", "config.json"),
                         fixture_path(output, "config.json"));
    }
}

// --- memory that changes -------------------------------------------------------------------------

// The embedding of a position that no sequence reaches, so that updates leave it as it is in the
// model's file; inverted, so that only the model itself has these numbers in memory.
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
        print_message("skipped: the test reads all memory, also what a sanitizer guards\n");
        skip();
    }
    read_unused_row();
    run.config.engine.replica_check_steps = 5;
    run.config.optimizer.weight_decay = 0;
    run.config.run.on_save_error = "continue";
    run.config.run.save_steps = 1;
    run.act = flip_bit;
    run.act_at_step = 3;
    fixture_expect(&run, BERTH_UNAVAILABLE, "position_embeddings");
    assert_int_equal(fixture_good_checkpoints("out", &newest), 2);
    assert_int_equal(newest, 2);
    assert_int_equal(fixture_temporaries("out"), 0);
    run.act = NULL;
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_stop_saves_and_says_so),
        FIXTURE_TEST(test_stop_without_checkpoints),
        FIXTURE_TEST(test_second_signal_leaves_at_once),
        FIXTURE_TEST(test_stop_before_the_first_step),
        FIXTURE_TEST(test_stop_during_evaluation),
        FIXTURE_TEST(test_finish_is_max_steps),
        FIXTURE_TEST(test_finish_before_the_first_step),
        FIXTURE_TEST(test_finish_during_evaluation),
        FIXTURE_TEST(test_full_disk_stops),
        FIXTURE_TEST(test_full_disk_may_be_passed_over),
        FIXTURE_TEST(test_stop_does_not_claim_what_was_not_saved),
        FIXTURE_TEST(test_failures_of_an_async_save),
        FIXTURE_TEST(test_stop_at_the_start_of_a_resumed_run),
        FIXTURE_TEST(test_what_cannot_be_removed_stops_no_run),
        FIXTURE_TEST(test_small_tmpfs),
        FIXTURE_TEST(test_changed_memory_is_not_saved),
        FIXTURE_TEST(test_little_address_space_is_no_crash),
        FIXTURE_TEST(test_jumping_clock),
        FIXTURE_TEST(test_locales_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
