// SPDX-License-Identifier: Apache-2.0
// The sequences of shards as one endless stream, epoch after epoch: the files in an order that
// depends on seed and epoch only, the sequences of a file in one that depends on the file as well.
// So sequence number n of the stream is found from n alone.
//
// A thread reads the file that comes next while those at hand are in use. In memory are the files
// of the last call, each once, and that one.
#ifndef BERTH_DATA_SHARD_STREAM_H
#define BERTH_DATA_SHARD_STREAM_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "data/pretraining/shard_list.h"

#include <stddef.h>
#include <stdint.h>

struct shard_stream_settings {
    uint64_t seed;
    int32_t vocab_size;
    int max_seq_length;  // as pretraining_read
    int max_predictions; // of a sequence only the first so many masked tokens count
};

struct shard_stream;

// `list` is borrowed. shard_stream_close frees; NULL is fine.
enum berth_status shard_stream_open(const struct shard_list *list,
                                    const struct shard_stream_settings *settings,
                                    struct shard_stream **stream, struct berth_error *error);
void shard_stream_close(struct shard_stream *stream);

// Sequences number [first, first + count) of the stream as source and order[count], good until the
// next call. A damaged file is the error of the call that needs it (BERTH_BAD_DATA), not of an
// earlier one.
struct shard_taken {
    struct packer_source source;
    const uint32_t *order;
    double waited; // seconds for files that were not there yet
};
enum berth_status shard_stream_take(struct shard_stream *stream, int64_t first, size_t count,
                                    struct shard_taken *taken, struct berth_error *error);

// Where sequence number `index` of the stream comes from.
struct shard_place {
    int64_t epoch;
    size_t visit; // the how manieth file of the epoch
    size_t file;  // its number in the list
    int64_t row;  // the how manieth sequence of it
};
struct shard_place shard_stream_place(struct shard_stream *stream, int64_t index);

// Bytes at most of what a stream holds whose calls ask for `sequences` sequences.
uint64_t shard_stream_bytes(const struct shard_list *list, int64_t sequences);

#endif
