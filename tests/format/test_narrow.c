// SPDX-License-Identifier: Apache-2.0
// Conversions of numbers. f32 to f16 and bf16, for every number of the narrow types: it survives a
// round trip, and numbers between two neighbours are rounded to the nearer one, midpoints to the
// even one.
#include "core/harness.h"
#include "format/tensors/tensor_file.h"

#include <math.h>
#include <string.h>

static float widen(enum tensor_dtype dtype, uint16_t half) {
    float value;
    tensor_convert(dtype, &half, 1, &value);
    return value;
}

static uint16_t narrow(enum tensor_dtype dtype, float value) {
    uint16_t half;
    tensor_narrow(dtype, &value, 1, &half);
    return half;
}

// `low` is finite and not negative; its neighbour above may be the infinity.
static void check_between(enum tensor_dtype dtype, uint16_t low, float largest_step) {
    uint16_t high = (uint16_t)(low + 1), sign = 0x8000u;
    float below = widen(dtype, low), above = widen(dtype, high);
    double step = isinf(above) ? largest_step : (double)above - below;
    float middle = (float)(below + step / 2);
    if (isinf(middle)) {
        return; // beyond the largest f32
    }
    uint16_t even = low % 2 == 0 ? low : high;
    float values[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
    uint16_t expected[] = {even, low, high};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(narrow(dtype, values[i]), expected[i]);
        assert_int_equal(narrow(dtype, -values[i]), expected[i] | sign);
        assert_int_equal(tensor_count_overflows(dtype, &values[i], 1),
                         isinf(widen(dtype, expected[i])) != 0);
    }
}

static void check_all(enum tensor_dtype dtype, uint16_t infinity, float largest_step) {
    for (uint32_t i = 0; i < 0x10000; i++) {
        uint16_t half = (uint16_t)i;
        if ((half & 0x7FFFu) > infinity) {
            assert_true(isnan(widen(dtype, narrow(dtype, widen(dtype, half)))));
        } else {
            assert_int_equal(narrow(dtype, widen(dtype, half)), half);
        }
    }
    for (uint16_t half = 0; half < infinity; half++) {
        check_between(dtype, half, largest_step);
    }
}

static void test_f16(void **state) {
    (void)state;
    check_all(TENSOR_F16, 0x7C00u, 32);
    assert_int_equal(narrow(TENSOR_F16, 1e30f), 0x7C00u);
    assert_int_equal(narrow(TENSOR_F16, -1e-30f), 0x8000u);
    const float numbers[] = {-1e6f, INFINITY, NAN, 65504, 1e5f};
    assert_int_equal(tensor_count_overflows(TENSOR_F16, numbers, 5), 2);
}

static void test_bf16(void **state) {
    (void)state;
    check_all(TENSOR_BF16, 0x7F80u, 0x1p120f);
}

// A NaN whose payload is in the dropped bits stays a NaN.
static void test_hidden_payload(void **state) {
    (void)state;
    uint32_t bits = 0x7F800001u;
    float value;
    memcpy(&value, &bits, sizeof value);
    assert_true(isnan(widen(TENSOR_F16, narrow(TENSOR_F16, value))));
    assert_true(isnan(widen(TENSOR_BF16, narrow(TENSOR_BF16, value))));
}

// --- reading as f32 -----------------------------------------------------------------------------

static size_t reads;

// Element i of the tensor is i.
static enum berth_status read_counted(const struct tensor_file *file,
                                      const struct tensor_entry *entry, uint64_t first,
                                      size_t bytes, void *to, struct berth_error *error) {
    const size_t size = tensor_dtype_size(entry->dtype);
    reads++;
    for (size_t i = 0; i < bytes / size; i++) {
        const double number = (double)(first / size + i);
        const float single = (float)number;
        if (size == 2) {
            tensor_narrow(entry->dtype, &single, 1, (char *)to + 2 * i);
        } else {
            memcpy((char *)to + size * i, size == 8 ? (const void *)&number : &single, size);
        }
    }
    return BERTH_OK;
}

// Each read of a part of a transposed tensor costs as much as one of the whole.
static void test_few_reads(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    static const struct {
        enum tensor_dtype dtype;
        size_t most;
    } cases[] = {{TENSOR_F32, 1}, {TENSOR_BF16, 1}, {TENSOR_F16, 1}, {TENSOR_F64, 5}};
    static const struct tensor_format format = {.name = "test", .read = read_counted};
    const struct tensor_file file = {.format = &format, .path = "test"};
    static float numbers[COUNT + 1];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct tensor_entry entry = {.name = "x", .dtype = cases[c].dtype};
        for (int64_t first = 0, count = COUNT; count > 0; first += 3, count /= 3) {
            reads = 0;
            numbers[count] = -1;
            assert_int_equal(tensor_file_read_f32(&file, &entry, first, count, numbers, NULL),
                             BERTH_OK);
            assert_in_range(reads, 1, cases[c].most);
            for (int64_t i = 0; i < count; i++) {
                const float exact = (float)(first + i);
                const int is_half = tensor_dtype_size(entry.dtype) == 2;
                assert_true(numbers[i] ==
                            (is_half ? widen(entry.dtype, narrow(entry.dtype, exact)) : exact));
            }
            assert_true(numbers[count] == -1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_hidden_payload),
        cmocka_unit_test(test_few_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
