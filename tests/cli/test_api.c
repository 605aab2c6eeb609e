// SPDX-License-Identifier: Apache-2.0
// Tests the small public functions through berth.h: tokens with their positions, tensors of a
// folder, statuses; and each of them with every single allocation failing: BERTH_NO_MEMORY, no
// crash, no leak (ASan).
#include "berth.h"
#include "core/harness.h"
#include "core/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/berth-api-XXXXXX";
static char vocab[64], config_file[64], model[64];

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_files(void **state) {
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(vocab, sizeof vocab, "%s/vocab.txt", folder);
    snprintf(config_file, sizeof config_file, "%s/config.json", folder);
    snprintf(model, sizeof model, "%s/model", folder);
    write_text(vocab, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nwor\n##ld\n!\n");
    write_text(
        config_file,
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 16, "
        "\"max_position_embeddings\": 16, \"type_vocab_size\": 2, \"model_type\": \"bert\"}");
    return 0;
}

static int remove_files(void **state) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

// --- results -------------------------------------------------------------------------------------

static void tokens_carry_pieces_ids_and_places(void **state) {
    static const struct berth_token expected[] = {
        {"hello", 5, 0, 5}, {"wor", 6, 7, 10}, {"##ld", 7, 10, 12}, {"!", 8, 12, 13}};
    static const char text[] =
        "H\xC3\xA9llo  w\xC3\xB6rld!\xFF"; // "Héllo  wörld!" and a stray byte
    struct berth_config config;
    struct berth_error error;
    struct berth_tokenizer *tokenizer;
    struct berth_token *tokens;
    size_t count, ill_formed;
    berth_config_init(&config);
    config.vocab_file = vocab;
    assert_int_equal(berth_tokenizer_open(&config, &tokenizer, &error), BERTH_OK);
    assert_int_equal(berth_tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens, &count,
                                            &ill_formed, &error),
                     BERTH_OK);
    assert_int_equal(count, 4);
    assert_int_equal(ill_formed, 1);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(tokens[i].piece, expected[i].piece);
        assert_int_equal(tokens[i].id, expected[i].id);
        assert_int_equal(tokens[i].start, expected[i].start);
        assert_int_equal(tokens[i].end, expected[i].end);
    }
    berth_tokens_free(tokens);
    assert_int_equal(berth_tokenizer_encode(tokenizer, "", 0, &tokens, &count, NULL, NULL),
                     BERTH_OK);
    assert_int_equal(count, 0);
    berth_tokens_free(tokens);
    berth_tokenizer_close(tokenizer);
    berth_tokenizer_close(NULL);
}

struct sum {
    int64_t tensors, bytes, elements;
};

static void add(void *context, const struct berth_tensor_info *info) {
    struct sum *sum = context;
    int64_t elements = 1;
    for (int i = 0; i < info->rank; i++) {
        elements *= info->shape[i];
    }
    assert_string_equal(info->dtype, "F32");
    assert_int_equal(info->bytes, 4 * elements);
    sum->tensors++;
    sum->elements += elements;
    sum->bytes += (int64_t)info->bytes;
}

static void a_new_model_can_be_inspected(void **state) {
    struct berth_error error = {0};
    struct sum sum = {0}, of_file = {0};
    char *config = NULL, path[96];
    assert_int_equal(berth_init_model(config_file, model, 3, &error), BERTH_OK);
    assert_int_equal(berth_inspect(model, add, &sum, &config, &error), BERTH_OK);
    assert_non_null(strstr(config, "\"hidden_size\": 8"));
    berth_string_free(config);
    // tables (9 + 16 + 2) x 8, their norm, one layer, the head 2 x 8 + 2
    assert_int_equal(sum.elements, 27 * 8 + 16 + (4 * (64 + 8) + 2 * 128 + 16 + 8 + 32) + 18);
    assert_int_equal(sum.tensors, 5 + 16 + 2);
    snprintf(path, sizeof path, "%s/model.safetensors", model);
    assert_int_equal(berth_inspect(path, add, &of_file, &config, &error), BERTH_OK);
    assert_null(config);
    assert_int_equal(of_file.bytes, sum.bytes);
    assert_int_equal(berth_init_model(config_file, model, 3, &error), BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, model));
    int64_t files;
    assert_int_equal(berth_verify(model, &files, &error), BERTH_BAD_DATA);
    assert_int_equal(berth_verify(path, &files, &error), BERTH_NO_INPUT);
    assert_int_equal(berth_inspect(folder, add, &sum, &config, &error), BERTH_NO_INPUT);
}

static void the_seed_decides_the_weights(void **state) {
    struct berth_error error;
    char paths[3][96], command[256];
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/seed%d", folder, i);
        assert_int_equal(berth_init_model(config_file, paths[i], i / 2, &error), BERTH_OK);
    }
    snprintf(command, sizeof command, "cmp -s %s/model.safetensors %s/model.safetensors", paths[0],
             paths[1]);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "cmp -s %s/model.safetensors %s/model.safetensors", paths[0],
             paths[2]);
    assert_int_not_equal(system(command), 0);
}

static void statuses_have_names(void **state) {
    static const enum berth_status all[] = {BERTH_OK,       BERTH_FAILURE,     BERTH_USAGE,
                                            BERTH_BAD_DATA, BERTH_NO_INPUT,    BERTH_UNAVAILABLE,
                                            BERTH_INTERNAL, BERTH_NO_MEMORY,   BERTH_CANT_CREATE,
                                            BERTH_IO,       BERTH_INTERRUPTED, BERTH_CONFIG};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_not_equal(berth_status_name(all[i]), "unknown status");
    }
    assert_string_equal(berth_status_name((enum berth_status)12345), "unknown status");
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", BERTH_VERSION_MAJOR, BERTH_VERSION_MINOR,
             BERTH_VERSION_PATCH);
    assert_string_equal(version, BERTH_VERSION);
    assert_string_equal(berth_version(), BERTH_VERSION);
    assert_int_equal(berth_version_number(), BERTH_VERSION_NUMBER);
}

// --- missing arguments ---------------------------------------------------------------------------

#define REFUSED(argument, call)                                                                    \
    do {                                                                                           \
        error.message[0] = '\0';                                                                   \
        assert_int_equal(call, BERTH_USAGE);                                                       \
        if (strstr(error.message, argument) == NULL) {                                             \
            fail_msg("%s: \"%s\" is not named in: %s", #call, argument, error.message);            \
        }                                                                                          \
    } while (0)

static int see(void *context, const struct berth_sample *sample) {
    return 1;
}

static void missing_handles_and_settings_are_named(void **state) {
    const struct berth_log log = {0};
    struct berth_error error;
    struct berth_config config;
    struct berth_reporter *reporter;
    struct berth_tokenizer *tokenizer;
    struct berth_model *a_model;
    struct berth_encoder *encoder;
    berth_config_init(&config);
    REFUSED("config", berth_config_set(NULL, "seed", "1", &error));
    REFUSED("name", berth_config_set(&config, NULL, "1", &error));
    REFUSED("value", berth_config_set(&config, "seed", NULL, &error));
    REFUSED("config", berth_reporter_open(NULL, 2, &reporter, &error));
    assert_null(reporter);
    REFUSED("reporter", berth_reporter_open(&config, 2, NULL, &error));
    REFUSED("config", berth_tokenizer_open(NULL, &tokenizer, &error));
    assert_null(tokenizer);
    REFUSED("tokenizer", berth_tokenizer_open(&config, NULL, &error));
    REFUSED("config", berth_model_open(NULL, log, &a_model, &error));
    assert_null(a_model);
    REFUSED("model", berth_model_open(&config, log, NULL, &error));
    REFUSED("config", berth_encoder_open(NULL, log, &encoder, &error));
    assert_null(encoder);
    REFUSED("encoder", berth_encoder_open(&config, log, NULL, &error));
    REFUSED("config", berth_embed(NULL, log, NULL, &error));
    REFUSED("job", berth_embed(&config, log, NULL, &error));
    assert_int_equal(berth_config_set(NULL, NULL, NULL, NULL), BERTH_USAGE);
}

static void missing_inputs_are_named(void **state) {
    const struct berth_log log = {0};
    struct berth_error error;
    struct berth_config config;
    struct berth_tokenizer *tokenizer;
    struct berth_token *tokens;
    struct berth_answer answer;
    size_t count;
    float numbers[8];
    const char *none = NULL;
    struct berth_embedding how = {BERTH_POOL_MEAN, 0};
    berth_config_init(&config);
    config.vocab_file = vocab;
    assert_int_equal(berth_tokenizer_open(&config, &tokenizer, &error), BERTH_OK);
    REFUSED("tokenizer", berth_tokenizer_encode(NULL, "a", 1, &tokens, &count, NULL, &error));
    REFUSED("text", berth_tokenizer_encode(tokenizer, NULL, 1, &tokens, &count, NULL, &error));
    REFUSED("tokens", berth_tokenizer_encode(tokenizer, "a", 1, NULL, &count, NULL, &error));
    REFUSED("count", berth_tokenizer_encode(tokenizer, "a", 1, &tokens, NULL, NULL, &error));
    assert_int_equal(berth_tokenizer_encode(tokenizer, NULL, 0, &tokens, &count, NULL, &error),
                     BERTH_OK);
    berth_tokens_free(tokens);
    berth_tokenizer_close(tokenizer);

    struct berth_encoder *encoder;
    config.model_name_or_path = model;
    config.max_seq_length = 16;
    assert_int_equal(berth_encoder_open(&config, log, &encoder, &error), BERTH_OK);
    REFUSED("encoder", berth_encoder_embed(NULL, &none, 1, how, numbers, &error));
    REFUSED("texts", berth_encoder_embed(encoder, NULL, 1, how, numbers, &error));
    REFUSED("text 1", berth_encoder_embed(encoder, &none, 1, how, numbers, &error));
    REFUSED("embeddings", berth_encoder_embed(encoder, &none, 1, how, NULL, &error));
    assert_int_equal(berth_encoder_embed(encoder, NULL, 0, how, NULL, &error), BERTH_OK);
    how.pooling = (enum berth_pooling)9;
    none = "hello";
    REFUSED("pooling", berth_encoder_embed(encoder, &none, 1, how, numbers, &error));
    berth_encoder_close(encoder);

    struct berth_model *asked;
    assert_int_equal(berth_model_open(&config, log, &asked, &error), BERTH_OK);
    REFUSED("model", berth_model_answer(NULL, "a", "b", &answer, 1, &count, &error));
    REFUSED("question", berth_model_answer(asked, NULL, "b", &answer, 1, &count, &error));
    REFUSED("context", berth_model_answer(asked, "a", NULL, &answer, 1, &count, &error));
    REFUSED("answers", berth_model_answer(asked, "a", "b", NULL, 1, &count, &error));
    REFUSED("count", berth_model_answer(asked, "a", "b", &answer, 1, NULL, &error));
    assert_int_equal(berth_model_answer(asked, "hello", "world", NULL, 0, &count, &error),
                     BERTH_OK);
    assert_int_equal(count, 0);
    berth_model_close(asked);
}

static void missing_paths_and_jobs_are_named(void **state) {
    const struct berth_log log = {0};
    struct berth_error error;
    struct berth_config config;
    struct berth_convert_settings conversion = {.to = NULL};
    struct berth_prepare_input input = {.text_count = 1};
    struct berth_vocab_settings words = {.text_count = 1};
    const struct berth_selection samples = {.count = 1};
    char *text;
    berth_config_init(&config);
    REFUSED("config", berth_train("squad", NULL, log, NULL, NULL, &error));
    REFUSED("config", berth_predict("squad", NULL, log, NULL, NULL, &error));
    REFUSED("config", berth_train("pretrain", NULL, log, NULL, NULL, &error));
    REFUSED("config", berth_evaluate("pretrain", NULL, log, NULL, NULL, &error));
    REFUSED("config", berth_train("classify", NULL, log, NULL, NULL, &error));
    REFUSED("config", berth_predict("classify", NULL, log, NULL, NULL, &error));
    REFUSED("--", berth_train("squad", &config, log, NULL, NULL, &error));
    REFUSED("--", berth_predict("squad", &config, log, NULL, NULL, &error));
    REFUSED("--", berth_train("pretrain", &config, log, NULL, NULL, &error));
    REFUSED("--", berth_evaluate("pretrain", &config, log, NULL, NULL, &error));
    REFUSED("--", berth_train("classify", &config, log, NULL, NULL, &error));
    REFUSED("--", berth_predict("classify", &config, log, NULL, NULL, &error));
    REFUSED("--validation_file", berth_evaluate("squad", &config, log, NULL, NULL, &error));
    REFUSED("task", berth_train(NULL, &config, log, NULL, NULL, &error));
    REFUSED("expected one of squad, classify, tokens, embed, pretrain, mlm",
            berth_train("squat", &config, log, NULL, NULL, &error));
    REFUSED("config", berth_show_squad(NULL, samples, log, see, NULL, &error));
    REFUSED("visit", berth_show_squad(&config, samples, log, NULL, NULL, &error));
    REFUSED("--", berth_show_squad(&config, samples, log, see, NULL, &error));
    REFUSED("dataset_path", berth_evaluate_squad(NULL, "b", NULL, 0, log, &text, &error));
    REFUSED("predictions_path", berth_evaluate_squad("a", NULL, NULL, 0, log, &text, &error));
    REFUSED("path", berth_inspect(NULL, add, NULL, &text, &error));
    REFUSED("path", berth_inspect_data(NULL, NULL, &error));
    REFUSED("path", berth_verify(NULL, NULL, &error));
    REFUSED("name_or_file", berth_init_model(NULL, folder, 1, &error));
    REFUSED("output_dir", berth_init_model("tiny", NULL, 1, &error));
    REFUSED("input", berth_convert(NULL, folder, &conversion, log, &error));
    REFUSED("output_dir", berth_convert(model, NULL, &conversion, log, &error));
    REFUSED("settings", berth_convert(model, folder, NULL, log, &error));
    REFUSED("to", berth_convert(model, folder, &conversion, log, &error));
    REFUSED("\"a\"", berth_compare(NULL, model, 0, NULL, NULL, NULL, &error));
    REFUSED("\"b\"", berth_compare(model, NULL, 0, NULL, NULL, NULL, &error));
    REFUSED("name", berth_fetch(NULL, NULL, log, NULL, &text, &error));
    REFUSED("path", berth_fetch("a/b", NULL, log, NULL, NULL, &error));
    REFUSED("name_or_path", berth_find_model(NULL, &text, &error));
    REFUSED("path", berth_find_model("a/b", NULL, &error));
    REFUSED("config", berth_prepare(NULL, &input, log, NULL, NULL, &error));
    REFUSED("input", berth_prepare(&config, NULL, log, NULL, NULL, &error));
    REFUSED("text 1", berth_prepare(&config, &input, log, NULL, NULL, &error));
    REFUSED("config", berth_pack(NULL, "a", "b", log, NULL, NULL, &error));
    REFUSED("input_dir", berth_pack(&config, NULL, "b", log, NULL, NULL, &error));
    REFUSED("output_dir", berth_pack(&config, "a", NULL, log, NULL, NULL, &error));
    REFUSED("config", berth_vocab_train(NULL, &words, log, NULL, NULL, &error));
    REFUSED("settings", berth_vocab_train(&config, NULL, log, NULL, NULL, &error));
    REFUSED("text 1", berth_vocab_train(&config, &words, log, NULL, NULL, &error));
}

static void what_nobody_wants_is_not_given(void **state) {
    struct berth_error error;
    struct berth_run_result result = {0};
    berth_config_init(NULL);
    assert_true(isnan(berth_run_metric(NULL, "f1")));
    assert_true(isnan(berth_run_metric(&result, NULL)));
    assert_null(berth_reporter_log(NULL).write);
    assert_int_equal(berth_reporter_check(NULL, NULL), BERTH_OK);
    assert_int_equal(berth_encoder_size(NULL), 0);
    berth_reporter_close(NULL);
    berth_model_close(NULL);
    berth_encoder_close(NULL);
    berth_answers_free(NULL, 3);
    berth_tokens_free(NULL);
    berth_string_free(NULL);
    assert_int_equal(berth_inspect(model, NULL, NULL, NULL, &error), BERTH_OK);
    assert_int_equal(berth_inspect(vocab, NULL, NULL, NULL, NULL), BERTH_BAD_DATA);
    assert_int_equal(berth_inspect_data(folder, NULL, &error), BERTH_OK);
    assert_int_equal(berth_inspect_data("/nonexistent", NULL, &error), BERTH_NO_INPUT);
    assert_non_null(strstr(error.message, "/nonexistent"));
    assert_int_equal(berth_verify(model, NULL, NULL), BERTH_BAD_DATA);
    assert_int_equal(berth_compare(model, model, 0, NULL, NULL, NULL, &error), BERTH_OK);
}

// Inference needs no optimizer, whatever its settings.
static void an_encoder_opens_with_any_optimizer(void **state) {
    struct berth_config config;
    struct berth_encoder *encoder;
    struct berth_error error;
    berth_config_init(&config);
    config.model_name_or_path = model;
    config.vocab_file = vocab;
    config.max_seq_length = 16;
    config.optimizer = "lamb";
    config.adam_w_mode = 0;
    assert_int_equal(berth_encoder_open(&config, (struct berth_log){0}, &encoder, &error),
                     BERTH_OK);
    berth_encoder_close(encoder);
}

// Token types are rows of a table: a model with one row must not read a second one.
static void a_model_of_one_token_type_takes_single_texts(void **state) {
    static const struct berth_text texts[] = {{"hello", NULL}, {"hello", "world"}};
    struct berth_config config;
    struct berth_classifier *classifier;
    struct berth_encoder *encoder;
    struct berth_text_status statuses[2];
    struct berth_error error;
    float numbers[2 * 8];
    char single[96], own_config[96];
    snprintf(single, sizeof single, "%s/single", folder);
    snprintf(own_config, sizeof own_config, "%s/single.json", folder);
    write_text(
        own_config,
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 16, "
        "\"max_position_embeddings\": 16, \"type_vocab_size\": 1, \"model_type\": \"bert\"}");
    assert_int_equal(berth_init_model(own_config, single, 3, &error), BERTH_OK);
    berth_config_init(&config);
    config.model_name_or_path = single;
    config.vocab_file = vocab;
    config.max_seq_length = 16;
    for (int encodes = 0; encodes < 2; encodes++) {
        if (encodes) {
            assert_int_equal(berth_encoder_open(&config, (struct berth_log){0}, &encoder, &error),
                             BERTH_OK);
            assert_int_equal(berth_encoder_embed_many(encoder, texts, 2,
                                                      berth_encoder_usual(encoder), numbers,
                                                      statuses, &error),
                             BERTH_OK);
            berth_encoder_close(encoder);
        } else {
            assert_int_equal(
                berth_classifier_open(&config, (struct berth_log){0}, &classifier, &error),
                BERTH_OK);
            assert_int_equal(berth_classifier_classify(classifier, texts, 2, BERTH_SCORE_USUAL,
                                                       numbers, statuses, &error),
                             BERTH_OK);
            berth_classifier_close(classifier);
        }
        assert_int_equal(statuses[0].error.status, BERTH_OK);
        assert_int_equal(statuses[1].error.status, BERTH_USAGE);
        assert_non_null(strstr(statuses[1].error.message, "type_vocab_size 1"));
    }
}

static void settings_filled_by_hand_are_checked(void **state) {
    struct berth_config config;
    struct berth_tokenizer *tokenizer;
    struct berth_error error;
    berth_config_init(&config);
    config.vocab_file = vocab;
    config.precision = (enum berth_precision)7;
    REFUSED("precision", berth_tokenizer_open(&config, &tokenizer, &error));
    config.precision = BERTH_FP32;
    config.optimizer = "none such";
    REFUSED("optimizer", berth_tokenizer_open(&config, &tokenizer, &error));
    config.optimizer = NULL;
    config.max_seq_length = -5;
    REFUSED("max_seq_length", berth_tokenizer_open(&config, &tokenizer, &error));
    config.max_seq_length = 16;
    config.learning_rate = NAN;
    REFUSED("learning_rate", berth_tokenizer_open(&config, &tokenizer, &error));
}

// A struct made by the library copies texts, so that other languages need not keep theirs.
static void settings_made_by_the_library_own_their_texts(void **state) {
    struct berth_config *config = berth_config_new();
    struct berth_error error;
    struct berth_tokenizer *tokenizer;
    char path[64], number[] = "17";
    assert_non_null(config);
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(berth_config_set(config, "vocab_file", path, &error), BERTH_OK);
    snprintf(path, sizeof path, "%s", vocab);
    assert_int_equal(berth_config_set(config, "vocab_file", path, &error), BERTH_OK);
    assert_int_equal(berth_config_set(config, "max_seq_length", number, &error), BERTH_OK);
    assert_int_equal(berth_config_set(config, "max_seq_length", "many", &error), BERTH_USAGE);
    memset(path, 'x', sizeof path - 1);
    memset(number, '9', 2);
    assert_string_equal(config->vocab_file, vocab);
    assert_int_equal(config->max_seq_length, 17);
    assert_int_equal(berth_tokenizer_open(config, &tokenizer, &error), BERTH_OK);
    berth_tokenizer_close(tokenizer);
    berth_config_free(config);
    berth_config_free(NULL);
}

// --- memory that is out --------------------------------------------------------------------------

static enum berth_status tokenize(struct berth_error *error) {
    struct berth_config config;
    struct berth_tokenizer *tokenizer;
    struct berth_token *tokens;
    size_t count;
    berth_config_init(&config);
    config.vocab_file = vocab;
    enum berth_status status = berth_tokenizer_open(&config, &tokenizer, error);
    if (status == BERTH_OK) {
        status = berth_tokenizer_encode(tokenizer, "hello world", 11, &tokens, &count, NULL, error);
        berth_tokens_free(tokens);
        berth_tokenizer_close(tokenizer);
    }
    return status;
}

static enum berth_status make_settings(struct berth_error *error) {
    struct berth_config *config = berth_config_new();
    enum berth_status status = BERTH_NO_MEMORY;
    snprintf(error->message, sizeof error->message, "settings");
    if (config != NULL) {
        status = berth_config_set(config, "vocab_file", vocab, error);
    }
    berth_config_free(config);
    return status;
}

static enum berth_status initialise(struct berth_error *error) {
    char path[96], command[128];
    snprintf(path, sizeof path, "%s/fresh", folder);
    snprintf(command, sizeof command, "rm -rf %s", path);
    assert_int_equal(system(command), 0);
    return berth_init_model(config_file, path, 1, error);
}

static enum berth_status inspect(struct berth_error *error) {
    struct sum sum = {0};
    char *config;
    enum berth_status status = berth_inspect(model, add, &sum, &config, error);
    berth_string_free(config);
    return status;
}

static enum berth_status report(struct berth_error *error) {
    struct berth_config config;
    struct berth_reporter *reporter;
    berth_config_init(&config);
    config.json_summary = "/dev/null";
    enum berth_status status = berth_reporter_open(&config, STDERR_FILENO, &reporter, error);
    berth_reporter_close(reporter);
    return status;
}

static void every_allocation_may_fail(void **state) {
    enum berth_status (*const jobs[])(struct berth_error *) = {tokenize, make_settings, initialise,
                                                               inspect, report};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct berth_error error = {0};
        memory_fail_at(0, 0);
        assert_int_equal(jobs[i](&error), BERTH_OK);
        uint64_t calls = memory_fail_at(0, 0);
        assert_true(calls > 0);
        for (uint64_t call = 1; call <= calls; call++) {
            error.message[0] = '\0';
            memory_fail_at(call, 0);
            enum berth_status status = jobs[i](&error);
            memory_fail_at(0, 0);
            if (status != BERTH_OK) { // an allocation that serves comfort only may fail unnoticed
                assert_int_equal(status, BERTH_NO_MEMORY);
                assert_string_not_equal(error.message, "");
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_carry_pieces_ids_and_places),
        cmocka_unit_test(a_new_model_can_be_inspected),
        cmocka_unit_test(the_seed_decides_the_weights),
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(missing_handles_and_settings_are_named),
        cmocka_unit_test(missing_inputs_are_named),
        cmocka_unit_test(missing_paths_and_jobs_are_named),
        cmocka_unit_test(what_nobody_wants_is_not_given),
        cmocka_unit_test(an_encoder_opens_with_any_optimizer),
        cmocka_unit_test(a_model_of_one_token_type_takes_single_texts),
        cmocka_unit_test(settings_filled_by_hand_are_checked),
        cmocka_unit_test(settings_made_by_the_library_own_their_texts),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
