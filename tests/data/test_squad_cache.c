// SPDX-License-Identifier: Apache-2.0
// The feature cache returns the features that were written, depends on its key, and refuses
// truncated, changed and inconsistent files; writing survives a failing disk.
#include "core/harness.h"
#include "core/memory.h"
#include "data/squad/squad_cache.h"
#include "data/squad_fixture.h"
#include "format/checksum/crc32c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME scratch("cache")

// A data set, its features and their key.
struct kept {
    char *bytes;
    size_t length;
    struct squad_dataset dataset;
    struct tokenizer *tokenizer;
    struct squad_feature_options options;
    struct squad_feature_set set;
    struct squad_cache_key key;
};

static const struct squad_feature_options google = {
    .max_seq_length = 32, .doc_stride = 8, .max_query_length = 6};

static struct kept keep(const char *name, struct squad_feature_options options) {
    struct kept kept = {.options = options};
    char path[64];
    struct berth_error error = {0};
    struct berth_log log = {0};
    snprintf(path, sizeof path, "tests/data/squad/%s.json", name);
    assert_int_equal(file_read(fixture_source(path), 1 << 22, &kept.bytes, &kept.length, &error),
                     BERTH_OK);
    kept.dataset = fixture_dataset(fixture_source(path));
    kept.tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    assert_int_equal(
        squad_features_build(&kept.dataset, kept.tokenizer, &options, &log, &kept.set, &error),
        BERTH_OK);
    const struct squad_cache_inputs inputs = {kept.bytes, kept.length, 0, kept.tokenizer, &options};
    assert_int_equal(squad_cache_key_of(&inputs, &kept.key, &error), BERTH_OK);
    return kept;
}

static void kept_done(struct kept *kept) {
    squad_feature_set_done(&kept->set);
    squad_dataset_done(&kept->dataset);
    tokenizer_close(kept->tokenizer);
    memory_free(kept->bytes);
}

static void write_file(const struct kept *kept) {
    struct berth_error error = {0};
    if (squad_cache_write(FILE_NAME, &kept->key, &kept->dataset, &kept->set, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

// The cache file of `kept`, in memory.
static char *file_of(const struct kept *kept, size_t *length) {
    char *bytes;
    write_file(kept);
    assert_int_equal(file_read(FILE_NAME, 1 << 24, &bytes, length, NULL), BERTH_OK);
    return bytes;
}

static enum berth_status parse(const struct kept *kept, const char *bytes, size_t length,
                               struct squad_feature_set *set, struct berth_error *error) {
    int64_t examples;
    const struct squad_cache_file file = {"file", bytes, length};
    return squad_cache_parse(&file, &kept->key, kept->options.training ? NULL : &kept->dataset, set,
                             &examples, error);
}

// --- the same features ---------------------------------------------------------------------------

static void expect_same_feature(const struct squad_feature *found,
                                const struct squad_feature *wanted) {
    assert_int_equal(found->unique_id, wanted->unique_id);
    assert_int_equal(found->example, wanted->example);
    assert_int_equal(found->first, wanted->first);
    assert_int_equal(found->length, wanted->length);
    assert_int_equal(found->document_begin, wanted->document_begin);
    assert_int_equal(found->document_length, wanted->document_length);
    assert_int_equal(found->document_start, wanted->document_start);
    assert_int_equal(found->start, wanted->start);
    assert_int_equal(found->end, wanted->end);
    assert_int_equal(found->answer, wanted->answer);
}

static void expect_same(const struct kept *kept, const struct squad_feature_set *set) {
    const struct squad_feature_set *wanted = &kept->set;
    assert_int_equal(set->count, wanted->count);
    assert_int_equal(set->token_count, wanted->token_count);
    assert_int_equal(set->cls_labelled, wanted->cls_labelled);
    assert_int_equal(set->skipped_examples, wanted->skipped_examples);
    assert_int_equal(set->rules, wanted->rules);
    assert_int_equal(set->end_shift, wanted->end_shift);
    for (size_t i = 0; i < set->count; i++) {
        expect_same_feature(&set->features[i], &wanted->features[i]);
    }
    assert_memory_equal(set->ids, wanted->ids, set->token_count * sizeof *set->ids);
    assert_memory_equal(set->type_ids, wanted->type_ids, set->token_count);
    if (kept->options.training) {
        assert_null(set->words);
        return;
    }
    assert_memory_equal(set->words, wanted->words, set->token_count * sizeof *set->words);
    assert_memory_equal(set->max_context, wanted->max_context, set->token_count);
    for (size_t i = 0; i < kept->dataset.count; i++) {
        assert_int_equal(set->example_words[i], wanted->example_words[i]);
    }
    for (size_t i = 0; i < set->count; i++) {
        const struct squad_feature *feature = &set->features[i];
        for (int32_t row = 0; row < feature->document_length; row++) {
            size_t at = (size_t)feature->first + (size_t)(feature->document_begin + row);
            size_t word = set->example_words[feature->example] + (size_t)set->words[at];
            assert_int_equal(set->word_begin[word], wanted->word_begin[word]);
            assert_int_equal(set->word_end[word], wanted->word_end[word]);
        }
    }
}

static void check_round_trip(const char *name, struct squad_feature_options options) {
    struct kept kept = keep(name, options);
    struct squad_feature_set set;
    struct berth_error error = {0};
    int64_t examples;
    assert_true(kept.set.count > 0);
    write_file(&kept);
    if (squad_cache_read(FILE_NAME, &kept.key, options.training ? NULL : &kept.dataset, &set,
                         &examples, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(examples, kept.dataset.count);
    expect_same(&kept, &set);
    squad_feature_set_done(&set);
    kept_done(&kept);
}

static void gives_back_what_was_put_in(void **state) {
    struct squad_feature_options options = google;
    check_round_trip("v1", options);
    options.training = 1;
    check_round_trip("v2", options);
    options.filter_by_words = 1;
    check_round_trip("v1", options);
    options = (struct squad_feature_options){.max_seq_length = 128,
                                             .doc_stride = 1,
                                             .max_query_length = 1,
                                             .rules = SQUAD_RULES_KERAS,
                                             .end_exclusive = 1};
    check_round_trip("several", options);
    options.training = options.all_answers = 1;
    check_round_trip("several", options);
}

// --- keys ----------------------------------------------------------------------------------------

static void expect_other_key(const struct kept *kept, const char *bytes, int64_t limit,
                             const struct tokenizer *tokenizer,
                             struct squad_feature_options options) {
    const struct squad_cache_inputs inputs = {bytes, kept->length, limit, tokenizer, &options};
    struct squad_cache_key key;
    assert_int_equal(squad_cache_key_of(&inputs, &key, NULL), BERTH_OK);
    assert_string_not_equal(key.hex, kept->key.hex);
}

static struct tokenizer *other_tokenizer(const char *vocab, struct tokenizer_options options) {
    struct tokenizer *tokenizer;
    assert_int_equal(
        tokenizer_open_memory("vocab", vocab, strlen(vocab), &options, &tokenizer, NULL), BERTH_OK);
    return tokenizer;
}

// A tokenizer with one type gives it to built features and to those of a file, whoever wrote that.
static void types_are_the_tokenizers(void **state) {
    (void)state;
    struct kept kept = keep("v1", google);
    struct squad_feature_set read;
    struct berth_log log = {0};
    int64_t examples;
    char *vocab;
    size_t length, ones = 0;
    write_file(&kept);
    assert_int_equal(
        file_read(fixture_source("tests/data/squad/vocab.txt"), 1 << 20, &vocab, &length, NULL),
        BERTH_OK);
    struct tokenizer_options rules = *tokenizer_rules_of(kept.tokenizer);
    rules.one_type = 1;
    struct tokenizer *tokenizer = other_tokenizer(vocab, rules);
    const struct squad_cache_inputs inputs = {kept.bytes, kept.length, 0, tokenizer, &google};
    assert_int_equal(squad_cache_key_of(&inputs, &kept.key, NULL), BERTH_OK);
    assert_int_equal(squad_cache_read(FILE_NAME, &kept.key, &kept.dataset, &read, &examples, NULL),
                     BERTH_OK);
    squad_feature_set_done(&kept.set);
    assert_int_equal(squad_features_build(&kept.dataset, tokenizer, &google, &log, &kept.set, NULL),
                     BERTH_OK);
    for (size_t i = 0; i < read.token_count; i++) {
        ones += (size_t)(read.type_ids[i] + kept.set.type_ids[i]);
    }
    assert_true(read.token_count > 0 && read.token_count == kept.set.token_count);
    assert_int_equal(ones, 0);
    squad_feature_set_done(&read);
    tokenizer_close(tokenizer);
    memory_free(vocab);
    kept_done(&kept);
}

static void everything_changes_the_key(void **state) {
    struct kept kept = keep("v1", google);
    kept.bytes[10] ^= 1;
    expect_other_key(&kept, kept.bytes, 0, kept.tokenizer, google);
    kept.bytes[10] ^= 1;
    expect_other_key(&kept, kept.bytes, 3, kept.tokenizer, google);
    struct squad_feature_options changed[8];
    for (size_t i = 0; i < 8; i++) {
        changed[i] = google;
    }
    changed[0].max_seq_length++;
    changed[1].doc_stride++;
    changed[2].max_query_length++;
    changed[3].training = 1;
    changed[4].rules = SQUAD_RULES_KERAS;
    changed[5].filter_by_words = 1;
    changed[6].all_answers = 1;
    changed[7].end_exclusive = 1;
    for (size_t i = 0; i < 8; i++) {
        expect_other_key(&kept, kept.bytes, 0, kept.tokenizer, changed[i]);
    }
    char *vocab;
    size_t length;
    assert_int_equal(
        file_read(fixture_source("tests/data/squad/vocab.txt"), 1 << 20, &vocab, &length, NULL),
        BERTH_OK);
    const struct tokenizer_options *own = tokenizer_rules_of(kept.tokenizer);
    static const struct added_token added[] = {{"old", 0}}, alone[] = {{"old", ADDED_SINGLE_WORD}};
    struct tokenizer_options rules[] = {*own, *own, *own, *own, *own, *own, *own, *own, *own};
    rules[0].lower_case = !own->lower_case;
    rules[1].rules = TOKENIZER_GOOGLE;
    rules[2].max_word_length = 7;
    rules[3].split_special = !own->split_special;
    rules[4].accents = TOKENIZER_ACCENTS_KEEP;
    rules[5].whole_ideographs = 1;
    rules[6].added = added;
    rules[8].added = alone;
    rules[6].added_count = rules[8].added_count = 1;
    rules[7].word_pieces = 7;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct tokenizer *tokenizer = other_tokenizer(vocab, rules[i]);
        expect_other_key(&kept, kept.bytes, 0, tokenizer, google);
        tokenizer_close(tokenizer);
    }
    vocab[length - 2] ^= 1; // the last token's last letter
    struct tokenizer *tokenizer = other_tokenizer(vocab, *own);
    expect_other_key(&kept, kept.bytes, 0, tokenizer, google);
    tokenizer_close(tokenizer);
    memory_free(vocab);
    // ... and nothing else does.
    struct squad_feature_options threads = google;
    threads.threads = 7;
    const struct squad_cache_inputs inputs = {kept.bytes, kept.length, 0, kept.tokenizer, &threads};
    struct squad_cache_key again;
    assert_int_equal(squad_cache_key_of(&inputs, &again, NULL), BERTH_OK);
    assert_string_equal(again.hex, kept.key.hex);
    kept_done(&kept);
}

static void a_file_of_another_key_is_foreign(void **state) {
    struct kept kept = keep("v1", google), other = keep("v2", google);
    struct squad_feature_set set;
    struct berth_error error = {0};
    size_t length;
    char *bytes = file_of(&kept, &length);
    assert_int_equal(parse(&other, bytes, length, &set, &error), BERTH_BAD_DATA);
    assert_non_null(strstr(error.message, "file: the cache of other data or settings"));
    char *path = squad_cache_path("folder", "some/where/v1.json", &kept.key);
    char *other_path = squad_cache_path("folder", "some/where/v1.json", &other.key);
    assert_memory_equal(path, "folder/v1.json_32_8_6_", strlen("folder/v1.json_32_8_6_"));
    assert_string_not_equal(path, other_path);
    memory_free(path);
    memory_free(other_path);
    memory_free(bytes);
    kept_done(&kept);
    kept_done(&other);
}

// --- damage --------------------------------------------------------------------------------------

static void expect_refused(const struct kept *kept, const char *bytes, size_t length) {
    struct squad_feature_set set;
    struct berth_error error = {0};
    assert_int_equal(parse(kept, bytes, length, &set, &error), BERTH_BAD_DATA);
    assert_memory_equal(error.message, "file: ", 6);
    assert_null(set.features);
    assert_null(set.ids);
}

static void refuses_every_cut_and_every_changed_byte(void **state) {
    for (int training = 0; training <= 1; training++) {
        struct squad_feature_options options = google;
        options.training = training;
        struct kept kept = keep("v1", options);
        size_t length;
        char *bytes = file_of(&kept, &length);
        for (size_t cut = 0; cut < length; cut++) {
            expect_refused(&kept, bytes, cut);
        }
        for (size_t i = 0; i < length; i++) {
            bytes[i] ^= (char)(1 << i % 8);
            expect_refused(&kept, bytes, length);
            bytes[i] ^= (char)(1 << i % 8);
        }
        struct squad_feature_set set;
        assert_int_equal(parse(&kept, bytes, length, &set, NULL), BERTH_OK);
        squad_feature_set_done(&set);
        memory_free(bytes);
        kept_done(&kept);
    }
}

#define HEADER 96
#define FEATURE 32

static void put_u32(char *at, uint32_t number) {
    for (size_t i = 0; i < 4; i++) {
        at[i] = (char)(number >> 8 * i);
    }
}

// Changes one number, makes the checksum right, and expects the file to be refused.
static void refuses_number(const struct kept *kept, const char *good, size_t length, size_t offset,
                           uint32_t number) {
    char *bytes = memory_new(length);
    memcpy(bytes, good, length);
    put_u32(bytes + offset, number);
    if (memcmp(bytes, good, length) == 0) {
        fail_msg("%u is already at byte %zu", number, offset);
    }
    put_u32(bytes + length - 4, crc32c(0, bytes, length - 4));
    struct squad_feature_set set;
    struct berth_error error = {0};
    if (parse(kept, bytes, length, &set, &error) != BERTH_BAD_DATA) {
        fail_msg("%u at byte %zu was not refused", number, offset);
    }
    memory_free(bytes);
}

static void refuses_numbers_that_lead_astray(void **state) {
    struct kept kept = keep("v1", google);
    size_t length, tokens = kept.set.token_count, features = kept.set.count, rows = 0;
    char *bytes = file_of(&kept, &length);
    for (size_t i = 0; i < features; i++) {
        rows += (size_t)kept.set.features[i].document_length;
    }
    refuses_number(&kept, bytes, length, 8, 99); // version
    refuses_number(&kept, bytes, length, 12, 1); // labels only
    for (size_t count = 0; count < 4; count++) { // huge counts, or one more
        refuses_number(&kept, bytes, length, 48 + 8 * count, UINT32_MAX);
        refuses_number(&kept, bytes, length, 48 + 8 * count + 4, UINT32_MAX);
        refuses_number(&kept, bytes, length, 48 + 8 * count,
                       (uint32_t)(unsigned char)bytes[48 + 8 * count] + 1);
    }
    static const uint32_t bad[] = {UINT32_MAX, INT32_MAX, 1000};
    for (size_t field = 0; field < 7; field++) { // of the second feature
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            if (field != 4 || i == 0) { // any document_start of 0 or more is accepted
                refuses_number(&kept, bytes, length, HEADER + FEATURE + 4 * field, bad[i]);
            }
        }
    }
    refuses_number(&kept, bytes, length, HEADER + FEATURE * (features - 1), 0); // descends
    size_t ids = HEADER + FEATURE * features, words = ids + 2 * tokens;
    refuses_number(&kept, bytes, length, ids + 8, 0xFFFF0000u);
    refuses_number(&kept, bytes, length, words, UINT32_MAX);
    refuses_number(&kept, bytes, length, words, 5000);
    // One past the last word, from the last document row.
    uint32_t total = (unsigned char)bytes[48 + 3 * 8];
    uint32_t base = kept.set.example_words[kept.set.features[features - 1].example];
    refuses_number(&kept, bytes, length, words + 4 * (rows - 1), total - base);
    size_t best = words + 4 * rows, begins = best + rows;
    refuses_number(&kept, bytes, length, best, 2);
    refuses_number(&kept, bytes, length, begins, UINT32_MAX);
    refuses_number(&kept, bytes, length, begins + 8, 0);
    refuses_number(&kept, bytes, length, begins + 4,
                   kept.set.word_end[0]); // no blank between the words
    size_t left = length - 4 - begins - 4 * kept.dataset.count;
    refuses_number(&kept, bytes, length, begins + left / 2, 0);
    refuses_number(&kept, bytes, length, begins + left - 4, UINT32_MAX);
    refuses_number(&kept, bytes, length, begins + left, UINT32_MAX); // first words
    memory_free(bytes);
    kept_done(&kept);
}

static void knows_its_data_set(void **state) {
    struct kept kept = keep("v1", google);
    struct squad_feature_set set;
    size_t length;
    char *bytes = file_of(&kept, &length);
    kept.dataset.count--;
    assert_int_equal(parse(&kept, bytes, length, &set, NULL), BERTH_BAD_DATA);
    kept.dataset.count++;
    size_t kept_length = kept.dataset.examples[0].context_length;
    kept.dataset.examples[0].context_length = 20; // shorter than the words say
    assert_int_equal(parse(&kept, bytes, length, &set, NULL), BERTH_BAD_DATA);
    kept.dataset.examples[0].context_length = kept_length;
    kept.key.options.max_seq_length = 20; // no window may exceed max_seq_length
    assert_int_equal(parse(&kept, bytes, length, &set, NULL), BERTH_BAD_DATA);
    memory_free(bytes);
    kept_done(&kept);
}

// --- failures ------------------------------------------------------------------------------------

static void survives_missing_memory(void **state) {
    struct kept kept = keep("v1", google);
    size_t length;
    char *bytes = file_of(&kept, &length);
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n = 0;
    while (status == BERTH_NO_MEMORY) {
        struct squad_feature_set set;
        struct berth_error error = {0};
        memory_fail_at(++n, 0);
        status = parse(&kept, bytes, length, &set, &error);
        squad_feature_set_done(&set);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    assert_true(n > 7);
    memory_free(bytes);
    kept_done(&kept);
}

// Every failing system call gives an error, and leaves the old file or the complete new one.
static void survives_a_failing_disk(void **state) {
    struct kept kept = keep("v1", google);
    enum berth_status status = BERTH_IO;
    uint64_t n = 0;
    write_file(&kept);
    while (status != BERTH_OK) {
        struct squad_feature_set set;
        struct berth_error error = {0};
        int64_t examples;
        file_fail_at(++n, ENOSPC);
        status = squad_cache_write(FILE_NAME, &kept.key, &kept.dataset, &kept.set, &error);
        file_fail_at(0, 0);
        assert_true(status == BERTH_OK || error.message[0] != '\0');
        assert_int_equal(
            squad_cache_read(FILE_NAME, &kept.key, &kept.dataset, &set, &examples, NULL), BERTH_OK);
        squad_feature_set_done(&set);
    }
    assert_true(n > 4);
    kept_done(&kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(gives_back_what_was_put_in),
        SCRATCH_TEST(types_are_the_tokenizers),
        SCRATCH_TEST(everything_changes_the_key),
        SCRATCH_TEST(a_file_of_another_key_is_foreign),
        SCRATCH_TEST(refuses_every_cut_and_every_changed_byte),
        SCRATCH_TEST(refuses_numbers_that_lead_astray),
        SCRATCH_TEST(knows_its_data_set),
        SCRATCH_TEST(survives_missing_memory),
        SCRATCH_TEST(survives_a_failing_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
