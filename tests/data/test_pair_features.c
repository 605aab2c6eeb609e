// SPDX-License-Identifier: Apache-2.0
// Inputs of texts and pairs: ids and types against the tokenizers package and, with Google's
// truncation rule, a copy of it, on made-up texts and (as checksums) on MRPC; the same with any
// number of threads; running out of memory.
#include "core/harness.h"
#include "core/memory.h"
#include "data/pairs/glue_tasks.h"
#include "data/pairs/pair_features.h"
#include "data/squad_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json *golden;

static int open_golden(void **state) {
    golden = fixture_json(fixture_source("tests/data/pair_features.golden.json"));
    return 0;
}

static int close_golden(void **state) {
    json_free(golden);
    return 0;
}

// Tokenizers with the two rules for pairs.
struct tokenizers {
    struct tokenizer *by_rule[2]; // [is Google's]
};

static struct tokenizers open_both(const char *vocab_path) {
    struct tokenizers both;
    for (int google = 0; google < 2; google++) {
        const struct tokenizer_options options = {.lower_case = 1, .google_pairs = google};
        assert_int_equal(tokenizer_open(vocab_path, &options, &both.by_rule[google], NULL),
                         BERTH_OK);
    }
    return both;
}

static void close_both(struct tokenizers *both) {
    tokenizer_close(both->by_rule[0]);
    tokenizer_close(both->by_rule[1]);
}

static const struct tokenizer *tokenizer_of(const struct tokenizers *both, const json *row) {
    return both->by_rule[json_truth(json_member(row, "google"))];
}

static struct pair_feature_set build(const struct pair_dataset *dataset,
                                     const struct tokenizer *tokenizer, int64_t longest,
                                     int threads) {
    struct pair_feature_set set;
    struct berth_error error = {0};
    if (pair_features_build(dataset, tokenizer, longest, threads, &set, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return set;
}

static void compare_case(const json *row, const struct tokenizer *tokenizer) {
    const json *ids = json_member(row, "ids"), *types = json_member(row, "types");
    struct pair_example example = {.text = json_text(json_member(row, "text")),
                                   .pair = json_text(json_member(row, "pair")),
                                   .label = 3,
                                   .value = 2.5};
    struct pair_dataset dataset = {.examples = &example, .count = 1};
    int64_t longest = json_as_integer(json_member(row, "max_seq_length"));
    struct pair_feature_set set = build(&dataset, tokenizer, longest, 1);
    const struct pair_feature *feature = &set.features[0];
    int32_t second = 0;
    assert_int_equal(set.count, 1);
    assert_int_equal(set.token_count, json_length(ids));
    assert_int_equal(feature->length, json_length(ids));
    assert_int_equal(feature->label, 3);
    assert_true(feature->value == 2.5f);
    for (size_t i = 0; i < set.token_count; i++) {
        assert_int_equal(set.ids[i], json_as_integer(json_at(ids, i)));
        assert_int_equal(set.type_ids[i], json_as_integer(json_at(types, i)));
        second += set.type_ids[i] == 0;
    }
    assert_int_equal(feature->second, second);
    pair_feature_set_done(&set);
    assert_null(set.features);
}

static void equals_the_reference(void **state) {
    struct tokenizers both = open_both(fixture_source("tests/data/squad/vocab.txt"));
    const json *cases = json_member(golden, "cases");
    assert_int_equal(json_length(cases), 2 * 84);
    for (size_t i = 0; i < json_length(cases); i++) {
        compare_case(json_at(cases, i), tokenizer_of(&both, json_at(cases, i)));
    }
    close_both(&both);
}

// --- cutting ------------------------------------------------------------------------------------

// Google's rule takes tokens one at a time from the longer text, of equally long ones from the
// second. Where both texts lose some, the other rule leaves the odd token to the second text unless
// the first is longer.
static void check_cut(const struct tokenizers *both, size_t a, size_t b, size_t room) {
    size_t x = a, y = b;
    while (x + y > room) {
        (*(x > y ? &x : &y))--;
    }
    for (int google = 0; google < 2; google++) {
        const int moves = !google && x == y + 1 && x + y < a + b && a <= b;
        size_t first = a, second = b;
        pair_features_truncate(both->by_rule[google], &first, &second, room);
        assert_int_equal(first, moves ? y : x);
        assert_int_equal(second, moves ? x : y);
    }
}

static void cuts_token_by_token(void **state) {
    struct tokenizers both = open_both(fixture_source("tests/data/squad/vocab.txt"));
    for (size_t room = 1; room < 14; room++) {
        for (size_t a = 0; a < 16; a++) {
            for (size_t b = 0; b < 16; b++) {
                check_cut(&both, a, b, room);
            }
        }
    }
    close_both(&both);
}

static void counts_what_it_cuts(void **state) {
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct pair_example examples[] = {{.text = "a b c", .pair = "a b c", .value = NAN},
                                      {.text = "a b c", .pair = "a b c d", .value = NAN},
                                      {.text = "a b c d e f g", .value = NAN},
                                      {.text = "a b c d e f g h", .value = NAN}};
    struct pair_dataset dataset = {.examples = examples, .count = 4};
    struct pair_feature_set set = build(&dataset, tokenizer, 9, 2);
    assert_int_equal(set.truncated, 2);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(set.features[i].first, i * 9);
        assert_int_equal(set.features[i].length, 9);
        assert_true(isnan(set.features[i].value));
    }
    assert_int_equal(set.features[3].second, 9);
    pair_feature_set_done(&set);
    tokenizer_close(tokenizer);
}

static void refuses_lengths_without_room(void **state) {
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct pair_example example = {.text = "a"};
    struct pair_dataset dataset = {.examples = &example, .count = 1};
    static const int64_t lengths[] = {3, -1, (1 << 24) + 1};
    for (size_t i = 0; i < 3; i++) {
        struct pair_feature_set set;
        struct berth_error error = {0};
        assert_int_equal(pair_features_build(&dataset, tokenizer, lengths[i], 1, &set, &error),
                         BERTH_USAGE);
        assert_non_null(strstr(error.message, "max_seq_length: expected "));
        assert_null(set.features);
    }
    tokenizer_close(tokenizer);
}

static void needs_special_tokens(void **state) {
    static const char vocab[] = "[UNK]\n[CLS]\na\n";
    struct tokenizer_options options = {0};
    struct tokenizer *tokenizer;
    struct pair_feature_set set;
    struct pair_dataset dataset = {0};
    struct berth_error error = {0};
    assert_int_equal(
        tokenizer_open_memory("v", vocab, sizeof vocab - 1, &options, &tokenizer, NULL), BERTH_OK);
    assert_int_equal(pair_features_build(&dataset, tokenizer, 8, 1, &set, &error), BERTH_BAD_DATA);
    assert_string_equal(error.message,
                        "the vocabulary has no [SEP]; features need [CLS] and [SEP]");
    tokenizer_close(tokenizer);
}

// --- real data ----------------------------------------------------------------------------------

static uint32_t checksum(const struct pair_feature_set *set) {
    uint32_t crc = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct pair_feature *feature = &set->features[i];
        size_t length = (size_t)feature->length;
        crc = fixture_crc(crc, &feature->label, sizeof feature->label);
        crc = fixture_crc(crc, set->ids + feature->first, length * sizeof *set->ids);
        crc = fixture_crc(crc, set->type_ids + feature->first, length);
    }
    return crc;
}

static void check_real(const json *row, const struct tokenizer *tokenizer) {
    int train = strcmp(json_text(json_member(row, "split")), "train") == 0;
    const struct glue_task *task;
    struct pair_settings settings;
    struct pair_dataset dataset;
    glue_task_find("mrpc", &task, NULL);
    glue_task_settings(task, train ? GLUE_TRAIN : GLUE_TEST, NULL, &settings, NULL);
    assert_int_equal(pairs_read(data_path(train ? "mrpc/msr_paraphrase_train.txt"
                                                : "mrpc/msr_paraphrase_test.txt"),
                                &settings, &dataset, NULL),
                     BERTH_OK);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct pair_feature_set set = build(
            &dataset, tokenizer, json_as_integer(json_member(row, "max_seq_length")), threads);
        assert_int_equal(set.count, json_as_integer(json_member(row, "count")));
        assert_int_equal(set.token_count, json_as_integer(json_member(row, "tokens")));
        assert_int_equal(checksum(&set), json_as_integer(json_member(row, "checksum")));
        pair_feature_set_done(&set);
    }
    pair_dataset_done(&dataset);
}

static void equals_the_reference_on_mrpc(void **state) {
    if (!file_exists(data_path("mrpc/msr_paraphrase_train.txt"))) {
        printf("skipped: no real data at %s (set BERTH_DATA)\n", data_path("mrpc"));
        skip();
    }
    struct tokenizers both = open_both(data_path("vocab/bert-base-uncased-vocab.txt"));
    const json *rows = json_member(golden, "mrpc");
    assert_int_equal(json_length(rows), 2 * 4);
    for (size_t i = 0; i < json_length(rows); i++) {
        check_real(json_at(rows, i), tokenizer_of(&both, json_at(rows, i)));
    }
    close_both(&both);
}

static void survives_missing_memory(void **state) {
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct pair_example examples[] = {{.text = "the old town", .pair = "a b c"},
                                      {.text = "the town"}};
    struct pair_dataset dataset = {.examples = examples, .count = 2};
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n = 0;
    while (status == BERTH_NO_MEMORY) {
        struct pair_feature_set set;
        struct berth_error error = {0};
        memory_fail_at(++n, 0);
        status = pair_features_build(&dataset, tokenizer, 8, 1, &set, &error);
        assert_true((status == BERTH_OK) == (set.features != NULL));
        assert_true((status == BERTH_OK) == (error.message[0] == '\0'));
        pair_feature_set_done(&set);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    assert_true(n > 7);
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference),    cmocka_unit_test(cuts_token_by_token),
        cmocka_unit_test(counts_what_it_cuts),     cmocka_unit_test(refuses_lengths_without_room),
        cmocka_unit_test(needs_special_tokens),    cmocka_unit_test(equals_the_reference_on_mrpc),
        cmocka_unit_test(survives_missing_memory),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
