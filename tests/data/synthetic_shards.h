// SPDX-License-Identifier: Apache-2.0
// Shards of made-up instances. The second token of instance n is 5 + n.
#ifndef BERTH_TESTS_DATA_SYNTHETIC_SHARDS_H
#define BERTH_TESTS_DATA_SYNTHETIC_SHARDS_H

#include "core/harness.h"
#include "data/pretraining/pretraining_file.h"

#include <string.h>

struct synthetic_shard {
    int first, count; // indices of its instances
    int vocabulary;   // ids are less than this
    int length;       // of a row; at least 12
};

enum { SYNTHETIC_PREDICTIONS = 3 };

// [CLS] n a a+1 ... [SEP] b ... [SEP]: masked tokens follow from their neighbours.
static inline void synthetic_instance(struct instances *to, const struct synthetic_shard *shard,
                                      int number) {
    int words = shard->vocabulary - 5, length = 8 + number % (shard->length - 7);
    struct instance *instance = &to->items[to->count++];
    *instance =
        (struct instance){.tokens = to->token_count,
                          .predictions = to->prediction_count,
                          .length = (uint16_t)length,
                          .second = (uint16_t)(length / 2),
                          .prediction_count = (uint16_t)(1 + number % SYNTHETIC_PREDICTIONS),
                          .is_random = (uint8_t)(number % 2)};
    int32_t *tokens = to->tokens + to->token_count;
    for (int i = 0; i < length; i++) {
        tokens[i] = 5 + (number % 7 + i) % words;
    }
    tokens[0] = 2;
    tokens[1] = 5 + number % words;
    tokens[length / 2 - 1] = tokens[length - 1] = 3;
    for (int i = 0; i < instance->prediction_count; i++) {
        int position = length / 2 + i;
        to->positions[to->prediction_count] = (uint16_t)position;
        to->labels[to->prediction_count++] = tokens[position];
        tokens[position] = 4;
    }
    to->token_count += (size_t)length;
}

// Writes TFRecord if the path ends in ".tfrecord", else HDF5.
static inline void make_shard(const char *path, const struct synthetic_shard *shard) {
    static struct instance items[256];
    static int32_t tokens[256 * 64], labels[256 * SYNTHETIC_PREDICTIONS];
    static uint16_t positions[256 * SYNTHETIC_PREDICTIONS];
    struct instances made = {
        .items = items, .tokens = tokens, .positions = positions, .labels = labels};
    assert_true(shard->count <= 256 && shard->length <= 64 && shard->length >= 12);
    for (int i = 0; i < shard->count; i++) {
        synthetic_instance(&made, shard, shard->first + i);
    }
    size_t name = strlen(path);
    int is_tfrecord = name > 9 && strcmp(path + name - 9, ".tfrecord") == 0;
    assert_int_equal((is_tfrecord ? pretraining_write_tfrecord : pretraining_write_hdf5)(
                         path, &made, shard->length, SYNTHETIC_PREDICTIONS, NULL),
                     BERTH_OK);
}

#endif
