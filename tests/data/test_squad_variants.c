// SPDX-License-Identifier: Apache-2.0
// The other rule sets: Keras's features and BingBertSquad's choice of windows, every field against
// a Python implementation on small sets and (as checksums) on the real files.
#include "core/harness.h"
#include "data/squad_fixture.h"

#include <stdio.h>
#include <string.h>

// A case's name: "keras several 1 128 1 1 0 0": rules, file, training, lengths, all answers,
// end exclusive.
struct variant {
    char rules[8], file[16];
    struct squad_feature_options options;
};

static struct variant variant_of(const char *key) {
    struct variant variant;
    long long lengths[3];
    int training, all, exclusive;
    assert_int_equal(sscanf(key, "%7s %15s %d %lld %lld %lld %d %d", variant.rules, variant.file,
                            &training, &lengths[0], &lengths[1], &lengths[2], &all, &exclusive),
                     8);
    int keras = strcmp(variant.rules, "keras") == 0;
    variant.options =
        (struct squad_feature_options){.max_length = lengths[0],
                                       .doc_stride = lengths[1],
                                       .max_query_length = lengths[2],
                                       .training = training,
                                       .rules = keras ? SQUAD_RULES_KERAS : SQUAD_RULES_GOOGLE,
                                       .filter_by_words = !keras,
                                       .all_answers = all,
                                       .end_exclusive = exclusive};
    return variant;
}

static struct squad_feature_set build(const struct squad_dataset *dataset,
                                      const struct tokenizer *tokenizer,
                                      const struct squad_feature_options *options, int threads) {
    struct squad_feature_set set;
    struct berth_error error = {0};
    struct berth_log log = {0};
    struct squad_feature_options own = *options;
    own.threads = threads;
    if (squad_features_build(dataset, tokenizer, &own, &log, &set, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return set;
}

// --- small sets ---------------------------------------------------------------------------------

static void equals_the_python_rules(void **state) {
    json *golden = fixture_json(fixture_source("tests/data/variants.golden.json"));
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct json_walk walk = {.object = golden};
    int cases = 0;
    while (json_walk_next(&walk)) {
        struct variant variant = variant_of(walk.key);
        char path[64];
        snprintf(path, sizeof path, "tests/data/squad/%s.json", variant.file);
        struct squad_dataset dataset = fixture_dataset(fixture_source(path));
        struct squad_feature_set set = build(&dataset, tokenizer, &variant.options, 1);
        const json *rows = json_member(walk.value, "features");
        assert_int_equal(set.count, json_length(rows));
        assert_true(set.count > 0);
        assert_int_equal(set.skipped_examples,
                         json_as_integer(json_member(walk.value, "left_out")));
        for (size_t i = 0; i < set.count; i++) {
            fixture_compare_feature(json_at(rows, i), &dataset, &set, i);
        }
        squad_feature_set_done(&set);
        squad_dataset_done(&dataset);
        cases++;
    }
    assert_int_equal(cases, 8);
    tokenizer_close(tokenizer);
    json_free(golden);
}

// Words are the tokens' bytes in the unchanged context; labels have the original's shift.
static void tokens_know_their_offsets_in_the_context(void **state) {
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct squad_dataset dataset = fixture_dataset(fixture_source("tests/data/squad/several.json"));
    struct squad_feature_options options = variant_of("keras several 1 128 1 1 1 0").options;
    struct squad_feature_set set = build(&dataset, tokenizer, &options, 1);
    int seen = 0;
    for (size_t i = 0; i < set.count; i++) {
        const struct squad_feature *feature = &set.features[i];
        const struct squad_example *example = &dataset.examples[feature->example];
        const char *id = example->id;
        size_t base = set.example_words[feature->example];
        uint32_t from = set.word_begin[base + (size_t)set.words[feature->first + feature->start]];
        uint32_t to = set.word_end[base + (size_t)set.words[feature->first + feature->end]];
        // "The ferry ... 6:30,": with one blank fewer the answer's position is one character late.
        if (strcmp(id, "k1") == 0 && feature->answer == 0) {
            assert_int_equal(to - from, strlen(":30,"));
            assert_memory_equal(example->context + from, ":30,", 4);
            seen++;
        }
    }
    assert_int_equal(seen, 1);
    squad_feature_set_done(&set);
    squad_dataset_done(&dataset);
    tokenizer_close(tokenizer);
}

// Twelve words without tokens: the answer is word 12 and token 0, so that the windows from tokens
// 4, 8 and 12 on are kept, all after it.
static void labels_before_the_window_become_0(void **state) {
    char text[1024] = "[{\"id\":\"q\",\"question\":\"the\",\"context\":\"",
         *at = text + strlen(text);
    for (int i = 0; i < 12; i++) {
        at += sprintf(at, "\u200b ");
    }
    at += sprintf(at, "old");
    for (int i = 0; i < 20; i++) {
        at += sprintf(at, " the");
    }
    sprintf(at, "\",\"answers\":[{\"text\":\"old\",\"answer_start\":24}]}]");
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct squad_dataset dataset = fixture_dataset_of(text);
    struct squad_feature_options options = variant_of("words own 1 16 4 8 0 0").options;
    struct squad_feature_set set = build(&dataset, tokenizer, &options, 1);
    assert_int_equal(set.count, 3);
    for (size_t i = 0; i < set.count; i++) {
        assert_int_equal(set.features[i].document_start, 4 * (int)(i + 1));
        assert_int_equal(set.features[i].start, 0);
        assert_int_equal(set.features[i].end, 0);
    }
    squad_feature_set_done(&set);
    squad_dataset_done(&dataset);
    tokenizer_close(tokenizer);
}

// --- real data ----------------------------------------------------------------------------------

static void equals_the_python_rules_on_real_data(void **state) {
    if (!fixture_has_data()) {
        skip();
    }
    json *golden = fixture_json(fixture_source("tests/data/variants.real.golden.json"));
    struct tokenizer *tokenizer = fixture_tokenizer(data_path("vocab/bert-base-uncased-vocab.txt"));
    struct json_walk walk = {.object = golden};
    assert_int_equal(json_length(golden), 6);
    while (json_walk_next(&walk)) {
        struct variant variant = variant_of(walk.key);
        char path[64];
        snprintf(path, sizeof path, "squad/%s.json", variant.file);
        struct squad_dataset dataset = fixture_dataset(data_path(path));
        for (int threads = 1; threads <= 3; threads += 2) {
            struct squad_feature_set set = build(&dataset, tokenizer, &variant.options, threads);
            assert_int_equal(set.count, json_as_integer(json_member(walk.value, "count")));
            assert_int_equal(set.skipped_examples,
                             json_as_integer(json_member(walk.value, "left_out")));
            assert_int_equal(fixture_checksum(&dataset, &set),
                             json_as_integer(json_member(walk.value, "checksum")));
            squad_feature_set_done(&set);
        }
        squad_dataset_done(&dataset);
    }
    tokenizer_close(tokenizer);
    json_free(golden);
}

// --- errors -------------------------------------------------------------------------------------

static void expect_failure(const char *text, struct squad_feature_options options,
                           enum berth_status status, const char *says) {
    struct squad_dataset dataset = fixture_dataset_of(text);
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct squad_feature_set set;
    struct berth_error error = {0};
    struct berth_log log = {0};
    assert_int_equal(squad_features_build(&dataset, tokenizer, &options, &log, &set, &error),
                     status);
    if (strstr(error.message, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    }
    assert_null(set.features);
    squad_dataset_done(&dataset);
    tokenizer_close(tokenizer);
}

static void keras_needs_answers_that_exist(void **state) {
    struct squad_feature_options options = variant_of("keras several 1 128 1 1 0 0").options;
    expect_failure("[{\"id\":\"q\",\"question\":\"x\",\"context\":\"a b\",\"answers\":[]}]",
                   options, BERTH_BAD_DATA,
                   "question \"q\" has no answer; training needs at least one");
    expect_failure("{\"data\":[{\"paragraphs\":[{\"context\":\"a b\",\"qas\":[{\"id\":\"q\","
                   "\"question\":\"x\",\"is_impossible\":true,\"answers\":[]}]}]}]}",
                   options, BERTH_CONFIG, "question \"q\" is impossible (SQuAD 2.0)");
    options.filter_by_words = 1;
    expect_failure("[{\"id\":\"q\",\"question\":\"x\",\"context\":\"a b\",\"answers\":[]}]",
                   options, BERTH_CONFIG, "has no windows that window_filter words");
}

static void survives_missing_memory(void **state) {
    struct squad_feature_options options = variant_of("keras several 1 128 1 1 1 0").options;
    fixture_survives_missing_memory(fixture_source("tests/data/squad/several.json"), &options);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_python_rules),
        cmocka_unit_test(tokens_know_their_offsets_in_the_context),
        cmocka_unit_test(labels_before_the_window_become_0),
        cmocka_unit_test(equals_the_python_rules_on_real_data),
        cmocka_unit_test(keras_needs_answers_that_exist),
        cmocka_unit_test(survives_missing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
