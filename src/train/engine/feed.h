// SPDX-License-Identifier: Apache-2.0
// What the updates of a run are made of. Fine-tuning has all its features in memory and a smaller
// update at the end of an epoch; pre-training streams shards, its updates are all of one size and
// run on from one epoch into the next. A job and its loop know the data by these functions alone.
#ifndef BERTH_TRAIN_FEED_H
#define BERTH_TRAIN_FEED_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "data/pretraining/shard_stream.h"
#include "format/json/json.h"
#include "train/engine/batching.h"

#include <stddef.h>
#include <stdint.h>

struct feed;

struct feed_update {
    const struct packer_source *source;
    const uint32_t *order; // the update's sequences
    size_t count;
    double waited; // seconds for data that was not there yet
};

struct feed_kind {
    // Batch sizes and the number of updates from settings and data.
    enum berth_status (*resolve)(const struct feed *feed, struct batching *batching,
                                 const struct berth_config *config, struct berth_error *error);
    // The largest micro-batch that may come.
    enum berth_status (*find_worst)(const struct feed *feed, const struct batching *batching,
                                    struct batching_worst *worst, struct berth_error *error);
    // The sequences of update `step` of the phase, from 0; good until the next call.
    enum berth_status (*take)(struct feed *feed, const struct batching *batching, int64_t step,
                              struct feed_update *update, struct berth_error *error);
    // What a resumed run must find again, and where update `step` begins in it, as a JSON object of
    // the caller's; NULL: nothing.
    json *(*record)(struct feed *feed, const struct batching *batching, int64_t step);
    // BERTH_CONFIG naming what of a record (NULL: there was none) is not so any more.
    enum berth_status (*check)(const struct feed *feed, const json *record, const char *path,
                               struct berth_error *error);
};

struct feed {
    const struct feed_kind *kind;
    // Of features in memory:
    struct packer_source source;
    uint32_t *order; // of epoch order_epoch
    int64_t order_epoch;
    // Of shards:
    const struct shard_list *shards;
    struct shard_stream *stream;
    struct shard_taken taken;
    int64_t max_length, max_predictions; // of a sequence, at most
};

// Borrow the source or the list; feed_done frees, also after a failure and of a zeroed feed.
enum berth_status feed_open_source(struct feed *feed, const struct packer_source *source,
                                   struct berth_error *error);
enum berth_status feed_open_shards(struct feed *feed, const struct shard_list *shards,
                                   const struct shard_stream_settings *settings,
                                   struct berth_error *error);
void feed_done(struct feed *feed);

// Bytes at most that taking updates will need beyond what is in memory already.
uint64_t feed_bytes(const struct feed *feed, const struct batching *batching);

#endif
