// SPDX-License-Identifier: Apache-2.0
// Tests the result files: layout to the byte, numbers as in Python, merged results, and no
// half-written files when a call or an allocation fails.
#include "core/file.h"
#include "core/foreign_locale.h"
#include "core/harness.h"
#include "core/memory.h"
#include "data/squad_fixture.h"
#include "metrics/results.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_file(const char *name, const char *expected) {
    assert_file_holds(scratch(name), expected);
}

static void writes_eval_results(void **state) {
    const struct berth_field fields[] = {
        log_real("loss", 0.505248), log_integer("global_step", 343), log_real("eval_f1", NAN),
        log_text("task", "mrpc"),   log_real("eval_accuracy", 1.0),  log_real("eval_loss", 1e-5)};
    assert_int_equal(results_write_eval_text(scratch_folder, fields, 6, NULL), BERTH_OK);
    expect_file("eval_results.txt", "eval_accuracy = 1.0\neval_f1 = nan\neval_loss = 1e-05\n"
                                    "global_step = 343\nloss = 0.505248\ntask = mrpc\n");
}

static void does_not_depend_on_the_locale(void **state) {
    foreign_locale_set();
    writes_eval_results(state);
    setlocale(LC_ALL, "C");
}

static void prints_reals_as_python(void **state) {
    json *golden = fixture_json(fixture_source("tests/metrics/glue_metrics.golden.json"));
    const json *reals = json_member(golden, "reals");
    assert_true(json_length(reals) >= 12);
    for (size_t i = 0; i < json_length(reals); i++) {
        char expected[64];
        const json *pair = json_at(reals, i);
        struct berth_field field = log_real("x", json_as_real(json_at(pair, 0)));
        snprintf(expected, sizeof expected, "x = %s\n", json_text(json_at(pair, 1)));
        assert_int_equal(results_write_eval_text(scratch_folder, &field, 1, NULL), BERTH_OK);
        expect_file("eval_results.txt", expected);
    }
    json_free(golden);
}

static void joins_json_results(void **state) {
    const struct berth_field train[] = {log_real("train_loss", 0.25), log_real("epoch", 3.0)};
    const struct berth_field eval[] = {log_integer("eval_samples", 408), log_real("eval_f1", NAN),
                                       log_text("eval_task", "caf\xC3\xA9"),
                                       log_real("epoch", 4.0)};
    assert_int_equal(results_write_json(scratch_folder, "train", train, 2, NULL), BERTH_OK);
    expect_file("all_results.json", "{\n    \"epoch\": 3.0,\n    \"train_loss\": 0.25\n}");
    assert_int_equal(results_write_json(scratch_folder, "eval", eval, 4, NULL), BERTH_OK);
    expect_file("eval_results.json",
                "{\n    \"epoch\": 4.0,\n    \"eval_f1\": null,\n    \"eval_samples\": 408,\n"
                "    \"eval_task\": \"caf\\u00e9\"\n}");
    expect_file("train_results.json", "{\n    \"epoch\": 3.0,\n    \"train_loss\": 0.25\n}");
    expect_file("all_results.json",
                "{\n    \"epoch\": 4.0,\n    \"eval_f1\": null,\n    \"eval_samples\": 408,\n"
                "    \"eval_task\": \"caf\\u00e9\",\n    \"train_loss\": 0.25\n}");
}

static int is_there(const char *name) {
    return file_exists(scratch(name));
}

// A kill between the two files leaves only the first one.
static void joins_results_again(void **state) {
    const struct berth_field train[] = {log_real("train_loss", 0.25), log_real("epoch", 3.0)};
    const struct berth_field eval = log_real("eval_f1", 0.5);
    assert_int_equal(results_write_json(scratch_folder, "train", train, 2, NULL), BERTH_OK);
    assert_int_equal(file_remove(scratch("all_results.json"), NULL), BERTH_OK);
    assert_int_equal(results_write_json(scratch_folder, "eval", &eval, 1, NULL), BERTH_OK);
    expect_file("all_results.json", "{\n    \"eval_f1\": 0.5\n}");
    assert_int_equal(results_merge_json(scratch_folder, "train", NULL), BERTH_OK);
    expect_file("train_results.json", "{\n    \"epoch\": 3.0,\n    \"train_loss\": 0.25\n}");
    expect_file("all_results.json", "{\n    \"epoch\": 3.0,\n    \"eval_f1\": 0.5,\n"
                                    "    \"train_loss\": 0.25\n}");
}

static void removes_the_results_of_a_model(void **state) {
    const struct berth_field field = log_real("x", 1);
    static const char *const splits[] = {"train", "eval", "predict"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(results_write_json(scratch_folder, splits[i], &field, 1, NULL), BERTH_OK);
    }
    assert_int_equal(results_write_eval_text(scratch_folder, &field, 1, NULL), BERTH_OK);
    for (int i = 0; i < 2; i++) { // what is missing is no error
        assert_int_equal(results_remove(scratch_folder, NULL), BERTH_OK);
        assert_false(is_there("train_results.json") || is_there("eval_results.json") ||
                     is_there("all_results.json") || is_there("eval_results.txt"));
        assert_true(is_there("predict_results.json"));
    }
}

// The perplexity of run_mlm may be Infinity, which Python's JSON has.
static void joins_results_of_python(void **state) {
    const struct berth_field field = log_real("x", 1);
    scratch_write("all_results.json", "{\"perplexity\": Infinity, \"eval_loss\": NaN, \"y\": 2}");
    assert_int_equal(results_write_json(scratch_folder, "z", &field, 1, NULL), BERTH_OK);
    expect_file("all_results.json", "{\n    \"eval_loss\": null,\n    \"perplexity\": null,\n"
                                    "    \"x\": 1.0,\n    \"y\": 2\n}");
}

static void refuses_results_of_another_kind(void **state) {
    static const char *const texts[] = {"[1]", "{\"a\": nan}"};
    const struct berth_field field = log_real("x", 1);
    for (size_t i = 0; i < 2; i++) {
        struct berth_error error = {0};
        scratch_write("all_results.json", texts[i]);
        assert_int_equal(results_write_json(scratch_folder, "z", &field, 1, &error),
                         BERTH_BAD_DATA);
        assert_message_has(&error, "all_results.json: ");
        expect_file("all_results.json", texts[i]);
        assert_false(is_there("z_results.json"));
    }
}

static const struct results_names both_names = {"test_results.tsv", "predict_results_mrpc.txt"};

static void write_both(const struct results_predictions *predictions) {
    assert_int_equal(results_write_predictions(scratch_folder, &both_names, predictions, NULL),
                     BERTH_OK);
}

static void writes_probabilities_as_numpy(void **state) {
    static const char *const labels[] = {"a", "b", "c"};
    json *golden = fixture_json(fixture_source("tests/metrics/glue_metrics.golden.json"));
    const json *rows = json_member(golden, "probabilities");
    assert_true(json_length(rows) >= 8);
    for (size_t i = 0; i < json_length(rows); i++) {
        float logits[6];
        char expected[512];
        const json *row = json_at(rows, i), *list = json_member(row, "logits");
        struct results_predictions said = {logits, 2, json_length(list), labels, 0};
        for (size_t k = 0; k < 2 * said.width; k++) {
            logits[k] = (float)json_as_real(json_at(list, k % said.width));
        }
        snprintf(expected, sizeof expected, "%s\n%s\n", json_text(json_member(row, "text")),
                 json_text(json_member(row, "text")));
        write_both(&said);
        expect_file("test_results.tsv", expected);
    }
    json_free(golden);
}

static void writes_predictions(void **state) {
    static const char *const labels[] = {"not_equivalent", "equivalent"};
    static const float logits[] = {0.5f, 0.25f, -3, 7, 2, 2}, numbers[] = {4.25f, -0.0004f, 3};
    const struct results_predictions classes = {logits, 3, 2, labels, 0},
                                     real = {numbers, 3, 1, NULL, 0};
    assert_int_equal(results_predicted_class(&classes, 1), 1);
    write_both(&classes);
    expect_file("predict_results_mrpc.txt",
                "index\tprediction\n0\tnot_equivalent\n1\tequivalent\n2\tnot_equivalent\n");
    write_both(&real);
    expect_file("predict_results_mrpc.txt", "index\tprediction\n0\t4.250\n1\t-0.000\n2\t3.000\n");
    expect_file("test_results.tsv", "4.25\n-0.0004\n3.0\n");
}

static void shows_what_is_not_finite(void **state) {
    static const char *const labels[] = {"a", "b"};
    const float logits[] = {NAN, 1};
    const struct results_predictions said = {logits, 1, 2, labels, 0};
    write_both(&said);
    expect_file("test_results.tsv", "nan\tnan\n");
}

// --- failures -----------------------------------------------------------------------------------

static const float two[] = {1, 2};
static const char *const names[] = {"a", "b"};
static const struct results_predictions said = {two, 1, 2, names, 0};
static const struct berth_field fields[] = {{.key = "b", .type = BERTH_REAL, .real = 0.5},
                                            {.key = "a", .type = BERTH_INTEGER, .integer = 7}};

static enum berth_status write_eval(struct berth_error *error) {
    return results_write_eval_text(scratch_folder, fields, 2, error);
}

static enum berth_status write_json(struct berth_error *error) {
    return results_write_json(scratch_folder, "fail", fields, 2, error);
}

static enum berth_status write_predictions(struct berth_error *error) {
    return results_write_predictions(scratch_folder, &both_names, &said, error);
}

static const struct {
    enum berth_status (*write)(struct berth_error *);
    const char *name;
} writers[] = {{write_eval, "eval_results.txt"},
               {write_json, "fail_results.json"},
               {write_predictions, "test_results.tsv"}};

static char *text_of(const char *name) {
    char *text;
    size_t length;
    assert_int_equal(file_read(scratch(name), 1 << 20, &text, &length, NULL), BERTH_OK);
    return text;
}

// The folder must contain no temporary file, and the named file must be unchanged or complete.
static void expect_whole(const char *name, const char *complete) {
    char *text = text_of(name);
    assert_no_temporary(scratch_folder);
    if (strcmp(text, "old") != 0) {
        assert_string_equal(text, complete);
    }
    memory_free(text);
}

static void leaves_nothing_half_written(void **state) {
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        enum berth_status status = BERTH_IO;
        uint64_t n = 0;
        assert_int_equal(writers[i].write(NULL), BERTH_OK);
        char *complete = text_of(writers[i].name);
        while (status != BERTH_OK) {
            struct berth_error error = {0};
            scratch_write(writers[i].name, "old");
            file_fail_at(++n, ENOSPC);
            status = writers[i].write(&error);
            file_fail_at(0, 0);
            assert_true((status == BERTH_OK) == (error.message[0] == '\0'));
            expect_whole(writers[i].name, complete);
        }
        assert_true(n > 4);
        expect_file(writers[i].name, complete);
        memory_free(complete);
    }
}

static void survives_missing_memory(void **state) {
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        enum berth_status status = BERTH_NO_MEMORY;
        uint64_t n = 0;
        assert_int_equal(writers[i].write(NULL), BERTH_OK);
        char *complete = text_of(writers[i].name);
        while (status == BERTH_NO_MEMORY) {
            struct berth_error error = {0};
            scratch_write(writers[i].name, "old");
            memory_fail_at(++n, 0);
            status = writers[i].write(&error);
            memory_fail_at(0, 0);
            expect_whole(writers[i].name, complete);
        }
        assert_int_equal(status, BERTH_OK);
        assert_true(n > 3);
        expect_file(writers[i].name, complete);
        memory_free(complete);
    }
}

// Both files are as they were, or both are new. When only the sync of the folder fails, they are
// new although an error is reported; when only the second rename fails, one of them is.
static void writes_both_files_or_none(void **state) {
    static const char *const files[] = {"test_results.tsv", "predict_results_mrpc.txt"};
    enum berth_status status = BERTH_IO;
    int mixed = 0;
    for (uint64_t n = 1; status != BERTH_OK; n++) {
        int fresh = 0;
        for (size_t i = 0; i < 2; i++) {
            scratch_write(files[i], "old");
        }
        file_fail_at(n, ENOSPC);
        status = write_predictions(NULL);
        file_fail_at(0, 0);
        for (size_t i = 0; i < 2; i++) {
            char *text = text_of(files[i]);
            fresh += strcmp(text, "old") != 0;
            memory_free(text);
        }
        mixed += fresh == 1;
        assert_true(status != BERTH_OK || fresh == 2);
    }
    assert_int_equal(mixed, 1);
}

static void names_a_missing_folder(void **state) {
    struct berth_error error = {0};
    assert_int_equal(results_write_predictions("/nowhere/at/all", &both_names, &said, &error),
                     BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, "/nowhere/at/all"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(writes_eval_results),           SCRATCH_TEST(does_not_depend_on_the_locale),
        SCRATCH_TEST(prints_reals_as_python),        SCRATCH_TEST(joins_json_results),
        SCRATCH_TEST(joins_results_again),           SCRATCH_TEST(removes_the_results_of_a_model),
        SCRATCH_TEST(joins_results_of_python),       SCRATCH_TEST(refuses_results_of_another_kind),
        SCRATCH_TEST(writes_probabilities_as_numpy), SCRATCH_TEST(writes_predictions),
        SCRATCH_TEST(shows_what_is_not_finite),      SCRATCH_TEST(leaves_nothing_half_written),
        SCRATCH_TEST(survives_missing_memory),       SCRATCH_TEST(writes_both_files_or_none),
        SCRATCH_TEST(names_a_missing_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
