// SPDX-License-Identifier: Apache-2.0
// Shard files have one sentence per line and each article in its shard, whether they are made
// together or one by one; a failure is reported and leaves no temporary file.
#include "core/scratch.h"
#include "data/corpus/text_shards.h"

#include <errno.h>

static void put(struct shard_writer *writer, const char *text) {
    assert_int_equal(shard_writer_put(writer, text, strlen(text), NULL), BERTH_OK);
}

static void test_files(void **state) {
    (void)state;
    uint16_t shards[] = {1, 0, SHARD_UNASSIGNED, 1};
    const struct shard_assignment assignment = {shards, 4};
    const struct shard_plan plan = {2, 0, 0, 7};
    const struct shard_target all = {scratch("to"), "wiki", 0, 2};
    struct shard_writer writer;
    struct berth_error error;
    assert_int_equal(shard_writer_open(&writer, &plan, &assignment, &all, NULL), BERTH_OK);
    put(&writer, "One. Two.\nThree");
    put(&writer, "Four! Five?");
    put(&writer, "");
    put(&writer, "Six.");
    assert_int_equal(writer.articles, 4);
    assert_int_equal(writer.counts[0].sentences, 2);
    assert_int_equal(writer.counts[1].sentences, 4);
    assert_int_equal(writer.counts[0].articles, 1);
    assert_int_equal(writer.counts[1].articles, 2);
    assert_int_equal(writer.counts[0].bytes + writer.counts[1].bytes, 36);
    assert_int_equal(shard_writer_put(&writer, "More.", 5, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "more than the 4 articles counted");
    assert_int_equal(shard_writer_commit(&writer, NULL), BERTH_OK);
    shard_writer_done(&writer);
    assert_file_holds(scratch("to/wiki_training_0.txt"), "Four!\nFive?\n\n");
    assert_file_holds(scratch("to/wiki_training_1.txt"), "One.\nTwo.\nThree\n\nSix.\n\n");
}

// No shard is made of only some of the articles.
static void test_fewer_articles(void **state) {
    (void)state;
    const struct shard_plan plan = {1, 0, 0, 7};
    uint16_t shards[] = {0, 0};
    const struct shard_assignment assignment = {shards, 2};
    const struct shard_target all = {scratch("to"), "wiki", 0, 1};
    struct shard_writer writer;
    struct berth_error error;
    assert_int_equal(shard_writer_open(&writer, &plan, &assignment, &all, NULL), BERTH_OK);
    put(&writer, "One.");
    assert_int_equal(shard_writer_commit(&writer, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "fewer than the 2 articles counted before");
    shard_writer_done(&writer);
    assert_true(dir_is_empty(scratch("to")));
}

// Shards made one by one equal those made together.
static void test_some_shards(void **state) {
    (void)state;
    const struct shard_plan plan = {3, 2, 0.4, 7};
    uint16_t shards[40];
    for (int i = 0; i < 40; i++) {
        shards[i] = (uint16_t)(i * 7 % 5);
    }
    const struct shard_assignment assignment = {shards, 40};
    struct shard_target target = {scratch("to"), "wiki", 0, 5};
    for (size_t step = 0; step < 6; step++) {
        struct shard_writer writer;
        target.folder = scratch(step == 0 ? "to" : "one");
        target.first = step > 0 ? step - 1 : 0;
        target.count = step > 0 ? 1 : 5;
        assert_int_equal(shard_writer_open(&writer, &plan, &assignment, &target, NULL), BERTH_OK);
        for (int i = 0; i < 40; i++) {
            char text[32];
            snprintf(text, sizeof text, "Number %d. End.", i);
            put(&writer, text);
        }
        assert_int_equal(writer.articles, 40);
        assert_int_equal(shard_writer_commit(&writer, NULL), BERTH_OK);
        shard_writer_done(&writer);
    }
    for (size_t i = 0; i < 5; i++) {
        const struct path name = shard_file_name(&plan, i, "wiki");
        char *bytes;
        size_t length;
        assert_int_equal(
            file_read(scratch(path_in("to", name.text).text), 1 << 20, &bytes, &length, NULL),
            BERTH_OK);
        assert_true(length > 100);
        assert_file_holds(scratch(path_in("one", name.text).text), bytes);
        memory_free(bytes);
    }
}

// Every system call and every allocation fails in turn.
static void test_failures(void **state) {
    (void)state;
    const struct shard_plan plan = {3, 2, 0.5, 7};
    uint16_t shards[] = {3};
    const struct shard_assignment assignment = {shards, 1};
    for (int memory = 0; memory < 2; memory++) {
        enum berth_status status = BERTH_IO;
        uint64_t at;
        for (at = 1; status != BERTH_OK; at++) {
            struct shard_writer writer = {0};
            memory_fail_at(memory ? at : 0, 0);
            file_fail_at(memory ? 0 : at, ENOSPC);
            const struct shard_target all = {scratch("to"), "wiki", 0, 5};
            status = shard_writer_open(&writer, &plan, &assignment, &all, NULL);
            if (status == BERTH_OK) {
                status = shard_writer_put(&writer, "One. Two.", 9, NULL);
            }
            if (status == BERTH_OK) {
                status = shard_writer_commit(&writer, NULL);
            }
            memory_fail_at(0, 0);
            file_fail_at(0, 0);
            shard_writer_done(&writer);
            assert_no_temporary(scratch("to"));
            if (status == BERTH_OK) {
                assert_file_holds(scratch("to/wiki_test_0.txt"), "One.\nTwo.\n\n");
            }
            assert_int_equal(dir_remove(scratch("to"), NULL), BERTH_OK);
        }
        assert_true(at > 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_files),
        SCRATCH_TEST(test_fewer_articles),
        SCRATCH_TEST(test_some_shards),
        SCRATCH_TEST(test_failures),
    };
    return cmocka_run_group_tests_name("text_shards", tests, NULL, NULL);
}
