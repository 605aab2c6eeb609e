// SPDX-License-Identifier: Apache-2.0
// The sequences of shards as one endless stream, epoch after epoch. The order of the files depends
// on seed and epoch only, that of the sequences in a file also on the file. So n alone determines
// sequence n of the stream.
//
// A thread reads the next file while the current ones are in use. Memory holds the files of the
// last call, each once, and that file.
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
    int max_predictions; // only this many masked tokens of a sequence count
};

struct shard_stream;

// `list` is borrowed. shard_stream_close frees; NULL is allowed.
enum berth_status shard_stream_open(const struct shard_list *list,
                                    const struct shard_stream_settings *settings,
                                    struct shard_stream **stream, struct berth_error *error);
void shard_stream_close(struct shard_stream *stream);

// Sequences [first, first + count) of the stream as source and order[count], valid until the next
// call. A damaged file is an error (BERTH_BAD_DATA) of the call that needs it, not of an earlier
// one.
struct shard_taken {
    struct packer_source source;
    const uint32_t *order;
    double waited; // seconds spent waiting for files
};
enum berth_status shard_stream_take(struct shard_stream *stream, int64_t first, size_t count,
                                    struct shard_taken *taken, struct berth_error *error);

// The origin of sequence `index` of the stream.
struct shard_place {
    int64_t epoch;
    size_t visit; // index of the file in the epoch's order
    size_t file;  // index of the file in the list
    int64_t row;  // index of the sequence in the file
};
struct shard_place shard_stream_place(struct shard_stream *stream, int64_t index);

// The maximum memory in bytes of a stream whose calls request `sequences` sequences.
uint64_t shard_stream_bytes(const struct shard_list *list, int64_t sequences);

#endif
