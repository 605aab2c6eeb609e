// SPDX-License-Identifier: Apache-2.0
// Shards: every article has one place that never depends on the others, shards are filled evenly,
// the test share is kept, files hold a sentence a line, and a failure leaves none behind.
#include "core/scratch.h"
#include "data/text_shards.h"

#include <errno.h>
#include <math.h>

static void count_places(const struct shard_plan *plan, uint64_t articles, uint64_t *counts) {
    memset(counts, 0, 1024 * sizeof *counts);
    for (uint64_t i = 0; i < articles; i++) {
        struct shard_place place = shard_place_of(plan, i);
        assert_true(place.shard < (place.is_test ? plan->test : plan->training));
        counts[place.shard + (place.is_test ? 512 : 0)]++;
    }
}

static void check_even(const uint64_t *counts, uint32_t shards, uint64_t least) {
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t i = 0; i < shards; i++) {
        low = counts[i] < low ? counts[i] : low;
        high = counts[i] > high ? counts[i] : high;
    }
    assert_true(high - low <= 1);
    assert_true(low >= least);
}

static void test_even_shards(void **state) {
    (void)state;
    static const uint64_t articles[] = {1, 2, 17, 300, 5000, 20011};
    static const uint32_t shards[] = {1, 2, 12, 255, 256};
    uint64_t counts[1024];
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 5; j++) {
            struct shard_plan plan = {shards[j], shards[j], 0.1, 12345};
            int changed;
            assert_int_equal(shard_plan_fit(&plan, articles[i], &changed, NULL), BERTH_OK);
            assert_int_equal(changed, plan.training != shards[j] || plan.test != shards[j]);
            count_places(&plan, articles[i], counts);
            check_even(counts, plan.training, articles[i] > 2 ? 2 : 1);
            check_even(counts + 512, plan.test, plan.test > 0);
            uint64_t tests = 0;
            for (uint32_t k = 0; k < plan.test; k++) {
                tests += counts[512 + k];
            }
            assert_true(plan.test == 0 ||
                        (tests + 1 >= articles[i] / 10 && tests <= articles[i] / 10 + 1));
        }
    }
}

static void test_seeds(void **state) {
    (void)state;
    struct shard_plan plan = {64, 64, 0.1, 1}, other = {64, 64, 0.1, 2};
    int differ = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        differ += shard_place_of(&plan, i).shard != shard_place_of(&other, i).shard;
    }
    assert_true(differ > 900);
}

static void test_refused_plans(void **state) {
    (void)state;
    const struct shard_plan plans[] = {{0, 1, 0.1, 0},
                                       {SHARDS_LIMIT + 1, 1, 0.1, 0},
                                       {1, SHARDS_LIMIT + 1, 0.1, 0},
                                       {1, 1, 1.0, 0},
                                       {1, 1, -0.1, 0},
                                       {1, 1, NAN, 0},
                                       {1, 1, 0.1, 0}};
    for (size_t i = 0; i < 7; i++) {
        struct shard_plan plan = plans[i];
        struct berth_error error;
        int changed;
        assert_int_equal(shard_plan_fit(&plan, i < 6, &changed, &error), BERTH_CONFIG);
        assert_message_has(&error, "an article at least");
    }
}

static void put(struct shard_writer *writer, const char *text) {
    assert_int_equal(shard_writer_put(writer, text, strlen(text), NULL), BERTH_OK);
}

static void test_files(void **state) {
    (void)state;
    const struct shard_plan plan = {2, 0, 0, 7};
    const struct shard_target all = {scratch("to"), "wiki", 0, 2};
    struct shard_writer writer;
    assert_int_equal(shard_writer_open(&writer, &plan, &all, NULL), BERTH_OK);
    put(&writer, "One. Two.\nThree");
    put(&writer, "Four! Five?");
    put(&writer, "");
    put(&writer, "Six.");
    assert_int_equal(writer.articles, 4);
    assert_int_equal(writer.counts[0].sentences + writer.counts[1].sentences, 6);
    assert_int_equal(writer.counts[0].articles + writer.counts[1].articles, 4);
    assert_int_equal(writer.counts[0].bytes + writer.counts[1].bytes, 36);
    assert_int_equal(shard_writer_commit(&writer, NULL), BERTH_OK);
    shard_writer_done(&writer);
    int first = (int)shard_place_of(&plan, 0).shard, third = (int)shard_place_of(&plan, 3).shard;
    char name[64];
    snprintf(name, sizeof name, "to/wiki_training_%d.txt", first);
    assert_file_holds(scratch(name),
                      third == first ? "One.\nTwo.\nThree\n\nSix.\n\n" : "One.\nTwo.\nThree\n\n");
    snprintf(name, sizeof name, "to/wiki_training_%d.txt", 1 - first);
    assert_file_holds(scratch(name),
                      third == first ? "Four!\nFive?\n\n" : "Four!\nFive?\n\nSix.\n\n");
}

// Shards that are made one by one are those that are made at once.
static void test_some_shards(void **state) {
    (void)state;
    const struct shard_plan plan = {3, 2, 0.4, 7};
    struct shard_target target = {scratch("to"), "wiki", 0, 5};
    for (size_t step = 0; step < 6; step++) {
        struct shard_writer writer;
        target.folder = scratch(step == 0 ? "to" : "one");
        target.first = step > 0 ? step - 1 : 0;
        target.count = step > 0 ? 1 : 5;
        assert_int_equal(shard_writer_open(&writer, &plan, &target, NULL), BERTH_OK);
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
        char *name = shard_file_name(&plan, i, "wiki"), *bytes, path[64];
        size_t length;
        snprintf(path, sizeof path, "to/%s", name);
        assert_int_equal(file_read(scratch(path), 1 << 20, &bytes, &length, NULL), BERTH_OK);
        assert_true(length > 100);
        snprintf(path, sizeof path, "one/%s", name);
        assert_file_holds(scratch(path), bytes);
        memory_free(bytes);
        memory_free(name);
    }
}

// Every call to the system, and every allocation, that fails.
static void test_failures(void **state) {
    (void)state;
    const struct shard_plan plan = {3, 2, 0.5, 7};
    for (int memory = 0; memory < 2; memory++) {
        enum berth_status status = BERTH_IO;
        for (uint64_t at = 1; status != BERTH_OK; at++) {
            struct shard_writer writer = {0};
            memory_fail_at(memory ? at : 0, 0);
            file_fail_at(memory ? 0 : at, ENOSPC);
            const struct shard_target all = {scratch("to"), "wiki", 0, 5};
            status = shard_writer_open(&writer, &plan, &all, NULL);
            if (status == BERTH_OK) {
                shard_writer_put(&writer, "One. Two.", 9, NULL);
                status = shard_writer_commit(&writer, NULL);
            }
            memory_fail_at(0, 0);
            file_fail_at(0, 0);
            char **names;
            assert_null(writer.files);
            shard_writer_done(&writer);
            if (dir_exists(scratch("to"))) {
                assert_int_equal(dir_list(scratch("to"), &names, NULL), BERTH_OK);
                for (size_t i = 0; names[i] != NULL; i++) {
                    assert_null(strstr(names[i], ".tmp"));
                }
                memory_free(names);
            }
            assert_int_equal(dir_remove(scratch("to"), NULL), BERTH_OK);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_even_shards),   SCRATCH_TEST(test_seeds),
        SCRATCH_TEST(test_refused_plans), SCRATCH_TEST(test_files),
        SCRATCH_TEST(test_some_shards),   SCRATCH_TEST(test_failures),
    };
    return cmocka_run_group_tests_name("text_shards", tests, NULL, NULL);
}
