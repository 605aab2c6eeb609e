// SPDX-License-Identifier: Apache-2.0
// A tiny model and data set on disk, and fine-tuning runs on them in separate processes, so that a
// run can be killed, stopped or starved. The parent never computes, because OpenMP's threads do not
// survive a fork.
#ifndef BERTH_TESTS_TRAIN_FIXTURE_H
#define BERTH_TESTS_TRAIN_FIXTURE_H

#include "api/jobs.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/scratch.h"
#include "core/stop.h"
#include "settings/settings.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

// A separate folder for each test, with "model", "train.json" and "dev.json" in it.
int fixture_setup(void **state);
int fixture_teardown(void **state);

// The model gets layer norms before its sub-layers, and new weights.
void fixture_make_pre_layer_norm(void);

// Words of the model: those of numbers 0 to 63 are all different.
struct fixture_words {
    const char *thing, *name, *colour; // "ball", "anna", "red"
};
struct fixture_words fixture_words(int number);

#define FIXTURE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

// A path in the test's folder, valid until the 16th call after; fixture_keep: until the test ends.
const char *in_folder(const char *name);
const char *fixture_keep(const char *name);

#define FIXTURE_UPDATES 8 // of a default run: two epochs of four updates

// job_train and its like.
typedef enum berth_status fixture_job(const char *task, const struct settings *config,
                                      struct berth_log log, const atomic_int *stop,
                                      struct berth_run_result *result, struct berth_error *error);

// The settings of a run and the faults injected into it.
struct fixture_run {
    struct settings config;
    fixture_job *job;
    const char *task;
    int stop_at_step;    // > 0: *stop becomes stop_level when the next step has been reported
    int stop_in_predict; // *stop becomes stop_level at the first progress of prediction
    int stop_at_start;   // *stop is set from the start
    enum stop_request stop_level;
    int handles_sigterm;      // SIGTERM asks to save and stop, a second one to stop at once
    uint64_t fail_at;         // > 0: file_fail_at(fail_at, fail_errno)
    int fail_errno;           // -1: killed there
    uint64_t fail_after_step; // fail_at counts from the report of that step on
    void (*act)(void);        // called in the run's process when act_at_step has been reported
    int64_t act_at_step;
    int act_in_predict;     // or at the first progress of prediction
    uint64_t address_space; // > 0: RLIMIT_AS
    const char *log_file;   // not NULL: text records ("kind: text") are written there
    const char *locale;     // NULL: as it is
};

// Runs on the fixture into in_folder(output): two epochs, a checkpoint after every update; with
// BERTH_ASYNC_SAVE in the environment, beside the next ones.
struct fixture_run fixture_default(const char *output);

// Runs it in a child and waits: the exit status (an enum berth_status), or -signal.
int fixture_execute(const struct fixture_run *run);
// The same without waiting.
pid_t fixture_start(const struct fixture_run *run);
int fixture_wait(pid_t child);

// <output>/<name> of the test's folder.
const char *fixture_path(const char *output, const char *name);
// Checks that the final checkpoints and models of two finished runs have the same bytes and their
// histories the same records.
void assert_same_run(const char *output_a, const char *output_b);
// The text of a file; free with memory_free.
char *fixture_text(const char *path);
// Checks that a file has the text `part`.
void fixture_assert_holds(const char *path, const char *part);
// The same of in_folder("log"), and the opposite.
void fixture_assert_logged(const char *part);
void fixture_assert_not_logged(const char *part);
// Runs, and checks the status and that the text records, in in_folder("log"), have `part`.
void fixture_expect(struct fixture_run *run, int status, const char *part);
// A number in a JSON file of an output folder.
double fixture_number(const char *output, const char *file, const char *key);
// With label smoothing, checks that the loss of an evaluation on the training data is that of the
// update before it, which changes nothing: both are of the same targets.
void fixture_expect_smoothed_loss(struct fixture_run *run);
// The number under `key` in the history's record of an update, in trainer_state.json.
double fixture_history(const char *output, int64_t step, const char *key);
// Copies a folder (one level of files).
void fixture_copy(const char *from, const char *to);
// Copies a run's checkpoint into another output folder, from which "auto" then resumes.
void fixture_copy_checkpoint(const char *from, const char *to, int step);
// The number of checkpoints of an output folder that verify; *newest is the largest step (-1:
// none).
int fixture_good_checkpoints(const char *output, int64_t *newest);
// Temporary folders and files in an output folder.
int fixture_temporaries(const char *output);

#endif
