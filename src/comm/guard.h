// SPDX-License-Identifier: Apache-2.0
// The last resort against an MPI that hangs. No call of a transport waits, so one that does not
// return long after the deadline is lost in its library, which may wait there for a process that is
// stopped, perhaps with a lock that this process's other threads need. Then no thread can report
// anything, so the guard's own thread, which calls nothing of the transport, ends the process.
//
// Not found here: a rank that is late (watch.h).
#ifndef BERTH_COMM_GUARD_H
#define BERTH_COMM_GUARD_H

#include "comm/host_window.h"
#include "comm/topology.h"
#include "comm/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct guard {
    struct transport transport; // `inner` with counts of its calls
    struct transport *inner;
    _Atomic uint32_t calls[TRANSPORT_CHANNELS]; // that began or returned: odd while one is going on
    const struct topology *topology;
    const struct host_window *window; // tells which ranks of the host are alive
    double timeout_seconds;
    struct pulse *pulses; // [local_size] of the host's ranks
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int is_running, shall_end;
};

// guard->transport replaces `inner` from then on; each channel is used by one thread at a time.
// Nothing is watched yet.
void guard_init(struct guard *guard, struct transport *inner);
// From now on the process ends (transport->abandon) if a call does not return for the deadline and
// two seconds in which this process was not stopped itself. guard_end is harmless without it.
enum berth_status guard_start(struct guard *guard, const struct topology *topology,
                              const struct host_window *window, double timeout_seconds,
                              struct berth_error *error);
void guard_end(struct guard *guard);

#endif
