// SPDX-License-Identifier: Apache-2.0
// The sequences of shards as one endless stream, epoch after epoch. The order of the files depends
// only on the seed and the epoch, the order of the sequences in a file also on the file. So n alone
// determines sequence n of the stream.
//
// With `by_rank` each rank has a stream of its own, of the files that NVIDIA's run_pretraining
// assigns to it: in pass p through the files, Python's random.Random(seed + p) shuffles them, and
// in round f of a pass, which has as many rounds as there are files, rank r of K reads file (f * K
// + r) mod files; with more ranks than files, the index is shifted by another f * (K mod files).
// The order within a file depends on seed + r and the visit.
//
// A thread reads the next file while the current ones are in use. Memory holds that file and the
// files of the last call, each once. The feed of a training takes the sequences of each update from
// it, and packs them (batches/packer.h).
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
    int max_length;      // as pretraining_read
    int max_predictions; // further masked tokens of a sequence are ignored
    int by_rank, rank, ranks;
    // > 0: each epoch (with by_rank: each file) is cut to a multiple of this number of sequences.
    int64_t batch;
};

// The number of sequences in a pass through all files with these settings.
int64_t shard_stream_sequences(const struct shard_list *list,
                               const struct shard_stream_settings *settings);

struct shard_stream;

// Borrows `list`, which has at least one sequence with these settings. Free with
// shard_stream_close, which accepts NULL.
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
    int64_t epoch; // with by_rank: the pass
    size_t visit;  // index of the file in the order of the epoch; with by_rank: the round
    size_t file;   // index of the file in the list
    int64_t row;   // index of the sequence in the file
};
struct shard_position shard_stream_locate(struct shard_stream *stream, int64_t index);
// The index in the list of the file of visit `visit`, counted over all epochs.
size_t shard_stream_file(struct shard_stream *stream, int64_t visit);

// The maximum memory in bytes of a stream whose calls take `sequences` sequences.
uint64_t shard_stream_bytes(const struct shard_list *list, int64_t sequences);

#endif
