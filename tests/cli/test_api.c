// SPDX-License-Identifier: Apache-2.0
// Tests the small public functions through berth.h: tokens with their positions, tensors of a
// folder, statuses, settings; and that every allocation that fails is BERTH_NO_MEMORY, without a
// crash or a leak (which the sanitizer finds).
#include "core/calls.h"
#include "core/scratch.h"

#include <math.h>

static char vocab[512], config_file[512], model[512];

static int make_files(void **state) {
    if (scratch_setup(state) != 0) {
        return -1;
    }
    snprintf(vocab, sizeof vocab, "%s", scratch("vocab.txt"));
    snprintf(config_file, sizeof config_file, "%s", scratch("config.json"));
    snprintf(model, sizeof model, "%s", scratch("model"));
    scratch_write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nwor\n##ld\n!\n");
    scratch_write(
        "config.json",
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 16, "
        "\"max_position_embeddings\": 16, \"type_vocab_size\": 2, \"model_type\": \"bert\"}");
    return 0;
}

// --- results -------------------------------------------------------------------------------------

static void tokens_have_pieces_ids_and_positions(void **state) {
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
    char *config = NULL;
    assert_int_equal(berth_init_model(config_file, model, 3, &error), BERTH_OK);
    assert_int_equal(berth_inspect(model, add, &sum, &config, &error), BERTH_OK);
    assert_non_null(strstr(config, "\"hidden_size\": 8"));
    berth_string_free(config);
    // tables (9 + 16 + 2) x 8, their norm, one layer, the head 2 x 8 + 2
    assert_int_equal(sum.elements, 27 * 8 + 16 + (4 * (64 + 8) + 2 * 128 + 16 + 8 + 32) + 18);
    assert_int_equal(sum.tensors, 5 + 16 + 2);
    const char *path = scratch("model/model.safetensors");
    assert_int_equal(berth_inspect(path, add, &of_file, &config, &error), BERTH_OK);
    assert_null(config);
    assert_int_equal(of_file.bytes, sum.bytes);
    assert_int_equal(berth_init_model(config_file, model, 3, &error), BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, model));
    int64_t files;
    assert_int_equal(berth_verify(model, &files, &error), BERTH_BAD_DATA);
    assert_int_equal(berth_verify(path, &files, &error), BERTH_NO_INPUT);
    assert_int_equal(berth_inspect(scratch_folder, add, &sum, &config, &error), BERTH_NO_INPUT);
}

// The file is no container, and DeepSpeed's `latest` names a folder that is missing.
static void the_weights_are_read_only_for_a_visitor(void **state) {
    static const char *const extra[] = {"model/openvino_model.bin", "model/latest"};
    struct berth_error error = {0};
    struct sum sum = {0};
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        char *config = NULL;
        scratch_write(extra[i], "global_step500");
        assert_int_not_equal(berth_inspect(model, add, &sum, NULL, &error), BERTH_OK);
        assert_int_equal(berth_inspect(model, NULL, NULL, &config, &error), BERTH_OK);
        assert_non_null(strstr(config, "\"hidden_size\": 8"));
        berth_string_free(config);
        assert_int_equal(unlink(scratch(extra[i])), 0);
    }
}

static void a_large_configuration_is_read(void **state) {
    struct berth_error error = {0};
    char *config = NULL, *text = malloc(2000001);
    memset(text, ' ', 2000000);
    text[2000000] = '\0';
    assert_int_equal(dir_make(scratch("large"), &error), BERTH_OK);
    scratch_write("large/config.json", text);
    free(text);
    assert_int_equal(berth_inspect(scratch("large"), NULL, NULL, &config, &error), BERTH_OK);
    assert_int_equal(strlen(config), 2000000);
    berth_string_free(config);
}

static void the_seed_decides_the_weights(void **state) {
    static const char *const names[] = {"seed0", "again0", "seed1"};
    char *one, *other;
    size_t length;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(berth_init_model(config_file, scratch(names[i]), i / 2, NULL), BERTH_OK);
    }
    assert_same_file(scratch("seed0/model.safetensors"), scratch("again0/model.safetensors"));
    assert_int_equal(file_read(scratch("seed0/model.safetensors"), 1 << 20, &one, &length, NULL),
                     BERTH_OK);
    assert_int_equal(file_read(scratch("seed1/model.safetensors"), 1 << 20, &other, &length, NULL),
                     BERTH_OK);
    assert_memory_not_equal(one, other, length);
    memory_free(one);
    memory_free(other);
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

// tests/api/test_arguments.c has every argument that must not be NULL.
static void a_refusal_leaves_no_handle(void **state) {
    const struct berth_log log = {0};
    struct berth_reporter *reporter;
    struct berth_tokenizer *tokenizer;
    struct berth_answerer *a_model;
    struct berth_encoder *encoder;
    struct berth_classifier *classifier;
    assert_int_equal(berth_reporter_open(NULL, 2, &reporter, NULL), BERTH_USAGE);
    assert_int_equal(berth_tokenizer_open(NULL, &tokenizer, NULL), BERTH_USAGE);
    assert_int_equal(berth_answerer_open(NULL, log, &a_model, NULL), BERTH_USAGE);
    assert_int_equal(berth_encoder_open(NULL, log, &encoder, NULL), BERTH_USAGE);
    assert_int_equal(berth_classifier_open(NULL, log, &classifier, NULL), BERTH_USAGE);
    assert_true(reporter == NULL && tokenizer == NULL && a_model == NULL && encoder == NULL &&
                classifier == NULL);
    assert_int_equal(berth_config_set(NULL, NULL, NULL, NULL), BERTH_USAGE);
}

static void missing_texts_are_named(void **state) {
    const struct berth_log log = {0};
    struct berth_error error;
    struct berth_config config;
    struct berth_tokenizer *tokenizer;
    struct berth_token *tokens;
    size_t count;
    float numbers[8];
    const char *none = NULL;
    struct berth_embedding how = {BERTH_POOL_MEAN, 0};
    berth_config_init(&config);
    config.vocab_file = vocab;
    assert_int_equal(berth_tokenizer_open(&config, &tokenizer, &error), BERTH_OK);
    assert_int_equal(berth_tokenizer_encode(tokenizer, NULL, 0, &tokens, &count, NULL, &error),
                     BERTH_OK);
    berth_tokens_free(tokens);
    berth_tokenizer_close(tokenizer);

    struct berth_encoder *encoder;
    config.model_name_or_path = model;
    config.max_seq_length = 16;
    assert_int_equal(berth_encoder_open(&config, log, &encoder, &error), BERTH_OK);
    REFUSED("text 1", berth_encoder_embed(encoder, &none, 1, how, numbers, &error));
    assert_int_equal(berth_encoder_embed(encoder, NULL, 0, how, NULL, &error), BERTH_OK);
    how.pooling = (enum berth_pooling)9;
    none = "hello";
    REFUSED("pooling", berth_encoder_embed(encoder, &none, 1, how, numbers, &error));
    berth_encoder_close(encoder);

    struct berth_answerer *asked;
    assert_int_equal(berth_answerer_open(&config, log, &asked, &error), BERTH_OK);
    assert_int_equal(berth_answerer_answer(asked, "hello", "world", NULL, 0, &count, &error),
                     BERTH_OK);
    assert_int_equal(count, 0);
    berth_answerer_close(asked);
}

// Each without its head, which the error names with the command that trains it.
static void a_model_without_the_head_is_refused(void **state) {
    const struct berth_log log = {0};
    struct berth_config config;
    struct berth_error error;
    struct berth_classifier *classifier;
    struct berth_tagger *tagger;
    struct berth_filler *filler;
    berth_config_init(&config);
    config.model_name_or_path = model; // of questions
    config.vocab_file = vocab;
    config.device = "cpu";
    config.threads = 1;
    assert_int_equal(berth_classifier_open(&config, log, &classifier, &error), BERTH_CONFIG);
    assert_message_has(&error, "classifier.weight, ");
    assert_message_has(&error, "`berth finetune classify`");
    assert_int_equal(berth_tagger_open(&config, log, &tagger, &error), BERTH_CONFIG);
    assert_message_has(&error, "`berth finetune tokens`");
    assert_int_equal(berth_filler_open(&config, log, &filler, &error), BERTH_CONFIG);
    assert_message_has(&error, "cls.predictions.");
    assert_message_has(&error, "`berth pretrain --objective mlm`");
    assert_true(classifier == NULL && tagger == NULL && filler == NULL);
    config.allow_new_head = 1;
    assert_int_equal(berth_classifier_open(&config, log, &classifier, &error), BERTH_OK);
    berth_classifier_close(classifier);
}

static void missing_settings_of_jobs_are_named(void **state) {
    const struct berth_log log = {0};
    struct berth_error error;
    struct berth_config config;
    struct berth_prepare_input input = {.text_count = 1};
    const struct berth_prepare_input named = {.extracted = "text", .name = "a/b"};
    struct berth_vocab_settings words = {.text_count = 1};
    const struct berth_selection samples = {.count = 1};
    berth_config_init(&config);
    REFUSED("missing", job_train("squad", &config, log, NULL, NULL, &error));
    REFUSED("missing", job_predict("squad", &config, log, NULL, NULL, &error));
    REFUSED("missing", job_train("pretrain", &config, log, NULL, NULL, &error));
    REFUSED("missing", job_evaluate("pretrain", &config, log, NULL, NULL, &error));
    REFUSED("missing", job_train("classify", &config, log, NULL, NULL, &error));
    REFUSED("missing", job_predict("classify", &config, log, NULL, NULL, &error));
    REFUSED("validation_file", job_evaluate("squad", &config, log, NULL, NULL, &error));
    REFUSED("expected one of squad, classify, tokens, embed, pretrain, mlm",
            job_train("squat", &config, log, NULL, NULL, &error));
    REFUSED("missing", berth_show_squad(&config, samples, log, see, NULL, &error));
    REFUSED("text 1", berth_prepare(&config, &input, log, NULL, NULL, &error));
    config.train_file = "texts.csv";
    config.text_pair_column = "b";
    REFUSED("text_column", job_train("embed", &config, log, NULL, NULL, &error));
    REFUSED("text_column", job_train("classify", &config, log, NULL, NULL, &error));
    config.text_pair_column = NULL;
    config.negative_column = "c";
    REFUSED("text_column", job_train("embed", &config, log, NULL, NULL, &error));
    config.train_file = config.negative_column = NULL;
    REFUSED("output_dir", berth_prepare(&config, &named, log, NULL, NULL, &error));
    config.output_dir = "out";
    REFUSED("found \"a/b\"", berth_prepare(&config, &named, log, NULL, NULL, &error));
    config.output_dir = NULL;
    REFUSED("text 1", berth_vocab_train(&config, &words, log, NULL, NULL, &error));
}

// Of structs that have no berth_config_set.
static void numbers_and_names_are_checked(void **state) {
    const struct berth_log log = {.write = NULL};
    const char *const texts[] = {vocab};
    struct berth_config config;
    struct berth_error error;
    struct berth_prepare_input input = {.texts = texts, .text_count = 1, .file_size = -1};
    struct berth_vocab_settings words = {.texts = texts, .text_count = 1, .output = scratch("v")};
    char *path;
    berth_config_init(&config);
    config.output_dir = scratch_folder;
    REFUSED("file_size -1", berth_prepare(&config, &input, log, NULL, NULL, &error));
    words.size = -1;
    REFUSED("size -1", berth_vocab_train(&config, &words, log, NULL, NULL, &error));
    words.size = 0;
    words.limit_alphabet = -2;
    REFUSED("limit_alphabet -2", berth_vocab_train(&config, &words, log, NULL, NULL, &error));
    words.limit_alphabet = 0;
    words.min_frequency = -3;
    REFUSED("min_frequency -3", berth_vocab_train(&config, &words, log, NULL, NULL, &error));
    REFUSED("tolerance nan", berth_compare(model, model, NAN, NULL, NULL, NULL, &error));
    REFUSED("tolerance -1", berth_compare(model, model, -1, NULL, NULL, NULL, &error));
    REFUSED("found \"test\"", berth_find_data("squad", "test", &path, &error));
}

// --- stopping ------------------------------------------------------------------------------------

struct late_stop {
    const char *phase;
    volatile int stop;
};

static void stop_at_the_end(void *context, const struct berth_record *record) {
    struct late_stop *late = context;
    if (record->kind == BERTH_RECORD_PROGRESS && strcmp(record->text, late->phase) == 0 &&
        record->fields[0].integer == record->fields[1].integer) {
        late->stop = 1;
    }
}

// The last batch is computed, the last piece found; what remains is to write.
static void a_stop_before_writing_is_heeded(void **state) {
    struct late_stop predicted = {.phase = "predict"}, trained = {.phase = "pieces"};
    struct berth_config config;
    struct berth_error error = {0};
    char text[12000] = "";
    size_t used = 0;
    berth_config_init(&config);
    assert_int_equal(berth_init_model(config_file, scratch("reader"), 3, &error), BERTH_OK);
    scratch_write("questions.json",
                  "{\"data\": [{\"title\": \"t\", \"paragraphs\": [{\"context\": \"hello world!\", "
                  "\"qas\": [{\"id\": \"1\", \"question\": \"hello?\"}]}]}]}");
    config.model_name_or_path = scratch("reader");
    config.vocab_file = vocab;
    config.predict_file = scratch("questions.json");
    config.output_dir = scratch("answers");
    config.max_seq_length = 16;
    config.max_query_length = 4;
    config.doc_stride = 4;
    const struct berth_log log = {stop_at_the_end, &predicted};
    assert_int_equal(job_predict("squad", &config, log, &predicted.stop, NULL, &error),
                     BERTH_INTERRUPTED);
    assert_non_null(strstr(error.message, "no predictions were written"));
    assert_false(file_exists(scratch("answers/predictions.json")));

    for (unsigned i = 0; i < 1200; i++) {
        const unsigned hash = i * 2654435761u;
        for (unsigned k = 0; k < 6; k++) {
            text[used++] = (char)('a' + (hash >> (4 * k)) % 26);
        }
        text[used++] = ' ';
    }
    scratch_write("words.txt", text);
    const char *const texts[] = {scratch("words.txt")};
    const struct berth_vocab_settings settings = {.texts = texts,
                                                  .text_count = 1,
                                                  .output = scratch("pieces.txt"),
                                                  .size = 500,
                                                  .min_frequency = 1};
    const struct berth_log pieces = {stop_at_the_end, &trained};
    assert_int_equal(berth_vocab_train(&config, &settings, pieces, &trained.stop, NULL, &error),
                     BERTH_INTERRUPTED);
    assert_non_null(strstr(error.message, "nothing was written"));
    assert_false(file_exists(scratch("pieces.txt")));
}

static void optional_results_may_be_omitted(void **state) {
    struct berth_error error;
    struct berth_run_result result = {0};
    berth_config_init(NULL);
    assert_true(isnan(berth_run_metric(NULL, "f1")));
    assert_true(isnan(berth_run_metric(&result, NULL)));
    assert_null(berth_reporter_log(NULL).write);
    assert_int_equal(berth_reporter_check(NULL, NULL), BERTH_OK);
    assert_int_equal(berth_encoder_size(NULL), 0);
    berth_reporter_close(NULL);
    berth_answerer_close(NULL);
    berth_encoder_close(NULL);
    berth_answers_free(NULL, 3);
    berth_tokens_free(NULL);
    berth_string_free(NULL);
    assert_int_equal(berth_inspect(model, NULL, NULL, NULL, &error), BERTH_OK);
    assert_int_equal(berth_inspect(vocab, NULL, NULL, NULL, NULL), BERTH_BAD_DATA);
    assert_int_equal(berth_inspect_data(scratch_folder, NULL, &error), BERTH_OK);
    assert_int_equal(berth_inspect_data("/nonexistent", NULL, &error), BERTH_NO_INPUT);
    assert_non_null(strstr(error.message, "/nonexistent"));
    assert_int_equal(berth_inspect("", NULL, NULL, NULL, &error), BERTH_NO_INPUT);
    assert_non_null(strstr(error.message, "cannot read \"\": "));
    assert_int_equal(berth_init_model("tiny", "", 1, &error), BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, "cannot create \"\": "));
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
    char single[512];
    snprintf(single, sizeof single, "%s", scratch("single"));
    scratch_write(
        "single.json",
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 16, "
        "\"max_position_embeddings\": 16, \"type_vocab_size\": 1, \"model_type\": \"bert\"}");
    assert_int_equal(berth_init_model(scratch("single.json"), single, 3, &error), BERTH_OK);
    berth_config_init(&config);
    config.model_name_or_path = single;
    config.vocab_file = vocab;
    config.max_seq_length = 16;
    config.allow_new_head = 1;
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
    char path[512], number[] = "17";
    assert_non_null(config);
    snprintf(path, sizeof path, "%s", scratch("none"));
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
    return berth_init_model(config_file, scratch("fresh"), 1, error);
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
    config.json_summary = scratch("summary.json");
    enum berth_status status = berth_reporter_open(&config, STDERR_FILENO, &reporter, error);
    berth_reporter_close(reporter);
    return status;
}

static void every_allocation_may_fail(void **state) {
    enum berth_status (*const jobs[])(struct berth_error *) = {tokenize, make_settings, initialise,
                                                               inspect, report};
    // Otherwise control groups say how many threads, and what cannot be read there is no error.
    setenv("OMP_NUM_THREADS", "1", 1);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct berth_error error = {0};
        memory_fail_at(0, 0);
        assert_int_equal(jobs[i](&error), BERTH_OK);
        const uint64_t calls = memory_fail_at(0, 0);
        assert_true(calls > 2);
        for (uint64_t call = 1; call <= calls; call++) {
            assert_int_equal(dir_remove(scratch("fresh"), NULL), BERTH_OK);
            error.message[0] = '\0';
            memory_fail_at(call, 0);
            const enum berth_status status = jobs[i](&error);
            memory_fail_at(0, 0);
            assert_int_equal(status, BERTH_NO_MEMORY);
            assert_string_not_equal(error.message, "");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_have_pieces_ids_and_positions),
        cmocka_unit_test(a_new_model_can_be_inspected),
        cmocka_unit_test(the_weights_are_read_only_for_a_visitor),
        cmocka_unit_test(a_large_configuration_is_read),
        cmocka_unit_test(the_seed_decides_the_weights),
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(a_refusal_leaves_no_handle),
        cmocka_unit_test(missing_texts_are_named),
        cmocka_unit_test(a_model_without_the_head_is_refused),
        cmocka_unit_test(missing_settings_of_jobs_are_named),
        cmocka_unit_test(numbers_and_names_are_checked),
        cmocka_unit_test(a_stop_before_writing_is_heeded),
        cmocka_unit_test(optional_results_may_be_omitted),
        cmocka_unit_test(an_encoder_opens_with_any_optimizer),
        cmocka_unit_test(a_model_of_one_token_type_takes_single_texts),
        cmocka_unit_test(settings_filled_by_hand_are_checked),
        cmocka_unit_test(settings_made_by_the_library_own_their_texts),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_teardown);
}
