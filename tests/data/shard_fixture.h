// SPDX-License-Identifier: Apache-2.0
// Shards of made-up instances as streams, whose sequences are read as the numbers of the instances.
#ifndef BERTH_TESTS_DATA_SHARD_FIXTURE_H
#define BERTH_TESTS_DATA_SHARD_FIXTURE_H

#include "core/scratch.h"
#include "data/pretraining/shard_stream.h"
#include "data/synthetic_shards.h"

enum { WORDS = 300, LENGTH = 20 };

static inline void put_shard(const char *name, int first, int count) {
    const struct synthetic_shard shard = {first, count, WORDS, LENGTH};
    make_shard(scratch(name), &shard);
}

static inline struct shard_list open_list(const char *path, enum shard_use use) {
    struct shard_list list;
    struct berth_error error = {0};
    if (shard_list_open(&list, path, use, 0, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return list;
}

static inline struct shard_stream *open_with(const struct shard_list *list,
                                             struct shard_stream_settings settings) {
    struct shard_stream *stream;
    settings.vocab_size = WORDS;
    settings.max_predictions = 2;
    assert_int_equal(shard_stream_open(list, &settings, &stream, NULL), BERTH_OK);
    return stream;
}

// Reads the indices of the instances [first, first + count) of the stream.
static inline void take(struct shard_stream *stream, int64_t first, size_t count, int *numbers) {
    struct shard_taken taken;
    struct berth_error error = {0};
    if (shard_stream_take(stream, first, count, &taken, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(taken.source.count, count);
    for (size_t i = 0; i < count; i++) {
        struct packer_sequence sequence = taken.source.get(taken.source.data, taken.order[i]);
        numbers[i] = sequence.ids[1] - 5;
        assert_int_equal(sequence.length, 8 + numbers[i] % (LENGTH - 7));
        assert_int_equal(sequence.label, numbers[i] % 2);
        int masked = 1 + numbers[i] % SYNTHETIC_PREDICTIONS;
        assert_int_equal(sequence.masked_count, masked < 2 ? masked : 2);
        assert_int_equal(sequence.ids[sequence.masked_positions[0]], 4);
        assert_int_equal(sequence.type_ids[0], 0);
        assert_int_equal(sequence.type_ids[sequence.length - 1], 1);
    }
}

#endif
