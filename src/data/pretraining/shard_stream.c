// SPDX-License-Identifier: Apache-2.0
// Streams sequences from shards. The caller's thread decides which file is needed next; a reader
// thread reads one file at a time. The feed of a training takes the sequences of each update from
// it (train/engine/feed.c).
#include "data/pretraining/shard_stream.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread.h"
#include "data/pretraining/instances.h"

#include <string.h>

// A file in memory, shared by the visits that use it, or what a visit has left of one.
struct loaded {
    struct loaded *next;
    size_t file; // NO_FILE: only a part
    int users;
    struct instances instances;
};

struct visit {
    int64_t number;
    struct loaded *loaded;
    uint32_t *order;
    int64_t count; // sequences of `order` that are used
};

// The state shared by both threads, protected by `lock`.
struct reader {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_started, is_stopping;
    int is_requested, is_done; // `file` is to be read; it has been read
    size_t file;
    struct instances instances;
    enum berth_status status;
    struct berth_error error;
};

#define NO_FILE SIZE_MAX

struct pick {
    const struct loaded *loaded;
    uint32_t instance;
};

struct shard_stream {
    struct shard_order order;
    struct reader reader;
    struct loaded *loaded;
    struct visit *visits; // [visit_count], consecutive numbers
    size_t visit_count, visit_capacity;
    struct pick *picks; // [pick_capacity]
    uint32_t *identity; // 0, 1, 2, ...
    size_t pick_capacity;
};

// --- the reader's thread ------------------------------------------------------------------------

static void *run_reader(void *context) {
    struct shard_stream *stream = context;
    struct reader *reader = &stream->reader;
    pthread_mutex_lock(&reader->lock);
    for (;;) {
        while (!reader->is_stopping && !(reader->is_requested && !reader->is_done)) {
            pthread_cond_wait(&reader->changed, &reader->lock);
        }
        if (reader->is_stopping) {
            break;
        }
        size_t file = reader->file;
        struct instances instances = {0};
        struct berth_error error = {0};
        pthread_mutex_unlock(&reader->lock);
        const struct shard_stream_settings *settings = &stream->order.settings;
        enum berth_status status = shard_list_read(stream->order.list, file, settings->vocab_size,
                                                   settings->max_length, &instances, &error);
        pthread_mutex_lock(&reader->lock);
        reader->instances = instances;
        reader->error = error;
        reader->status = status;
        reader->is_done = 1;
        pthread_cond_broadcast(&reader->changed);
    }
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

static enum berth_status start_reader(struct shard_stream *stream, struct berth_error *error) {
    struct reader *reader = &stream->reader;
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->changed, NULL);
    const enum berth_status status = thread_open(&reader->thread, run_reader, stream, error);
    reader->is_started = status == BERTH_OK;
    return status;
}

static void stop_reader(struct reader *reader) {
    if (reader->is_started) {
        pthread_mutex_lock(&reader->lock);
        reader->is_stopping = 1;
        pthread_cond_broadcast(&reader->changed);
        pthread_mutex_unlock(&reader->lock);
        pthread_join(reader->thread, NULL);
    }
    instances_done(&reader->instances);
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
}

// Asks the reader to read `file` next, unless it is busy or holds a file that was not fetched.
static void request_file(struct reader *reader, size_t file) {
    pthread_mutex_lock(&reader->lock);
    if (!reader->is_requested) {
        reader->is_requested = 1;
        reader->is_done = 0;
        reader->file = file;
        pthread_cond_broadcast(&reader->changed);
    }
    pthread_mutex_unlock(&reader->lock);
}

// Waits for the requested file, and takes it.
static enum berth_status await_file(struct reader *reader, size_t *file,
                                    struct instances *instances, struct berth_error *error) {
    pthread_mutex_lock(&reader->lock);
    while (!reader->is_done) {
        pthread_cond_wait(&reader->changed, &reader->lock);
    }
    enum berth_status status = reader->status;
    *file = reader->file;
    *instances = reader->instances;
    reader->instances = (struct instances){0};
    reader->is_requested = reader->is_done = 0;
    if (status != BERTH_OK && error != NULL) {
        *error = reader->error;
    }
    pthread_mutex_unlock(&reader->lock);
    return status;
}

// --- opening and closing ------------------------------------------------------------------------

enum berth_status shard_stream_open(const struct shard_list *list,
                                    const struct shard_stream_settings *settings,
                                    struct shard_stream **stream, struct berth_error *error) {
    struct shard_stream *opened = memory_array_zeroed(1, sizeof *opened);
    *stream = NULL;
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "the stream of shards");
    }
    enum berth_status status = shard_order_init(&opened->order, list, settings, error);
    if (status == BERTH_OK) {
        status = start_reader(opened, error);
    }
    if (status != BERTH_OK) {
        shard_order_done(&opened->order);
        memory_free(opened);
        return status;
    }
    *stream = opened;
    return BERTH_OK;
}

static void drop_visits(struct shard_stream *stream, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) {
        stream->visits[i].loaded->users--;
        memory_free(stream->visits[i].order);
    }
}

static void drop_unused(struct shard_stream *stream) {
    for (struct loaded **at = &stream->loaded; *at != NULL;) {
        struct loaded *loaded = *at;
        if (loaded->users > 0) {
            at = &loaded->next;
            continue;
        }
        *at = loaded->next;
        instances_done(&loaded->instances);
        memory_free(loaded);
    }
}

void shard_stream_close(struct shard_stream *stream) {
    if (stream == NULL) {
        return;
    }
    stop_reader(&stream->reader);
    drop_visits(stream, 0, stream->visit_count);
    drop_unused(stream);
    memory_free(stream->visits);
    shard_order_done(&stream->order);
    memory_free(stream->picks);
    memory_free(stream->identity);
    memory_free(stream);
}

// --- positions ----------------------------------------------------------------------------------

struct shard_position shard_stream_locate(struct shard_stream *stream, int64_t index) {
    struct shard_order *order = &stream->order;
    const int64_t files = (int64_t)order->list->count;
    int64_t row;
    const struct shard_visit visit = shard_order_visit(order, shard_order_find(order, index, &row));
    return (struct shard_position){.epoch = visit.round / files,
                                   .visit = (size_t)(visit.round % files),
                                   .file = shard_order_file(order, &visit),
                                   .row = visit.row + row,
                                   .rank = visit.rank,
                                   .ranks = visit.ranks};
}

size_t shard_stream_file(struct shard_stream *stream, const struct shard_position *position,
                         size_t round) {
    const int64_t before = position->epoch * (int64_t)stream->order.list->count;
    const struct shard_visit visit = {
        .round = before + (int64_t)round, .rank = position->rank, .ranks = position->ranks};
    return shard_order_file(&stream->order, &visit);
}

// --- loaded files -------------------------------------------------------------------------------

static struct loaded *find_loaded(const struct shard_stream *stream, size_t file) {
    struct loaded *loaded = stream->loaded;
    while (loaded != NULL && loaded->file != file) {
        loaded = loaded->next;
    }
    return loaded;
}

// Gets the file from the reader thread; discards any other file that was read ahead.
static enum berth_status load(struct shard_stream *stream, size_t file, struct loaded **found,
                              struct berth_error *error) {
    struct loaded *loaded = memory_array_zeroed(1, sizeof *loaded);
    if (loaded == NULL) {
        return error_no_memory(error, sizeof *loaded, "a shard");
    }
    enum berth_status status = BERTH_OK;
    for (;;) {
        request_file(&stream->reader, file);
        status = await_file(&stream->reader, &loaded->file, &loaded->instances, error);
        if (loaded->file == file) {
            break;
        }
        instances_done(&loaded->instances);
    }
    if (status != BERTH_OK) {
        instances_done(&loaded->instances);
        memory_free(loaded);
        return status;
    }
    loaded->next = stream->loaded;
    stream->loaded = *found = loaded;
    return BERTH_OK;
}

static enum berth_status reserve_visit(struct shard_stream *stream, struct berth_error *error) {
    size_t needed = stream->visit_count + 1;
    struct visit *visits =
        memory_grow(stream->visits, &stream->visit_capacity, needed, sizeof *visits);
    if (visits == NULL) {
        return error_no_memory(error, needed * sizeof *visits, "the stream of shards");
    }
    stream->visits = visits;
    return BERTH_OK;
}

// Keeps only the sequences that a visit still has, so that an update which takes the rests of many
// files does not hold these files.
static enum berth_status keep_rest(struct shard_stream *stream, struct visit *visit, int64_t row,
                                   struct berth_error *error) {
    struct loaded *part = memory_array_zeroed(1, sizeof *part);
    if (part == NULL) {
        return error_no_memory(error, sizeof *part, "the rest of a shard");
    }
    part->file = NO_FILE;
    part->next = stream->loaded;
    stream->loaded = part;
    TRY(instances_select(&visit->loaded->instances, visit->order + row, (size_t)visit->count,
                         &part->instances, error));
    for (int64_t i = 0; i < visit->count; i++) {
        visit->order[i] = (uint32_t)i;
    }
    visit->loaded->users--;
    visit->loaded = part;
    part->users++;
    drop_unused(stream);
    return BERTH_OK;
}

// Gets the file of visit `number` into memory, if it is not there.
static enum berth_status find_file(struct shard_stream *stream, size_t file, struct loaded **loaded,
                                   double *waited, struct berth_error *error) {
    *loaded = find_loaded(stream, file);
    if (*loaded == NULL) {
        const double begin = clock_now();
        TRY(load(stream, file, loaded, error));
        *waited += clock_now() - begin;
    }
    return BERTH_OK;
}

static enum berth_status add_visit(struct shard_stream *stream, int64_t number, double *waited,
                                   struct berth_error *error) {
    const struct shard_visit place = shard_order_visit(&stream->order, number);
    const size_t file = shard_order_file(&stream->order, &place);
    struct visit visit = {.number = number, .count = shard_order_count(&stream->order, number)};
    TRY(reserve_visit(stream, error));
    TRY(find_file(stream, file, &visit.loaded, waited, error));
    const size_t count = visit.loaded->instances.count;
    visit.order = memory_array(count + 1, sizeof *visit.order);
    if (visit.order == NULL) {
        return error_no_memory(error, count * sizeof *visit.order, "a shard's order");
    }
    shard_order_rows(&stream->order, &place, file, count, visit.order);
    visit.loaded->users++;
    const enum berth_status status =
        place.row > 0 && visit.count > 0 ? keep_rest(stream, &visit, place.row, error) : BERTH_OK;
    stream->visits[stream->visit_count++] = visit;
    return status;
}

static void read_ahead(struct shard_stream *stream, int64_t visit) {
    const struct shard_visit place = shard_order_visit(&stream->order, visit);
    const size_t file = shard_order_file(&stream->order, &place);
    if (find_loaded(stream, file) == NULL) {
        request_file(&stream->reader, file);
    }
}

// Loads visits [first, last], and releases all others.
static enum berth_status move_to(struct shard_stream *stream, int64_t first, int64_t last,
                                 double *waited, struct berth_error *error) {
    size_t passed = 0;
    int follows = stream->visit_count > 0 && stream->visits[0].number <= first &&
                  stream->visits[stream->visit_count - 1].number >= first - 1;
    while (passed < stream->visit_count && (!follows || stream->visits[passed].number < first)) {
        passed++;
    }
    drop_visits(stream, 0, passed);
    stream->visit_count -= passed;
    if (passed > 0) {
        memmove(stream->visits, stream->visits + passed,
                stream->visit_count * sizeof *stream->visits);
    }
    drop_unused(stream);
    for (int64_t number = first + (int64_t)stream->visit_count; number <= last; number++) {
        TRY(add_visit(stream, number, waited, error));
        read_ahead(stream, number + 1);
    }
    return BERTH_OK;
}

// --- taking -------------------------------------------------------------------------------------

static struct packer_sequence get(const void *data, size_t index) {
    const struct shard_stream *stream = data;
    const struct pick *pick = &stream->picks[index];
    struct packer_source source = instance_source(&pick->loaded->instances);
    struct packer_sequence sequence = source.get(source.data, pick->instance);
    int32_t limit = stream->order.settings.max_predictions;
    sequence.masked_count = sequence.masked_count < limit ? sequence.masked_count : limit;
    return sequence;
}

static enum berth_status reserve_picks(struct shard_stream *stream, size_t count,
                                       struct berth_error *error) {
    if (count <= stream->pick_capacity) {
        return BERTH_OK;
    }
    struct pick *picks = memory_resize(stream->picks, count, sizeof *picks);
    stream->picks = picks != NULL ? picks : stream->picks;
    uint32_t *identity = memory_resize(stream->identity, count, sizeof *identity);
    stream->identity = identity != NULL ? identity : stream->identity;
    if (picks == NULL || identity == NULL) {
        return error_no_memory(error, count * sizeof *picks, "the sequences of an update");
    }
    for (size_t i = stream->pick_capacity; i < count; i++) {
        identity[i] = (uint32_t)i;
    }
    stream->pick_capacity = count;
    return BERTH_OK;
}

static void pick(struct shard_stream *stream, int64_t row, size_t count) {
    const struct visit *visit = stream->visits;
    for (size_t i = 0; i < count; i++, row++) {
        while (row == visit->count) {
            visit++;
            row = 0;
        }
        stream->picks[i] = (struct pick){visit->loaded, visit->order[row]};
    }
}

enum berth_status shard_stream_take(struct shard_stream *stream, int64_t first, size_t count,
                                    struct shard_taken *taken, struct berth_error *error) {
    int64_t row, last_row;
    *taken = (struct shard_taken){.source = {.get = get, .data = stream, .count = count}};
    TRY(reserve_picks(stream, count, error));
    int64_t begin = shard_order_find(&stream->order, first, &row);
    int64_t last = shard_order_find(&stream->order, first + (int64_t)count - 1, &last_row);
    TRY(move_to(stream, begin, last, &taken->waited, error));
    pick(stream, row, count);
    taken->order = stream->identity;
    return BERTH_OK;
}

// --- memory -------------------------------------------------------------------------------------

uint64_t shard_stream_bytes(const struct shard_list *list, int by_rank, int64_t sequences) {
    uint64_t row = (uint64_t)list->length * sizeof(int32_t) + sizeof(struct instance) +
                   (uint64_t)list->predictions * (sizeof(uint16_t) + sizeof(int32_t));
    int64_t largest = 0;
    for (size_t i = 0; i < list->count; i++) {
        int64_t own = list->items[i].sequences;
        largest = own > largest ? own : largest;
    }
    // An update may begin and end in the middle of a file, and the next file is read ahead. Of a
    // rank's own visits, several that were left unfinished may be to one file.
    int64_t at_once = sequences + 3 * largest, all = list->sequences + largest;
    int64_t held = by_rank || at_once < all ? at_once : all;
    return (uint64_t)held * row + (uint64_t)at_once * sizeof(uint32_t) +
           (uint64_t)sequences * (sizeof(struct pick) + sizeof(uint32_t));
}
