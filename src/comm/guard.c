// SPDX-License-Identifier: Apache-2.0
#include "comm/guard.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread.h"

#include <stdio.h>

// Time is counted in beats of the thread, so a process that was stopped is not late afterwards.
#define BEAT_SECONDS 0.1
#define GRACE_SECONDS 2.0  // for the watch, whose errors say more
#define SILENT_SECONDS 2.0 // without a beat of a rank, until it is taken for stopped

// A counter of another thread or process, and for how many beats it has not changed.
struct pulse {
    uint32_t count;
    int still;
};

static int is_still(struct pulse *pulse, uint32_t count, double seconds) {
    pulse->still = pulse->count == count ? pulse->still + 1 : 0;
    pulse->count = count;
    return pulse->still * BEAT_SECONDS >= seconds;
}

// --- the transport ------------------------------------------------------------------------------

static struct guard *guard_of(struct transport *transport) {
    return transport->state;
}

static void count_call(struct guard *guard, enum transport_channel channel) {
    atomic_fetch_add_explicit(&guard->calls[channel], 1, memory_order_relaxed);
}

static enum berth_status guarded_send(struct transport *transport,
                                      struct transport_message *message,
                                      struct berth_error *error) {
    struct guard *guard = guard_of(transport);
    count_call(guard, message->channel);
    const enum berth_status status = guard->inner->send(guard->inner, message, error);
    count_call(guard, message->channel);
    return status;
}

static enum berth_status guarded_receive(struct transport *transport,
                                         struct transport_message *message,
                                         struct berth_error *error) {
    struct guard *guard = guard_of(transport);
    count_call(guard, message->channel);
    const enum berth_status status = guard->inner->receive(guard->inner, message, error);
    count_call(guard, message->channel);
    return status;
}

static enum berth_status guarded_test(struct transport *transport,
                                      struct transport_message *message, int *done,
                                      struct berth_error *error) {
    struct guard *guard = guard_of(transport);
    count_call(guard, message->channel);
    const enum berth_status status = guard->inner->test(guard->inner, message, done, error);
    count_call(guard, message->channel);
    return status;
}

static enum berth_status guarded_look(struct transport *transport, enum transport_channel channel,
                                      void *data, size_t bytes, int *peer,
                                      struct berth_error *error) {
    struct guard *guard = guard_of(transport);
    count_call(guard, channel);
    const enum berth_status status =
        guard->inner->look(guard->inner, channel, data, bytes, peer, error);
    count_call(guard, channel);
    return status;
}

static void guarded_close(struct transport *transport, enum transport_end end) {
    struct transport *inner = guard_of(transport)->inner;
    inner->close(inner, end);
}

void guard_init(struct guard *guard, struct transport *inner) {
    *guard = (struct guard){.inner = inner, .transport = *inner};
    guard->transport.state = guard;
    guard->transport.send = guarded_send;
    guard->transport.receive = guarded_receive;
    guard->transport.test = guarded_test;
    guard->transport.look = guarded_look;
    guard->transport.close = guarded_close;
}

// --- the thread ---------------------------------------------------------------------------------

// The first rank of the host whose process does not run, or -1.
static int find_silent(struct guard *guard) {
    const struct topology *topology = guard->topology;
    const int first = topology->first[topology->host];
    int silent = -1;
    for (int local = guard->window->shape.local_size - 1; local >= 0; local--) {
        const uint32_t beats = atomic_load(host_window_beats(guard->window, local));
        if (is_still(&guard->pulses[local], beats, SILENT_SECONDS)) {
            silent = first + local;
        }
    }
    return silent;
}

static int is_lost(struct guard *guard, struct pulse pulses[TRANSPORT_CHANNELS]) {
    int lost = 0;
    for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
        const uint32_t calls = atomic_load_explicit(&guard->calls[channel], memory_order_relaxed);
        const int is_still_there =
            is_still(&pulses[channel], calls, guard->timeout_seconds + GRACE_SECONDS);
        lost |= is_still_there && calls % 2 == 1;
    }
    return lost;
}

static void give_up(struct guard *guard, int silent) {
    const struct topology *topology = guard->topology;
    const int rank = silent >= 0 ? silent : topology->rank;
    struct berth_error error;
    (void)error_set(&error, BERTH_UNAVAILABLE,
                    "rank %d on host %s %s: a call of %s does not return on rank %d for %g s "
                    "(--comm_timeout %g s)",
                    rank, topology->names[rank],
                    silent >= 0 ? "does not answer (stopped, or gone)" : "cannot go on",
                    guard->inner->version, topology->rank, guard->timeout_seconds + GRACE_SECONDS,
                    guard->timeout_seconds);
    guard->inner->abandon(guard->inner, &error);
}

// Under the mutex. 0: the thread shall end.
static int wait_for_beat(struct guard *guard) {
    const double until = clock_now() + BEAT_SECONDS;
    int failure = 0;
    while (!guard->shall_end && failure == 0) {
        failure = thread_wait(&guard->changed, &guard->mutex, until);
    }
    return !guard->shall_end;
}

static void *run(void *context) {
    struct guard *guard = context;
    struct pulse pulses[TRANSPORT_CHANNELS] = {0};
    const struct topology *topology = guard->topology;
    const int own = topology_local(topology, topology->rank);
    pthread_mutex_lock(&guard->mutex);
    while (wait_for_beat(guard)) {
        atomic_fetch_add(host_window_beats(guard->window, own), 1);
        const int silent = find_silent(guard);
        if (is_lost(guard, pulses)) {
            give_up(guard, silent);
        }
    }
    pthread_mutex_unlock(&guard->mutex);
    return NULL;
}

static int create(struct guard *guard) {
    thread_condition_init(&guard->changed);
    pthread_mutex_init(&guard->mutex, NULL);
    const int failure = thread_start(&guard->thread, run, guard);
    if (failure != 0) {
        pthread_cond_destroy(&guard->changed);
        pthread_mutex_destroy(&guard->mutex);
    }
    return failure;
}

enum berth_status guard_start(struct guard *guard, const struct topology *topology,
                              const struct host_window *window, double timeout_seconds,
                              struct berth_error *error) {
    const size_t ranks = (size_t)window->shape.local_size;
    guard->topology = topology;
    guard->window = window;
    guard->timeout_seconds = timeout_seconds;
    guard->pulses = memory_array_zeroed(ranks, sizeof *guard->pulses);
    if (guard->pulses == NULL) {
        return error_no_memory(error, ranks * sizeof *guard->pulses, "the list of ranks");
    }
    const int failure = create(guard);
    guard->is_running = failure == 0;
    return failure == 0
               ? BERTH_OK
               : error_set_errno(error, BERTH_UNAVAILABLE, failure,
                                 "cannot start the thread that ends a process which hangs");
}

void guard_end(struct guard *guard) {
    if (guard->is_running) {
        pthread_mutex_lock(&guard->mutex);
        guard->shall_end = 1;
        pthread_cond_signal(&guard->changed);
        pthread_mutex_unlock(&guard->mutex);
        pthread_join(guard->thread, NULL);
        pthread_cond_destroy(&guard->changed);
        pthread_mutex_destroy(&guard->mutex);
        guard->is_running = 0;
    }
    memory_free(guard->pulses);
    guard->pulses = NULL;
}
