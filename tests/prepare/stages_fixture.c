// SPDX-License-Identifier: Apache-2.0
#include "stages_fixture.h"

#include "data/stages/instance_stage.h"
#include "data/stages/pack_stage.h"
#include "data/stages/shard_stage.h"
#include "interrupted.h"

#include <pthread.h>

enum { TESTS = 2 }; // test files

const char pipeline_vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\none\ntwo\nthree\nfour\n"
                                   "five\n##s\nbern\nzurich\nriver\nbridge\n0\n1\n2\n3\n4\n5\n";

static struct comm *comm_of(const struct pipeline *pipeline) {
    return pipeline->comm != NULL ? pipeline->comm : comm_self();
}

static int reports(const struct pipeline *pipeline) {
    return comm_of(pipeline)->rank == 0;
}

struct pipeline pipeline_default(const char *folder) {
    return (struct pipeline){.input = "articles.txt",
                             .folder = folder,
                             .threads = 1,
                             .shards = SHARDS,
                             .articles = ARTICLES,
                             .dupe_factor = 2,
                             .predictions = 5,
                             .seed = 7};
}

void write_articles(int count) {
    static const char *const words[] = {"one", "twos", "three", "rivers", "bern", "bridge", "five"};
    struct buffer text = {0};
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < 3 + i % 4; j++) {
            for (int k = 0; k < 3 + (i * j) % 5; k++) {
                buffer_put_text(&text, words[(i + 3 * j + 5 * k) % 7]);
                buffer_put_text(&text, " ");
            }
            buffer_put_text(&text, "1. One. Two three.\n");
        }
        buffer_put_text(&text, "\n");
    }
    scratch_write_bytes("articles.txt", text.bytes, text.length);
    buffer_done(&text);
}

void stages_in(const char *folder) {
    snprintf(scratch_folder, sizeof scratch_folder, "%s", folder);
}

// scratch, for any thread.
static void copy_scratch(char path[512], const char *name) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    snprintf(path, 512, "%s", scratch(name));
    pthread_mutex_unlock(&lock);
}

void pipeline_path(char path[512], const struct pipeline *pipeline, const char *name) {
    char part[256];
    snprintf(part, sizeof part, "%s/%s", pipeline->folder, name);
    copy_scratch(path, part);
}

enum berth_status make_shards(const struct pipeline *pipeline, struct berth_error *error) {
    char folder[512], articles[512];
    const char *const paths[] = {articles};
    const struct berth_log silent = {NULL, NULL};
    pipeline_path(folder, pipeline, "text");
    copy_scratch(articles, pipeline->input);
    struct shard_stage stage = {.sources = {{CORPUS_TEXT, paths, 1}},
                                .source_count = 1,
                                .folder = folder,
                                .name = "few",
                                .plan = {(uint32_t)pipeline->shards, TESTS, 0.3, pipeline->seed},
                                .threads = pipeline->threads,
                                .comm = comm_of(pipeline)};
    TRY(shard_stage_run(&stage, &silent, pipeline->stop, error));
    if (reports(pipeline)) {
        assert_int_equal(stage.articles, pipeline->articles);
        assert_int_equal(stage.training, pipeline->shards);
    }
    return BERTH_OK;
}

enum berth_status make_instances(const struct pipeline *pipeline, const struct tokenizer *tokenizer,
                                 struct berth_error *error) {
    char shards[512], folder[512];
    const struct berth_log silent = {NULL, NULL};
    static _Thread_local struct pretraining_statistics statistics;
    pipeline_path(shards, pipeline, "text");
    pipeline_path(folder, pipeline, "instances");
    struct instance_stage stage = {.shards = shards,
                                   .folder = folder,
                                   .tokenizer = tokenizer,
                                   .options = {.max_length = 32,
                                               .max_predictions = pipeline->predictions,
                                               .dupe_factor = pipeline->dupe_factor,
                                               .masked_lm_prob = 0.15,
                                               .short_seq_prob = 0.1,
                                               .seed = pipeline->seed,
                                               .python = pipeline->python,
                                               .whole_word = pipeline->whole_word},
                                   .tfrecord = pipeline->tfrecord,
                                   .threads = pipeline->threads,
                                   .comm = comm_of(pipeline),
                                   .statistics = &statistics};
    TRY(instance_stage_run(&stage, &silent, pipeline->stop, error));
    if (reports(pipeline)) {
        assert_int_equal(stage.files, pipeline->shards + TESTS);
        assert_true(statistics.instances > 50);
        assert_int_equal(statistics.masked + statistics.kept + statistics.replaced,
                         statistics.predictions);
    }
    return BERTH_OK;
}

enum berth_status make_packs(const struct pipeline *pipeline, struct berth_error *error) {
    char instances[512], folder[512];
    const struct berth_log silent = {NULL, NULL};
    pipeline_path(instances, pipeline, "instances");
    pipeline_path(folder, pipeline, "packs/few/");
    struct pack_stage stage = {.input = instances,
                               .folder = folder,
                               .seed = pipeline->seed,
                               .window = 2000,
                               .threads = pipeline->threads,
                               .comm = comm_of(pipeline)};
    enum berth_status status = pack_stage_run(&stage, &silent, pipeline->stop, error);
    if (status == BERTH_OK && reports(pipeline)) {
        assert_true(stage.files > 1); // windows
        assert_true(packing_speed_up(&stage.packing) > 1);
        assert_true(packing_efficiency(&stage.packing) <= 1);
    }
    packing_done(&stage.packing);
    return status;
}

enum berth_status pipeline_run(const struct pipeline *pipeline, struct berth_error *error) {
    struct tokenizer *tokenizer = NULL;
    const struct tokenizer_options options = {.lower_case = 1};
    TRY(tokenizer_open_memory("vocabulary", pipeline_vocabulary, strlen(pipeline_vocabulary),
                              &options, &tokenizer, error));
    enum berth_status status = make_shards(pipeline, error);
    if (status == BERTH_OK) {
        status = make_instances(pipeline, tokenizer, error);
    }
    if (status == BERTH_OK && !pipeline->tfrecord) {
        status = make_packs(pipeline, error);
    }
    tokenizer_close(tokenizer);
    return status;
}

void pipeline_run_ok(const struct pipeline *pipeline) {
    struct berth_error error = {.message = ""};
    if (pipeline_run(pipeline, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

// --- whole folders ------------------------------------------------------------------------------

void read_tree(const char *folder, struct buffer *all) {
    char **names;
    assert_int_equal(dir_list(folder, &names, NULL), BERTH_OK);
    for (size_t i = 0; names[i] != NULL; i++) {
        char path[600], *bytes;
        size_t length;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        buffer_put(all, names[i], strlen(names[i]) + 1);
        if (dir_exists(path)) {
            read_tree(path, all);
        } else if (names[i][0] != '.') {
            assert_int_equal(file_read(path, 1 << 24, &bytes, &length, NULL), BERTH_OK);
            buffer_put(all, bytes, length);
            memory_free(bytes);
        }
    }
    memory_free(names);
}

void assert_tree(const char *folder, const struct buffer *wanted) {
    struct buffer got = {0};
    read_tree(scratch(folder), &got);
    assert_same_bytes(&got, wanted);
}

struct buffer make_whole(void) {
    struct pipeline pipeline = pipeline_default("whole");
    struct buffer all = {0};
    write_articles(ARTICLES);
    pipeline_run_ok(&pipeline);
    read_tree(scratch("whole"), &all);
    return all;
}

void remove_other(void) {
    assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
}
