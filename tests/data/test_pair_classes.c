// SPDX-License-Identifier: Apache-2.0
// The labels of a table beside the classes of a model: by name, by number or in order; the classes
// in config.json.
#include "core/clock.h"
#include "core/harness.h"
#include "core/memory.h"
#include "data/pairs_fixture.h"
#include "data/tables/label_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A model with the names LABEL_0 to LABEL_11, as transformers writes without names.
static char placeholder_texts[12][16];
static const char *const *placeholders_of(void) {
    static const char *names[12];
    for (size_t i = 0; i < 12; i++) {
        snprintf(placeholder_texts[i], sizeof placeholder_texts[i], "LABEL_%zu", i);
        names[i] = placeholder_texts[i];
    }
    return names;
}

// A table whose lines are "NUMBER<tab>BEFORE NUMBER", of the numbers from `first` to `last` except
// `left_out`, in a scrambled order.
static const char *numbered(const char *before, int first, int last, int left_out) {
    static char text[1024];
    size_t used = (size_t)sprintf(text, "a\tl\n");
    for (int i = 0; i <= last - first; i++) {
        const int number = first + i * 5 % (last - first + 1);
        if (number != left_out) {
            used += (size_t)sprintf(text + used, "%d\t%s%d\n", number, before, number);
        }
    }
    return text;
}

// Every label is the class of its number, whichever others occur.
static void expect_numbers_as_classes(const char *before, int left_out) {
    struct pair_dataset set = read_text(numbered(before, 0, 11, left_out), &plain);
    struct berth_error error = {0};
    assert_int_equal(set.count, left_out < 0 ? 12 : 11);
    if (pairs_relabel(&set, placeholders_of(), 12, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    for (size_t i = 0; i < set.count; i++) {
        assert_int_equal(set.examples[i].label, atoi(set.examples[i].text));
    }
    assert_false(set.labels_in_order);
    pair_dataset_done(&set);
}

static void matches_placeholders_by_name_and_number(void **state) {
    static const char *const befores[] = {"LABEL_", "label_", ""};
    for (size_t i = 0; i < sizeof befores / sizeof *befores; i++) {
        expect_numbers_as_classes(befores[i], -1);
        expect_numbers_as_classes(befores[i], 3);
        expect_numbers_as_classes(befores[i], 11);
    }
    // From 1 on, the last has no class; without it the others are still the classes of that number.
    for (int left_out = 0; left_out < 12; left_out += 5) {
        struct pair_dataset set = read_text(numbered("", 1, 12, left_out), &plain);
        struct berth_error error = {0};
        assert_int_equal(pairs_relabel(&set, placeholders_of(), 12, &error), BERTH_BAD_DATA);
        assert_says(error.message, "the model has no label \"12\"; expected 0 to 11, because its "
                                   "classes have no names: number the labels from 0");
        pair_dataset_done(&set);
    }
    struct pair_dataset set = read_text(numbered("", 1, 12, 12), &plain);
    assert_int_equal(pairs_relabel(&set, placeholders_of(), 12, NULL), BERTH_OK);
    assert_int_equal(set.examples[0].label, 1);
    pair_dataset_done(&set);
    // One name is enough for all to be names.
    set = read_text("a\tl\nx\tLABEL_1\nx\t0\n", &plain);
    assert_int_equal(pairs_relabel(&set, placeholders_of(), 2, NULL), BERTH_BAD_DATA);
    pair_dataset_done(&set);
    static const char *const names[] = {"LABEL_pos", "LABEL_neg"};
    set = read_text("a\tl\nx\tgood\nx\tbad\n", &plain);
    assert_int_equal(pairs_relabel(&set, names, 2, NULL), BERTH_BAD_DATA);
    pair_dataset_done(&set);
}

static void takes_the_order_of_a_model(void **state) {
    static const char *const order[] = {"dog", "bee", "CAT", "ant", "Cat"};
    static const char *const placeholders[] = {"LABEL_0", "LABEL_1", "LABEL_2"};
    static const char *const gaps[] = {"LABEL_0", "LABEL_2", "LABEL_1"};
    struct pair_dataset set = read_text(three, &plain);
    struct berth_error error = {0};
    assert_int_equal(pairs_relabel(&set, placeholders, 3, &error), BERTH_OK);
    assert_string_equal(set.labels[set.examples[0].label], "cat");
    assert_true(set.labels_in_order);
    assert_int_equal(pairs_relabel(&set, placeholders, 2, &error), BERTH_BAD_DATA);
    assert_int_equal(pairs_relabel(&set, gaps, 3, &error), BERTH_BAD_DATA);
    assert_int_equal(pairs_relabel(&set, order + 1, 2, &error), BERTH_BAD_DATA);
    assert_string_equal(error.message, "t: line 3: the model has no label \"dog\"; expected "
                                       "one of \"bee\", \"CAT\"");
    static const char *const numbers[] = {"1", "2"};
    struct pair_settings as_classes = plain;
    as_classes.target = PAIR_CLASS;
    struct pair_dataset fractions = read_text("a\tl\nx\t2\nx\t0.5\n", &as_classes);
    assert_int_equal(pairs_relabel(&fractions, numbers, 2, &error), BERTH_BAD_DATA);
    assert_string_equal(error.message,
                        "t: line 3: the model has no label \"0.5\"; expected one of \"1\", \"2\"; "
                        "if the labels are numbers, not classes, train with problem_type "
                        "regression");
    pair_dataset_done(&fractions);
    assert_int_equal(set.label_count, 3); // as it was
    assert_int_equal(set.examples[0].label, 1);
    assert_int_equal(pairs_relabel(&set, order, 5, &error), BERTH_OK);
    assert_false(set.labels_in_order);
    assert_int_equal(set.label_count, 5);
    assert_int_equal(set.examples[0].label, 2);
    assert_int_equal(set.examples[1].label, 0);
    assert_int_equal(set.examples[2].label, 3);
    assert_string_equal(set.labels[1], "bee");
    assert_ptr_not_equal(set.labels[1], order[1]);
    pair_dataset_done(&set);
}

static void labels_that_become_one_count_once(void **state) {
    static const char *const order[] = {"a", "b"};
    const struct pair_settings settings = {
        .text_column = "t", .label_column = "l", .target = PAIR_MULTI_LABEL};
    struct pair_dataset set = read_text("t\tl\nx\tB,a,b\n", &settings);
    assert_int_equal(set.examples[0].label_count, 3);
    assert_int_equal(pairs_relabel(&set, order, 2, NULL), BERTH_OK);
    assert_int_equal(set.examples[0].label_count, 2);
    assert_int_equal(set.examples[0].labels[0], 1);
    assert_int_equal(set.examples[0].labels[1], 0);
    pair_dataset_done(&set);
}

static void a_class_without_examples_may_be_unknown(void **state) {
    static const char *const order[] = {"entailment", "contradiction"};
    struct pair_settings settings;
    glue_task_settings(task_of("mnli"), GLUE_DEV, NULL, &settings, NULL);
    struct pair_dataset set =
        read_text("sentence1\tsentence2\tgold_label\na\tb\tcontradiction\n", &settings);
    assert_int_equal(pairs_relabel(&set, order, 2, NULL), BERTH_OK);
    assert_int_equal(set.examples[0].label, 1);
    pair_dataset_done(&set);
}

static void keeps_classes_in_the_configuration(void **state) {
    struct pair_dataset set = read_text(three, &plain);
    json *config = json_new_object();
    assert_true(pair_labels_to_config(&set, config));
    char *text = json_write(config, JSON_COMPACT);
    assert_string_equal(text, "{\"id2label\": {\"0\": \"ant\", \"1\": \"cat\", \"2\": \"dog\"}, "
                              "\"label2id\": {\"ant\": 0, \"cat\": 1, \"dog\": 2}, "
                              "\"problem_type\": \"single_label_classification\"}");
    memory_free(text);
    const char **names;
    size_t count;
    assert_int_equal(pair_labels_from_config(config, "c", &names, &count, NULL), BERTH_OK);
    assert_int_equal(count, 3);
    assert_string_equal(names[1], "cat");
    assert_null(names[3]);
    assert_int_equal(pairs_relabel(&set, names, count, NULL), BERTH_OK);
    assert_int_equal(set.examples[0].label, 1);
    memory_free(names);
    json_free(config);
    pair_dataset_done(&set);

    set = read_text("a\tl\nx\t0.5\n", &plain);
    config = json_new_object();
    assert_true(pair_labels_to_config(&set, config));
    text = json_write(config, JSON_COMPACT);
    assert_string_equal(text, "{\"id2label\": {\"0\": \"LABEL_0\"}, \"label2id\": {\"LABEL_0\": "
                              "0}, \"problem_type\": \"regression\"}");
    memory_free(text);
    json_free(config);
    pair_dataset_done(&set);
}

static void refuses_broken_configurations(void **state) {
    static const char *const texts[] = {"{\"id2label\":{\"1\":\"a\"}}", "{\"id2label\":{\"0\":1}}",
                                        "{\"id2label\":{\"0\":\"a\",\"x\":\"b\"}}",
                                        "{\"id2label\":[\"a\"]}"};
    static const char *const found[] = {
        "\"0\", found none under \"0\"", "\"0\", found none under \"0\"",
        "\"1\", found none under \"1\"", "\"0\", found none under \"0\""};
    const char **names;
    size_t count;
    struct berth_error error = {0};
    json *config;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_read_memory("c", texts[i], strlen(texts[i]), &config, NULL);
        assert_int_equal(pair_labels_from_config(config, "c", &names, &count, &error),
                         BERTH_CONFIG);
        assert_says(error.message, "c: key \"id2label\": expected names under \"0\" to ");
        assert_says(error.message, found[i]);
        assert_null(names);
        json_free(config);
    }
    json_read_memory("c", "{\"id2label\":null}", 17, &config, NULL);
    assert_int_equal(pair_labels_from_config(config, "c", &names, &count, &error), BERTH_OK);
    assert_null(names);
    assert_int_equal(count, 0);
    json_free(config);
}

// Many classes are matched in a fraction of a second; comparing each label with each class would
// take a minute.
static void matches_many_names(void **state) {
    enum { MANY = 200000 };
    char(*texts)[16] = memory_array(2 * MANY, sizeof *texts);
    const char **names = memory_array(2 * MANY, sizeof *names);
    int32_t *numbers = memory_array(MANY, sizeof *numbers);
    enum label_match match;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "Class %zu", i);
        snprintf(texts[MANY + i], sizeof texts[i], i % 2 == 0 ? "Class %zu" : "cLASS %zu",
                 MANY - 1 - i);
        names[i] = texts[i];
        names[MANY + i] = texts[MANY + i];
    }
    names[MANY - 1] = names[7]; // of two classes with a name, the first counts
    const struct label_names classes = {names, MANY}, labels = {names + MANY, MANY};
    const double begin = clock_now();
    for (int in_any_case = 0; in_any_case < 2; in_any_case++) {
        assert_int_equal(label_names_match(&classes, &labels, in_any_case, numbers, &match, NULL),
                         BERTH_OK);
        assert_int_equal(match, LABELS_BY_NAME);
        assert_int_equal(numbers[0], -1);
        assert_int_equal(numbers[MANY - 8], 7);
        for (size_t i = 1; i < MANY; i++) {
            assert_int_equal(numbers[i], i % 2 == 0 || in_any_case ? (int)(MANY - 1 - i) : -1);
        }
    }
    assert_true(clock_now() - begin < 20);
    memory_free(texts);
    memory_free((void *)names);
    memory_free(numbers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_many_names),
        cmocka_unit_test(matches_placeholders_by_name_and_number),
        cmocka_unit_test(takes_the_order_of_a_model),
        cmocka_unit_test(labels_that_become_one_count_once),
        cmocka_unit_test(a_class_without_examples_may_be_unknown),
        cmocka_unit_test(keeps_classes_in_the_configuration),
        cmocka_unit_test(refuses_broken_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
