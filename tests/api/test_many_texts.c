// SPDX-License-Identifier: Apache-2.0
// Tests berth_run with many texts: scores, hidden states and tokens against transformers'
// (tests/golden/classifier, dev/goldens/texts.py); the same bits in one call as one by one, for
// every instruction set, on several threads, in batches of any size; a bad text among good ones; no
// texts; memory that is out.
#include "api/opened.h"
#include "core/memory.h"
#include "format/json/json.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/golden/classifier"
// What every test opens the model with. It is a classifier; its other heads are random.
#define USUAL "device", "cpu", "max_seq_length", "16", "allow_new_head", "true", "doc_stride", "4"

enum { TEXTS_MAX = 16, CLASSES = 3, SIZE = 16, MANY = 24, THREADS = 3 };

static struct berth_model *open_batched(const char *batch) {
    return open_model(
        FOLDER, SETTINGS(USUAL, "threads", "2", "precision", "fp32", "predict_batch_size", batch));
}

// --- transformers' results -----------------------------------------------------------------------

struct expected {
    json *file;
    const json *rows;
    struct berth_text texts[TEXTS_MAX];
    size_t count;
};

static void expected_open(struct expected *expected) {
    struct berth_error error;
    if (json_read_file(FOLDER "/expected.json", &expected->file, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    expected->rows = json_member(expected->file, "texts");
    expected->count = json_length(expected->rows);
    assert_in_range(expected->count, 5, TEXTS_MAX);
    for (size_t i = 0; i < expected->count; i++) {
        const json *row = json_at(expected->rows, i);
        expected->texts[i] = (struct berth_text){.text = json_text(json_member(row, "text")),
                                                 .pair = json_text(json_member(row, "pair"))};
    }
}

static double real_at(const json *array, size_t index) {
    return json_as_real(json_at(array, index));
}

static void check_outcome(const struct berth_result *result, size_t input, const json *row) {
    const struct berth_outcome *outcome = berth_result_outcome(result, input);
    assert_int_equal(outcome->status, BERTH_OK);
    assert_string_equal(outcome->message, "");
    assert_int_equal(outcome->tokens, json_length(json_member(row, "ids")));
    assert_int_equal(outcome->truncated, json_truth(json_member(row, "truncated")));
}

// All classes, the most likely first, with the numbers of the row.
static void check_classes(const struct berth_model *model, const struct berth_result *result,
                          size_t input, const float *scores) {
    size_t count;
    const struct berth_item *items = berth_result_items(result, input, &count);
    assert_int_equal(count, CLASSES);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(items[i].text, berth_model_label(model, (size_t)items[i].id));
        assert_true(items[i].score == (double)scores[items[i].id]);
        assert_true(i == 0 || items[i - 1].score >= items[i].score);
        assert_true(items[i].start == -1 && items[i].end == -1);
    }
}

static void scores_equal_transformers(void **state) {
    static const char *const names[] = {"default", "none", "sigmoid", "softmax"};
    static const char *const settings[] = {"auto", "none", "sigmoid", "softmax"};
    struct expected expected;
    struct berth_model *model = open_batched("32");
    expected_open(&expected);
    assert_string_equal(berth_model_label(model, 0), "no");
    assert_string_equal(berth_model_label(model, 2), "yes");
    assert_null(berth_model_label(model, CLASSES));
    assert_true(berth_model_number(model, "labels") == CLASSES);
    assert_true(berth_model_number(model, "max_length") == 16);
    for (size_t score = 0; score < 4; score++) {
        struct berth_result *result = run_all(model, "classify", expected.texts, expected.count,
                                              SETTINGS("score", settings[score]));
        for (size_t i = 0; i < expected.count; i++) {
            size_t rows, width;
            const float *scores = berth_result_rows(result, i, &rows, &width);
            const json *row = json_at(expected.rows, i);
            const json *right = json_member(json_member(row, "scores"), names[score]);
            assert_true(rows == 1 && width == CLASSES);
            for (size_t k = 0; k < CLASSES; k++) {
                if (!(fabs((double)scores[k] - real_at(right, k)) <= 3e-6)) {
                    fail_msg("text %zu, class %zu, %s: %g instead of %g", i, k, names[score],
                             (double)scores[k], real_at(right, k));
                }
            }
            check_outcome(result, i, row);
            check_classes(model, result, i, scores);
        }
        berth_result_free(result);
    }
    berth_close(model);
    json_free(expected.file);
}

static void hidden_states_equal_transformers(void **state) {
    struct expected expected;
    struct berth_model *model = open_batched("2");
    expected_open(&expected);
    assert_true(berth_model_number(model, "dimensions") == SIZE);
    struct berth_result *result = run_all(model, "hidden", expected.texts, expected.count, NULL);
    for (size_t i = 0; i < expected.count; i++) {
        const json *row = json_at(expected.rows, i), *right = json_member(row, "hidden");
        size_t rows, width;
        const float *numbers = berth_result_rows(result, i, &rows, &width);
        assert_int_equal(width, SIZE);
        assert_int_equal(rows * width, json_length(right));
        check_outcome(result, i, row);
        for (size_t k = 0; k < json_length(right); k++) {
            assert_true(fabs((double)numbers[k] - real_at(right, k)) <= 1e-5);
        }
    }
    berth_result_free(result);
    berth_close(model);
    json_free(expected.file);
}

static void pairs_have_transformers_tokens(void **state) {
    struct expected expected;
    struct berth_model *model = open_batched("2");
    expected_open(&expected);
    struct berth_result *result = run_all(model, "tokenize", expected.texts, expected.count,
                                          SETTINGS("offsets", "characters"));
    for (size_t i = 0; i < expected.count; i++) {
        const json *row = json_at(expected.rows, i), *ids = json_member(row, "ids");
        size_t count;
        const struct berth_item *tokens = berth_result_items(result, i, &count);
        assert_int_equal(count, json_length(ids));
        check_outcome(result, i, row);
        for (size_t k = 0; k < count; k++) {
            const json *offsets = json_at(json_member(row, "offsets"), k);
            assert_int_equal(tokens[k].id, json_as_integer(json_at(ids, k)));
            assert_int_equal(tokens[k].group,
                             json_as_integer(json_at(json_member(row, "types"), k)));
            assert_int_equal(tokens[k].start, json_as_integer(json_at(offsets, 0)));
            assert_int_equal(tokens[k].end, json_as_integer(json_at(offsets, 1)));
        }
        assert_string_equal(tokens[0].text, "[CLS]");
        assert_string_equal(tokens[count - 1].text, "[SEP]");
    }
    berth_result_free(result);
    berth_close(model);
    json_free(expected.file);
}

// --- many texts in one call ----------------------------------------------------------------------

static const char *const tasks[] = {"classify", "embed", "hidden", "tokenize", "answer"};
enum { TASKS = 5, PAIRED = 4 }; // the last one has pairs of its own

// Texts of different lengths, made of known and unknown words.
struct many {
    char lines[MANY][256];
    struct berth_text texts[TASKS][MANY];
};

static void many_fill(struct many *many) {
    static const char *const words[] = {"anna", "ben", "red",   "ball",  "the",  "coat", "lamp",
                                        "of",   "?",   "zebra", "balls", "book", "blue", "and"};
    uint32_t random = 7;
    for (size_t i = 0; i < MANY; i++) {
        char *line = many->lines[i];
        line[0] = '\0';
        for (size_t left = 1 + i * 7 % 30; left > 0; left--) {
            random = random * 1664525 + 1013904223;
            strcat(strcat(line, words[(random >> 16) % 14]), " ");
        }
        for (size_t task = 0; task < TASKS; task++) {
            const int is_pair = i % 3 == 1 && strcmp(tasks[task], "embed") != 0;
            many->texts[task][i] =
                task == PAIRED
                    ? (struct berth_text){.text = "what colour has the ball ?", .pair = line}
                    : (struct berth_text){.text = line,
                                          .pair = is_pair ? many->lines[i / 2] : NULL};
        }
    }
}

static const char *const *settings_of(size_t task) {
    static const char *const top[] = {"top", "4", NULL};
    return task == PAIRED ? top : NULL;
}

// The results of calls with `group` texts each.
struct results {
    struct berth_result *of[TASKS][MANY];
    size_t group;
};

static enum berth_status process(const struct berth_model *model, const struct many *many,
                                 size_t count, struct results *results) {
    enum berth_status status = BERTH_OK;
    for (size_t task = 0; task < TASKS; task++) {
        for (size_t i = 0; i < count; i += results->group) {
            const size_t left = count - i;
            struct berth_error error;
            results->of[task][i] = berth_run(model, tasks[task], many->texts[task] + i,
                                             left < results->group ? left : results->group,
                                             settings_of(task), NULL, &error);
            status = status == BERTH_OK ? error.status : status;
        }
    }
    return status;
}

static void results_free(struct results *results) {
    for (size_t i = 0; i < TASKS * MANY; i++) {
        berth_result_free(results->of[i / MANY][i % MANY]);
    }
    free(results);
}

static struct results *results_of(const struct berth_model *model, const struct many *many,
                                  size_t group) {
    struct results *results = calloc(1, sizeof *results);
    assert_non_null(results);
    results->group = group;
    (void)process(model, many, MANY, results);
    return results;
}

static int same_text(const struct results *a, const struct results *b, size_t i) {
    int same = 1;
    for (size_t task = 0; task < TASKS; task++) {
        same &= same_found(a->of[task][i / a->group * a->group], i % a->group,
                           b->of[task][i / b->group * b->group], i % b->group);
    }
    return same;
}

static void check_same(const char *what, const struct results *a, const struct results *b) {
    for (size_t i = 0; i < MANY; i++) {
        if (!same_text(a, b, i)) {
            fail_msg("%s: text %zu has other results", what, i);
        }
    }
}

// That texts of one call are not all alike, and that some answers are from several windows.
static void check_variety(const struct results *together) {
    int has_windows = 0, has_cut = 0, has_pairs = 0;
    for (size_t i = 0; i < MANY; i++) {
        has_windows |= berth_result_outcome(together->of[PAIRED][0], i)->tokens > 2 * 16;
        has_cut |= berth_result_outcome(together->of[0][0], i)->truncated;
        has_pairs |= !same_found(together->of[0][0], i, together->of[0][0], 0);
    }
    assert_true(has_windows && has_cut && has_pairs);
}

static void one_call_gives_the_bits_of_single_calls(void **state) {
    static const char *const instructions[] = {"auto",   "generic",    "avx2",
                                               "avx512", "avx512bf16", "amx"};
    static struct many many;
    many_fill(&many);
    for (size_t i = 0; i < COUNT_OF(instructions); i++) {
        struct berth_error error;
        struct berth_model *model =
            berth_open(FOLDER,
                       SETTINGS(USUAL, "threads", "2", "instructions", instructions[i], "precision",
                                i % 2 ? "bf16" : "fp32", "predict_batch_size", i % 2 ? "3" : "32"),
                       NULL, &error);
        if (model == NULL) {
            assert_int_equal(error.status, BERTH_UNAVAILABLE); // the processor lacks them
            assert_true(i > 1);
            continue;
        }
        struct results *alone = results_of(model, &many, 1);
        struct results *together = results_of(model, &many, MANY);
        check_variety(together);
        check_same(instructions[i], alone, together);
        results_free(alone);
        results_free(together);
        berth_close(model);
    }
}

// Text i of a result has "no answer" among its items.
static int has_no_answer(const struct berth_result *result) {
    size_t count;
    const struct berth_item *items = berth_result_items(result, 0, &count);
    int found = 0;
    for (size_t i = 0; i < count; i++) {
        found |= items[i].start < 0 && items[i].text[0] == '\0';
    }
    return found;
}

static int has_long_answer(const struct berth_result *result) {
    size_t count;
    const struct berth_item *items = berth_result_items(result, 0, &count);
    int found = 0;
    for (size_t i = 0; i < count; i++) {
        found |= strchr(items[i].text, ' ') != NULL;
    }
    return found;
}

static void a_call_has_settings_of_its_own(void **state) {
    static const char *const settings[][5] = {{"top", "20"},
                                              {"top", "20", "max_answer_length", "1"},
                                              {"top_k", "20", "version_2_with_negative", "true"}};
    struct berth_model *model = open_batched("32");
    struct berth_result *results[3];
    for (size_t i = 0; i < 3; i++) {
        results[i] =
            run_one(model, "answer", "what colour ?", "red blue green black red blue", settings[i]);
    }
    assert_true(has_long_answer(results[0]) && !has_long_answer(results[1]));
    assert_true(!has_no_answer(results[0]) && !has_no_answer(results[1]));
    assert_true(has_no_answer(results[2]));
    for (size_t i = 0; i < 3; i++) {
        berth_result_free(results[i]);
    }
    berth_close(model);
}

// --- bad texts -----------------------------------------------------------------------------------

// Rows of a text that failed are zeros; of hidden states there are none.
static void check_failed_rows(const struct berth_result *result, size_t input, int has_row) {
    size_t rows, width;
    const float *numbers = berth_result_rows(result, input, &rows, &width);
    assert_int_equal(rows, has_row);
    for (size_t i = 0; i < rows * width; i++) {
        assert_true(numbers[i] == 0);
    }
}

static void check_failure(const struct berth_result *result, size_t input, enum berth_status status,
                          const char *message) {
    size_t count;
    assert_int_equal(berth_result_outcome(result, input)->status, status);
    assert_string_equal(berth_result_outcome(result, input)->message, message);
    assert_null(berth_result_items(result, input, &count));
    assert_int_equal(count, 0);
    assert_null(berth_result_text((struct berth_result *)result, input));
}

static void check_first_failure(const struct berth_model *model, const struct many *many,
                                size_t task, size_t input, const char *message) {
    struct berth_error error;
    struct berth_result *result =
        berth_run(model, tasks[task], many->texts[task], MANY, NULL, NULL, &error);
    assert_non_null(result);
    assert_int_equal(error.input, input);
    assert_string_equal(error.message, message);
    assert_int_equal(error.status, berth_result_outcome(result, input)->status);
    berth_result_free(result);
}

static void a_bad_text_does_not_affect_the_others(void **state) {
    static struct many good, bad;
    struct berth_model *model = open_batched("3");
    many_fill(&good);
    many_fill(&bad);
    int is_bad[MANY] = {[0] = 1, [8] = 1, [17] = 1, [20] = 1, [23] = 1};
    for (size_t task = 0; task < PAIRED; task++) {
        bad.texts[task][0].text = NULL;
        bad.texts[task][17] = (struct berth_text){.pair = "pair"};
    }
    bad.texts[1][8].pair = "pair"; // embeddings have none
    struct berth_text *questions = bad.texts[PAIRED];
    questions[0].pair = NULL;
    questions[17].text = NULL;
    questions[20].text = " \n ";
    questions[23].pair = "";
    struct results *right = results_of(model, &good, MANY), *found = results_of(model, &bad, MANY);
    for (size_t task = 0; task < PAIRED; task++) {
        check_failure(found->of[task][0], 0, BERTH_USAGE, "the text is NULL");
        check_failure(found->of[task][0], 17, BERTH_USAGE, "the text is NULL");
        check_first_failure(model, &bad, task, 0, "text 1: the text is NULL");
    }
    check_failure(found->of[1][0], 8, BERTH_USAGE, "the task embed takes one text, not a pair");
    check_failed_rows(found->of[0][0], 17, 1);
    check_failed_rows(found->of[1][0], 17, 1);
    check_failed_rows(found->of[1][0], 8, 1);
    check_failed_rows(found->of[2][0], 17, 0);
    const struct berth_result *answers = found->of[PAIRED][0];
    check_failure(answers, 0, BERTH_USAGE, "the context is NULL");
    check_failure(answers, 17, BERTH_USAGE, "the question is NULL");
    check_failure(answers, 20, BERTH_USAGE, "the question has no words");
    check_failure(answers, 23, BERTH_BAD_DATA, "the context has no words to answer from");
    questions[0].pair = "";
    check_first_failure(model, &bad, PAIRED, 0, "text 1: the context has no words to answer from");
    for (size_t i = 0; i < MANY; i++) {
        if (!is_bad[i] && !same_text(found, right, i)) {
            fail_msg("text %zu has other results beside bad ones", i);
        }
    }
    results_free(right);
    results_free(found);
    berth_close(model);
}

// Also if it must fit and does not.
static void a_call_with_only_bad_texts_has_a_result(void **state) {
    static const struct {
        const char *task;
        struct berth_text text;
        const char *settings[3];
        enum berth_status status;
    } rows[] = {{"classify", {.text = NULL}, {NULL}, BERTH_USAGE},
                {"embed", {.text = NULL}, {NULL}, BERTH_USAGE},
                {"hidden", {.text = NULL}, {NULL}, BERTH_USAGE},
                {"tokenize", {.text = NULL}, {NULL}, BERTH_USAGE},
                {"answer", {.text = "who ?", .pair = ""}, {NULL}, BERTH_BAD_DATA},
                {"embed",
                 {.text = "a a a a a a a a a a a a a a a a a a"},
                 {"overflow", "error", NULL},
                 BERTH_USAGE},
                {"embed", {.text = "red"}, {"dimensions", "17", NULL}, BERTH_USAGE}};
    struct berth_model *model = open_batched("3");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct berth_error error;
        struct berth_result *result =
            berth_run(model, rows[i].task, &rows[i].text, 1, rows[i].settings, NULL, &error);
        assert_non_null(result);
        assert_int_equal(berth_result_outcome(result, 0)->status, rows[i].status);
        assert_int_equal(error.status, rows[i].status);
        assert_int_equal(error.input, 0);
        check_failed_rows(result, 0, i < 2 || i > 4);
        berth_result_free(result);
    }
    berth_close(model);
}

// --- threads -------------------------------------------------------------------------------------

struct caller {
    const struct berth_model *model;
    const struct many *many;
    const struct results *right;
    size_t group; // texts of a call
    int failed;
};

static void *call(void *argument) {
    struct caller *caller = argument;
    for (int round = 0; round < 3; round++) {
        struct results *found = calloc(1, sizeof *found);
        found->group = caller->group;
        caller->failed |= process(caller->model, caller->many, MANY, found) != BERTH_OK;
        for (size_t i = 0; i < MANY && !caller->failed; i++) {
            caller->failed |= !same_text(found, caller->right, i);
        }
        results_free(found);
    }
    return NULL;
}

// Also if none of them has run a task before, so that they open it at the same time.
static void threads_share_a_model(void **state) {
    static struct many many;
    struct berth_model *first = open_batched("3"), *model = open_batched("3");
    struct caller callers[THREADS];
    pthread_t threads[THREADS];
    many_fill(&many);
    struct results *right = results_of(first, &many, MANY);
    for (size_t i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){model, &many, right, 1 + 8 * i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(callers[i].failed);
    }
    results_free(right);
    berth_close(first);
    berth_close(model);
}

// --- few ----------------------------------------------------------------------------------------

static void no_texts_are_no_error(void **state) {
    struct berth_model *model = open_batched("3");
    for (size_t task = 0; task < TASKS; task++) {
        size_t count = 7, rows = 7, width = 7;
        struct berth_result *result = run_all(model, tasks[task], NULL, 0, NULL);
        assert_null(berth_result_items(result, 0, &count));
        assert_null(berth_result_rows(result, 0, &rows, &width));
        assert_null(berth_result_outcome(result, 0));
        assert_null(berth_result_text(result, 0));
        assert_true(count == 0 && rows == 0 && width == 0);
        berth_result_free(result);
    }
    berth_close(model);
}

// --- out of memory ----------------------------------------------------------------------------

// Whether a text of a result has no memory.
static int has_failed_text(const struct results *results, size_t count) {
    int failed = 0;
    for (size_t i = 0; i < TASKS * count; i++) {
        const struct berth_outcome *outcome =
            berth_result_outcome(results->of[i / count][0], i % count);
        failed |= outcome != NULL && outcome->status == BERTH_NO_MEMORY;
    }
    return failed;
}

// Every allocation of a call fails in turn: the call or a text of it says so, and nothing leaks.
static void every_allocation_may_fail(void **state) {
    enum { FEW = 6 };
    static struct many many;
    // One thread, for the same allocations in every round.
    struct berth_model *model =
        open_model(FOLDER, SETTINGS(USUAL, "threads", "1", "predict_batch_size", "3"));
    many_fill(&many);
    // The device keeps what it makes for new shapes.
    results_free(results_of(model, &many, MANY));
    // Most allocations are for the candidates of answers, all alike: of the later ones some are
    // tried.
    for (uint64_t call = 0, calls = 0; call <= calls; call += call > 200 ? 40 : 1) {
        struct results *found = calloc(1, sizeof *found);
        found->group = FEW;
        memory_fail_at(call, 0);
        const enum berth_status status = process(model, &many, FEW, found);
        const uint64_t made = memory_fail_at(0, 0);
        if (call == 0) {
            calls = made;
            assert_in_range(calls, 100, 2000);
        }
        if (status != (call == 0 ? BERTH_OK : BERTH_NO_MEMORY)) {
            fail_msg("allocation %d: status %d", (int)call, (int)status);
        }
        size_t results = 0;
        for (size_t task = 0; task < TASKS; task++) {
            results += found->of[task][0] != NULL;
        }
        // One call failed as a whole, or one of its texts.
        assert_int_equal(results, call > 0 && !has_failed_text(found, FEW) ? TASKS - 1 : TASKS);
        results_free(found);
    }
    berth_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_equal_transformers),
        cmocka_unit_test(hidden_states_equal_transformers),
        cmocka_unit_test(pairs_have_transformers_tokens),
        cmocka_unit_test(one_call_gives_the_bits_of_single_calls),
        cmocka_unit_test(a_call_has_settings_of_its_own),
        cmocka_unit_test(a_bad_text_does_not_affect_the_others),
        cmocka_unit_test(a_call_with_only_bad_texts_has_a_result),
        cmocka_unit_test(threads_share_a_model),
        cmocka_unit_test(no_texts_are_no_error),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("many texts", tests, NULL, NULL);
}
