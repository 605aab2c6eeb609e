// SPDX-License-Identifier: Apache-2.0
// A job whose ranks are threads of the test, each with a communicator over sockets, on hosts that
// differ in name only.
#ifndef BERTH_TESTS_COMM_JOB_H
#define BERTH_TESTS_COMM_JOB_H

#include "comm/ranks.h"
#include "socket_transport.h"

#include <stdatomic.h>

// What each rank's thread runs. `transport` is the one below the communicator.
typedef void job_body(struct comm *comm, const struct transport *transport, void *context);

struct job {
    int size;
    int hosts[SOCKET_PROCESSES]; // of each process
    int racks[SOCKET_PROCESSES]; // likewise
    int has_racks;
    struct comm_settings settings;
    struct socket_faults faults[SOCKET_PROCESSES];
    job_body *body;
    void *context;
    // The result of opening, by process; comms[i] is NULL after an error.
    struct comm *comms[SOCKET_PROCESSES];
    struct transport *transports[SOCKET_PROCESSES];
    enum berth_status status[SOCKET_PROCESSES];
    struct berth_error errors[SOCKET_PROCESSES];
};

// "2x4" (hosts x ranks), "2x2x2" (racks x hosts of each x ranks), "3+5" (ranks of each host) or
// "1+2/5" (likewise, in two racks), with the usual settings.
struct job job_of(const char *layout);

// Opens all ranks, runs `body` in a thread for each, and closes them once all threads have ended.
// Fails if one cannot be opened, or if a CHECK failed.
void job_run(struct job *job);
// Only open, or only close, the ranks.
void job_open(struct job *job);
void job_close(struct job *job);

// cmocka's assertions work in the main thread only; CHECK works in any.
#define CHECK(condition) job_check(condition, #condition, __FILE__, __LINE__)
int job_check(int holds, const char *condition, const char *file, int line);

#endif
