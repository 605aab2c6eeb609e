// SPDX-License-Identifier: Apache-2.0
// Tests the layout of the parameter buffer and the initial values.
#include "core/scratch.h"
#include "model/params.h"
#include "model_io/short_sink.h"

#include <math.h>

static void builtin(const char *name, struct bert_config *config) {
    assert_int_equal(bert_config_builtin(name, config, NULL), BERTH_OK);
}

static void test_counts_are_hugging_faces(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum param_head head;
        size_t tensors;
        int64_t parameters;
    } cases[] = {
        {"base", PARAM_HEAD_SPAN, 199, 108893186},
        {"base", PARAM_HEAD_NONE, 197, 109482240 - 768 * 769}, // BertModel without its pooler
        {"large", PARAM_HEAD_NONE, 389, 335141888 - 1024 * 1025},
        {"minilm", PARAM_HEAD_SPAN, 103, 22566146},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bert_config config;
        struct param_table table;
        builtin(cases[i].name, &config);
        assert_int_equal(param_table_init(&table, &config, cases[i].head, NULL), BERTH_OK);
        assert_int_equal(table.count, cases[i].tensors);
        assert_int_equal(table.parameter_count, cases[i].parameters);
        param_table_done(&table);
    }
}

static int64_t size_of(const struct param *param) {
    return param->rows * param->cols;
}

static int ends_with(const char *text, const char *end) {
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

// The section of the buffer for a parameter: matrices, tables, or biases and layer norms.
static int range_of(const struct param_table *table, const struct param *param) {
    int64_t end = param->offset + size_of(param);
    return end <= table->matrix_count ? 0 : end <= table->embedding_norm_weight ? 1 : 2;
}

static void check_layout(int64_t hidden, int64_t heads, int64_t intermediate, int64_t layers) {
    struct bert_config config;
    struct param_table table;
    builtin("tiny", &config);
    config.hidden_size = hidden;
    config.num_attention_heads = heads;
    config.intermediate_size = intermediate;
    config.num_hidden_layers = layers;
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    int64_t end = 0, sum = 0;
    for (size_t i = 0; i < table.count; i++) { // in the order of the buffer
        const struct param *param = &table.params[i];
        assert_true(param->offset >= end && param->offset < end + 64);
        assert_true(param->offset == end || param->offset % 64 == 0);
        end = param->offset + size_of(param);
        sum += size_of(param);
        int is_table = strstr(param->name, "_embeddings.") != NULL;
        int is_vector = ends_with(param->name, "bias") || strstr(param->name, "LayerNorm") != NULL;
        assert_int_equal(range_of(&table, param), is_vector ? 2 : is_table ? 1 : 0);
        assert_int_equal(param->rank, is_vector ? 1 : 2);
        assert_ptr_equal(param_table_find(&table, param->name), param);
    }
    assert_int_equal(sum, table.parameter_count);
    assert_true(table.total >= end && table.total < end + 64 && table.total % 64 == 0);
    assert_int_equal(table.matrix_count % 64, 0);
    assert_null(param_table_find(&table, "none"));
    param_table_done(&table);
}

static void test_layout(void **state) {
    (void)state;
    check_layout(128, 2, 512, 2);
    check_layout(1, 1, 1, 1);
    check_layout(15, 3, 7, 3); // no size a multiple of anything
    check_layout(100, 5, 33, 1);
}

static int64_t offset_of(const struct param_table *table, const char *name) {
    const struct param *param = param_table_find(table, name);
    assert_non_null(param);
    return param->offset;
}

static void test_offsets_and_names_agree(void **state) {
    (void)state;
    struct bert_config config;
    struct param_table table;
    builtin("tiny", &config);
    config.hidden_size = 15;
    config.num_attention_heads = 3;
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    const struct {
        const char *name;
        int64_t offset;
    } cases[] = {
        {"bert.embeddings.word_embeddings.weight", table.word},
        {"bert.embeddings.position_embeddings.weight", table.position},
        {"bert.embeddings.token_type_embeddings.weight", table.type},
        {"bert.embeddings.LayerNorm.weight", table.embedding_norm_weight},
        {"bert.embeddings.LayerNorm.bias", table.embedding_norm_bias},
        {"qa_outputs.weight", table.head_weight},
        {"qa_outputs.bias", table.head_bias},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(offset_of(&table, cases[i].name), cases[i].offset);
    }
#define IN_LAYER(name) "bert.encoder.layer.1." name
    const struct param_layer *layer = &table.layers[1];
    const struct {
        const char *name;
        int64_t offset;
    } in_layer[] = {
        {IN_LAYER("attention.self.query.weight"), layer->qkv_weight},
        {IN_LAYER("attention.self.key.weight"), layer->qkv_weight + 15 * 15},
        {IN_LAYER("attention.self.value.weight"), layer->qkv_weight + 2 * 15 * 15},
        {IN_LAYER("attention.self.query.bias"), layer->qkv_bias},
        {IN_LAYER("attention.self.key.bias"), layer->qkv_bias + 15},
        {IN_LAYER("attention.self.value.bias"), layer->qkv_bias + 2 * 15},
        {IN_LAYER("attention.output.dense.weight"), layer->attention_weight},
        {IN_LAYER("attention.output.dense.bias"), layer->attention_bias},
        {IN_LAYER("attention.output.LayerNorm.weight"), layer->attention_norm_weight},
        {IN_LAYER("attention.output.LayerNorm.bias"), layer->attention_norm_bias},
        {IN_LAYER("intermediate.dense.weight"), layer->intermediate_weight},
        {IN_LAYER("intermediate.dense.bias"), layer->intermediate_bias},
        {IN_LAYER("output.dense.weight"), layer->output_weight},
        {IN_LAYER("output.dense.bias"), layer->output_bias},
        {IN_LAYER("output.LayerNorm.weight"), layer->output_norm_weight},
        {IN_LAYER("output.LayerNorm.bias"), layer->output_norm_bias},
    };
    for (size_t i = 0; i < sizeof in_layer / sizeof *in_layer; i++) {
        assert_int_equal(offset_of(&table, in_layer[i].name), in_layer[i].offset);
    }
    param_table_done(&table);
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_NONE, NULL), BERTH_OK);
    assert_int_equal(table.head_weight, -1);
    assert_int_equal(table.head_bias, -1);
    param_table_done(&table);
}

// --- initial values -----------------------------------------------------------------------------

static void check_moments(const float *values, int64_t count, double deviation) {
    double sum = 0, squares = 0, fourth = 0;
    for (int64_t i = 0; i < count; i++) {
        double z = values[i] / deviation;
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
    }
    double n = (double)count; // four standard errors each
    assert_true(fabs(sum / n) < 4 / sqrt(n));
    assert_true(fabs(squares / n - 1) < 4 * sqrt(2 / n));
    assert_true(fabs(fourth / n - 3) < 4 * sqrt(96 / n));
}

static void test_initial_values(void **state) {
    (void)state;
    struct bert_config config;
    struct param_table table;
    builtin("tiny", &config);
    config.pad_token_id = 3;
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    float *buffer = memory_array((size_t)table.total, sizeof *buffer);
    memset(buffer, 0xFF, (size_t)table.total * sizeof *buffer);
    param_initialise(&table, &config, 42, buffer, 1);
    const struct param_layer *layer = &table.layers[0];
    check_moments(buffer + layer->intermediate_weight, 128 * 512, config.initializer_range);
    check_moments(buffer + table.position, 128 * 512, config.initializer_range);
    for (int i = 0; i < 128; i++) {
        assert_true(buffer[table.word + 3 * 128 + i] == 0);
        assert_true(buffer[layer->output_norm_weight + i] == 1);
        assert_true(buffer[layer->output_norm_bias + i] == 0);
        assert_true(buffer[layer->qkv_bias + i] == 0);
    }
    assert_true(buffer[table.word + 2 * 128] != 0 && buffer[table.word + 4 * 128] != 0);
    assert_true(buffer[table.head_bias + 2] == 0); // a gap
    memory_free(buffer);
    param_table_done(&table);
}

// Redrawn beyond two deviations: a normal distribution truncated there has 0.7737 of its variance.
static void test_truncated_initial_values(void **state) {
    (void)state;
    struct bert_config config;
    struct param_table table;
    builtin("tiny", &config);
    config.truncated_initializer = 1;
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    float *buffer = memory_array((size_t)table.total, sizeof *buffer);
    param_initialise(&table, &config, 42, buffer, 1);
    const float *values = buffer + table.layers[1].intermediate_weight;
    double sum = 0, squares = 0, n = 128 * 512;
    for (int64_t i = 0; i < 128 * 512; i++) {
        double z = (double)values[i] / config.initializer_range;
        assert_true(fabs(z) <= 2.0001);
        sum += z;
        squares += z * z;
    }
    assert_true(fabs(sum / n) < 4 / sqrt(n));
    assert_true(fabs(squares / n - 0.7737) < 0.02);
    memory_free(buffer);
    param_table_done(&table);
}

// --- layer norms before the sub-layers ----------------------------------------------------------

// BingBert's names and initial values; the norm after a layer's output is the next layer's first
// one.
static void test_pre_layer_norm(void **state) {
    (void)state;
    struct bert_config config;
    struct param_table post, table;
    builtin("tiny", &config);
    assert_int_equal(param_table_init(&post, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    config.pre_layer_norm = 1;
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    assert_int_equal(table.parameter_count, post.parameter_count + 2 * 128);
    assert_int_equal(table.count, post.count + 2);
    assert_null(param_table_find(&table, "bert.encoder.layer.0.output.LayerNorm.weight"));
    assert_null(param_table_find(&table, "bert.encoder.layer.1.attention.output.LayerNorm.bias"));
    const struct param_layer *first = &table.layers[0], *last = &table.layers[1];
    static const char layer[] = "bert.encoder.layer.0.PreAttentionLayerNorm.weight";
    assert_int_equal(first->input_norm_weight, offset_of(&table, layer));
    assert_int_equal(first->attention_norm_bias,
                     offset_of(&table, "bert.encoder.layer.0.PostAttentionLayerNorm.bias"));
    assert_int_equal(first->output_norm_weight, last->input_norm_weight);
    assert_int_equal(last->input_norm_weight,
                     offset_of(&table, "bert.encoder.layer.1.PreAttentionLayerNorm.weight"));
    assert_int_equal(last->output_norm_weight,
                     offset_of(&table, "bert.encoder.FinalLayerNorm.weight"));
    assert_int_equal(last->output_norm_bias, offset_of(&table, "bert.encoder.FinalLayerNorm.bias"));
    assert_true(first->input_norm_weight > table.embedding_norm_weight);
    float *buffer = memory_array((size_t)table.total, sizeof *buffer);
    param_initialise(&table, &config, 42, buffer, 1);
    const double range = config.initializer_range;
    check_moments(buffer + first->attention_weight, 128 * 128, range / 2); // sqrt(2 * 2 layers)
    check_moments(buffer + last->output_weight, 128 * 512, range / 2);
    check_moments(buffer + first->intermediate_weight, 128 * 512, range);
    check_moments(buffer + first->qkv_weight, 128 * 384, range);
    assert_true(buffer[last->output_norm_weight] == 1 && buffer[last->output_norm_bias] == 0);
    memory_free(buffer);
    param_table_done(&table);
    param_table_done(&post);
}

// A parameter's values depend only on seed and name, not on the other parameters.
static void test_streams_are_by_name(void **state) {
    (void)state;
    struct bert_config config;
    struct param_table table, deeper;
    builtin("tiny", &config);
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    config.num_hidden_layers = 3;
    assert_int_equal(param_table_init(&deeper, &config, PARAM_HEAD_NONE, NULL), BERTH_OK);
    float *a = memory_array((size_t)table.total, sizeof *a);
    float *b = memory_array((size_t)deeper.total, sizeof *b);
    size_t bytes = 128 * 512 * sizeof *a;
    param_initialise(&table, &config, 42, a, 1);
    param_initialise(&deeper, &config, 42, b, 1);
    assert_memory_equal(a + table.layers[1].output_weight, b + deeper.layers[1].output_weight,
                        bytes);
    assert_memory_not_equal(a + table.layers[0].output_weight, a + table.layers[1].output_weight,
                            bytes);
    param_initialise(&deeper, &config, 43, b, 1);
    assert_memory_not_equal(a + table.layers[1].output_weight, b + deeper.layers[1].output_weight,
                            bytes);
    memory_free(a);
    memory_free(b);
    param_table_done(&table);
    param_table_done(&deeper);
}

// --- sinks that fail -----------------------------------------------------------------------------

static void test_sinks_that_fail(void **state) {
    (void)state;
    static struct short_sink sink;
    const struct param_sink failing = {begin_some, end_some, NULL, &sink, 1};
    struct bert_config config;
    struct param_table table;
    struct berth_error error;
    builtin("tiny", &config);
    config.vocab_size = 5;
    config.hidden_size = 4;
    config.intermediate_size = 3;
    config.max_position_embeddings = 6;
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    for (size_t i = 0; i <= table.count; i++) {
        const int is_all = i == table.count;
        sink.begins = i;
        sink.ends = table.count;
        assert_int_equal(param_initialise_into(&table, &config, 1, &failing, &error),
                         is_all ? BERTH_OK : BERTH_NO_MEMORY);
        sink.begins = table.count;
        sink.ends = i;
        assert_int_equal(param_initialise_into(&table, &config, 1, &failing, &error),
                         is_all ? BERTH_OK : BERTH_IO);
        if (!is_all) {
            assert_message_has(&error, table.params[i].name);
        }
    }
    param_table_done(&table);
}

static void test_memory_out(void **state) {
    (void)state;
    struct bert_config config;
    struct param_table table;
    struct berth_error error;
    builtin("tiny", &config);
    for (uint64_t call = 1; call <= 2; call++) {
        memory_fail_at(call, 0);
        assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, &error),
                         BERTH_NO_MEMORY);
        assert_null(table.params);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_counts_are_hugging_faces), SCRATCH_TEST(test_layout),
        SCRATCH_TEST(test_offsets_and_names_agree),  SCRATCH_TEST(test_initial_values),
        SCRATCH_TEST(test_streams_are_by_name),      SCRATCH_TEST(test_memory_out),
        SCRATCH_TEST(test_truncated_initial_values), SCRATCH_TEST(test_pre_layer_norm),
        SCRATCH_TEST(test_sinks_that_fail),
    };
    return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
