// SPDX-License-Identifier: Apache-2.0
// Tests config.json: what is refused, naming key and file, and what is preserved by reading and
// writing.
#include "core/json_memory.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "model/config.h"

#define MINIMAL "\"hidden_size\": 64, \"num_attention_heads\": 4, \"vocab_size\": 100"

static void read_good(const char *text, struct bert_config *config) {
    struct berth_error error;
    scratch_write("config.json", text);
    if (bert_config_read(scratch("config.json"), config, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static void test_defaults_are_hugging_faces(void **state) {
    (void)state;
    struct bert_config config;
    read_good("{\"model_type\": \"bert\"}", &config);
    assert_int_equal(config.vocab_size, 30522);
    assert_int_equal(config.hidden_size, 768);
    assert_int_equal(config.num_hidden_layers, 12);
    assert_int_equal(config.num_attention_heads, 12);
    assert_int_equal(config.intermediate_size, 3072);
    assert_int_equal(config.max_position_embeddings, 512);
    assert_int_equal(config.type_vocab_size, 2);
    assert_int_equal(config.pad_token_id, 0);
    assert_int_equal(config.hidden_act, ACTIVATION_GELU_ERF);
    assert_true(config.hidden_dropout_prob == 0.1);
    assert_true(config.attention_probs_dropout_prob == 0.1);
    assert_true(config.layer_norm_eps == 1e-12);
    assert_true(config.initializer_range == 0.02);
    bert_config_done(&config);
}

// As of a model with 300,000 classes.
static void test_large_files_are_read(void **state) {
    (void)state;
    struct bert_config config;
    const size_t length = (size_t)20 << 20;
    char *text = memory_new(length + 1);
    memset(text, ' ', length);
    text[length] = '\0';
    memcpy(text, "{" MINIMAL "}", strlen("{" MINIMAL "}"));
    read_good(text, &config);
    assert_int_equal(config.hidden_size, 64);
    bert_config_done(&config);
    memory_free(text);
}

// bert_config.json of Google's bert_base, as published.
static void test_googles_file(void **state) {
    (void)state;
    struct bert_config config;
    read_good("{\n  \"attention_probs_dropout_prob\": 0.1,\n  \"hidden_act\": \"gelu\",\n"
              "  \"hidden_dropout_prob\": 0.1,\n  \"hidden_size\": 768,\n"
              "  \"initializer_range\": 0.02,\n  \"intermediate_size\": 3072,\n"
              "  \"max_position_embeddings\": 512,\n  \"num_attention_heads\": 12,\n"
              "  \"num_hidden_layers\": 12,\n  \"type_vocab_size\": 2,\n"
              "  \"vocab_size\": 30522\n}\n",
              &config);
    assert_int_equal(config.hidden_size, 768);
    assert_true(config.layer_norm_eps == 1e-12);
    assert_int_equal(bert_config_write(&config, "BertModel", scratch("config.json"), NULL),
                     BERTH_OK);
    bert_config_done(&config);
    assert_int_equal(bert_config_read(scratch("config.json"), &config, NULL), BERTH_OK);
    assert_non_null(strstr(config.source_json, "\"model_type\": \"bert\""));
    assert_non_null(strstr(config.source_json, "\"layer_norm_eps\": 1e-12"));
    bert_config_done(&config);
}

static void test_null_positions_are_absolute(void **state) {
    (void)state;
    struct bert_config config;
    read_good("{" MINIMAL ", \"position_embedding_type\": null}", &config);
    assert_int_equal(config.hidden_size, 64);
    bert_config_done(&config);
}

static void test_refused_values(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum berth_status status;
        const char *part;
    } cases[] = {
        {"", BERTH_BAD_DATA, "line 1, column 1"},
        {"{\n\"hidden_size\": }", BERTH_BAD_DATA, "line 2, column 16"},
        {"[]", BERTH_CONFIG, "a JSON object"},
        {"{}", BERTH_CONFIG, "not the config.json of a BERT"},
        {"{\"do_lower_case\": true}", BERTH_CONFIG, "not the config.json of a BERT"},
        {"{\"model_type\": \"albert\"}", BERTH_CONFIG,
         "key \"model_type\": expected one of bert, roberta, xlm-roberta, camembert, distilbert, "
         "electra; found \"albert\""},
        {"{\"model_type\": \"distilbert\", \"dim\": 0}", BERTH_CONFIG,
         "key \"dim\": expected 1 to"},
        {"{\"model_type\": \"distilbert\", \"dropout\": 1}", BERTH_CONFIG,
         "key \"dropout\": expected"},
        {"{\"model_type\": \"distilbert\", \"activation\": \"prelu\"}", BERTH_CONFIG,
         "key \"activation\": expected one of gelu"},
        {"{\"model_type\": \"distilbert\", \"dim\": 64, \"n_heads\": 5}", BERTH_CONFIG,
         "\"dim\" (64) must be a multiple of \"n_heads\" (5)"},
        {"{\"model_type\": \"distilbert\", \"qa_dropout\": 1}", BERTH_CONFIG,
         "key \"qa_dropout\": expected less than 1"},
        {"{\"model_type\": \"distilbert\", \"sinusoidal_pos_embds\": true}", BERTH_CONFIG,
         "key \"sinusoidal_pos_embds\": expected false, found true"},
        {"{\"model_type\": \"electra\", \"embedding_size\": 0}", BERTH_CONFIG,
         "key \"embedding_size\": expected 1 to"},
        {"{\"model_type\": \"electra\", \"position_embedding_type\": \"relative_key\"}",
         BERTH_CONFIG, "this is an ELECTRA with relative positions"},
        {"{\"model_type\": \"roberta\", \"max_position_embeddings\": 2}", BERTH_CONFIG,
         "\"max_position_embeddings\" (2) must be more than \"pad_token_id\" + 1 (2)"},
        {"{\"hidden_size\": \"64\"}", BERTH_CONFIG,
         "key \"hidden_size\": expected an integer, found a string"},
        {"{\"hidden_size\": 64.5}", BERTH_CONFIG, "found a real number"},
        {"{\"hidden_size\": null}", BERTH_CONFIG, "found null"},
        {"{\"hidden_size\": -64}", BERTH_CONFIG, "\"hidden_size\": expected 1 to 1048576"},
        {"{\"hidden_size\": 0}", BERTH_CONFIG, "found 0"},
        {"{\"hidden_size\": 9223372036854775807}", BERTH_CONFIG, "\"hidden_size\""},
        {"{\"hidden_size\": 1e300}", BERTH_CONFIG, "\"hidden_size\""},
        {"{\"hidden_size\": 64, \"num_attention_heads\": 5}", BERTH_CONFIG,
         "\"hidden_size\" (64) must be a multiple of \"num_attention_heads\" (5)"},
        {"{" MINIMAL ", \"num_hidden_layers\": 0}", BERTH_CONFIG, "\"num_hidden_layers\""},
        {"{" MINIMAL ", \"intermediate_size\": []}", BERTH_CONFIG, "found an array"},
        {"{" MINIMAL ", \"max_position_embeddings\": -1}", BERTH_CONFIG,
         "\"max_position_embeddings\""},
        {"{" MINIMAL ", \"type_vocab_size\": 0}", BERTH_CONFIG, "\"type_vocab_size\""},
        {"{" MINIMAL ", \"pad_token_id\": 100}", BERTH_CONFIG,
         "\"pad_token_id\" (100) must be less than \"vocab_size\" (100)"},
        {"{" MINIMAL ", \"hidden_dropout_prob\": 1.0}", BERTH_CONFIG, "\"hidden_dropout_prob\""},
        {"{" MINIMAL ", \"hidden_dropout_prob\": \"a\"}", BERTH_CONFIG, "expected a number"},
        {"{" MINIMAL ", \"attention_probs_dropout_prob\": -0.1}", BERTH_CONFIG, "found -0.1"},
        {"{" MINIMAL ", \"layer_norm_eps\": 0}", BERTH_CONFIG, "\"layer_norm_eps\""},
        {"{" MINIMAL ", \"initializer_range\": -1}", BERTH_CONFIG, "\"initializer_range\""},
        {"{" MINIMAL ", \"hidden_act\": \"prelu\"}", BERTH_CONFIG,
         "\"hidden_act\": expected one of gelu, gelu_python, gelu_new, gelu_pytorch_tanh, "
         "gelu_python_tanh, gelu_fast, gelu_accurate, gelu_10, quick_gelu, relu, relu2, relu6, "
         "leaky_relu, silu, swish, hardswish, mish, tanh, sigmoid, laplace, linear; found "
         "\"prelu\"; use a model with one of these functions"},
        {"{" MINIMAL ", \"hidden_act\": 1}", BERTH_CONFIG, "expected a string"},
        {"{" MINIMAL ", \"position_embedding_type\": \"relative_key\"}", BERTH_CONFIG,
         "\"position_embedding_type\": expected \"absolute\", found \"relative_key\""},
        {"{" MINIMAL ", \"is_decoder\": true}", BERTH_CONFIG, "only encoders"},
        {"{" MINIMAL ", \"pre_layer_norm\": \"yes\"}", BERTH_CONFIG,
         "key \"pre_layer_norm\": expected"},
        {"{" MINIMAL ", \"model_type\": 1}", BERTH_CONFIG, "key \"model_type\": expected a string"},
        {"{" MINIMAL ", \"position_embedding_type\": 1}", BERTH_CONFIG,
         "key \"position_embedding_type\": expected a string"},
        {"{" MINIMAL ", \"is_decoder\": 1}", BERTH_CONFIG, "key \"is_decoder\": expected"},
        {"{" MINIMAL ", \"num_labels\": \"2\"}", BERTH_CONFIG,
         "key \"num_labels\": expected an integer"},
        {"{" MINIMAL ", \"num_labels\": 0}", BERTH_CONFIG, "key \"num_labels\": expected 1 to"},
        {"{" MINIMAL ", \"num_labels\": 1048577}", BERTH_CONFIG, "found 1048577"},
        {"{" MINIMAL ", \"id2label\": {}}", BERTH_CONFIG, "key \"id2label\": expected 1 to"},
        {"{" MINIMAL ", \"problem_type\": 1}", BERTH_CONFIG,
         "key \"problem_type\": expected a string"},
        {"{" MINIMAL ", \"problem_type\": \"ranking\"}", BERTH_CONFIG,
         "multi_label_classification or regression, found \"ranking\""},
        {"{" MINIMAL ", \"classifier_dropout\": \"a\"}", BERTH_CONFIG,
         "key \"classifier_dropout\": expected a number"},
        {"{" MINIMAL ", \"classifier_dropout\": 1}", BERTH_CONFIG, "expected less than 1, found 1"},
        {"{\"bert_model_config\": {" MINIMAL ", \"hidden_act\": \"prelu\"}}", BERTH_CONFIG,
         "key \"hidden_act\""},
        {"{\"bert_model_config\": []}", BERTH_CONFIG, "\"bert_model_config\": expected an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bert_config config;
        struct berth_error error;
        scratch_write("config.json", cases[i].text);
        assert_int_equal(bert_config_read(scratch("config.json"), &config, &error),
                         cases[i].status);
        assert_message_has(&error, scratch("config.json"));
        assert_message_has(&error, cases[i].part);
        bert_config_done(&config);
    }
}

static void test_every_prefix_is_refused(void **state) {
    (void)state;
    static const char text[] =
        "{" MINIMAL ", \"hidden_act\": \"gelu_new\", \"layer_norm_eps\": 1e-7}";
    struct bert_config config;
    read_good(text, &config);
    bert_config_done(&config);
    for (size_t length = 0; length + 1 < sizeof text; length++) {
        struct berth_error error;
        scratch_write_bytes("config.json", text, length);
        assert_int_equal(bert_config_read(scratch("config.json"), &config, &error), BERTH_BAD_DATA);
        assert_message_has(&error, scratch("config.json"));
        assert_null(config.source_json);
    }
}

static void test_missing_file(void **state) {
    (void)state;
    struct bert_config config;
    struct berth_error error;
    assert_int_equal(bert_config_read(scratch("none.json"), &config, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "none.json");
    bert_config_done(&config);
}

static void test_activations(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum activation activation;
    } cases[] = {{"gelu", ACTIVATION_GELU_ERF},       {"gelu_python", ACTIVATION_GELU_ERF},
                 {"gelu_new", ACTIVATION_GELU_TANH},  {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                 {"gelu_fast", ACTIVATION_GELU_TANH}, {"relu", ACTIVATION_RELU},
                 {"swish", ACTIVATION_SILU}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bert_config config;
        char text[256];
        snprintf(text, sizeof text, "{" MINIMAL ", \"hidden_act\": \"%s\"}", cases[i].name);
        read_good(text, &config);
        assert_int_equal(config.hidden_act, cases[i].activation);
        assert_int_equal(bert_config_write(&config, "BertModel", scratch("out.json"), NULL),
                         BERTH_OK);
        bert_config_done(&config);
        assert_int_equal(bert_config_read(scratch("out.json"), &config, NULL), BERTH_OK);
        snprintf(text, sizeof text, "\"hidden_act\": \"%s\",", cases[i].name);
        assert_non_null(strstr(config.source_json, text));
        bert_config_done(&config);
    }
}

static void test_classes_are_forgotten(void **state) {
    (void)state;
    struct bert_config config;
    read_good("{" MINIMAL ", \"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}, "
              "\"label2id\": {\"a\": 0, \"b\": 1, \"c\": 2}, \"use_cache\": false, "
              "\"problem_type\": \"multi_label_classification\"}",
              &config);
    assert_int_equal(config.num_labels, 3);
    assert_true(config.has_problem_type);
    assert_int_equal(bert_config_drop_classes(&config, NULL), BERTH_OK);
    assert_int_equal(config.num_labels, 2);
    assert_int_equal(config.problem, BERT_CLASSES);
    assert_false(config.has_problem_type);
    assert_null(strstr(config.source_json, "label"));
    assert_non_null(strstr(config.source_json, "use_cache"));
    bert_config_done(&config);
}

// transformers 5 would take the count of a base model instead of the classes' names, and look for a
// decoder of its own.
static void test_stale_keys_are_left_out(void **state) {
    (void)state;
    struct bert_config config;
    read_good("{" MINIMAL ", \"num_labels\": 2, \"tie_word_embeddings\": false, "
              "\"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}}",
              &config);
    assert_int_equal(config.num_labels, 3);
    assert_int_equal(bert_config_write(&config, "BertForMaskedLM", scratch("written.json"), NULL),
                     BERTH_OK);
    bert_config_done(&config);
    json *written;
    assert_int_equal(json_read_file(scratch("written.json"), &written, NULL), BERTH_OK);
    assert_null(json_member(written, "num_labels"));
    assert_null(json_member(written, "tie_word_embeddings"));
    assert_int_equal(json_length(json_member(written, "id2label")), 3);
    json_free(written);
}

// Our own key: written if true, also in Google's layout, and read back.
static void test_pre_layer_norm(void **state) {
    (void)state;
    struct bert_config config, again;
    read_good("{" MINIMAL "}", &config);
    assert_false(config.pre_layer_norm);
    config.pre_layer_norm = 1;
    assert_int_equal(bert_config_write(&config, "BertModel", scratch("written.json"), NULL),
                     BERTH_OK);
    assert_int_equal(bert_config_read(scratch("written.json"), &again, NULL), BERTH_OK);
    assert_true(again.pre_layer_norm);
    bert_config_done(&again);
    assert_int_equal(bert_config_write_google(&config, scratch("google.json"), NULL), BERTH_OK);
    assert_int_equal(bert_config_read(scratch("google.json"), &again, NULL), BERTH_OK);
    assert_true(again.pre_layer_norm);
    bert_config_done(&again);
    bert_config_done(&config);
    read_good("{" MINIMAL ", \"pre_layer_norm\": false}", &config);
    assert_false(config.pre_layer_norm);
    bert_config_done(&config);
}

static void test_problems(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum bert_problem problem;
    } cases[] = {
        {", \"num_labels\": 1", BERT_REGRESSION},
        {", \"num_labels\": 3", BERT_CLASSES},
        {", \"problem_type\": null", BERT_CLASSES},
        {", \"problem_type\": \"regression\"", BERT_REGRESSION},
        {", \"problem_type\": \"multi_label_classification\"", BERT_MULTI_LABEL},
        {", \"num_labels\": 1, \"problem_type\": \"single_label_classification\"", BERT_CLASSES}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bert_config config;
        char text[512];
        snprintf(text, sizeof text, "{" MINIMAL "%s}", cases[i].text);
        read_good(text, &config);
        assert_int_equal(config.problem, cases[i].problem);
        bert_config_done(&config);
    }
}

// The layer norms of BingBert's models come first; the vocabulary decides its own size.
static void test_experiment(void **state) {
    (void)state;
    enum berth_status status = BERTH_NO_MEMORY;
    scratch_write("config.json", "{\"name\": \"x\", \"bert_model_config\": "
                                 "{\"vocab_size_or_config_json_file\": 119547, " MINIMAL
                                 ", \"bert_model_config\": {\"hidden_size\": 128}}}");
    for (uint64_t call = 1; call < 100 && status != BERTH_OK; call++) {
        struct bert_config config;
        memory_fail_at(call, 0);
        status = bert_config_read(scratch("config.json"), &config, NULL);
        memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        if (status == BERTH_OK) {
            assert_true(config.pre_layer_norm);
            assert_int_equal(config.vocab_size, 0);
            assert_int_equal(config.hidden_size, 64);
            assert_null(strstr(config.source_json, "119547"));
            assert_null(strstr(config.source_json, "bert_model_config"));
        }
        bert_config_done(&config);
    }
    assert_int_equal(status, BERTH_OK);
}

static void test_unknown_keys_are_written_back(void **state) {
    (void)state;
    struct bert_config config;
    read_good("{" MINIMAL ", \"zebra\": {\"x\": [1, 2.5, \"\u00e9\"]}, \"use_cache\": true,"
              " \"architectures\": [\"BertForMaskedLM\"], \"dtype\": \"float16\","
              " \"classifier_dropout\": null, \"pad_token_id\": null, \"initializer_range\": 0.05}",
              &config);
    config.hidden_dropout_prob = 0.25;
    assert_int_equal(
        bert_config_write(&config, "BertForQuestionAnswering", scratch("out.json"), NULL),
        BERTH_OK);
    bert_config_done(&config);
    assert_file_holds(
        scratch("out.json"),
        "{\n  \"architectures\": [\n    \"BertForQuestionAnswering\"\n  ],\n"
        "  \"attention_probs_dropout_prob\": 0.1,\n  \"classifier_dropout\": null,\n"
        "  \"hidden_act\": \"gelu\",\n  \"hidden_dropout_prob\": 0.25,\n  \"hidden_size\": 64,\n"
        "  \"initializer_range\": 0.05,\n  \"intermediate_size\": 3072,\n"
        "  \"layer_norm_eps\": 1e-12,\n  \"max_position_embeddings\": 512,\n"
        "  \"model_type\": \"bert\",\n  \"num_attention_heads\": 4,\n"
        "  \"num_hidden_layers\": 12,\n  \"pad_token_id\": 0,\n"
        "  \"position_embedding_type\": \"absolute\",\n  \"torch_dtype\": \"float32\",\n"
        "  \"type_vocab_size\": 2,\n  \"use_cache\": true,\n  \"vocab_size\": 100,\n"
        "  \"zebra\": {\n    \"x\": [\n      1,\n      2.5,\n      \"\u00e9\"\n    ]\n  }\n}\n");
}

static void test_builtin_shapes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t hidden_size, layers;
    } cases[] = {{"tiny", 128, 2}, {"minilm", 384, 6}, {"base", 768, 12}, {"large", 1024, 24}};
    struct bert_config config, again;
    struct berth_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(bert_config_builtin(cases[i].name, &config, NULL), BERTH_OK);
        assert_int_equal(config.hidden_size, cases[i].hidden_size);
        assert_int_equal(config.num_hidden_layers, cases[i].layers);
        assert_int_equal(bert_config_write(&config, "BertModel", scratch("c.json"), NULL),
                         BERTH_OK);
        assert_int_equal(bert_config_read(scratch("c.json"), &again, NULL), BERTH_OK);
        assert_int_equal(again.intermediate_size, config.intermediate_size);
        assert_int_equal(again.num_attention_heads, config.num_attention_heads);
        bert_config_done(&again);
        bert_config_done(&config);
    }
    int is = 1; // no file, and so no architecture, is named
    assert_int_equal(bert_config_builtin("minilm", &config, &error), BERTH_OK);
    assert_int_equal(bert_config_is_architecture(&config, "BertModel", &is, NULL), BERTH_OK);
    assert_false(is);
    bert_config_done(&config);
    assert_int_equal(bert_config_builtin("huge", &config, &error), BERTH_USAGE);
    assert_message_has(&error, "\"huge\"");
    assert_message_has(&error, "minilm");
}

// Windows' PowerShell writes UTF-16. What is kept of it is written back.
static void test_utf16(void **state) {
    (void)state;
    static const char text[] = "{" MINIMAL ", \"zebra\": 1}";
    static const char *const marks[] = {"\xFF\xFE", "\xFE\xFF"}; // low byte first, high byte first
    for (size_t i = 0; i < 2; i++) {
        char bytes[2 * sizeof text] = "";
        struct bert_config config;
        memcpy(bytes, marks[i], 2);
        for (size_t k = 0; k + 1 < sizeof text; k++) {
            bytes[2 + 2 * k + i] = text[k];
        }
        scratch_write_bytes("config.json", bytes, sizeof bytes);
        assert_int_equal(bert_config_read(scratch("config.json"), &config, NULL), BERTH_OK);
        assert_int_equal(config.hidden_size, 64);
        assert_int_equal(bert_config_write(&config, "BertModel", scratch("out.json"), NULL),
                         BERTH_OK);
        bert_config_done(&config);
        assert_int_equal(bert_config_read(scratch("out.json"), &config, NULL), BERTH_OK);
        assert_non_null(strstr(config.source_json, "zebra"));
        bert_config_done(&config);
    }
}

static void test_merging_keeps_what_is_no_key(void **state) {
    (void)state;
    static const char more[] = "{\"num_labels\": 3, \"zebra\": 2}";
    struct bert_config config;
    json *object;
    read_good("{" MINIMAL ", \"classifier_dropout\": 0.25, \"zebra\": 1}", &config);
    config.truncated_initializer = 1;
    config.embedding.objectives[0].texts = 3;
    assert_int_equal(json_read_memory("more", more, sizeof more - 1, &object, NULL), BERTH_OK);
    assert_int_equal(bert_config_merge(&config, object, NULL), BERTH_OK);
    json_free(object);
    assert_int_equal(config.num_labels, 3);
    assert_non_null(strstr(config.source_json, "\"zebra\": 2"));
    assert_true(config.classifier_dropout == 0.25);
    assert_true(config.truncated_initializer);
    assert_int_equal(config.embedding.objectives[0].texts, 3);
    bert_config_done(&config);
}

// All that is done with settings besides writing them as Hugging Face does.
static enum berth_status use_otherwise(struct bert_config *config) {
    int is = 0;
    json *object;
    TRY(bert_config_is_architecture(config, "BertModel", &is, NULL));
    TRY(bert_config_write_google(config, scratch("google.json"), NULL));
    TRY(json_read_memory("more", "{\"zebra\": [1]}", 14, &object, NULL));
    const enum berth_status status = bert_config_merge(config, object, NULL);
    json_free(object);
    return status;
}

static struct bert_config written;

static enum berth_status write_again(void) {
    (void)unlink(scratch("out.json"));
    const enum berth_status status =
        bert_config_write(&written, "BertModel", scratch("out.json"), NULL);
    if (status == BERTH_OK) {
        assert_same_file(scratch("out.json"), scratch("whole.json"));
    } else {
        assert_false(file_exists(scratch("out.json")));
    }
    return status;
}

static void test_written_whole_or_not(void **state) {
    (void)state;
    assert_int_equal(bert_config_builtin("minilm", &written, NULL), BERTH_OK);
    assert_int_equal(bert_config_write(&written, "BertModel", scratch("whole.json"), NULL),
                     BERTH_OK);
    assert_true(json_memory_fail_each(write_again) > 20);
    bert_config_done(&written);
}

static void test_memory_out_at_every_allocation(void **state) {
    (void)state;
    enum berth_status status = BERTH_NO_MEMORY;
    scratch_write("config.json", "{" MINIMAL "}");
    for (uint64_t call = 1; call < 100 && status != BERTH_OK; call++) {
        struct bert_config config;
        memory_fail_at(call, 0);
        status = bert_config_read(scratch("config.json"), &config, NULL);
        if (status == BERTH_OK) {
            status = bert_config_write(&config, "BertModel", scratch("out.json"), NULL);
        }
        if (status == BERTH_OK) {
            status = use_otherwise(&config);
        }
        memory_fail_at(0, 0);
        bert_config_done(&config);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        assert_true(status != BERTH_OK || file_exists(scratch("out.json")));
    }
    assert_int_equal(status, BERTH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_defaults_are_hugging_faces),
        SCRATCH_TEST(test_large_files_are_read),
        SCRATCH_TEST(test_googles_file),
        SCRATCH_TEST(test_null_positions_are_absolute),
        SCRATCH_TEST(test_refused_values),
        SCRATCH_TEST(test_every_prefix_is_refused),
        SCRATCH_TEST(test_missing_file),
        SCRATCH_TEST(test_activations),
        SCRATCH_TEST(test_classes_are_forgotten),
        SCRATCH_TEST(test_stale_keys_are_left_out),
        SCRATCH_TEST(test_pre_layer_norm),
        SCRATCH_TEST(test_problems),
        SCRATCH_TEST(test_experiment),
        SCRATCH_TEST(test_unknown_keys_are_written_back),
        SCRATCH_TEST(test_utf16),
        SCRATCH_TEST(test_merging_keeps_what_is_no_key),
        SCRATCH_TEST(test_builtin_shapes),
        SCRATCH_TEST(test_written_whole_or_not),
        SCRATCH_TEST(test_memory_out_at_every_allocation),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
