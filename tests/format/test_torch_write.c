// SPDX-License-Identifier: Apache-2.0
// Writing checkpoints: read back with our reader here, and with torch itself in dev/others.
#include "core/scratch.h"
#include "format/torch/torch.h"

#include <errno.h>

static const float numbers[6] = {0, 1, 2, 3, 4, 5};
static const int64_t shape[] = {2, 3};

static const struct tensor_out tensors[] = {
    {.name = "a.f32", .dtype = TENSOR_F32, .rank = 2, .shape = {2, 3}, .data = numbers},
    {.name = "a.scalar", .dtype = TENSOR_F32, .data = numbers + 5},
    {.name = "empty", .dtype = TENSOR_I64, .rank = 2, .shape = {0, 3}, .data = numbers},
    {.name = "bool", .dtype = TENSOR_BOOL, .rank = 1, .shape = {3}, .data = "\1\0\1"},
    {.name = "f16", .dtype = TENSOR_F16, .rank = 1, .shape = {2}, .data = "\0\x3c\0\x40"},
    {.name = "u8", .dtype = TENSOR_U8, .rank = 1, .shape = {1}, .data = "x"},
};
static const struct tensor_out shard = {
    .name = "w", .dtype = TENSOR_F64, .rank = 1, .shape = {3}, .data = numbers};

static const struct torch_node items[] = {
    {.kind = TORCH_INTEGER, .integer = -1},
    {.kind = TORCH_SIZE, .count = 2, .shape = shape},
    {.kind = TORCH_TENSORS, .count = 1, .tensors = &shard},
};
static const struct torch_node gap[] = {
    {.kind = TORCH_TRUTH}, {.kind = TORCH_ABSENT}, {.kind = TORCH_NONE}};
static const struct torch_node members[] = {
    {.key = "model",
     .kind = TORCH_TENSORS,
     .count = sizeof tensors / sizeof *tensors,
     .tensors = tensors},
    {.key = "step", .kind = TORCH_INTEGER, .integer = 5},
    {.key = "large", .kind = TORCH_INTEGER, .integer = INT64_MIN},
    {.key = "rate", .kind = TORCH_REAL, .real = 0.1},
    {.key = "truth", .kind = TORCH_TRUTH, .integer = 1},
    {.key = "none", .kind = TORCH_NONE},
    {.key = "text", .kind = TORCH_TEXT, .text = "\u00e9"},
    {.key = "list", .kind = TORCH_LIST, .count = 3, .children = items},
    {.key = "empty", .kind = TORCH_DICT},
    {.key = "nothing", .kind = TORCH_TENSORS},
    {.key = "gap", .kind = TORCH_DICT, .count = 3, .children = gap},
};
static const struct torch_node root = {
    .kind = TORCH_DICT, .count = sizeof members / sizeof *members, .children = members};

static void assert_written(const char *path, const struct torch_node *node) {
    struct berth_error error;
    if (torch_write(path, node, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static void open_written(struct torch_file *file, const char *path) {
    struct berth_error error;
    if (torch_open(file, path, PICKLE_KNOWN_NAMES, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

// --- valid trees --------------------------------------------------------------------------------

static void assert_tensor(const struct torch_file *file, size_t index, const char *name,
                          const struct tensor_out *written) {
    const struct tensor_entry *entry = &file->entries[index];
    size_t bytes = (size_t)(entry->end - entry->begin),
           expected = tensor_dtype_size(written->dtype);
    char read[64];
    assert_string_equal(entry->name, name);
    assert_int_equal(entry->dtype, written->dtype);
    assert_int_equal(entry->rank, written->rank);
    assert_memory_equal(entry->shape, written->shape, sizeof entry->shape);
    for (int i = 0; i < written->rank; i++) {
        expected *= (size_t)written->shape[i];
    }
    assert_int_equal(bytes, expected);
    assert_int_equal(entry->begin % 64, 0);
    assert_int_equal(torch_read(file, entry, 0, bytes, read, NULL), BERTH_OK);
    assert_memory_equal(read, written->data, bytes);
}

static void test_round_trip(void **state) {
    (void)state;
    struct torch_file file;
    int64_t number = 0;
    assert_written(scratch("a.pt"), &root);
    open_written(&file, scratch("a.pt"));
    const struct pickle *pickle = &file.pickle;
    assert_int_equal(file.count, 7);
    for (size_t i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "model.%s", tensors[i].name);
        assert_tensor(&file, i, name, &tensors[i]);
    }
    assert_tensor(&file, 6, "list.2.w", &shard);
    assert_int_equal(pickle_length(pickle->root), 11);
    assert_true(pickle_integer(pickle_member(pickle, pickle->root, "step"), &number));
    assert_int_equal(number, 5);
    assert_true(pickle_integer(pickle_member(pickle, pickle->root, "large"), &number));
    assert_int_equal(number, INT64_MIN);
    assert_true(pickle_is(pickle_member(pickle, pickle->root, "rate"), PICKLE_REAL));
    assert_true(pickle_member(pickle, pickle->root, "rate")->real == 0.1);
    assert_int_equal(pickle_member(pickle, pickle->root, "truth")->integer, 1);
    assert_true(pickle_is(pickle_member(pickle, pickle->root, "none"), PICKLE_NONE));
    assert_string_equal(pickle_text(pickle, pickle_member(pickle, pickle->root, "text")), "\u00e9");
    const struct pickle_value *list = pickle_member(pickle, pickle->root, "list");
    assert_true(pickle_integer(pickle_item(pickle, list, 0), &number) && number == -1);
    const struct pickle_value *size = pickle_item(pickle, list, 1);
    assert_true(pickle_integer(pickle_item(pickle, size, 1), &number) && number == 3);
    assert_true(pickle_is(pickle_member(pickle, pickle->root, "nothing"), PICKLE_DICT));
    const struct pickle_value *dict = pickle_member(pickle, pickle->root, "gap");
    assert_int_equal(pickle_length(dict), 2);
    assert_true(pickle_integer(pickle_key(pickle, dict, 1), &number) && number == 2);
    torch_close(&file);
}

// Dictionaries larger than a batch, and more entries than fit a zip archive's 16-bit count.
static void test_many_tensors(void **state) {
    (void)state;
    enum { COUNT = 66000 };
    char(*names)[8] = memory_array(COUNT, sizeof *names);
    struct tensor_out *many = memory_array_zeroed(COUNT, sizeof *many);
    struct torch_file file;
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        many[i] = (struct tensor_out){.name = names[i], .dtype = TENSOR_U8, .data = "x"};
    }
    static const size_t counts[] = {999, 1000, 1001, 2000, COUNT};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct torch_node node = {.kind = TORCH_TENSORS, .count = counts[i], .tensors = many};
        assert_written(scratch("a.pt"), &node);
        open_written(&file, scratch("a.pt"));
        assert_int_equal(file.count, counts[i]);
        assert_string_equal(file.entries[counts[i] - 1].name, names[counts[i] - 1]);
        torch_close(&file);
    }
    memory_free(names);
    memory_free(many);
}

// The archive's folder is the file's name without its ending, where that is a plain one.
static void test_folder_in_the_archive(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"ckpt_7.pt", "ckpt_7/data.pkl"}, {"plain", "plain/data.pkl"},
        {".pt", "archive/data.pkl"},      {"...pt", "archive/data.pkl"},
        {"a b.pt", "archive/data.pkl"},   {"a\\b.pt", "archive/data.pkl"},
        {"a.b.pt", "a.b/data.pkl"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zip zip;
        assert_written(scratch(cases[i][0]), &items[0]);
        assert_int_equal(zip_open(&zip, scratch(cases[i][0]), NULL), BERTH_OK);
        assert_non_null(zip_find(&zip, cases[i][1]));
        zip_close(&zip);
    }
}

// --- errors -------------------------------------------------------------------------------------

static void test_what_torch_cannot_hold(void **state) {
    (void)state;
    struct berth_error error;
    struct tensor_out tensor = {.name = "x", .dtype = TENSOR_U16, .data = numbers};
    struct torch_node node = {.kind = TORCH_TENSORS, .count = 1, .tensors = &tensor};
    assert_int_equal(torch_write(scratch("a.pt"), &node, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "a.pt: tensor \"x\": torch has no storage for U16");
    tensor.dtype = TENSOR_OTHER;
    assert_int_equal(torch_write(scratch("a.pt"), &node, &error), BERTH_CANT_CREATE);
    struct torch_node deep[80];
    for (size_t i = 0; i < 80; i++) {
        deep[i] = (struct torch_node){
            .kind = TORCH_LIST, .count = i < 79 ? 1 : 0, .children = i < 79 ? &deep[i + 1] : NULL};
    }
    assert_int_equal(torch_write(scratch("a.pt"), deep, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "nested deeper than 64");
    assert_int_equal(scratch_count(), 0);
    assert_int_equal(torch_write(scratch("none/a.pt"), &root, NULL), BERTH_CANT_CREATE);
}

// A tensor in the maximum number of lists, and in one more.
static void test_the_deepest(void **state) {
    (void)state;
    enum { LISTS = TORCH_MAX_DEPTH + 1 };
    struct torch_node deep[LISTS + 1];
    struct torch_file file;
    for (size_t i = 0; i < LISTS; i++) {
        deep[i] = (struct torch_node){.kind = TORCH_LIST, .count = 1, .children = &deep[i + 1]};
    }
    deep[LISTS] = (struct torch_node){.kind = TORCH_TENSOR, .tensors = tensors};
    assert_int_equal(torch_write(scratch("a.pt"), deep, NULL), BERTH_CANT_CREATE);
    assert_int_equal(torch_write(scratch("a.pt"), deep + 1, NULL), BERTH_OK);
    assert_int_equal(torch_open(&file, scratch("a.pt"), PICKLE_KNOWN_NAMES, NULL), BERTH_OK);
    assert_int_equal(file.count, 1);
    torch_close(&file);
}

static void test_failures_at_every_call(void **state) {
    (void)state;
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t call;
    for (call = 1; call < 300 && status != BERTH_OK; call++) {
        memory_fail_at(call, 0);
        status = torch_write(scratch("a.pt"), &root, NULL);
        memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        assert_int_equal(scratch_count(), status == BERTH_OK);
    }
    assert_int_equal(status, BERTH_OK);
    assert_in_range(call, 20, 299);
    assert_int_equal(file_remove(scratch("a.pt"), NULL), BERTH_OK);
    status = BERTH_IO;
    for (call = 1; call < 100 && status != BERTH_OK; call++) {
        file_fail_at(call, ENOSPC);
        status = torch_write(scratch("a.pt"), &root, NULL);
        file_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_IO);
        assert_in_range(scratch_count(), 0, 1); // the new file, when only its folder's sync failed
    }
    assert_int_equal(status, BERTH_OK);
    assert_in_range(call, 5, 99);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_round_trip),
        SCRATCH_TEST(test_many_tensors),
        SCRATCH_TEST(test_folder_in_the_archive),
        SCRATCH_TEST(test_what_torch_cannot_hold),
        SCRATCH_TEST(test_the_deepest),
        SCRATCH_TEST(test_failures_at_every_call),
    };
    return cmocka_run_group_tests_name("torch_write", tests, NULL, NULL);
}
