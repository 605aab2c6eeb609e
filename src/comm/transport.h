// SPDX-License-Identifier: Apache-2.0
// The transport contract: messages between the processes of a job. ranks.c builds a communicator
// (core/comm.h) on it; a module for each MPI implements it, and so do the tests, with threads.
//
// Messages from one process to another on one channel arrive in the order in which they were sent.
// Two threads may use a transport at once, each its own channel.
#ifndef BERTH_COMM_TRANSPORT_H
#define BERTH_COMM_TRANSPORT_H

#include "core/error.h"

#include <stddef.h>

// Calls of the job's thread; ranges that the communicator's own thread exchanges.
enum transport_channel { TRANSPORT_CALLS, TRANSPORT_RANGES, TRANSPORT_CHANNELS };

// A message on its way. It and its data belong to the transport until `test` says that it is done.
struct transport_message {
    int peer; // process that it goes to, or comes from
    enum transport_channel channel;
    void *data;
    size_t bytes; // at most INT_MAX; sender and receiver agree on it
    union {
        void *pointer;
        int number;
    } request; // the transport's own
};

struct transport {
    const char *name; // "openmpi"
    void *state;
    int rank, size;
    const char *version; // of the library: "Open MPI v4.1.4"

    // Begin to send and to receive.
    enum berth_status (*send)(struct transport *transport, struct transport_message *message,
                              struct berth_error *error);
    enum berth_status (*receive)(struct transport *transport, struct transport_message *message,
                                 struct berth_error *error);
    // Makes progress with all messages of the channel; *done becomes 1 when this one was sent or
    // received, else 0. BERTH_UNAVAILABLE: its peer is gone.
    enum berth_status (*test)(struct transport *transport, struct transport_message *message,
                              int *done, struct berth_error *error);
    // `failed`: leaves without waiting for the other processes.
    void (*close)(struct transport *transport, int failed);
};

#endif
