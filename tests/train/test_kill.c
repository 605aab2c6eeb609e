// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 1, 2, 17, 18, 31: a run that saves after every update is killed (SIGKILL) at random
// moments, and before every n-th call of the file layer. After each kill no verified checkpoint is
// lost, at most one update's work is (two while saves run beside the updates), and the resumed run
// ends with the bytes of a run that was never killed, without half-written files.
//
// BERTH_KILLS sets the number of random kills (the long test: 500), BERTH_TESTS a pattern of the
// tests' names.
#include "core/rng.h"
#include "fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define KILLED (-SIGKILL)

static void sleep_microseconds(uint32_t microseconds) {
    struct timespec pause = {microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
    nanosleep(&pause, NULL);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int kills_wanted(void) {
    const char *text = getenv("BERTH_KILLS");
    return text != NULL ? atoi(text) : 12;
}

// The last update in the log of a run that logs each; 0: none.
static int64_t last_update(void) {
    if (!file_exists(in_folder("log"))) {
        return 0;
    }
    char *text = fixture_text(in_folder("log"));
    int64_t last = 0;
    for (const char *at = text; (at = strstr(at, "\nstep: ")) != NULL; at++) {
        const char *number = strstr(at, " step=");
        last = number != NULL ? atoll(number + strlen(" step=")) : last;
    }
    memory_free(text);
    return last;
}

// Checks the state after a kill of a run whose newest intact checkpoint was `before`.
static int64_t check_after_kill(const char *output, int64_t before) {
    int64_t newest;
    const int64_t last = last_update(), beside = getenv("BERTH_ASYNC_SAVE") != NULL;
    fixture_good_checkpoints(output, &newest);
    if (newest < before) {
        fail_msg("newest good checkpoint %d, before the kill %d", (int)newest, (int)before);
    }
    const int64_t saved = newest > 0 ? newest : 0;
    if (last > saved + 1 + beside) {
        fail_msg("newest good checkpoint %d, but update %d was done", (int)newest, (int)last);
    }
    // One being written and one being removed, both of this run.
    assert_true(fixture_temporaries(output) <= 2);
    return newest;
}

static void finish_and_compare(struct fixture_run *run, const char *output) {
    run->fail_at = 0;
    assert_int_equal(fixture_execute(run), BERTH_OK);
    assert_int_equal(fixture_temporaries(output), 0);
    assert_same_run("straight", output);
}

// Four epochs of masked words: the masks of a resumed run are those that the killed one would have
// drawn, or its losses and bytes would differ.
static struct fixture_run masked_words(const char *output) {
    struct fixture_run run = fixture_default(output);
    FILE *file = fopen(in_folder("lines.txt"), "w");
    assert_non_null(file);
    for (int i = 0; i < 26; i++) {
        const struct fixture_words words = fixture_words(i);
        fprintf(file, "the %s of %s is %s .\n", words.thing, words.name, words.colour);
    }
    assert_int_equal(fclose(file), 0);
    run.task = "mlm";
    run.config.task.train_file = fixture_keep("lines.txt");
    run.config.features.validation_split_percentage = 20;
    run.config.features.line_by_line = 1;
    run.config.features.masked_lm_prob = 0.3;
    return run;
}

// Executes the run; its duration in microseconds.
static uint32_t time_run(const struct fixture_run *run) {
    const double begin = now();
    assert_int_equal(fixture_execute(run), BERTH_OK);
    return (uint32_t)(1e6 * (now() - begin)) + 1;
}

static void kill_at_random_moments(struct fixture_run straight) {
    straight.config.run.save_total_limit = 2;
    straight.config.run.logging_steps = 1;
    const uint32_t whole = time_run(&straight);
    uint64_t draws = 0;
    int kills = 0;
    const char *output = "killed"; // a new folder in each round
    while (kills < kills_wanted()) {
        struct fixture_run run = straight;
        run.config.run.output_dir = fixture_keep(output);
        run.config.run.resume_from_checkpoint = "auto";
        run.log_file = fixture_keep("log");
        int64_t newest = -1;
        for (int attempt = 0; attempt < 6 && kills < kills_wanted(); attempt++) {
            pid_t child = fixture_start(&run);
            sleep_microseconds(rng_below(20261121, 3, &draws, whole));
            kill(child, SIGKILL);
            int status = fixture_wait(child);
            assert_true(status == KILLED || status == BERTH_OK);
            kills += status == KILLED;
            newest = check_after_kill(output, newest);
        }
        finish_and_compare(&run, output);
        assert_int_equal(dir_remove(in_folder(output), NULL), BERTH_OK);
        assert_int_equal(file_remove(in_folder("log"), NULL), BERTH_OK);
    }
}

static void test_random_moments(void **state) {
    kill_at_random_moments(fixture_default("straight"));
}

static void test_random_moments_of_masked_words(void **state) {
    kill_at_random_moments(masked_words("straight"));
}

// RELIABILITY 17 and 18: SIGTERM at random moments, before the first update, in updates, in saves
// and in evaluations: the run saves and ends, or had ended already.
static void test_sigterm_at_random_moments(void **state) {
    struct fixture_run straight = fixture_default("straight");
    straight.config.task.validation_file = fixture_keep("dev.json");
    straight.config.run.eval_steps = 2;
    straight.config.run.save_steps = 3;
    const uint32_t whole = time_run(&straight);
    uint64_t draws = 0;
    struct fixture_run run = straight;
    run.config.run.output_dir = fixture_keep("stopped");
    run.config.run.resume_from_checkpoint = "auto";
    run.handles_sigterm = 1;
    for (int i = 0; i < kills_wanted() / 2; i++) {
        pid_t child = fixture_start(&run);
        sleep_microseconds(rng_below(7, 4, &draws, whole));
        kill(child, SIGTERM);
        int status = fixture_wait(child);
        // -SIGTERM: it arrived before the child had installed its handler.
        assert_true(status == BERTH_INTERRUPTED || status == BERTH_OK || status == -SIGTERM);
        assert_int_equal(fixture_temporaries("stopped"), 0);
        if (status == BERTH_OK) {
            assert_same_run("straight", "stopped");
            assert_int_equal(dir_remove(in_folder("stopped"), NULL), BERTH_OK);
        }
    }
    finish_and_compare(&run, "stopped");
}

// Kills before call number n of the file layer, counted from the report of update 4, so that it
// hits the save of that update with its rotation.
static void test_every_call_of_a_save(void **state) {
    struct fixture_run straight = fixture_default("straight");
    straight.config.run.save_total_limit = 1;
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    struct fixture_run first = straight;
    first.config.run.output_dir = fixture_keep("base");
    first.stop_at_step = 2; // after the next update
    first.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&first), BERTH_INTERRUPTED);
    int stride = getenv("BERTH_KILLS") != NULL ? 1 : 17, points = 0;
    for (uint64_t call = 1;; call += (uint64_t)stride) {
        fixture_copy(in_folder("base/checkpoint-3"), in_folder("cut/checkpoint-3"));
        struct fixture_run run = straight;
        run.config.run.output_dir = fixture_keep("cut");
        run.config.run.resume_from_checkpoint = "auto";
        run.fail_at = call;
        run.fail_errno = -1;
        run.fail_after_step = 4;
        run.stop_at_step = 4;
        run.stop_level = STOP_AND_SAVE;
        int status = fixture_execute(&run);
        if (status == BERTH_INTERRUPTED) {
            break; // the save has fewer calls than that
        }
        assert_int_equal(status, KILLED);
        points++;
        check_after_kill("cut", 3);
        run.stop_at_step = 0;
        finish_and_compare(&run, "cut");
        assert_int_equal(dir_remove(in_folder("cut"), NULL), BERTH_OK);
    }
    assert_true(points > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_random_moments),
        FIXTURE_TEST(test_random_moments_of_masked_words),
        FIXTURE_TEST(test_sigterm_at_random_moments),
        FIXTURE_TEST(test_every_call_of_a_save),
    };
    cmocka_set_test_filter(getenv("BERTH_TESTS"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
