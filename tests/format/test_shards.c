// SPDX-License-Identifier: Apache-2.0
// Sharded models: the index and the files must agree on every tensor, else the error names the
// tensor.
#include "core/scratch.h"
#include "format/containers/containers.h"
#include "format/containers/shards.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/torch.h"

#define INDEX "model.safetensors.index.json"

static const float numbers[] = {1, 2, 3, 4, 5};

static struct tensor_out tensor(const char *name, size_t index) {
    return (struct tensor_out){
        .name = name, .dtype = TENSOR_F32, .rank = 1, .shape = {1}, .data = numbers + index};
}

// a.safetensors holds x and y, b.safetensors z.
static void write_files(void) {
    struct tensor_out tensors[] = {tensor("x", 0), tensor("y", 1), tensor("z", 2)};
    assert_int_equal(safetensors_write(scratch("a.safetensors"), tensors, 2, NULL, NULL), BERTH_OK);
    assert_int_equal(safetensors_write(scratch("b.safetensors"), tensors + 2, 1, NULL, NULL),
                     BERTH_OK);
}

static void write_index(const char *map) {
    char text[1024];
    snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": 12}, \"weight_map\": %s}", map);
    scratch_write(INDEX, text);
}

static void assert_refused(const char *map, enum berth_status status, const char *part) {
    struct tensor_file file;
    struct berth_error error;
    write_index(map);
    assert_int_equal(tensor_file_open(&file, scratch(INDEX), &error), status);
    assert_message_has(&error, part);
    assert_null(file.entries);
}

#define A "\"a.safetensors\""
#define B "\"b.safetensors\""
#define GOOD "{\"x\": " A ", \"y\": " A ", \"z\": " B "}"

static void test_reading(void **state) {
    (void)state;
    struct tensor_file file;
    struct berth_error error;
    write_files();
    write_index(GOOD);
    if (tensor_file_open(&file, scratch(INDEX), &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_ptr_equal(file.format, &tensor_shards_format);
    assert_int_equal(file.count, 3);
    static const char *const names[] = {"x", "y", "z"};
    for (size_t i = 0; i < 3; i++) {
        float number = 0, converted = 0;
        const struct tensor_entry *entry = tensor_file_find(&file, names[i]);
        assert_int_equal(tensor_file_read(&file, entry, &number, NULL), BERTH_OK);
        assert_int_equal(tensor_file_read_f32(&file, entry, 0, 1, &converted, NULL), BERTH_OK);
        assert_true(number == numbers[i] && converted == numbers[i]);
        // Equal offsets would mean shared data, as of tied weights.
        assert_int_equal(entry->begin, i * sizeof number);
        assert_int_equal(entry->end, (i + 1) * sizeof number);
    }
    tensor_file_close(&file);
    write_index("{}"); // an empty model is valid
    assert_int_equal(tensor_file_open(&file, scratch(INDEX), NULL), BERTH_OK);
    assert_int_equal(file.count, 0);
    tensor_file_close(&file);
}

static void test_disagreements(void **state) {
    (void)state;
    static const struct {
        const char *map, *part;
    } cases[] = {
        {"{\"x\": " A ", \"y\": " A ", \"z\": " B ", \"w\": " B "}",
         "tensor \"w\" is missing from b.safetensors"},
        {"{\"x\": " A "}", "a.safetensors: tensor \"y\": the index places it in no file"},
        {"{\"x\": " A ", \"y\": " B ", \"z\": " B "}",
         "a.safetensors: tensor \"y\": the index places it in b.safetensors"},
        {"{\"x\": " A ", \"x\": " A ", \"y\": " A "}", "duplicate key"},
        {"[]", "key \"weight_map\": expected an object"},
        {"null", "key \"weight_map\": expected an object"},
        {"{\"x\": 1}", "expected the name of a file in the same folder, found \"no text\""},
        {"{\"x\": \"\"}", "tensor \"x\": expected the name of a file"},
        {"{\"x\": \"../a.safetensors\"}", "found \"../a.safetensors\""},
        {"{\"x\": \"/etc/passwd\"}", "found \"/etc/passwd\""},
        {"{\"x\": \"d/a.safetensors\"}", "found \"d/a.safetensors\""},
        {"{\"x\": \".\"}", "found \".\""},
        {"{\"x\": \"..\"}", "found \"..\""},
        {"{\"x\": \"" INDEX "\"}", "expected the name of a file"}, // itself: an endless recursion
    };
    write_files();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(cases[i].map, BERTH_BAD_DATA, cases[i].part);
    }
    assert_refused("{\"x\": \"none.safetensors\"}", BERTH_NO_INPUT, "none.safetensors");
    scratch_write("broken.safetensors", "x");
    assert_refused("{\"x\": \"broken.safetensors\"}", BERTH_BAD_DATA, "broken.safetensors");
    scratch_write(INDEX, "[");
    struct tensor_file file;
    assert_int_equal(tensor_file_open(&file, scratch(INDEX), NULL), BERTH_BAD_DATA);
}

// A tensor in both files: one of them contradicts the index.
static void test_a_tensor_twice(void **state) {
    (void)state;
    struct tensor_out tensors[] = {tensor("z", 3)};
    struct torch_node root = {.kind = TORCH_TENSORS, .count = 1, .tensors = tensors};
    write_files();
    assert_int_equal(torch_write(scratch("c.bin"), &root, NULL), BERTH_OK);
    assert_refused("{\"z\": \"c.bin\", \"zz\": " B "}", BERTH_BAD_DATA,
                   "b.safetensors: tensor \"z\": the index places it in c.bin");
    struct tensor_file file;
    write_index("{\"z\": \"c.bin\"}"); // shards may be torch's
    assert_int_equal(tensor_file_open(&file, scratch(INDEX), NULL), BERTH_OK);
    tensor_file_close(&file);
}

static void test_too_many_files(void **state) {
    (void)state;
    char *text = memory_new(64 * (SHARDS_MAX + 2));
    size_t length = (size_t)sprintf(text, "{\"weight_map\": {");
    for (int i = 0; i <= SHARDS_MAX; i++) {
        length += (size_t)sprintf(text + length, "%s\"%d\": \"%d.bin\"", i > 0 ? "," : "", i, i);
    }
    sprintf(text + length, "}}");
    scratch_write(INDEX, text);
    memory_free(text);
    struct tensor_file file;
    struct berth_error error;
    assert_int_equal(tensor_file_open(&file, scratch(INDEX), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "1001 files; the limit is 1000");
}

static void test_memory_out_at_every_allocation(void **state) {
    (void)state;
    struct tensor_file file;
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t call;
    write_files();
    write_index(GOOD);
    for (call = 1; call < 200 && status != BERTH_OK; call++) {
        memory_fail_at(call, 0);
        status = tensor_file_open(&file, scratch(INDEX), NULL);
        memory_fail_at(0, 0);
        assert_int_equal(status, status == BERTH_OK ? BERTH_OK : BERTH_NO_MEMORY);
    }
    assert_int_equal(status, BERTH_OK);
    assert_in_range(call, 10, 199);
    tensor_file_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_reading),
        SCRATCH_TEST(test_disagreements),
        SCRATCH_TEST(test_a_tensor_twice),
        SCRATCH_TEST(test_too_many_files),
        SCRATCH_TEST(test_memory_out_at_every_allocation),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
