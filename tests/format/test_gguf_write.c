// SPDX-License-Identifier: Apache-2.0
// GGUF files byte by byte: a small reader, written from the format's description, checks them.
#include "core/scratch.h"
#include "format/export/gguf_write.h"

#include <errno.h>

static const float numbers[6] = {1, -2, 0.5f, 65504, 1e-8f, 3};
static const int32_t types[3] = {1, -3, 5};
static const char *const words[3] = {"a", "", "\xE2\x96\x81z"};

static const struct gguf_value values[] = {
    {.key = "general.architecture", .type = GGUF_TEXT, .text = "bert"},
    {.key = "u32", .type = GGUF_U32, .integer = 4000000000},
    {.key = "i8", .type = GGUF_I8, .integer = -5},
    {.key = "u64", .type = GGUF_U64, .integer = 1LL << 40},
    {.key = "f32", .type = GGUF_F32, .real = 1e-12},
    {.key = "f64", .type = GGUF_F64, .real = 0.1},
    {.key = "bool", .type = GGUF_BOOL, .integer = 1},
    {.key = "words", .type = GGUF_TEXT, .elements = words, .count = 3},
    {.key = "types", .type = GGUF_I32, .elements = types, .count = 3},
};
static const struct gguf_tensor tensors[] = {
    {{.name = "m", .dtype = TENSOR_F32, .rank = 2, .shape = {2, 3}, .data = numbers}, TENSOR_F32},
    {{.name = "h", .dtype = TENSOR_F32, .rank = 1, .shape = {5}, .data = numbers}, TENSOR_F16},
    {{.name = "i", .dtype = TENSOR_I32, .rank = 1, .shape = {3}, .data = types}, TENSOR_I32},
};
static const struct gguf_content content = {
    .values = values, .value_count = 9, .tensors = tensors, .tensor_count = 3};

// --- a reader -----------------------------------------------------------------------------------

struct bytes {
    char *begin;
    size_t position, length;
};

static struct bytes load(const char *path) {
    struct bytes bytes = {0};
    assert_int_equal(file_read(path, 1 << 20, &bytes.begin, &bytes.length, NULL), BERTH_OK);
    return bytes;
}

static const void *take(struct bytes *bytes, size_t length) {
    assert_true(length <= bytes->length - bytes->position);
    bytes->position += length;
    return bytes->begin + bytes->position - length;
}

static uint64_t take_number(struct bytes *bytes, size_t size) {
    uint64_t number = 0;
    memcpy(&number, take(bytes, size), size);
    return number;
}

static void expect_number(struct bytes *bytes, size_t size, uint64_t expected) {
    assert_true(take_number(bytes, size) == expected);
}

static void expect_text(struct bytes *bytes, const char *expected) {
    size_t length = strlen(expected);
    expect_number(bytes, 8, length);
    assert_memory_equal(take(bytes, length), expected, length);
}

static void expect_key(struct bytes *bytes, const char *key, uint32_t type) {
    expect_text(bytes, key);
    expect_number(bytes, 4, type);
}

static void expect_values(struct bytes *bytes) {
    float real = 1e-12f;
    double wide = 0.1;
    expect_key(bytes, "general.architecture", 8);
    expect_text(bytes, "bert");
    expect_key(bytes, "u32", 4);
    expect_number(bytes, 4, 4000000000);
    expect_key(bytes, "i8", 1);
    expect_number(bytes, 1, 251);
    expect_key(bytes, "u64", 10);
    expect_number(bytes, 8, 1LL << 40);
    expect_key(bytes, "f32", 6);
    assert_memory_equal(take(bytes, 4), &real, 4);
    expect_key(bytes, "f64", 12);
    assert_memory_equal(take(bytes, 8), &wide, 8);
    expect_key(bytes, "bool", 7);
    expect_number(bytes, 1, 1);
    expect_key(bytes, "words", 9);
    expect_number(bytes, 4, 8);
    expect_number(bytes, 8, 3);
    for (int i = 0; i < 3; i++) {
        expect_text(bytes, words[i]);
    }
    expect_key(bytes, "types", 9);
    expect_number(bytes, 4, 5);
    expect_number(bytes, 8, 3);
    assert_memory_equal(take(bytes, sizeof types), types, sizeof types);
}

static void expect_description(struct bytes *bytes, const char *name, const uint64_t *shape,
                               uint32_t rank, uint32_t type, uint64_t offset) {
    expect_text(bytes, name);
    expect_number(bytes, 4, rank);
    for (uint32_t i = 0; i < rank; i++) {
        expect_number(bytes, 8, shape[i]);
    }
    expect_number(bytes, 4, type);
    expect_number(bytes, 8, offset);
}

static void expect_padding(struct bytes *bytes) {
    while (bytes->position % 32 != 0) {
        expect_number(bytes, 1, 0);
    }
}

static void expect_tensors(struct bytes *bytes) {
    static const uint16_t halves[5] = {0x3C00, 0xC000, 0x3800, 0x7BFF, 0}; // of `numbers`
    expect_description(bytes, "m", (uint64_t[]){3, 2}, 2, 0, 0);
    expect_description(bytes, "h", (uint64_t[]){5}, 1, 1, 32);
    expect_description(bytes, "i", (uint64_t[]){3}, 1, 26, 64);
    expect_padding(bytes);
    assert_memory_equal(take(bytes, sizeof numbers), numbers, sizeof numbers);
    expect_padding(bytes);
    assert_memory_equal(take(bytes, sizeof halves), halves, sizeof halves);
    expect_padding(bytes);
    assert_memory_equal(take(bytes, sizeof types), types, sizeof types);
    expect_padding(bytes);
    assert_int_equal(bytes->position, bytes->length);
}

static void expect_counts(struct bytes *bytes, uint64_t value_count) {
    assert_memory_equal(take(bytes, 4), "GGUF", 4);
    expect_number(bytes, 4, 3);
    expect_number(bytes, 8, 3);
    expect_number(bytes, 8, value_count);
}

// --- tests --------------------------------------------------------------------------------------

static void write_good(const char *path, const struct gguf_content *what) {
    struct berth_error error;
    if (gguf_write(path, what, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static void test_every_byte(void **state) {
    (void)state;
    write_good(scratch("x.gguf"), &content);
    struct bytes bytes = load(scratch("x.gguf"));
    expect_counts(&bytes, 9);
    expect_values(&bytes);
    expect_tensors(&bytes);
    memory_free(bytes.begin);
}

// More numbers than are converted at a time.
static void test_many_narrowed(void **state) {
    (void)state;
    enum { COUNT = 10001 };
    static float many[COUNT];
    for (int i = 0; i < COUNT; i++) {
        many[i] = (float)(i % 2048) - 1024;
    }
    struct gguf_tensor tensor = {
        {.name = "t", .dtype = TENSOR_F32, .rank = 1, .shape = {COUNT}, .data = many}, TENSOR_F16};
    struct gguf_content one = {.tensors = &tensor, .tensor_count = 1};
    write_good(scratch("x.gguf"), &one);
    struct bytes bytes = load(scratch("x.gguf"));
    bytes.position = bytes.length - (2 * COUNT + 31) / 32 * 32;
    for (int i = 0; i < COUNT; i++) {
        float value;
        tensor_convert(TENSOR_F16, take(&bytes, 2), 1, &value);
        assert_true(value == many[i]);
    }
    memory_free(bytes.begin);
}

static void refuse(struct gguf_tensor tensor, const char *because) {
    struct berth_error error;
    struct gguf_content one = {.tensors = &tensor, .tensor_count = 1};
    assert_int_equal(gguf_write(scratch("bad.gguf"), &one, &error), BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, because));
    assert_non_null(strstr(error.message, tensor.tensor.name));
    assert_false(file_exists(scratch("bad.gguf")));
}

static void test_what_gguf_cannot_hold(void **state) {
    (void)state;
    static const double wide[1] = {1};
    char name[66];
    memset(name, 'n', 64);
    name[64] = '\0';
    struct tensor_out out = {
        .name = "t", .dtype = TENSOR_F32, .rank = 1, .shape = {1}, .data = numbers};
    struct tensor_out named = out, cube = out, whole = out, real = out;
    named.name = name;
    cube.rank = 5;
    cube.shape[1] = cube.shape[2] = cube.shape[3] = cube.shape[4] = 1;
    whole.dtype = TENSOR_U64;
    real.dtype = TENSOR_F64;
    real.data = wide;
    refuse((struct gguf_tensor){named, TENSOR_F32}, "63 bytes");
    refuse((struct gguf_tensor){cube, TENSOR_F32}, "4 dimensions");
    refuse((struct gguf_tensor){whole, TENSOR_U64}, "no such data type");
    refuse((struct gguf_tensor){real, TENSOR_F16}, "only F32");
    name[63] = '\0';
    struct gguf_tensor longest = {named, TENSOR_F32};
    struct gguf_content one = {.tensors = &longest, .tensor_count = 1};
    write_good(scratch("good.gguf"), &one);
}

// Every failing system call gives an error and leaves no file.
static void test_failing_calls(void **state) {
    (void)state;
    char *path = memory_string(scratch("x.gguf"));
    file_fail_at(0, 0);
    write_good(path, &content);
    uint64_t calls = file_fail_at(0, 0);
    file_remove(path, NULL);
    assert_true(calls >= 4);
    for (uint64_t n = 1; n < calls; n++) { // the last one syncs the folder: the file exists then
        struct berth_error error = {0};
        file_fail_at(n, ENOSPC);
        assert_int_not_equal(gguf_write(path, &content, &error), BERTH_OK);
        file_fail_at(0, 0);
        assert_non_null(strstr(error.message, "x.gguf"));
        assert_true(dir_is_empty(scratch_folder));
    }
    memory_free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_every_byte),
        SCRATCH_TEST(test_many_narrowed),
        SCRATCH_TEST(test_what_gguf_cannot_hold),
        SCRATCH_TEST(test_failing_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
