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

static float f16_of(float value) {
    uint16_t narrow;
    numbers_convert(&narrow, DTYPE_F16, &value, DTYPE_F32, 1);
    numbers_convert(&value, DTYPE_F32, &narrow, DTYPE_F16, 1);
    return value;
}

static void test_f16_rounds_to_the_nearest_even(void **state) {
    assert_true(f16_of(1) == 1 && f16_of(-0.0F) == 0 && signbit(f16_of(-0.0F)));
    assert_true(f16_of(1 + 0x1p-11F) == 1);                // a tie, to the even one below
    assert_true(f16_of(1 + 0x3p-11F) == 1 + 0x1p-9F);      // and above
    assert_true(f16_of(-1 - 0x1.2p-11F) == -1 - 0x1p-10F); // beyond the tie
    assert_true(f16_of(65504) == 65504 && f16_of(65519.9F) == 65504);
    assert_true(isinf(f16_of(65520)) && f16_of(-1e30F) == -INFINITY && isinf(f16_of(INFINITY)));
    assert_true(isnan(f16_of(NAN)));
    assert_true(f16_of(0x1.ff9p-15F) == 0x1.ff8p-15F); // subnormal
    assert_true(f16_of(0x1.fffp-15F) == 0x1p-14F);
    assert_true(f16_of(0x1p-25F) == 0 && f16_of(0x1.8p-25F) == 0x1p-24F);
    assert_true(f16_of(0x3p-25F) == 0x1p-23F && f16_of(0x1p-140F) == 0);
}

// Every f16 becomes the number that its bits mean, and comes back. An odd count has a rest of the
// loops over vectors.
static void test_every_f16_survives(void **state) {
    enum { ALL = 1 << 16 };
    static uint16_t halves[ALL], again[ALL];
    static float wide[ALL], sums[ALL];
    for (int i = 0; i < ALL; i++) {
        halves[i] = (uint16_t)i;
        sums[i] = 1;
    }
    numbers_convert(wide, DTYPE_F32, halves, DTYPE_F16, ALL - 1);
    numbers_convert(again, DTYPE_F16, wide, DTYPE_F32, ALL - 1);
    const struct addend addends[] = {{sums, DTYPE_F32, 1}, {halves, DTYPE_F16, 1}};
    numbers_sum(sums, DTYPE_F32, addends, 2, ALL - 1);
    for (int i = 0; i < ALL - 1; i++) {
        const int exponent = i >> 10 & 31, mantissa = i & 1023;
        const double value =
            exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
        if (exponent == 31 && mantissa > 0) {
            assert_true(isnan(wide[i]) && isnan(sums[i]) && (again[i] & 0x7fff) > 0x7c00);
            continue;
        }
        assert_true(wide[i] == (exponent == 31 ? INFINITY : value) * (i >> 15 ? -1 : 1));
        assert_true((signbit(wide[i]) != 0) == (i >> 15 != 0));
        assert_int_equal(again[i], i);
        assert_true(sums[i] == 1 + wide[i]);
    }
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
        cmocka_unit_test(test_f16_rounds_to_the_nearest_even),
        cmocka_unit_test(test_every_f16_survives),
        cmocka_unit_test(test_sums_are_added_along_the_tree),
        cmocka_unit_test(test_sums_of_subtrees_are_addends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
