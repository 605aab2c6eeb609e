// SPDX-License-Identifier: Apache-2.0
// Tests every operation of the CPU device for all shapes, dtypes and instruction sets against
// double loops; results must be bit-identical with 1, 2 and 4 threads and on the guarded device.
#include "core/harness.h"
#include "guarded_device.h"
#include "op_cases.h"

#include <stdio.h>
#include <string.h>

// The last has three pieces of columns in attention and tiles of all three sizes in dw; the full
// block has neither slack nor a short piece.
static const struct case_shape shapes[] = {
    {"one token", {1}, 10, 1, 21},
    {"few, odd sizes", {1, 2, 3, 17}, 22, 2, 40},
    {"one full block", {64}, 128, 4, 256},
    {"several tiles", {260, 7, 129, 128}, 190, 5, 200},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, SEVERAL_TILES = SHAPES - 1 };

typedef enum berth_status open_function(const struct device_options *options,
                                        struct device **device, struct berth_error *error);

static struct device *open_device(open_function *open, const char *instructions, int threads) {
    const struct device_options options = {threads, instructions};
    struct device *dev = NULL;
    struct berth_error error;
    enum berth_status status = open(&options, &dev, &error);
    if (status == BERTH_UNAVAILABLE) {
        return NULL;
    }
    assert_int_equal(status, BERTH_OK);
    const struct device_shape most = {{576, 4, 0, 260, 0}, 190, 256, 1, 50, 0, DTYPE_F32, 1};
    assert_int_equal(dev->reserve(dev, &most, &error), BERTH_OK);
    return dev;
}

typedef void each_function(struct op_run *run, const struct op_case *op, void *context);

// All variants of all operations for one shape.
static void for_each_case(struct device *dev, const struct case_shape *shape, each_function *each,
                          void *context) {
    for (int i = 0; i < op_case_count; i++) {
        // The large shapes are about tiles and threads, for which one function is as good as
        // another.
        const int activations = !op_cases[i].activates     ? 1
                                : shape->intermediate > 64 ? ACTIVATION_GELU_TANH + 1
                                                           : ACTIVATION_COUNT;
        for (int variant = 0; variant < 4 * activations; variant++) {
            int drop = variant & 1, half = variant >> 1 & 1;
            if (drop && !op_cases[i].drops) {
                continue;
            }
            struct op_run run = {.dev = dev,
                                 .shape = shape,
                                 .compute = half ? DTYPE_BF16 : DTYPE_F32,
                                 .threshold = drop ? rng_dropout_threshold(0.1) : 0,
                                 .activation = (enum activation)(variant >> 2)};
            op_case_run(&op_cases[i], &run);
            each(&run, &op_cases[i], context);
        }
    }
}

static void report(struct op_run *run, const struct op_case *op, void *context) {
    if (run->complaint[0] != '\0') {
        ++*(int *)context;
        print_error("%s, shape \"%s\", %s, dropout %u, activation %d, %s: %s\n", op->name,
                    run->shape->name, dtype_name(run->compute), run->threshold,
                    (int)run->activation, run->dev->describe(run->dev), run->complaint);
    }
}

static void against_reference(const char *instructions) {
    struct device *dev = open_device(device_cpu_open, instructions, 2);
    if (dev == NULL) {
        print_message("this processor does not run %s\n", instructions);
        skip();
    }
    int complaints = 0;
    for (int s = 0; s < SHAPES; s++) {
        for_each_case(dev, &shapes[s], report, &complaints);
    }
    dev->close(dev);
    assert_int_equal(complaints, 0);
}

static void generic(void **state) {
    against_reference("generic");
}

static void avx2(void **state) {
    against_reference("avx2");
}

static void avx512(void **state) {
    against_reference("avx512");
}

static void avx512bf16(void **state) {
    against_reference("avx512bf16");
}

struct hashes {
    uint64_t hash[1024];
    int next, differ, first;
};

static void compare(struct op_run *run, const struct op_case *op, void *context) {
    struct hashes *h = context;
    assert_true(h->next < 1024);
    if (h->first) {
        h->hash[h->next] = run->hash;
    } else if (h->hash[h->next] != run->hash) {
        h->differ++;
        print_error("%s, shape \"%s\", %s: other bits with %s\n", op->name, run->shape->name,
                    dtype_name(run->compute), run->dev->describe(run->dev));
    }
    h->next++;
}

// The first device's hashes of the shapes [from, end), or how many of another's differ.
static void hash_shapes(struct hashes *hashes, struct device *dev, int from, int end) {
    hashes->next = 0;
    for (int s = from; s < end; s++) {
        for_each_case(dev, &shapes[s], compare, hashes);
    }
    hashes->first = 0;
}

static void same_bits_for_any_thread_count(void **state) {
    struct hashes hashes = {.first = 1};
    const int threads[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        struct device *dev = open_device(device_cpu_open, "auto", threads[i]);
        hash_shapes(&hashes, dev, SEVERAL_TILES, SHAPES);
        dev->close(dev);
    }
    assert_int_equal(hashes.differ, 0);
}

// Checks that no operand is in the host's memory or exceeds its block, and that no operation is
// left out.
static void guarded(void **state) {
    struct hashes hashes = {.first = 1};
    struct device *cpu = open_device(device_cpu_open, "auto", 2);
    struct device *dev = open_device(device_cuda_open, "auto", 2);
    hash_shapes(&hashes, cpu, 0, SEVERAL_TILES);
    hash_shapes(&hashes, dev, 0, SEVERAL_TILES);
    for (int i = 0; i < OPERATION_COUNT; i++) {
        if (guarded_translation(dev)->calls[i] == 0) {
            fail_msg("the table does not run %s", device_operation_names[i]);
        }
    }
    cpu->close(cpu);
    dev->close(dev);
    assert_int_equal(hashes.differ, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generic),
        cmocka_unit_test(avx2),
        cmocka_unit_test(avx512),
        cmocka_unit_test(avx512bf16),
        cmocka_unit_test(same_bits_for_any_thread_count),
        cmocka_unit_test(guarded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
