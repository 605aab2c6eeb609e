// SPDX-License-Identifier: Apache-2.0
// Tests packed weights: products with them have the bytes of products with the same weights
// unpacked, whatever the number of rows, threads and instructions, and they take the same memory.
#include "core/harness.h"
#include "core/memory.h"
#include "device/device.h"

#include <string.h>

enum { ROWS = 448 }; // of the products that others are compared with, all in Berth's kernels

static uint32_t random_state = 1;

static float random_number(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(int32_t)random_state / 2147483648.0f;
}

struct packed_case {
    int64_t outputs, columns;
    enum dtype type, y_type;
    enum activation activation;
};

// All depths but the last two are multiplied in one go.
static const struct packed_case cases[] = {
    {16, 2, DTYPE_F32, DTYPE_F32, ACTIVATION_LINEAR},
    {48, 30, DTYPE_F32, DTYPE_F32, ACTIVATION_GELU_ERF},
    {64, 33, DTYPE_F32, DTYPE_F32, ACTIVATION_LINEAR},
    {208, 96, DTYPE_BF16, DTYPE_BF16, ACTIVATION_GELU_TANH},
    {384, 130, DTYPE_BF16, DTYPE_F32, ACTIVATION_LINEAR},
    {1008, 64, DTYPE_BF16, DTYPE_BF16, ACTIVATION_LINEAR},
    {112, 2500, DTYPE_F32, DTYPE_F32, ACTIVATION_GELU_ERF},
    {64, 5000, DTYPE_BF16, DTYPE_BF16, ACTIVATION_RELU},
};

struct fixture {
    struct mat x, w, packed, wanted, found; // [ROWS, columns], 2 x [outputs, columns], 2 x y
    float *bias;
};

static struct mat numbers(struct device *dev, int64_t rows, int64_t cols, enum dtype type) {
    const size_t count = (size_t)(rows * cols);
    float *values = memory_array(count, sizeof *values);
    const struct mat m = mat_of(memory_pages(count * dtype_size(type)), rows, cols, type);
    for (size_t i = 0; i < count; i++) {
        values[i] = random_number();
    }
    dev->convert(dev, mat_of(m.data, 1, (int64_t)count, type), values);
    memory_free(values);
    return m;
}

static size_t bytes_of(struct mat m) {
    return (size_t)(m.rows * m.cols) * dtype_size(m.dtype);
}

static void free_mat(struct mat m) {
    memory_pages_free(m.data, bytes_of(m));
}

static struct fixture fixture_of(struct device *dev, const struct packed_case *c) {
    struct fixture f = {.x = numbers(dev, ROWS, c->columns, c->type),
                        .w = numbers(dev, c->outputs, c->columns, c->type),
                        .packed = numbers(dev, c->outputs, c->columns, c->type),
                        .wanted = numbers(dev, ROWS, c->outputs, c->y_type),
                        .found = numbers(dev, ROWS, c->outputs, c->y_type),
                        .bias = memory_array((size_t)c->outputs, sizeof(float))};
    for (int64_t i = 0; i < c->outputs; i++) {
        f.bias[i] = random_number();
    }
    memcpy(f.packed.data, f.w.data, bytes_of(f.w));
    return f;
}

static void fixture_done(struct fixture *f) {
    free_mat(f->x);
    free_mat(f->w);
    free_mat(f->packed);
    free_mat(f->wanted);
    free_mat(f->found);
    memory_free(f->bias);
}

static void check_case(struct device *dev, const struct packed_case *c) {
    static const int64_t rows[] = {1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 128, 200, 257, ROWS};
    struct fixture f = fixture_of(dev, c);
    assert_true(dev->packs(dev, f.packed));
    if (c->activation == ACTIVATION_LINEAR) {
        dev->linear_forward(dev, f.wanted, f.x, f.w, f.bias);
    } else {
        dev->linear_gelu_forward(dev, f.wanted, (struct mat){0}, f.x, f.w, f.bias, c->activation);
    }
    dev->pack(dev, f.packed);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct mat y = mat_rows(f.found, 0, rows[i]);
        memset(f.found.data, 0x5A, bytes_of(f.found));
        dev->linear_packed_forward(dev, y, mat_rows(f.x, 0, rows[i]), f.packed, f.bias,
                                   c->activation);
        assert_memory_equal(y.data, f.wanted.data, bytes_of(y));
    }
    assert_int_equal(dev->status(dev, NULL), BERTH_OK);
    fixture_done(&f);
}

// 0: this processor lacks the instructions.
static int open_with(const struct device_options *options, struct device **dev) {
    const enum berth_status status = device_cpu_open(options, dev, NULL);
    if (status == BERTH_UNAVAILABLE) {
        print_message("not tested: this processor does not run %s\n", options->instructions);
        return 0;
    }
    assert_int_equal(status, BERTH_OK);
    return 1;
}

static void test_bytes(void **state) {
    (void)state;
    static const char *const instructions[] = {INSTRUCTION_SETS};
    static const int threads[] = {1, 2, 3, 16};
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++) {
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            const struct device_options options = {.threads = threads[t],
                                                   .instructions = instructions[i]};
            struct device *dev = NULL;
            if (!open_with(&options, &dev)) {
                break;
            }
            for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
                check_case(dev, &cases[k]);
            }
            dev->close(dev);
        }
    }
}

// Shapes that would need more memory, and odd depths of bf16, are not packed.
static void test_shapes(void **state) {
    (void)state;
    static const char *const instructions[] = {INSTRUCTION_SETS};
    float data[2];
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++) {
        const struct device_options options = {.threads = 1, .instructions = instructions[i]};
        struct device *dev = NULL;
        if (!open_with(&options, &dev)) {
            continue;
        }
        assert_true(dev->packs(dev, mat_of(data, 64, 33, DTYPE_F32)));
        assert_true(dev->packs(dev, mat_of(data, 64, 34, DTYPE_BF16)));
        assert_false(dev->packs(dev, mat_of(data, 60, 34, DTYPE_F32)));
        assert_false(dev->packs(dev, mat_of(data, 64, 33, DTYPE_BF16)));
        assert_false(dev->packs(dev, mat_columns(mat_of(data, 64, 64, DTYPE_F32), 0, 32)));
        dev->close(dev);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
