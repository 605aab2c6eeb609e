// SPDX-License-Identifier: Apache-2.0
// Tests the settings of sentence-transformers folders: every pooling in each of the two layouts,
// lengths and prompts, what is refused and by which name, and copies of the modules' files.
#include "core/file.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "format/safetensors/safetensors.h"
#include "model/sentence.h"

#include <errno.h>
#include <math.h>

#define TRANSFORMER "{\"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}"
#define POOLING "{\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}"
#define MODULES(more) "[" TRANSFORMER ", " POOLING more "]"
#define DEFAULT_PROMPT "{\"prompts\": {\"q\": \"query: \"}, \"default_prompt_name\": \"q\"}"

static void write_folder(const char *modules, const char *pooling) {
    assert_int_equal(dir_make(scratch("1_Pooling"), NULL), BERTH_OK);
    scratch_write("modules.json", modules);
    scratch_write("1_Pooling/config.json", pooling);
}

static void test_poolings(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum berth_pooling pooling;
    } cases[] = {
        {"{}", BERTH_POOL_MEAN},
        {"{\"pooling_mode_cls_token\": true}", BERTH_POOL_CLS},
        {"{\"pooling_mode_cls_token\": false, \"pooling_mode_max_tokens\": true}", BERTH_POOL_MAX},
        {"{\"pooling_mode\": \"mean\"}", BERTH_POOL_MEAN},
        {"{\"pooling_mode\": \"cls\"}", BERTH_POOL_CLS},
        {"{\"pooling_mode\": [\"max\"]}", BERTH_POOL_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sentence sentence;
        write_folder(MODULES(""), cases[i].text);
        assert_int_equal(sentence_read(scratch_folder, &sentence, NULL), BERTH_OK);
        assert_true(sentence.found);
        assert_int_equal(sentence.how.pooling, cases[i].pooling);
        assert_false(sentence.how.normalize);
        sentence_done(&sentence);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *modules, *pooling, *message;
    } cases[] = {
        {MODULES(""), "{\"pooling_mode\": \"median\"}", "lasttoken, found median"},
        {MODULES(""), "{\"pooling_mode\": [\"mean\", \"max\"]}", "lasttoken, found several"},
        {MODULES(""), "{\"pooling_mode\": 1}", "lasttoken, found several"},
        {MODULES(""), "{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": true}",
         "found several"},
        {MODULES(""), "{\"pooling_mode_cls_token\": 1}",
         "key \"pooling_mode_cls_token\": expected"},
        {MODULES(""), "{\"include_prompt\": 1}", "key \"include_prompt\": expected"},
        {MODULES(""), "[", "1_Pooling/config.json"},
        {MODULES(", " POOLING), "{}", "entry 2 is a module Pooling in \"1_Pooling\""},
        {MODULES(", {\"path\": \"2_LSTM\", \"type\": \"LSTM\"}"), "{}",
         "entry 2 is a module LSTM in \"2_LSTM\""},
        {MODULES(", {\"path\": \"../Dense\", \"type\": \"Dense\"}"), "{}",
         "entry 2 is a module Dense in \"../Dense\""},
        {"[]", "{}", "expected a Transformer and a Pooling, found 0 modules"},
        {"[" POOLING ", " TRANSFORMER "]", "{}", "entry 0 is a module Pooling"},
        {"[{\"path\": \"0_T\", \"type\": \"x.Transformer\"}]", "{}",
         "entry 0 is a module Transformer in \"0_T\""},
        {"[" TRANSFORMER ", {\"path\": \"2_Normalize\", \"type\": \"x.Normalize\"}]", "{}",
         "entry 1 is a module Normalize"},
        {"[" TRANSFORMER ", {\"path\": \"../1_Pooling\", \"type\": \"x.Pooling\"}]", "{}",
         "in \"../1_Pooling\""},
        {"[" TRANSFORMER ", {\"path\": \"a/b\", \"type\": \"x.Pooling\"}]", "{}", "in \"a/b\""},
        {"[" TRANSFORMER ", {\"path\": \"\", \"type\": \"x.Pooling\"}]", "{}", "in \"\""},
        {"[" TRANSFORMER ", {\"path\": \"no\", \"type\": \"x.Pooling\"}]", "{}",
         "no/config.json: no such file"},
        {"[{\"path\": \"\"}]", "{}", "entry 0 lacks \"type\" or \"path\""},
        {"[{\"type\": \"x.Transformer\"}]", "{}", "entry 0 lacks \"type\" or \"path\""},
        {"[", "{}", "modules.json: line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sentence sentence;
        struct berth_error error = {0};
        write_folder(cases[i].modules, cases[i].pooling);
        scratch_write("config_sentence_transformers.json", DEFAULT_PROMPT);
        assert_int_not_equal(sentence_read(scratch_folder, &sentence, &error), BERTH_OK);
        assert_message_has(&error, cases[i].message);
    }
}

static void test_cross_encoder(void **state) {
    (void)state;
    struct sentence sentence;
    write_folder("[" TRANSFORMER "]", "{}");
    assert_int_equal(sentence_read(scratch_folder, &sentence, NULL), BERTH_OK);
    assert_false(sentence.found);
}

static void test_damaged_companions(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"sentence_bert_config.json", "{"},
        {"tokenizer_config.json", "{"},
        {"config_sentence_transformers.json", "{"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct sentence sentence;
        struct berth_error error = {0};
        write_folder(MODULES(""), "{}");
        scratch_write(files[i][0], files[i][1]);
        assert_int_not_equal(sentence_read(scratch_folder, &sentence, &error), BERTH_OK);
        assert_message_has(&error, files[i][0]);
        assert_int_equal(file_remove(scratch(files[i][0]), NULL), BERTH_OK);
    }
}

static void test_casing(void **state) {
    (void)state;
    int lower_case = 1;
    struct berth_error error;
    scratch_write("sentence_bert_config.json", "{\"do_lower_case\": true}");
    assert_int_equal(sentence_lower_cases(scratch_folder, &lower_case, NULL), BERTH_OK);
    assert_int_equal(lower_case, 0); // without modules.json
    write_folder(MODULES(""), "{}");
    assert_int_equal(sentence_lower_cases(scratch_folder, &lower_case, NULL), BERTH_OK);
    assert_int_equal(lower_case, 1);
    scratch_write("sentence_bert_config.json", "{\"do_lower_case\": 1}");
    assert_int_equal(sentence_lower_cases(scratch_folder, &lower_case, &error), BERTH_CONFIG);
    assert_message_has(&error, "sentence_bert_config.json");
}

static void test_lengths_and_prompts(void **state) {
    (void)state;
    static const struct {
        const char *own, *tokenizer, *prompts;
        int64_t length;
        const char *prompt;
    } cases[] = {
        {"{\"max_seq_length\": 32}", "{\"model_max_length\": 64}", DEFAULT_PROMPT, 32, "query: "},
        {"{}", "{\"model_max_length\": 64}", "{}", 64, NULL},
        {"{\"max_seq_length\": null}", "{\"model_max_length\": 1e30}",
         "{\"default_prompt_name\": \"query\", \"truncate_dim\": null}", 0, NULL},
        {"{\"processor_kwargs\": {}, \"model_kwargs\": {\"dtype\": \"float16\"}}", "{}", "{}", 0,
         NULL},
        {"{\"max_seq_length\": 0}", "{\"model_max_length\": -1}",
         "{\"prompts\": {\"q\": \"\"}, \"default_prompt_name\": \"q\"}", 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sentence sentence;
        write_folder(MODULES(", {\"path\": \"2_Normalize\", \"type\": \"x.Normalize\"}"), "{}");
        scratch_write("sentence_bert_config.json", cases[i].own);
        scratch_write("tokenizer_config.json", cases[i].tokenizer);
        scratch_write("config_sentence_transformers.json", cases[i].prompts);
        assert_int_equal(sentence_read(scratch_folder, &sentence, NULL), BERTH_OK);
        assert_true(sentence.how.normalize);
        assert_int_equal(sentence.max_length, cases[i].length);
        assert_true((sentence.prompt != NULL) == (cases[i].prompt != NULL));
        if (sentence.prompt != NULL) {
            assert_string_equal(sentence.prompt, cases[i].prompt);
        }
        sentence_done(&sentence);
    }
}

static void test_prompts_by_name(void **state) {
    (void)state;
    struct sentence sentence;
    struct berth_error error;
    const char *prompt;
    write_folder(MODULES(""), "{\"include_prompt\": false}");
    scratch_write("config_sentence_transformers.json",
                  "{\"prompts\": {\"q\": \"query: \", \"document\": \"d \"}}");
    assert_int_equal(sentence_read(scratch_folder, &sentence, NULL), BERTH_OK);
    assert_true(sentence.skips_prompt && sentence.prompt == NULL);
    static const char *const known[][2] = {{"q", "query: "}, {"document", "d "}, {"query", ""}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(sentence_find_prompt(&sentence, known[i][0], &prompt, NULL), BERTH_OK);
        assert_string_equal(prompt, known[i][1]);
    }
    assert_int_equal(sentence_find_prompt(&sentence, "p", &prompt, &error), BERTH_USAGE);
    assert_message_has(&error, "prompt_name: the model has no prompt \"p\"; it has q, document, "
                               "query;");
    sentence_done(&sentence);
}

// The rows after the first; the weights of BERTH_POOL_WEIGHTED_MEAN are 2 and 3.
static void test_pooling_of_some_rows(void **state) {
    (void)state;
    static const float rows[] = {100, -100, 1, 5, 4, -3};
    static const float expected[SENTENCE_POOLINGS][2] = {
        [BERTH_POOL_MEAN] = {2.5f, 1},
        [BERTH_POOL_CLS] = {1, 5},
        [BERTH_POOL_MAX] = {4, 5},
        [BERTH_POOL_MEAN_SQRT_LENGTH] = {3.5355339f, 1.4142136f},
        [BERTH_POOL_WEIGHTED_MEAN] = {2.8f, 0.2f},
        [BERTH_POOL_LAST] = {4, -3}};
    for (int i = 0; i < SENTENCE_POOLINGS; i++) {
        float pooled[2];
        sentence_pool(rows, 1, 3, 2, (enum berth_pooling)i, pooled);
        assert_true(fabsf(pooled[0] - expected[i][0]) < 1e-6f);
        assert_true(fabsf(pooled[1] - expected[i][1]) < 1e-6f);
    }
}

// The Transformer in a folder of its own, which is the model's; its copy is flat.
static void test_body_in_its_own_folder(void **state) {
    (void)state;
    struct sentence sentence;
    enum sentence_kind kind;
    int lower_case;
    write_folder("[{\"path\": \"0_Transformer\", \"type\": \"x.Transformer\"}, " POOLING "]",
                 "{\"pooling_mode\": \"cls\"}");
    assert_int_equal(dir_make(scratch("0_Transformer"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("other"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("copy"), NULL), BERTH_OK);
    scratch_write("0_Transformer/sentence_bert_config.json",
                  "{\"max_seq_length\": 9, \"do_lower_case\": true}");
    scratch_write("config_sentence_transformers.json", DEFAULT_PROMPT);
    assert_int_equal(sentence_lower_cases(scratch("0_Transformer"), &lower_case, NULL), BERTH_OK);
    assert_true(lower_case);
    assert_int_equal(sentence_find_kind(scratch("other"), &kind, NULL), BERTH_OK);
    assert_int_equal(kind, SENTENCE_NONE); // another folder beside the modules
    assert_int_equal(sentence_copy(scratch("0_Transformer"), scratch("copy"), NULL), BERTH_OK);
    assert_false(dir_exists(scratch("copy/0_Transformer")));
    static const char *const folders[] = {"0_Transformer", "copy"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sentence_find_kind(scratch(folders[i]), &kind, NULL), BERTH_OK);
        assert_int_equal(kind, SENTENCE_DENSE);
        assert_int_equal(sentence_read(scratch(folders[i]), &sentence, NULL), BERTH_OK);
        assert_int_equal(sentence.how.pooling, BERTH_POOL_CLS);
        assert_int_equal(sentence.max_length, 9);
        assert_string_equal(sentence.prompt, "query: ");
        sentence_done(&sentence);
    }
}

// What sentence-transformers would take from the files and Berth does not.
static void test_refused_settings(void **state) {
    (void)state;
    static const struct {
        const char *own, *prompts, *message;
    } cases[] = {
        {"{\"processor_kwargs\": {\"model_max_length\": 8}}", "{}",
         "sentence_bert_config.json: key \"processor_kwargs\": settings such as "
         "\"model_max_length\" are not read here; move them to tokenizer_config.json"},
        {"{\"tokenizer_args\": {\"do_lower_case\": true}}", "{}", "key \"tokenizer_args\""},
        {"{\"config_kwargs\": {\"hidden_act\": \"relu\"}}", "{}", "move them to config.json"},
        {"{\"config_args\": {\"hidden_act\": \"relu\"}}", "{}", "key \"config_args\""},
        {"{\"processing_kwargs\": {\"text\": {\"max_length\": 8}}}", "{}",
         "key \"processing_kwargs\""},
        {"{}", "{\"default_prompt_name\": \"q\", \"prompts\": {\"p\": \"p: \"}}",
         "key \"default_prompt_name\": \"prompts\" has no \"q\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sentence sentence;
        struct berth_error error = {0};
        write_folder(MODULES(""), "{}");
        scratch_write("sentence_bert_config.json", cases[i].own);
        scratch_write("config_sentence_transformers.json", cases[i].prompts);
        assert_int_equal(sentence_read(scratch_folder, &sentence, &error), BERTH_CONFIG);
        assert_message_has(&error, cases[i].message);
    }
}

static void test_cut_vectors(void **state) {
    (void)state;
    struct sentence sentence;
    struct berth_error error = {0};
    write_folder(MODULES(", {\"path\": \"2_Normalize\", \"type\": \"x.Normalize\"}"), "{}");
    scratch_write("config_sentence_transformers.json", "{\"truncate_dim\": 16}");
    assert_int_equal(sentence_read(scratch_folder, &sentence, &error), BERTH_OK);
    assert_int_equal(sentence_width(&sentence, 32), 16);
    assert_int_equal(sentence_width(&sentence, 8), 8);
    sentence_done(&sentence);
    scratch_write("config_sentence_transformers.json", "{\"truncate_dim\": 0}");
    assert_int_equal(sentence_read(scratch_folder, &sentence, &error), BERTH_CONFIG);
    assert_message_has(&error, "key \"truncate_dim\": expected at least 1, found 0");
}

// --- Dense --------------------------------------------------------------------------------------

#define DENSE(number) "{\"path\": \"" number "_Dense\", \"type\": \"x.Dense\"}"
#define NORMALIZE "{\"path\": \"9_Normalize\", \"type\": \"x.Normalize\"}"

static void write_dense(const char *config, const float *weight, const float *bias) {
    const char *folder = scratch("2_Dense");
    struct tensor_out tensors[] = {
        {.name = "linear.weight", .dtype = TENSOR_F32, .rank = 2, .shape = {3, 2}, .data = weight},
        {.name = "linear.bias", .dtype = TENSOR_F32, .rank = 1, .shape = {3}, .data = bias}};
    assert_int_equal(dir_make(folder, NULL), BERTH_OK);
    scratch_write("2_Dense/config.json", config);
    assert_int_equal(safetensors_write(scratch("2_Dense/model.safetensors"), tensors,
                                       bias != NULL ? 2 : 1, NULL, NULL),
                     BERTH_OK);
}

static const float weight[] = {1, 0, 0, 2, -1, 1}, bias[] = {0.5f, 0, -0.25f};

static void test_dense(void **state) {
    (void)state;
    struct sentence sentence;
    float x[2] = {3, 4}, y[3];
    write_folder(MODULES(", " NORMALIZE ", " DENSE("2") ", " NORMALIZE), "{}");
    write_dense("{\"in_features\": 2, \"out_features\": 3, \"activation_function\": "
                "\"torch.nn.modules.activation.Tanh\"}",
                weight, bias);
    assert_int_equal(sentence_read(scratch_folder, &sentence, NULL), BERTH_OK);
    assert_int_equal(sentence.dense_count, 1);
    assert_int_equal(sentence_width(&sentence, 2), 3);
    assert_true(sentence.how.normalize);
    sentence_dense_apply(&sentence.dense[0], x, y);
    const double expected[] = {tanh(1.1), tanh(1.6), tanh(-0.05)};
    for (int i = 0; i < 3; i++) {
        assert_true(fabs((double)y[i] - expected[i]) < 1e-6);
    }
    assert_int_equal(sentence_check_width(&sentence, "m", 2, NULL), BERTH_OK);
    assert_int_equal(sentence_check_width(&sentence, "m", 4, NULL), BERTH_CONFIG);
    sentence_done(&sentence);
    write_folder(MODULES(", " DENSE("2")), "{}");
    write_dense("{\"in_features\": 2, \"out_features\": 3, \"bias\": false, "
                "\"activation_function\": \"torch.nn.modules.linear.Identity\"}",
                weight, NULL);
    assert_int_equal(sentence_read(scratch_folder, &sentence, NULL), BERTH_OK);
    assert_false(sentence.how.normalize);
    sentence_dense_apply(&sentence.dense[0], (float[]){3, 4}, y);
    assert_true(y[0] == 3 && y[1] == 8 && y[2] == 1);
    sentence_done(&sentence);
}

static void test_refused_dense(void **state) {
    (void)state;
    static const struct {
        const char *config, *message;
    } cases[] = {
        {"{\"in_features\": 2, \"out_features\": 0}", "key \"out_features\": expected 1 to"},
        {"{\"out_features\": 3}", "key \"in_features\": expected 1 to"},
        {"{\"in_features\": 2, \"out_features\": 3, \"activation_function\": \"x.Softsign\"}",
         "expected a class of torch named Identity, Tanh, ReLU, GELU, Sigmoid, SiLU, found"},
        {"{\"in_features\": 2, \"out_features\": 3, \"use_residual\": true}", "\"use_residual\""},
        {"{\"in_features\": 2, \"out_features\": 3, \"module_input_name\": \"token_embeddings\"}",
         "key \"module_input_name\": expected \"sentence_embedding\""},
        {"{\"in_features\": 3, \"out_features\": 3}", "\"linear.weight\" with 3 x 3 numbers"},
        {"{\"in_features\": 2, \"out_features\": 3, \"bias\": 1}", "key \"bias\": expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sentence sentence;
        struct berth_error error = {0};
        write_folder(MODULES(", " DENSE("2")), "{}");
        write_dense(cases[i].config, weight, bias);
        assert_int_not_equal(sentence_read(scratch_folder, &sentence, &error), BERTH_OK);
        assert_message_has(&error, cases[i].message);
        assert_message_has(&error, "2_Dense");
    }
    struct sentence sentence;
    struct berth_error error = {0};
    write_folder(MODULES(", " DENSE("2") ", " DENSE("2")), "{}");
    write_dense("{\"in_features\": 2, \"out_features\": 3}", weight, bias);
    assert_int_equal(sentence_read(scratch_folder, &sentence, &error), BERTH_CONFIG);
    assert_message_has(&error, "key \"in_features\": expected 3, as the module before it has");
}

// Writes the settings, copies what was written, and reads the copy.
static enum berth_status write_and_copy(const struct sentence *sentence) {
    struct sentence read;
    enum berth_status status = dir_make(scratch("made"), NULL);
    status = status == BERTH_OK ? sentence_write(sentence, 8, scratch("made"), NULL) : status;
    status = status == BERTH_OK ? dir_make(scratch("copy"), NULL) : status;
    status = status == BERTH_OK ? sentence_copy(scratch("made"), scratch("copy"), NULL) : status;
    status = status == BERTH_OK ? sentence_read(scratch("copy"), &read, NULL) : status;
    if (status == BERTH_OK) {
        assert_int_equal(read.how.pooling, sentence->how.pooling);
        assert_int_equal(read.how.normalize, sentence->how.normalize);
        assert_int_equal(read.max_length, sentence->max_length);
        assert_int_equal(read.skips_prompt, sentence->skips_prompt);
        assert_int_equal(read.settings != NULL, sentence->settings != NULL);
        sentence_done(&read);
    }
    return status;
}

// Removes both folders and resets the counts of allocations and calls.
static void start_anew(void) {
    memory_fail_at(0, 0);
    file_fail_at(0, 0);
    assert_int_equal(dir_remove(scratch("made"), NULL), BERTH_OK);
    assert_int_equal(dir_remove(scratch("copy"), NULL), BERTH_OK);
    memory_fail_at(0, 0);
    file_fail_at(0, 0);
}

// Without and with normalization and prompts; each allocation and each call for a file fails once.
static void test_written_and_copied(void **state) {
    (void)state;
    json *prompts;
    assert_int_equal(json_read_memory("p", DEFAULT_PROMPT, strlen(DEFAULT_PROMPT), &prompts, NULL),
                     BERTH_OK);
    for (int has_all = 0; has_all < 2; has_all++) {
        const struct sentence sentence = {
            .how = {.pooling = BERTH_POOL_MAX, .normalize = has_all},
            .max_length = 24,
            .skips_prompt = has_all,
            .settings = has_all ? prompts : NULL,
        };
        start_anew();
        assert_int_equal(write_and_copy(&sentence), BERTH_OK);
        const uint64_t allocations = memory_fail_at(0, 0), calls = file_fail_at(0, 0);
        assert_true(allocations > 10 && calls > 10);
        start_anew();
        for (uint64_t i = 1; i <= allocations; i++) {
            memory_fail_at(i, 0);
            assert_int_equal(write_and_copy(&sentence), BERTH_NO_MEMORY);
            start_anew();
        }
        for (uint64_t i = 1; i <= calls; i++) {
            file_fail_at(i, EIO);
            assert_int_equal(write_and_copy(&sentence), BERTH_IO);
            start_anew();
        }
    }
    json_free(prompts);
}

// A module's folder that is empty, as a repository does not keep it, and one of another name.
static void test_copies_of_odd_modules(void **state) {
    (void)state;
    write_folder("[" TRANSFORMER ", " POOLING
                 ", {\"path\": \"2_Normalize\", \"type\": \"x.Normalize\"}, {\"path\": 1}]",
                 "{}");
    assert_int_equal(dir_make(scratch("copy"), NULL), BERTH_OK);
    assert_int_equal(sentence_copy(scratch_folder, scratch("copy"), NULL), BERTH_OK);
    assert_true(file_exists(scratch("copy/1_Pooling/config.json")));
    assert_true(dir_exists(scratch("copy/2_Normalize")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_poolings),
        SCRATCH_TEST(test_refusals),
        SCRATCH_TEST(test_cross_encoder),
        SCRATCH_TEST(test_damaged_companions),
        SCRATCH_TEST(test_casing),
        SCRATCH_TEST(test_lengths_and_prompts),
        SCRATCH_TEST(test_prompts_by_name),
        SCRATCH_TEST(test_pooling_of_some_rows),
        SCRATCH_TEST(test_body_in_its_own_folder),
        SCRATCH_TEST(test_refused_settings),
        SCRATCH_TEST(test_cut_vectors),
        SCRATCH_TEST(test_dense),
        SCRATCH_TEST(test_refused_dense),
        SCRATCH_TEST(test_written_and_copied),
        SCRATCH_TEST(test_copies_of_odd_modules),
    };
    return cmocka_run_group_tests_name("sentence", tests, NULL, NULL);
}
