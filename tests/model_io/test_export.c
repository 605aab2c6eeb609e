// SPDX-License-Identifier: Apache-2.0
// Tests the graphs and GGUF files of the tiny golden models: they are well-formed, contain every
// parameter with its numbers, and equal byte for byte those that ONNX Runtime, onnx's checker and
// gguf-py accepted (dev/others shows the same hashes).
#include "core/scratch.h"
#include "format/checksum/digest.h"
#include "format/onnx_reader.h"
#include "golden/golden_file.h"
#include "model/export_gguf.h"
#include "model/export_onnx.h"

struct tiny {
    struct safetensors file;
    struct bert_config config;
    struct param_table table;
    float *buffer;
};

static void tiny_open(struct tiny *tiny, const char *name, enum param_head head) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", BERTH_TEST_SOURCE_DIR, name);
    golden_file_open(&tiny->file, path);
    const char *config = safetensors_metadata(&tiny->file, "config");
    assert_int_equal(bert_config_read_memory(path, config, strlen(config), &tiny->config, NULL),
                     BERTH_OK);
    assert_int_equal(param_table_init(&tiny->table, &tiny->config, head, NULL), BERTH_OK);
    tiny->buffer = memory_array_zeroed((size_t)tiny->table.total, sizeof *tiny->buffer);
    for (size_t i = 0; i < tiny->table.count; i++) {
        const struct param *param = &tiny->table.params[i];
        const struct tensor_entry *entry = golden_entry(&tiny->file, "", param->name);
        assert_int_equal(safetensors_read_f32(&tiny->file, entry, 0, param->rows * param->cols,
                                              tiny->buffer + param->offset, NULL),
                         BERTH_OK);
    }
}

static void tiny_close(struct tiny *tiny) {
    memory_free(tiny->buffer);
    param_table_done(&tiny->table);
    bert_config_done(&tiny->config);
    safetensors_close(&tiny->file);
}

static void write_onnx(const struct tiny *tiny, const char *path, uint64_t limit) {
    struct berth_error error;
    if (export_onnx_write(path, &tiny->config, &tiny->table, tiny->buffer, limit, &error)) {
        fail_msg("%s", error.message);
    }
}

static void write_gguf(const struct tiny *tiny, const char *path, const struct export_gguf *more) {
    struct berth_error error;
    struct export_gguf export = *more;
    export.config = &tiny->config;
    export.table = &tiny->table;
    export.buffer = tiny->buffer;
    if (export_gguf_write(path, &export, &error)) {
        fail_msg("%s", error.message);
    }
}

// --- hashes -------------------------------------------------------------------------------------

static const struct hash_row {
    const char *name;
    enum param_head head;
    const char *onnx, *gguf;
} hash_rows[] = {
    {"tiny_h20", PARAM_HEAD_SPAN,
     "a0b6b00ad6d329de046a30ac2134d4212ed51ab343422ab36863fbb1984ce76d", NULL},
    {"tiny_h20", PARAM_HEAD_NONE,
     "44db6a7062906ecc1077b1fa2ccea05adeb47586db324049b4a0959174c2078f",
     "922ac841f9ae757af4ab29b5247039554b6b412c0ce4c3c67598844fc37d0718"},
    {"tiny_h36", PARAM_HEAD_SPAN,
     "907f712d0a12157ecb40ab2a00efa7a48bc4ae72cfb64d5db1d2c19b21358516", NULL},
    {"tiny_h36", PARAM_HEAD_NONE,
     "2dcdf3478ab4cb3bf098b68066d3bd40b2422a8d693dac84e2eb18b0757babdc",
     "ceaeaf8ce46a8eca3bd9300b790497b4fccf6bddffa0fa47ebdb8b483157ee20"},
    {"class_five", PARAM_HEAD_CLASS,
     "d86a42de7966aa8fa734a750379d30f0f812871214bb1c8f28fbe1dcd077621e", NULL},
    {"token_plain", PARAM_HEAD_TOKEN,
     "b14ade813650b0681a8748c01a37ebce1fb4f141cca042bae4b1f1e854f7dffa", NULL},
    {"class_regression", PARAM_HEAD_CLASS,
     "6a27df7a6f8a1262b4cac17ccce718b245bf36fb0de16931351dbe538c63487f", NULL},
};

static void expect_hash(const char *path, const char *expected) {
    char hex[DIGEST_HEX_SIZE];
    assert_int_equal(digest_file(DIGEST_SHA256, path, hex, NULL), BERTH_OK);
    assert_string_equal(hex, expected);
}

static void test_hashes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hash_rows / sizeof *hash_rows; i++) {
        struct tiny tiny;
        tiny_open(&tiny, hash_rows[i].name, hash_rows[i].head);
        write_onnx(&tiny, scratch("x.onnx"), 0);
        expect_hash(scratch("x.onnx"), hash_rows[i].onnx);
        if (hash_rows[i].gguf != NULL) {
            write_gguf(&tiny, scratch("x.gguf"),
                       &(struct export_gguf){.name = hash_rows[i].name, .matrices = TENSOR_F32});
            expect_hash(scratch("x.gguf"), hash_rows[i].gguf);
        }
        tiny_close(&tiny);
    }
}

// --- the graph ----------------------------------------------------------------------------------

struct names {
    struct protobuf_field list[1000];
    int used[1000];
    size_t count;
};

static size_t find_name(const struct names *names, const struct protobuf_field *name) {
    for (size_t i = 0; i < names->count; i++) {
        if (names->list[i].length == name->length &&
            memcmp(names->list[i].bytes, name->bytes, name->length) == 0) {
            return i;
        }
    }
    return names->count;
}

static void define(struct names *names, struct protobuf_field name) {
    assert_int_equal(find_name(names, &name), names->count);
    assert_true(names->count < 1000 && name.length > 0);
    names->list[names->count] = name;
    names->used[names->count++] = 0;
}

static void use(struct names *names, struct protobuf_field name) {
    size_t i = find_name(names, &name);
    if (i == names->count) {
        fail_msg("%.*s is used before it is defined", (int)name.length, name.bytes);
    }
    names->used[i] = 1;
}

// Defines the names of all messages of one field of the graph: inputs (11), weights (5).
static void define_all(struct names *names, message graph, uint32_t number, uint32_t name_number) {
    for (size_t i = 0; i < count_fields(graph, number); i++) {
        define(names, field_at(message_at(graph, number, i), name_number, 0));
    }
}

static void walk_nodes(struct names *names, message graph) {
    struct protobuf_field field, name;
    message nodes = graph;
    while (next_field(&nodes, 1, &field)) {
        message node = protobuf_inside(&graph, &field), inputs = node, outputs = node;
        while (next_field(&inputs, 1, &name)) {
            use(names, name);
        }
        while (next_field(&outputs, 2, &name)) {
            define(names, name);
        }
    }
}

static char *load(const char *path, message *model) {
    char *bytes;
    size_t length;
    assert_int_equal(file_read(path, 1 << 24, &bytes, &length, NULL), BERTH_OK);
    *model = protobuf_read(bytes, length, path);
    return bytes;
}

static void check_graph_of(const struct tiny *tiny, size_t outputs) {
    static struct names names; // large
    message model;
    write_onnx(tiny, scratch("x.onnx"), 0);
    char *bytes = load(scratch("x.onnx"), &model);
    message graph = message_at(model, 7, 0);
    names.count = 0;
    define_all(&names, graph, 11, 1);
    define_all(&names, graph, 5, 8);
    walk_nodes(&names, graph);
    assert_int_equal(count_fields(graph, 12), outputs);
    for (size_t i = 0; i < outputs; i++) {
        use(&names, field_at(message_at(graph, 12, i), 1, 0));
    }
    for (size_t i = 0; i < names.count; i++) {
        if (!names.used[i]) {
            fail_msg("%.*s is never used", (int)names.list[i].length, names.list[i].bytes);
        }
    }
    memory_free(bytes);
}

static void check_graph(const char *golden, enum param_head head, size_t outputs) {
    struct tiny tiny;
    tiny_open(&tiny, golden, head);
    check_graph_of(&tiny, outputs);
    tiny_close(&tiny);
}

static void test_graphs_are_sound(void **state) {
    (void)state;
    check_graph("tiny_h20", PARAM_HEAD_SPAN, 2);
    check_graph("tiny_h20", PARAM_HEAD_NONE, 1);
    check_graph("tiny_h24_many", PARAM_HEAD_SPAN, 2);
    check_graph("tiny_h48_one_token", PARAM_HEAD_NONE, 1);
    check_graph("class_five", PARAM_HEAD_CLASS, 1);
    check_graph("token_plain", PARAM_HEAD_TOKEN, 1);
    check_graph("masked_erf", PARAM_HEAD_MASKED, 1);
}

// ONNX Runtime warns of constants that no node uses.
static void test_each_activation_has_its_constants(void **state) {
    (void)state;
    struct tiny tiny;
    tiny_open(&tiny, "tiny_h20", PARAM_HEAD_NONE);
    for (int activation = 0; activation < ACTIVATION_COUNT; activation++) {
        tiny.config.hidden_act = (enum activation)activation;
        check_graph_of(&tiny, 1);
    }
    tiny_close(&tiny);
}

static void expect_param(const struct tiny *tiny, const struct param *param, message graph) {
    for (size_t i = 0; i < count_fields(graph, 5); i++) {
        message tensor = message_at(graph, 5, i);
        struct protobuf_field name = field_at(tensor, 8, 0);
        if (is_text(&name, param->name)) {
            struct protobuf_field raw = field_at(tensor, 9, 0);
            size_t bytes = (size_t)(param->rows * param->cols) * sizeof(float);
            assert_true(number_at(tensor, 1, 0) ==
                        (uint64_t)(param->rank == 2 ? param->rows : param->cols));
            assert_int_equal(count_fields(tensor, 1), param->rank);
            assert_int_equal(raw.length, bytes);
            assert_memory_equal(raw.bytes, tiny->buffer + param->offset, bytes);
            return;
        }
    }
    fail_msg("no weight %s", param->name);
}

static void test_weights_are_the_parameters(void **state) {
    (void)state;
    struct tiny tiny;
    message model;
    tiny_open(&tiny, "tiny_h36", PARAM_HEAD_SPAN);
    write_onnx(&tiny, scratch("x.onnx"), 0);
    char *bytes = load(scratch("x.onnx"), &model);
    for (size_t i = 0; i < tiny.table.count; i++) {
        expect_param(&tiny, &tiny.table.params[i], message_at(model, 7, 0));
    }
    memory_free(bytes);
    tiny_close(&tiny);
}

// In the separate file, the same numbers are at the offsets, and every weight is somewhere in it.
static void test_weights_beside(void **state) {
    (void)state;
    struct tiny tiny;
    message model;
    size_t length;
    char *data;
    tiny_open(&tiny, "tiny_h36", PARAM_HEAD_SPAN);
    write_onnx(&tiny, scratch("x.onnx"), 20000);
    char *bytes = load(scratch("x.onnx"), &model);
    assert_int_equal(file_read(scratch("x.onnx.data"), 1 << 24, &data, &length, NULL), BERTH_OK);
    assert_true(model.end - model.begin < 60000);
    for (size_t i = 0; i < tiny.table.count; i++) {
        const struct param *param = &tiny.table.params[i];
        size_t size = (size_t)(param->rows * param->cols) * sizeof(float);
        int beside = memmem(data, length, tiny.buffer + param->offset, size) != NULL;
        assert_int_equal(beside, size >= 1024);
    }
    memory_free(data);
    memory_free(bytes);
    tiny_close(&tiny);
}

// --- gguf ---------------------------------------------------------------------------------------

// GGUF's texts: a 64-bit length and the bytes.
static size_t put_text(char *to, const char *text) {
    uint64_t length = strlen(text);
    memcpy(to, &length, sizeof length);
    memcpy(to + sizeof length, text, (size_t)length);
    return sizeof length + (size_t)length;
}

static void expect_texts(const char *bytes, size_t length, const char *const *texts, size_t count) {
    char expected[512];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += put_text(expected + used, texts[i]);
    }
    assert_non_null(memmem(bytes, length, expected, used));
}

static void expect_id(const char *bytes, size_t length, const char *key, uint32_t id) {
    char expected[128];
    size_t used = put_text(expected, key);
    memcpy(expected + used, (uint32_t[]){4, id}, 8);
    assert_non_null(memmem(bytes, length, expected, used + 8));
}

static void test_tokens(void **state) {
    (void)state;
    static const char *const tokens[] = {"[UNK]", "[PAD]", "[CLS]",   "[SEP]", "[MASK]",
                                         "a",     "##b",   "[other]", "#",     "##"};
    static const char *const phantom[] = {"[UNK]",
                                          "[PAD]",
                                          "[CLS]",
                                          "[SEP]",
                                          "[MASK]",
                                          "\xE2\x96\x81\x61",
                                          "b",
                                          "\xE2\x96\x81[other]",
                                          "\xE2\x96\x81#",
                                          "",
                                          "\xE2\x96\x81[PAD10]",
                                          "\xE2\x96\x81[PAD11]"};
    static const int32_t types[] = {3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 5, 5};
    const struct export_gguf_tokens word_pieces = {.kind = GGUF_WORD_PIECES,
                                                   .texts = tokens,
                                                   .types = types,
                                                   .count = 10,
                                                   .unknown = 0,
                                                   .pad = 1,
                                                   .cls = 2,
                                                   .sep = 3,
                                                   .mask = 4};
    struct tiny tiny;
    tiny_open(&tiny, "tiny_h36", PARAM_HEAD_NONE);
    write_gguf(&tiny, scratch("x.gguf"),
               &(struct export_gguf){.name = "n", .matrices = TENSOR_F32, .tokens = word_pieces});
    char *bytes;
    size_t length;
    assert_int_equal(file_read(scratch("x.gguf"), 1 << 24, &bytes, &length, NULL), BERTH_OK);
    expect_texts(bytes, length, phantom, 12);
    assert_non_null(memmem(bytes, length, types, sizeof types));
    expect_id(bytes, length, "tokenizer.ggml.unknown_token_id", 0);
    expect_id(bytes, length, "tokenizer.ggml.padding_token_id", 1);
    expect_id(bytes, length, "tokenizer.ggml.bos_token_id", 2);
    expect_id(bytes, length, "tokenizer.ggml.seperator_token_id", 3);
    expect_id(bytes, length, "tokenizer.ggml.mask_token_id", 4);
    memory_free(bytes);
    tiny_close(&tiny);
}

// llama.cpp counts positions from 0 and refuses a model without types of tokens.
static void test_positions_and_types(void **state) {
    (void)state;
    struct tiny tiny;
    char *bytes;
    size_t length;
    tiny_open(&tiny, "tiny_h36", PARAM_HEAD_NONE);
    const struct param *param =
        param_table_find(&tiny.table, "bert.embeddings.position_embeddings.weight");
    const float *numbers = tiny.buffer + param->offset;
    tiny.config.first_position = 2;
    tiny.config.type_vocab_size = 0;
    write_gguf(&tiny, scratch("x.gguf"),
               &(struct export_gguf){.name = "n", .matrices = TENSOR_F32});
    assert_int_equal(file_read(scratch("x.gguf"), 1 << 24, &bytes, &length, NULL), BERTH_OK);
    expect_id(bytes, length, "bert.context_length", (uint32_t)param->rows - 2);
    expect_id(bytes, length, "tokenizer.ggml.token_type_count", 1);
    assert_null(memmem(bytes, length, numbers + param->cols, (size_t)param->cols * 4));
    assert_non_null(memmem(bytes, length, numbers + 2 * param->cols,
                           (size_t)((param->rows - 2) * param->cols) * 4));
    memory_free(bytes);
    tiny_close(&tiny);
}

// Matrices become F16; tables of positions and types and all vectors stay F32.
static void test_f16(void **state) {
    (void)state;
    struct tiny tiny;
    char *bytes;
    size_t length;
    tiny_open(&tiny, "tiny_h36", PARAM_HEAD_NONE);
    write_gguf(&tiny, scratch("x.gguf"),
               &(struct export_gguf){.name = "n", .matrices = TENSOR_F16});
    assert_int_equal(file_read(scratch("x.gguf"), 1 << 24, &bytes, &length, NULL), BERTH_OK);
    for (size_t i = 0; i < tiny.table.count; i++) {
        const struct param *param = &tiny.table.params[i];
        uint16_t halves[16];
        const float *numbers = tiny.buffer + param->offset;
        tensor_narrow(TENSOR_F16, numbers, 16, halves);
        int narrow = memmem(bytes, length, halves, sizeof halves) != NULL;
        int wide = memmem(bytes, length, numbers, 16 * sizeof *numbers) != NULL;
        assert_int_equal(narrow, export_gguf_is_matrix(param));
        assert_int_equal(wide, !export_gguf_is_matrix(param));
    }
    assert_true(export_gguf_is_matrix(
        param_table_find(&tiny.table, "bert.encoder.layer.1.attention.self.key.weight")));
    assert_false(export_gguf_is_matrix(
        param_table_find(&tiny.table, "bert.embeddings.position_embeddings.weight")));
    memory_free(bytes);
    tiny_close(&tiny);
}

// --- memory -------------------------------------------------------------------------------------

static enum berth_status export_model(const struct tiny *tiny, int onnx) {
    static const char *const texts[] = {"<unk>", "a"}, *const merges[] = {"a b"};
    static const int32_t types[] = {2, 1};
    static const float scores[] = {0, -1};
    const struct export_gguf_tokens tokens = {.kind = GGUF_UNIGRAM,
                                              .texts = texts,
                                              .types = types,
                                              .scores = scores,
                                              .merges = merges,
                                              .merge_count = 1,
                                              .count = 2};
    struct export_gguf gguf = {.config = &tiny->config,
                               .table = &tiny->table,
                               .buffer = tiny->buffer,
                               .name = "n",
                               .matrices = TENSOR_F32,
                               .tokens = tokens};
    return onnx
               ? export_onnx_write(scratch("x"), &tiny->config, &tiny->table, tiny->buffer, 0, NULL)
               : export_gguf_write(scratch("x"), &gguf, NULL);
}

static void test_no_memory(void **state) {
    (void)state;
    struct tiny tiny;
    tiny_open(&tiny, "tiny_h36", PARAM_HEAD_SPAN);
    for (int onnx = 0; onnx < 2; onnx++) {
        uint64_t made, call = 0;
        do {
            memory_fail_at(++call, 0);
            const enum berth_status status = export_model(&tiny, onnx);
            made = memory_fail_at(0, 0);
            assert_int_equal(status, made >= call ? BERTH_NO_MEMORY : BERTH_OK);
            assert_int_equal(dir_is_empty(scratch_folder), status != BERTH_OK);
        } while (made >= call);
        assert_true(call > 3);
        assert_int_equal(file_remove(scratch("x"), NULL), BERTH_OK);
    }
    tiny_close(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_hashes),
        SCRATCH_TEST(test_graphs_are_sound),
        SCRATCH_TEST(test_each_activation_has_its_constants),
        SCRATCH_TEST(test_weights_are_the_parameters),
        SCRATCH_TEST(test_tokens),
        SCRATCH_TEST(test_weights_beside),
        SCRATCH_TEST(test_positions_and_types),
        SCRATCH_TEST(test_f16),
        SCRATCH_TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
