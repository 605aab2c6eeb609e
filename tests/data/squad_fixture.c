// SPDX-License-Identifier: Apache-2.0
// See squad_fixture.h.
#include "data/squad_fixture.h"

#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fixture_source(const char *path) {
    static char paths[2][4096];
    static int turn;
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", BERTH_TEST_SOURCE_DIR, path);
    return paths[turn];
}

int fixture_has_data(void) {
    const char *path = data_path("squad/dev-v1.1.json");
    if (file_exists(path)) {
        return 1;
    }
    printf("skipped: no real data at %s (set BERTH_DATA)\n", path);
    return 0;
}

static void expect(enum berth_status status, const struct berth_error *error) {
    if (status != BERTH_OK) {
        fail_msg("%s", error->message);
    }
}

struct tokenizer *fixture_tokenizer(const char *vocab_path) {
    struct tokenizer_options options = {.lower_case = 1};
    struct tokenizer *tokenizer = NULL;
    struct berth_error error = {0};
    expect(tokenizer_open(vocab_path, &options, &tokenizer, &error), &error);
    return tokenizer;
}

struct squad_dataset fixture_dataset(const char *path) {
    struct squad_dataset dataset;
    struct berth_error error = {0};
    expect(squad_read(path, 0, &dataset, &error), &error);
    return dataset;
}

struct squad_dataset fixture_dataset_of(const char *json_text) {
    struct squad_dataset dataset;
    struct berth_error error = {0};
    expect(squad_read_memory("set.json", json_text, strlen(json_text), 0, &dataset, &error),
           &error);
    return dataset;
}

struct squad_feature_set fixture_features(const struct squad_dataset *dataset,
                                          const struct tokenizer *tokenizer, int training,
                                          const int64_t lengths[3], int threads) {
    struct squad_feature_options options = {.max_length = lengths[0],
                                            .doc_stride = lengths[1],
                                            .max_query_length = lengths[2],
                                            .training = training,
                                            .threads = threads};
    struct squad_feature_set set;
    struct berth_log log = {0};
    struct berth_error error = {0};
    expect(squad_features_build(dataset, tokenizer, &options, &log, &set, &error), &error);
    return set;
}

json *fixture_json(const char *path) {
    json *value = NULL;
    struct berth_error error = {0};
    expect(json_read_file(path, &value, &error), &error);
    return value;
}

const char *fixture_failure(const char *json_text, enum berth_status status) {
    static struct berth_error error;
    struct squad_dataset dataset;
    error = (struct berth_error){0};
    assert_int_equal(
        squad_read_memory("set.json", json_text, strlen(json_text), 0, &dataset, &error), status);
    assert_null(dataset.storage);
    assert_int_equal(dataset.count, 0);
    assert_non_null(strstr(error.message, "set.json"));
    return error.message;
}

uint32_t fixture_crc(uint32_t crc, const void *bytes, size_t length) {
    static uint32_t table[256];
    if (table[1] == 0) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++) {
                value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
            }
            table[i] = value;
        }
    }
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc = table[(crc ^ ((const unsigned char *)bytes)[i]) & 0xFF] ^ crc >> 8;
    }
    return ~crc;
}

float fixture_logit(struct fixture_draws *draws) {
    draws->state = draws->state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int)((draws->state >> 33) % 4096) - 2048) / 128.0f;
}

// --- features -----------------------------------------------------------------------------------

static void compare_array(const json *expected, const struct squad_feature *feature,
                          int64_t (*value)(const struct squad_feature_set *, size_t),
                          const struct squad_feature_set *set) {
    assert_int_equal(json_length(expected), feature->length);
    for (size_t i = 0; i < (size_t)feature->length; i++) {
        assert_int_equal(json_as_integer(json_at(expected, i)), value(set, feature->first + i));
    }
}

static int64_t id_of(const struct squad_feature_set *set, size_t i) {
    return set->ids[i];
}
static int64_t type_of(const struct squad_feature_set *set, size_t i) {
    return set->type_ids[i];
}
static int64_t word_of(const struct squad_feature_set *set, size_t i) {
    return set->words[i];
}
static int64_t max_context_of(const struct squad_feature_set *set, size_t i) {
    return set->max_context[i];
}

void fixture_compare_feature(const json *row, const struct squad_dataset *dataset,
                             const struct squad_feature_set *set, size_t number) {
    const struct squad_feature *feature = &set->features[number];
    assert_string_equal(json_text(json_member(row, "id")), dataset->examples[feature->example].id);
    assert_int_equal(json_as_integer(json_member(row, "unique_id")), feature->unique_id);
    assert_int_equal(json_as_integer(json_member(row, "begin")), feature->document_begin);
    assert_int_equal(json_as_integer(json_member(row, "document_start")), feature->document_start);
    assert_int_equal(json_as_integer(json_member(row, "start")), feature->start);
    assert_int_equal(json_as_integer(json_member(row, "end")), feature->end);
    if (json_member(row, "answer") != NULL) {
        assert_int_equal(json_as_integer(json_member(row, "answer")), feature->answer);
    }
    compare_array(json_member(row, "ids"), feature, id_of, set);
    compare_array(json_member(row, "types"), feature, type_of, set);
    compare_array(json_member(row, "words"), feature, word_of, set);
    compare_array(json_member(row, "max_context"), feature, max_context_of, set);
}

uint32_t fixture_checksum(const struct squad_dataset *dataset,
                          const struct squad_feature_set *set) {
    uint32_t crc = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct squad_feature *f = &set->features[i];
        const char *id = dataset->examples[f->example].id;
        const int32_t fields[5] = {f->length, f->document_begin, f->document_start, f->start,
                                   f->end};
        size_t n = (size_t)f->length;
        crc = fixture_crc(crc, id, strlen(id));
        crc = fixture_crc(crc, &f->unique_id, sizeof f->unique_id);
        crc = fixture_crc(crc, fields, sizeof fields);
        crc = fixture_crc(crc, set->ids + f->first, n * sizeof *set->ids);
        crc = fixture_crc(crc, set->type_ids + f->first, n);
        crc = fixture_crc(crc, set->words + f->first, n * sizeof *set->words);
        crc = fixture_crc(crc, set->max_context + f->first, n);
    }
    return crc;
}

void fixture_survives_missing_memory(const char *dataset_path,
                                     const struct squad_feature_options *options) {
    struct squad_dataset dataset = fixture_dataset(dataset_path);
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct berth_log log = {0};
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n = 0;
    while (status == BERTH_NO_MEMORY) {
        struct squad_feature_set set;
        struct berth_error error = {0};
        memory_fail_at(++n, 0);
        status = squad_features_build(&dataset, tokenizer, options, &log, &set, &error);
        squad_feature_set_done(&set);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    assert_true(n > 20);
    tokenizer_close(tokenizer);
    squad_dataset_done(&dataset);
}
