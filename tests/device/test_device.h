// SPDX-License-Identifier: Apache-2.0
// BERTH_TEST_DEVICE: the kind of device that a test of the GPU device runs on.
#ifndef BERTH_TESTS_DEVICE_TEST_DEVICE_H
#define BERTH_TESTS_DEVICE_TEST_DEVICE_H

#include "core/error.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>

#define TEST_SKIPPED 77 // the exit code

// 1, with a message, if BERTH_TEST_DEVICE names a kind that this build or this machine has not.
static inline int test_lacks_device(void) {
    const char *kind = getenv("BERTH_TEST_DEVICE");
    struct berth_error error;
    int count;
    char text[160];
    const char *missing = kind != NULL ? device_gpu_missing(kind) : NULL;
    if (kind == NULL || (missing == NULL &&
                         device_gpu_describe(kind, 0, &count, text, &error) != BERTH_UNAVAILABLE)) {
        return 0;
    }
    printf("skipped: %s\n", missing != NULL ? missing : error.message);
    return 1;
}

#endif
