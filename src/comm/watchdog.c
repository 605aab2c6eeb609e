// SPDX-License-Identifier: Apache-2.0
// Counts how long each call of a transport has been running, by functions that it puts in front of
// the transport's, and ends the process when one hangs, after a message that names the rank that is
// probably stopped. comm_ranks_open starts it; a rank that is merely late is the monitor's
// business.
#include "comm/watchdog.h"

#include "core/memory.h"

#define GRACE_SECONDS 2.0  // for the monitor, whose errors say more
#define SILENT_SECONDS 2.0 // a rank without a beat for this long counts as stopped

static int is_stalled(struct pulse *pulse, uint32_t count, double seconds) {
    pulse->stalled_beats = pulse->count == count ? pulse->stalled_beats + 1 : 0;
    pulse->count = count;
    return pulse->stalled_beats * WATCH_BEAT_SECONDS >= seconds;
}

// --- the transport ------------------------------------------------------------------------------

static struct watchdog *watchdog_of(struct transport *transport) {
    return transport->state;
}

static void count_call(struct watchdog *watchdog, enum transport_channel channel) {
    atomic_fetch_add_explicit(&watchdog->calls[channel], 1, memory_order_relaxed);
}

static enum berth_status counted_send(struct transport *transport,
                                      struct transport_message *message,
                                      struct berth_error *error) {
    struct watchdog *watchdog = watchdog_of(transport);
    count_call(watchdog, message->channel);
    const enum berth_status status = watchdog->inner->send(watchdog->inner, message, error);
    count_call(watchdog, message->channel);
    return status;
}

static enum berth_status counted_receive(struct transport *transport,
                                         struct transport_message *message,
                                         struct berth_error *error) {
    struct watchdog *watchdog = watchdog_of(transport);
    count_call(watchdog, message->channel);
    const enum berth_status status = watchdog->inner->receive(watchdog->inner, message, error);
    count_call(watchdog, message->channel);
    return status;
}

static enum berth_status counted_test(struct transport *transport,
                                      struct transport_message *message, int *done,
                                      struct berth_error *error) {
    struct watchdog *watchdog = watchdog_of(transport);
    count_call(watchdog, message->channel);
    const enum berth_status status = watchdog->inner->test(watchdog->inner, message, done, error);
    count_call(watchdog, message->channel);
    return status;
}

static enum berth_status counted_receive_any(struct transport *transport,
                                             enum transport_channel channel, void *data,
                                             size_t bytes, int *peer, struct berth_error *error) {
    struct watchdog *watchdog = watchdog_of(transport);
    count_call(watchdog, channel);
    const enum berth_status status =
        watchdog->inner->receive_any(watchdog->inner, channel, data, bytes, peer, error);
    count_call(watchdog, channel);
    return status;
}

static enum berth_status counted_join_group(struct transport *transport, int color, int place,
                                            struct berth_error *error) {
    struct watchdog *watchdog = watchdog_of(transport);
    count_call(watchdog, TRANSPORT_RANGES);
    const enum berth_status status =
        watchdog->inner->join_group(watchdog->inner, color, place, error);
    count_call(watchdog, TRANSPORT_RANGES);
    return status;
}

static enum berth_status counted_collect(struct transport *transport,
                                         struct transport_message *message,
                                         const struct transport_collective *collective,
                                         struct berth_error *error) {
    struct watchdog *watchdog = watchdog_of(transport);
    count_call(watchdog, message->channel);
    const enum berth_status status =
        watchdog->inner->collect(watchdog->inner, message, collective, error);
    count_call(watchdog, message->channel);
    return status;
}

static void counted_close(struct transport *transport, enum transport_end end) {
    struct transport *inner = watchdog_of(transport)->inner;
    inner->close(inner, end);
}

void watchdog_init(struct watchdog *watchdog, struct transport *inner) {
    *watchdog = (struct watchdog){.inner = inner, .transport = *inner};
    watchdog->transport.state = watchdog;
    watchdog->transport.send = counted_send;
    watchdog->transport.receive = counted_receive;
    watchdog->transport.test = counted_test;
    watchdog->transport.receive_any = counted_receive_any;
    watchdog->transport.join_group = inner->join_group != NULL ? counted_join_group : NULL;
    watchdog->transport.collect = counted_collect;
    watchdog->transport.close = counted_close;
}

// --- the thread ---------------------------------------------------------------------------------

// The first rank of the host whose process is not running, or -1.
static int find_stopped_rank(struct watchdog *watchdog) {
    const struct topology *topology = watchdog->topology;
    const int first = topology->first[topology->host];
    int stopped = -1;
    for (int local = watchdog->window->shape.local_size - 1; local >= 0; local--) {
        const uint32_t beats = atomic_load(host_window_heartbeats(watchdog->window, local));
        if (is_stalled(&watchdog->ranks[local], beats, SILENT_SECONDS)) {
            stopped = first + local;
        }
    }
    return stopped;
}

static int has_hung(struct watchdog *watchdog) {
    int hung = 0;
    for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
        const uint32_t calls =
            atomic_load_explicit(&watchdog->calls[channel], memory_order_relaxed);
        const int has_stalled = is_stalled(&watchdog->channels[channel], calls,
                                           watchdog->timeout_seconds + GRACE_SECONDS);
        hung |= has_stalled && calls % 2 == 1;
    }
    return hung;
}

static void abandon_process(struct watchdog *watchdog, int stopped) {
    const struct topology *topology = watchdog->topology;
    const int rank = stopped >= 0 ? stopped : topology->rank;
    struct berth_error error;
    (void)error_set(&error, BERTH_UNAVAILABLE,
                    "rank %d on host %s %s: a call to %s has not returned on rank %d for %g s "
                    "(comm_timeout %g s)",
                    rank, topology->names[rank],
                    stopped >= 0 ? "does not answer (stopped, or gone)" : "is stuck",
                    watchdog->inner->version, topology->rank,
                    watchdog->timeout_seconds + GRACE_SECONDS, watchdog->timeout_seconds);
    watchdog->inner->abandon(watchdog->inner, &error);
}

static void beat(void *context) {
    struct watchdog *watchdog = context;
    const struct topology *topology = watchdog->topology;
    const int own = topology_local(topology, topology->rank);
    atomic_fetch_add(host_window_heartbeats(watchdog->window, own), 1);
    const int stopped = find_stopped_rank(watchdog);
    if (has_hung(watchdog)) {
        abandon_process(watchdog, stopped);
    }
}

enum berth_status watchdog_start(struct watchdog *watchdog, const struct topology *topology,
                                 const struct host_window *window, double timeout_seconds,
                                 struct berth_error *error) {
    const size_t ranks = (size_t)window->shape.local_size;
    watchdog->topology = topology;
    watchdog->window = window;
    watchdog->timeout_seconds = timeout_seconds;
    watchdog->ranks = memory_array_zeroed(ranks, sizeof *watchdog->ranks);
    if (watchdog->ranks == NULL) {
        return error_no_memory(error, ranks * sizeof *watchdog->ranks, "the list of ranks");
    }
    watchdog->watch = (struct watch){.beat = beat, .context = watchdog};
    return watch_start(&watchdog->watch, error);
}

void watchdog_end(struct watchdog *watchdog) {
    watch_end(&watchdog->watch);
    memory_free(watchdog->ranks);
    watchdog->ranks = NULL;
}
