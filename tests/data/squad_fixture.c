// SPDX-License-Identifier: Apache-2.0
// See squad_fixture.h.
#include "data/squad_fixture.h"

#include "data/cmocka_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *join(const char *folder, const char *path) {
    static char paths[2][4096];
    static int turn;
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, path);
    return paths[turn];
}

const char *fixture_source(const char *path) {
    return join(BERTH_TEST_SOURCE_DIR, path);
}

const char *fixture_data(const char *path) {
    const char *folder = getenv("BERTH_DATA");
    return join(folder != NULL ? folder : BERTH_TEST_SOURCE_DIR "/../shared/data", path);
}

int fixture_has_data(void) {
    const char *path = fixture_data("squad/dev-v1.1.json");
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
    struct squad_feature_options options = {.max_seq_length = lengths[0],
                                            .doc_stride = lengths[1],
                                            .max_query_length = lengths[2],
                                            .training = training};
    struct squad_feature_set set;
    struct berth_log log = {0};
    struct berth_error error = {0};
    expect(squad_features_build(dataset, tokenizer, &options, threads, &log, &set, &error), &error);
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
