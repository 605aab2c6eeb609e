// SPDX-License-Identifier: Apache-2.0
// Tests that the benchmarks of single operations run every operation of the interface in the
// device's memory, and report errors.
#include "bench/operations/bench_ops.h"
#include "bench/timing.h"
#include "core/harness.h"
#include "core/memory.h"
#include "guarded_device.h"

#include <math.h>
#include <string.h>

static const struct bench_geometry geometry = {.rows = 128,
                                               .length = 30,
                                               .hidden = 32,
                                               .intermediate = 64,
                                               .heads = 2,
                                               .vocabulary = 100,
                                               .compute = DTYPE_BF16};
static const struct bench_timing timing = {CLOCK_MONOTONIC, 1};
static const struct bench_choice all = {0, NULL}, products = {1, NULL};

static struct device *opened(void) {
    const struct device_options options = {.threads = 1, .instructions = NULL};
    struct device *dev = NULL;
    assert_int_equal(device_gpu_open("guarded", &options, &dev, NULL), BERTH_OK);
    assert_true(bench_clock(dev, 1) == CLOCK_MONOTONIC);
    return dev;
}

static void every_operation(void **state) {
    for (int half = 0; half < 2; half++) {
        struct device *dev = opened();
        struct bench_geometry g = geometry;
        static struct bench_lines lines;
        g.compute = half ? DTYPE_BF16 : DTYPE_F32;
        g.length = half ? g.length : 1;
        assert_int_equal(bench_ops(dev, &g, all, timing, &lines, NULL), BERTH_OK);
        for (int i = 0; i < OPERATION_COUNT; i++) {
            if (guarded_translation(dev)->calls[i] == 0) {
                fail_msg("%s is not measured", device_operation_names[i]);
            }
        }
        assert_true(lines.count >= OPERATION_COUNT && lines.count <= BENCH_LINES);
        for (int i = 0; i < lines.count; i++) {
            assert_true(lines.line[i].seconds > 0 && isfinite(lines.line[i].seconds));
            assert_true(lines.line[i].bytes > 0);
        }
        dev->close(dev);
    }
}

static void products_only(void **state) {
    struct device *dev = opened();
    static struct bench_lines lines;
    assert_int_equal(bench_ops(dev, &geometry, products, timing, &lines, NULL), BERTH_OK);
    assert_int_equal(guarded_translation(dev)->calls[OPERATION_adamw], 0);
    assert_true(lines.count >= 13);
    assert_true(bench_bandwidth(dev, CLOCK_MONOTONIC, 0.01) > 1e6);
    dev->close(dev);
}

static void chosen_by_name(void **state) {
    struct device *dev = opened();
    static struct bench_lines lines;
    struct berth_error error = {0};
    const struct bench_choice attention = {0, "attention"}, no_product = {1, "adamw"};
    assert_int_equal(bench_ops(dev, &geometry, attention, timing, &lines, NULL), BERTH_OK);
    assert_int_equal(lines.count, 2);
    assert_string_equal(lines.line[0].name, "attention forward");
    assert_string_equal(lines.line[1].name, "attention backward");
    assert_int_equal(bench_ops(dev, &geometry, no_product, timing, &lines, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "\"adamw\""));
    dev->close(dev);
}

static enum device_phase marked;
static const double three = 3;

static void note_mark(struct device *dev, enum device_phase phase) {
    assert_int_equal(marked,
                     phase == DEVICE_PHASE_FORWARD ? DEVICE_PHASE_OTHER : DEVICE_PHASE_FORWARD);
    marked = phase;
}

static void three_seconds(struct device *dev, double seconds[DEVICE_PHASES]) {
    for (int phase = 0; phase < DEVICE_PHASES; phase++) {
        seconds[phase] = phase == DEVICE_PHASE_FORWARD ? three : 1;
    }
}

// A device that is not the host says itself how long an operation takes.
static void times_by_marks(void **state) {
    struct device *dev = opened();
    static struct bench_lines lines;
    marked = DEVICE_PHASE_OTHER;
    dev->mark = note_mark;
    dev->times = three_seconds;
    assert_int_equal(bench_ops(dev, &geometry, products, timing, &lines, NULL), BERTH_OK);
    assert_true(lines.count > 0);
    for (int i = 0; i < lines.count; i++) {
        assert_float_equal(lines.line[i].seconds, three, 0);
    }
    const double bytes = (double)(sizeof(float) << 26);
    assert_float_equal(bench_bandwidth(dev, CLOCK_MONOTONIC, 0.01), bytes / three, 1);
    assert_int_equal(marked, DEVICE_PHASE_OTHER);
    dev->close(dev);
}

// Every allocation fails once; the guarded device's close aborts if a block was not freed.
static void no_memory(void **state) {
    static struct bench_lines lines;
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n;
    for (n = 1; status != BERTH_OK; n++) {
        struct device *dev = opened();
        struct berth_error error = {0};
        memory_fail_at(n, 0);
        status = bench_ops(dev, &geometry, all, timing, &lines, &error);
        memory_fail_at(0, 0);
        if (status != BERTH_OK) {
            assert_int_equal(status, BERTH_NO_MEMORY);
            assert_non_null(strstr(error.message, "memory"));
        }
        dev->close(dev);
    }
    assert_true(n > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation), cmocka_unit_test(products_only),
        cmocka_unit_test(chosen_by_name),  cmocka_unit_test(times_by_marks),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
