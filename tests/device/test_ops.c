// SPDX-License-Identifier: Apache-2.0
// Every operation of the CPU device, with all shapes, dtypes and instruction sets: compared with
// loops in double, its gradients with finite differences; the same bits from 1, 2 and 4 threads and
// from the guarded device.
#include "core/harness.h"
#include "guarded_device.h"
#include "nan_hits.h"
#include "op_walk.h"
#include "reference_activations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum berth_status open_function(const struct device_options *options,
                                        struct device **device, struct berth_error *error);

static struct device *open_device(open_function *open, const char *instructions, int threads) {
    const struct device_options options = {.threads = threads, .instructions = instructions};
    struct device *dev = NULL;
    struct berth_error error;
    enum berth_status status = open(&options, &dev, &error);
    if (status == BERTH_UNAVAILABLE) {
        return NULL;
    }
    assert_int_equal(status, BERTH_OK);
    const struct device_shape most = {
        .batch = {.tokens = 576, .sequences = 4, .masked = 128, .max_length = 260},
        .hidden = 190,
        .intermediate = 256,
        .heads = 1,
        .vocabulary = 1035,
        .decoder_rows = 128,
        .compute = DTYPE_F32,
        .training = 1};
    assert_int_equal(dev->reserve(dev, &most, &error), BERTH_OK);
    return dev;
}

// Skips the test if the processor lacks the instructions.
static struct device *open_with(const char *instructions) {
    struct device *dev = open_device(device_cpu_open, instructions, 2);
    if (dev == NULL) {
        print_message("skipped: this processor does not run %s\n", instructions);
        skip();
    }
    return dev;
}

static void against_reference(void **state) {
    struct device *dev = open_with(*state);
    int failures = 0;
    for (int s = 0; s < SHAPES; s++) {
        failures += op_walk_failures(dev, &shapes[s]);
    }
    dev->close(dev);
    assert_int_equal(failures, 0);
}

struct hashes {
    uint64_t hash[4096];
    int next, differ, first;
};

static void compare(struct op_run *run, const struct variant *v, void *context) {
    struct hashes *h = context;
    assert_true(h->next < 4096);
    if (h->first) {
        h->hash[h->next] = run->hash;
    } else if (h->hash[h->next] != run->hash) {
        h->differ++;
        print_error("%s, shape \"%s\", %s: other bits with %s\n", v->op->name, run->shape->name,
                    dtype_name(run->compute), run->dev->describe(run->dev));
    }
    h->next++;
}

// The first device's hashes of the shapes [from, end), or how many of another's differ.
static void hash_shapes(struct hashes *hashes, struct device *dev, int from, int end) {
    const int expected = hashes->next;
    hashes->next = 0;
    for (int s = from; s < end; s++) {
        op_walk(dev, &shapes[s], compare, hashes);
    }
    assert_true(hashes->first ? hashes->next > op_count : hashes->next == expected);
    hashes->first = 0;
}

static void same_bits_for_any_thread_count(void **state) {
    struct hashes hashes = {.first = 1};
    const int threads[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        struct device *dev = open_device(device_cpu_open, "auto", threads[i]);
        hash_shapes(&hashes, dev, SHAPE_SEVERAL_TILES, SHAPES);
        dev->close(dev);
    }
    assert_int_equal(hashes.differ, 0);
}

static enum berth_status guarded_open(const struct device_options *options, struct device **device,
                                      struct berth_error *error) {
    return device_gpu_open("guarded", options, device, error);
}

// No operand is in the host's memory or exceeds its block, and no operation is left out.
static void guarded(void **state) {
    struct hashes hashes = {.first = 1};
    struct device *cpu = open_device(device_cpu_open, "auto", 2);
    struct device *dev = open_device(guarded_open, "auto", 2);
    assert_int_equal(dev->keeps_masks, cpu->keeps_masks); // or operands would be left out
    hash_shapes(&hashes, cpu, 0, SHAPE_SEVERAL_TILES);
    hash_shapes(&hashes, dev, 0, SHAPE_SEVERAL_TILES);
    for (int i = 0; i < OPERATION_COUNT; i++) {
        if (guarded_translation(dev)->calls[i] == 0) {
            fail_msg("the table does not run %s", device_operation_names[i]);
        }
    }
    cpu->close(cpu);
    dev->close(dev);
    assert_int_equal(hashes.differ, 0);
}

static void as_it_is(struct op_case *c) {
}

// Normalising the sum that is handed out by itself gives the same bits, which gradient
// checkpointing relies on.
static void the_sum_alone_gives_the_same_bits(void **state) {
    const struct op *op = op_find("norm_forward");
    const struct op_row same = {.reference = as_it_is, .f32 = OP_EXACTLY, .half = OP_EXACTLY};
    const int residual = op_operand_find(op, "residual"), sum = op_operand_find(op, "sum");
    struct device *dev = open_device(device_cpu_open, "auto", 2);
    for (int half = 0; half < 2; half++) {
        struct op_run run = {.dev = dev,
                             .shape = &shapes[SHAPE_SEVERAL_TILES],
                             .compute = half ? DTYPE_BF16 : DTYPE_F32,
                             .threshold = rng_dropout_threshold(0.1)};
        struct op_case with_x, alone;
        op_walk_begin(&run);
        op_case_make(&with_x, &run, op, op->uses, 1);
        op_case_make(&alone, &run, op, op->uses, 2);
        op_case_call(&with_x);
        memcpy(alone.x, with_x.x, sizeof alone.x);
        alone.x[residual] = with_x.x[sum];
        alone.x[op_operand_find(op, "x")] = NULL;
        op_case_check(&alone, &same);
        op_end(&run);
        assert_string_equal(run.failure, "");
    }
    dev->close(dev);
}

static void nan_is_no_hit(void **state) {
    struct device *dev = open_with(*state);
    nan_hits_check(dev);
    dev->close(dev);
}

// --- gradients ----------------------------------------------------------------------------------

static void gradients(int exact) {
    struct device *dev = open_device(device_cpu_open, "auto", 2);
    const int failures = op_walk_gradients(dev, exact);
    dev->close(dev);
    assert_int_equal(failures, 0);
}

static void gradients_of_references(void **state) {
    gradients(1);
}

static void gradients_of_the_device(void **state) {
    gradients(0);
}

// Over the whole range of each function, whose kinks lie between.
static void activation_slopes(void **state) {
    const double step = 1e-5;
    for (int kind = 0; kind < ACTIVATION_COUNT; kind++) {
        for (double x = -13; x < 13; x += 0.37) {
            const enum activation activation = (enum activation)kind;
            const double up = reference_activation(x + step, activation);
            const double slope = (up - reference_activation(x - step, activation)) / (2 * step);
            const double error = reference_activation_slope(x, activation) - slope;
            assert_true(fabs(error) <= 1e-6 * (1 + fabs(slope)));
        }
    }
}

// Every operation of the contract is in both tables.
static void every_operation_has_a_row(void **state) {
    assert_int_equal(op_count, op_row_count);
    assert_int_equal(op_count, OPERATION_ROWS);
    for (int i = 0; i < op_count; i++) {
        assert_string_equal(op_table[i].name, op_rows[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EACH_INSTRUCTION_SET(against_reference),
        EACH_INSTRUCTION_SET(nan_is_no_hit),
        cmocka_unit_test(the_sum_alone_gives_the_same_bits),
        cmocka_unit_test(gradients_of_references),
        cmocka_unit_test(gradients_of_the_device),
        cmocka_unit_test(activation_slopes),
        cmocka_unit_test(every_operation_has_a_row),
        cmocka_unit_test(same_bits_for_any_thread_count),
        cmocka_unit_test(guarded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
