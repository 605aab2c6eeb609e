// SPDX-License-Identifier: Apache-2.0
// Windows by Google's rules: every field against a Python implementation, on a small set and (as
// checksums) on the real files; the same with any number of threads; messages for bad input.
#include "core/harness.h"
#include "data/squad_fixture.h"

#include <stdio.h>
#include <string.h>

static void equals_the_python_rules(void **state) {
    json *golden = fixture_json(fixture_source("tests/data/features.golden.json"));
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct json_walk walk = {.object = golden};
    int cases = 0;
    while (json_walk_next(&walk)) {
        char path[64], name[8];
        int training;
        long long lengths[3];
        assert_int_equal(sscanf(walk.key, "%7s %d %lld %lld %lld", name, &training, &lengths[0],
                                &lengths[1], &lengths[2]),
                         5);
        snprintf(path, sizeof path, "tests/data/squad/%s.json", name);
        struct squad_dataset dataset = fixture_dataset(fixture_source(path));
        const int64_t sizes[3] = {lengths[0], lengths[1], lengths[2]};
        struct squad_feature_set set = fixture_features(&dataset, tokenizer, training, sizes, 1);
        assert_int_equal(set.count, json_length(walk.value));
        for (size_t i = 0; i < set.count; i++) {
            fixture_compare_feature(json_at(walk.value, i), &dataset, &set, i);
        }
        squad_feature_set_done(&set);
        squad_dataset_done(&dataset);
        cases++;
    }
    assert_int_equal(cases, 3);
    tokenizer_close(tokenizer);
    json_free(golden);
}

// --- real data ----------------------------------------------------------------------------------

static void check_real(const char *name, const json *golden, const struct tokenizer *tokenizer) {
    static const int64_t lengths[3] = {384, 128, 64};
    char path[64];
    snprintf(path, sizeof path, "squad/%s.json", name);
    struct squad_dataset dataset = fixture_dataset(data_path(path));
    for (int threads = 1; threads <= 3; threads += 2) {
        struct squad_feature_set set =
            fixture_features(&dataset, tokenizer, strncmp(name, "train", 5) == 0, lengths, threads);
        assert_int_equal(dataset.count, json_as_integer(json_member(golden, "examples")));
        assert_int_equal(set.count, json_as_integer(json_member(golden, "features")));
        assert_int_equal(set.token_count, json_as_integer(json_member(golden, "tokens")));
        assert_int_equal(set.cls_labelled, json_as_integer(json_member(golden, "cls_labelled")));
        assert_int_equal(set.skipped_examples, 0);
        assert_int_equal(fixture_checksum(&dataset, &set),
                         json_as_integer(json_member(golden, "checksum")));
        squad_feature_set_done(&set);
    }
    squad_dataset_done(&dataset);
}

static void equals_the_python_rules_on_real_data(void **state) {
    if (!fixture_has_data()) {
        skip();
    }
    json *golden = fixture_json(fixture_source("tests/data/real.golden.json"));
    struct tokenizer *tokenizer = fixture_tokenizer(data_path("vocab/bert-base-uncased-vocab.txt"));
    struct json_walk walk = {.object = golden};
    assert_int_equal(json_length(golden), 4);
    while (json_walk_next(&walk)) {
        check_real(walk.key, walk.value, tokenizer);
    }
    tokenizer_close(tokenizer);
    json_free(golden);
}

// --- single rules and errors --------------------------------------------------------------------

#define RECORD(context, answers)                                                                   \
    "[{\"id\":\"q\",\"question\":\"old cakes\",\"context\":\"" context "\",\"answers\":[" answers  \
    "]}]"

struct warnings {
    int count;
    char last[512];
};

static void note(void *context, const struct berth_record *record) {
    struct warnings *warnings = context;
    warnings->count += record->kind == BERTH_WARNING;
    snprintf(warnings->last, sizeof warnings->last, "%s", record->text);
}

static enum berth_status build_with(struct tokenizer *tokenizer, const char *text,
                                    struct squad_feature_options options, struct warnings *warnings,
                                    struct squad_feature_set *set, struct berth_error *error) {
    struct squad_dataset dataset = fixture_dataset_of(text);
    struct berth_log log = {warnings == NULL ? NULL : note, warnings};
    enum berth_status status =
        squad_features_build(&dataset, tokenizer, &options, &log, set, error);
    squad_dataset_done(&dataset);
    tokenizer_close(tokenizer);
    return status;
}

static enum berth_status build(const char *text, struct squad_feature_options options,
                               struct warnings *warnings, struct squad_feature_set *set,
                               struct berth_error *error) {
    return build_with(fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt")), text,
                      options, warnings, set, error);
}

static void expect_failure(const char *text, struct squad_feature_options options,
                           enum berth_status status, const char *says) {
    struct squad_feature_set set;
    struct berth_error error = {0};
    assert_int_equal(build(text, options, NULL, &set, &error), status);
    if (strstr(error.message, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    }
    assert_null(set.features);
}

static const struct squad_feature_options plain = {
    .max_length = 64, .doc_stride = 16, .max_query_length = 16, .training = 1};

static void wants_one_training_answer(void **state) {
    expect_failure(RECORD("a b", "{\"text\":\"a\",\"answer_start\":0},"
                                 "{\"text\":\"b\",\"answer_start\":2}"),
                   plain, BERTH_BAD_DATA,
                   "set.json: question \"q\" has 2 answers; training needs exactly one");
    expect_failure(RECORD("a b", ""), plain, BERTH_BAD_DATA, "question \"q\" has 0 answers");
    expect_failure(RECORD("a b", "{\"text\":\"\",\"answer_start\":0}"), plain, BERTH_BAD_DATA,
                   "question \"q\" has an empty answer");
}

// As in the original: an answer that is not in the words from its position is skipped; a position
// within the answer's words is accepted.
static void skips_misplaced_answers(void **state) {
    static const struct {
        const char *text;
        size_t skipped;
    } cases[] = {
        {RECORD("an old bridge", "{\"text\":\"bridge\",\"answer_start\":0}"), 1},
        {RECORD("an old bridge", "{\"text\":\"bridge\",\"answer_start\":13}"), 1},
        {RECORD("an old bridge", "{\"text\":\"bridge\",\"answer_start\":99}"), 1},
        {RECORD("an old bridge", "{\"text\":\"bridge\",\"answer_start\":-1}"), 1},
        {RECORD("an old bridge", "{\"text\":\"bridge\",\"answer_start\":9223372036854775807}"), 1},
        {RECORD("an old bridge", "{\"text\":\"nowhere\",\"answer_start\":3}"), 1},
        {RECORD("an old bridge", "{\"text\":\"bridge\",\"answer_start\":6}"), 0},
        {RECORD("an old bridge", "{\"text\":\"bridge\",\"answer_start\":9}"), 0}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct squad_feature_options options = plain;
        options.rules = i % 2 == 0 ? SQUAD_RULES_GOOGLE : SQUAD_RULES_KERAS;
        struct squad_feature_set set;
        struct berth_error error = {0};
        struct warnings warnings = {0};
        assert_int_equal(build(cases[i / 2].text, options, &warnings, &set, &error), BERTH_OK);
        const size_t skipped = i % 2 == 0 ? cases[i / 2].skipped : 1;
        assert_int_equal(set.skipped_examples, skipped);
        assert_int_equal(set.count, 1 - skipped);
        assert_int_equal(warnings.count, skipped == 0 ? 0 : i % 2 == 0 ? 2 : 1);
        squad_feature_set_done(&set);
    }
}

static void skips_answers_with_other_blanks(void **state) {
    static const char *const texts[] = {
        RECORD("an old\\u00a0bridge", "{\"text\":\"old\\u00a0bridge\",\"answer_start\":3}"),
        RECORD("  old", "{\"text\":\" old\",\"answer_start\":1}")};
    for (size_t i = 0; i < 2; i++) {
        struct squad_feature_set set;
        struct berth_error error = {0};
        struct warnings warnings = {0};
        assert_int_equal(build(texts[i], plain, &warnings, &set, &error), BERTH_OK);
        assert_int_equal(set.count, 0);
        assert_int_equal(set.skipped_examples, 1);
        assert_int_equal(warnings.count, 2);
        assert_non_null(strstr(warnings.last, "set.json: skipping question \"q\""));
        squad_feature_set_done(&set);
    }
}

// If an answer occurs several times in one word, the occurrence at answer_start is labelled; by
// Google's rules, or if no token begins at answer_start, the first one.
static void labels_the_answer_at_answer_start(void **state) {
    static const struct {
        const char *text;
        int32_t token;
    } cases[] = {
        {RECORD("\u6771\u4eac\u6771\u4eac\u6771", "{\"text\":\"\u6771\",\"answer_start\":2}"), 2},
        {RECORD("\u6771\u4eac\u6771\u4eac\u6771", "{\"text\":\"\u6771\",\"answer_start\":0}"), 0},
        {RECORD("\u6771\u4eac\u6771\u4eac\u6771", "{\"text\":\"\u6771\",\"answer_start\":4}"), 4},
        {RECORD("\u6771\u4eac\u6771\u4eac\u6771", "{\"text\":\"\u6771\",\"answer_start\":3}"), 0}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const int google = i % 2 == 1;
        const struct tokenizer_options rules = {
            .rules = google ? TOKENIZER_GOOGLE : TOKENIZER_HUGGINGFACE, .lower_case = 1};
        struct tokenizer *tokenizer = NULL;
        struct squad_feature_set set;
        struct berth_error error = {0};
        assert_int_equal(tokenizer_open(fixture_source("tests/data/squad/vocab.txt"), &rules,
                                        &tokenizer, &error),
                         BERTH_OK);
        assert_int_equal(build_with(tokenizer, cases[i / 2].text, plain, NULL, &set, &error),
                         BERTH_OK);
        assert_int_equal(set.count, 1);
        const int32_t expected = set.features[0].document_begin + (google ? 0 : cases[i / 2].token);
        assert_int_equal(set.features[0].start, expected);
        assert_int_equal(set.features[0].end, expected);
        squad_feature_set_done(&set);
    }
}

static void needs_room_for_the_document(void **state) {
    struct squad_feature_options options = plain;
    const char *text = RECORD("a b", "{\"text\":\"a\",\"answer_start\":0}");
    options.max_length = 6;
    expect_failure(
        text, options, BERTH_USAGE,
        "set.json: question \"q\": its 3 tokens and 3 special ones leave no room for the "
        "document in max_seq_length 6");
    options.max_length = 3;
    expect_failure(text, options, BERTH_USAGE, "max_seq_length: expected 4 to");
    options = plain;
    options.doc_stride = 0;
    expect_failure(text, options, BERTH_USAGE, "doc_stride: expected 1 to");
    options = plain;
    options.max_query_length = INT64_MAX;
    expect_failure(text, options, BERTH_USAGE, "found 9223372036854775807");
}

static void a_document_without_tokens_has_no_windows(void **state) {
    struct squad_feature_options options = plain;
    options.training = 0;
    static const char *const contexts[] = {RECORD("", ""), RECORD(" \\t ", ""),
                                           RECORD("\\u00a0", "")};
    for (size_t i = 0; i < 3; i++) {
        struct squad_feature_set set;
        struct berth_error error = {0};
        assert_int_equal(build(contexts[i], options, NULL, &set, &error), BERTH_OK);
        assert_int_equal(set.count, 0);
        squad_feature_set_done(&set);
    }
}

static void survives_missing_memory(void **state) {
    fixture_survives_missing_memory(fixture_source("tests/data/squad/v1.json"), &plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_python_rules),
        cmocka_unit_test(equals_the_python_rules_on_real_data),
        cmocka_unit_test(wants_one_training_answer),
        cmocka_unit_test(skips_misplaced_answers),
        cmocka_unit_test(skips_answers_with_other_blanks),
        cmocka_unit_test(labels_the_answer_at_answer_start),
        cmocka_unit_test(needs_room_for_the_document),
        cmocka_unit_test(a_document_without_tokens_has_no_windows),
        cmocka_unit_test(survives_missing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
