// SPDX-License-Identifier: Apache-2.0
// Which rank is reported as slow (train/job/stragglers.h), for given times of updates: no clock is
// read here.
#include "core/harness.h"
#include "train/job/stragglers.h"

#include <string.h>

enum { SIZE = 3 };

// What the ranks did since the last sum, but for the first one, which is under test.
struct others {
    struct pace paces[SIZE];
    struct comm_stats stats;
};

static void sum(struct comm *comm, double *values, size_t count) {
    struct others *others = comm->state;
    assert_int_equal(count, 2 * SIZE);
    assert_true(values[2] == 0 && values[3] == 0 && values[4] == 0 && values[5] == 0);
    memcpy(values + 2, others->paces + 1, (SIZE - 1) * sizeof *others->paces);
    memset(others->paces, 0, sizeof others->paces);
    others->stats.call_seconds += 1; // between two updates, so it is none of their time
}

static struct comm_stats stats(struct comm *comm) {
    return ((struct others *)comm->state)->stats;
}

struct run {
    struct others others;
    struct comm comm;
    struct stragglers stragglers;
};

static void start(struct run *run) {
    *run = (struct run){
        .comm = {.state = &run->others, .size = SIZE, .rank = 0, .sum = sum, .stats = stats}};
    assert_int_equal(stragglers_init(&run->stragglers, &run->comm, NULL), BERTH_OK);
}

// One update, after which rank `found->rank` is reported, or none.
static int update(struct run *run, const struct pace paces[SIZE], struct slow_rank *found) {
    const double waited = 0.25;
    for (int rank = 1; rank < SIZE; rank++) {
        run->others.paces[rank].seconds += paces[rank].seconds;
        run->others.paces[rank].work += paces[rank].work;
    }
    stragglers_begin(&run->stragglers);
    run->others.stats.exposed_seconds += waited;
    run->others.stats.call_seconds += waited;
    return stragglers_add(&run->stragglers, paces[0].seconds + 2 * waited, paces[0].work, found);
}

// The updates until a rank is reported; 0: none within 400.
static int updates_until_report(const struct pace paces[SIZE], struct slow_rank *found) {
    struct run run;
    start(&run);
    int updates = 0, is_reported = 0;
    while (updates < 400 && !is_reported) {
        updates++;
        is_reported = update(&run, paces, found);
    }
    stragglers_done(&run.stragglers);
    return is_reported ? updates : 0;
}

static void test_a_rank_is_slow_if_the_run_would_be_faster_without_it(void **state) {
    static const struct {
        const char *what;
        struct pace paces[SIZE];
        int updates, rank;
        double ratio, delay;
    } cases[] = {
        {"all alike", {{.3, 1}, {.3, 1}, {.3, 1}}, 0, 0, 0, 0},
        {"the first", {{.6, 1}, {.3, 1}, {.3, 1}}, 16, 0, 2, 1},
        {"another", {{.3, 1}, {.3, 1}, {.9, 1}}, 16, 2, 3, 2},
        {"others of two speeds, without the slow one", {{.6, 1}, {.25, 1}, {.3, 1}}, 16, 0, 2.4, 1},
        {"more work", {{.3, 1}, {.6, 2}, {.3, 1}}, 0, 0, 0, 0},
        {"more work and slow", {{.3, 1}, {1.2, 2}, {.3, 1}}, 16, 1, 2, 1},
        {"little work, with what every update takes", {{.3, 1}, {.2, .1}, {.3, 1}}, 0, 0, 0, 0},
        {"slow with little work, and another is waited for",
         {{.6, 2}, {.62, 1}, {.6, 2}},
         0,
         0,
         0,
         0},
        {"a little slower", {{.42, 1}, {.3, 1}, {.3, 1}}, 0, 0, 0, 0},
        {"no other has work", {{.6, 1}, {.1, 0}, {.1, 0}}, 0, 0, 0, 0},
        {"short updates: four seconds", {{.1, 1}, {.05, 1}, {.05, 1}}, 48, 0, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slow_rank found = {.rank = -1};
        const int updates = updates_until_report(cases[i].paces, &found);
        if (updates != cases[i].updates) {
            fail_msg("%s: reported after %d updates", cases[i].what, updates);
        }
        if (updates > 0) {
            assert_int_equal(found.rank, cases[i].rank);
            assert_int_equal(found.updates, updates);
            assert_float_equal(found.ratio, cases[i].ratio, 1e-9);
            assert_float_equal(found.delay, cases[i].delay, 1e-9);
        }
    }
}

static void test_a_rank_is_reported_within_twenty_updates_and_once(void **state) {
    static const struct pace usual[SIZE] = {{.3, 1}, {.3, 1}, {.3, 1}};
    static const struct pace slow[SIZE] = {{.3, 1}, {.6, 1}, {.3, 1}};
    for (int before = 0; before < 8; before++) {
        struct slow_rank found;
        struct run run;
        int reports = 0, first = 0;
        start(&run);
        for (int i = 0; i < before; i++) {
            assert_false(update(&run, usual, &found));
        }
        for (int i = 1; i <= 100; i++) {
            reports += update(&run, slow, &found);
            first = reports > 0 && first == 0 ? i : first;
        }
        assert_int_equal(reports, 1);
        assert_true(first >= 14 && first <= 19);
        stragglers_done(&run.stragglers);
    }
}

static void test_a_rank_that_is_slow_for_a_while_only_is_not_reported(void **state) {
    static const struct pace usual[SIZE] = {{.3, 1}, {.3, 1}, {.3, 1}};
    static const struct pace slow[SIZE] = {{.3, 1}, {3, 1}, {.3, 1}};
    static const struct pace other[SIZE] = {{.3, 1}, {.3, 1}, {3, 1}};
    struct slow_rank found;
    struct run run;
    start(&run);
    for (int i = 0; i < 200; i++) {
        assert_false(update(&run, i % 16 < 12 ? slow : usual, &found));
    }
    for (int i = 0; i < 200; i++) { // ranks that are slow in turn
        assert_false(update(&run, i % 16 < 8 ? other : slow, &found));
    }
    stragglers_done(&run.stragglers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_is_slow_if_the_run_would_be_faster_without_it),
        cmocka_unit_test(test_a_rank_is_reported_within_twenty_updates_and_once),
        cmocka_unit_test(test_a_rank_that_is_slow_for_a_while_only_is_not_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
