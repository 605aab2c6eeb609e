// SPDX-License-Identifier: Apache-2.0
// The transport contract: messages between the processes of a job. ranks.c builds a communicator
// (comm/comm.h) on it. A module for each MPI implements it, as do the tests, over sockets. An MPI
// also offers its own collectives, which native.c uses.
//
// Messages from one process to another on one channel arrive in the order in which they were sent.
// Several threads may use a transport at once, each with its own channels.
#ifndef BERTH_COMM_TRANSPORT_H
#define BERTH_COMM_TRANSPORT_H

#include "core/error.h"
#include "core/mat.h"

#include <stddef.h>
#include <stdint.h>

enum transport_channel {
    TRANSPORT_COLLECTIVES, // of the job's thread
    TRANSPORT_AGREEMENTS,  // likewise; separate, so that a rank that fails alone disturbs no other
                           // collective
    TRANSPORT_RANGES,      // exchanges of ranges, by the communicator's own thread
    TRANSPORT_RELAYS,      // likewise, what a rank sends on for others (pipeline.h)
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
    size_t bytes;      // at most INT_MAX; sender and receiver agree on it
    int is_collective; // then the peer only stands for all that take part
    union {
        void *pointer;
        int number;
    } request; // the transport's own
};

// A collective of the library itself among the processes of a group. Counts and offsets are of
// elements, one for each process of the group in its order; they stay the caller's until the
// message is done, as do `from` and the message's data, which is the result.
enum transport_collective_kind {
    TRANSPORT_REDUCE_SCATTER, // the sums of this process's part of `from`
    TRANSPORT_ALL_REDUCE,     // the sums of all parts of `from`
    TRANSPORT_ALL_GATHER      // part i is at data + offsets[i]; this process's own is there already
};

struct transport_collective {
    enum transport_collective_kind kind;
    enum dtype dtype; // f32, bf16 or f16; sums of two are rounded to it
    const void *from;
    const int *counts, *offsets;
    int size; // of the group
};

struct transport {
    const char *name; // "openmpi"
    void *state;
    int rank, size;
    const char *version;    // the library's: "Open MPI v4.1.4"
    double timeout_seconds; // of the end of the job, when the library waits for all processes; set
                            // by whoever opened the transport; 0: no end

    // Adds the numbers of a collective; likewise. The library calls it on any thread.
    void (*add)(enum dtype dtype, void *to, const void *from, int64_t count);

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
    // Joins the group of the processes that pass the same color, in the order of `place`. All
    // processes call it, and wait for each other. NULL: the transport has no collectives.
    enum berth_status (*join_group)(struct transport *transport, int color, int place,
                                    struct berth_error *error);
    // Begins a collective of the group; all its processes begin the same ones in the same order.
    // The caller has set the message's peer, any process that takes part, and its channel, data and
    // bytes. `test` tells when it is done.
    enum berth_status (*collect)(struct transport *transport, struct transport_message *message,
                                 const struct transport_collective *collective,
                                 struct berth_error *error);
    // 1: to reduce to all takes the library less than to reduce, scatter and gather.
    int prefers_all_reduce;
    void (*close)(struct transport *transport, enum transport_end end);
    // Prints the error and soon ends the process with its status, even if the library hangs; the
    // launcher then ends the others. Does not return.
    void (*abandon)(struct transport *transport, const struct berth_error *error);
};

#endif
