// SPDX-License-Identifier: Apache-2.0
// The order of the sequences of shards, as visits: a visit is one pass through one file, or through
// what is left of it. The order of the files depends only on the seed and the epoch, the order of
// the sequences in a file also on the file. So n alone determines sequence n of the stream.
//
// With `by_rank` each rank has visits of its own, to the files that NVIDIA's run_pretraining
// assigns to it: in pass p through the files, Python's random.Random(seed + p) shuffles them, and
// in round f of a pass, which has as many rounds as there are files, rank r of K reads file (f * K
// + r) mod files; with more ranks than files, the index is shifted by another f * (K mod files).
// The order within a file depends on seed + r and the round.
//
// So K ranks read K files at a time, and with at most as many ranks as files each file once in as
// many consecutive visits as there are files, counted by rounds and in a round by ranks. If another
// number of ranks continues, they first share what is left of the passes that have begun, in that
// order (struct shard_rest), and then begin the next pass as ranks of their own number. So each
// visit is made once, whatever the numbers of ranks.
//
// shard_stream.h reads the files in this order; train/engine/feed_shards.c keeps the rest in a
// checkpoint.
#ifndef BERTH_DATA_SHARD_ORDER_H
#define BERTH_DATA_SHARD_ORDER_H

#include "core/error.h"
#include "data/pretraining/shard_list.h"

#include <stddef.h>
#include <stdint.h>

// Visits [first, end) of a run of `ranks` ranks, of the first of which `row` sequences were read.
// Visit f * ranks + r is that of rank r in round f, counted over all passes.
struct shard_range {
    int64_t first, end;
    int ranks;
    int64_t row;
    int64_t before; // visits in the ranges before this one
};
// What earlier numbers of ranks have left: of K ranks, rank r reads visits r, r + K, ... of all
// ranges, and then begins pass `pass`.
struct shard_rest {
    struct shard_range *items;
    size_t count, capacity;
    int64_t visits; // in all ranges
    int64_t pass;
};

struct shard_stream_settings {
    uint64_t seed;
    int32_t vocab_size;
    int max_length;      // as pretraining_read
    int max_predictions; // further masked tokens of a sequence are ignored
    int by_rank, rank, ranks;
    // > 0: each epoch (with by_rank: each file) is cut to a multiple of this number of sequences.
    int64_t batch;
    const struct shard_rest *rest; // with by_rank; NULL: none. Borrowed.
};

// The number of sequences in a pass through all files with these settings.
int64_t shard_stream_sequences(const struct shard_list *list,
                               const struct shard_stream_settings *settings);

struct shard_order {
    const struct shard_list *list;
    struct shard_stream_settings settings;
    uint32_t *files; // order of the files in epoch files_epoch
    int64_t files_epoch;
    int64_t last_visit, last_first; // by_rank: the visit found last, and its first sequence
};
// Borrows the list and settings->rest. shard_order_done may be called after a failure.
enum berth_status shard_order_init(struct shard_order *order, const struct shard_list *list,
                                   const struct shard_stream_settings *settings,
                                   struct berth_error *error);
void shard_order_done(struct shard_order *order);

// What visit number n of a stream is.
struct shard_visit {
    int64_t round; // counted over all passes; of the one stream of all ranks: over all epochs
    int rank, ranks;
    int64_t row; // sequences of the visit that were read before
};
struct shard_visit shard_order_visit(const struct shard_order *order, int64_t number);
// The index in the list of the file of a visit.
size_t shard_order_file(struct shard_order *order, const struct shard_visit *visit);
// The number of sequences that visit `number` still has.
int64_t shard_order_count(struct shard_order *order, int64_t number);
// The sequences of a visit to `file` in their order: numbers from 0 to `count`, that of the file.
void shard_order_rows(const struct shard_order *order, const struct shard_visit *visit, size_t file,
                      size_t count, uint32_t *rows);
// The visit that has sequence `index` of the stream, as its sequence *row of those that it still
// has.
int64_t shard_order_find(struct shard_order *order, int64_t index, int64_t *row);

// Makes the rest that ranks with `settings` (which may have a rest themselves, but whose rank is
// ignored) leave after each has read `taken` sequences. shard_rest_done frees it, also after a
// failure.
enum berth_status shard_rest_make(struct shard_rest *rest, const struct shard_list *list,
                                  const struct shard_stream_settings *settings, int64_t taken,
                                  struct berth_error *error);
// Appends a range, whose `before` it sets.
enum berth_status shard_rest_add(struct shard_rest *rest, struct shard_range range,
                                 struct berth_error *error);
void shard_rest_done(struct shard_rest *rest);

#endif
