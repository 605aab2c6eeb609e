// SPDX-License-Identifier: Apache-2.0
// Messages between ranks: adds to the transport, which addresses processes, ranks, a deadline for
// every wait, and a count of the bytes that leave the host. Each thread has its own courier.
#ifndef BERTH_COMM_COURIER_H
#define BERTH_COMM_COURIER_H

#include "comm/fault.h"
#include "comm/monitor.h"
#include "comm/topology.h"
#include "comm/transport.h"

#include <stdatomic.h>
#include <stdint.h>

struct courier {
    struct transport *transport;
    const struct topology *topology;
    struct fault *fault;
    enum transport_channel channel;
    double timeout_seconds;
    // Decides what is late. NULL: the deadline is final.
    struct monitor *monitor;
    _Atomic uint64_t sent; // bytes to other hosts
    double waited_seconds; // in courier_wait
};

// Messages in the order in which they were begun; the first `done` of them are complete.
struct message_list {
    struct transport_message *messages;
    int count, done;
};

// Begin another message of a list, whose array must have room for it.
enum berth_status courier_send(struct courier *courier, struct message_list *list, int rank,
                               const void *data, size_t bytes, struct berth_error *error);
enum berth_status courier_receive(struct courier *courier, struct message_list *list, int rank,
                                  void *data, size_t bytes, struct berth_error *error);

// Begins a collective of the library as a message, of which `bytes` leave the host. `rank` is the
// one that is named if it does not end: any that takes part.
enum berth_status courier_collect(struct courier *courier, struct message_list *list, int rank,
                                  void *data, size_t bytes,
                                  const struct transport_collective *collective,
                                  struct berth_error *error);

// Makes progress; *progressed becomes 1 if another message is complete.
enum berth_status courier_poll(struct courier *courier, struct message_list *list, int *progressed,
                               struct berth_error *error);

static inline int message_list_is_done(const struct message_list *list) {
    return list->done == list->count;
}

// The rank at the other end of the first message that is not complete.
int courier_awaited_rank(const struct courier *courier, const struct message_list *list);

// Waits for the whole list. `what` describes it in errors: "the sum of 3 numbers".
enum berth_status courier_wait(struct courier *courier, struct message_list *list, const char *what,
                               struct berth_error *error);

// The state of a wait that makes no progress: it first yields to other threads, then sleeps, longer
// each time up to a limit. Ranks may share cores, so a rank that spins would slow one that
// computes.
struct backoff {
    double progress_at; // when the wait last made progress
    int polls;          // since then
    int last_sleep;     // microseconds
};

struct backoff backoff_new(const struct courier *courier);
// Microseconds to sleep before the next poll; 0: the thread has already yielded.
int backoff_next(struct backoff *backoff);
int backoff_is_expired(const struct backoff *backoff, const struct courier *courier);
// Once it has expired: an error that names the rank that all wait for, or BERTH_OK and a later
// deadline for it. `rank` is the one that this wait is for.
enum berth_status backoff_extend(struct backoff *backoff, const struct courier *courier, int rank,
                                 const char *what, struct berth_error *error);

#endif
