// SPDX-License-Identifier: Apache-2.0
// The assignment of articles: every article with sentences goes to one shard, training shards
// are equally long and so are test shards, the test fraction is met, and every shard has two
// articles, but for an article that is the only one of its kind.
#include "core/memory.h"
#include "core/rng.h"
#include "core/scratch.h"
#include "data/corpus/shard_assignment.h"

#include <math.h>

enum { ARTICLES_MAX = 20011, SHARDS = 256 };

struct tally {
    uint64_t sentences, articles;
};

struct assigned {
    struct shard_plan plan;
    struct shard_assignment assignment;
    struct tally tallies[2 * SHARDS];
    uint64_t sentences, longest; // of all articles
};

// Lengths like an encyclopedia's: many short articles, a few very long ones, some empty.
static void make_lengths(uint32_t *lengths, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t index = i;
        double random = ((double)rng_draw(5, 1, &index) + 1) * 0x1p-32;
        lengths[i] = i % 29 == 28 ? 0 : (uint32_t)(6 / pow(random, 0.7));
    }
}

static void make(struct assigned *assigned, const uint32_t *lengths, uint64_t count) {
    struct berth_error error;
    if (shard_assignment_make(&assigned->plan, lengths, count, &assigned->assignment, &error) !=
        BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(assigned->assignment.count, count);
    for (uint64_t i = 0; i < count; i++) {
        uint16_t shard = assigned->assignment.shards[i];
        assert_true((shard == SHARD_UNASSIGNED) == (lengths[i] == 0));
        if (lengths[i] > 0) {
            assert_true(shard < shard_count(&assigned->plan));
            assigned->tallies[shard].sentences += lengths[i];
            assigned->tallies[shard].articles++;
            assigned->sentences += lengths[i];
            assigned->longest = lengths[i] > assigned->longest ? lengths[i] : assigned->longest;
        }
    }
}

// Longest first, to the lightest shard: the loads differ by less than one article's length, and by
// little where there are many.
static uint64_t check_kind(const struct assigned *assigned, uint32_t first, uint32_t count,
                           uint64_t articles) {
    uint64_t low = UINT64_MAX, high = 0, all = 0;
    for (uint32_t i = first; i < first + count; i++) {
        const struct tally *tally = &assigned->tallies[i];
        assert_true(tally->articles >= (articles == 1 ? 1 : 2));
        low = tally->sentences < low ? tally->sentences : low;
        high = tally->sentences > high ? tally->sentences : high;
        all += tally->sentences;
    }
    assert_true(count == 0 || high - low <= assigned->longest);
    if (count > 0 && articles > 60 * (uint64_t)count && assigned->longest < all / count) {
        assert_true((double)(high - low) < 0.01 * (double)all / count);
    }
    return all;
}

static void test_balance(void **state) {
    (void)state;
    static const uint64_t articles[] = {1, 2, 3, 17, 300, 5000, ARTICLES_MAX};
    static const uint32_t shards[] = {1, 2, 12, 255, SHARDS};
    uint32_t *lengths = memory_array(ARTICLES_MAX, sizeof *lengths);
    make_lengths(lengths, ARTICLES_MAX);
    for (size_t i = 0; i < 7; i++) {
        for (size_t j = 0; j < 5; j++) {
            struct assigned assigned = {.plan = {shards[j], shards[j], 0.1, 12345}};
            make(&assigned, lengths, articles[i]);
            uint64_t tests = 0, rest = 0;
            for (uint32_t k = 0; k < shard_count(&assigned.plan); k++) {
                *(k < assigned.plan.training ? &rest : &tests) += assigned.tallies[k].articles;
            }
            assert_true(assigned.plan.training == shards[j] || 2 * shards[j] > rest);
            assert_true(assigned.plan.test == shards[j] || 2 * shards[j] > tests);
            assert_true(assigned.plan.training >= 1 && assigned.plan.training <= shards[j]);
            assert_true(assigned.plan.test <= shards[j] && (assigned.plan.test > 0) == (tests > 0));
            check_kind(&assigned, 0, assigned.plan.training, rest);
            uint64_t held =
                check_kind(&assigned, assigned.plan.training, assigned.plan.test, tests);
            assert_true(fabs((double)held - 0.1 * (double)assigned.sentences) <=
                        (double)assigned.longest);
            if (articles[i] >= 5000) {
                assert_true(fabs((double)held / (double)assigned.sentences - 0.1) < 0.001);
            }
            shard_assignment_done(&assigned.assignment);
        }
    }
    memory_free(lengths);
}

// One article is as long as all others together: its shard still gets a second one.
static void test_a_giant(void **state) {
    (void)state;
    uint32_t lengths[9] = {4, 4, 4, 1000, 4, 4, 4, 4, 4};
    struct assigned assigned = {.plan = {4, 0, 0.1, 1}};
    make(&assigned, lengths, 9);
    assert_int_equal(assigned.plan.training, 4);
    for (int i = 0; i < 4; i++) {
        assert_true(assigned.tallies[i].articles >= 2);
    }
    shard_assignment_done(&assigned.assignment);
}

// An article is held out when that brings the test fraction closer to its target.
static void test_the_fraction_is_rounded(void **state) {
    (void)state;
    static const struct {
        double fraction;
        uint64_t sentences;
    } cases[] = {{0.24, 20}, {0.26, 30}, {0.34, 30}, {0.36, 40}, {0.04, 0}, {0.06, 10}};
    uint32_t lengths[10] = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct assigned assigned = {.plan = {2, 1, cases[i].fraction, 1}};
        make(&assigned, lengths, 10);
        assert_int_equal(assigned.plan.test > 0 ? assigned.tallies[assigned.plan.training].sentences
                                                : 0,
                         cases[i].sentences);
        shard_assignment_done(&assigned.assignment);
    }
}

// One that would exceed the fraction is held out by no seed, though it may be the last in the
// order.
static void test_a_giant_is_not_held_out(void **state) {
    (void)state;
    uint32_t lengths[10] = {10, 10, 10, 10, 1000, 10, 10, 10, 10, 10};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct assigned assigned = {.plan = {2, 1, 0.02, seed}};
        make(&assigned, lengths, 10);
        assert_int_equal(assigned.plan.test, 1);
        assert_int_equal(assigned.tallies[assigned.plan.training].sentences, 20);
        shard_assignment_done(&assigned.assignment);
    }
}

static int count_differences(const struct shard_assignment *a, const struct shard_assignment *b) {
    int differ = 0;
    for (uint64_t i = 0; i < a->count; i++) {
        differ += a->shards[i] != b->shards[i];
    }
    return differ;
}

// The assignment is reproducible; another seed holds out other articles.
static void test_seeds(void **state) {
    (void)state;
    uint32_t lengths[1000];
    make_lengths(lengths, 1000);
    struct assigned assigned[3] = {
        {.plan = {8, 8, 0.2, 1}}, {.plan = {8, 8, 0.2, 1}}, {.plan = {8, 8, 0.2, 2}}};
    for (int i = 0; i < 3; i++) {
        make(&assigned[i], lengths, 1000);
    }
    assert_int_equal(count_differences(&assigned[0].assignment, &assigned[1].assignment), 0);
    assert_true(count_differences(&assigned[0].assignment, &assigned[2].assignment) > 100);
    for (int i = 0; i < 3; i++) {
        shard_assignment_done(&assigned[i].assignment);
    }
}

static void expect_refused(struct shard_plan plan, const uint32_t *lengths, uint64_t count,
                           enum berth_status expected, const char *part) {
    struct shard_assignment assignment;
    struct berth_error error;
    assert_int_equal(shard_assignment_make(&plan, lengths, count, &assignment, &error), expected);
    assert_message_has(&error, part);
    assert_null(assignment.shards);
}

static void test_refused(void **state) {
    (void)state;
    const uint32_t lengths[] = {3, 4, 5}, none[] = {0, 0};
    const struct shard_plan plans[] = {{0, 1, 0.1, 0},
                                       {SHARDS_LIMIT + 1, 1, 0.1, 0},
                                       {1, SHARDS_LIMIT + 1, 0.1, 0},
                                       {1, 1, 1.0, 0},
                                       {1, 1, -0.1, 0},
                                       {1, 1, NAN, 0}};
    for (size_t i = 0; i < 6; i++) {
        expect_refused(plans[i], lengths, 3, BERTH_CONFIG, "expected 1 to 4096");
    }
    const struct shard_plan good = {1, 1, 0.1, 0};
    expect_refused(good, none, 2, BERTH_BAD_DATA, "none of 2 articles has a sentence");
    expect_refused(good, none, 0, BERTH_BAD_DATA, "0 articles");
}

static void test_memory_runs_out(void **state) {
    (void)state;
    const uint32_t lengths[] = {3, 4, 5, 6, 7, 8};
    enum berth_status status = BERTH_NO_MEMORY;
    int failures = 0;
    for (uint64_t at = 1; status != BERTH_OK; at++) {
        struct shard_plan plan = {2, 1, 0.3, 0};
        struct shard_assignment assignment;
        memory_fail_at(at, 0);
        status = shard_assignment_make(&plan, lengths, 6, &assignment, NULL);
        memory_fail_at(0, 0);
        failures += status == BERTH_NO_MEMORY;
        shard_assignment_done(&assignment);
    }
    assert_true(failures >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balance),         cmocka_unit_test(test_the_fraction_is_rounded),
        cmocka_unit_test(test_a_giant),         cmocka_unit_test(test_a_giant_is_not_held_out),
        cmocka_unit_test(test_seeds),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
