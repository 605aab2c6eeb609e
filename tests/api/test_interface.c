// SPDX-License-Identifier: Apache-2.0
// Tests what berth.h promises of every call: NULL is passed on, settings are checked, errors say
// what they are about, results outlive their model, and the tables are complete.
#include "api/opened.h"
#include "core/scratch.h"

#define CLASSIFIER BERTH_TEST_SOURCE_DIR "/tests/golden/classifier"
#define ENCODER BERTH_TEST_SOURCE_DIR "/tests/golden/encoder"

static const struct berth_text hello = {.text = "the red ball"};

static struct berth_model *open_classifier(void) {
    return open_model(CLASSIFIER, SETTINGS("device", "cpu", "threads", "1"));
}

// --- NULL ----------------------------------------------------------------------------------------

static void assert_untouched(const struct berth_error *error) {
    assert_int_equal(error->status, BERTH_IO);
    assert_int_equal(error->input, 3);
    assert_string_equal(error->message, "an error before");
}

static void no_model_and_no_result_are_passed_on(void **state) {
    struct berth_error error = {BERTH_IO, 3, "an error before"};
    size_t count = 7, rows = 7, width = 7;
    berth_close(NULL);
    assert_int_equal(berth_save(NULL, "out", "hf", NULL, NULL, &error), BERTH_IO);
    assert_int_equal(berth_save(NULL, "out", "hf", NULL, NULL, NULL), BERTH_USAGE);
    assert_null(berth_model_text(NULL, "task"));
    assert_true(isnan(berth_model_number(NULL, "labels")));
    assert_null(berth_model_label(NULL, 0));
    assert_null(berth_model_tensor(NULL, 0));
    assert_null(berth_run(NULL, "classify", &hello, 1, NULL, NULL, &error));
    assert_null(berth_run(NULL, "none such", NULL, 1, SETTINGS("a"), NULL, &error));
    assert_null(berth_train(NULL, "classify", &hello, 1, NULL, 0, NULL, NULL, &error));
    assert_untouched(&error);
    berth_result_free(NULL);
    assert_null(berth_result_items(NULL, 0, &count));
    assert_null(berth_result_rows(NULL, 0, &rows, &width));
    assert_true(count == 0 && rows == 0 && width == 0);
    assert_null(berth_result_outcome(NULL, 0));
    assert_null(berth_result_text(NULL, 0));
    assert_true(isnan(berth_result_number(NULL, "f1")));
    assert_true(isnan(berth_record_number(NULL, "loss")));
    assert_null(berth_record_text(NULL, "file"));
}

static void what_a_call_needs_is_named(void **state) {
    struct berth_model *model = open_classifier();
    struct berth_error error;
    assert_null(berth_open(NULL, NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "the path is NULL");
    assert_null(berth_run(model, NULL, NULL, 1, NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "the texts are NULL");
    assert_int_equal(berth_save(model, NULL, NULL, NULL, NULL, &error), BERTH_USAGE);
    expect_refusal(&error, BERTH_USAGE, "the path is NULL");
    assert_null(berth_job(NULL, NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "expected one of train");
    assert_null(berth_run(model, "squad", &hello, 1, NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "unknown task \"squad\"; expected one of answer, classify");
    assert_null(berth_train(model, "hidden", &hello, 1, NULL, 0, NULL, NULL, &error));
    expect_refusal(&error, BERTH_USAGE, "no training for \"hidden\"");
    assert_int_equal(error.input, -1);
    assert_null(berth_model_text(model, NULL));
    assert_null(berth_model_text(model, "none such"));
    assert_true(isnan(berth_model_number(model, NULL)));
    assert_true(isnan(berth_model_number(model, "none such")));
    assert_true(isnan(berth_model_number(model, "steps"))); // it was not just trained
    // A call that succeeds says so, and needs no error.
    struct berth_result *result = berth_run(model, NULL, &hello, 1, NULL, NULL, &error);
    assert_int_equal(error.status, BERTH_OK);
    assert_int_equal(error.input, -1);
    berth_result_free(result);
    berth_result_free(berth_run(model, NULL, &hello, 1, NULL, NULL, NULL));
    assert_null(berth_open("/none", NULL, NULL, NULL));
    berth_close(model);
}

// --- settings ------------------------------------------------------------------------------------

enum { OPEN, RUN, TRAIN, SAVE, JOB, CALLS };

static enum berth_status call_with(int call, const struct berth_model *model,
                                   const char *const *settings, struct berth_error *error) {
    switch (call) {
    case OPEN:
        berth_close(berth_open(CLASSIFIER, settings, NULL, error));
        break;
    case RUN:
        berth_result_free(berth_run(model, "classify", &hello, 1, settings, NULL, error));
        break;
    case TRAIN:
        berth_close(berth_train(model, "classify", &hello, 1, NULL, 0, settings, NULL, error));
        break;
    case SAVE:
        (void)berth_save(model, scratch("saved"), "hf", settings, NULL, error);
        break;
    default:
        berth_result_free(berth_job("vocab", settings, NULL, error));
    }
    return error->status;
}

// [CALLS] a setting that the call has, with a value that it refuses, and one that is for others.
static void settings_are_checked(void **state) {
    static const char *const unknown[CALLS][2] = {{"threds", "threads"},
                                                  {"softmaxx", ""},
                                                  {"learning_rat", "learning_rate"},
                                                  {"dtipe", ""},
                                                  {"siize", ""}};
    static const char *const bad[CALLS][2] = {{"threads", "many"},
                                              {"score", "hinge"},
                                              {"learning_rate", "fast"},
                                              {"allow_lossy", "perhaps"},
                                              {"size", "3.5"}};
    static const char *const useless[CALLS][2] = {{"learning_rate", "1"},
                                                  {"pooling", "cls"},
                                                  {"score", "none"},
                                                  {"threads", "1"},
                                                  {"learning_rate", "1"}};
    struct berth_model *model = open_classifier();
    struct berth_error error;
    for (int call = 0; call < CALLS; call++) {
        assert_int_equal(call_with(call, model, SETTINGS(unknown[call][0], "1"), &error),
                         BERTH_USAGE);
        assert_message_has(&error, "unknown setting \"");
        assert_message_has(&error, unknown[call][1]);
        assert_int_equal(call_with(call, model, SETTINGS(bad[call][0], bad[call][1]), &error),
                         BERTH_USAGE);
        assert_message_has(&error, bad[call][0]);
        assert_message_has(&error, bad[call][1]);
        assert_int_equal(
            call_with(call, model, SETTINGS(useless[call][0], useless[call][1]), &error),
            BERTH_USAGE);
        assert_message_has(&error, "does not use the setting");
        assert_int_equal(call_with(call, model, SETTINGS("threads"), &error), BERTH_USAGE);
        assert_message_has(&error, "setting threads has no value");
        assert_int_equal(error.input, -1);
    }
    assert_false(dir_exists(scratch("saved")));
    berth_close(model);
}

// --- results -------------------------------------------------------------------------------------

static void results_outlive_their_model(void **state) {
    static const char *const tasks[] = {"classify", "embed", "hidden", "tokenize"};
    struct berth_model *model = open_classifier(), *other = open_classifier();
    struct berth_result *results[4], *again[4];
    char text[32] = "the red ball", pair[32] = "anna";
    const struct berth_text asked = {.text = text};
    for (size_t i = 0; i < 4; i++) {
        results[i] = run_all(model, tasks[i], &asked, 1, NULL);
    }
    berth_close(model);
    memset(text, 'x', sizeof text - 1);
    memset(pair, 'x', sizeof pair - 1);
    for (size_t i = 0; i < 4; i++) {
        again[i] = run_all(other, tasks[i], &hello, 1, NULL);
        assert_true(same_found(results[i], 0, again[i], 0));
        char *first = strdup(berth_result_text(results[i], 0));
        assert_string_equal(first, berth_result_text(again[i], 0));
        free(first);
        berth_result_free(results[i]);
        berth_result_free(again[i]);
    }
    berth_close(other);
}

// The kept text is the caller's no more: what quotes it is a copy.
static void results_quote_texts_after_they_changed(void **state) {
    struct berth_model *model =
        open_model(CLASSIFIER, SETTINGS("device", "cpu", "threads", "1", "allow_new_head", "true"));
    char question[] = "who ?", context[] = "anna";
    const struct berth_text asked = {.text = question, .pair = context};
    struct berth_result *result = run_all(model, "answer", &asked, 1, NULL);
    memset(context, 'x', 4);
    size_t count;
    assert_string_equal(berth_result_items(result, 0, &count)->text, "anna");
    assert_int_equal(count, 1);
    assert_non_null(strstr(berth_result_text(result, 0), "\"answer\":\"anna\""));
    berth_result_free(result);
    berth_close(model);
}

// The units of a text before whose item there are characters of two, three and four bytes.
static void offsets_have_units(void **state) {
    static const struct {
        const char *unit;
        int64_t start, end;
    } rows[] = {{"bytes", 10, 13}, {"characters", 4, 7}, {"utf16", 5, 8}};
    struct berth_model *model = open_classifier();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct berth_result *result = run_one(model, "tokenize", "\u00e4\u20ac\U0001F600 red", NULL,
                                              SETTINGS("offsets", rows[i].unit));
        size_t count;
        const struct berth_item *items = berth_result_items(result, 0, &count);
        assert_string_equal(items[count - 2].text, "red");
        assert_int_equal(items[count - 2].start, rows[i].start);
        assert_int_equal(items[count - 2].end, rows[i].end);
        berth_result_free(result);
    }
    berth_close(model);
}

// An encoder that uses the weights of a classifier has the bits of one that was opened alone, and
// leaves the classifier its own.
static void tasks_of_one_model_share_its_weights(void **state) {
    static const char *const precisions[] = {"fp32", "bf16", "int8"};
    static const char *const tasks[] = {"embed", "hidden"};
    for (size_t i = 0; i < COUNT_OF(precisions); i++) {
        const char *const *settings = SETTINGS("device", "cpu", "precision", precisions[i]);
        struct berth_model *shared = open_model(CLASSIFIER, settings);
        struct berth_result *before = run_one(shared, "classify", hello.text, NULL, NULL);
        for (size_t k = 0; k < COUNT_OF(tasks); k++) {
            struct berth_model *alone =
                open_model(CLASSIFIER,
                           SETTINGS("device", "cpu", "precision", precisions[i], "task", tasks[k]));
            struct berth_result *own = run_one(shared, tasks[k], hello.text, NULL, NULL);
            struct berth_result *other = run_one(alone, tasks[k], hello.text, NULL, NULL);
            assert_string_equal(berth_result_text(own, 0), berth_result_text(other, 0));
            berth_result_free(own);
            berth_result_free(other);
            berth_close(alone);
        }
        struct berth_result *after = run_one(shared, "classify", hello.text, NULL, NULL);
        assert_string_equal(berth_result_text(before, 0), berth_result_text(after, 0));
        berth_result_free(before);
        berth_result_free(after);
        berth_close(shared);
    }
}

static void one_outcome_is_small(void **state) {
    assert_in_range(sizeof(struct berth_outcome), 1, 64);
}

// --- tables --------------------------------------------------------------------------------------

// Whether a list of names, with blanks between them, has the name.
static int has_name(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += length) {
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

static void tasks_are_complete(void **state) {
    static const char *const names[] = {"answer",       "classify",    "tag",    "fill",
                                        "embed",        "rerank",      "hidden", "tokenize",
                                        "embed_sparse", "embed_tokens"};
    size_t count = 0;
    const struct berth_task *row;
    for (; (row = berth_task_at(count)) != NULL; count++) {
        assert_true(row->name != NULL && row->pipeline != NULL && row->text != NULL);
        assert_true(row->help != NULL && row->help[0] != '\0');
        assert_true(row->has_items || row->has_rows);
        assert_true(row->pair != NULL || !row->needs_pair);
    }
    assert_true(count >= COUNT_OF(names));
    assert_null(berth_task_at(count + 1000));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t k = 0;
        while (k < count && strcmp(berth_task_at(k)->name, names[i]) != 0) {
            k++;
        }
        assert_in_range(k, 0, count - 1);
    }
}

// Each use of an option is a call that has it.
static void options_have_uses(void **state) {
    static const char *const expected[][2] = {
        {"threads", "open"},           {"precision", "open"},  {"learning_rate", "train-classify"},
        {"learning_rate", "pretrain"}, {"top", "answer"},      {"normalize", "embed"},
        {"pooling", "open"},           {"train_file", "train"}};
    size_t found = 0, count = 0;
    const struct berth_option *row;
    for (; (row = berth_option_at(count)) != NULL; count++) {
        assert_true(row->uses[0] != '\0' && row->help != NULL && row->group != NULL);
        assert_true(has_name("integer real flag text choice", row->type));
        assert_int_equal(row->choices != NULL, strcmp(row->type, "choice") == 0);
        assert_true(isnan(row->minimum) || row->minimum <= row->maximum);
        for (size_t i = 0; i < COUNT_OF(expected); i++) {
            found += strcmp(row->name, expected[i][0]) == 0 && has_name(row->uses, expected[i][1]);
        }
    }
    assert_int_equal(found, COUNT_OF(expected));
    assert_true(count > 100);
    assert_null(berth_option_at(count + 1));
    for (count = 0; berth_job_at(count) != NULL; count++) {
        assert_true(berth_job_at(count)->name != NULL && berth_job_at(count)->help != NULL);
    }
    assert_true(count >= 8);
}

// --- saving --------------------------------------------------------------------------------------

static void a_saved_model_has_the_same_bits(void **state) {
    struct berth_model *model = open_classifier();
    struct berth_error error;
    assert_int_equal(berth_save(model, scratch("saved"), NULL, NULL, NULL, &error), BERTH_OK);
    struct berth_model *saved =
        open_model(scratch("saved"), SETTINGS("device", "cpu", "threads", "1"));
    struct berth_result *a = run_all(model, NULL, &hello, 1, NULL);
    struct berth_result *b = run_all(saved, NULL, &hello, 1, NULL);
    assert_true(same_found(a, 0, b, 0));
    assert_int_equal(berth_save(model, scratch("saved"), "hf", NULL, NULL, &error),
                     BERTH_CANT_CREATE);
    assert_int_equal(berth_save(model, scratch("other"), "none such", NULL, NULL, &error),
                     BERTH_USAGE);
    assert_message_has(&error, "none such");
    assert_false(dir_exists(scratch("other")));
    assert_int_equal(berth_save(model, scratch("onnx"), "onnx", NULL, NULL, &error), BERTH_OK);
    assert_true(file_exists(scratch("onnx/model.onnx")));
    berth_result_free(a);
    berth_result_free(b);
    berth_close(saved);
    berth_close(model);
}

// A file of weights is a model, too, with the other files beside it.
static void a_file_of_weights_is_a_model(void **state) {
    struct berth_model *folder = open_model(ENCODER, SETTINGS("threads", "1"));
    struct berth_model *file = open_model(ENCODER "/model.safetensors", SETTINGS("threads", "1"));
    struct berth_result *a = run_all(folder, "hidden", &hello, 1, NULL);
    struct berth_result *b = run_all(file, "hidden", &hello, 1, NULL);
    assert_true(same_found(a, 0, b, 0));
    berth_result_free(a);
    berth_result_free(b);
    berth_close(folder);
    berth_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_model_and_no_result_are_passed_on),
        cmocka_unit_test(what_a_call_needs_is_named),
        SCRATCH_TEST(settings_are_checked),
        cmocka_unit_test(results_outlive_their_model),
        cmocka_unit_test(results_quote_texts_after_they_changed),
        cmocka_unit_test(offsets_have_units),
        cmocka_unit_test(tasks_of_one_model_share_its_weights),
        cmocka_unit_test(one_outcome_is_small),
        cmocka_unit_test(tasks_are_complete),
        cmocka_unit_test(options_have_uses),
        SCRATCH_TEST(a_saved_model_has_the_same_bits),
        cmocka_unit_test(a_file_of_weights_is_a_model),
    };
    return cmocka_run_group_tests_name("interface", tests, NULL, NULL);
}
