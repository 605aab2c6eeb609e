// SPDX-License-Identifier: Apache-2.0
// Messages between ranks: the transport with ranks in place of processes, a deadline for every
// wait, and a count of the bytes that leave the host. Each thread has a courier of its own.
#ifndef BERTH_COMM_COURIER_H
#define BERTH_COMM_COURIER_H

#include "comm/fault.h"
#include "comm/topology.h"
#include "comm/transport.h"
#include "comm/watch.h"

#include <stdatomic.h>
#include <stdint.h>

struct courier {
    struct transport *transport;
    const struct topology *topology;
    struct fault *fault;
    enum transport_channel channel;
    double timeout_seconds;
    struct watch *watch;   // decides what is late; NULL: nothing does, and the deadline is the end
    _Atomic uint64_t sent; // bytes to other hosts
    double waited_seconds; // in courier_wait
};

// Messages that were begun, in this order; the first `done` of them have arrived.
struct message_list {
    struct transport_message *messages;
    int count, done;
};

// Begin another message of a list, whose array has room.
enum berth_status courier_send(struct courier *courier, struct message_list *list, int rank,
                               const void *data, size_t bytes, struct berth_error *error);
enum berth_status courier_receive(struct courier *courier, struct message_list *list, int rank,
                                  void *data, size_t bytes, struct berth_error *error);

// Makes progress; *moved becomes 1 when another message is done.
enum berth_status courier_poll(struct courier *courier, struct message_list *list, int *moved,
                               struct berth_error *error);

static inline int message_list_is_done(const struct message_list *list) {
    return list->done == list->count;
}

// The rank that the first message that is not done goes to or comes from.
int courier_awaited(const struct courier *courier, const struct message_list *list);

// Waits for the whole list. `what` is for messages: "the sum of 3 numbers".
enum berth_status courier_wait(struct courier *courier, struct message_list *list, const char *what,
                               struct berth_error *error);

// A wait that makes no progress: first gives way to other threads, then sleeps, longer each time up
// to a limit. Ranks may share cores, so one that spins would take the time of one that computes.
struct patience {
    double since; // when there was progress last
    int rounds;   // looks since then
    int nap;      // the last one, in microseconds
};

struct patience patience_new(void);
// Microseconds to sleep before the next look; 0: has given way to other threads already.
int patience_next(struct patience *patience);
int patience_is_over(const struct patience *patience, const struct courier *courier);
// When it is over: an error that names the rank that all wait for, or BERTH_OK and more patience
// with it. `rank` is the one that this wait is for.
enum berth_status patience_renew(struct patience *patience, const struct courier *courier, int rank,
                                 const char *what, struct berth_error *error);

#endif
