// SPDX-License-Identifier: Apache-2.0
// Tests GLUE's metrics against scikit-learn's and SciPy's: classes to the last bit, correlations to
// a few units in the last place; undefined values; failing allocations.
#include "core/harness.h"
#include "core/memory.h"
#include "data/squad_fixture.h"
#include "metrics/glue_metrics.h"

#include <math.h>
#include <string.h>

static json *golden;

static int open_golden(void **state) {
    golden = fixture_json(fixture_source("tests/metrics/glue_metrics.golden.json"));
    return 0;
}

static int close_golden(void **state) {
    json_free(golden);
    return 0;
}

static int32_t *classes_of(const json *list) {
    int32_t *values = memory_array(json_length(list), sizeof *values);
    for (size_t i = 0; i < json_length(list); i++) {
        values[i] = (int32_t)json_as_integer(json_at(list, i));
    }
    return values;
}

static double real_of(const json *value) {
    return json_is_null_value(value) ? NAN : json_as_real(value);
}

static double *numbers_of(const json *list) {
    double *values = memory_array(json_length(list), sizeof *values);
    for (size_t i = 0; i < json_length(list); i++) {
        values[i] = real_of(json_at(list, i));
    }
    return values;
}

// The scores must be those of the row, with the same names and number.
static void compare_scores(const struct glue_scores *scores, const json *row, const char *names,
                           double tolerance) {
    char found[128] = "";
    for (size_t i = 0; i < scores->count; i++) {
        double expected = real_of(json_member(row, scores->items[i].name));
        double value = scores->items[i].value;
        strcat(strcat(found, scores->items[i].name), " ");
        if (!(fabs(value - expected) <= tolerance * fmax(1, fabs(expected))) &&
            !(isnan(value) && isnan(expected))) {
            fail_msg("%s is %.17g, expected %.17g", scores->items[i].name, value, expected);
        }
    }
    assert_string_equal(found, names);
}

static void scores_classes_as_scikit_learn(void **state) {
    const json *rows = json_member(golden, "classes");
    assert_int_equal(json_length(rows), 19);
    for (size_t i = 0; i < json_length(rows); i++) {
        const json *row = json_at(rows, i);
        int32_t *predictions = classes_of(json_member(row, "predictions"));
        int32_t *labels = classes_of(json_member(row, "labels"));
        struct glue_outcome outcome = {.count = json_length(json_member(row, "labels")),
                                       .class_count =
                                           (size_t)json_as_integer(json_member(row, "classes")),
                                       .predictions = predictions,
                                       .labels = labels,
                                       .positive = 1};
        struct glue_scores scores;
        assert_int_equal(glue_score(GLUE_ACCURACY, &outcome, &scores, NULL), BERTH_OK);
        compare_scores(&scores, row, "accuracy ", 0);
        assert_int_equal(glue_score(GLUE_ACCURACY_F1, &outcome, &scores, NULL), BERTH_OK);
        compare_scores(&scores, row, "accuracy f1 combined_score ", 0);
        assert_int_equal(glue_score(GLUE_MATTHEWS, &outcome, &scores, NULL), BERTH_OK);
        compare_scores(&scores, row, "matthews_correlation ", 0);
        memory_free(predictions);
        memory_free(labels);
    }
}

static void scores_numbers_as_scipy(void **state) {
    const json *rows = json_member(golden, "numbers");
    assert_int_equal(json_length(rows), 13);
    for (size_t i = 0; i < json_length(rows); i++) {
        const json *row = json_at(rows, i);
        double *predictions = numbers_of(json_member(row, "predictions"));
        double *values = numbers_of(json_member(row, "values"));
        struct glue_outcome outcome = {.count = json_length(json_member(row, "values")),
                                       .predicted_values = predictions,
                                       .values = values};
        struct glue_scores scores;
        assert_int_equal(glue_score(GLUE_CORRELATION, &outcome, &scores, NULL), BERTH_OK);
        compare_scores(&scores, row, "pearson spearmanr combined_score ", 2e-15);
        assert_int_equal(glue_score(GLUE_MSE, &outcome, &scores, NULL), BERTH_OK);
        compare_scores(&scores, row, "mse ", 2e-15);
        memory_free(predictions);
        memory_free(values);
    }
}

static void has_no_correlation_of_one_example(void **state) {
    static const double one[] = {1};
    double result = 0;
    assert_true(isnan(glue_pearson(one, one, 1)));
    assert_true(isnan(glue_pearson(one, one, 0)));
    assert_int_equal(glue_spearman(one, one, 1, &result, NULL), BERTH_OK);
    assert_true(isnan(result));
}

// The mean of this many equal numbers is rounded, so they seem to differ from it.
static void has_no_correlation_with_a_constant(void **state) {
    static double constant[50001], rising[50001];
    for (size_t i = 0; i < 50001; i++) {
        constant[i] = 0.1;
        rising[i] = (double)i;
    }
    assert_true(isnan(glue_pearson(constant, rising, 50001)));
    assert_true(isnan(glue_pearson(rising, constant, 50001)));
}

static void correlates_what_overflows(void **state) {
    static const double huge[] = {-1e300, 1e300, 5e299}, small[] = {-1e-300, 1e-300, 5e-301};
    assert_true(glue_pearson(huge, huge, 3) == 1.0);
    assert_true(glue_pearson(huge, small, 3) == 1.0);
}

static void refuses_what_it_cannot_score(void **state) {
    static const int32_t good[] = {0, 1}, bad[] = {0, 2}, none[] = {0, -1};
    static const double numbers[] = {1, 2};
    const struct glue_outcome outcomes[] = {
        {.class_count = 2, .predictions = good, .labels = good},
        {.count = 2, .class_count = 2, .predictions = good},
        {.count = 2, .class_count = 2, .predicted_values = numbers, .values = numbers},
        {.count = 2, .class_count = 2, .predictions = bad, .labels = good},
        {.count = 2, .class_count = 2, .predictions = good, .labels = none}};
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
        for (int metric = GLUE_ACCURACY; metric <= GLUE_MATTHEWS; metric++) {
            struct glue_scores scores;
            struct berth_error error = {0};
            assert_int_equal(glue_score((enum glue_metric)metric, &outcomes[i], &scores, &error),
                             BERTH_USAGE);
            assert_non_null(
                strstr(error.message, i < 3 ? "expected predictions and labels that are classes"
                                            : "example 1: the prediction is class"));
            assert_int_equal(scores.count, 0);
        }
    }
    struct glue_scores scores;
    assert_int_equal(glue_score(GLUE_MSE, &outcomes[1], &scores, NULL), BERTH_USAGE);
    assert_int_equal(glue_score(GLUE_CORRELATION, &outcomes[2], &scores, NULL), BERTH_OK);
}

static void survives_missing_memory(void **state) {
    static const int32_t classes[] = {0, 1, 1};
    static const double numbers[] = {1, 2, 4};
    const struct glue_outcome outcome = {.count = 3,
                                         .class_count = 2,
                                         .predictions = classes,
                                         .labels = classes,
                                         .predicted_values = numbers,
                                         .values = numbers};
    struct glue_scores scores;
    memory_fail_at(1, 0);
    assert_int_equal(glue_score(GLUE_MATTHEWS, &outcome, &scores, NULL), BERTH_NO_MEMORY);
    for (uint64_t n = 1; n <= 2; n++) {
        memory_fail_at(n, 0);
        assert_int_equal(glue_score(GLUE_CORRELATION, &outcome, &scores, NULL), BERTH_NO_MEMORY);
    }
    memory_fail_at(3, 0);
    assert_int_equal(glue_score(GLUE_CORRELATION, &outcome, &scores, NULL), BERTH_OK);
    memory_fail_at(0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_classes_as_scikit_learn),
        cmocka_unit_test(scores_numbers_as_scipy),
        cmocka_unit_test(has_no_correlation_of_one_example),
        cmocka_unit_test(has_no_correlation_with_a_constant),
        cmocka_unit_test(correlates_what_overflows),
        cmocka_unit_test(refuses_what_it_cannot_score),
        cmocka_unit_test(survives_missing_memory),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
