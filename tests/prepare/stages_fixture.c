// SPDX-License-Identifier: Apache-2.0
#include "stages_fixture.h"

#include "data/stages/instance_stage.h"
#include "data/stages/pack_stage.h"
#include "data/stages/shard_stage.h"
#include "interrupted.h"

#include <pthread.h>

enum { TESTS = 2 }; // test files

const char wish_vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\none\ntwo\nthree\nfour\n"
                               "five\n##s\nbern\nzurich\nriver\nbridge\n0\n1\n2\n3\n4\n5\n";

static struct comm *comm_of(const struct wish *wish) {
    return wish->comm != NULL ? wish->comm : comm_self();
}

static int reports(const struct wish *wish) {
    return comm_of(wish)->rank == 0;
}

struct wish wish_usual(const char *folder) {
    return (struct wish){.folder = folder,
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

void wish_path(char path[512], const struct wish *wish, const char *name) {
    char part[256];
    snprintf(part, sizeof part, "%s/%s", wish->folder, name);
    copy_scratch(path, part);
}

enum berth_status make_shards(const struct wish *wish, struct berth_error *error) {
    char folder[512], articles[512];
    const char *const paths[] = {articles};
    const struct berth_log silent = {NULL, NULL};
    wish_path(folder, wish, "text");
    copy_scratch(articles, "articles.txt");
    struct shard_stage stage = {.sources = {{CORPUS_TEXT, paths, 1}},
                                .source_count = 1,
                                .folder = folder,
                                .name = "few",
                                .plan = {(uint32_t)wish->shards, TESTS, 0.3, wish->seed},
                                .threads = wish->threads,
                                .comm = comm_of(wish)};
    TRY(shard_stage_run(&stage, &silent, wish->stop, error));
    if (reports(wish)) {
        assert_int_equal(stage.articles, wish->articles);
        assert_int_equal(stage.training, wish->shards);
    }
    return BERTH_OK;
}

enum berth_status make_instances(const struct wish *wish, const struct tokenizer *tokenizer,
                                 struct berth_error *error) {
    char shards[512], folder[512];
    const struct berth_log silent = {NULL, NULL};
    static _Thread_local struct pretraining_statistics statistics;
    wish_path(shards, wish, "text");
    wish_path(folder, wish, "instances");
    struct instance_stage stage = {.shards = shards,
                                   .folder = folder,
                                   .tokenizer = tokenizer,
                                   .options = {.max_seq_length = 32,
                                               .max_predictions = wish->predictions,
                                               .dupe_factor = wish->dupe_factor,
                                               .masked_lm_prob = 0.15,
                                               .short_seq_prob = 0.1,
                                               .seed = wish->seed,
                                               .python = wish->python,
                                               .whole_word = wish->whole_word},
                                   .tfrecord = wish->tfrecord,
                                   .threads = wish->threads,
                                   .comm = comm_of(wish),
                                   .statistics = &statistics};
    TRY(instance_stage_run(&stage, &silent, wish->stop, error));
    if (reports(wish)) {
        assert_int_equal(stage.files, wish->shards + TESTS);
        assert_true(statistics.instances > 50);
        assert_int_equal(statistics.masked + statistics.kept + statistics.replaced,
                         statistics.predictions);
    }
    return BERTH_OK;
}

enum berth_status make_packs(const struct wish *wish, struct berth_error *error) {
    char instances[512], folder[512];
    const struct berth_log silent = {NULL, NULL};
    wish_path(instances, wish, "instances");
    wish_path(folder, wish, "packs/few/");
    struct pack_stage stage = {.input = instances,
                               .folder = folder,
                               .seed = wish->seed,
                               .window = 2000,
                               .threads = wish->threads,
                               .comm = comm_of(wish)};
    enum berth_status status = pack_stage_run(&stage, &silent, wish->stop, error);
    if (status == BERTH_OK && reports(wish)) {
        assert_true(stage.files > 1); // windows
        assert_true(packing_speed_up(&stage.packing) > 1);
        assert_true(packing_efficiency(&stage.packing) <= 1);
    }
    packing_done(&stage.packing);
    return status;
}

enum berth_status wish_run(const struct wish *wish, struct berth_error *error) {
    struct tokenizer *tokenizer = NULL;
    const struct tokenizer_options options = {.lower_case = 1};
    TRY(tokenizer_open_memory("vocabulary", wish_vocabulary, strlen(wish_vocabulary), &options,
                              &tokenizer, error));
    enum berth_status status = make_shards(wish, error);
    if (status == BERTH_OK) {
        status = make_instances(wish, tokenizer, error);
    }
    if (status == BERTH_OK && !wish->tfrecord) {
        status = make_packs(wish, error);
    }
    tokenizer_close(tokenizer);
    return status;
}

void wish_run_good(const struct wish *wish) {
    struct berth_error error = {.message = ""};
    if (wish_run(wish, &error) != BERTH_OK) {
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
    struct wish wish = wish_usual("whole");
    struct buffer all = {0};
    write_articles(ARTICLES);
    wish_run_good(&wish);
    read_tree(scratch("whole"), &all);
    return all;
}

void remove_other(void) {
    assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
}
