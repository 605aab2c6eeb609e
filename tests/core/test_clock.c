// SPDX-License-Identifier: Apache-2.0
#include "core/clock.h"
#include "core/harness.h"

#include <pthread.h>

static clockid_t own_clock;

static void *find_own_clock(void *context) {
    return pthread_getcpuclockid(pthread_self(), &own_clock) == 0 ? &own_clock : NULL;
}

static void test_clocks_go_on(void **state) {
    (void)state;
    const double start = clock_now();
    assert_true(start > 0);
    assert_true(clock_now() >= start);
}

static void test_the_clock_of_a_thread_that_has_ended(void **state) {
    (void)state;
    pthread_t thread;
    void *found;
    assert_int_equal(pthread_create(&thread, NULL, find_own_clock, NULL), 0);
    assert_int_equal(pthread_join(thread, &found), 0);
    assert_non_null(found);
    assert_true(clock_seconds(own_clock) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clocks_go_on),
        cmocka_unit_test(test_the_clock_of_a_thread_that_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
