// SPDX-License-Identifier: Apache-2.0
#include "train/engine/feed.h"

#include "core/memory.h"

#include <inttypes.h>
#include <string.h>

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// --- features in memory -------------------------------------------------------------------------

static enum berth_status resolve_source(const struct feed *feed, struct batching *batching,
                                        const struct berth_config *config, int64_t ranks,
                                        struct berth_error *error) {
    return batching_resolve(batching, config, (int64_t)feed->source.count, ranks, error);
}

static enum berth_status worst_of_source(const struct feed *feed, const struct batching *batching,
                                         const struct batching_rank *rank,
                                         struct batching_worst *worst, struct berth_error *error) {
    return batching_find_worst(batching, &feed->source, rank, worst, error);
}

static enum berth_status take_source(struct feed *feed, const struct batching *batching,
                                     int64_t step, struct feed_update *update,
                                     struct berth_error *error) {
    (void)error;
    struct update_place place = batching_place(batching, step);
    if (place.epoch != feed->order_epoch) {
        packer_shuffle(batching->seed, place.epoch, feed->source.count, feed->order);
        feed->order_epoch = place.epoch;
    }
    *update = (struct feed_update){
        .source = &feed->source, .order = feed->order + place.first, .count = place.count};
    return BERTH_OK;
}

static json *no_record(struct feed *feed, const struct batching *batching, int64_t step) {
    (void)feed;
    (void)batching;
    (void)step;
    return NULL;
}

static enum berth_status check_nothing(const struct feed *feed, const json *record,
                                       const char *path, struct berth_error *error) {
    (void)feed;
    (void)record;
    (void)path;
    (void)error;
    return BERTH_OK;
}

static const struct feed_kind source_kind = {.resolve = resolve_source,
                                             .find_worst = worst_of_source,
                                             .take = take_source,
                                             .record = no_record,
                                             .check = check_nothing};

enum berth_status feed_open_source(struct feed *feed, const struct packer_source *source,
                                   struct berth_error *error) {
    *feed = (struct feed){.kind = &source_kind, .source = *source, .order_epoch = -1};
    feed->order = memory_array(source->count, sizeof *feed->order);
    return feed->order != NULL
               ? BERTH_OK
               : error_no_memory(error, source->count * sizeof *feed->order, "an epoch's order");
}

// --- shards -------------------------------------------------------------------------------------

static enum berth_status resolve_shards(const struct feed *feed, struct batching *batching,
                                        const struct berth_config *config, int64_t ranks,
                                        struct berth_error *error) {
    TRY(batching_resolve(batching, config, feed->shards->sequences, ranks, error));
    return batching_run_on(batching, config, feed->max_predictions, error);
}

// The lengths of sequences are known only when they are read, so these are bounds.
static enum berth_status worst_of_shards(const struct feed *feed, const struct batching *batching,
                                         const struct batching_rank *rank,
                                         struct batching_worst *worst, struct berth_error *error) {
    (void)rank;
    (void)error;
    const struct batch_extent *micro = &batching->micro;
    int64_t all = micro->sequences * feed->max_length;
    int64_t tokens = micro->tokens > feed->max_length ? micro->tokens : feed->max_length;
    worst->micro = (struct batch_extent){
        .tokens = smaller(tokens, all),
        .sequences = micro->sequences,
        .masked = smaller(micro->masked, micro->sequences * feed->max_predictions),
        .max_length = feed->max_length,
    };
    worst->micro_batches =
        batching->accumulation > 0
            ? batching->accumulation
            : (batching->update_sequences * feed->max_length + tokens - 1) / tokens;
    return BERTH_OK;
}

static enum berth_status take_shards(struct feed *feed, const struct batching *batching,
                                     int64_t step, struct feed_update *update,
                                     struct berth_error *error) {
    struct shard_taken *taken = &feed->taken;
    size_t count = (size_t)batching->update_sequences;
    TRY(shard_stream_take(feed->stream, step * batching->update_sequences, count, taken, error));
    *update = (struct feed_update){
        .source = &taken->source, .order = taken->order, .count = count, .waited = taken->waited};
    return BERTH_OK;
}

static json *record_shards(struct feed *feed, const struct batching *batching, int64_t step) {
    const struct shard_list *shards = feed->shards;
    struct shard_place place = shard_stream_place(feed->stream, step * batching->update_sequences);
    json *record = json_new_object(), *files = json_new_array();
    for (size_t i = 0; i < shards->count; i++) {
        json *file = json_new_object();
        json_set(file, "name", json_new_text(shards->items[i].name));
        json_set(file, "bytes", json_new_integer(shards->items[i].bytes));
        json_set(file, "sequences", json_new_integer(shards->items[i].sequences));
        json_append(files, file);
    }
    json_set(record, "files", files);
    json_set(record, "next_epoch", json_new_integer(place.epoch));
    json_set(record, "next_file", json_new_text(shards->items[place.file].name));
    json_set(record, "next_row", json_new_integer(place.row));
    return record;
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

static enum berth_status check_shards(const struct feed *feed, const json *record, const char *path,
                                      struct berth_error *error) {
    const json *files = json_member(record, "files");
    const struct shard_list *shards = feed->shards;
    if (!json_is_array_value(files) || json_length(files) != shards->count) {
        return error_set(error, BERTH_CONFIG,
                         "%s: the run to resume had %zu shards, and there are now %zu; resume with "
                         "the same shards or start over",
                         path, json_is_array_value(files) ? json_length(files) : 0, shards->count);
    }
    for (size_t i = 0; i < shards->count; i++) {
        TRY(check_file(&shards->items[i], json_at(files, i), i, path, error));
    }
    return BERTH_OK;
}

static const struct feed_kind shards_kind = {.resolve = resolve_shards,
                                             .find_worst = worst_of_shards,
                                             .take = take_shards,
                                             .record = record_shards,
                                             .check = check_shards};

enum berth_status feed_open_shards(struct feed *feed, const struct shard_list *shards,
                                   const struct shard_stream_settings *settings,
                                   struct berth_error *error) {
    *feed = (struct feed){
        .kind = &shards_kind,
        .shards = shards,
        .max_length = shards->length,
        .max_predictions = smaller(shards->predictions, settings->max_predictions),
    };
    return shard_stream_open(shards, settings, &feed->stream, error);
}

// --- both ---------------------------------------------------------------------------------------

void feed_done(struct feed *feed) {
    memory_free(feed->order);
    shard_stream_close(feed->stream);
    *feed = (struct feed){0};
}

uint64_t feed_bytes(const struct feed *feed, const struct batching *batching) {
    return feed->shards != NULL ? shard_stream_bytes(feed->shards, batching->update_sequences) : 0;
}
