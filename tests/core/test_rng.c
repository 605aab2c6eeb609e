// SPDX-License-Identifier: Apache-2.0
// Philox against the known answers of its authors' library (Random123, kat_vectors), and the
// functions based on it.
#include "core/harness.h"
#include "core/rng.h"

#include <math.h>

static void test_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t answer[4];
    } cases[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         0xffffffffffffffff,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rng_block block = rng_philox(cases[i].key, cases[i].counter);
        assert_memory_equal(block.word, cases[i].answer, sizeof block.word);
    }
}

static void test_draws_are_a_function_of_their_index(void **state) {
    (void)state;
    uint64_t index = 0;
    uint32_t forward[10];
    for (size_t i = 0; i < 10; i++) {
        forward[i] = rng_draw(7, 3, &index);
    }
    assert_int_equal(index, 10);
    for (size_t i = 10; i-- > 0;) {
        index = i;
        assert_int_equal(rng_draw(7, 3, &index), forward[i]);
        for (size_t other = 0; other < i; other++) {
            assert_int_not_equal(forward[i], forward[other]);
        }
    }
    index = 0;
    assert_int_not_equal(rng_draw(7, 4, &index), forward[0]);
    index = 0;
    assert_int_not_equal(rng_draw(8, 3, &index), forward[0]);
}

static void test_below_is_in_range_and_even(void **state) {
    (void)state;
    enum { BOUND = 7, DRAWS = 70000 };
    int counts[BOUND] = {0};
    uint64_t index = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint32_t value = rng_below(42, 0, &index, BOUND);
        assert_true(value < BOUND);
        counts[value]++;
    }
    for (int i = 0; i < BOUND; i++) {
        assert_in_range(counts[i], 9600, 10400); // four standard deviations of 10,000
    }
    assert_int_equal(rng_below(42, 0, &index, 1), 0);
    // With a bound above 2^31, biased code would draw low numbers twice as often.
    int low = 0;
    for (int i = 0; i < 9000; i++) {
        low += rng_below(42, 1, &index, 3u << 30) < 1u << 30;
    }
    assert_in_range(low, 2800, 3200); // a third
}

static void test_dropout_rate_and_scale(void **state) {
    (void)state;
    enum { ROWS = 50, COLUMNS = 1000 };
    struct dropout dropout = {.seed = 42, .step = 3, .layer = 2, .site = RNG_SITE_OUTPUT};
    dropout.threshold = rng_dropout_threshold(0.1);
    int dropped = 0;
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            dropped += !rng_dropout_keeps(&dropout, 0, 5, row, column);
        }
    }
    double rate = dropped / (double)(ROWS * COLUMNS);
    assert_true(fabs(rate - 0.1) < 0.0054); // four standard deviations
    assert_true(fabs(rng_dropout_scale(dropout.threshold) - 1 / 0.9) < 1e-4);
    dropout.threshold = rng_dropout_threshold(0);
    assert_true(rng_dropout_keeps(&dropout, 0, 5, 1, 1));
    assert_true(rng_dropout_scale(0) == 1.0f);
}

// No two of heads, sequences, steps, layers and sites share a mask.
static void test_dropout_masks_differ(void **state) {
    (void)state;
    struct dropout base = {.seed = 42, .threshold = rng_dropout_threshold(0.5)};
    struct dropout variants[4] = {base, base, base, base};
    variants[1].step = 1;
    variants[2].layer = 1;
    variants[3].site = RNG_SITE_ATTENTION;
    int differ[6] = {0};
    for (int column = 0; column < 256; column++) {
        int keeps = rng_dropout_keeps(&base, 0, 0, 0, column);
        for (int i = 1; i < 4; i++) {
            differ[i] += keeps != rng_dropout_keeps(&variants[i], 0, 0, 0, column);
        }
        differ[4] += keeps != rng_dropout_keeps(&base, 1, 0, 0, column);
        differ[5] += keeps != rng_dropout_keeps(&base, 0, 1, 0, column);
        differ[0] += keeps != rng_dropout_keeps(&base, 0, 0, 1, column);
    }
    for (int i = 0; i < 6; i++) {
        assert_in_range(differ[i], 96, 160); // 128 expected, standard deviation 8
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_draws_are_a_function_of_their_index),
        cmocka_unit_test(test_below_is_in_range_and_even),
        cmocka_unit_test(test_dropout_rate_and_scale),
        cmocka_unit_test(test_dropout_masks_differ),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
