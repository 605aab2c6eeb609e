// SPDX-License-Identifier: Apache-2.0
// Conversions and the tree of sums of exchanges (comm/numbers.h).
#include "comm/numbers.h"
#include "core/harness.h"
#include "core/reduction_tree.h"

#include <math.h>
#include <string.h>

static void test_the_first_half_is_the_largest_power_of_two_below(void **state) {
    static const int halves[] = {1, 2, 2, 4, 4, 4, 4, 8};
    for (int n = 2; n < 10; n++) {
        assert_int_equal(reduction_tree_split(n), halves[n - 2]);
    }
    assert_int_equal(reduction_tree_split(1000), 512);
}

static float bf16_of(float value) {
    uint16_t narrow;
    numbers_convert(&narrow, DTYPE_BF16, &value, DTYPE_F32, 1);
    numbers_convert(&value, DTYPE_F32, &narrow, DTYPE_BF16, 1);
    return value;
}

static void test_rounding_is_to_the_nearest_even(void **state) {
    assert_true(bf16_of(1) == 1 && bf16_of(-0.0F) == 0 && signbit(bf16_of(-0.0F)));
    assert_true(bf16_of(1 + 0x1p-8F) == 1);             // a tie, to the even one below
    assert_true(bf16_of(1 + 0x3p-8F) == 1 + 0x1p-6F);   // and above
    assert_true(bf16_of(1 + 0x1.2p-8F) == 1 + 0x1p-7F); // beyond the tie
    assert_true(isinf(bf16_of(0x1.ffffp127F)) && isinf(bf16_of(INFINITY)));
    assert_true(isnan(bf16_of(NAN)));
    const uint32_t least = 0x7f800001; // whose upper half alone is infinity
    float value;
    memcpy(&value, &least, sizeof value);
    assert_true(isnan(bf16_of(value)));
}

// As the header defines it, on one number.
static float tree_sum(const float *values, int n) {
    if (n == 1) {
        return values[0];
    }
    const int half = reduction_tree_split(n);
    return tree_sum(values, half) + tree_sum(values + half, n - half);
}

static void test_sums_are_added_along_the_tree(void **state) {
    enum { MOST = 13, COUNT = 2500 };
    static float data[MOST][COUNT], sum[COUNT];
    struct addend addends[MOST];
    for (int k = 0; k < MOST; k++) {
        addends[k] = (struct addend){data[k], DTYPE_F32, 1};
        for (int i = 0; i < COUNT; i++) {
            data[k][i] = ldexpf(1.0F + (float)((i * 7919 + k * 104729) % 65537) / 65537, k % 5 * 6);
        }
    }
    for (int n = 1; n <= MOST; n++) {
        numbers_sum(sum, DTYPE_F32, addends, n, COUNT);
        for (int i = 0; i < COUNT; i++) {
            float values[MOST];
            for (int k = 0; k < n; k++) {
                values[k] = data[k][i];
            }
            assert_true(sum[i] == tree_sum(values, n));
        }
    }
}

// Subtrees that were added before take the place of their leaves: of 7 leaves 0 to 3, and 4 to 5.
static void test_sums_of_subtrees_are_addends(void **state) {
    float values[7], sums[2];
    for (int k = 0; k < 7; k++) {
        values[k] = ldexpf(1.0F + (float)(k * 7919 % 65537) / 65537, k % 3 * 12);
    }
    sums[0] = tree_sum(values, 4);
    sums[1] = tree_sum(values + 4, 2);
    const struct addend rest = {&values[6], DTYPE_F32, 1};
    const struct addend some[] = {{&sums[0], DTYPE_F32, 4}, {&sums[1], DTYPE_F32, 2}, rest};
    const struct addend others[] = {
        {&sums[0], DTYPE_F32, 4}, {&values[4], DTYPE_F32, 1}, {&values[5], DTYPE_F32, 1}, rest};
    float sum = 0;
    numbers_sum(&sum, DTYPE_F32, some, 7, 1);
    assert_true(sum == tree_sum(values, 7));
    numbers_sum(&sum, DTYPE_F32, others, 7, 1);
    assert_true(sum == tree_sum(values, 7));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_half_is_the_largest_power_of_two_below),
        cmocka_unit_test(test_rounding_is_to_the_nearest_even),
        cmocka_unit_test(test_sums_are_added_along_the_tree),
        cmocka_unit_test(test_sums_of_subtrees_are_addends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
