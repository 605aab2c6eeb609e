// SPDX-License-Identifier: Apache-2.0
// ONNX files field by field (field numbers as in onnx.proto), with weights in the same file and in
// a second one.
#include "core/scratch.h"
#include "format/export/onnx_write.h"
#include "format/onnx_reader.h"

#include <errno.h>

static float numbers[600];
static const float scale = 0.25f;

static const struct tensor_out weights[] = {
    {.name = "large", .dtype = TENSOR_F32, .rank = 2, .shape = {2, 300}, .data = numbers},
    {.name = "small", .dtype = TENSOR_F32, .rank = 1, .shape = {3}, .data = numbers + 1},
    {.name = "half", .dtype = TENSOR_F16, .rank = 1, .shape = {1200}, .data = numbers},
};

static void make_graph(struct onnx_graph *graph) {
    static const int64_t order[2] = {1, 0};
    for (int i = 0; i < 600; i++) {
        numbers[i] = (float)i / 8;
    }
    *graph = (struct onnx_graph){0};
    struct onnx_value x = {
        .name = "x", .dtype = TENSOR_I64, .rank = 2, .shape = {{.name = "batch"}, {.size = 7}}};
    onnx_add_input(graph, &x);
    x = (struct onnx_value){.name = "y", .dtype = TENSOR_F32};
    onnx_add_output(graph, &x);
    onnx_add_constant(graph,
                      &(struct tensor_out){.name = "scale", .dtype = TENSOR_F32, .data = &scale});
    for (size_t i = 0; i < 3; i++) {
        onnx_add_weight(graph, &weights[i]);
    }
    struct onnx_node node = {.operation = "Mul", .inputs = {"large", "scale"}, .outputs = {"z"}};
    onnx_add_node(graph, &node);
    node =
        (struct onnx_node){.operation = "Made",
                           .inputs = {"z", "x", "small", "half"},
                           .outputs = {"y", "unused"},
                           .attributes = {{.name = "axis", .kind = ONNX_INTEGER, .integer = -1},
                                          {.name = "epsilon", .kind = ONNX_REAL, .real = 1e-5f}}};
    onnx_add_node(graph, &node);
    node = (struct onnx_node){
        .operation = "Transpose",
        .inputs = {"y"},
        .outputs = {"t"},
        .attributes = {{.name = "perm", .kind = ONNX_INTEGERS, .integers = order, .count = 2}}};
    onnx_add_node(graph, &node);
}

static enum berth_status write_to(const char *path, uint64_t limit, struct berth_error *error) {
    struct onnx_graph graph;
    make_graph(&graph);
    struct onnx_model model = {
        .graph = &graph, .name = "made", .ir_version = 8, .opset = 17, .file_limit = limit};
    enum berth_status status = onnx_write(path, &model, error);
    onnx_graph_done(&graph);
    return status;
}

static char *load(const char *path, uint64_t limit, message *model) {
    char *bytes;
    size_t length;
    struct berth_error error;
    if (write_to(path, limit, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(file_read(path, 1 << 20, &bytes, &length, NULL), BERTH_OK);
    *model = protobuf_read(bytes, length, path);
    return bytes;
}

// --- the graph ----------------------------------------------------------------------------------

static void test_model(void **state) {
    (void)state;
    message model;
    char *bytes = load(scratch("x.onnx"), 0, &model);
    assert_true(number_at(model, 1, 0) == 8);
    expect_text_at(model, 2, 0, "berth");
    assert_true(number_at(message_at(model, 8, 0), 2, 0) == 17);
    assert_int_equal(count_fields(model, 7), 1);
    message graph = message_at(model, 7, 0);
    expect_text_at(graph, 2, 0, "made");
    assert_int_equal(count_fields(graph, 1), 3);
    assert_int_equal(count_fields(graph, 5), 4);
    assert_int_equal(count_fields(graph, 11), 1);
    assert_int_equal(count_fields(graph, 12), 1);
    assert_false(file_exists(scratch("x.onnx.data")));
    memory_free(bytes);
}

static void test_nodes(void **state) {
    (void)state;
    message model;
    char *bytes = load(scratch("x.onnx"), 0, &model);
    message graph = message_at(model, 7, 0), node = message_at(graph, 1, 1);
    static const char *const inputs[] = {"z", "x", "small", "half"};
    assert_int_equal(count_fields(message_at(graph, 1, 0), 1), 2);
    assert_int_equal(count_fields(node, 1), 4);
    for (size_t i = 0; i < 4; i++) {
        expect_text_at(node, 1, i, inputs[i]);
    }
    expect_text_at(node, 2, 0, "y");
    expect_text_at(node, 2, 1, "unused");
    expect_text_at(node, 3, 0, "y");
    expect_text_at(node, 4, 0, "Made");
    message axis = message_at(node, 5, 0), epsilon = message_at(node, 5, 1);
    expect_text_at(axis, 1, 0, "axis");
    assert_true((int64_t)number_at(axis, 3, 0) == -1 && number_at(axis, 20, 0) == 2);
    float expected = 1e-5f;
    uint32_t bits;
    memcpy(&bits, &expected, sizeof bits);
    assert_true(number_at(epsilon, 2, 0) == bits && number_at(epsilon, 20, 0) == 1);
    message order = message_at(message_at(graph, 1, 2), 5, 0);
    assert_true(number_at(order, 8, 0) == 1 && number_at(order, 8, 1) == 0);
    assert_true(count_fields(order, 8) == 2 && number_at(order, 20, 0) == 7);
    memory_free(bytes);
}

static void test_inputs_and_outputs(void **state) {
    (void)state;
    message model;
    char *bytes = load(scratch("x.onnx"), 0, &model);
    message graph = message_at(model, 7, 0);
    message input = message_at(graph, 11, 0), type = message_at(message_at(input, 2, 0), 1, 0);
    expect_text_at(input, 1, 0, "x");
    assert_true(number_at(type, 1, 0) == 7);
    message shape = message_at(type, 2, 0);
    assert_int_equal(count_fields(shape, 1), 2);
    expect_text_at(message_at(shape, 1, 0), 2, 0, "batch");
    assert_true(number_at(message_at(shape, 1, 1), 1, 0) == 7);
    message output = message_at(graph, 12, 0);
    expect_text_at(output, 1, 0, "y");
    type = message_at(message_at(output, 2, 0), 1, 0);
    assert_true(number_at(type, 1, 0) == 1);
    assert_int_equal(count_fields(message_at(type, 2, 0), 1), 0);
    memory_free(bytes);
}

// --- weights ------------------------------------------------------------------------------------

static void expect_internal(message graph, size_t n, const char *name, uint32_t type,
                            const void *data, size_t length) {
    message tensor = message_at(graph, 5, n);
    struct protobuf_field raw = field_at(tensor, 9, 0);
    expect_text_at(tensor, 8, 0, name);
    assert_true(number_at(tensor, 2, 0) == type);
    assert_int_equal(raw.length, length);
    assert_memory_equal(raw.bytes, data, length);
    assert_int_equal(count_fields(tensor, 14), 0);
}

static void test_internal_weights(void **state) {
    (void)state;
    message model;
    char *bytes = load(scratch("x.onnx"), 0, &model);
    message graph = message_at(model, 7, 0);
    expect_internal(graph, 0, "scale", 1, &scale, sizeof scale);
    expect_internal(graph, 1, "large", 1, numbers, sizeof numbers);
    expect_internal(graph, 2, "small", 1, numbers + 1, 12);
    expect_internal(graph, 3, "half", 10, numbers, 2400);
    message large = message_at(graph, 5, 1);
    assert_true(number_at(large, 1, 0) == 2 && number_at(large, 1, 1) == 300);
    assert_int_equal(count_fields(message_at(graph, 5, 0), 1), 0);
    memory_free(bytes);
}

static void expect_external(message graph, size_t n, const char *offset, const char *length) {
    static const char *const keys[] = {"location", "offset", "length"};
    const char *const values[] = {"x.onnx.data", offset, length};
    message tensor = message_at(graph, 5, n);
    assert_int_equal(count_fields(tensor, 9), 0);
    assert_true(number_at(tensor, 14, 0) == 1);
    for (size_t i = 0; i < 3; i++) {
        expect_text_at(message_at(tensor, 13, i), 1, 0, keys[i]);
        expect_text_at(message_at(tensor, 13, i), 2, 0, values[i]);
    }
}

static void test_external_weights(void **state) {
    (void)state;
    message model;
    char *bytes = load(scratch("x.onnx"), 5000, &model), *data;
    size_t length;
    message graph = message_at(model, 7, 0);
    expect_internal(graph, 0, "scale", 1, &scale, sizeof scale);
    expect_external(graph, 1, "0", "2400");
    expect_internal(graph, 2, "small", 1, numbers + 1, 12);
    expect_external(graph, 3, "4096", "2400");
    assert_int_equal(file_read(scratch("x.onnx.data"), 1 << 20, &data, &length, NULL), BERTH_OK);
    assert_int_equal(length, 8192);
    assert_memory_equal(data, numbers, 2400);
    assert_memory_equal(data + 4096, numbers, 2400);
    for (size_t i = 2400; i < 4096; i++) {
        assert_true(data[i] == 0 && data[4096 + i] == 0);
    }
    memory_free(data);
    memory_free(bytes);
}

// Up to the limit the weights stay in the file, which is then no larger than the limit.
static void test_limit(void **state) {
    (void)state;
    message model;
    memory_free(load(scratch("whole.onnx"), 0, &model));
    size_t size = (size_t)(model.end - model.begin);
    int internal = 0, external = 0;
    for (uint64_t limit = size; limit < size + 4200; limit += 97) {
        memory_free(load(scratch("x.onnx"), limit, &model));
        if (file_exists(scratch("x.onnx.data"))) {
            external++;
            file_remove(scratch("x.onnx.data"), NULL);
        } else {
            internal++;
            assert_true((uint64_t)(model.end - model.begin) <= limit);
        }
    }
    assert_true(internal > 0 && external > 0);
}

// --- failures -----------------------------------------------------------------------------------

static void test_same_bytes(void **state) {
    (void)state;
    message first, second;
    char *a = load(scratch("a.onnx"), 0, &first), *b = load(scratch("b.onnx"), 0, &second);
    assert_int_equal(first.end - first.begin, second.end - second.begin);
    assert_memory_equal(a, b, (size_t)(first.end - first.begin));
    memory_free(a);
    memory_free(b);
}

static void test_unknown_type(void **state) {
    (void)state;
    struct onnx_graph graph = {0};
    struct tensor_out odd = {.name = "odd", .dtype = TENSOR_OTHER, .data = numbers};
    onnx_add_weight(&graph, &odd);
    struct onnx_model model = {.graph = &graph, .name = "g", .ir_version = 8, .opset = 17};
    struct berth_error error;
    assert_int_equal(onnx_write(scratch("x.onnx"), &model, &error), BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, "\"odd\""));
    assert_true(dir_is_empty(scratch_folder));
    onnx_graph_done(&graph);
}

// Every failing system call gives an error and leaves neither file. The last call of a file syncs
// the folder: the file exists then.
static void test_failing_calls(void **state) {
    (void)state;
    static const uint64_t limits[] = {0, 5000};
    char *path = memory_string(scratch("x.onnx"));
    for (size_t i = 0; i < 2; i++) {
        file_fail_at(0, 0);
        assert_int_equal(write_to(path, limits[i], NULL), BERTH_OK);
        uint64_t calls = file_fail_at(0, 0);
        assert_true(calls >= 4);
        for (uint64_t n = 1; n < calls; n++) {
            file_remove(path, NULL);
            file_remove(scratch("x.onnx.data"), NULL);
            struct berth_error error = {0};
            file_fail_at(n, ENOSPC);
            assert_int_not_equal(write_to(path, limits[i], &error), BERTH_OK);
            file_fail_at(0, 0);
            assert_non_null(strstr(error.message, "x.onnx"));
            assert_true(dir_is_empty(scratch_folder));
        }
    }
    memory_free(path);
}

static void test_no_memory(void **state) {
    (void)state;
    char *path = memory_string(scratch("x.onnx"));
    memory_fail_at(0, 0);
    assert_int_equal(write_to(path, 5000, NULL), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0);
    assert_true(calls > 8);
    for (uint64_t n = 1; n <= calls; n++) {
        file_remove(path, NULL);
        file_remove(scratch("x.onnx.data"), NULL);
        struct berth_error error = {0};
        memory_fail_at(n, 0);
        assert_int_equal(write_to(path, 5000, &error), BERTH_NO_MEMORY);
        memory_fail_at(0, 0);
        assert_int_not_equal(error.message[0], '\0');
        assert_true(dir_is_empty(scratch_folder));
    }
    memory_free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_model),
        SCRATCH_TEST(test_nodes),
        SCRATCH_TEST(test_inputs_and_outputs),
        SCRATCH_TEST(test_internal_weights),
        SCRATCH_TEST(test_external_weights),
        SCRATCH_TEST(test_limit),
        SCRATCH_TEST(test_same_bytes),
        SCRATCH_TEST(test_unknown_type),
        SCRATCH_TEST(test_failing_calls),
        SCRATCH_TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
