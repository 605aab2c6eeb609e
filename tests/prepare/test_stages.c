// SPDX-License-Identifier: Apache-2.0
// From articles to shards, instances and packs: the same bytes with any number of threads and after
// every interruption (a failing or fatal system call at every point, no memory, a stop); finished
// files are kept; different settings and unknown files are refused by name. Several ranks:
// test_stages_ranks.c.
#include "core/buffer.h"
#include "core/scratch.h"
#include "data/pretraining/pretraining_file.h"
#include "data/stages/instance_stage.h"
#include "data/stages/pack_stage.h"
#include "data/stages/shard_stage.h"
#include "data/stages/stage_work.h"
#include "interrupted.h"
#include "stages_fixture.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void begin_another(void *context, const struct berth_record *record) {
    (void)record;
    stage_advance(context, 1);
}

// A program's progress callback may start another job.
static void test_report_that_begins_a_job(void **state) {
    (void)state;
    struct stage_work inner = {.reporting = PTHREAD_MUTEX_INITIALIZER};
    const struct berth_log log = {begin_another, &inner};
    struct stage_work outer = {.reporting = PTHREAD_MUTEX_INITIALIZER, .log = &log};
    stage_advance(&outer, 1);
    stage_advance(&outer, 1);
    assert_true(outer.done == 2 && inner.done == 2);
}

static void test_threads(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    for (pipeline.threads = 2; pipeline.threads <= 5; pipeline.threads++) {
        pipeline_run_ok(&pipeline);
        assert_tree("other", &wanted);
        remove_other();
    }
    buffer_done(&wanted);
}

// A second run has nothing to do; missing files are made again, the others stay.
static void test_what_is_done_is_kept(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    pipeline_run_ok(&pipeline);
    const char *const paths[] = {A_SHARD,
                                 AN_HDF5,
                                 A_PACK,
                                 "other/text/few_test_1.txt",
                                 "other/instances/few_test_0.hdf5",
                                 "other/packs/few/mixed_strategies_part_1.hdf5"};
    uint64_t before[6];
    for (size_t i = 0; i < 6; i++) {
        before[i] = inode(scratch(paths[i]));
        assert_true(before[i] != 0);
    }
    pipeline_run_ok(&pipeline);
    for (size_t i = 0; i < 6; i++) {
        assert_true(inode(scratch(paths[i])) == before[i]);
    }
    for (size_t gone = 0; gone < 3; gone++) {
        // Renamed, so that its inode stays in use.
        assert_int_equal(rename(scratch(paths[gone]), scratch("kept")), 0);
        pipeline_run_ok(&pipeline);
        assert_tree("other", &wanted);
        for (size_t i = 0; i < 6; i++) {
            assert_int_equal(inode(scratch(paths[i])) == before[i], i != gone);
        }
        before[gone] = inode(scratch(paths[gone]));
    }
    scratch_write(AN_HDF5, "cut"); // another size than the manifest's
    pipeline_run_ok(&pipeline);
    assert_tree("other", &wanted);
    buffer_done(&wanted);
}

// A file that cannot be examined is not a missing one: none is made again.
static void test_read_errors_keep_what_is_done(void **state) {
    (void)state;
    static const char *const paths[] = {A_SHARD, AN_HDF5, A_PACK};
    uint64_t before[3], made, call = 0;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    pipeline_run_ok(&pipeline);
    for (size_t i = 0; i < 3; i++) {
        before[i] = inode(scratch(paths[i]));
    }
    do {
        struct berth_error error = {.message = ""};
        file_fail_at(++call, EMFILE);
        const enum berth_status status = pipeline_run(&pipeline, &error);
        made = file_fail_at(0, 0);
        assert_int_equal(status != BERTH_OK, error.message[0] != '\0');
        for (size_t i = 0; i < 3; i++) {
            assert_true(inode(scratch(paths[i])) == before[i]);
        }
    } while (made >= call);
    assert_true(call > 10);
    buffer_done(&wanted);
}

static enum berth_status make_instances_alone(const struct pipeline *pipeline,
                                              struct berth_error *error) {
    struct tokenizer *tokenizer = NULL;
    const struct tokenizer_options options = {.lower_case = 1};
    assert_int_equal(tokenizer_open_memory("vocabulary", pipeline_vocabulary,
                                           strlen(pipeline_vocabulary), &options, &tokenizer, NULL),
                     BERTH_OK);
    const enum berth_status status = make_instances(pipeline, tokenizer, error);
    tokenizer_close(tokenizer);
    return status;
}

// A stage by itself refuses input that has lost a file, or a part of one, since it was complete.
static void test_input_with_gaps(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {NULL, "few_training_0.txt: listed in the manifest, but missing; run the stage"},
        {"", "bytes, as in the manifest, found 0; run the stage \"shards\" first"},
        {"One.", "bytes, as in the manifest, found 4; run the stage \"shards\" first"}};
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct berth_error error;
        pipeline_run_ok(&pipeline);
        assert_int_equal(dir_remove(scratch("other/instances"), NULL), BERTH_OK);
        assert_int_equal(file_remove(scratch(A_SHARD), NULL), BERTH_OK);
        if (cases[i][0] != NULL) { // otherwise the file is gone
            scratch_write(A_SHARD, cases[i][0]);
        }
        assert_int_equal(make_instances_alone(&pipeline, &error), BERTH_BAD_DATA);
        assert_message_has(&error, cases[i][1]);
        assert_false(dir_exists(scratch("other/instances")));
        pipeline_run_ok(&pipeline);
        assert_tree("other", &wanted);
    }
    buffer_done(&wanted);
}

// Shards of another program have no manifest: a change is found by their contents.
static void test_changed_shards_of_another_program(void **state) {
    (void)state;
    struct pipeline pipeline = pipeline_default("other");
    struct berth_error error;
    char *text;
    size_t length;
    write_articles(ARTICLES);
    assert_int_equal(make_shards(&pipeline, NULL), BERTH_OK);
    assert_int_equal(file_remove(scratch("other/text/" SHARD_MANIFEST), NULL), BERTH_OK);
    assert_int_equal(make_instances_alone(&pipeline, &error), BERTH_OK);
    assert_int_equal(make_instances_alone(&pipeline, &error), BERTH_OK);
    assert_int_equal(file_read(scratch(A_SHARD), 1 << 20, &text, &length, NULL), BERTH_OK);
    text[length - 3] ^= 1; // in the last word
    scratch_write_bytes(A_SHARD, text, length);
    memory_free(text);
    assert_int_equal(make_instances_alone(&pipeline, &error), BERTH_CONFIG);
    assert_message_has(&error, "instances.json: the files were made with shards_sha256 \"");
}

// A system call fails once, with a full disk; the next run resumes.
static void test_full_disk(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    file_fail_at(0, 0);
    pipeline_run_ok(&pipeline);
    uint64_t calls = file_fail_at(0, 0), failures = 0;
    assert_true(calls > 150);
    for (uint64_t i = 1; i <= calls; i += stride(USUAL)) {
        struct berth_error error = {.message = ""};
        remove_other();
        pipeline.threads = 1 + (int)(i % 2);
        file_fail_at(i, ENOSPC);
        enum berth_status status = pipeline_run(&pipeline, &error);
        file_fail_at(0, 0);
        assert_int_equal(status != BERTH_OK, error.message[0] != '\0');
        failures += status != BERTH_OK;
        pipeline_run_ok(&pipeline);
        assert_tree("other", &wanted);
    }
    assert_true(failures > calls / stride(USUAL) / 2);
    buffer_done(&wanted);
}

// Killed before a system call. Finished files are not written again.
static void test_killed(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    file_fail_at(0, 0);
    pipeline_run_ok(&pipeline);
    uint64_t calls = file_fail_at(0, 0), kept = 0;
    for (uint64_t i = 1; i <= calls; i += stride(USUAL)) {
        remove_other();
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            file_fail_at(i, -1);
            _exit(pipeline_run(&pipeline, NULL) == BERTH_OK ? 0 : 1);
        }
        int wait_status;
        assert_int_equal(waitpid(child, &wait_status, 0), child);
        assert_true(WIFSIGNALED(wait_status));
        uint64_t first = inode(scratch(A_SHARD));
        pipeline_run_ok(&pipeline);
        kept += first != 0 && inode(scratch(A_SHARD)) == first;
        assert_tree("other", &wanted);
    }
    assert_true(kept > calls / stride(USUAL) / 2);
    buffer_done(&wanted);
}

static void test_without_memory(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    memory_fail_at(0, 0);
    pipeline_run_ok(&pipeline);
    uint64_t calls = memory_fail_at(0, 0), failures = 0, tried = 0;
    for (uint64_t i = 1; i <= calls; i += stride(USUAL) * (1 + i / 40), tried++) {
        struct berth_error error = {.message = ""};
        remove_other();
        memory_fail_at(i, 0);
        enum berth_status status = pipeline_run(&pipeline, &error);
        memory_fail_at(0, 0);
        assert_int_equal(status != BERTH_OK, error.message[0] != '\0');
        failures += status != BERTH_OK;
        pipeline_run_ok(&pipeline);
        assert_tree("other", &wanted);
    }
    assert_true(failures > tried / 2);
    buffer_done(&wanted);
}

static void test_stopped(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    const atomic_int stop = 1;
    struct pipeline pipeline = pipeline_default("other");
    struct berth_error error;
    pipeline.stop = &stop;
    assert_int_equal(pipeline_run(&pipeline, &error), BERTH_INTERRUPTED);
    assert_message_has(&error, "the next run makes the rest");
    pipeline.stop = NULL;
    assert_int_equal(make_shards(&pipeline, NULL), BERTH_OK);
    pipeline.stop = &stop;
    assert_int_equal(pipeline_run(&pipeline, &error), BERTH_INTERRUPTED);
    pipeline.stop = NULL;
    pipeline_run_ok(&pipeline);
    assert_tree("other", &wanted);
    assert_int_equal(dir_remove(scratch("other/packs"), NULL), BERTH_OK);
    pipeline.stop = &stop;
    assert_int_equal(make_packs(&pipeline, &error), BERTH_INTERRUPTED);
    pipeline.stop = NULL;
    pipeline_run_ok(&pipeline);
    assert_tree("other", &wanted);
    buffer_done(&wanted);
}

// A manifest whose lock now belongs to another process is not changed.
static void test_lost_lock(void **state) {
    (void)state;
    struct stage stage;
    struct manifest_settings settings = {0};
    struct berth_error error;
    const struct stage_location location = {scratch("made/files"), scratch("made/manifest.json"),
                                            comm_self()};
    manifest_set_text(&settings, "key", "value");
    assert_int_equal(dir_make(scratch("made"), NULL), BERTH_OK);
    assert_int_equal(stage_open(&stage, &location, &settings, NULL), BERTH_OK);
    assert_int_equal(stage_save(&stage, NULL), BERTH_OK);
    assert_int_equal(file_remove(scratch("made/.lock"), NULL), BERTH_OK);
    scratch_write("made/.lock", "another");
    scratch_write("made/manifest.json", "another");
    assert_int_equal(stage_save(&stage, &error), BERTH_IO);
    assert_message_has(&error, "the lock of this run is lost");
    stage_close(&stage);
    assert_file_holds(scratch("made/.lock"), "another");
    assert_file_holds(scratch("made/manifest.json"), "another");
}

// A shard that is being written is an open file: no more at a time than the process may have.
static void test_few_descriptors(void **state) {
    (void)state;
    struct rlimit before;
    struct pipeline pipeline = pipeline_default("whole");
    pipeline.articles = 3000;
    pipeline.shards = 1024;
    write_articles(pipeline.articles);
    assert_int_equal(make_shards(&pipeline, NULL), BERTH_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {64, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(file_limit(), 64);
    pipeline.folder = "other";
    struct berth_error error = {.message = ""};
    const enum berth_status status = make_shards(&pipeline, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_string_equal(error.message, "");
    assert_int_equal(status, BERTH_OK);
    struct buffer wanted = {0};
    read_tree(scratch("whole"), &wanted);
    assert_tree("other", &wanted);
    buffer_done(&wanted);
}

// The files' last words before the number decide, not the corpus's name.
static void test_names_of_corpora(void **state) {
    (void)state;
    static const char *const names[] = {"my_test_corpus", "my_training_set"};
    const char *const paths[] = {scratch("articles.txt")};
    const struct berth_log silent = {NULL, NULL};
    write_articles(ARTICLES);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct shard_stage stage = {.sources = {{CORPUS_TEXT, paths, 1}},
                                    .source_count = 1,
                                    .folder = scratch(names[i]),
                                    .name = names[i],
                                    .plan = {3, 2, 0.3, 7},
                                    .threads = 1,
                                    .comm = comm_self()};
        assert_int_equal(shard_stage_run(&stage, &silent, NULL, NULL), BERTH_OK);
        assert_int_equal(stage.training, 3);
        assert_int_equal(stage.test, 2);
    }
}

static size_t listed_files(const char *manifest) {
    json *value;
    assert_int_equal(json_read_file(manifest, &value, NULL), BERTH_OK);
    const size_t count = json_length(json_member(value, "files"));
    json_free(value);
    return count;
}

// A manifest of many files is not written for each of them, never lacks more than a sixteenth, and
// has all when the stage is closed without an end.
static void test_manifest_of_many_files(void **state) {
    (void)state;
    enum { FILES = 100 };
    struct stage stage;
    struct manifest_settings settings = {0};
    const struct stage_location location = {scratch("made/files"), scratch("made/manifest.json"),
                                            comm_self()};
    size_t listed = 0, writes = 0;
    assert_int_equal(dir_make(scratch("made"), NULL), BERTH_OK);
    assert_int_equal(stage_open(&stage, &location, &settings, NULL), BERTH_OK);
    for (size_t i = 1; i <= FILES; i++) {
        char name[32];
        json *facts = json_new_object();
        snprintf(name, sizeof name, "file-%zu", i);
        assert_int_equal(json_set(facts, "bytes", json_new_null()), 0);
        assert_int_equal(stage_put(&stage, name, facts, NULL), BERTH_OK);
        assert_int_equal(stage_save_some(&stage, NULL), BERTH_OK);
        const size_t now = listed_files(location.manifest);
        assert_true(16 * (i - now) < i);
        writes += now != listed;
        listed = now;
    }
    assert_true(listed < FILES && writes < FILES / 2);
    stage_close(&stage);
    assert_int_equal(listed_files(location.manifest), FILES);
}

// Absurd counts in a damaged manifest are refused.
static void test_absurd_counts(void **state) {
    (void)state;
    static const struct {
        const char *facts;
        enum berth_status status;
    } cases[] = {{"{\"bytes\": null, \"rows\": 1099511627776}", BERTH_OK},
                 {"{\"bytes\": null, \"rows\": 1099511627777}", BERTH_BAD_DATA},
                 {"{\"bytes\": null, \"rows\": 9223372036854775807}", BERTH_BAD_DATA},
                 {"{\"bytes\": null, \"rows\": -1}", BERTH_BAD_DATA},
                 {"{\"bytes\": null, \"rows\": 0, \"strategies\": [0, 1, 2, -1]}", BERTH_BAD_DATA}};
    assert_int_equal(dir_make(scratch("made"), NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stage stage;
        struct manifest_settings settings = {0};
        struct berth_error error;
        json *manifest;
        char text[512];
        snprintf(
            text, sizeof text,
            "{\"format_version\": 1, \"complete\": true, \"settings\": {}, \"files\": {\"x\": %s}}",
            cases[i].facts);
        scratch_write("made/manifest.json", text);
        const char *path = scratch("made/manifest.json");
        const struct stage_location location = {scratch("made/files"), path, comm_self()};
        assert_int_equal(stage_open(&stage, &location, &settings, &error), cases[i].status);
        stage_close(&stage);
        assert_int_equal(manifest_read_complete(path, "make it", &manifest, &error),
                         cases[i].status);
        if (cases[i].status == BERTH_OK) {
            json_free(manifest);
        } else {
            assert_message_has(&error, "file \"x\": expected counts from 0 to 2^40");
        }
    }
}

static void assert_refused(struct pipeline pipeline, const char *setting) {
    struct berth_error error;
    assert_int_equal(pipeline_run(&pipeline, &error), BERTH_CONFIG);
    assert_message_has(&error, setting);
    assert_message_has(&error, "choose another output");
}

static void test_other_settings(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("whole");
    pipeline.shards = 2;
    assert_refused(pipeline, "made with shards \"3\", but it is \"2\"");
    pipeline = pipeline_default("whole");
    pipeline.seed = 8;
    assert_refused(pipeline, "shards.json: the files were made with seed \"7\", but it is \"8\"");
    pipeline = pipeline_default("whole");
    pipeline.dupe_factor = 3;
    assert_refused(pipeline, "dupe_factor \"2\", but it is \"3\"");
    pipeline = pipeline_default("whole");
    pipeline.predictions = 4;
    assert_refused(pipeline, "max_predictions_per_seq");
    pipeline = pipeline_default("whole");
    pipeline.python = 1;
    assert_refused(pipeline, "rng \"fast-2\", but it is \"python\"");
    pipeline = pipeline_default("whole");
    pipeline.whole_word = 1;
    assert_refused(pipeline, "whole_word_mask");
    pipeline = pipeline_default("whole");
    pipeline.tfrecord = 1;
    assert_refused(pipeline, "format \"hdf5\"");
    pipeline = pipeline_default("seeds");
    pipeline.seed = UINT64_C(1) << 60; // distinguished from its neighbour in the last digit
    assert_int_equal(make_shards(&pipeline, NULL), BERTH_OK);
    pipeline.seed++;
    assert_refused(pipeline, "seed \"1152921504606846976\", but it is \"1152921504606846977\"");
    write_articles(ARTICLES + 1);
    assert_refused(pipeline_default("whole"),
                   "shards.json: the files were made with articles_sha256 \"");
    write_articles(ARTICLES);
    assert_tree("whole", &wanted); // nothing was touched
    buffer_done(&wanted);
}

// A setting that is written only where it differs from its default: a run with it and one without
// have different settings.
static void test_setting_of_one_run(void **state) {
    (void)state;
    static const struct {
        int before, now;
        const char *message; // NULL: the same settings
    } cases[] = {{0, 0, NULL},
                 {1, 1, NULL},
                 {1, 0, "made with strip \"false\", but it is \"default\" now"},
                 {0, 1, "made with strip \"default\", but it is \"false\" now"}};
    const struct stage_location location = {scratch("made/files"), scratch("made/manifest.json"),
                                            comm_self()};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct manifest_settings settings[2] = {{.count = 0}};
        struct stage stage;
        struct berth_error error;
        for (int run = 0; run < 2; run++) {
            manifest_set_text(&settings[run], "vocabulary", "digest");
            if (run == 0 ? cases[i].before : cases[i].now) {
                manifest_set_text(&settings[run], "strip", "false");
            }
        }
        assert_int_equal(dir_make(scratch("made"), NULL), BERTH_OK);
        assert_int_equal(stage_open(&stage, &location, &settings[0], NULL), BERTH_OK);
        assert_int_equal(stage_finish(&stage, NULL), BERTH_OK);
        stage_close(&stage);
        const enum berth_status status = stage_open(&stage, &location, &settings[1], &error);
        assert_int_equal(status, cases[i].message == NULL ? BERTH_OK : BERTH_CONFIG);
        if (cases[i].message != NULL) {
            assert_message_has(&error, cases[i].message);
            assert_message_has(&error, "made/files and "); // the manifest is beside the folder
            assert_non_null(strstr(strstr(error.message, "/files and "), "/made/manifest.json"));
        }
        stage_close(&stage);
        assert_int_equal(dir_remove(scratch("made"), NULL), BERTH_OK);
    }
}

// Each setting changes the files, and with Python's numbers they are also the same for all numbers
// of threads.
static void test_variants(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    for (int i = 0; i < 3; i++) {
        struct buffer one = {0};
        struct pipeline pipeline = pipeline_default("one");
        pipeline.python = i == 0;
        pipeline.whole_word = i == 1;
        pipeline.tfrecord = i == 2;
        pipeline_run_ok(&pipeline);
        read_tree(scratch("one"), &one);
        assert_true(one.length != wanted.length ||
                    memcmp(one.bytes, wanted.bytes, one.length) != 0);
        pipeline.folder = "other";
        pipeline.threads = 3;
        pipeline_run_ok(&pipeline);
        assert_tree("other", &one);
        remove_other();
        assert_int_equal(dir_remove(scratch("one"), NULL), BERTH_OK);
        buffer_done(&one);
    }
    buffer_done(&wanted);
}

static void test_files_of_another_program(void **state) {
    (void)state;
    struct buffer wanted = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    struct berth_error error;
    pipeline_run_ok(&pipeline);
    assert_int_equal(file_remove(scratch("other/instances/" INSTANCE_MANIFEST), NULL), BERTH_OK);
    assert_int_equal(pipeline_run(&pipeline, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "no instances.json that says how they were made");
    assert_int_equal(file_remove(scratch("other/text/" SHARD_MANIFEST), NULL), BERTH_OK);
    assert_int_equal(pipeline_run(&pipeline, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "no shards.json that says how they were made");
    scratch_write("other/text/" SHARD_MANIFEST, "{\"format\": 1}"); // of 0.1.0
    assert_int_equal(pipeline_run(&pipeline, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "shards.json: not a manifest of format_version 1: expected key "
                               "\"format_version\" to be 1; choose another");
    remove_other();
    struct file_lock lock; // like another process's, for the kernel
    assert_int_equal(dir_make(scratch("other/text"), NULL), BERTH_OK);
    assert_int_equal(file_lock_acquire(&lock, scratch("other/text"), NULL), BERTH_OK);
    assert_int_equal(pipeline_run(&pipeline, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "pid ");
    file_lock_release(&lock);
    pipeline_run_ok(&pipeline);
    assert_tree("other", &wanted);
    buffer_done(&wanted);
}

// Half-written files of a killed run are removed; other files with a similar ending stay, also when
// the folder's name has a trailing slash.
static void test_tidies_up(void **state) {
    (void)state;
    static const char *const left[] = {"other/text/few_training_0.txt.12.0.tmp",
                                       "other/packs/few_pack.json.12.1.tmp"};
    static const char *const mine[] = {"other/packs/notes.tmp", "other/packs/few/few.12.tmp",
                                       "other/packs/other.json.12.1.tmp"};
    struct pipeline pipeline = pipeline_default("other");
    write_articles(ARTICLES);
    assert_int_equal(dir_make(scratch("other/text"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("other/packs/few"), NULL), BERTH_OK);
    scratch_write(left[0], "half");
    scratch_write(left[1], "half");
    assert_int_equal(make_shards(&pipeline, NULL), BERTH_OK);
    pipeline_run_ok(&pipeline);
    scratch_write(left[1], "half");
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) {
        scratch_write(mine[i], "mine");
    }
    pipeline_run_ok(&pipeline);
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) {
        assert_true(file_exists(scratch(mine[i])));
    }
    assert_false(file_exists(scratch(left[0])) || file_exists(scratch(left[1])));
}

static void test_few_articles(void **state) {
    (void)state;
    char folder[512], articles[512];
    const char *const paths[] = {articles};
    const struct berth_log silent = {NULL, NULL};
    struct berth_error error;
    snprintf(folder, sizeof folder, "%s", scratch("few"));
    snprintf(articles, sizeof articles, "%s", scratch("articles.txt"));
    struct shard_stage stage = {.sources = {{CORPUS_TEXT, paths, 1}},
                                .source_count = 1,
                                .folder = folder,
                                .name = "few",
                                .plan = {256, 256, 0.1, 7},
                                .threads = 2,
                                .comm = comm_self()};
    write_articles(25);
    assert_int_equal(shard_stage_run(&stage, &silent, NULL, NULL), BERTH_OK);
    assert_int_equal(stage.articles, 25);
    assert_true(stage.training >= 10 && stage.training <= 12);
    assert_true(stage.test >= 1 && stage.test <= 2);
    stage.folder = scratch("none");
    scratch_write("articles.txt", "\n \n");
    assert_int_equal(shard_stage_run(&stage, &silent, NULL, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "no articles found");
}

static void test_instances_need_shards(void **state) {
    (void)state;
    struct pipeline pipeline = pipeline_default("other");
    struct tokenizer *tokenizer, *poor;
    struct berth_error error;
    const struct tokenizer_options options = {.lower_case = 1};
    const atomic_int stop = 1;
    assert_int_equal(tokenizer_open_memory("vocabulary", pipeline_vocabulary,
                                           strlen(pipeline_vocabulary), &options, &tokenizer, NULL),
                     BERTH_OK);
    assert_int_equal(
        tokenizer_open_memory("poor", "[UNK]\n[CLS]\n[SEP]\n", 18, &options, &poor, NULL),
        BERTH_OK);
    assert_int_equal(make_instances(&pipeline, tokenizer, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "run the stage \"shards\" first");
    write_articles(ARTICLES);
    pipeline.stop = &stop;
    assert_int_equal(make_shards(&pipeline, NULL), BERTH_INTERRUPTED);
    assert_false(dir_exists(scratch("other"))); // no file was finished, so nothing is left
    assert_int_equal(dir_make(scratch("other/text"), NULL), BERTH_OK);
    scratch_write("other/text/shards.json",
                  "{\"format_version\": 1, \"complete\": false, \"files\": {}}");
    assert_int_equal(make_instances(&pipeline, tokenizer, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "not complete");
    assert_int_equal(make_instances(&pipeline, poor, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "has no [MASK]");
    assert_int_equal(make_packs(&pipeline, &error), BERTH_NO_INPUT);
    tokenizer_close(tokenizer);
    tokenizer_close(poor);
}

// --- packs --------------------------------------------------------------------------------------

// Sums over the sequences that do not depend on their order.
static void sum_sequences(const struct instances *from, uint64_t sums[3]) {
    for (size_t i = 0; i < from->count; i++) {
        uint64_t hash = from->items[i].is_random;
        for (size_t j = 0; j < from->items[i].length; j++) {
            hash = hash * 1000003 + (uint64_t)from->tokens[from->items[i].tokens + j];
        }
        sums[0] += hash;
        sums[1] += from->items[i].length;
        sums[2] += from->items[i].prediction_count;
    }
}

static void sum_folder(const char *folder, const char *part, uint64_t sums[3]) {
    char **names;
    assert_int_equal(dir_list(folder, &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        char path[600];
        struct instances read = {0};
        if (strstr(names[i], part) == NULL) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(pretraining_read_hdf5(path, 22, 32, &read, NULL), BERTH_OK);
        sum_sequences(&read, sums);
        instances_done(&read);
    }
    memory_free(names);
}

// No sequence is lost or duplicated; test sequences are left out.
static void test_packs_hold_all(void **state) {
    (void)state;
    struct buffer whole = make_whole();
    uint64_t plain[3] = {0}, packed[3] = {0};
    sum_folder(scratch("whole/instances"), "training", plain);
    sum_folder(scratch("whole/packs/few"), "mixed_strategies", packed);
    assert_true(plain[1] > 0);
    assert_memory_equal(plain, packed, sizeof plain);
    assert_true(file_exists(scratch("whole/packs/few_metadata.json")));
    buffer_done(&whole);
}

static void test_bad_packs(void **state) {
    (void)state;
    struct buffer whole = make_whole();
    struct pipeline pipeline = pipeline_default("other");
    struct berth_error error;
    const struct berth_log silent = {NULL, NULL};
    char input[512], folder[512];
    pipeline_path(folder, &pipeline, "packs");
    struct pack_stage stage = {.input = input, .folder = folder, .threads = 1, .comm = comm_self()};
    snprintf(input, sizeof input, "%s", scratch("whole/text"));
    assert_int_equal(pack_stage_run(&stage, &silent, NULL, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "\"training\" in their name");
    snprintf(input, sizeof input, "%s", scratch("absent"));
    assert_int_equal(pack_stage_run(&stage, &silent, NULL, &error), BERTH_NO_INPUT);
    // Packed files, files of another shape, and a damaged one among the others.
    snprintf(input, sizeof input, "%s", scratch("whole/instances"));
    char *bytes;
    size_t length;
    assert_int_equal(file_read(scratch("whole/packs/few/mixed_strategies_part_0.hdf5"), 1 << 24,
                               &bytes, &length, NULL),
                     BERTH_OK);
    scratch_write_bytes("whole/instances/few_training_7.hdf5", bytes, length);
    assert_int_equal(pack_stage_run(&stage, &silent, NULL, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "few_training_7.hdf5: packed rows");
    scratch_write_bytes("whole/instances/few_training_7.hdf5", bytes, length / 2);
    assert_int_equal(pack_stage_run(&stage, &silent, NULL, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "few_training_7.hdf5");
    memory_free(bytes);
    packing_done(&stage.packing);
    buffer_done(&whole);
}

// A file without rows, as h5py writes it: one of Berth's with another number of rows in its shapes.
static void write_empty(const char *name) {
    enum { ROWS = 61 };
    static const uint64_t rows = ROWS, none = 0;
    struct instance items[ROWS];
    int32_t tokens[] = {2, 6, 3, 7, 3}, label = 6;
    uint16_t position = 1;
    for (int i = 0; i < ROWS; i++) {
        items[i] = (struct instance){.length = 5, .second = 3, .prediction_count = 1};
    }
    const struct instances made = {
        .items = items, .count = ROWS, .tokens = tokens, .positions = &position, .labels = &label};
    char *bytes;
    size_t length;
    assert_int_equal(pretraining_write_hdf5(scratch(name), &made, 32, 5, NULL), BERTH_OK);
    assert_int_equal(file_read(scratch(name), 1 << 24, &bytes, &length, NULL), BERTH_OK);
    for (size_t i = 0; i + sizeof rows <= length; i++) {
        if (memcmp(bytes + i, &rows, sizeof rows) == 0) {
            memcpy(bytes + i, &none, sizeof none);
        }
    }
    scratch_write_bytes(name, bytes, length);
    memory_free(bytes);
}

// Files without rows are skipped, also in a separate window; only such files are no input.
static void test_empty_files(void **state) {
    (void)state;
    struct buffer whole = make_whole();
    struct berth_error error;
    const struct berth_log silent = {NULL, NULL};
    char input[512], folder[512];
    snprintf(input, sizeof input, "%s", scratch("whole/instances"));
    snprintf(folder, sizeof folder, "%s", scratch("packs"));
    struct pack_stage stage = {
        .input = input, .folder = folder, .window = 1, .threads = 1, .comm = comm_self()};
    assert_int_equal(pack_stage_run(&stage, &silent, NULL, NULL), BERTH_OK);
    uint64_t sequences = stage.packing.sequences;
    packing_done(&stage.packing);
    assert_int_equal(dir_remove(folder, NULL), BERTH_OK);
    assert_int_equal(file_remove(scratch("packs_pack.json"), NULL), BERTH_OK);
    write_empty("whole/instances/few_training_8.hdf5");
    write_empty("whole/instances/few_training_9.hdf5");
    assert_int_equal(pack_stage_run(&stage, &silent, NULL, NULL), BERTH_OK);
    assert_int_equal(stage.packing.sequences, sequences);
    packing_done(&stage.packing);
    for (int i = 0; i < SHARDS; i++) {
        char name[64];
        snprintf(name, sizeof name, "whole/instances/few_training_%d.hdf5", i);
        assert_int_equal(file_remove(scratch(name), NULL), BERTH_OK);
    }
    assert_int_equal(pack_stage_run(&stage, &silent, NULL, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "its 2 files contain no sequences");
    packing_done(&stage.packing);
    buffer_done(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {STAGES_TEST(test_threads),
                                       STAGES_TEST(test_what_is_done_is_kept),
                                       STAGES_TEST(test_read_errors_keep_what_is_done),
                                       STAGES_TEST(test_input_with_gaps),
                                       STAGES_TEST(test_changed_shards_of_another_program),
                                       STAGES_TEST(test_full_disk),
                                       STAGES_TEST(test_killed),
                                       STAGES_TEST(test_without_memory),
                                       STAGES_TEST(test_stopped),
                                       STAGES_TEST(test_other_settings),
                                       STAGES_TEST(test_setting_of_one_run),
                                       STAGES_TEST(test_variants),
                                       STAGES_TEST(test_files_of_another_program),
                                       STAGES_TEST(test_tidies_up),
                                       STAGES_TEST(test_few_articles),
                                       STAGES_TEST(test_instances_need_shards),
                                       STAGES_TEST(test_packs_hold_all),
                                       STAGES_TEST(test_bad_packs),
                                       STAGES_TEST(test_empty_files),
                                       STAGES_TEST(test_lost_lock),
                                       STAGES_TEST(test_few_descriptors),
                                       STAGES_TEST(test_names_of_corpora),
                                       STAGES_TEST(test_manifest_of_many_files),
                                       STAGES_TEST(test_absurd_counts),
                                       STAGES_TEST(test_report_that_begins_a_job)};
    return cmocka_run_group_tests_name("stages", tests, NULL, NULL);
}
