// SPDX-License-Identifier: Apache-2.0
// Made-up documents, the same as in dev/goldens/pretraining_instances.py, and its CRC-32 over
// instances.
#ifndef BERTH_TESTS_DATA_SYNTHETIC_DOCUMENTS_H
#define BERTH_TESTS_DATA_SYNTHETIC_DOCUMENTS_H

#include "core/scratch.h"
#include "data/pretraining/instances.h"
#include "data/pretraining/python_random.h"
#include "format/archive/deflate.h"

enum { CLS = 101, SEP = 102, MASK = 103, VOCABULARY = 1000, CONTINUES = 700 };

// Ids from CONTINUES on continue a word.
static inline void put_sentence(struct documents *documents, const int32_t *tokens, size_t count) {
    unsigned char continues[128];
    for (size_t i = 0; i < count; i++) {
        continues[i] = tokens[i] >= CONTINUES;
    }
    assert_int_equal(documents_add_sentence(documents, tokens, continues, count, NULL), BERTH_OK);
}

static inline struct documents synthetic_documents(uint64_t seed, int count, int sentences,
                                                   int tokens) {
    struct python_random random;
    struct documents documents = {0};
    int32_t sentence[128];
    python_random_seed(&random, seed);
    for (int i = 0; i < count; i++) {
        int64_t sentence_count = python_random_between(&random, 1, sentences);
        for (int64_t j = 0; j < sentence_count; j++) {
            int64_t length = python_random_between(&random, 1, tokens);
            for (int64_t k = 0; k < length; k++) {
                sentence[k] = (int32_t)python_random_between(&random, 104, VOCABULARY - 1);
            }
            put_sentence(&documents, sentence, (size_t)length);
        }
        assert_int_equal(documents_end_document(&documents, NULL), BERTH_OK);
    }
    return documents;
}

static inline struct instance_options complete(struct instance_options options) {
    options.cls = CLS;
    options.sep = SEP;
    options.mask = MASK;
    options.vocab_size = VOCABULARY;
    return options;
}

static inline uint32_t checksum_one(const struct instances *made, size_t i, uint32_t crc) {
    const struct instance *instance = &made->items[i];
    crc = deflate_crc32(crc, made->tokens + instance->tokens, 4 * (size_t)instance->length);
    for (size_t j = 0; j < instance->prediction_count; j++) {
        int32_t position = made->positions[instance->predictions + j];
        crc = deflate_crc32(crc, &position, 4);
    }
    crc = deflate_crc32(crc, made->labels + instance->predictions,
                        4 * (size_t)instance->prediction_count);
    int32_t rest[2] = {instance->second, instance->is_random};
    return deflate_crc32(crc, rest, sizeof rest);
}

static inline uint32_t checksum(const struct instances *made) {
    uint32_t crc = 0;
    for (size_t i = 0; i < made->count; i++) {
        crc = checksum_one(made, i, crc);
    }
    return crc;
}

#endif
