// SPDX-License-Identifier: Apache-2.0
#include "comm/courier.h"

#include "core/clock.h"

#include <sched.h>
#include <time.h>

enum { ROUNDS_AWAKE = 20, SHORTEST_NAP = 50, LONGEST_NAP = 200 }; // microseconds

// --- messages -----------------------------------------------------------------------------------

// A transport speaks of processes, and of what its library met: whose connection it is, and where
// to look, is said here.
static enum berth_status blame(const struct courier *courier, int process, enum berth_status status,
                               struct berth_error *error) {
    const struct topology *topology = courier->topology;
    const int rank = topology->ranks[process];
    struct berth_error cause;
    if (status == BERTH_OK || error == NULL) {
        return status;
    }
    cause = *error;
    return error_set(error, status,
                     "rank %d (host %s) lost rank %d (host %s): %s; it has ended or cannot be "
                     "reached: see the launcher's messages and that host's log, then start the job "
                     "again",
                     topology->rank, topology->names[topology->rank], rank, topology->names[rank],
                     cause.message);
}

static struct transport_message *next_message(const struct courier *courier,
                                              struct message_list *list, int rank, void *data,
                                              size_t bytes) {
    struct transport_message *message = &list->messages[list->count++];
    *message = (struct transport_message){.peer = courier->topology->processes[rank],
                                          .channel = courier->channel,
                                          .data = data,
                                          .bytes = bytes};
    return message;
}

enum berth_status courier_send(struct courier *courier, struct message_list *list, int rank,
                               const void *data, size_t bytes, struct berth_error *error) {
    const struct topology *topology = courier->topology;
    if (topology->hosts[rank] != topology->host) {
        atomic_fetch_add_explicit(&courier->sent, bytes, memory_order_relaxed);
    }
    struct transport_message *message = next_message(courier, list, rank, (void *)data, bytes);
    return blame(courier, message->peer,
                 courier->transport->send(courier->transport, message, error), error);
}

enum berth_status courier_receive(struct courier *courier, struct message_list *list, int rank,
                                  void *data, size_t bytes, struct berth_error *error) {
    struct transport_message *message = next_message(courier, list, rank, data, bytes);
    return blame(courier, message->peer,
                 courier->transport->receive(courier->transport, message, error), error);
}

enum berth_status courier_poll(struct courier *courier, struct message_list *list, int *moved,
                               struct berth_error *error) {
    int done = 1;
    while (done && !message_list_is_done(list)) {
        struct transport_message *next = &list->messages[list->done];
        TRY(blame(courier, next->peer,
                  courier->transport->test(courier->transport, next, &done, error), error));
        list->done += done;
        *moved |= done;
    }
    return BERTH_OK;
}

int courier_awaited(const struct courier *courier, const struct message_list *list) {
    return courier->topology->ranks[list->messages[list->done].peer];
}

// --- waiting ------------------------------------------------------------------------------------

struct patience patience_new(void) {
    return (struct patience){.since = clock_now(), .nap = SHORTEST_NAP / 2};
}

int patience_next(struct patience *patience) {
    if (patience->rounds < ROUNDS_AWAKE) {
        patience->rounds++;
        sched_yield();
        return 0;
    }
    patience->nap = patience->nap < LONGEST_NAP / 2 ? patience->nap * 2 : LONGEST_NAP;
    return patience->nap;
}

int patience_is_over(const struct patience *patience, const struct courier *courier) {
    // Early enough that the answer is there at the deadline.
    const double early =
        courier->watch != NULL && courier->timeout_seconds > 2 * WATCH_ANSWER_SECONDS
            ? WATCH_ANSWER_SECONDS
            : 0;
    return clock_now() - patience->since > courier->timeout_seconds - early;
}

enum berth_status patience_renew(struct patience *patience, const struct courier *courier, int rank,
                                 const char *what, struct berth_error *error) {
    double seconds;
    if (courier->watch == NULL) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "no answer from rank %d on host %s for %g s, in %s; if that process is "
                         "alive and only slow, raise --comm_timeout",
                         rank, courier->topology->names[rank], courier->timeout_seconds, what);
    }
    TRY(watch_judge(courier->watch, courier->channel, rank, what, &seconds, error));
    *patience = patience_new();
    patience->since += seconds - courier->timeout_seconds;
    return BERTH_OK;
}

static void nap(int microseconds) {
    const struct timespec time = {.tv_nsec = microseconds * 1000L};
    if (microseconds > 0) {
        nanosleep(&time, NULL);
    }
}

static void say_where(const struct courier *courier, int rank) {
    if (courier->watch != NULL) {
        watch_wait(courier->watch, courier->channel, rank);
    }
}

static enum berth_status wait_for(struct courier *courier, struct message_list *list,
                                  const char *what, struct berth_error *error) {
    struct patience patience = patience_new();
    for (;;) {
        int moved = 0;
        TRY(fault_status(courier->fault, error));
        TRY(courier_poll(courier, list, &moved, error));
        if (message_list_is_done(list)) {
            return BERTH_OK;
        }
        const int rank = courier_awaited(courier, list);
        if (moved) {
            patience = patience_new();
        } else if (patience_is_over(&patience, courier)) {
            TRY(patience_renew(&patience, courier, rank, what, error));
        }
        say_where(courier, rank);
        nap(patience_next(&patience));
    }
}

enum berth_status courier_wait(struct courier *courier, struct message_list *list, const char *what,
                               struct berth_error *error) {
    const double start = clock_now();
    const enum berth_status status = wait_for(courier, list, what, error);
    say_where(courier, -1);
    courier->waited_seconds += clock_now() - start;
    return status;
}
