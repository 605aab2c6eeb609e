// SPDX-License-Identifier: Apache-2.0
// The transport contract: messages between the processes of a job. ranks.c builds a communicator
// (comm/comm.h) on it. A module for each MPI implements it, as do the tests, over sockets.
//
// Messages from one process to another on one channel arrive in the order in which they were sent.
// Several threads may use a transport at once, each with its own channels.
#ifndef BERTH_COMM_TRANSPORT_H
#define BERTH_COMM_TRANSPORT_H

#include "core/error.h"

#include <stddef.h>

enum transport_channel {
    TRANSPORT_COLLECTIVES, // of the job's thread
    TRANSPORT_AGREEMENTS,  // likewise; separate, so that a rank that fails alone disturbs no other
                           // collective
    TRANSPORT_RANGES,      // exchanges of ranges, by the communicator's own thread
    TRANSPORT_MONITOR,     // monitor.h
    TRANSPORT_CHANNELS
};

// How a process leaves a job.
enum transport_end {
    TRANSPORT_DONE,
    TRANSPORT_FAILED,          // does not wait for other processes
    TRANSPORT_FAILED_ELSEWHERE // likewise, but later than the process that reports the error
};

// A message in flight. It and its data belong to the transport until `test` reports it as done.
struct transport_message {
    int peer; // the process at the other end
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
    const char *version;    // the library's: "Open MPI v4.1.4"
    double timeout_seconds; // of the end of the job, when the library waits for all processes; set
                            // by whoever opened the transport; 0: no end

    // Begin to send and to receive.
    enum berth_status (*send)(struct transport *transport, struct transport_message *message,
                              struct berth_error *error);
    enum berth_status (*receive)(struct transport *transport, struct transport_message *message,
                                 struct berth_error *error);
    // Makes progress with all messages of the channel; *done becomes 1 if this one was sent or
    // received, else 0. BERTH_UNAVAILABLE: its peer is gone.
    enum berth_status (*test)(struct transport *transport, struct transport_message *message,
                              int *done, struct berth_error *error);
    // Receives the next message of the channel, from any process, if one has arrived; *peer becomes
    // that process, or -1. All messages of the channel have this size. Only for channels on which
    // `receive` is not used.
    enum berth_status (*receive_any)(struct transport *transport, enum transport_channel channel,
                                     void *data, size_t bytes, int *peer,
                                     struct berth_error *error);
    void (*close)(struct transport *transport, enum transport_end end);
    // Prints the error and soon ends the process with its status, even if the library hangs; the
    // launcher then ends the others. Does not return.
    void (*abandon)(struct transport *transport, const struct berth_error *error);
};

#endif
