// SPDX-License-Identifier: Apache-2.0
// The first number that is not finite is found wherever it is, in arrays of any length: those that
// are whole blocks of the search, and others.
#include "core/finite.h"
#include "core/harness.h"

#include <float.h>
#include <math.h>

enum { LENGTH_MAX = 2 * 4096 + 3 };

static void test_every_position(void **state) {
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    static float numbers[LENGTH_MAX];
    for (int i = 0; i < LENGTH_MAX; i++) {
        numbers[i] = i % 2 == 0 ? FLT_MAX : -FLT_TRUE_MIN;
    }
    for (int count = 0; count <= LENGTH_MAX; count += count < 3 || count > 4093 ? 1 : 4090) {
        assert_int_equal(finite_count(numbers, count), count);
    }
    for (int i = 0; i < LENGTH_MAX; i++) {
        const float before = numbers[i];
        numbers[i] = bad[i % 4];
        assert_int_equal(finite_count(numbers, LENGTH_MAX), i);
        assert_int_equal(finite_count(numbers, i), i); // reads no further
        numbers[LENGTH_MAX - 1] = i < LENGTH_MAX - 1 ? NAN : numbers[i];
        assert_int_equal(finite_count(numbers, LENGTH_MAX), i);
        numbers[LENGTH_MAX - 1] = FLT_MAX;
        numbers[i] = before;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_position)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
