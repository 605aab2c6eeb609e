// SPDX-License-Identifier: Apache-2.0
// The sequences of shards as one endless stream, epoch after epoch, or for each rank a stream of
// its own files, in the order of shard_order.h.
//
// A thread reads the next file while the current ones are in use. Memory holds that file and the
// files of the last call, each once. The feed of a training takes the sequences of each update from
// it, and packs them (batches/packer.h).
#ifndef BERTH_DATA_SHARD_STREAM_H
#define BERTH_DATA_SHARD_STREAM_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "data/pretraining/shard_order.h"

#include <stddef.h>
#include <stdint.h>

struct shard_stream;

// Borrows `list`, which has at least one sequence with these settings, and settings->rest. Free
// with shard_stream_close, which accepts NULL.
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

// Where sequence `index` of the stream comes from.
struct shard_position {
    int64_t epoch;   // with by_rank: the pass
    size_t visit;    // index of the file in the order of the epoch; with by_rank: the round
    size_t file;     // index of the file in the list
    int64_t row;     // index of the sequence in the order of the file
    int rank, ranks; // with by_rank: whose visit it is, in a run of how many
};
struct shard_position shard_stream_locate(struct shard_stream *stream, int64_t index);
// The index in the list of the file of round `round` of the epoch, and for the rank, of a position.
size_t shard_stream_file(struct shard_stream *stream, const struct shard_position *position,
                         size_t round);

// The maximum memory in bytes of a stream whose calls take `sequences` sequences.
uint64_t shard_stream_bytes(const struct shard_list *list, int by_rank, int64_t sequences);

#endif
