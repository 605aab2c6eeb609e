// SPDX-License-Identifier: Apache-2.0
// berth_convert with every single system call and every allocation failing: an error, and no part
// of an output, under its name or a temporary one.
#include "berth.h"
#include "core/scratch.h"

#include <errno.h>

static const char *const targets[] = {"hf", "onnx", "gguf"};

static void make_model(const char *path) {
    static const char config[] =
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 16, "
        "\"max_position_embeddings\": 16, \"type_vocab_size\": 2, \"model_type\": \"bert\"}";
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nwor\n##ld\n!\n";
    const char *file = scratch("shape.json");
    assert_int_equal(file_write(file, config, sizeof config - 1, NULL), BERTH_OK);
    assert_int_equal(berth_init_model(file, path, 1, NULL), BERTH_OK);
    file_remove(file, NULL);
    char *vocab_path = path_join(path, "vocab.txt");
    assert_int_equal(file_write(vocab_path, vocab, sizeof vocab - 1, NULL), BERTH_OK);
    memory_free(vocab_path);
}

static enum berth_status convert(const char *to, struct berth_error *error) {
    struct berth_convert_settings settings = {.to = to, .allow_lossy = 1};
    return berth_convert(scratch("model"), scratch("out"), &settings, (struct berth_log){0}, error);
}

static size_t count_names(const char *path) {
    char **names;
    size_t count = 0;
    assert_int_equal(dir_list(path, &names, NULL), BERTH_OK);
    while (names[count] != NULL) {
        count++;
    }
    memory_free(names);
    return count;
}

// Only the model, or the whole output beside it (of `files` files).
static void expect_all_or_nothing(size_t files) {
    size_t names = count_names(scratch_folder);
    if (dir_exists(scratch("out"))) {
        assert_int_equal(names, 2);
        assert_int_equal(count_names(scratch("out")), files);
    } else {
        assert_int_equal(names, 1);
    }
}

static void fail_calls(const char *to) {
    file_fail_at(0, 0);
    assert_int_equal(convert(to, NULL), BERTH_OK);
    uint64_t calls = file_fail_at(0, 0);
    size_t files = count_names(scratch("out"));
    int complete = 0;
    assert_true(calls > 20);
    for (uint64_t n = 1; n <= calls; n++) {
        assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
        struct berth_error error = {0};
        file_fail_at(n, EIO);
        enum berth_status status = convert(to, &error);
        file_fail_at(0, 0);
        assert_int_not_equal(status, BERTH_OK);
        assert_int_not_equal(error.message[0], '\0');
        expect_all_or_nothing(files);
        complete += dir_exists(scratch("out"));
    }
    assert_in_range(complete, 1, 2); // after the new name stands, its folder is opened and synced
}

static void test_failing_calls(void **state) {
    (void)state;
    make_model(scratch("model"));
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        fail_calls(targets[i]);
        dir_remove(scratch("out"), NULL);
    }
}

// A look for a file that need not be there may fail for want of memory without harm.
static void fail_memory(const char *to) {
    assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
    memory_fail_at(0, 0);
    assert_int_equal(convert(to, NULL), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0), refused = 0;
    size_t files = count_names(scratch("out"));
    assert_true(calls > 20);
    for (uint64_t n = 1; n <= calls; n++) {
        assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
        struct berth_error error = {0};
        memory_fail_at(n, 0);
        enum berth_status status = convert(to, &error);
        memory_fail_at(0, 0);
        if (status != BERTH_NO_MEMORY && (status != BERTH_OK || !dir_exists(scratch("out")))) {
            fail_msg("%s: call %d of %d: %d %s", to, (int)n, (int)calls, status, error.message);
        }
        expect_all_or_nothing(files);
        refused += status != BERTH_OK;
    }
    assert_true(refused + 3 >= calls);
}

static void test_no_memory(void **state) {
    (void)state;
    make_model(scratch("model"));
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        fail_memory(targets[i]);
    }
}

static void test_no_memory_to_compare(void **state) {
    (void)state;
    struct berth_comparison comparison;
    make_model(scratch("model"));
    const char *path = scratch("model");
    memory_fail_at(0, 0);
    assert_int_equal(berth_compare(path, path, 0, NULL, NULL, &comparison, NULL), BERTH_OK);
    assert_true(comparison.compared > 20 && comparison.compared == comparison.tensors);
    uint64_t calls = memory_fail_at(0, 0), refused = 0;
    for (uint64_t n = 1; n <= calls; n++) {
        memory_fail_at(n, 0);
        enum berth_status status = berth_compare(path, path, 0, NULL, NULL, &comparison, NULL);
        memory_fail_at(0, 0);
        assert_true(status == BERTH_NO_MEMORY || comparison.compared == comparison.tensors);
        refused += status == BERTH_NO_MEMORY;
    }
    assert_true(refused + 3 >= calls);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_failing_calls),
        TEST(test_no_memory),
        TEST(test_no_memory_to_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
