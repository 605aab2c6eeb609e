// SPDX-License-Identifier: Apache-2.0
// The last resort against an MPI that hangs. No call of a transport blocks, so one that has not
// returned long after the deadline hangs in its library. The library may be waiting for a stopped
// process while it holds a lock that this process's other threads need. Then no other thread can
// report anything, so the watchdog's thread, which never calls the transport, ends the process.
//
// Not detected here: a rank that is late (monitor.h), a job that does not start (start.h).
#ifndef BERTH_COMM_WATCHDOG_H
#define BERTH_COMM_WATCHDOG_H

#include "comm/host_window.h"
#include "comm/topology.h"
#include "comm/transport.h"
#include "comm/watch.h"

#include <stdatomic.h>
#include <stdint.h>

// A counter of another thread or process, and for how many beats it has not changed.
struct pulse {
    uint32_t count;
    int stalled_beats;
};

struct watchdog {
    struct transport transport; // `inner`, with its calls counted
    struct transport *inner;
    _Atomic uint32_t calls[TRANSPORT_CHANNELS]; // begun plus returned: odd during a call
    const struct topology *topology;
    const struct host_window *window; // its heartbeats show which ranks of the host are alive
    double timeout_seconds;
    struct pulse channels[TRANSPORT_CHANNELS]; // of the calls
    struct pulse *ranks;                       // [local_size] of the host's
    struct watch watch;
};

// From then on, watchdog->transport replaces `inner`; each channel is used by one thread at a time.
// Nothing is watched yet.
void watchdog_init(struct watchdog *watchdog, struct transport *inner);
// From then on, the process is ended (transport->abandon) if a call does not return within the
// deadline plus two seconds, not counting time in which this process itself was stopped.
// watchdog_end is harmless without it.
enum berth_status watchdog_start(struct watchdog *watchdog, const struct topology *topology,
                                 const struct host_window *window, double timeout_seconds,
                                 struct berth_error *error);
void watchdog_end(struct watchdog *watchdog);

#endif
