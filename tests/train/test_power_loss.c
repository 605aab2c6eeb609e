// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 3: power fails after any call of a run that saves every update, and any part of what
// was not synced is lost (recorded_disk.h). Whatever is left, no checkpoint is accepted that
// differs from what was written, the newest one that was reported as saved is good, the run resumes
// from the newest good one, and it ends with the bytes of a run that was never stopped.
//
// BERTH_POWER_FAILURES sets how many failures are tried (the long test: 10,000), BERTH_SEED which.
#include "core/log.h"
#include "fixture.h"
#include "recorded_disk.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"

#include <stdatomic.h>
#include <stdlib.h>

#define RESUMED_EVERY 97 // of the failures

static int64_t environment_number(const char *variable, int64_t otherwise) {
    const char *text = getenv(variable);
    return text != NULL ? atoll(text) : otherwise;
}

// --- the record ---------------------------------------------------------------------------------

static struct berth_log given;

// A mark where the run says that a checkpoint is saved.
static void mark_saved(void *context, const struct berth_record *record) {
    (void)context;
    const char *detail = log_detail_text(record);
    if (detail != NULL && strncmp(detail, "saved ", 6) == 0) {
        disk_record_mark(atoll(strrchr(detail, '-') + 1));
    }
    given.write(given.context, record);
}

static enum berth_status train_recorded(const char *task, const struct settings *config,
                                        struct berth_log log, const atomic_int *stop,
                                        struct berth_run_result *result,
                                        struct berth_error *error) {
    const struct berth_log marking = {.write = mark_saved};
    given = log;
    disk_record(in_folder("disk"), in_folder("record"));
    return job_train(task, config, marking, stop, result, error);
}

static struct fixture_run record_run(int is_async) {
    struct fixture_run run = fixture_default("disk/run");
    run.config.run.async_save = is_async;
    run.config.engine.max_steps = 5;
    run.config.run.save_total_limit = 2;
    run.job = train_recorded;
    assert_int_equal(dir_make(in_folder("disk"), NULL), BERTH_OK);
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.job = job_train;
    return run;
}

// --- what was written ---------------------------------------------------------------------------

#define STEPS 16

// The manifest of each checkpoint, which has the hashes of all its other files.
struct written {
    char *manifests[STEPS];
    size_t lengths[STEPS];
};

static struct written read_written(void) {
    struct written written = {0};
    struct disk *disk = disk_open(in_folder("record"));
    int64_t saved = 0;
    for (size_t left = disk_events(disk); left > 0; left--) {
        const int64_t step = disk_step(disk);
        if (step < 0) {
            continue;
        }
        char path[64];
        size_t length;
        snprintf(path, sizeof path, "run/checkpoint-%d/manifest.json", (int)step);
        const char *bytes = disk_file(disk, path, &length);
        assert_int_equal(step, ++saved);
        assert_non_null(bytes);
        written.manifests[step] = memory_string_of(bytes, length);
        written.lengths[step] = length;
    }
    assert_int_equal(saved, 5);
    disk_close(disk);
    return written;
}

static void free_written(struct written *written) {
    for (int i = 0; i < STEPS; i++) {
        memory_free(written->manifests[i]);
    }
}

// --- failures -----------------------------------------------------------------------------------

static int is_as_written(const struct written *written, int64_t step) {
    char name[64], *bytes;
    size_t length;
    snprintf(name, sizeof name, "left/run/checkpoint-%d/manifest.json", (int)step);
    if (step >= STEPS || written->manifests[step] == NULL ||
        file_read(in_folder(name), 1 << 20, &bytes, &length, NULL) != BERTH_OK) {
        return 0;
    }
    const int same =
        length == written->lengths[step] && memcmp(bytes, written->manifests[step], length) == 0;
    memory_free(bytes);
    return same;
}

// The newest checkpoint that verifies; -1: none; -2: one that verifies is not what was written.
static int64_t newest_good(const struct written *written) {
    int64_t *steps, newest = -1;
    size_t count;
    assert_int_equal(checkpoint_list(in_folder("left/run"), &steps, &count, NULL), BERTH_OK);
    for (size_t i = 0; i < count && newest > -2; i++) {
        const struct path path = checkpoint_path(in_folder("left/run"), steps[i]);
        if (checkpoint_verify(path.text, NULL, NULL) == BERTH_OK) {
            newest = is_as_written(written, steps[i]) ? steps[i] : -2;
        }
    }
    memory_free(steps);
    return newest;
}

static void ignore(void *context, const struct berth_record *record) {
    (void)context;
    (void)record;
}

// The step that a run resumes from; -1: it starts from the beginning, or refuses to.
static int64_t found_step(void) {
    const struct berth_log log = {.write = ignore};
    char *folder = NULL;
    int64_t step = -1;
    if (checkpoint_find(in_folder("left/run"), &log, &folder, NULL) == BERTH_OK && folder != NULL) {
        step = atoll(strrchr(folder, '-') + 1);
    }
    memory_free(folder);
    return step;
}

// NULL, or what is wrong with the folder that a failure left after `saved` was reported.
static const char *find_fault(const struct written *written, int64_t saved) {
    if (!dir_exists(in_folder("left/run"))) {
        return saved < 0 ? NULL : "the folder is lost";
    }
    const int64_t newest = newest_good(written);
    if (newest < -1) {
        return "a bad checkpoint is accepted";
    }
    if (newest < saved) {
        return "a checkpoint that was reported as saved is lost";
    }
    if (found_step() != newest) {
        return "the newest good checkpoint is not found";
    }
    if (checkpoint_clean(in_folder("left/run"), NULL, NULL) != BERTH_OK ||
        fixture_temporaries("left/run") != 0) {
        return "temporary files cannot be removed";
    }
    return found_step() == newest ? NULL : "cleaning removes a good checkpoint";
}

static void resume(const struct fixture_run *recorded) {
    struct fixture_run run = *recorded;
    run.config.run.output_dir = fixture_keep("left/run");
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_run("disk/run", "left/run");
}

static void make_empty(const char *folder) {
    assert_int_equal(dir_remove(folder, NULL), BERTH_OK);
    assert_int_equal(dir_make(folder, NULL), BERTH_OK);
}

struct trial {
    const struct fixture_run *run;
    const struct written *written;
    struct disk *disk;
    uint64_t seed;
    int64_t saved, failures, bad;
};

static void fail_once(struct trial *trial, int is_expected) {
    const uint64_t seed = trial->seed << 32 | (uint64_t)trial->failures++;
    make_empty(in_folder("left"));
    disk_fail(trial->disk, seed, in_folder("left"));
    const char *fault = find_fault(trial->written, trial->saved);
    if (fault != NULL && !is_expected) {
        fail_msg("failure %lld of seed %llu, after checkpoint %lld: %s",
                 (long long)trial->failures - 1, (unsigned long long)trial->seed,
                 (long long)trial->saved, fault);
    }
    trial->bad += fault != NULL;
    if (!is_expected && trial->failures % RESUMED_EVERY == 0) {
        resume(trial->run);
    }
}

// Distributes the failures evenly over the calls.
static void fail_everywhere(struct trial *trial, int64_t failures, int is_expected) {
    const int64_t events = (int64_t)disk_events(trial->disk);
    for (int64_t i = 1; i <= events; i++) {
        const int64_t mark = disk_step(trial->disk);
        trial->saved = mark >= 0 ? mark : trial->saved;
        while (trial->failures < failures * i / events) {
            fail_once(trial, is_expected);
        }
    }
}

static void lose_power(int is_async, int64_t failures, int ignores_syncs) {
    const struct fixture_run run = record_run(is_async);
    struct written written = read_written();
    struct trial trial = {.run = &run,
                          .written = &written,
                          .disk = disk_open(in_folder("record")),
                          .seed = (uint64_t)environment_number("BERTH_SEED", 1) & UINT32_MAX,
                          .saved = -1};
    if (ignores_syncs) {
        disk_ignore_syncs(trial.disk);
    }
    fail_everywhere(&trial, failures, ignores_syncs);
    print_message("%lld calls, %lld failures, %lld of them lose something\n",
                  (long long)disk_events(trial.disk), (long long)trial.failures,
                  (long long)trial.bad);
    assert_int_equal(trial.failures, failures);
    assert_true(ignores_syncs ? trial.bad > failures / 4 : trial.bad == 0);
    disk_close(trial.disk);
    free_written(&written);
}

static void test_saving_between_updates(void **state) {
    lose_power(0, environment_number("BERTH_POWER_FAILURES", 200), 0);
}

static void test_saving_beside_updates(void **state) {
    lose_power(1, environment_number("BERTH_POWER_FAILURES", 200), 0);
}

// What these tests would find if Berth did not sync.
static void test_without_syncs(void **state) {
    lose_power(0, 100, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_saving_between_updates),
        FIXTURE_TEST(test_saving_beside_updates),
        FIXTURE_TEST(test_without_syncs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
