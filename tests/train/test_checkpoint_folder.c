// SPDX-License-Identifier: Apache-2.0
// Tests an output folder with its checkpoints: what a killed or overwritten run leaves there is
// removed, old checkpoints too, but nothing that could still be needed or is not of a run. What is
// in a checkpoint's files: test_checkpoint_files.c.
#include "core/scratch.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_manifest.h"
#include "train/checkpoint/foreign_write.h"
#include "train/checkpoint/stale_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
    assert_int_equal(checkpoint_clean(scratch_folder, NULL, NULL), BERTH_OK);
    assert_int_equal(scratch_count(), sizeof kept / sizeof kept[0] + 1); // and the log
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        assert_file_holds(scratch(kept[i]), "mine");
    }
}

// A folder with nothing but the files that the settings place there is not in use.
static void test_logs_do_not_use_a_folder(void **state) {
    struct settings config;
    char *summary = memory_string(scratch("logs/summary.json"));
    char *report = memory_string(scratch("report.html"));
    settings_init(&config);
    assert_int_equal(dir_make(scratch("logs"), NULL), BERTH_OK);
    scratch_write("logs/summary.json", "{}");
    assert_true(checkpoint_dir_is_used(scratch_folder, &config.report));
    config.report.json_summary = summary;
    config.report.report = report;
    assert_false(checkpoint_dir_is_used(scratch_folder, &config.report));
    scratch_write("report.html", "");
    assert_false(checkpoint_dir_is_used(scratch_folder, &config.report));
    config.report.report = NULL;
    assert_true(checkpoint_dir_is_used(scratch_folder, &config.report));
    assert_false(checkpoint_dir_is_used(scratch("none"), &config.report));
    memory_free(summary);
    memory_free(report);
}

static void test_no_output_folder(void **state) {
    struct settings config;
    struct berth_error error;
    settings_init(&config);
    for (int i = 0; i < 2; i++) {
        config.run.output_dir = i == 0 ? NULL : "";
        assert_int_equal(output_check(&config.run, &config.report, NULL, &error), BERTH_USAGE);
        assert_message_has(&error, "output_dir is missing");
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
    assert_int_equal(checkpoint_manifest_write(scratch(name), NULL), BERTH_OK);
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
    const struct checkpoint_limits limits = {.newest = newest, .limit = limit, .best = -1};
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

// A file that cannot be removed, here because it is a folder, does not keep the others.
static void test_rotation_of_original_files(void **state) {
    const struct foreign_limits limits = {.after = 0, .newest = 3, .limit = 1, .best = -1};
    struct berth_error error;
    assert_int_equal(dir_make(scratch("ckpt_1.pt"), NULL), BERTH_OK);
    scratch_write("ckpt_2.pt", "old");
    scratch_write("ckpt_3.pt", "new");
    assert_int_equal(foreign_rotate(scratch_folder, &limits, &error), BERTH_IO);
    assert_message_has(&error, "ckpt_1.pt");
    assert_int_equal(scratch_count(), 2);
    assert_file_holds(scratch("ckpt_3.pt"), "new");
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
    assert_int_equal(stale_files_remove(scratch_folder, NULL, NULL), BERTH_OK);
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
            status = checkpoint_clean(scratch_folder, NULL, NULL);
        }
        status = status == BERTH_OK ? rotate(10, 2, NULL) : status;
        made = memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        assert_true((checkpoints() & 1 << 10) != 0);
        memory_free(found);
        assert_int_equal(stale_files_remove(scratch_folder, NULL, NULL), BERTH_OK);
        assert_int_equal(checkpoint_clean(scratch_folder, NULL, NULL), BERTH_OK);
    } while (made >= call);
    assert_true(call > 10);
}

// Each call of the file layer fails once: that does not make a checkpoint a damaged one, and none
// is left out when the later ones are set aside.
static void test_checkpoints_that_cannot_be_read(void **state) {
    static const int causes[] = {EIO, EMFILE};
    const struct stale_files_branch branch = {scratch_folder, 4, 0};
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        uint64_t made, call = 0;
        do {
            struct berth_error error = {0};
            char *found = NULL;
            make_checkpoints();
            file_fail_at(++call, causes[i]);
            enum berth_status status = checkpoint_find(scratch_folder, NULL, &found, &error);
            if (status == BERTH_OK) {
                assert_string_equal(strrchr(found, '/'), "/checkpoint-10");
                status = stale_files_set_aside(&branch, NULL, &error);
            }
            made = file_fail_at(0, 0);
            assert_true(status != BERTH_OK || checkpoints() == (1 << 2 | 1 << 4));
            assert_true((status == BERTH_OK) == (error.message[0] == '\0'));
            memory_free(found);
            assert_int_equal(dir_remove(scratch_folder, NULL), BERTH_OK);
            assert_int_equal(dir_make(scratch_folder, NULL), BERTH_OK);
        } while (made >= call);
        assert_true(call > 10);
    }
}

// A checkpoint that another user owns is neither damaged nor incomplete.
static void test_checkpoint_of_another_user(void **state) {
    static const char *const closed[] = {"checkpoint-10/model.safetensors", "checkpoint-10"};
    make_checkpoints();
    assert_int_equal(chmod(scratch_folder, 0755), 0);
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        assert_int_equal(chmod(scratch(closed[i]), 0), 0);
        const pid_t child = fork();
        if (child == 0) {
            struct berth_error error = {0};
            char *found;
            const int is_other =
                chdir(scratch_folder) == 0 && (geteuid() != 0 || setuid(65534) == 0);
            _exit(is_other && checkpoint_find(".", NULL, &found, &error) == BERTH_IO &&
                          strstr(error.message, "Permission denied") != NULL &&
                          checkpoint_verify("checkpoint-10", NULL, &error) == BERTH_IO &&
                          error.status == BERTH_IO
                      ? 7
                      : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(chmod(scratch(closed[i]), 0700), 0);
        assert_int_equal(WEXITSTATUS(status), 7);
    }
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

// --- links and other files ----------------------------------------------------------------------

// checkpoint-STEP is moved to another disk, and a link is in its place.
static void move_checkpoint(int step) {
    char name[64], moved[64], target[80];
    snprintf(name, sizeof name, "checkpoint-%d", step);
    snprintf(moved, sizeof moved, "disk-%d", step);
    snprintf(target, sizeof target, "./%s", moved);
    assert_int_equal(rename(scratch(name), scratch(moved)), 0);
    assert_int_equal(symlink(target, scratch(name)), 0);
}

static void test_rotation_of_moved_checkpoints(void **state) {
    char *found;
    make_checkpoints();
    move_checkpoint(2);
    move_checkpoint(4);
    move_checkpoint(10);
    assert_int_equal(dir_remove(scratch("disk-4"), NULL), BERTH_OK); // the link leads nowhere now
    assert_int_equal(rotate(10, 2, NULL), BERTH_OK);
    assert_int_equal(checkpoints(), 1 << 8 | 1 << 10);
    assert_false(path_is_link(scratch("checkpoint-2")) || path_is_link(scratch("checkpoint-4")));
    assert_file_holds(scratch("disk-2/model.safetensors"), "weights");
    assert_int_equal(checkpoint_find(scratch_folder, NULL, &found, NULL), BERTH_OK);
    assert_string_equal(strrchr(found, '/'), "/checkpoint-10");
    memory_free(found);
    // A run that was killed had renamed a link to remove it.
    assert_int_equal(symlink("disk-2", scratch(".tmp-checkpoint-6-old")), 0);
    assert_int_equal(checkpoint_clean(scratch_folder, NULL, NULL), BERTH_OK);
    assert_false(path_is_link(scratch(".tmp-checkpoint-6-old")));
    assert_file_holds(scratch("disk-2/model.safetensors"), "weights");
}

static char notes[4096];

static void keep_note(void *context, const struct berth_record *record) {
    const size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", record->text);
}

// What a file manager or the user leaves in a checkpoint is no damage, unless a reader of the
// folder would take it for a part of the model.
static void test_other_files_in_a_checkpoint(void **state) {
    static const struct {
        const char *name;
        int is_ignored;
    } files[] = {{".DS_Store", 1},         {"notes.txt", 1},
                 {".nfs000000000001", 1},  {"._config.json", 1},
                 {"added_tokens.json", 0}, {"vocab.txt", 0},
                 {"1_Pooling/.x", 1},      {"1_Pooling/config.json", 0},
                 {".git/config.json", 1}};
    const struct berth_log log = {.write = keep_note};
    struct berth_error error;
    make_checkpoint(2);
    assert_int_equal(dir_make(scratch("checkpoint-2/1_Pooling"), NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[96];
        snprintf(name, sizeof name, "checkpoint-2/%s", files[i].name);
        assert_int_equal(dir_make_parent(scratch(name), NULL), BERTH_OK);
        scratch_write(name, "");
        notes[0] = '\0';
        assert_int_equal(checkpoint_verify(scratch("checkpoint-2"), NULL, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "not listed in the manifest, whose files are all intact");
        assert_int_equal(checkpoint_accept(scratch("checkpoint-2"), &log, &error),
                         files[i].is_ignored ? BERTH_OK : BERTH_BAD_DATA);
        if (files[i].is_ignored) {
            assert_non_null(strstr(notes, "is not listed in the manifest and is ignored"));
        } else {
            assert_message_has(&error, files[i].name);
        }
        assert_int_equal(file_remove(scratch(name), NULL), BERTH_OK);
        (void)rmdir(scratch("checkpoint-2/.git"));
    }
    scratch_write("checkpoint-2/.DS_Store", "");
    scratch_write("checkpoint-2/1_Pooling/b", "");
    scratch_write("checkpoint-2/notes.txt", "");
    assert_int_equal(checkpoint_verify(scratch("checkpoint-2"), NULL, &error), BERTH_BAD_DATA);
    assert_message_has(&error, ": .DS_Store, 1_Pooling/b, notes.txt; move them out");
    for (int i = 10; i < 30; i++) { // too many for a message
        char name[96];
        snprintf(name, sizeof name, "checkpoint-2/other-%030d", i);
        scratch_write(name, "");
    }
    assert_int_equal(checkpoint_verify(scratch("checkpoint-2"), NULL, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "010, other-");
    assert_message_has(&error, "017, other-000000000000000000000000000018 and 11 more; move them");
    scratch_write("checkpoint-2/model.safetensors", "weightz");
    assert_int_equal(checkpoint_accept(scratch("checkpoint-2"), &log, NULL), BERTH_BAD_DATA);
}

// --- earlier runs -------------------------------------------------------------------------------

static void test_what_is_overwritten(void **state) {
    static const char *const gone[] = {"ckpt_3.pt",         "model.ckpt-6.index",
                                       "model.ckpt-6.meta", "model.ckpt-6.data-00000-of-00001",
                                       "checkpoint",        "pytorch_model.bin",
                                       "bert_config.json",  "train_results.json",
                                       "eval_results.json", "eval_results.txt",
                                       "all_results.json"};
    static const char *const kept[] = {
        "model.safetensors",     "config.json", "vocab.txt",   "trainer_state.json",    "notes.txt",
        "bert_model.ckpt.index", "ckpt_x.pt",   "model.ckpt-", "checkpoint-4.abandoned"};
    make_checkpoints();
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        scratch_write(gone[i], "old");
    }
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        scratch_write(kept[i], "kept");
    }
    assert_int_equal(stale_files_remove(scratch_folder, NULL, NULL), BERTH_OK);
    assert_int_equal(scratch_count(), sizeof kept / sizeof *kept);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_file_holds(scratch(kept[i]), "kept");
    }
}

static char warning[1024];

static void keep_warning(void *context, const struct berth_record *record) {
    snprintf(warning, sizeof warning, "%s", record->text);
}

// A checkpoint of another owner that can be renamed does not stop the run; one that keeps its name
// would be taken for this run's, and does.
static void test_overwriting_what_another_user_owns(void **state) {
    static const struct berth_log log = {.write = keep_warning};
    for (int is_sticky = 0; is_sticky < 2; is_sticky++) {
        assert_int_equal(dir_make(scratch("checkpoint-3"), NULL), BERTH_OK);
        scratch_write("checkpoint-3/model.safetensors", "old");
        assert_int_equal(chmod(scratch("checkpoint-3"), 0755), 0);
        assert_int_equal(chmod(scratch_folder, is_sticky ? 01777 : 0777), 0);
        const pid_t child = fork();
        if (child == 0) {
            struct berth_error error = {0};
            char *found = NULL;
            if (chdir(scratch_folder) != 0 || setuid(65534) != 0) {
                _exit(9);
            }
            const enum berth_status status = stale_files_remove(".", &log, &error);
            const int is_there = dir_exists("checkpoint-3");
            if (is_sticky) {
                _exit(status == BERTH_IO && is_there && warning[0] == '\0' ? 7 : 1);
            }
            _exit(status == BERTH_OK && !is_there &&
                          strstr(warning, "checkpoint-3: cannot remove") != NULL &&
                          checkpoint_find(".", NULL, &found, &error) == BERTH_OK && found == NULL
                      ? 7
                      : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(chmod(scratch_folder, 0755), 0);
        if (WEXITSTATUS(status) == 9) {
            skip(); // only root can become another user
        }
        assert_int_equal(WEXITSTATUS(status), 7);
    }
}

// Checks a run into the folder that starts from this setting.
static enum berth_status check_start(const char *option, const char *name,
                                     struct berth_error *error) {
    struct settings config;
    char *output = memory_string(scratch_folder), *path = memory_string(scratch(name));
    settings_init(&config);
    config.run.output_dir = output;
    config.run.overwrite_output_dir = 1;
    assert_int_equal(settings_set_row(&config, option_find(option), path, NULL), BERTH_OK);
    const enum berth_status status = stale_files_check(config.run.output_dir, &config.model, error);
    memory_free(output);
    memory_free(path);
    return status;
}

static void test_what_a_run_starts_from_is_not_overwritten(void **state) {
    struct berth_error error;
    make_checkpoint(4);
    scratch_write("ckpt_3.pt", "");
    scratch_write("config.json", "{}");
    assert_int_equal(check_start("model_name_or_path", "none", NULL), BERTH_OK);
    assert_int_equal(check_start("model_name_or_path", "checkpoint-4", &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "would remove");
    assert_message_has(&error, "checkpoint-4, from which this run starts");
    assert_int_equal(check_start("model_name_or_path", "checkpoint-4/model.safetensors", NULL),
                     BERTH_CANT_CREATE);
    assert_int_equal(check_start("model_name_or_path", "ckpt_3.pt", NULL), BERTH_CANT_CREATE);
    assert_int_equal(check_start("config_file", "checkpoint-4/config.json", NULL), BERTH_OK);
    scratch_write("checkpoint-4/config.json", "{}");
    assert_int_equal(check_start("config_file", "checkpoint-4/config.json", NULL),
                     BERTH_CANT_CREATE);
    scratch_write("checkpoint-4/vocab.txt", "");
    assert_int_equal(check_start("vocab_file", "checkpoint-4/vocab.txt", NULL), BERTH_CANT_CREATE);
    assert_int_equal(check_start("config_file", "config.json", NULL), BERTH_OK);
    // The folder itself: its own files of a model stay, those of other programs do not.
    assert_int_equal(check_start("model_name_or_path", "", NULL), BERTH_OK);
    assert_int_equal(file_remove(scratch("config.json"), NULL), BERTH_OK);
    scratch_write("bert_config.json", "{}");
    assert_int_equal(check_start("model_name_or_path", "", &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "bert_config.json, from which");
}

static enum berth_status set_aside(int64_t after, int originals) {
    const struct berth_log log = {.write = keep_note};
    const struct stale_files_branch branch = {scratch_folder, after, originals};
    notes[0] = '\0';
    return stale_files_set_aside(&branch, &log, NULL);
}

static void test_output_folder_without_locks(void **state) {
    struct settings config;
    struct file_lock lock = {.descriptor = -1};
    const struct berth_log log = {.write = keep_note};
    settings_init(&config);
    config.run.output_dir = scratch_folder;
    notes[0] = '\0';
    file_fail_at(2, ENOSYS); // the call after open
    assert_int_equal(output_lock(&config.run, &lock, &log, NULL), BERTH_OK);
    assert_non_null(strstr(notes, "its file system has no locks"));
    file_lock_release(&lock);
}

// A run that goes on from 4 leaves 6 to 10 behind, and none of them is lost.
static void test_setting_aside(void **state) {
    char *found;
    make_checkpoints();
    scratch_write("checkpoint-8/model.safetensors", "weightz");
    scratch_write("ckpt_4.pt", "");
    scratch_write("ckpt_6.pt", "");
    assert_int_equal(dir_make(scratch("checkpoint-10.abandoned"), NULL), BERTH_OK);
    assert_int_equal(set_aside(4, 0), BERTH_OK);
    assert_int_equal(checkpoints(), 1 << 2 | 1 << 4 | 1 << 8); // 8 is damaged
    assert_file_holds(scratch("checkpoint-6.abandoned/model.safetensors"), "weights");
    assert_file_holds(scratch("checkpoint-10.abandoned-2/model.safetensors"), "weights");
    assert_non_null(strstr(notes, "checkpoint-10 was renamed to "));
    assert_non_null(strstr(notes, "this run continues from update 4 without it"));
    assert_int_equal(
        checkpoint_find(scratch_folder, &(struct berth_log){.write = keep_note}, &found, NULL),
        BERTH_OK);
    assert_string_equal(strrchr(found, '/'), "/checkpoint-4");
    memory_free(found);
    assert_true(file_exists(scratch("ckpt_6.pt")));
    assert_int_equal(set_aside(4, 1), BERTH_OK);
    assert_true(file_exists(scratch("ckpt_4.pt")) && !file_exists(scratch("ckpt_6.pt")));
    assert_true(file_exists(scratch("ckpt_6.pt.abandoned")));
    assert_int_equal(set_aside(10, 1), BERTH_OK);
    assert_string_equal(notes, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_leftovers_are_removed),
        SCRATCH_TEST(test_logs_do_not_use_a_folder),
        SCRATCH_TEST(test_no_output_folder),
        SCRATCH_TEST(test_names_that_are_no_checkpoints),
        SCRATCH_TEST(test_rotation_keeps_the_newest),
        SCRATCH_TEST(test_rotation_of_original_files),
        SCRATCH_TEST(test_checkpoints_without_memory),
        SCRATCH_TEST(test_checkpoints_that_cannot_be_read),
        SCRATCH_TEST(test_checkpoint_of_another_user),
        SCRATCH_TEST(test_rotation_after_a_kill),
        SCRATCH_TEST(test_rotation_verifies_the_newest),
        SCRATCH_TEST(test_rotation_of_moved_checkpoints),
        SCRATCH_TEST(test_other_files_in_a_checkpoint),
        SCRATCH_TEST(test_what_is_overwritten),
        SCRATCH_TEST(test_overwriting_what_another_user_owns),
        SCRATCH_TEST(test_what_a_run_starts_from_is_not_overwritten),
        SCRATCH_TEST(test_setting_aside),
        SCRATCH_TEST(test_output_folder_without_locks),
    };
    return cmocka_run_group_tests_name("checkpoint folder", tests, NULL, NULL);
}
