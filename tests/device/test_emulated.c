// SPDX-License-Identifier: Apache-2.0
// The GPU's kernels, run by the emulation: every operation against double loops, its gradients
// against finite differences, and the same bits whichever threads of a block go first.
#include "core/harness.h"
#include "op_walk.h"

#include <stdlib.h>

// Rows of one, two, four and more chunks of a warp's columns, with and without vectors; head sizes
// up to the largest, and several tiles of those that tensor cores take.
static const struct case_shape wide_shapes[] = {
    {"two chunks", {2, 9}, 384, 12, 72, 1032, NULL},
    {"four chunks", {5}, 768, 6, 72, 1032, NULL},
    {"a block a row", {3, 1}, 1104, 12, 72, 1032, NULL},
    {"a block a row, no vectors", {3, 1}, 301, 7, 67, 1032, NULL},
    {"heads of 32", {70, 1}, 64, 2, 64, 50, "attention"},
    {"heads of 64", {131, 64, 7}, 128, 2, 64, 50, "attention"},
    {"heads of 128", {67, 33}, 256, 2, 64, 50, "attention"},
};
enum { WIDE_SHAPES = sizeof wide_shapes / sizeof *wide_shapes };

static struct device *open_emulated(void) {
    const struct device_options options = {.threads = 2};
    const struct device_shape most = {{576, 4, 128, 260, 0}, 1104, 256, 1, 1035, 128, DTYPE_F32, 1};
    struct device *dev = NULL;
    struct berth_error error;
    if (device_gpu_open("emulated", &options, &dev, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(dev->reserve(dev, &most, &error), BERTH_OK);
    return dev;
}

static void against_reference(void **state) {
    struct device *dev = open_emulated();
    int complaints = 0;
    for (int s = 0; s < SHAPES; s++) {
        complaints += op_walk_complaints(dev, &shapes[s]);
    }
    for (int s = 0; s < WIDE_SHAPES; s++) {
        complaints += op_walk_complaints(dev, &wide_shapes[s]);
    }
    dev->close(dev);
    assert_int_equal(complaints, 0);
}

static void gradients(void **state) {
    struct device *dev = open_emulated();
    assert_int_equal(op_walk_gradients(dev, 0), 0);
    dev->close(dev);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_reference),
        cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
