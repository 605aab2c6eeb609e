// SPDX-License-Identifier: Apache-2.0
// The GPU's kernels, run by the emulation: every operation against double loops, its gradients
// against finite differences, and the same bits whichever threads of a block go first.
#include "core/harness.h"
#include "op_walk.h"

#include <stdlib.h>
#include <string.h>

// Rows of one, two, four and more chunks of a warp's columns, with and without vectors; head sizes
// up to the largest.
static const struct case_shape wide_shapes[] = {
    {"two chunks", {2, 9}, 384, 12, 72, 1032, NULL},
    {"four chunks", {5}, 768, 6, 72, 1032, NULL},
    {"a block a row", {3, 1}, 1104, 12, 72, 1032, NULL},
    {"a block a row, no vectors", {3, 1}, 301, 7, 67, 1032, NULL},
};

// Several tiles of each head size that tensor cores take.
static const struct case_shape attention_shapes[] = {
    {"heads of 32", {70, 1}, 64, 2, 64, 50, "attention"},
    {"heads of 64", {197, 64, 7}, 128, 2, 64, 50, "attention"},
    {"heads of 128", {67, 33}, 256, 2, 64, 50, "attention"},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct device *open_emulated(void) {
    const struct device_options options = {.threads = 2};
    const struct device_shape most = {
        .batch = {.tokens = 576, .sequences = 4, .masked = 128, .max_length = 260},
        .hidden = 1104,
        .intermediate = 256,
        .heads = 1,
        .vocabulary = 1035,
        .decoder_rows = 128,
        .compute = DTYPE_F32,
        .training = 1};
    struct device *dev = NULL;
    struct berth_error error;
    if (device_gpu_open("emulated", &options, &dev, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(dev->reserve(dev, &most, &error), BERTH_OK);
    return dev;
}

static void walk(const struct case_shape *first, size_t count) {
    struct device *dev = open_emulated();
    int complaints = 0;
    for (size_t s = 0; s < count; s++) {
        complaints += op_walk_complaints(dev, &first[s]);
    }
    dev->close(dev);
    assert_int_equal(complaints, 0);
}

static void operations(void **state) {
    walk(shapes, SHAPES);
}

static void operations_on_wide_rows(void **state) {
    walk(wide_shapes, COUNT(wide_shapes));
}

static void attention(void **state) {
    walk(attention_shapes, COUNT(attention_shapes));
}

static void operations_have_their_gradients(void **state) {
    struct device *dev = open_emulated();
    assert_int_equal(op_walk_gradients(dev, 0), 0);
    dev->close(dev);
}

// What is called between begin and end starts at the end, from the second time on as a graph; what
// a capture does not allow is refused.
static void graphs(void **state) {
    struct device *dev = open_emulated();
    struct berth_error error;
    const float ones[4] = {1, 1, 1, 1};
    float found[4] = {0};
    float *sum = dev->memory_new(dev, sizeof ones), *term = dev->memory_new(dev, sizeof ones);
    dev->upload(dev, term, ones, sizeof ones);
    for (int i = 0; i < 3; i++) {
        dev->graph_begin(dev, 7);
        dev->add(dev, sum, term, i < 2 ? 4 : 2); // another number is no other graph
        dev->graph_end(dev);
    }
    dev->download(dev, found, sum, sizeof found);
    assert_float_equal(found[0], 3, 0);
    assert_float_equal(found[3], 2, 0);
    dev->graph_begin(dev, 7);
    assert_null(dev->memory_new(dev, sizeof ones));
    dev->graph_end(dev);
    assert_int_equal(dev->status(dev, &error), BERTH_OK);
    dev->graph_begin(dev, 7);
    dev->download(dev, found, sum, sizeof found);
    dev->graph_end(dev);
    assert_int_equal(dev->status(dev, &error), BERTH_INTERNAL);
    assert_non_null(strstr(error.message, "not allowed while a graph is captured (error 900)"));
    dev->memory_free(dev, sum, sizeof ones);
    dev->memory_free(dev, term, sizeof ones);
    dev->close(dev);
}

// With an argument, only the tests whose names it matches.
int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations),
        cmocka_unit_test(operations_on_wide_rows),
        cmocka_unit_test(operations_have_their_gradients),
        cmocka_unit_test(attention),
        cmocka_unit_test(graphs),
    };
    cmocka_set_test_filter(count > 1 ? arguments[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
