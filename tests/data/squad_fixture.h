// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of SQuAD in several folders: paths of files, data sets from memory,
// checksums, and the random generator of dev/fixtures/squad_reference.py.
#ifndef BERTH_TESTS_DATA_SQUAD_FIXTURE_H
#define BERTH_TESTS_DATA_SQUAD_FIXTURE_H

#include "core/scratch.h"
#include "data/squad/squad.h"
#include "data/squad/squad_features.h"
#include "format/json/json.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

// A path in the source folder; static storage, two at a time.
const char *fixture_source(const char *path);
// Whether the folder of real data exists; prints a note if not.
int fixture_has_data(void);

// These fail the test with the error's message when the call fails.
struct tokenizer *fixture_tokenizer(const char *vocab_path);
struct squad_dataset fixture_dataset(const char *path);
struct squad_dataset fixture_dataset_of(const char *json_text);
struct squad_feature_set fixture_features(const struct squad_dataset *dataset,
                                          const struct tokenizer *tokenizer, int training,
                                          const int64_t lengths[3], int threads);
json *fixture_json(const char *path);
// fixture_compare_feature compares every field of feature `number` with the golden row;
// fixture_checksum covers all features.
void fixture_compare_feature(const json *row, const struct squad_dataset *dataset,
                             const struct squad_feature_set *set, size_t number);
uint32_t fixture_checksum(const struct squad_dataset *dataset, const struct squad_feature_set *set);

// The error message of reading `json_text`, which must fail with `status`.
const char *fixture_failure(const char *json_text, enum berth_status status);

// CRC-32 as zlib's.
uint32_t fixture_crc(uint32_t crc, const void *bytes, size_t length);

struct fixture_draws {
    uint64_t state; // start with 1
};
float fixture_logit(struct fixture_draws *draws);

// Builds features with every allocation failing in turn: BERTH_NO_MEMORY until none fails.
void fixture_survives_missing_memory(const char *dataset_path,
                                     const struct squad_feature_options *options);

#endif
