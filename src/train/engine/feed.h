// SPDX-License-Identifier: Apache-2.0
// Supplies the sequences of each update. Fine-tuning has all features in memory and a smaller
// update at the end of an epoch; masked language modelling also draws masks for each update. Of
// several data sets in memory each has updates of its own, the last one of an epoch smaller.
// Pre-training streams shards; its updates all have the same size and continue across epochs. Every
// rank gets the whole update, unless each reads files of its own. A job and its loop use the data
// only through these functions.
#ifndef BERTH_TRAIN_FEED_H
#define BERTH_TRAIN_FEED_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/log.h"
#include "data/batches/packer.h"
#include "data/masked/word_masks.h"
#include "data/pretraining/shard_stream.h"
#include "format/json/json.h"
#include "train/engine/batching.h"

#include <stddef.h>
#include <stdint.h>

struct feed;

struct feed_update {
    const struct packer_source *source;
    const uint32_t *order; // sequences of the update
    size_t count;
    size_t others; // sequences of the update that only other ranks have
    double waited; // seconds spent waiting for data
};

// What ops->record returned, of a checkpoint; the path is for messages.
struct feed_record {
    const json *object;
    const char *path;
    const struct berth_log *log;
};

struct feed_ops {
    // Computes batch sizes and the number of updates from settings, data and ranks, before any
    // other function is called.
    enum berth_status (*resolve)(struct feed *feed, struct batching *batching,
                                 const struct batching_request *request, const struct comm *comm,
                                 struct berth_error *error);
    // Computes the largest micro-batch that may occur on a rank.
    enum berth_status (*find_worst)(const struct feed *feed, const struct batching *batching,
                                    const struct batching_rank *rank, struct batching_worst *worst,
                                    struct berth_error *error);
    // Returns the sequences of update `step` of the phase, from 0; valid until the next call.
    enum berth_status (*get_update)(struct feed *feed, const struct batching *batching,
                                    int64_t step, struct feed_update *update,
                                    struct berth_error *error);
    // Returns a JSON object with what a resumed run must find unchanged and the position of update
    // `step`; the caller frees it. NULL: out of memory. The function is NULL if the step alone
    // determines the position.
    json *(*record)(struct feed *feed, const struct batching *batching, int64_t step);
    // Compares the data with the record of update `step` (NULL: there was none), and continues as
    // that record says; updates before `step` may no longer be asked for. BERTH_CONFIG names what
    // has changed. On failure only feed_done may follow.
    enum berth_status (*restore)(struct feed *feed, const struct batching *batching, int64_t step,
                                 const struct feed_record *record, struct berth_error *error);
};

// Opened by one of the functions below, then resolved once (ops->resolve), which fixes the sizes in
// struct batching; after that get_update may be called for any update in any order, and always
// returns the same sequences for the same number. Only get_update changes the feed then: the order
// of the epoch that it is in, and what it has read. A feed is of one origin: features in memory,
// text in memory, several data sets, or shards (feed_check).
struct feed {
    const struct feed_ops *ops;
    // For features in memory:
    struct packer_source source;
    uint64_t checksum; // of all of them (packer.h); 0 for shards
    uint32_t *order;   // of epoch order_epoch
    int64_t order_epoch;
    // For text in memory, whose sequences are copied for each update:
    struct word_masks masks;
    struct packer_source copies;
    uint32_t *copy_order; // 0, 1, ...
    int threads;
    // For shards:
    const struct shard_list *shards;
    struct shard_stream_settings settings;
    struct shard_stream *stream;
    struct shard_taken taken;
    // By rank: what earlier numbers of ranks have left, and the update that begins with it.
    struct shard_rest rest;
    int64_t rest_step;
    int64_t max_length, max_predictions; // of a sequence; for text only max_length is set
    // For several data sets:
    struct feed_set *sets; // [set_count]
    size_t set_count;
    int in_turn;      // FEED_ROUND_ROBIN
    uint32_t *turns;  // [updates] the set of each update of epoch order_epoch
    uint32_t *places; // [updates] the number of the update among those of its set
};

// One of several data sets, which has the order and the sizes that it would have alone.
struct feed_set {
    const char *name; // borrowed
    struct feed feed;
    struct batching batching;
};

// How updates of several data sets follow each other.
enum feed_mixing {
    FEED_PROPORTIONAL, // in a random order for each epoch, which has all examples
    FEED_ROUND_ROBIN   // one of each set in turn, until the set with the fewest updates has no more
};

// These borrow the source, the text or the list. feed_done may be called after a failure and on a
// zeroed feed.
enum berth_status feed_open_source(struct feed *feed, const struct packer_source *source,
                                   struct berth_error *error);
// Several sources, with their names for messages.
enum berth_status feed_open_sets(struct feed *feed, const struct packer_source *sources,
                                 const char *const *names, size_t count, enum feed_mixing mixing,
                                 struct berth_error *error);
// Text whose masks are drawn for each epoch.
enum berth_status feed_open_text(struct feed *feed, const struct text_sequences *text,
                                 const struct word_mask_rules *rules, int threads,
                                 struct berth_error *error);
void feed_open_shards(struct feed *feed, const struct shard_list *shards,
                      const struct shard_stream_settings *settings);
void feed_done(struct feed *feed);
// NULL, or what is not true of an open feed (core/check.h).
const char *feed_check(const struct feed *feed);

// The shards of an epoch in order, and the one in which an update begins.
struct feed_files {
    int64_t epoch;
    size_t current;
    const char **paths; // [count]; memory_free; the strings are borrowed
    size_t count;       // 0: the features are in memory
};
// Lists the files that are read in the epoch of update `step` of the phase.
enum berth_status feed_list_files(struct feed *feed, const struct batching *batching, int64_t step,
                                  struct feed_files *files, struct berth_error *error);

// Upper bound of the bytes that the updates will allocate in addition to what is already in memory.
uint64_t feed_bytes(const struct feed *feed, const struct batching *batching);
// The same of a feed of shards.
uint64_t feed_shards_bytes(const struct feed *feed, const struct batching *batching);

#endif
