// SPDX-License-Identifier: Apache-2.0
// The order of the files and of their sequences, for one stream of all ranks and for ranks that
// read files of their own, and what such ranks leave to another number of ranks. Nothing is read
// here: shard_stream.c asks which visit comes next.
#include "data/pretraining/shard_order.h"

#include "core/memory.h"
#include "data/batches/packer.h"
#include "data/pretraining/python_random.h"

#include <string.h>

enum berth_status shard_order_init(struct shard_order *order, const struct shard_list *list,
                                   const struct shard_stream_settings *settings,
                                   struct berth_error *error) {
    *order = (struct shard_order){.list = list, .settings = *settings, .files_epoch = -1};
    order->files = memory_array(list->count, sizeof *order->files);
    return order->files != NULL
               ? BERTH_OK
               : error_no_memory(error, list->count * sizeof *order->files, "the shards' order");
}

void shard_order_done(struct shard_order *order) {
    memory_free(order->files);
    *order = (struct shard_order){0};
}

// --- visits -------------------------------------------------------------------------------------

// The visits of the rest that are those of rank `rank` of `ranks`.
static int64_t share_of_rest(const struct shard_rest *rest, int64_t rank, int64_t ranks) {
    return rest != NULL && rest->visits > rank ? (rest->visits - rank + ranks - 1) / ranks : 0;
}

static struct shard_visit visit_of_rest(const struct shard_rest *rest, int64_t number) {
    size_t low = 0, high = rest->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (rest->items[middle].before <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const struct shard_range *range = &rest->items[low];
    const int64_t visit = range->first + (number - range->before);
    return (struct shard_visit){.round = visit / range->ranks,
                                .rank = (int)(visit % range->ranks),
                                .ranks = range->ranks,
                                .row = visit == range->first ? range->row : 0};
}

struct shard_visit shard_order_visit(const struct shard_order *order, int64_t number) {
    const struct shard_stream_settings *settings = &order->settings;
    const struct shard_rest *rest = settings->rest;
    if (!settings->by_rank) {
        return (struct shard_visit){.round = number, .ranks = 1};
    }
    const int64_t first = share_of_rest(rest, settings->rank, settings->ranks);
    if (number < first) {
        return visit_of_rest(rest, settings->rank + number * settings->ranks);
    }
    const int64_t pass = rest != NULL ? rest->pass : 0;
    return (struct shard_visit){.round = pass * (int64_t)order->list->count + number - first,
                                .rank = settings->rank,
                                .ranks = settings->ranks};
}

static void shuffle_files(struct shard_order *order, int64_t epoch) {
    const size_t count = order->list->count;
    struct python_random random;
    if (!order->settings.by_rank) {
        packer_shuffle(order->settings.seed, epoch, count, order->files);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        order->files[i] = (uint32_t)i;
    }
    python_random_seed(&random, order->settings.seed + (uint64_t)epoch);
    python_random_shuffle(&random, order->files, count);
}

// The index of a visit's file in the order of its epoch.
static int64_t index_in_order(const struct shard_order *order, const struct shard_visit *visit) {
    const int64_t count = (int64_t)order->list->count, round = visit->round % count;
    const int64_t ranks = visit->ranks, shift = ranks > count ? round * (ranks % count) : 0;
    return order->settings.by_rank ? (round * ranks + visit->rank + shift) % count : round;
}

size_t shard_order_file(struct shard_order *order, const struct shard_visit *visit) {
    const int64_t epoch = visit->round / (int64_t)order->list->count;
    if (epoch != order->files_epoch) {
        shuffle_files(order, epoch);
        order->files_epoch = epoch;
    }
    return order->files[index_in_order(order, visit)];
}

// Independent of the order of the files and of the other files' permutations.
void shard_order_rows(const struct shard_order *order, const struct shard_visit *visit, size_t file,
                      size_t count, uint32_t *rows) {
    const struct shard_stream_settings *settings = &order->settings;
    const uint64_t seed = settings->seed + (uint64_t)visit->rank;
    const int64_t epoch = visit->round / (int64_t)order->list->count;
    packer_shuffle(seed ^ UINT64_C(0x9E3779B97F4A7C15) * ((uint64_t)file + 1),
                   settings->by_rank ? visit->round : epoch, count, rows);
}

// --- sequences ----------------------------------------------------------------------------------

static int64_t whole_batches(int64_t sequences, int64_t batch) {
    return batch > 0 ? sequences - sequences % batch : sequences;
}

int64_t shard_stream_sequences(const struct shard_list *list,
                               const struct shard_stream_settings *settings) {
    int64_t sum = 0;
    for (size_t i = 0; i < list->count; i++) {
        sum += whole_batches(list->items[i].sequences, settings->batch);
    }
    return settings->by_rank ? sum : whole_batches(list->sequences, settings->batch);
}

static int64_t file_sequences(struct shard_order *order, const struct shard_visit *visit) {
    return order->list->items[shard_order_file(order, visit)].sequences;
}

int64_t shard_order_count(struct shard_order *order, int64_t number) {
    const struct shard_visit visit = shard_order_visit(order, number);
    const int64_t own = file_sequences(order, &visit);
    if (order->settings.by_rank) {
        const int64_t left = whole_batches(own, order->settings.batch) - visit.row;
        return left > 0 ? left : 0;
    }
    int64_t left = shard_stream_sequences(order->list, &order->settings);
    for (int64_t i = number - number % (int64_t)order->list->count; i < number; i++) {
        const struct shard_visit before = shard_order_visit(order, i);
        left -= file_sequences(order, &before);
    }
    return left < 0 ? 0 : left < own ? left : own;
}

static int64_t find_in_epoch(struct shard_order *order, int64_t index, int64_t *row) {
    const int64_t all = shard_stream_sequences(order->list, &order->settings);
    int64_t number = index / all * (int64_t)order->list->count, rest = index % all;
    for (;; number++) {
        const struct shard_visit visit = shard_order_visit(order, number);
        const int64_t own = file_sequences(order, &visit);
        if (rest < own) {
            *row = rest;
            return number;
        }
        rest -= own;
    }
}

// The passes of a rank differ in length, so the search continues from the visit found last.
static int64_t find_of_rank(struct shard_order *order, int64_t index, int64_t *row) {
    if (index < order->last_first) {
        order->last_visit = order->last_first = 0;
    }
    for (;; order->last_visit++) {
        const int64_t own = shard_order_count(order, order->last_visit);
        if (index - order->last_first < own) {
            *row = index - order->last_first;
            return order->last_visit;
        }
        order->last_first += own;
    }
}

int64_t shard_order_find(struct shard_order *order, int64_t index, int64_t *row) {
    return order->settings.by_rank ? find_of_rank(order, index, row)
                                   : find_in_epoch(order, index, row);
}

// --- the rest -----------------------------------------------------------------------------------

enum berth_status shard_rest_add(struct shard_rest *rest, struct shard_range range,
                                 struct berth_error *error) {
    struct shard_range *items =
        memory_grow(rest->items, &rest->capacity, rest->count + 1, sizeof *items);
    if (items == NULL) {
        return error_no_memory(error, (rest->count + 1) * sizeof *items, "positions in shards");
    }
    range.before = rest->visits;
    rest->items = items;
    rest->items[rest->count++] = range;
    rest->visits += range.end - range.first;
    return BERTH_OK;
}

void shard_rest_done(struct shard_rest *rest) {
    memory_free(rest->items);
    *rest = (struct shard_rest){0};
}

// Where a rank stands: the number of its visit, and the sequences of it that were read.
struct standing {
    int64_t number, row;
};

struct rest_making {
    struct shard_order order;
    struct standing *ranks; // [order.settings.ranks]
    int64_t pass;           // the first that no rank has begun
    struct shard_rest *rest;
};

static void find_standings(struct rest_making *making, int64_t taken) {
    struct shard_order *order = &making->order;
    const struct shard_rest *earlier = order->settings.rest;
    making->pass = earlier != NULL ? earlier->pass : 0;
    for (int rank = 0; rank < order->settings.ranks; rank++) {
        struct standing *own = &making->ranks[rank];
        order->settings.rank = rank;
        order->last_visit = order->last_first = 0;
        own->number = shard_order_find(order, taken, &own->row);
        const int64_t last = own->row > 0 ? own->number : own->number - 1; // that has begun
        if (last >= share_of_rest(earlier, rank, order->settings.ranks)) {
            const struct shard_visit visit = shard_order_visit(order, last);
            const int64_t next = visit.round / (int64_t)order->list->count + 1;
            making->pass = next > making->pass ? next : making->pass;
        }
    }
}

// Adds visit `number` of a rank, unless the rank has finished it.
static enum berth_status add_visit(struct rest_making *making, int rank, int64_t number,
                                   struct berth_error *error) {
    const struct standing *own = &making->ranks[rank];
    struct shard_rest *rest = making->rest;
    if (number < own->number) {
        return BERTH_OK;
    }
    making->order.settings.rank = rank;
    const struct shard_visit visit = shard_order_visit(&making->order, number);
    const int64_t first = visit.round * visit.ranks + visit.rank;
    const int64_t row = visit.row + (number == own->number ? own->row : 0);
    struct shard_range *last = rest->count > 0 ? &rest->items[rest->count - 1] : NULL;
    if (last != NULL && row == 0 && last->ranks == visit.ranks && last->end == first) {
        last->end++;
        rest->visits++;
        return BERTH_OK;
    }
    return shard_rest_add(
        rest,
        (struct shard_range){.first = first, .end = first + 1, .ranks = visit.ranks, .row = row},
        error);
}

static enum berth_status add_visits(struct rest_making *making, struct berth_error *error) {
    const struct shard_rest *earlier = making->order.settings.rest;
    const int ranks = making->order.settings.ranks;
    const int64_t before = earlier != NULL ? earlier->visits : 0;
    const int64_t passes = making->pass - (earlier != NULL ? earlier->pass : 0);
    const int64_t rounds = passes * (int64_t)making->order.list->count;
    for (int64_t i = 0; i < before; i++) {
        TRY(add_visit(making, (int)(i % ranks), i / ranks, error));
    }
    for (int64_t round = 0; round < rounds; round++) {
        for (int rank = 0; rank < ranks; rank++) {
            TRY(add_visit(making, rank, share_of_rest(earlier, rank, ranks) + round, error));
        }
    }
    making->rest->pass = making->pass;
    return BERTH_OK;
}

enum berth_status shard_rest_make(struct shard_rest *rest, const struct shard_list *list,
                                  const struct shard_stream_settings *settings, int64_t taken,
                                  struct berth_error *error) {
    struct rest_making making = {.rest = rest};
    const size_t ranks = (size_t)settings->ranks;
    *rest = (struct shard_rest){0};
    enum berth_status status = shard_order_init(&making.order, list, settings, error);
    making.ranks = memory_array(ranks, sizeof *making.ranks);
    if (status == BERTH_OK && making.ranks == NULL) {
        status = error_no_memory(error, ranks * sizeof *making.ranks, "the ranks' positions");
    }
    if (status == BERTH_OK) {
        find_standings(&making, taken);
        status = add_visits(&making, error);
    }
    memory_free(making.ranks);
    shard_order_done(&making.order);
    return status;
}
