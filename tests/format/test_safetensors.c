// SPDX-License-Identifier: Apache-2.0
// Well-formed safetensors: round trips, conversions, and the bytes of the reference implementation
// (data/reference.safetensors, made by dev/fixtures/make_safetensors.py).
#include "core/rng.h"
#include "core/scratch.h"
#include "format/safetensors/safetensors.h"

#include <math.h>

#define REFERENCE BERTH_TEST_FORMAT_DATA "/reference.safetensors"

static void open_good(struct safetensors *container, const char *path) {
    struct berth_error error;
    if (safetensors_open(container, path, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

// --- the reference's file -----------------------------------------------------------------------

static void test_reads_the_reference(void **state) {
    (void)state;
    static const float values[] = {0.0f,  -0.0f,    1.0f,     -2.5f,
                                   65504, 0x1p-14f, 0x1p-24f, 0.333251953125f};
    static const char *const names[] = {"f32", "f16", "f64", "bf16"};
    struct safetensors container;
    open_good(&container, REFERENCE);
    assert_int_equal(container.count, 10);
    assert_int_equal(container.ignored_keys, 0);
    assert_string_equal(safetensors_metadata(&container, "format"), "pt");
    assert_null(safetensors_metadata(&container, "pt"));
    for (size_t i = 0; i < 4; i++) {
        float read[8];
        const struct tensor_entry *entry = safetensors_find(&container, names[i]);
        assert_int_equal(safetensors_read_f32(&container, entry, 0, 8, read, NULL), BERTH_OK);
        if (i < 3) {
            assert_memory_equal(read, values, sizeof values);
        } else {
            for (size_t k = 0; k < 8; k++) { // 8 bits of mantissa
                assert_true(fabsf(read[k] - values[k]) <= fabsf(values[k]) / 256);
            }
        }
        assert_int_equal(safetensors_read_f32(&container, entry, 5, 2, read, NULL), BERTH_OK);
        assert_true(read[0] == values[5] && read[1] == values[6]);
    }
    const struct tensor_entry *cube = safetensors_find(&container, "f64");
    assert_int_equal(cube->rank, 3);
    assert_int_equal(cube->shape[0] * cube->shape[1] * cube->shape[2], 8);
    assert_int_equal(safetensors_find(&container, "scalar")->rank, 0);
    assert_int_equal(safetensors_find(&container, "empty")->shape[0], 0);
    assert_non_null(safetensors_find(&container, "name \"quoted\" \\ \u00e9\n"));
    assert_null(safetensors_find(&container, "none"));
    safetensors_close(&container);
    safetensors_close(&container);
}

static void test_other_types_are_raw_only(void **state) {
    (void)state;
    struct safetensors container;
    struct berth_error error;
    int64_t integers[5];
    float read[5];
    open_good(&container, REFERENCE);
    const struct tensor_entry *entry = safetensors_find(&container, "i64");
    assert_int_equal(safetensors_read_f32(&container, entry, 0, 5, read, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "\"i64\": expected F32, F16, BF16 or F64, found I64");
    assert_int_equal(safetensors_read_raw(&container, entry, 0, sizeof integers, integers, NULL),
                     BERTH_OK);
    assert_true(integers[0] == -2 && integers[4] == 2);
    assert_int_equal(safetensors_read_raw(&container, entry, 8, sizeof integers, integers, NULL),
                     BERTH_INTERNAL);
    safetensors_close(&container);
}

// Copies all tensors of an open container, to write them again; free both with memory_free.
static struct tensor_out *copy_tensors(const struct safetensors *container, char **data) {
    struct tensor_out *tensors = memory_array_zeroed(container->count, sizeof *tensors);
    size_t size = (size_t)(container->file.size - container->data_begin);
    *data = memory_new(size);
    for (size_t i = 0; i < container->count; i++) {
        const struct tensor_entry *entry = &container->entries[i];
        tensors[i].name = entry->name;
        tensors[i].dtype = entry->dtype;
        tensors[i].rank = entry->rank;
        memcpy(tensors[i].shape, entry->shape, sizeof entry->shape);
        tensors[i].data = *data + entry->begin;
        assert_int_equal(safetensors_read_raw(container, entry, 0,
                                              (size_t)(entry->end - entry->begin),
                                              *data + entry->begin, NULL),
                         BERTH_OK);
    }
    return tensors;
}

static void test_writes_the_references_bytes(void **state) {
    (void)state;
    struct safetensors container;
    char *data;
    open_good(&container, REFERENCE);
    struct tensor_out *tensors = copy_tensors(&container, &data);
    assert_int_equal(safetensors_write(scratch("a"), tensors, container.count,
                                       (const char *const *)container.metadata, NULL),
                     BERTH_OK);
    assert_same_file(scratch("a"), REFERENCE);
    memory_free(tensors);
    memory_free(data);
    safetensors_close(&container);
}

// Writing over a file that is open for reading: the open one still reads the old data.
static void test_save_over_the_open_file(void **state) {
    (void)state;
    struct safetensors container;
    float one = 1, two = 2, read;
    struct tensor_out tensor = {.name = "x", .dtype = TENSOR_F32, .data = &one};
    assert_int_equal(safetensors_write(scratch("a"), &tensor, 1, NULL, NULL), BERTH_OK);
    open_good(&container, scratch("a"));
    tensor.data = &two;
    assert_int_equal(safetensors_write(scratch("a"), &tensor, 1, NULL, NULL), BERTH_OK);
    const struct tensor_entry *entry = &container.entries[0];
    assert_int_equal(safetensors_read_f32(&container, entry, 0, 1, &read, NULL), BERTH_OK);
    assert_true(read == 1);
    safetensors_close(&container);
    open_good(&container, scratch("a"));
    assert_int_equal(safetensors_read_f32(&container, &container.entries[0], 0, 1, &read, NULL),
                     BERTH_OK);
    assert_true(read == 2);
    safetensors_close(&container);
}

// --- the round-trip property --------------------------------------------------------------------

struct random_tensors {
    size_t count;
    char names[8][32];
    struct tensor_out tensors[8];
    char *data[8];
};

static size_t bytes_of(const struct tensor_out *tensor) {
    size_t bytes = tensor_dtype_size(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++) {
        bytes *= (size_t)tensor->shape[i];
    }
    return bytes;
}

// 1 to 8 tensors of any type with up to 8 dimensions of 0 to 3.
static void make_random(struct random_tensors *random, uint32_t stream) {
    uint64_t at = 0;
    random->count = 1 + rng_below(42, stream, &at, 8);
    for (size_t i = 0; i < random->count; i++) {
        struct tensor_out *tensor = &random->tensors[i];
        snprintf(random->names[i], sizeof random->names[i], "t%u\"\u4e16\\%zu",
                 rng_below(42, stream, &at, 100), i);
        *tensor = (struct tensor_out){.name = random->names[i],
                                      .dtype = rng_below(42, stream, &at, TENSOR_OTHER),
                                      .rank = (int)rng_below(42, stream, &at, 9)};
        for (int k = 0; k < tensor->rank; k++) {
            tensor->shape[k] =
                rng_below(42, stream, &at, 40) == 0 ? 0 : 1 + rng_below(42, stream, &at, 3);
        }
        random->data[i] = memory_new(bytes_of(tensor));
        for (size_t k = 0; k < bytes_of(tensor); k++) {
            random->data[i][k] = (char)rng_draw(42, stream, &at);
        }
        tensor->data = random->data[i];
    }
}

static void assert_tensor_reads_back(const struct safetensors *container,
                                     const struct tensor_out *tensor) {
    const struct tensor_entry *entry = safetensors_find(container, tensor->name);
    assert_non_null(entry);
    assert_string_equal(entry->dtype_name, tensor_dtype_name(tensor->dtype));
    assert_int_equal(entry->dtype, tensor->dtype);
    assert_int_equal(entry->rank, tensor->rank);
    assert_memory_equal(entry->shape, tensor->shape, sizeof entry->shape);
    size_t size = bytes_of(tensor);
    assert_int_equal(entry->end - entry->begin, size);
    assert_int_equal((container->data_begin + entry->begin) % tensor_dtype_size(tensor->dtype), 0);
    char *read = memory_new(size);
    assert_int_equal(safetensors_read_raw(container, entry, 0, size, read, NULL), BERTH_OK);
    assert_memory_equal(read, tensor->data, size);
    memory_free(read);
}

static void test_round_trips(void **state) {
    (void)state;
    static const char *const metadata[] = {"format", "pt", "note", "a \"b\"\n", NULL};
    for (uint32_t stream = 0; stream < 20; stream++) {
        struct random_tensors random;
        struct safetensors container;
        make_random(&random, stream);
        assert_int_equal(
            safetensors_write(scratch("a"), random.tensors, random.count, metadata, NULL),
            BERTH_OK);
        open_good(&container, scratch("a"));
        assert_int_equal(container.count, random.count);
        assert_int_equal(container.data_begin % 8, 0);
        assert_string_equal(safetensors_metadata(&container, "note"), "a \"b\"\n");
        for (size_t i = 0; i < random.count; i++) {
            assert_tensor_reads_back(&container, &random.tensors[i]);
            memory_free(random.data[i]);
        }
        safetensors_close(&container);
    }
}

static void test_no_tensors(void **state) {
    (void)state;
    struct safetensors container;
    assert_int_equal(safetensors_write(scratch("a"), NULL, 0, NULL, NULL), BERTH_OK);
    open_good(&container, scratch("a"));
    assert_int_equal(container.count, 0);
    assert_null(safetensors_find(&container, "x"));
    assert_null(safetensors_metadata(&container, "format"));
    safetensors_close(&container);
}

// The limit on headers applies to writing, too: written files can be read.
static void test_header_too_large_to_write(void **state) {
    (void)state;
    size_t length = (size_t)17 << 20;
    char *text = memory_new(length + 1);
    memset(text, 'x', length);
    text[length] = '\0';
    const char *const metadata[] = {"note", text, NULL};
    struct berth_error error;
    assert_int_equal(safetensors_write(scratch("a"), NULL, 0, metadata, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "limit");
    assert_int_equal(scratch_count(), 0);
    memory_free(text);
}

// --- conversions --------------------------------------------------------------------------------

static float convert_one(enum tensor_dtype dtype, uint64_t bits) {
    char unaligned[9];
    float value;
    memcpy(unaligned + 1, &bits, 8);
    tensor_convert(dtype, unaligned + 1, 1, &value);
    return value;
}

static void test_half_precision(void **state) {
    (void)state;
    assert_true(convert_one(TENSOR_F16, 0x3C00) == 1.0f);
    assert_true(convert_one(TENSOR_F16, 0xC000) == -2.0f);
    assert_true(convert_one(TENSOR_F16, 0x7BFF) == 65504.0f);
    assert_true(convert_one(TENSOR_F16, 0x0400) == 0x1p-14f);
    assert_true(convert_one(TENSOR_F16, 0x03FF) == 1023 * 0x1p-24f);
    assert_true(convert_one(TENSOR_F16, 0x8001) == -0x1p-24f);
    assert_true(convert_one(TENSOR_F16, 0x8000) == 0 && signbit(convert_one(TENSOR_F16, 0x8000)));
    assert_true(convert_one(TENSOR_F16, 0xFC00) == -INFINITY);
    assert_true(isnan(convert_one(TENSOR_F16, 0x7E00)));
    assert_true(convert_one(TENSOR_BF16, 0x3F80) == 1.0f);
    assert_true(convert_one(TENSOR_BF16, 0xC020) == -2.5f);
    assert_true(isinf(convert_one(TENSOR_BF16, 0x7F80)));
}

static void test_wide_precision(void **state) {
    (void)state;
    double value = 0.1;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    assert_true(convert_one(TENSOR_F64, bits) == 0.1f);
    assert_true(convert_one(TENSOR_F32, 0x3F800000) == 1.0f);
    assert_false(tensor_is_convertible(TENSOR_I64));
}

// A file whose data begins at an odd offset, with more numbers than the conversion buffers.
static void test_unaligned_and_long(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    char header[128], *bytes = memory_new(128 + 2 * COUNT);
    snprintf(header, sizeof header,
             " {\"x\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", COUNT,
             2 * COUNT);
    uint64_t length = strlen(header) + (strlen(header) % 2 == 0); // then data_begin is odd
    memset(bytes, ' ', 128);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, strlen(header));
    for (int i = 0; i < COUNT; i++) {
        uint16_t half = (uint16_t)(0x3F80 + i % 128);
        memcpy(bytes + 8 + length + 2 * i, &half, 2);
    }
    assert_int_equal(file_write(scratch("a"), bytes, 8 + length + 2 * COUNT, NULL), BERTH_OK);
    struct safetensors container;
    open_good(&container, scratch("a"));
    assert_int_equal(container.data_begin % 2, 1);
    float *read = memory_array(COUNT, sizeof *read);
    assert_int_equal(safetensors_read_f32(&container, container.entries, 0, COUNT, read, NULL),
                     BERTH_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(read[i] == 1.0f + (float)(i % 128) / 128);
    }
    safetensors_close(&container);
    memory_free(read);
    memory_free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_reads_the_reference),
        SCRATCH_TEST(test_other_types_are_raw_only),
        SCRATCH_TEST(test_writes_the_references_bytes),
        SCRATCH_TEST(test_save_over_the_open_file),
        SCRATCH_TEST(test_round_trips),
        SCRATCH_TEST(test_no_tensors),
        SCRATCH_TEST(test_header_too_large_to_write),
        SCRATCH_TEST(test_half_precision),
        SCRATCH_TEST(test_wide_precision),
        SCRATCH_TEST(test_unaligned_and_long),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
