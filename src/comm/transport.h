// SPDX-License-Identifier: Apache-2.0
// The transport contract: messages between the processes of a job. ranks.c builds a communicator
// (core/comm.h) on it; a module for each MPI implements it, and so do the tests, with threads.
//
// Messages from one process to another on one channel arrive in the order in which they were sent.
// Several threads may use a transport at once, each its own channels.
#ifndef BERTH_COMM_TRANSPORT_H
#define BERTH_COMM_TRANSPORT_H

#include "core/error.h"

#include <stddef.h>

enum transport_channel {
    TRANSPORT_CALLS,      // of the job's thread
    TRANSPORT_AGREEMENTS, // likewise; apart, so that a rank that fails alone confuses no other call
    TRANSPORT_RANGES,     // that the communicator's own thread exchanges
    TRANSPORT_WATCH,      // watch.h
    TRANSPORT_CHANNELS
};

// How a process leaves a job.
enum transport_end {
    TRANSPORT_DONE,
    TRANSPORT_FAILED,          // without waiting for other processes
    TRANSPORT_FAILED_ELSEWHERE // the same, later than the process that reports the error
};

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
    // Receives the next message of the channel, from any process, if one has arrived; all of the
    // channel have the same size. *peer: the process, or -1. Only for channels without `receive`.
    enum berth_status (*look)(struct transport *transport, enum transport_channel channel,
                              void *data, size_t bytes, int *peer, struct berth_error *error);
    void (*close)(struct transport *transport, enum transport_end end);
    // Prints the error and ends the process with its status, soon, even if the library hangs; the
    // launcher then ends the others. Does not return.
    void (*abandon)(struct transport *transport, const struct berth_error *error);
};

#endif
