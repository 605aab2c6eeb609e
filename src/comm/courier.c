// SPDX-License-Identifier: Apache-2.0
// Sends and receives messages between ranks, and waits for them: first busily, then asleep for
// longer and longer, until the deadline, at which the monitor is asked whether the awaited rank is
// merely late. Collectives, steps of exchanges and the monitor send through it; the transport below
// it knows only processes.
#include "comm/courier.h"

#include "core/clock.h"

#include <sched.h>
#include <time.h>

enum { YIELD_POLLS = 20, MIN_SLEEP = 50, MAX_SLEEP = 200 }; // microseconds

// --- messages -----------------------------------------------------------------------------------

// A transport's error only says what its library met. This adds the ranks at both ends, their
// hosts, and where to look.
static enum berth_status name_lost_peer(const struct courier *courier,
                                        const struct transport_message *message,
                                        enum berth_status status, struct berth_error *error) {
    const struct topology *topology = courier->topology;
    const int rank = topology->ranks[message->peer];
    struct berth_error cause;
    if (status == BERTH_OK || error == NULL) {
        return status;
    }
    cause = *error;
    if (message->is_collective) {
        return error_set(error, status,
                         "rank %d (host %s): %s, in a collective of %s (reduce native): another "
                         "rank has ended or cannot be reached: see the launcher's messages, then "
                         "start the job again",
                         topology->rank, topology->names[topology->rank], cause.message,
                         courier->transport->version);
    }
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
    return name_lost_peer(courier, message,
                          courier->transport->send(courier->transport, message, error), error);
}

enum berth_status courier_receive(struct courier *courier, struct message_list *list, int rank,
                                  void *data, size_t bytes, struct berth_error *error) {
    struct transport_message *message = next_message(courier, list, rank, data, bytes);
    return name_lost_peer(courier, message,
                          courier->transport->receive(courier->transport, message, error), error);
}

enum berth_status courier_collect(struct courier *courier, struct message_list *list, int rank,
                                  void *data, size_t bytes,
                                  const struct transport_collective *collective,
                                  struct berth_error *error) {
    atomic_fetch_add_explicit(&courier->sent, bytes, memory_order_relaxed);
    struct transport_message *message = next_message(courier, list, rank, data, bytes);
    message->is_collective = 1;
    return name_lost_peer(
        courier, message,
        courier->transport->collect(courier->transport, message, collective, error), error);
}

enum berth_status courier_poll(struct courier *courier, struct message_list *list, int *progressed,
                               struct berth_error *error) {
    int done = 1;
    while (done && !message_list_is_done(list)) {
        struct transport_message *next = &list->messages[list->done];
        TRY(name_lost_peer(courier, next,
                           courier->transport->test(courier->transport, next, &done, error),
                           error));
        list->done += done;
        *progressed |= done;
    }
    return BERTH_OK;
}

int courier_awaited_rank(const struct courier *courier, const struct message_list *list) {
    return courier->topology->ranks[list->messages[list->done].peer];
}

// --- waiting ------------------------------------------------------------------------------------

static double courier_time(const struct courier *courier) {
    return courier->monitor != NULL ? monitor_time(courier->monitor) : clock_now();
}

struct backoff backoff_new(const struct courier *courier) {
    return (struct backoff){.progress_at = courier_time(courier), .last_sleep = MIN_SLEEP / 2};
}

int backoff_next(struct backoff *backoff) {
    if (backoff->polls < YIELD_POLLS) {
        backoff->polls++;
        sched_yield();
        return 0;
    }
    backoff->last_sleep = backoff->last_sleep < MAX_SLEEP / 2 ? backoff->last_sleep * 2 : MAX_SLEEP;
    return backoff->last_sleep;
}

int backoff_is_expired(const struct backoff *backoff, const struct courier *courier) {
    // Expires early, so that the monitor's reply is here by the deadline.
    const double early =
        courier->monitor != NULL && courier->timeout_seconds > 2 * MONITOR_REPLY_SECONDS
            ? MONITOR_REPLY_SECONDS
            : 0;
    return courier_time(courier) - backoff->progress_at > courier->timeout_seconds - early;
}

enum berth_status backoff_extend(struct backoff *backoff, const struct courier *courier, int rank,
                                 const char *what, struct berth_error *error) {
    double seconds;
    if (courier->monitor == NULL) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "no answer from rank %d on host %s for %g s, in %s; if that process is "
                         "alive and only slow, raise comm_timeout",
                         rank, courier->topology->names[rank], courier->timeout_seconds, what);
    }
    TRY(monitor_extend_wait(courier->monitor, courier->channel, rank, what, &seconds, error));
    *backoff = backoff_new(courier);
    backoff->progress_at += seconds - courier->timeout_seconds;
    return BERTH_OK;
}

static void sleep_for(int microseconds) {
    const struct timespec time = {.tv_nsec = microseconds * 1000L};
    if (microseconds > 0) {
        nanosleep(&time, NULL);
    }
}

static void publish_awaited_rank(const struct courier *courier, int rank) {
    if (courier->monitor != NULL) {
        monitor_wait(courier->monitor, courier->channel, rank);
    }
}

static enum berth_status wait_for(struct courier *courier, struct message_list *list,
                                  const char *what, struct berth_error *error) {
    struct backoff backoff = backoff_new(courier);
    for (;;) {
        int progressed = 0;
        TRY(fault_status(courier->fault, error));
        TRY(courier_poll(courier, list, &progressed, error));
        if (message_list_is_done(list)) {
            return BERTH_OK;
        }
        const int rank = courier_awaited_rank(courier, list);
        if (progressed) {
            backoff = backoff_new(courier);
        } else if (backoff_is_expired(&backoff, courier)) {
            TRY(backoff_extend(&backoff, courier, rank, what, error));
        }
        publish_awaited_rank(courier, rank);
        sleep_for(backoff_next(&backoff));
    }
}

enum berth_status courier_wait(struct courier *courier, struct message_list *list, const char *what,
                               struct berth_error *error) {
    const double start = clock_now();
    const enum berth_status status = wait_for(courier, list, what, error);
    publish_awaited_rank(courier, -1);
    courier->waited_seconds += clock_now() - start;
    return status;
}
