// SPDX-License-Identifier: Apache-2.0
// Tests the official evaluation of files: the same output as the Python scripts, on a small set and
// on the real development sets; and the errors for bad predictions.
#include "core/foreign_locale.h"
#include "core/harness.h"
#include "core/memory.h"
#include "data/squad_fixture.h"
#include "metrics/squad_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct warnings {
    int count;
    char last[1024];
};

static enum berth_status evaluate(const char *dataset, const char *predictions, const char *odds,
                                  double threshold, const struct berth_log *log, char **text,
                                  struct berth_error *error) {
    const struct squad_evaluation_files files = {dataset, predictions, odds};
    return squad_evaluate_files(&files, threshold, log, text, error);
}

static void note(void *context, const struct berth_record *record) {
    struct warnings *warnings = context;
    warnings->count++;
    snprintf(warnings->last, sizeof warnings->last, "%s", record->text);
}

static void expect_text(const char *dataset, const char *predictions, const char *odds,
                        double threshold, const char *expected) {
    char *text = NULL;
    struct berth_error error = {0};
    struct berth_log log = {0};
    if (evaluate(dataset, predictions, odds, threshold, &log, &text, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(text, expected);
    memory_free(text);
}

static char *source(const char *path) {
    return memory_string(fixture_source(path));
}

static void expect_file(const char *set, const char *predictions, const char *odds,
                        double threshold, const char *golden) {
    char *paths[] = {source(set), source(predictions), odds == NULL ? NULL : source(odds)};
    char *expected;
    size_t length;
    assert_int_equal(file_read(fixture_source(golden), 1 << 20, &expected, &length, NULL),
                     BERTH_OK);
    expect_text(paths[0], paths[1], paths[2], threshold, expected);
    memory_free(expected);
    for (int i = 0; i < 3; i++) {
        memory_free(paths[i]);
    }
}

#define SET(n) "tests/data/squad/v" n ".json"
#define HERE "tests/metrics/evaluate/"

static void prints_what_the_scripts_print(void **state) {
    expect_file(SET("1"), HERE "predictions_v1.json", NULL, 1.0, HERE "v1.txt");
    expect_file(SET("2"), HERE "predictions_v2.json", NULL, 1.0, HERE "v2.txt");
    expect_file(SET("2"), HERE "predictions_v2.json", HERE "odds_v2.json", -3.0,
                HERE "v2_odds.txt");
}

static void does_not_depend_on_the_locale(void **state) {
    foreign_locale_set();
    prints_what_the_scripts_print(state);
    setlocale(LC_ALL, "C");
}

static void counts_missing_answers_as_0(void **state) {
    char *set = source(SET("1")), *predictions = source(HERE "predictions_v1.json"), *text;
    struct warnings warnings = {0};
    struct berth_log log = {note, &warnings};
    assert_int_equal(evaluate(set, predictions, NULL, 1.0, &log, &text, NULL), BERTH_OK);
    assert_int_equal(warnings.count, 1);
    assert_string_equal(warnings.last, "Unanswered question q5 will receive score 0.");
    memory_free(text);
    // One question of seven is enough.
    scratch_write("one", "{\"z\":\"\",\"q1\":\"zzz\"}");
    assert_int_equal(evaluate(set, scratch("one"), NULL, 1.0, &log, &text, NULL), BERTH_OK);
    assert_string_equal(text, "{\"exact_match\": 0.0, \"f1\": 0.0}");
    memory_free(text);
    memory_free(set);
    memory_free(predictions);
}

// Of 13 questions one is answered: ten are named, then there is their number.
static void names_the_first_missing_answers(void **state) {
    char set[4096];
    size_t used =
        (size_t)snprintf(set, sizeof set,
                         "{\"version\":\"1.1\",\"data\":[{\"title\":\"t\",\"paragraphs\":["
                         "{\"context\":\"It is here.\",\"qas\":[");
    for (int i = 0; i < 13; i++) {
        used += (size_t)snprintf(set + used, sizeof set - used,
                                 "%s{\"id\":\"q%d\",\"question\":\"Where?\",\"answers\":"
                                 "[{\"text\":\"here\",\"answer_start\":6}]}",
                                 i > 0 ? "," : "", i);
    }
    snprintf(set + used, sizeof set - used, "]}]}]}");
    scratch_write("set", set);
    scratch_write("one", "{\"q3\":\"here\"}");
    struct warnings warnings = {0};
    struct berth_log log = {note, &warnings};
    char *text, last[1024];
    assert_int_equal(evaluate(scratch("set"), scratch("one"), NULL, 1.0, &log, &text, NULL),
                     BERTH_OK);
    assert_int_equal(warnings.count, 11);
    snprintf(last, sizeof last, "%s: 12 questions without a prediction receive score 0",
             scratch("one"));
    assert_string_equal(warnings.last, last);
    memory_free(text);
}

// Only odds above the threshold mean that there is no answer.
static void odds_at_the_threshold_keep_the_answer(void **state) {
    static const char set[] =
        "{\"version\":\"v2.0\",\"data\":[{\"title\":\"t\",\"paragraphs\":[{\"context\":\"It is "
        "here.\","
        "\"qas\":[{\"id\":\"a\",\"question\":\"Where?\",\"is_impossible\":false,\"answers\":"
        "[{\"text\":\"here\",\"answer_start\":6}]}]}]}]}";
    static const struct {
        double threshold;
        const char *exact;
    } cases[] = {{0.5, "\"exact\": 100.0"}, {0.75, "\"exact\": 100.0"}, {0.25, "\"exact\": 0.0"}};
    struct berth_log log = {0};
    scratch_write("set", set);
    scratch_write("one", "{\"a\":\"here\"}");
    scratch_write("odds", "{\"a\":0.5}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text;
        assert_int_equal(evaluate(scratch("set"), scratch("one"), scratch("odds"),
                                  cases[i].threshold, &log, &text, NULL),
                         BERTH_OK);
        assert_non_null(strstr(text, cases[i].exact));
        memory_free(text);
    }
}

#define QUESTIONS(version, questions)                                                              \
    "{\"version\":\"" version                                                                      \
    "\",\"data\":[{\"title\":\"t\",\"paragraphs\":[{\"context\":\"It is "                          \
    "here.\",\"qas\":[" questions "]}]}]}"
#define UNANSWERED "{\"id\":\"a\",\"question\":\"Where?\",\"answers\":[]}"
#define ANSWERED                                                                                   \
    "{\"id\":\"b\",\"question\":\"Where?\",\"answers\":[{\"text\":\"here\",\"answer_start\":6}]}"

// What evaluate-v2.0.py asks is whether a question has answers; it does not read is_impossible.
static void an_empty_array_of_answers_is_no_answer(void **state) {
    static const char half[] = "{\n  \"exact\": 50.0,\n  \"f1\": 50.0,\n  \"total\": 2,\n  "
                               "\"HasAns_exact\": 0.0,\n  \"HasAns_f1\": 0.0,\n  "
                               "\"HasAns_total\": 1,\n  \"NoAns_exact\": 100.0,\n  \"NoAns_f1\": "
                               "100.0,\n  \"NoAns_total\": 1\n}";
    static const char only[] = "{\n  \"exact\": 100.0,\n  \"f1\": 100.0,\n  \"total\": 1,\n  "
                               "\"NoAns_exact\": 100.0,\n  \"NoAns_f1\": 100.0,\n  "
                               "\"NoAns_total\": 1\n}";
    static const struct {
        const char *set, *expected;
    } cases[] = {{QUESTIONS("v2.0", UNANSWERED "," ANSWERED), half},
                 {QUESTIONS("1.1", UNANSWERED "," ANSWERED), half},
                 {QUESTIONS("v2.0", UNANSWERED), only}};
    scratch_write("one", "{\"a\":\"\",\"b\":\"\"}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("set", cases[i].set);
        expect_text(scratch("set"), scratch("one"), NULL, 1.0, cases[i].expected);
    }
    // Odds ask for the rules of v2.0, whatever the file says.
    scratch_write("set", QUESTIONS("1.1", ANSWERED));
    scratch_write("odds", "{\"b\":0.5}");
    expect_text(
        scratch("set"), scratch("one"), scratch("odds"), 1.0,
        "{\n  \"exact\": 0.0,\n  \"f1\": 0.0,\n  \"total\": 1,\n  \"HasAns_exact\": 0.0,\n  "
        "\"HasAns_f1\": 0.0,\n  \"HasAns_total\": 1,\n  \"best_exact\": 0.0,\n  "
        "\"best_exact_thresh\": 0.0,\n  \"best_f1\": 0.0,\n  \"best_f1_thresh\": 0.0\n}");
}

static void refuses_a_set_without_answers(void **state) {
    struct berth_error error = {0};
    struct berth_log log = {0};
    char *text;
    scratch_write("set", QUESTIONS("1.1", UNANSWERED));
    scratch_write("one", "{\"a\":\"\"}");
    assert_int_equal(evaluate(scratch("set"), scratch("one"), NULL, 1.0, &log, &text, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "/set: no question has an answer to compare with");
}

static void expect_failure(const char *set, const char *predictions, const char *odds,
                           enum berth_status status, const char *says) {
    struct berth_error error = {0};
    struct berth_log log = {0};
    char *text = "";
    scratch_write("predictions", predictions);
    if (odds != NULL) {
        scratch_write("odds", odds);
    }
    assert_int_equal(evaluate(fixture_source(set), scratch("predictions"),
                              odds == NULL ? NULL : scratch("odds"), 0.0, &log, &text, &error),
                     status);
    assert_null(text);
    assert_message_has(&error, says);
}

#define ALL "{\"q1\":\"\",\"q2\":\"\",\"q3\":\"\",\"q4\":\"\",\"q5\":\"\",\"q6\":\"\",\"q7\":\"\"}"

static void names_what_is_wrong(void **state) {
    expect_failure(SET("1"), "[]", NULL, BERTH_BAD_DATA,
                   "/predictions: expected one JSON object that maps question ids to answers");
    expect_failure(SET("1"), "{\"q1\":", NULL, BERTH_BAD_DATA, "/predictions: line 1");
    expect_failure(SET("1"), "{\"q1\":5}", NULL, BERTH_BAD_DATA,
                   "/predictions: key \"q1\": expected the answer's text");
    expect_failure(SET("1"), "{\"z1\":\"x\",\"z2\":\"y\"}", NULL, BERTH_BAD_DATA,
                   "/predictions: none of its question ids (\"z1\", ...) is in ");
    expect_failure(SET("2"), "{\"z1\":\"x\"}", NULL, BERTH_BAD_DATA, "(\"q1\", ...); are these");
    expect_failure(SET("1"), "{}", NULL, BERTH_BAD_DATA, "/predictions: no predictions; expected");
    expect_failure(SET("2"), "{\"q1\":\"x\"}", NULL, BERTH_BAD_DATA,
                   "/predictions: no prediction for question \"q2\"");
    expect_failure(SET("2"), ALL, "{\"q1\":0}", BERTH_BAD_DATA,
                   "/odds: key \"q2\": expected a number for every question");
    expect_failure(SET("2"), ALL, "7", BERTH_BAD_DATA,
                   "/odds: expected one JSON object that maps question ids to null odds");
    expect_failure(SET("1"), ALL, "{}", BERTH_BAD_DATA,
                   "/odds: key \"q1\": expected a number for every question");
    expect_failure("tests/data/squad/none.json", ALL, NULL, BERTH_NO_INPUT, "none.json");
}

// --- real data: predictions derived from the references, as in squad_reference.py ----------------

struct words {
    const char *word[256];
    size_t count;
    char text[4096];
};

static void split(const char *text, struct words *words) {
    snprintf(words->text, sizeof words->text, "%s", text);
    words->count = 1;
    words->word[0] = words->text;
    for (char *at = words->text; *at != '\0'; at++) {
        if (*at == ' ') {
            *at = '\0';
            words->word[words->count++] = at + 1;
        }
    }
}

static void join(const struct words *words, size_t from, size_t to, const char *blank, char *out) {
    *out = '\0';
    for (size_t i = from; i < to; i++) {
        strcat(out, i > from ? blank : "");
        strcat(out, words->word[i]);
    }
}

static void reverse(struct words *words) {
    for (size_t i = 0; i < words->count / 2; i++) {
        const char *kept = words->word[i];
        words->word[i] = words->word[words->count - 1 - i];
        words->word[words->count - 1 - i] = kept;
    }
}

static void vary(size_t number, const char *text, char *out) {
    struct words words;
    char joined[4096];
    split(text, &words);
    switch (number % 12) {
    case 1:
        sprintf(out, "The %s.", text);
        return;
    case 2:
        reverse(&words);
        join(&words, 0, words.count, " ", out);
        return;
    case 3:
        join(&words, 0, words.count - 1, " ", out);
        return;
    case 4:
        *out = '\0';
        return;
    case 6:
        sprintf(out, "%s %s", text, words.word[0]);
        return;
    case 7:
        join(&words, 1, words.count, " ", joined);
        sprintf(out, "an %s", joined);
        return;
    case 8:
        sprintf(out, "%s%s", text, text);
        return;
    case 9:
        join(&words, 0, words.count, "  ", joined);
        sprintf(out, "(%s)", joined);
        return;
    case 10:
        sprintf(out, "\xC3\xA9t\xC3\x89 %s", text);
        return;
    case 11:
        join(&words, words.count / 2, words.count, " ", out);
        return;
    default: // 5 is in upper case in Python; the scores are the same
        strcpy(out, text);
    }
}

static void write_varied(const struct squad_dataset *set) {
    json *predictions = json_new_object(), *odds = json_new_object();
    struct fixture_draws draws = {1};
    for (size_t i = 0; i < set->count; i++) {
        const struct squad_example *example = &set->examples[i];
        char out[8192];
        vary(i,
             example->answer_count > 0 ? example->answers[0].text
             : i % 3 > 0               ? "no answer"
                                       : "",
             out);
        json_set(predictions, example->id, json_new_text(out));
        json_set(odds, example->id, json_new_real((double)fixture_logit(&draws)));
    }
    assert_int_equal(json_write_file(predictions, JSON_COMPACT, scratch("varied"), NULL), BERTH_OK);
    assert_int_equal(json_write_file(odds, JSON_COMPACT, scratch("odds"), NULL), BERTH_OK);
    json_free(predictions);
    json_free(odds);
}

static void expect_number(const json *official, const char *key, double found) {
    double expected = json_as_real(json_member(official, key));
    if (!(found == expected)) {
        fail_msg("%s is %.17g, expected %.17g", key, found, expected);
    }
}

// The scores of a run in memory must equal the script's for its files; odds: at the best
// thresholds.
static void expect_the_same_in_memory(const struct squad_dataset *set, const char *plain_text,
                                      const char *odds_text) {
    json *predictions = fixture_json(scratch("varied")), *odds = fixture_json(scratch("odds"));
    json *plain = NULL, *best = NULL;
    const char **texts = memory_array(set->count, sizeof *texts);
    double *numbers = memory_array(set->count, sizeof *numbers);
    struct squad_score_v2 score;
    assert_int_equal(json_read_memory("plain", plain_text, strlen(plain_text), &plain, NULL),
                     BERTH_OK);
    assert_int_equal(json_read_memory("best", odds_text, strlen(odds_text), &best, NULL), BERTH_OK);
    for (size_t i = 0; i < set->count; i++) {
        texts[i] = json_text(json_member(predictions, set->examples[i].id));
        numbers[i] = json_as_real(json_member(odds, set->examples[i].id));
    }
    assert_int_equal(squad_score_v2(set, texts, numbers, &score, NULL), BERTH_OK);
    expect_number(plain, "exact", score.all.exact);
    expect_number(plain, "f1", score.all.f1);
    expect_number(plain, "total", (double)score.all.total);
    expect_number(plain, "HasAns_exact", score.answered.exact);
    expect_number(plain, "HasAns_f1", score.answered.f1);
    expect_number(plain, "HasAns_total", (double)score.answered.total);
    expect_number(plain, "NoAns_exact", score.unanswered.exact);
    expect_number(plain, "NoAns_f1", score.unanswered.f1);
    expect_number(plain, "NoAns_total", (double)score.unanswered.total);
    expect_number(best, "best_exact", score.best_exact);
    expect_number(best, "best_exact_thresh", score.best_exact_threshold);
    expect_number(best, "best_f1", score.best_f1);
    expect_number(best, "best_f1_thresh", score.best_f1_threshold);
    memory_free(texts);
    memory_free(numbers);
    json_free(predictions);
    json_free(odds);
    json_free(plain);
    json_free(best);
}

static void prints_what_the_scripts_print_on_real_data(void **state) {
    if (!fixture_has_data()) {
        skip();
    }
    json *golden = fixture_json(fixture_source("tests/metrics/real.golden.json"));
    struct json_walk walk = {.object = golden};
    int sets = 0, with_both = 0;
    while (json_walk_next(&walk)) {
        char path[64];
        snprintf(path, sizeof path, "squad/%s.json", walk.key);
        struct squad_dataset set = fixture_dataset(data_path(path));
        write_varied(&set);
        expect_text(data_path(path), scratch("varied"), NULL, 1.0,
                    json_text(json_member(walk.value, "evaluation")));
        const char *with_odds = json_text(json_member(walk.value, "with_odds"));
        if (with_odds != NULL) {
            expect_text(data_path(path), scratch("varied"), scratch("odds"), 2.0, with_odds);
            expect_the_same_in_memory(&set, json_text(json_member(walk.value, "evaluation")),
                                      with_odds);
            with_both++;
        }
        squad_dataset_done(&set);
        sets++;
    }
    assert_int_equal(sets, 2);
    assert_int_equal(with_both, 1);
    json_free(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(prints_what_the_scripts_print),
        SCRATCH_TEST(does_not_depend_on_the_locale),
        SCRATCH_TEST(counts_missing_answers_as_0),
        SCRATCH_TEST(names_the_first_missing_answers),
        SCRATCH_TEST(odds_at_the_threshold_keep_the_answer),
        SCRATCH_TEST(an_empty_array_of_answers_is_no_answer),
        SCRATCH_TEST(refuses_a_set_without_answers),
        SCRATCH_TEST(names_what_is_wrong),
        SCRATCH_TEST(prints_what_the_scripts_print_on_real_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
