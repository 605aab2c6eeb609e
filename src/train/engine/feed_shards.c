// SPDX-License-Identifier: Apache-2.0
// The feed of shards, which are read while the run computes: one stream of all ranks, or for each
// rank files of its own (--shard_order rank). It also writes what a checkpoint says of the shards,
// and continues from there, by rank also with another number of ranks. The order itself is that of
// data/pretraining/shard_order.h; feed.c has the other kinds of feed.
#include "core/memory.h"
#include "train/engine/feed.h"

#include <inttypes.h>
#include <string.h>

static int64_t min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// --- sizes --------------------------------------------------------------------------------------

static enum berth_status check_by_rank(const struct batching *batching,
                                       const struct batching_request *request, int64_t ranks,
                                       struct berth_error *error) {
    if (request->settings->virtual_ranks > 0) {
        return error_set(
            error, BERTH_CONFIG,
            "shard_order rank cannot be combined with virtual_ranks, because it makes the "
            "sequences of an update depend on the number of processes; omit one of them");
    }
    return batching->update_sequences % ranks == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "shard_order rank: train_batch_size %" PRId64
                           " is not a multiple of the number of processes, %" PRId64,
                           batching->update_sequences, ranks);
}

// The number of sequences of an update that this rank gets.
static int64_t own_sequences(const struct feed *feed, const struct batching *batching) {
    return feed->settings.by_rank ? batching->update_sequences / feed->settings.ranks
                                  : batching->update_sequences;
}

// Drops what remains of an epoch after its whole updates; of a rank's own files, what remains of
// each file after its whole micro-batches, if these are limited by sequences.
static enum berth_status drop_last(struct feed *feed, struct batching *batching,
                                   const struct batching_request *request,
                                   struct berth_error *error) {
    struct shard_stream_settings *settings = &feed->settings;
    const int counts_micro = settings->by_rank && batching->micro.tokens == INT64_MAX;
    settings->batch = counts_micro ? batching->micro.sequences : own_sequences(feed, batching);
    if (!settings->by_rank) {
        TRY(batching_drop_last(batching, request->settings, error));
    }
    batching->features = shard_stream_sequences(feed->shards, settings);
    return batching->features > 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "no shard has %" PRId64 " sequences, so dataloader_drop_last drops them "
                           "all; use a smaller train_batch_size",
                           settings->batch);
}

static enum berth_status resolve_shards(struct feed *feed, struct batching *batching,
                                        const struct batching_request *request,
                                        const struct comm *comm, struct berth_error *error) {
    struct shard_stream_settings *settings = &feed->settings;
    settings->by_rank = strcmp(request->settings->shard_order, "rank") == 0;
    settings->rank = comm->rank;
    settings->ranks = comm->size;
    TRY(batching_resolve(batching, request, feed->shards->sequences, comm->size, error));
    if (settings->by_rank) {
        TRY(check_by_rank(batching, request, comm->size, error));
    }
    if (request->settings->dataloader_drop_last) {
        TRY(drop_last(feed, batching, request, error));
    }
    TRY(batching_cross_epochs(batching, request->settings, feed->max_predictions, error));
    return shard_stream_open(feed->shards, settings, &feed->stream, error);
}

// Lengths are known only when sequences are read, so these are upper bounds.
static enum berth_status worst_of_shards(const struct feed *feed, const struct batching *batching,
                                         const struct batching_rank *rank,
                                         struct batching_worst *worst, struct berth_error *error) {
    const struct batch_extent *micro = &batching->micro;
    const int64_t parts = batching->parts, own_parts = parts / rank->size;
    int64_t all = micro->sequences * feed->max_length;
    int64_t tokens = micro->tokens > feed->max_length ? micro->tokens : feed->max_length;
    worst->micro = (struct batch_extent){
        .tokens = min(tokens, all),
        .sequences = micro->sequences,
        .masked = min(micro->masked, micro->sequences * feed->max_predictions),
        .max_length = feed->max_length,
    };
    worst->micro_batches =
        batching->accumulation > 0
            ? batching->accumulation
            : own_parts * divide_up(divide_up(batching->update_sequences, parts) * feed->max_length,
                                    tokens);
    return BERTH_OK;
}

uint64_t feed_shards_bytes(const struct feed *feed, const struct batching *batching) {
    return shard_stream_bytes(feed->shards, feed->settings.by_rank, own_sequences(feed, batching));
}

// --- updates ------------------------------------------------------------------------------------

// The sequences that each of `ranks` ranks has read before update `step`, since update `since`.
// After a rollback the data of the last update is followed by that of the first
// (progress_data_step); a rank has such data only beyond that of the last update.
static int64_t sequences_before(const struct batching *batching, int64_t step, int64_t since,
                                int64_t ranks) {
    const int64_t updates = step < since ? step + batching->total_steps - since : step - since;
    return updates * (batching->update_sequences / ranks);
}

static int64_t first_sequence(const struct feed *feed, const struct batching *batching,
                              int64_t step) {
    return feed->settings.by_rank
               ? sequences_before(batching, step, feed->rest_step, feed->settings.ranks)
               : step * batching->update_sequences;
}

static enum berth_status get_shards_update(struct feed *feed, const struct batching *batching,
                                           int64_t step, struct feed_update *update,
                                           struct berth_error *error) {
    struct shard_taken *taken = &feed->taken;
    const int64_t count = own_sequences(feed, batching);
    TRY(shard_stream_take(feed->stream, first_sequence(feed, batching, step), (size_t)count, taken,
                          error));
    *update = (struct feed_update){.source = &taken->source,
                                   .order = taken->order,
                                   .count = (size_t)count,
                                   .others = (size_t)(batching->update_sequences - count),
                                   .waited = taken->waited};
    return BERTH_OK;
}

// --- the record of a checkpoint -----------------------------------------------------------------

static json *record_files(const struct shard_list *shards) {
    json *files = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < shards->count; i++) {
        const struct shard *shard = &shards->items[i];
        failed |=
            json_append(files, JSON_OBJECT({"name", json_new_path(shard->name)},
                                           {"bytes", json_new_integer(shard->bytes)},
                                           {"sequences", json_new_integer(shard->sequences)}));
    }
    return json_unless_failed(files, failed);
}

static json *record_rest(const struct feed *feed) {
    const struct shard_rest *rest = &feed->rest;
    json *ranges = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < rest->count; i++) {
        const struct shard_range *range = &rest->items[i];
        failed |= json_append(ranges, JSON_OBJECT({"ranks", json_new_integer(range->ranks)},
                                                  {"first", json_new_integer(range->first)},
                                                  {"end", json_new_integer(range->end)},
                                                  {"row", json_new_integer(range->row)}));
    }
    return JSON_OBJECT({"update", json_new_integer(feed->rest_step)},
                       {"next_pass", json_new_integer(rest->pass)},
                       {"visits", json_unless_failed(ranges, failed)});
}

static json *record_shards(struct feed *feed, const struct batching *batching, int64_t step) {
    const struct shard_list *shards = feed->shards;
    const struct shard_stream_settings *settings = &feed->settings;
    const struct shard_position position =
        shard_stream_locate(feed->stream, first_sequence(feed, batching, step));
    const int has_rest = feed->rest.pass > 0;
    return JSON_OBJECT({settings->by_rank ? "ranks" : NULL, json_new_integer(settings->ranks)},
                       {settings->by_rank ? "batch" : NULL, json_new_integer(settings->batch)},
                       {has_rest ? "rest" : NULL, has_rest ? record_rest(feed) : NULL},
                       {"files", record_files(shards)},
                       {"next_epoch", json_new_integer(position.epoch)},
                       {"next_file", json_new_path(shards->items[position.file].name)},
                       {"next_row", json_new_integer(position.row)});
}

static enum berth_status check_file(const struct shard *shard, const json *file, size_t number,
                                    const char *path, struct berth_error *error) {
    const char *name = json_text(json_member(file, "name"));
    int64_t bytes = -1, sequences = -1;
    TRY(json_get_integer(file, path, "bytes", &bytes, error));
    TRY(json_get_integer(file, path, "sequences", &sequences, error));
    if (name != NULL && strcmp(name, shard->name) == 0 && bytes == shard->bytes &&
        sequences == shard->sequences) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: shard %zu of the run to resume was %s (%" PRId64 " bytes, %" PRId64
                     " sequences) and is now %s (%" PRId64 " bytes, %" PRId64
                     " sequences); resume with the same shards or start over",
                     path, number + 1, name != NULL ? name : "unnamed", bytes, sequences,
                     shard->path, shard->bytes, shard->sequences);
}

static enum berth_status check_files(const struct shard_list *shards,
                                     const struct feed_record *record, struct berth_error *error) {
    const json *files = json_member(record->object, "files");
    if (!json_is_array_value(files) || json_length(files) != shards->count) {
        return error_set(error, BERTH_CONFIG,
                         "%s: the run to resume had %zu shards, and there are now %zu; resume with "
                         "the same shards or start over",
                         record->path, json_is_array_value(files) ? json_length(files) : 0,
                         shards->count);
    }
    for (size_t i = 0; i < shards->count; i++) {
        TRY(check_file(&shards->items[i], json_at(files, i), i, record->path, error));
    }
    return BERTH_OK;
}

// --- continuing by rank -------------------------------------------------------------------------

static enum berth_status damaged(const struct feed_record *record, const char *what,
                                 struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA,
                     "%s: %s of the run's shards is impossible; resume from another checkpoint",
                     record->path, what);
}

// Visits belong to passes before the rest's next one, and their number fits into an index.
static int is_possible(const struct shard_range *range, const struct shard_rest *rest,
                       const struct feed *feed, int64_t ranks, int64_t most_ranks) {
    const int64_t files = (int64_t)feed->shards->count;
    return ranks > 0 && ranks <= most_ranks && range->first >= 0 && range->end > range->first &&
           range->row >= 0 && range->row <= feed->shards->sequences &&
           (range->end - 1) / ranks / files < rest->pass &&
           range->end - range->first <= UINT32_MAX - rest->visits;
}

static enum berth_status read_range(struct shard_rest *rest, const struct feed *feed,
                                    const json *object, int64_t most_ranks,
                                    const struct feed_record *record, struct berth_error *error) {
    struct shard_range range = {.first = -1, .end = -1, .row = -1};
    int64_t ranks = -1;
    TRY(json_get_integer(object, record->path, "ranks", &ranks, error));
    TRY(json_get_integer(object, record->path, "first", &range.first, error));
    TRY(json_get_integer(object, record->path, "end", &range.end, error));
    TRY(json_get_integer(object, record->path, "row", &range.row, error));
    if (!is_possible(&range, rest, feed, ranks, most_ranks)) {
        return damaged(record, "\"visits\" in the rest", error);
    }
    range.ranks = (int)ranks;
    return shard_rest_add(rest, range, error);
}

// Reads the rest that the run to resume began with; without one it began with pass 0.
static enum berth_status read_rest(struct feed *feed, const struct batching *batching,
                                   const struct feed_record *record, struct berth_error *error) {
    const json *object = json_member(record->object, "rest");
    struct shard_rest *rest = &feed->rest;
    shard_rest_done(rest);
    feed->rest_step = 0;
    if (object == NULL) {
        return BERTH_OK;
    }
    const json *visits = json_member(object, "visits");
    feed->rest_step = rest->pass = -1;
    TRY(json_get_integer(object, record->path, "update", &feed->rest_step, error));
    TRY(json_get_integer(object, record->path, "next_pass", &rest->pass, error));
    if (!json_is_array_value(visits) || rest->pass < 1 || feed->rest_step < 0 ||
        rest->pass > INT64_MAX / INT32_MAX / (int64_t)feed->shards->count) {
        return damaged(record, "\"rest\"", error);
    }
    for (size_t i = 0; i < json_length(visits); i++) {
        TRY(read_range(rest, feed, json_at(visits, i), min(batching->update_sequences, INT32_MAX),
                       record, error));
    }
    return BERTH_OK;
}

// A file cut to whole batches of another size has another end, so positions in it would not fit.
// Before "batch" was recorded only the same number of processes could resume.
static enum berth_status check_batch(const struct feed *feed, int64_t ranks,
                                     const struct feed_record *record, struct berth_error *error) {
    const int64_t now = feed->settings.batch;
    int64_t then = ranks == feed->settings.ranks ? now : 0;
    TRY(json_get_integer(record->object, record->path, "batch", &then, error));
    if (then == now) {
        return BERTH_OK;
    }
    return then == 0
               ? error_set(error, BERTH_CONFIG,
                           "%s: key \"batch\" is missing, so with shard_order rank and "
                           "dataloader_drop_last the run must be resumed with the same number of "
                           "processes: expected %" PRId64 ", found %d",
                           record->path, ranks, feed->settings.ranks)
               : error_set(error, BERTH_CONFIG,
                           "%s: with shard_order rank and dataloader_drop_last, %" PRId64
                           " processes cut the files to multiples of %" PRId64
                           " sequences, and %d processes would cut them to multiples of %" PRId64
                           "; give the per_device_train_batch_size %" PRId64
                           ", or resume with %" PRId64 " processes",
                           record->path, ranks, then, feed->settings.ranks, now, then, ranks);
}

// Another number of ranks continues: what the ranks of the record have left becomes the rest.
static enum berth_status take_over(struct feed *feed, const struct batching *batching, int64_t step,
                                   int64_t ranks, const struct feed_record *record,
                                   struct berth_error *error) {
    struct shard_stream_settings then = feed->settings;
    struct shard_rest earlier = feed->rest;
    if (ranks < 1 || ranks > INT32_MAX || batching->update_sequences % ranks != 0) {
        return damaged(record, "\"ranks\"", error);
    }
    feed->rest = (struct shard_rest){0};
    then.ranks = (int)ranks;
    then.rest = &earlier;
    const enum berth_status status =
        shard_rest_make(&feed->rest, feed->shards, &then,
                        sequences_before(batching, step, feed->rest_step, ranks), error);
    shard_rest_done(&earlier);
    feed->rest_step = step;
    log_note(record->log,
             "resume: %d processes share the files that %" PRId64
             " processes have left of pass %" PRId64 " through the shards",
             feed->settings.ranks, ranks, feed->rest.pass);
    return status;
}

static enum berth_status restore_shards(struct feed *feed, const struct batching *batching,
                                        int64_t step, const struct feed_record *record,
                                        struct berth_error *error) {
    int64_t ranks = 0;
    if (!feed->settings.by_rank) {
        return check_files(feed->shards, record, error);
    }
    TRY(json_get_integer(record->object, record->path, "ranks", &ranks, error));
    TRY(check_files(feed->shards, record, error));
    TRY(check_batch(feed, ranks, record, error));
    TRY(read_rest(feed, batching, record, error));
    if (ranks != feed->settings.ranks) {
        TRY(take_over(feed, batching, step, ranks, record, error));
    }
    feed->settings.rest = &feed->rest;
    shard_stream_close(feed->stream);
    return shard_stream_open(feed->shards, &feed->settings, &feed->stream, error);
}

static const struct feed_ops shards_ops = {.resolve = resolve_shards,
                                           .find_worst = worst_of_shards,
                                           .get_update = get_shards_update,
                                           .record = record_shards,
                                           .restore = restore_shards};

// --- opening, and listing the files -------------------------------------------------------------

void feed_open_shards(struct feed *feed, const struct shard_list *shards,
                      const struct shard_stream_settings *settings) {
    *feed = (struct feed){
        .ops = &shards_ops,
        .shards = shards,
        .settings = *settings,
        .max_length = shards->length,
        .max_predictions = min(shards->predictions, settings->max_predictions),
    };
}

enum berth_status feed_list_files(struct feed *feed, const struct batching *batching, int64_t step,
                                  struct feed_files *files, struct berth_error *error) {
    *files = (struct feed_files){0};
    if (feed->shards == NULL) {
        return BERTH_OK;
    }
    const size_t count = feed->shards->count;
    const struct shard_position position =
        shard_stream_locate(feed->stream, first_sequence(feed, batching, step));
    files->paths = memory_array(count, sizeof *files->paths);
    if (files->paths == NULL) {
        return error_no_memory(error, count * sizeof *files->paths, "the list of shards");
    }
    files->epoch = position.epoch;
    files->current = position.visit;
    files->count = count;
    for (size_t i = 0; i < count; i++) {
        const size_t file = shard_stream_file(feed->stream, &position, i);
        files->paths[i] = feed->shards->items[file].path;
    }
    return BERTH_OK;
}
