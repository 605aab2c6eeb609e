// SPDX-License-Identifier: Apache-2.0
// A job whose ranks are threads of the test, each with a communicator over sockets, on hosts that
// differ in name only.
#ifndef BERTH_TESTS_COMM_JOB_H
#define BERTH_TESTS_COMM_JOB_H

#include "comm/ranks.h"
#include "socket_transport.h"

#include <stdatomic.h>

// What each rank's thread runs. `transport` is what lies below the communicator.
typedef void job_body(struct comm *comm, const struct transport *transport, void *context);

struct job {
    int size;
    int hosts[SOCKET_PROCESSES]; // of each process
    struct comm_settings settings;
    struct socket_faults faults[SOCKET_PROCESSES];
    job_body *body;
    void *context;
    // What opening gave, by process; comms NULL after an error.
    struct comm *comms[SOCKET_PROCESSES];
    struct transport *transports[SOCKET_PROCESSES];
    enum berth_status status[SOCKET_PROCESSES];
    struct berth_error errors[SOCKET_PROCESSES];
};

// "2x4" (hosts x ranks) or "3+5" (ranks of each host); the settings are the usual ones.
struct job job_of(const char *layout);

// Opens all ranks, runs `body` in a thread for each that is open, and closes them when all are
// through.
void job_run(struct job *job);
// The first and the last of these alone.
void job_open(struct job *job);
void job_close(struct job *job);

// cmocka's assertions are for the main thread only: a check that fails anywhere makes job_run fail.
#define CHECK(condition) job_check(condition, #condition, __FILE__, __LINE__)
int job_check(int holds, const char *condition, const char *file, int line);

#endif
