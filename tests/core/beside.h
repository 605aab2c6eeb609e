// SPDX-License-Identifier: Apache-2.0
// Runs tests in parallel that spend most of their time waiting, each in a process of its own. They
// share nothing and need little of the processor, so together they take as long as the longest.
#ifndef BERTH_TESTS_CORE_BESIDE_H
#define BERTH_TESTS_CORE_BESIDE_H

#include "core/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_one(struct CMUnitTest test) {
    const struct CMUnitTest tests[] = {test};
    return cmocka_run_group_tests_name(test.name, tests, NULL, NULL);
}

// The number of tests that failed.
static int run_beside(const struct CMUnitTest *tests, int count) {
    int failed = 0, status;
    fflush(NULL);
    for (int i = 0; i < count; i++) {
        const pid_t process = fork();
        if (process == 0) {
            exit(run_one(tests[i]) != 0); // looks for leaks
        }
        failed += process < 0;
    }
    while (wait(&status) > 0) {
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}

#endif
