// SPDX-License-Identifier: Apache-2.0
// Three of the four kinds of feed, one section each: features in memory, several data sets in turn,
// and text whose masks are drawn for each update; shards are in feed_shards.c. Each answers which
// sequences update n has; making batches of them is left to update_split.c and the packer.
#include "train/engine/feed.h"

#include "core/check.h"
#include "core/checksum.h"
#include "core/memory.h"
#include "data/batches/epoch_order.h"

#include <inttypes.h>

static int64_t min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// --- features in memory -------------------------------------------------------------------------

static enum berth_status resolve_source(struct feed *feed, struct batching *batching,
                                        const struct batching_request *request,
                                        const struct comm *comm, struct berth_error *error) {
    TRY(batching_resolve(batching, request, (int64_t)feed->source.count, comm->size, error));
    TRY(batching_round_to_groups(batching, request->settings, (int64_t)packer_group(&feed->source),
                                 comm->size, error));
    return request->settings->dataloader_drop_last
               ? batching_drop_last(batching, request->settings, error)
               : BERTH_OK;
}

static enum berth_status worst_of_source(const struct feed *feed, const struct batching *batching,
                                         const struct batching_rank *rank,
                                         struct batching_worst *worst, struct berth_error *error) {
    return batching_find_worst(batching, &feed->source, rank, worst, error);
}

static enum berth_status get_source_update(struct feed *feed, const struct batching *batching,
                                           int64_t step, struct feed_update *update,
                                           struct berth_error *error) {
    struct update_slice slice = batching_slice(batching, step);
    if (slice.epoch != feed->order_epoch) {
        feed->order_epoch = -1;
        TRY(epoch_order_make(&feed->source, batching->seed, slice.epoch, feed->order, error));
        feed->order_epoch = slice.epoch;
    }
    *update = (struct feed_update){
        .source = &feed->source, .order = feed->order + slice.first, .count = slice.count};
    return BERTH_OK;
}

static const struct feed_ops source_ops = {
    .resolve = resolve_source, .find_worst = worst_of_source, .get_update = get_source_update};

enum berth_status feed_open_source(struct feed *feed, const struct packer_source *source,
                                   struct berth_error *error) {
    *feed = (struct feed){.ops = &source_ops,
                          .source = *source,
                          .checksum = packer_checksum(source),
                          .order_epoch = -1};
    feed->order = memory_array(source->count, sizeof *feed->order);
    return feed->order != NULL
               ? BERTH_OK
               : error_no_memory(error, source->count * sizeof *feed->order, "an epoch's order");
}

// --- several data sets
// ----------------------------------------------------------------------------

// The set's own part of the resolved sizes.
static enum berth_status resolve_set(struct feed_set *set, const struct batching *all,
                                     int64_t number, const struct engine_settings *settings,
                                     struct berth_error *error) {
    struct batching *own = &set->batching;
    const int64_t count = (int64_t)set->feed.source.count;
    *own = *all;
    own->seed += (uint64_t)number << 32; // sets of one size have orders of their own
    own->features = count;
    own->updates_per_epoch = settings->dataloader_drop_last
                                 ? count / all->update_sequences
                                 : divide_up(count, all->update_sequences);
    return own->updates_per_epoch > 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s has %" PRId64 " examples, fewer than the %" PRId64
                           " of an update, so dataloader_drop_last drops them all; use a smaller "
                           "train_batch_size",
                           set->name, count, all->update_sequences);
}

static int64_t updates_of_sets(const struct feed *feed) {
    int64_t sum = 0, least = INT64_MAX;
    for (size_t i = 0; i < feed->set_count; i++) {
        const int64_t own = feed->sets[i].batching.updates_per_epoch;
        sum += own;
        least = min(least, own);
    }
    return feed->in_turn ? least * (int64_t)feed->set_count : sum;
}

static enum berth_status resolve_sets(struct feed *feed, struct batching *batching,
                                      const struct batching_request *request,
                                      const struct comm *comm, struct berth_error *error) {
    const struct engine_settings *settings = request->settings;
    TRY(batching_resolve(batching, request, (int64_t)feed->source.count, comm->size, error));
    for (size_t i = 0; i < feed->set_count; i++) {
        TRY(batching_round_to_groups(batching, settings,
                                     (int64_t)packer_group(&feed->sets[i].feed.source), comm->size,
                                     error));
    }
    for (size_t i = 0; i < feed->set_count; i++) {
        TRY(resolve_set(&feed->sets[i], batching, (int64_t)i, settings, error));
    }
    const size_t updates = (size_t)updates_of_sets(feed);
    memory_free(feed->turns);
    memory_free(feed->places);
    feed->order_epoch = -1;
    feed->turns = memory_array(updates, sizeof *feed->turns);
    feed->places = memory_array(updates, sizeof *feed->places);
    return feed->turns != NULL && feed->places != NULL
               ? batching_mix(batching, settings, (int64_t)updates, error)
               : error_no_memory(error, updates * 2 * sizeof *feed->turns, "an epoch's order");
}

// At most as many epochs of each set as the run has.
static enum berth_status worst_of_sets(const struct feed *feed, const struct batching *batching,
                                       const struct batching_rank *rank,
                                       struct batching_worst *worst, struct berth_error *error) {
    const int64_t epochs = divide_up(batching->total_steps, batching->updates_per_epoch);
    *worst = (struct batching_worst){0};
    for (size_t i = 0; i < feed->set_count; i++) {
        struct batching own = feed->sets[i].batching;
        struct batching_worst found;
        own.total_steps = epochs * own.updates_per_epoch;
        TRY(batching_find_worst(&own, &feed->sets[i].feed.source, rank, &found, error));
        worst->micro = batch_extent_larger(&worst->micro, &found.micro);
        worst->micro_batches =
            worst->micro_batches > found.micro_batches ? worst->micro_batches : found.micro_batches;
    }
    return BERTH_OK;
}

// Proportional: a permutation of all updates, set after set.
static void make_turns(struct feed *feed, uint64_t seed, int64_t epoch) {
    const size_t updates = (size_t)updates_of_sets(feed);
    packer_shuffle(~seed, epoch, updates, feed->places);
    for (size_t i = 0; i < updates; i++) {
        uint32_t place = feed->places[i], set = 0;
        if (feed->in_turn) {
            feed->turns[i] = (uint32_t)(i % feed->set_count);
            feed->places[i] = (uint32_t)(i / feed->set_count);
            continue;
        }
        for (; place >= feed->sets[set].batching.updates_per_epoch; set++) {
            place -= (uint32_t)feed->sets[set].batching.updates_per_epoch;
        }
        feed->turns[i] = set;
        feed->places[i] = place;
    }
    feed->order_epoch = epoch;
}

static enum berth_status get_sets_update(struct feed *feed, const struct batching *batching,
                                         int64_t step, struct feed_update *update,
                                         struct berth_error *error) {
    const int64_t epoch = step / batching->updates_per_epoch;
    const int64_t at = step % batching->updates_per_epoch;
    if (epoch != feed->order_epoch) {
        make_turns(feed, batching->seed, epoch);
    }
    struct feed_set *set = &feed->sets[feed->turns[at]];
    return get_source_update(&set->feed, &set->batching,
                             epoch * set->batching.updates_per_epoch + feed->places[at], update,
                             error);
}

static const struct feed_ops sets_ops = {
    .resolve = resolve_sets, .find_worst = worst_of_sets, .get_update = get_sets_update};

enum berth_status feed_open_sets(struct feed *feed, const struct packer_source *sources,
                                 const char *const *names, size_t count, enum feed_mixing mixing,
                                 struct berth_error *error) {
    *feed =
        (struct feed){.ops = &sets_ops, .in_turn = mixing == FEED_ROUND_ROBIN, .order_epoch = -1};
    feed->sets = memory_array_zeroed(count, sizeof *feed->sets);
    if (feed->sets == NULL) {
        return error_no_memory(error, count * sizeof *feed->sets, "the data sets");
    }
    for (size_t i = 0; i < count; i++) {
        struct feed_set *set = &feed->sets[feed->set_count++];
        set->name = names[i];
        TRY(feed_open_source(&set->feed, &sources[i], error));
        feed->source.count += sources[i].count;
        feed->checksum = checksum_add(feed->checksum, set->feed.checksum);
    }
    return BERTH_OK;
}

// --- text in memory -----------------------------------------------------------------------------

// Implements text_ops.find_worst: any token may be masked.
static enum berth_status worst_of_text(const struct feed *feed, const struct batching *batching,
                                       const struct batching_rank *rank,
                                       struct batching_worst *worst, struct berth_error *error) {
    TRY(worst_of_source(feed, batching, rank, worst, error));
    worst->micro.masked = worst->micro.tokens;
    return BERTH_OK;
}

// The source is a masked copy of the update's sequences, in order.
static enum berth_status get_text_update(struct feed *feed, const struct batching *batching,
                                         int64_t step, struct feed_update *update,
                                         struct berth_error *error) {
    struct feed_update plain;
    TRY(get_source_update(feed, batching, step, &plain, error));
    const struct word_mask_choice choice = {
        .epoch = (uint32_t)feed->order_epoch, .order = plain.order, .count = plain.count};
    TRY(word_masks_draw(&feed->masks, &choice, feed->threads, error));
    feed->copies =
        (struct packer_source){.get = word_masks_get, .data = &feed->masks, .count = plain.count};
    *update = (struct feed_update){
        .source = &feed->copies, .order = feed->copy_order, .count = plain.count};
    return BERTH_OK;
}

static const struct feed_ops text_ops = {
    .resolve = resolve_source, .find_worst = worst_of_text, .get_update = get_text_update};

enum berth_status feed_open_text(struct feed *feed, const struct text_sequences *text,
                                 const struct word_mask_rules *rules, int threads,
                                 struct berth_error *error) {
    const struct packer_source source = {
        .get = text_sequences_get, .data = text, .count = text->count};
    TRY(feed_open_source(feed, &source, error));
    feed->ops = &text_ops;
    feed->masks = (struct word_masks){.all = text, .rules = *rules};
    feed->threads = threads;
    feed->max_length = (int64_t)text->longest;
    feed->copy_order = memory_array(text->count, sizeof *feed->copy_order);
    if (feed->copy_order == NULL) {
        return error_no_memory(error, text->count * sizeof *feed->copy_order, "an update's order");
    }
    for (size_t i = 0; i < text->count; i++) {
        feed->copy_order[i] = (uint32_t)i;
    }
    return BERTH_OK;
}

// --- every feed ---------------------------------------------------------------------------------

void feed_done(struct feed *feed) {
    for (size_t i = 0; i < feed->set_count; i++) {
        memory_free(feed->sets[i].feed.order);
    }
    memory_free(feed->sets);
    memory_free(feed->turns);
    memory_free(feed->places);
    memory_free(feed->order);
    memory_free(feed->copy_order);
    word_masks_done(&feed->masks);
    shard_stream_close(feed->stream);
    shard_rest_done(&feed->rest);
    *feed = (struct feed){0};
}

const char *feed_check(const struct feed *feed) {
    const int is_of_sets = feed->set_count > 0, is_of_shards = feed->shards != NULL;
    const int is_of_text = feed->masks.all != NULL;
    CLAUSE(feed->ops != NULL && feed->ops->resolve != NULL && feed->ops->find_worst != NULL &&
               feed->ops->get_update != NULL,
           "a feed resolves its sizes, knows its largest micro-batch and returns updates");
    CLAUSE((feed->order != NULL) + is_of_sets + is_of_shards == 1,
           "a feed is of one source, of several data sets, or of shards");
    CLAUSE((feed->ops->record != NULL) == is_of_shards &&
               (feed->ops->restore != NULL) == is_of_shards,
           "only shards have a position of their own to record and restore");
    CLAUSE((feed->copy_order != NULL) == is_of_text && (!is_of_text || feed->threads > 0),
           "text has an order of its masked copies, and threads that make them");
    CLAUSE(!is_of_shards || (feed->checksum == 0 && feed->source.count == 0),
           "shards are not in memory");
    CLAUSE(feed->order_epoch >= -1, "the order is of an epoch, or of none yet");
    for (size_t i = 0; i < feed->set_count; i++) {
        CLAUSE(feed->sets[i].name != NULL && feed->sets[i].feed.order != NULL,
               "each data set has a name and is in memory");
    }
    return NULL;
}

uint64_t feed_bytes(const struct feed *feed, const struct batching *batching) {
    if (feed->shards != NULL) {
        return feed_shards_bytes(feed, batching);
    }
    const int64_t sequences = min(batching->update_sequences, (int64_t)feed->source.count);
    return feed->masks.all != NULL
               ? word_masks_bytes((uint64_t)sequences, (uint64_t)(sequences * feed->max_length))
               : 0;
}
