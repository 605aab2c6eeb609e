// SPDX-License-Identifier: Apache-2.0
#include "comm/exchange.h"

#include "comm/step.h"
#include "core/memory.h"

#include <stdio.h>

// A chunk is small enough for the caches and large enough that a message's cost does not count.
enum { LARGEST_CHUNK = 128 * 1024, SMALLEST_CHUNK = 1024 };

// --- sizes --------------------------------------------------------------------------------------

int64_t exchange_chunk_elements(int size, int local_size, size_t window_bytes) {
    const size_t cells = (size_t)WINDOW_SLOTS * (size_t)local_size * (size_t)size;
    const size_t elements = window_bytes / cells / sizeof(float);
    if (elements >= LARGEST_CHUNK) {
        return LARGEST_CHUNK;
    }
    return elements > SMALLEST_CHUNK ? (int64_t)(elements - elements % 16) : SMALLEST_CHUNK;
}

struct window_shape exchange_window_shape(const struct topology *topology, int64_t chunk_elements) {
    return (struct window_shape){.local_size = topology_local_size(topology, topology->host),
                                 .size = topology->size,
                                 .payload = (size_t)chunk_elements * sizeof(float)};
}

static size_t received_bytes(int64_t chunk_elements) {
    return sizeof(struct range_header) + (size_t)chunk_elements * sizeof(float);
}

// The most messages of a step in one direction: to or from the owners that a rank handles, and the
// other hosts; and a greeting.
static size_t most_messages(int handled, int host_count) {
    return (size_t)handled + (size_t)host_count;
}

size_t exchange_bytes(int size, int local_size, int host_count, int64_t chunk_elements) {
    const size_t others = (size_t)host_count - 1;
    const int handled = (size - local_size + local_size - 1) / local_size;
    return WINDOW_SLOTS *
           (others * received_bytes(chunk_elements) +
            2 * most_messages(handled, host_count) * sizeof(struct transport_message));
}

// --- opening ------------------------------------------------------------------------------------

static int max(int x, int y) {
    return x > y ? x : y;
}

// The other hosts from the next one on, so that not all ranks send to the same one first, and the
// ranks there whose parts this one handles.
static void find_others(struct exchange *exchange) {
    const struct topology *topology = exchange->topology;
    for (int i = 0; i + 1 < topology->host_count; i++) {
        const int host = (topology->host + 1 + i) % topology->host_count;
        exchange->hosts[i] = host;
        for (int rank = topology->first[host]; rank < topology->first[host + 1]; rank++) {
            if (topology_handler(topology, topology->host, rank) == topology->rank) {
                exchange->handled[exchange->handled_count++] = rank;
            }
        }
    }
}

static void place_messages(struct exchange *exchange) {
    const size_t most = most_messages(exchange->handled_count, exchange->topology->host_count);
    struct transport_message *next = exchange->messages;
    for (int slot = 0; slot < WINDOW_SLOTS; slot++) {
        exchange->steps[slot].receives.messages = next;
        exchange->steps[slot].sends.messages = next + most;
        next += 2 * most;
    }
}

enum berth_status exchange_init(struct exchange *exchange, struct berth_error *error) {
    const struct topology *topology = exchange->topology;
    const size_t size = (size_t)topology->size, hosts = (size_t)topology->host_count;
    exchange->local = topology_local(topology, topology->rank);
    exchange->local_size = topology_local_size(topology, topology->host);
    exchange->received_bytes = received_bytes(exchange->chunk_elements);
    exchange->hosts = memory_array(hosts, sizeof(int));
    exchange->handled = memory_array(size, sizeof(int));
    exchange->addends = memory_array((size_t)max(exchange->local_size, topology->host_count),
                                     sizeof *exchange->addends);
    exchange->received = memory_array(WINDOW_SLOTS * (hosts - 1), exchange->received_bytes);
    if (exchange->hosts != NULL && exchange->handled != NULL) {
        find_others(exchange);
        exchange->messages = memory_array(
            2 * WINDOW_SLOTS * most_messages(exchange->handled_count, topology->host_count),
            sizeof *exchange->messages);
    }
    if (exchange->messages == NULL || exchange->addends == NULL || exchange->received == NULL) {
        return error_no_memory(error,
                               exchange_bytes(topology->size, exchange->local_size,
                                              topology->host_count, exchange->chunk_elements),
                               "messages of exchanges");
    }
    place_messages(exchange);
    return BERTH_OK;
}

void exchange_done(struct exchange *exchange) {
    memory_free(exchange->hosts);
    memory_free(exchange->handled);
    memory_free(exchange->addends);
    memory_free(exchange->received);
    memory_free(exchange->messages);
    host_window_done(&exchange->window);
}

// --- operations and their steps -----------------------------------------------------------------

static int64_t chunks_of(const struct exchange *exchange, const struct comm_range *range) {
    int64_t largest = 1;
    for (int rank = 0; rank < exchange->topology->size; rank++) {
        const int64_t part = range->starts[rank + 1] - range->starts[rank];
        largest = part > largest ? part : largest;
    }
    return (largest + exchange->chunk_elements - 1) / exchange->chunk_elements;
}

void exchange_give(struct exchange *exchange, const struct exchange_kind *kind,
                   const struct comm_range *range, int64_t number) {
    exchange->current = (struct operation){
        .kind = kind,
        .range = *range,
        .label = range_label_of(range, kind == &exchange_gather, number, exchange->topology->size),
        .chunks = chunks_of(exchange, range)};
    exchange->chunks_begun = 0;
}

static struct step *step_at(struct exchange *exchange, int64_t number) {
    return &exchange->steps[number % WINDOW_SLOTS];
}

// The first rank of the host that has not read what was in the slot of the next step, or -1.
static int unemptied(const struct exchange *exchange) {
    const int64_t before = exchange->begun - WINDOW_SLOTS;
    for (int local = 0; local < exchange->local_size && before >= 0; local++) {
        struct window_mark *mark = host_window_mark(&exchange->window, before, local);
        if (atomic_load_explicit(&mark->emptied, memory_order_acquire) != before + 1) {
            return local;
        }
    }
    return -1;
}

static int may_begin(const struct exchange *exchange) {
    const int sums_are_there = exchange->current.kind != NULL &&
                               (exchange->current.kind->sends_late || exchange->chunks_begun > 0 ||
                                exchange->finished == exchange->begun);
    return !exchange_wants(exchange) && sums_are_there &&
           exchange->begun - exchange->finished < WINDOW_SLOTS && unemptied(exchange) < 0;
}

static struct step *next_step(struct exchange *exchange) {
    struct step *step = step_at(exchange, exchange->begun);
    step->operation = exchange->current;
    step->number = exchange->begun;
    step->chunk = exchange->chunks_begun;
    step->receives.count = step->receives.done = 0;
    step->sends.count = step->sends.done = 0;
    return step;
}

static enum berth_status try_begin(struct exchange *exchange, int *moved,
                                   struct berth_error *error) {
    if (!may_begin(exchange)) {
        return BERTH_OK;
    }
    struct step *step = next_step(exchange);
    TRY(step->operation.kind->begin(exchange, step, error));
    exchange->begun++;
    exchange->chunks_begun++;
    *moved = 1;
    return BERTH_OK;
}

static enum berth_status try_pass(struct exchange *exchange, int *moved,
                                  struct berth_error *error) {
    struct step *step = step_at(exchange, exchange->passed);
    if (exchange->passed == exchange->begun || !step->operation.kind->may_pass(exchange, step)) {
        return BERTH_OK;
    }
    TRY(step->operation.kind->pass(exchange, step, error));
    exchange->passed++;
    *moved = 1;
    return BERTH_OK;
}

static enum berth_status try_finish(struct exchange *exchange, int *moved,
                                    struct berth_error *error) {
    struct step *step = step_at(exchange, exchange->finished);
    if (exchange->finished == exchange->passed ||
        !step->operation.kind->may_finish(exchange, step)) {
        return BERTH_OK;
    }
    TRY(step->operation.kind->finish(exchange, step, error));
    exchange->finished++;
    if (step->chunk + 1 == step->operation.chunks) {
        exchange->completed = step->operation.label.number;
    }
    *moved = 1;
    return BERTH_OK;
}

static enum berth_status poll_step(struct exchange *exchange, struct step *step, int *moved,
                                   struct berth_error *error) {
    TRY(courier_poll(&exchange->courier, &step->receives, moved, error));
    return courier_poll(&exchange->courier, &step->sends, moved, error);
}

static enum berth_status poll_messages(struct exchange *exchange, int *moved,
                                       struct berth_error *error) {
    for (int64_t number = exchange->finished; number < exchange->begun; number++) {
        struct step *step = step_at(exchange, number);
        TRY(step_explain(exchange, step, poll_step(exchange, step, moved, error), error));
    }
    return BERTH_OK;
}

enum berth_status exchange_progress(struct exchange *exchange, int *moved,
                                    struct berth_error *error) {
    TRY(poll_messages(exchange, moved, error));
    TRY(try_finish(exchange, moved, error));
    TRY(try_pass(exchange, moved, error));
    return try_begin(exchange, moved, error);
}

// --- what is waited for -------------------------------------------------------------------------

static int awaited_local(const struct exchange *exchange, int local) {
    return exchange->topology->first[exchange->topology->host] + local;
}

// The rank that the oldest step waits for.
static int awaited_by(const struct exchange *exchange, const struct step *step) {
    if (!batch_is_done(&step->receives)) {
        return courier_awaited(&exchange->courier, &step->receives);
    }
    if (!batch_is_done(&step->sends)) {
        return courier_awaited(&exchange->courier, &step->sends);
    }
    const int local = step_unfilled(exchange, step);
    return local >= 0 ? awaited_local(exchange, local) : exchange->topology->rank;
}

enum berth_status exchange_late(const struct exchange *exchange, struct berth_error *error) {
    char what[RANGE_TEXT];
    int rank;
    if (exchange->finished < exchange->begun) {
        const struct step *step = &exchange->steps[exchange->finished % WINDOW_SLOTS];
        rank = awaited_by(exchange, step);
        range_label_write(&step->operation.label, what);
    } else {
        rank = awaited_local(exchange, max(0, unemptied(exchange)));
        range_label_write(&exchange->current.label, what);
    }
    return courier_late(&exchange->courier, rank, what, error);
}
