// SPDX-License-Identifier: Apache-2.0
// A transport over socket pairs, between threads or forked processes, that can corrupt messages and
// counts them.
#ifndef BERTH_TESTS_COMM_SOCKET_TRANSPORT_H
#define BERTH_TESTS_COMM_SOCKET_TRANSPORT_H

#include "comm/transport.h"

#include <stdatomic.h>
#include <stdint.h>

enum { SOCKET_PROCESSES = 8, LAST_WORDS = 1024 };

struct socket_job {
    int size;
    // ends[channel][i][j] is process i's end of its connection to process j.
    int ends[TRANSPORT_CHANNELS][SOCKET_PROCESSES][SOCKET_PROCESSES];
};

// The faults of a process, and of what it sends on TRANSPORT_RANGES and
// TRANSPORT_RELAYS.
struct socket_faults {
    int64_t
        flip_message; // number of the message, counted from 1, of which a bit is flipped; 0: none
    size_t flip_byte;
    int seals_again;  // makes the checksum fit again
    int hangs;        // once it has sent a message on TRANSPORT_AGREEMENTS, no call returns
    char *last_words; // [LAST_WORDS] receives the message of transport->abandon
};

void socket_job_init(struct socket_job *job, int size);
// Closes the ends that no process has taken.
void socket_job_done(struct socket_job *job);
// For a forked process: closes the ends of all other processes.
void socket_job_leave(struct socket_job *job, int process);

// The transport of one process, which takes over its ends.
struct transport *socket_transport_open(struct socket_job *job, int process,
                                        const struct socket_faults *faults);
// Bytes and messages sent to another process on a channel.
uint64_t socket_transport_bytes(const struct transport *transport, int peer,
                                enum transport_channel channel);
uint64_t socket_transport_messages(const struct transport *transport, int peer,
                                   enum transport_channel channel);

#endif
