// SPDX-License-Identifier: Apache-2.0
// berth_convert with every single system call and every allocation failing: an error, and no part
// of an output, under its name or a temporary one.
#include "berth.h"
#include "core/scratch.h"
#include "format/safetensors.h"

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

// --- names --------------------------------------------------------------------------------------

static const char index_text[] =
    "{\"weight_map\": {\"embeddings.position_ids\": \"a.safetensors\", "
    "\"embeddings.LayerNorm.bias\": \"a.safetensors\", \"%s\": \"b.safetensors\"}}";

static void write_shard(const char *name, const struct tensor_out *tensors, size_t count) {
    char *path = path_join(scratch("model"), name);
    assert_int_equal(safetensors_write(path, tensors, count, NULL, NULL), BERTH_OK);
    memory_free(path);
}

// A model of two files, in the second one tensor of that name.
static void make_shards(const char *name) {
    static const int64_t positions[2] = {0, 1};
    static const uint16_t halves[2] = {0x3C00, 0x4000};
    char text[512], *model = memory_string(scratch("model"));
    assert_int_equal(dir_remove(model, NULL), BERTH_OK);
    make_model(model);
    char *weights = path_join(model, "model.safetensors");
    char *index = path_join(model, "model.safetensors.index.json");
    file_remove(weights, NULL);
    snprintf(text, sizeof text, index_text, name);
    assert_int_equal(file_write(index, text, strlen(text), NULL), BERTH_OK);
    struct tensor_out tensors[2] = {{.name = "embeddings.position_ids",
                                     .dtype = TENSOR_I64,
                                     .rank = 1,
                                     .shape = {2},
                                     .data = positions},
                                    {.name = "embeddings.LayerNorm.bias",
                                     .dtype = TENSOR_F16,
                                     .rank = 1,
                                     .shape = {2},
                                     .data = halves}};
    write_shard("a.safetensors", tensors, 2);
    tensors[1].name = name;
    write_shard("b.safetensors", tensors + 1, 1);
    memory_free(weights);
    memory_free(index);
    memory_free(model);
}

static void expect_tensors(const char *const *names, size_t count) {
    struct safetensors file;
    char *path = path_join(scratch("out"), "model.safetensors");
    assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
    assert_int_equal(convert("hf", NULL), BERTH_OK);
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    assert_int_equal(file.count, count);
    assert_string_equal(safetensors_metadata(&file, "format"), "pt");
    for (size_t i = 0; i < count; i++) {
        const struct tensor_entry *entry = safetensors_find(&file, names[i]);
        assert_non_null(entry);
        assert_int_equal(entry->dtype, strstr(names[i], "ids") ? TENSOR_I64 : TENSOR_F16);
    }
    safetensors_close(&file);
    memory_free(path);
}

static void test_names(void **state) {
    (void)state;
    static const char *const kept[] = {"embeddings.position_ids", "embeddings.LayerNorm.bias",
                                       "pooler.dense.bias"};
    static const char *const translated[] = {"bert.embeddings.LayerNorm.bias",
                                             "bert.embeddings.LayerNorm.weight"};
    make_shards("pooler.dense.bias");
    expect_tensors(kept, 3);
    make_shards("module.bert.embeddings.LayerNorm.gamma");
    expect_tensors(translated, 2);
}

// Two names that become one are refused.
static void test_equal_names(void **state) {
    (void)state;
    struct berth_error error;
    make_shards("module.bert.embeddings.LayerNorm.bias");
    assert_int_equal(convert("hf", &error), BERTH_BAD_DATA);
    assert_non_null(strstr(error.message, "bert.embeddings.LayerNorm.bias"));
    assert_false(dir_exists(scratch("out")));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_names),     TEST(test_equal_names),          TEST(test_failing_calls),
        TEST(test_no_memory), TEST(test_no_memory_to_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
