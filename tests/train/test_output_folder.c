// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 28 and 29: output folders that are in use, that vanish, that are read-only, and that
// hold files already; a dry run.
#include "fixture.h"
#include "settings/settings.h"

#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_two_runs_on_one_folder(void **state) {
    struct fixture_run first = fixture_default("out");
    struct file_lock lock;
    assert_int_equal(dir_make(in_folder("out"), NULL), BERTH_OK);
    assert_int_equal(file_lock_acquire(&lock, in_folder("out"), NULL), BERTH_OK);
    first.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&first), BERTH_CANT_CREATE);
    char holder[32];
    snprintf(holder, sizeof holder, "pid %ld", (long)getpid());
    fixture_assert_logged(holder);
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
        run.config.run.save_steps = i % 2 == 0 ? 1 : 100;
        run.config.run.on_save_error = "continue"; // a lost folder ends the run all the same
        run.act = losses[i / 3];
        run.act_at_step = steps[i % 3];
        fixture_expect(&run, BERTH_IO, "the lock of this run is lost");
        assert_false(file_exists(in_folder("out/model.safetensors")));
        if (losses[i / 3] == remove_folder) {
            assert_false(dir_exists(in_folder("out")));
        } else {
            assert_file_holds(in_folder("out/.lock"), "another"); // not removed at the end
            remove_folder();
        }
    }
}

// An evaluation may take hours, so the save of the best model after it looks at the lock again.
static void test_a_lock_lost_in_an_evaluation_saves_nothing(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.run.load_best_model_at_end = 1;
    run.config.run.save_steps = 100;
    run.act = replace_lock;
    run.act_in_predict = 1;
    fixture_expect(&run, BERTH_IO, "the lock of this run is lost");
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 0);
    remove_folder();
}

static void test_a_lost_folder_gets_no_predictions(void **state) {
    struct fixture_run run = fixture_default("out");
    run.job = job_predict;
    run.config.task.predict_file = fixture_keep("dev.json");
    run.act = remove_folder;
    run.act_in_predict = 1;
    fixture_expect(&run, BERTH_IO, "the lock of this run is lost");
    assert_false(dir_exists(in_folder("out")));
}

// The original programs predict into the folder that they trained in; its other files stay.
static void test_predictions_beside_the_trained_model(void **state) {
    struct fixture_run run = fixture_default("out");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    char *log = fixture_text(in_folder("out/log.jsonl"));
    char *config = fixture_text(in_folder("out/config.json"));
    struct fixture_run predicting = fixture_default("out");
    predicting.job = job_predict;
    predicting.config.task.predict_file = fixture_keep("dev.json");
    for (int i = 0; i < 2; i++) { // the second time over the files of the first
        assert_int_equal(fixture_execute(&predicting), BERTH_OK);
        assert_true(file_exists(in_folder("out/predictions.json")));
        assert_int_equal(file_remove(in_folder("out/nbest_predictions.json"), NULL), BERTH_OK);
    }
    assert_file_holds(in_folder("out/log.jsonl"), log);
    assert_file_holds(in_folder("out/config.json"), config);
    memory_free(log);
    memory_free(config);
    int64_t newest;
    assert_true(fixture_good_checkpoints("out", &newest) > 0);
    // A folder that no training run has written gets no predictions beside its files.
    predicting.config.run.output_dir = fixture_keep("model");
    assert_int_equal(fixture_execute(&predicting), BERTH_CANT_CREATE);
}

static void test_output_folder_rules(void **state) {
    struct fixture_run run = fixture_default("out");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE); // not empty
    run.config.run.overwrite_output_dir = 1;
    run.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 2);
    assert_int_equal(newest, 2); // the old run's checkpoints are gone
    run = fixture_default("train.json");
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE); // a file
    run = fixture_default("train.json/out");
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE);
    run.config.run.output_dir = "/proc/berth"; // read-only, even for root
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE);
    char *text = fixture_text(in_folder("log"));
    assert_null(strstr(text, "step:")); // before any training
    memory_free(text);
}

// The shape and the vocabulary of a resumed run may be those of a checkpoint of its own output
// folder, which it then removes.
static void test_start_from_a_checkpoint_that_goes(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.engine.max_steps = 3;
    run.config.model.model_name_or_path = fixture_keep("out/checkpoint-1");
    run.config.run.resume_from_checkpoint = "auto";
    run.config.run.save_total_limit = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 3);
    assert_same_file(in_folder("model/vocab.txt"), in_folder("out/checkpoint-3/vocab.txt"));
}

// A model that the run would remove before it has saved another: a kill would leave none.
static void test_overwriting_the_model_it_starts_from(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.model.model_name_or_path = fixture_keep("out/checkpoint-1");
    run.config.run.overwrite_output_dir = 1;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_CANT_CREATE);
    fixture_assert_logged("overwrite_output_dir would remove");
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 2);
    run.config.model.model_name_or_path = fixture_keep("out");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
}

// Nothing of an overwritten run is left from which the new one could be resumed, or that would pass
// for its result.
static void test_overwriting_leaves_nothing_of_a_run(void **state) {
    static const char *const gone[] = {
        "ckpt_8.pt",         "model.ckpt-8.index", "pytorch_model.bin", "bert_config.json",
        "checkpoint",        "train_results.json", "all_results.json",  "checkpoint-8/config.json",
        "eval_results.json", "workers.json"};
    struct fixture_run run = fixture_default("out");
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.run.save_format = "torch,nvidia,tensorflow";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_int_equal(file_write(fixture_path("out", "workers.json"), "{}", 2, NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        assert_true(file_exists(fixture_path("out", gone[i])));
    }
    run.config.run.save_format = "hf";
    run.config.run.overwrite_output_dir = 1;
    run.stop_at_start = 1;
    run.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        assert_true(file_exists(fixture_path("out", gone[i]))); // no update was done
    }
    run.stop_at_start = 0;
    run.stop_at_step = 1;
    run.stop_level = STOP_AT_ONCE;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        assert_false(file_exists(fixture_path("out", gone[i])));
    }
    assert_true(file_exists(fixture_path("out", "model.safetensors"))); // until it is replaced
}

// The weights of an earlier result in another form stay as long as they are those of the result.
static void expect_earlier_form(struct fixture_run *run) {
    run->config.engine.max_steps = 2;
    run->config.run.save_format = "torch";
    assert_int_equal(fixture_execute(run), BERTH_OK);
    run->config.run.save_format = "hf";
    run->config.run.resume_from_checkpoint = "auto";
    for (int steps = 2; steps <= 3; steps++) {
        run->config.engine.max_steps = steps;
        assert_int_equal(fixture_execute(run), BERTH_OK);
        assert_int_equal(file_exists(fixture_path("out", "pytorch_model.bin")), steps == 2);
    }
}

static void test_an_earlier_form_of_the_result(void **state) {
    struct fixture_run run = fixture_default("out");
    expect_earlier_form(&run);
    // Another result needs no update: the last model may follow on the best one.
    run.config.run.save_format = "torch";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.run.save_format = "hf";
    assert_int_equal(file_write(fixture_path("out", "model.safetensors"), "best", 4, NULL),
                     BERTH_OK);
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_false(file_exists(fixture_path("out", "pytorch_model.bin")));
}

static void test_an_earlier_form_of_the_best_worker(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.machine.workers = "independent";
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(dir_make(in_folder("out/worker-0"), NULL), BERTH_OK);
    expect_earlier_form(&run);
}

// With the best model as the result, the file of the last update, which stays to resume from, is
// not called the result.
static void test_original_file_beside_the_best_model(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_format = "nvidia";
    run.config.run.load_best_model_at_end = 1;
    run.config.task.validation_file = fixture_keep("dev.json");
    fixture_expect(&run, BERTH_OK, "out contains the last model as nvidia, in ckpt_8.pt");
    fixture_assert_not_logged("also contains the result");
    assert_true(file_exists(fixture_path("out", "ckpt_8.pt")));
    assert_true(file_exists(fixture_path("out", "bert_config.json")));
    run = fixture_default("last");
    run.config.run.save_format = "nvidia";
    fixture_expect(&run, BERTH_OK, "last also contains the result as nvidia");
}

// After the last checkpoint none is due.
static void test_next_automatic_checkpoint(void **state) {
    static const char is_due[] = "the next checkpoint is due in";
    struct fixture_run run = fixture_default("out");
    run.config.run.save_steps = OPTION_AUTO; // the first one after the first update
    run.config.engine.max_steps = 2;
    fixture_expect(&run, BERTH_OK, is_due);
    char *text = fixture_text(in_folder("log"));
    assert_null(strstr(strstr(text, is_due) + 1, is_due));
    memory_free(text);
}

// Independent workers have their checkpoints in other folders, so that a file of the last update in
// the output folder is that of an earlier result.
static void test_original_file_of_workers(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.machine.workers = "independent";
    run.config.run.resume_from_checkpoint = "auto";
    run.config.run.save_format = "nvidia";
    assert_int_equal(dir_make(in_folder("out/worker-0"), NULL), BERTH_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(file_write(in_folder("out/ckpt_8.pt"), "old", 3, NULL), BERTH_OK);
        assert_int_equal(fixture_execute(&run), BERTH_OK);
        char *text = fixture_text(in_folder("out/ckpt_8.pt"));
        assert_int_equal(strncmp(text, "PK", 2), 0); // an archive
        memory_free(text);
    }
}

static void count_locked(void *context, const struct berth_record *record) {
    if (record->text != NULL && strstr(record->text, "also contains the result") != NULL) {
        *(int *)context += file_exists(in_folder("out/.lock"));
    }
}

// Also BERTH_IO unless the folder is locked when the result has been written in another format.
static enum berth_status train_locked(const char *task, const struct settings *config,
                                      struct berth_log log, const atomic_int *stop,
                                      struct berth_run_result *result, struct berth_error *error) {
    int locked = 0;
    log = (struct berth_log){.write = count_locked, .context = &locked};
    TRY(job_train(task, config, log, stop, result, error));
    return locked == 1 ? BERTH_OK : BERTH_IO;
}

static void test_other_formats_are_written_under_the_lock(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_format = "torch";
    run.config.engine.max_steps = 1;
    run.job = train_locked;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_false(file_exists(in_folder("out/.lock")));
}

// Runs and predictions, including dry ones, whose inputs are missing too: counts those that do not
// report that the output cannot be created.
static int wrong_refusals(const char *output) {
    struct fixture_run run = fixture_default("out");
    run.config.run.output_dir = output;
    run.config.task.train_file = run.config.task.predict_file = fixture_keep("none.json");
    run.config.model.model_name_or_path = fixture_keep("none");
    int wrong = 0;
    for (int i = 0; i < 4; i++) {
        run.job = i / 2 ? job_predict : job_train;
        run.config.run.dry_run = i % 2;
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

static void test_read_only_output_is_reported_before_anything_is_read(void **state) {
    const char *folder = fixture_keep("locked");
    assert_int_equal(dir_make(folder, NULL), BERTH_OK);
    assert_int_equal(chmod(folder, 0555), 0);
    // For root only a file system without writing is read-only.
    int mounted = access(folder, W_OK) == 0;
    if (mounted && mount("tmpfs", folder, "tmpfs", MS_RDONLY, "size=64k") != 0) {
        print_message("skipped: root may write everywhere, and cannot mount a file system here\n");
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
    run.config.task.train_file = fixture_keep("none.json");
    assert_int_equal(fixture_execute(&run), BERTH_NO_INPUT);
    run.config.task.train_file = fixture_keep("model/config.json");
    assert_int_equal(fixture_execute(&run), BERTH_BAD_DATA);
    run = fixture_default("out");
    run.config.features.max_seq_length = 65;
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
    run.config.run.dry_run = 1;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_false(dir_exists(in_folder("out")));
    fixture_assert_logged("plan: memory");
    fixture_assert_logged("total_steps=8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_two_runs_on_one_folder),
        FIXTURE_TEST(test_lost_folder_stops_the_run),
        FIXTURE_TEST(test_a_lock_lost_in_an_evaluation_saves_nothing),
        FIXTURE_TEST(test_a_lost_folder_gets_no_predictions),
        FIXTURE_TEST(test_predictions_beside_the_trained_model),
        FIXTURE_TEST(test_output_folder_rules),
        FIXTURE_TEST(test_start_from_a_checkpoint_that_goes),
        FIXTURE_TEST(test_overwriting_the_model_it_starts_from),
        FIXTURE_TEST(test_overwriting_leaves_nothing_of_a_run),
        FIXTURE_TEST(test_an_earlier_form_of_the_result),
        FIXTURE_TEST(test_an_earlier_form_of_the_best_worker),
        FIXTURE_TEST(test_original_file_beside_the_best_model),
        FIXTURE_TEST(test_original_file_of_workers),
        FIXTURE_TEST(test_next_automatic_checkpoint),
        FIXTURE_TEST(test_other_formats_are_written_under_the_lock),
        FIXTURE_TEST(test_output_is_checked_before_anything_is_read),
        FIXTURE_TEST(test_read_only_output_is_reported_before_anything_is_read),
        FIXTURE_TEST(test_bad_input_leaves_no_folder),
        FIXTURE_TEST(test_dry_run_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
