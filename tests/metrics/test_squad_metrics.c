// SPDX-License-Identifier: Apache-2.0
// Tests exact match and F1 of text pairs against Python, to the last bit, and Python's text rules
// over all of Unicode.
#include "core/harness.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "data/squad_fixture.h"
#include "metrics/squad_match.h"
#include "metrics/squad_metrics.h"
#include "text/python.h"
#include "text/unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json *golden;

static int open_golden(void **state) {
    golden = fixture_json(fixture_source("tests/metrics/metrics.golden.json"));
    return 0;
}

static int close_golden(void **state) {
    json_free(golden);
    return 0;
}

static void expect_bits(double found, double expected, const char *prediction,
                        const char *reference) {
    if (memcmp(&found, &expected, sizeof found) != 0) {
        fail_msg("\"%s\" against \"%s\": %.17g, expected %.17g", prediction, reference, found,
                 expected);
    }
}

static void scores_pairs_as_python_does(void **state) {
    const json *pairs = json_member(golden, "pairs");
    assert_true(json_length(pairs) > 400);
    for (size_t i = 0; i < json_length(pairs); i++) {
        const json *pair = json_at(pairs, i);
        const char *prediction = json_text(json_at(pair, 0)),
                   *reference = json_text(json_at(pair, 1));
        struct squad_match match;
        assert_int_equal(squad_match(prediction, reference, 1, &match, NULL), BERTH_OK);
        expect_bits(match.exact, json_as_real(json_at(pair, 2)), prediction, reference);
        expect_bits(match.f1, json_as_real(json_at(pair, 4)), prediction, reference);
        assert_int_equal(squad_match(prediction, reference, 0, &match, NULL), BERTH_OK);
        expect_bits(match.exact, json_as_real(json_at(pair, 2)), prediction, reference);
        expect_bits(match.f1, json_as_real(json_at(pair, 3)), prediction, reference);
    }
}

static uint32_t crc_of_lower(uint32_t crc, const uint32_t *text, size_t count) {
    uint32_t lower[16];
    char bytes[64];
    size_t length = 0, lower_count = python_lower(text, count, lower);
    for (size_t i = 0; i < lower_count; i++) {
        length += utf8_encode(lower[i], bytes + length);
    }
    return fixture_crc(crc, bytes, length);
}

static void knows_all_of_unicode(void **state) {
    const json *python = json_member(golden, "python");
    uint32_t lower = 0, word = 0, sigma = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000) {
            continue;
        }
        const uint32_t around[] = {'a', c, 0x3A3, c, 0x3A3, 'a'};
        lower = crc_of_lower(lower, &c, 1);
        sigma = crc_of_lower(sigma, around, 6);
        word = fixture_crc(word, python_is_word(c) ? "1" : "0", 1);
    }
    assert_int_equal(lower, json_as_integer(json_member(python, "lower")));
    assert_int_equal(word, json_as_integer(json_member(python, "word")));
    assert_int_equal(sigma, json_as_integer(json_member(python, "sigma")));
}

static void takes_the_best_reference(void **state) {
    const struct squad_answer answers[] = {
        {.text = "the old bridge"}, {.text = "bridge"}, {.text = "..."}};
    const struct squad_example example = {.id = "q", .answers = answers, .answer_count = 3};
    static const struct {
        const char *prediction;
        int version_2, exact;
        double f1;
    } cases[] = {
        {"Bridge!", 0, 1, 1.0},
        {"old harbour", 0, 0, 0.5},
        {"", 0, 1, 0.0}, // v1.1: "..." has no tokens either, but F1 is 0
        {"", 1, 0, 0.0}, // v2.0 leaves "..." out
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct squad_match match;
        assert_int_equal(
            squad_match_example(&example, cases[i].prediction, cases[i].version_2, &match, NULL),
            BERTH_OK);
        assert_true(match.exact == cases[i].exact && match.f1 == cases[i].f1);
    }
}

static void scores_a_data_set(void **state) {
    struct squad_dataset set = fixture_dataset(fixture_source("tests/data/squad/v1.json"));
    const char *predictions[16];
    assert_int_equal(set.count, 7);
    for (size_t i = 0; i < set.count; i++) {
        predictions[i] = i % 2 ? set.examples[i].answers[0].text : "nothing";
    }
    struct squad_score score;
    assert_int_equal(squad_score_v1(&set, predictions, &score, NULL), BERTH_OK);
    assert_true(score.exact_match == 300.0 / 7 && score.f1 == 300.0 / 7);
    memory_fail_at(1, 0); // no score rather than a wrong one
    assert_int_equal(squad_score_v1(&set, predictions, &score, NULL), BERTH_NO_MEMORY);
    memory_fail_at(0, 0);
    squad_dataset_done(&set);
}

static void scores_questions_without_answers(void **state) {
    struct squad_dataset set = fixture_dataset(fixture_source("tests/data/squad/v2.json"));
    const char *predictions[16] = {NULL};
    size_t impossible = 0;
    for (size_t i = 0; i < set.count; i++) {
        struct squad_match match;
        predictions[i] = i % 2 ? "" : "the lantern";
        impossible += set.examples[i].impossible;
        assert_int_equal(squad_match_example(&set.examples[i], predictions[i], 1, &match, NULL),
                         BERTH_OK);
        assert_true(match.exact == (set.examples[i].impossible && i % 2));
        assert_true(match.f1 == match.exact);
    }
    assert_int_equal(impossible, 2);
    struct squad_score_v2 score;
    assert_int_equal(squad_score_v2(&set, predictions, NULL, &score, NULL), BERTH_OK);
    assert_int_equal(score.all.total, 7);
    assert_int_equal(score.unanswered.total, 2);
    assert_int_equal(score.answered.total, 5);
    assert_true(score.all.exact == 100.0 / 7 && score.all.f1 == 100.0 / 7);
    assert_true(score.unanswered.exact == 50.0 && score.answered.exact == 0.0);
    assert_true(isnan(score.best_exact) && isnan(score.best_f1_threshold));
    squad_dataset_done(&set);
}

static void survives_missing_memory(void **state) {
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n = 0;
    while (status == BERTH_NO_MEMORY) {
        struct squad_match match;
        memory_fail_at(++n, 0);
        status = squad_match("the old bridge", "bridge", 0, &match, NULL);
        assert_true(status == BERTH_OK || match.f1 == 0.0);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    assert_int_equal(n, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_pairs_as_python_does),
        cmocka_unit_test(knows_all_of_unicode),
        cmocka_unit_test(takes_the_best_reference),
        cmocka_unit_test(scores_a_data_set),
        cmocka_unit_test(scores_questions_without_answers),
        cmocka_unit_test(survives_missing_memory),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
