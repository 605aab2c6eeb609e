// SPDX-License-Identifier: Apache-2.0
// Tests the scores of tags against seqeval's, digit by digit, with entities.golden.txt
// (dev/goldens/entity_scores.py); what a scheme lacks is refused.
#include "core/file.h"
#include "core/harness.h"
#include "core/memory.h"
#include "metrics/entities.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 256

// One case of the golden file.
struct example {
    char *name;
    const char *reference[WORDS], *predicted[WORDS];
    size_t starts[16], count, words;
};

static char *golden, *next_line;

static char *take_line(void) {
    char *line = next_line, *end = line != NULL ? strchr(line, '\n') : NULL;
    if (end == NULL) {
        return NULL;
    }
    *end = '\0';
    next_line = end + 1;
    return line;
}

static size_t cut(char *text, const char **words) {
    size_t count = 0;
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    return count;
}

static void take_sentence(struct example *example, char *line) {
    char *bar = strstr(line, " | ");
    *bar = '\0';
    const size_t count = cut(line, example->reference + example->words);
    assert_int_equal(cut(bar + 3, example->predicted + example->words), count);
    example->words += count;
    example->starts[++example->count] = example->words;
}

static void assert_number(double found, const char *expected, const struct example *example,
                          const char *what) {
    if (found != strtod(expected, NULL)) {
        fail_msg("%s: %s is %.17g, expected %s", example->name, what, found, expected);
    }
}

static void assert_three(const struct entity_score *score, const char *const *expected,
                         const struct example *example) {
    assert_number(score->precision, expected[0], example, "precision");
    assert_number(score->recall, expected[1], example, "recall");
    assert_number(score->f1, expected[2], example, "f1");
}

// The line of a mode and the types after it.
static void check_mode(const struct example *example, char *line) {
    const struct entity_tags tags = {example->reference, example->predicted, example->starts,
                                     example->count};
    const char *words[8];
    struct entity_scores scores;
    struct berth_error error = {0};
    assert_int_equal(cut(line, words), 6);
    const char *scheme = strcmp(words[1], "default") != 0 ? words[1] : NULL;
    if (entity_scores(&tags, scheme, &scores, &error) != BERTH_OK) {
        fail_msg("%s: %s", example->name, error.message);
    }
    assert_three(&scores.all, words + 2, example);
    assert_number(scores.accuracy, words[5], example, "accuracy");
    assert_int_equal(cut(take_line(), words), 3);
    assert_int_equal(scores.type_count, atoi(words[2]));
    for (size_t i = 0; i < scores.type_count; i++) {
        assert_int_equal(cut(take_line(), words), 5);
        assert_string_equal(scores.types[i].type, words[0]);
        assert_three(&scores.types[i], words + 1, example);
        assert_int_equal(scores.types[i].reference, atoi(words[4]));
    }
    entity_scores_done(&scores);
}

static void equals_seqeval_to_the_last_digit(void **state) {
    struct berth_error error = {0};
    struct example example = {.name = NULL};
    size_t length, cases = 0, modes = 0;
    assert_int_equal(file_read(BERTH_TEST_SOURCE_DIR "/tests/metrics/entities.golden.txt", 1 << 20,
                               &golden, &length, &error),
                     BERTH_OK);
    next_line = golden;
    for (char *line = take_line(); line != NULL; line = take_line()) {
        if (strncmp(line, "case ", 5) == 0) {
            example = (struct example){.name = line + 5};
            cases++;
        } else if (strncmp(line, "scores ", 7) == 0) {
            check_mode(&example, line);
            modes++;
        } else {
            take_sentence(&example, line);
        }
    }
    assert_int_equal(cases, 60);
    assert_int_equal(modes, 108);
    memory_free(golden);
}

static enum berth_status score_one(const char *tag, const char *scheme, struct berth_error *error) {
    static const size_t starts[] = {0, 1};
    const struct entity_tags tags = {&tag, &tag, starts, 1};
    struct entity_scores scores;
    enum berth_status status = entity_scores(&tags, scheme, &scores, error);
    entity_scores_done(&scores);
    return status;
}

static void refuses_what_a_scheme_lacks(void **state) {
    struct berth_error error = {0};
    assert_int_equal(score_one("E-LOC", "IOB2", &error), BERTH_BAD_DATA);
    assert_non_null(
        strstr(error.message, "\"E-LOC\" is not a tag of IOB2, which has the letters IOB"));
    assert_int_equal(score_one("E-LOC", "IOBES", &error), BERTH_OK);
    assert_int_equal(score_one("O", "IOB3", &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, entity_schemes));
}

struct expected_entity {
    const char *type;
    size_t first, last;
};

static void expect_entities(const char *const *labels, size_t label_count,
                            const struct expected_entity *expected, size_t count) {
    struct entity *entities;
    size_t found;
    assert_int_equal(entities_of(labels, label_count, &entities, &found, NULL), BERTH_OK);
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(entities[i].type, expected[i].type);
        assert_int_equal(entities[i].first, expected[i].first);
        assert_int_equal(entities[i].last, expected[i].last);
    }
    memory_free(entities);
}

static void finds_entities_of_a_sentence(void **state) {
    static const char *const labels[] = {"I-PER", "I-PER", "B-PER", "O", "I-LOC"};
    static const struct expected_entity expected[] = {{"PER", 0, 1}, {"PER", 2, 2}, {"LOC", 4, 4}};
    expect_entities(labels, 5, expected, 3);
}

static void ends_entities_by_the_letters_of_bilou(void **state) {
    static const char *const labels[] = {"B-PER", "L-PER", "U-PER", "I-PER", "S-B-C", "E-B-C"};
    static const struct expected_entity expected[] = {
        {"PER", 0, 1}, {"PER", 2, 2}, {"PER", 3, 3}, {"B-C", 4, 4}, {"B-C", 5, 5}};
    expect_entities(labels, 6, expected, 5);
}

// As transformers' pipeline names them.
static void takes_a_label_without_a_letter_as_it_is(void **state) {
    static const char *const labels[] = {"PER",   "PER",   "O", "LABEL_3", "X-PER",
                                         "B_PER", "I_PER", "o", ""};
    static const struct expected_entity expected[] = {
        {"PER", 0, 1},   {"LABEL_3", 3, 3}, {"X-PER", 4, 4}, {"B_PER", 5, 5},
        {"I_PER", 6, 6}, {"o", 7, 7},       {"_", 8, 8}};
    expect_entities(labels, 9, expected, 7);
}

// Whichever allocation fails, nothing is lost.
static void running_out_of_memory_is_an_error(void **state) {
    struct berth_error error = {0};
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n;
    for (n = 1; status != BERTH_OK; n++) {
        memory_fail_at(n, 0);
        status = score_one("B-LOC", NULL, &error);
        memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
    }
    assert_true(n > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_seqeval_to_the_last_digit),
        cmocka_unit_test(refuses_what_a_scheme_lacks),
        cmocka_unit_test(finds_entities_of_a_sentence),
        cmocka_unit_test(ends_entities_by_the_letters_of_bilou),
        cmocka_unit_test(takes_a_label_without_a_letter_as_it_is),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("entities", tests, NULL, NULL);
}
