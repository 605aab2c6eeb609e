// SPDX-License-Identifier: Apache-2.0
// Tests small functions of the library: tokens with their positions, tensors of a folder, statuses,
// settings, jobs; and that every allocation that fails is BERTH_NO_MEMORY, without a crash or a
// leak (which the sanitizer finds).
#include "api/jobs.h"
#include "api/opened.h"
#include "core/scratch.h"
#include "settings/settings.h"

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

static struct berth_result *make_model(const char *config, const char *folder, const char *seed,
                                       struct berth_error *error) {
    return berth_job("init", SETTINGS("config", config, "output", folder, "seed", seed), NULL,
                     error);
}

static void make_new_model(const char *config, const char *folder, const char *seed) {
    struct berth_error error;
    struct berth_result *made = make_model(config, folder, seed, &error);
    if (made == NULL) {
        fail_msg("%s", error.message);
    }
    berth_result_free(made);
}

static void tokens_have_pieces_ids_and_positions(void **state) {
    static const struct {
        const char *piece;
        int64_t id, start, end;
    } expected[] = {{"[CLS]", 2, -1, -1}, {"hello", 5, 0, 5}, {"wor", 6, 7, 10},
                    {"##ld", 7, 10, 12},  {"!", 8, 12, 13},   {"[SEP]", 3, -1, -1}};
    static const char text[] =
        "H\xC3\xA9llo  w\xC3\xB6rld!\xFF"; // "Héllo  wörld!" and a stray byte
    struct berth_model *opened =
        open_model(model, SETTINGS("vocab_file", vocab, "weights", "false"));
    struct berth_result *result =
        run_one(opened, "tokenize", text, NULL, SETTINGS("offsets", "characters"));
    size_t count;
    const struct berth_item *tokens = berth_result_items(result, 0, &count);
    assert_int_equal(count, COUNT_OF(expected));
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(tokens[i].text, expected[i].piece);
        assert_int_equal(tokens[i].id, expected[i].id);
        assert_int_equal(tokens[i].start, expected[i].start);
        assert_int_equal(tokens[i].end, expected[i].end);
    }
    berth_result_free(result);
    result = run_one(opened, "tokenize", "", NULL, NULL);
    tokens = berth_result_items(result, 0, &count);
    assert_int_equal(count, 2);
    assert_string_equal(tokens[1].text, "[SEP]");
    berth_result_free(result);
    // It can do nothing else.
    struct berth_error error;
    const struct berth_text one = {.text = "hello"};
    assert_null(berth_run(opened, "embed", &one, 1, NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "weights false");
    berth_close(opened);
}

struct sum {
    int64_t tensors, bytes, elements;
};

static struct sum add_tensors(const struct berth_model *opened) {
    struct sum sum = {0};
    const struct berth_tensor *tensor;
    while ((tensor = berth_model_tensor(opened, (size_t)sum.tensors)) != NULL) {
        int64_t elements = 1;
        for (size_t i = 0; i < tensor->rank; i++) {
            elements *= tensor->shape[i];
        }
        assert_string_equal(tensor->dtype, "F32");
        assert_int_equal(tensor->bytes, 4 * elements);
        sum.tensors++;
        sum.elements += elements;
        sum.bytes += (int64_t)tensor->bytes;
    }
    return sum;
}

static const char *const shapes[] = {"weights", "false", NULL};

static void a_new_model_can_be_inspected(void **state) {
    struct berth_error error = {0};
    make_new_model(config_file, model, "3");
    struct berth_model *opened = open_model(model, shapes);
    assert_non_null(strstr(berth_model_text(opened, "config"), "\"hidden_size\": 8"));
    assert_string_equal(berth_model_text(opened, "path"), model);
    assert_string_equal(berth_model_text(opened, "task"), "answer");
    assert_string_equal(berth_model_text(opened, "architecture"), "BertForQuestionAnswering");
    const struct sum sum = add_tensors(opened);
    // tables (9 + 16 + 2) x 8, their norm, one layer, the head 2 x 8 + 2
    assert_int_equal(sum.elements, 27 * 8 + 16 + (4 * (64 + 8) + 2 * 128 + 16 + 8 + 32) + 18);
    assert_int_equal(sum.tensors, 5 + 16 + 2);
    assert_true(berth_model_number(opened, "tensors") == (double)sum.tensors);
    assert_true(berth_model_number(opened, "parameters") == (double)sum.elements);
    assert_true(berth_model_number(opened, "dimensions") == 8);
    assert_true(berth_model_number(opened, "max_length") == 16);
    berth_close(opened);
    struct berth_model *of_file = open_model(scratch("model/model.safetensors"), shapes);
    assert_int_equal(add_tensors(of_file).bytes, sum.bytes);
    berth_close(of_file);
    assert_null(make_model(config_file, model, "3", &error));
    expect_refusal(&error, BERTH_CANT_CREATE, model);
    assert_null(berth_job("verify", SETTINGS("path", model), NULL, &error));
    assert_int_equal(error.status, BERTH_BAD_DATA);
    assert_null(
        berth_job("verify", SETTINGS("path", scratch("model/model.safetensors")), NULL, &error));
    assert_int_equal(error.status, BERTH_NO_INPUT);
    assert_null(berth_job("verify", NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "job verify: the setting path is missing");
    opened = open_model(scratch_folder, shapes); // without weights
    assert_null(berth_model_tensor(opened, 0));
    assert_true(isnan(berth_model_number(opened, "tensors")));
    berth_close(opened);
}

// The file is no container, and DeepSpeed's `latest` names a folder that is missing.
static void the_weights_are_read_only_where_they_are_needed(void **state) {
    static const char *const extra[] = {"model/openvino_model.bin", "model/latest"};
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        scratch_write(extra[i], "global_step500");
        struct berth_model *opened = open_model(model, shapes);
        assert_null(berth_model_tensor(opened, 0));
        assert_non_null(strstr(berth_model_text(opened, "config"), "\"hidden_size\": 8"));
        berth_close(opened);
        assert_int_equal(unlink(scratch(extra[i])), 0);
    }
}

static void a_large_configuration_is_read(void **state) {
    enum { LARGE = 2000000 };
    struct berth_error error = {0};
    char *text = malloc(LARGE + 1);
    memset(text, ' ', LARGE);
    text[0] = '{';
    text[LARGE - 1] = '}';
    text[LARGE] = '\0';
    assert_int_equal(dir_make(scratch("large"), &error), BERTH_OK);
    scratch_write("large/config.json", text);
    free(text);
    struct berth_model *opened = open_model(scratch("large"), shapes);
    assert_int_equal(strlen(berth_model_text(opened, "config")), LARGE);
    berth_close(opened);
}

static void the_seed_decides_the_weights(void **state) {
    static const char *const names[] = {"seed0", "again0", "seed1"};
    char *one, *other;
    size_t length;
    for (int i = 0; i < 3; i++) {
        make_new_model(config_file, scratch(names[i]), i / 2 ? "1" : "0");
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
    assert_string_equal(berth_version(), BERTH_VERSION);
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

// Each without its head, which the error names with the command that trains it.
static void a_model_without_the_head_is_refused(void **state) {
    static const struct {
        const char *task, *tensor, *command;
    } rows[] = {{"classify", "classifier.weight, ", "`berth finetune classify`"},
                {"tag", "classifier.weight, ", "`berth finetune tokens`"},
                {"fill", "cls.predictions.", "`berth pretrain --objective mlm`"}};
    const struct berth_text text = {.text = "hello [MASK]"};
    struct berth_error error;
    struct berth_model *opened = // of questions
        open_model(model, SETTINGS("vocab_file", vocab, "device", "cpu", "threads", "1"));
    assert_string_equal(berth_model_text(opened, "tasks"),
                        "answer embed embed_tokens hidden tokenize");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_null(berth_run(opened, rows[i].task, &text, 1, NULL, NULL, &error));
        expect_refusal(&error, BERTH_CONFIG, rows[i].tensor);
        assert_message_has(&error, rows[i].command);
    }
    berth_close(opened);
    opened = open_model(model, SETTINGS("vocab_file", vocab, "device", "cpu", "threads", "1",
                                        "allow_new_head", "true"));
    berth_result_free(run_all(opened, "classify", &text, 1, NULL));
    berth_close(opened);
}

static void missing_settings_of_jobs_are_named(void **state) {
    static const struct {
        const char *job, *part, *settings[7];
    } rows[] = {
        {"train", "missing", {"task", "answer"}},
        {"predict", "missing", {"task", "answer"}},
        {"pretrain", "missing", {NULL}},
        {"train", "missing", {"task", "pretrain"}},
        {"evaluate", "missing", {"task", "pretrain"}},
        {"train", "missing", {"task", "classify"}},
        {"predict", "missing", {"task", "classify"}},
        {"evaluate", "validation_file", {"task", "answer"}},
        {"train",
         "expected one of answer, classify, tag, fill, embed, rerank, pretrain",
         {"task", "squat"}},
        {"train", "task is missing", {NULL}},
        {"train",
         "text_column",
         {"task", "embed", "train_file", "texts.csv", "text_pair_column", "b"}},
        {"train",
         "text_column",
         {"task", "classify", "train_file", "texts.csv", "text_pair_column", "b"}},
        {"train",
         "text_column",
         {"task", "embed", "train_file", "texts.csv", "negative_column", "c"}},
        {"prepare", "output_dir is missing", {"extracted", "text"}},
        {"prepare", "no input", {"output_dir", "out"}},
        {"prepare", "found \"a/b\"", {"extracted", "text", "name", "a/b", "output_dir", "out"}},
        {"prepare", "input_file needs output_file", {"input_file", "text"}},
        {"pack", "output_dir is missing", {"input_dir", "a"}},
        {"vocab", "no input", {"output", "out"}},
        {"vocab", "output is missing", {"text", "a"}},
        {"compare", "b is missing", {"a", "a"}},
        {"verify", "path is missing", {NULL}}};
    const struct berth_log log = {0};
    struct berth_error error;
    struct settings config;
    const struct berth_selection samples = {.count = 1};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_null(berth_job(rows[i].job, rows[i].settings, NULL, &error));
        expect_refusal(&error, BERTH_USAGE, rows[i].part);
    }
    settings_init(&config);
    REFUSED("missing", berth_show_squad(&config, samples, log, see, NULL, &error));
}

static void numbers_of_jobs_are_checked(void **state) {
    static const struct {
        const char *job, *name, *value;
    } rows[] = {{"prepare", "file_size", "-1"},    {"vocab", "size", "-1"},
                {"vocab", "limit_alphabet", "-2"}, {"vocab", "min_frequency", "-3"},
                {"compare", "tolerance", "nan"},   {"compare", "tolerance", "-1"},
                {"pack", "max_seq_length", "-1"},  {"init", "seed", "-1"}};
    struct berth_error error;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_null(berth_job(rows[i].job, SETTINGS(rows[i].name, rows[i].value), NULL, &error));
        expect_refusal(&error, BERTH_USAGE, rows[i].name);
        assert_message_has(&error, rows[i].value);
    }
}

// --- stopping ------------------------------------------------------------------------------------

// Cancels when a phase has done everything.
static enum berth_wish stop_at_the_end(void *phase, const struct berth_record *record) {
    return record->kind == BERTH_PROGRESS && strcmp(record->text, phase) == 0 &&
                   berth_record_number(record, "done") == berth_record_number(record, "total")
               ? BERTH_SUSPEND
               : BERTH_CONTINUE;
}

// The last batch is computed, the last piece found; what remains is to write.
static void a_stop_before_writing_is_heeded(void **state) {
    const struct berth_watch predicted = {stop_at_the_end, "predict"},
                             trained = {stop_at_the_end, "pieces"};
    struct berth_error error = {0};
    char text[12000] = "";
    size_t used = 0;
    make_new_model(config_file, scratch("reader"), "3");
    scratch_write("questions.json",
                  "{\"data\": [{\"title\": \"t\", \"paragraphs\": [{\"context\": \"hello world!\", "
                  "\"qas\": [{\"id\": \"1\", \"question\": \"hello?\"}]}]}]}");
    const char *const *settings =
        SETTINGS("task", "answer", "model_name_or_path", scratch("reader"), "vocab_file", vocab,
                 "predict_file", scratch("questions.json"), "output_dir", scratch("answers"),
                 "max_seq_length", "16", "max_query_length", "4", "doc_stride", "4");
    assert_null(berth_job("predict", settings, &predicted, &error));
    expect_refusal(&error, BERTH_INTERRUPTED, "no predictions were written");
    assert_false(file_exists(scratch("answers/predictions.json")));

    for (unsigned i = 0; i < 1200; i++) {
        const unsigned hash = i * 2654435761u;
        for (unsigned k = 0; k < 6; k++) {
            text[used++] = (char)('a' + (hash >> (4 * k)) % 26);
        }
        text[used++] = ' ';
    }
    scratch_write("words.txt", text);
    settings = SETTINGS("text", scratch("words.txt"), "output", scratch("pieces.txt"), "size",
                        "500", "min_frequency", "1");
    assert_null(berth_job("vocab", settings, &trained, &error));
    expect_refusal(&error, BERTH_INTERRUPTED, "nothing was written");
    assert_false(file_exists(scratch("pieces.txt")));
    struct berth_result *result = berth_job("vocab", settings, NULL, &error);
    assert_true(berth_result_number(result, "pieces") == 500);
    assert_true(berth_result_number(result, "words") == 1200);
    assert_true(isnan(berth_result_number(result, "none")));
    assert_non_null(strstr(berth_result_text(result, 0), "\"pieces\":500"));
    berth_result_free(result);
    assert_true(file_exists(scratch("pieces.txt")));
}

static void optional_results_may_be_omitted(void **state) {
    struct berth_error error;
    struct berth_run_result result = {0};
    assert_true(isnan(berth_run_metric(NULL, "f1")));
    assert_true(isnan(berth_run_metric(&result, NULL)));
    assert_null(berth_reporter_log(NULL).write);
    assert_int_equal(berth_reporter_check(NULL, NULL), BERTH_OK);
    berth_reporter_close(NULL);
    memory_free(NULL);
    assert_null(berth_job("inspect", SETTINGS("path", vocab), NULL, NULL));
    berth_result_free(berth_job("inspect", SETTINGS("path", model), NULL, &error));
    assert_int_equal(error.status, BERTH_OK);
    assert_null(berth_job("inspect", SETTINGS("path", "/nonexistent"), NULL, &error));
    expect_refusal(&error, BERTH_NO_INPUT, "/nonexistent");
    assert_null(berth_job("inspect", SETTINGS("path", ""), NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "path: expected some text");
    assert_null(berth_job("init", SETTINGS("config", "tiny", "output", ""), NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "output: expected some text");
}

// Token types are rows of a table: a model with one row must not read a second one.
static void a_model_of_one_token_type_takes_single_texts(void **state) {
    static const struct berth_text texts[] = {{.text = "hello"},
                                              {.text = "hello", .pair = "world"}};
    static const char *const tasks[] = {"classify", "hidden"};
    char single[512];
    struct berth_error error;
    snprintf(single, sizeof single, "%s", scratch("single"));
    scratch_write(
        "single.json",
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 16, "
        "\"max_position_embeddings\": 16, \"type_vocab_size\": 1, \"model_type\": \"bert\", "
        "\"architectures\": [\"BertForSequenceClassification\"]}");
    make_new_model(scratch("single.json"), single, "3");
    // A new model is one for questions, which need two types.
    assert_null(berth_open(single, SETTINGS("vocab_file", vocab), NULL, &error));
    expect_refusal(&error, BERTH_CONFIG, "type_vocab_size 1");
    assert_int_equal(rename(scratch("single.json"), scratch("single/config.json")), 0);
    struct berth_model *opened = open_model(
        single, SETTINGS("vocab_file", vocab, "max_seq_length", "16", "allow_new_head", "true"));
    for (size_t i = 0; i < COUNT_OF(tasks); i++) {
        struct berth_result *result = berth_run(opened, tasks[i], texts, 2, NULL, NULL, &error);
        assert_int_equal(berth_result_outcome(result, 0)->status, BERTH_OK);
        assert_int_equal(berth_result_outcome(result, 1)->status, BERTH_USAGE);
        expect_refusal(&error, BERTH_USAGE, "type_vocab_size 1");
        assert_int_equal(error.input, 1);
        berth_result_free(result);
    }
    berth_close(opened);
}

static void bad_values_are_named(void **state) {
    static const struct {
        const char *name, *value, *part;
    } rows[] = {{"precision", "fp7", "precision"},
                {"instructions", "none such", "instructions"},
                {"max_seq_length", "-5", "max_seq_length"},
                {"max_seq_length", "many", "max_seq_length"},
                {"allow_new_head", "maybe", "allow_new_head"}};
    struct berth_error error;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_null(berth_open(model, SETTINGS(rows[i].name, rows[i].value), NULL, &error));
        expect_refusal(&error, BERTH_USAGE, rows[i].part);
    }
    assert_null(
        berth_job("train", SETTINGS("task", "classify", "learning_rate", "nan"), NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "learning_rate");
    assert_null(
        berth_job("train", SETTINGS("task", "classify", "optimizer", "none such"), NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "optimizer");
}

// The caller's texts may change once a call has returned.
static void a_model_owns_the_texts_of_its_settings(void **state) {
    char path[512], number[] = "12";
    snprintf(path, sizeof path, "%s", vocab);
    struct berth_model *opened =
        open_model(model, SETTINGS("vocab_file", scratch("none"), "vocab_file", path,
                                   "max_seq_length", number, "allow_new_head", "true"));
    memset(path, 'x', sizeof path - 1);
    memset(number, '9', 2);
    assert_true(berth_model_number(opened, "max_length") == 12);
    berth_result_free(run_one(opened, "classify", "hello", NULL, NULL)); // opened now
    berth_close(opened);
}

// --- memory that is out --------------------------------------------------------------------------

static enum berth_status status_of(struct berth_result *result, const struct berth_error *error) {
    berth_result_free(result);
    return error->status;
}

static enum berth_status tokenize(struct berth_error *error) {
    const struct berth_text text = {.text = "hello world"};
    struct berth_model *opened =
        berth_open(model, SETTINGS("vocab_file", vocab, "weights", "false"), NULL, error);
    const enum berth_status status =
        status_of(berth_run(opened, "tokenize", &text, 1, NULL, NULL, error), error);
    berth_close(opened);
    return status;
}

static enum berth_status make_settings(struct berth_error *error) {
    struct settings *config = settings_new();
    enum berth_status status = BERTH_NO_MEMORY;
    snprintf(error->message, sizeof error->message, "settings");
    if (config != NULL) {
        status = settings_set(config, "vocab_file", vocab, error);
    }
    settings_free(config);
    return status;
}

static enum berth_status initialise(struct berth_error *error) {
    return status_of(make_model(config_file, scratch("fresh"), "1", error), error);
}

// Facts have no error of their own.
static enum berth_status inspect(struct berth_error *error) {
    struct berth_model *opened = berth_open(model, shapes, NULL, error);
    if (opened == NULL) {
        return error->status;
    }
    const int has_tensors =
        berth_model_tensor(opened, 22) != NULL && berth_model_number(opened, "tensors") == 23;
    berth_close(opened);
    return has_tensors ? BERTH_OK : error_set(error, BERTH_NO_MEMORY, "no tensors");
}

static enum berth_status report(struct berth_error *error) {
    struct settings config;
    struct berth_reporter *reporter;
    settings_init(&config);
    config.report.json_summary = scratch("summary.json");
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
        assert_true(calls > 0);
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
        cmocka_unit_test(a_new_model_can_be_inspected),
        cmocka_unit_test(tokens_have_pieces_ids_and_positions),
        cmocka_unit_test(the_weights_are_read_only_where_they_are_needed),
        cmocka_unit_test(a_large_configuration_is_read),
        cmocka_unit_test(the_seed_decides_the_weights),
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(a_model_without_the_head_is_refused),
        cmocka_unit_test(missing_settings_of_jobs_are_named),
        cmocka_unit_test(numbers_of_jobs_are_checked),
        cmocka_unit_test(a_stop_before_writing_is_heeded),
        cmocka_unit_test(optional_results_may_be_omitted),
        cmocka_unit_test(a_model_of_one_token_type_takes_single_texts),
        cmocka_unit_test(bad_values_are_named),
        cmocka_unit_test(a_model_owns_the_texts_of_its_settings),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_teardown);
}
