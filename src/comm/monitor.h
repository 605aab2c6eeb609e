// SPDX-License-Identifier: Apache-2.0
// Finds the rank that keeps the others waiting. A thread of each rank replies to queries about the
// rank's state, whatever its other threads do, and announces the rank's first error, so that all
// ranks end at once.
//
// Nothing is sent as long as all goes well. A rank whose wait reaches the deadline queries the rank
// that it waits for; that one may wait for a third, which is queried next, and so on. At the end of
// the chain is a rank that does not reply (stopped, cut off, dead) or one that works. A rank that
// works in a phase without exchanges is not late as long as its process uses the processor; in an
// update it is late once the deadline has passed, whatever it does.
//
// Not detected here: a process that has ended. The launcher notices that and ends the others.
#ifndef BERTH_COMM_MONITOR_H
#define BERTH_COMM_MONITOR_H

#include "comm/comm.h"
#include "comm/fault.h"
#include "comm/topology.h"
#include "comm/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

// A rank that does not reply to a query within this time counts as silent.
#define MONITOR_REPLY_SECONDS 2.0

// What a rank's job thread and its exchanging thread are doing.
struct rank_state {
    int64_t awaited;       // rank that a collective or an agreement waits for; -1: none
    int64_t range_awaited; // likewise, of the exchanging thread
    int64_t waits_for_range;
    int64_t phase; // enum comm_phase
    int64_t update;
    double seconds; // since the job thread began to wait or to work; in a long phase, since the
                    // process last used the processor
    double range_seconds; // since the exchanging thread began to wait
};

struct pending_message;

struct monitor {
    struct transport *transport;
    const struct topology *topology;
    struct fault *fault;
    double timeout_seconds;
    clockid_t range_clock; // processor time of the exchanging thread
    pthread_t thread;
    int is_running;
    // Written by the rank's other threads; times are monitor_time().
    _Atomic int awaited[TRANSPORT_CHANNELS]; // 1 + the rank that the channel waits for; 0: none
    _Atomic int range_waiters;               // callers that wait for ranges
    _Atomic int phase;
    _Atomic int64_t update;
    _Atomic double since;       // when the job thread last began or ended a wait, or a phase
    _Atomic double range_since; // when the exchanging thread last began to wait
    _Atomic double worked_at;   // when the process last used the processor
    // Written by the monitor's thread; all but the time are used by it alone.
    _Atomic double time;          // monitor_time()
    double polled_at;             // clock_now() of the last poll
    double sampled_at, sampled;   // seconds, seconds of processor time
    struct pending_message *sent; // messages whose sending is not complete
    pthread_mutex_t query_mutex;  // one query at a time
    pthread_mutex_t mutex;        // of all below
    pthread_cond_t changed;
    int query_target; // rank to query; -1: none
    int64_t query;    // number of the last one
    int has_reply;
    struct rank_state reply;
    int silent;       // 1 + the rank that did not reply; 0: none
    int is_announced; // this rank's error
    int stop_requested;
};

// Starts the thread; the caller has set the members above it. On a monitor that is not running, all
// other functions are harmless.
enum berth_status monitor_start(struct monitor *monitor, struct berth_error *error);
// Announces this rank's error, if there is one, and ends the thread. Messages may be in flight
// until the transport is closed; only then call monitor_done.
void monitor_end(struct monitor *monitor);
void monitor_done(struct monitor *monitor);

// Seconds. Stands still while the process is stopped, so that after scontrol suspend and resume, or
// SIGSTOP and SIGCONT, no rank's time is up at once.
double monitor_time(const struct monitor *monitor);

void monitor_enter(struct monitor *monitor, enum comm_phase phase, int64_t update);

// A thread now waits for `rank` on the channel; -1: it waits no longer.
void monitor_wait(struct monitor *monitor, enum transport_channel channel, int rank);
// One more caller waits for a range (more = 1), or one fewer (-1).
void monitor_wait_range(struct monitor *monitor, int more);

// Finds a rank that does not reply, as find_silent of comm.h. Call only while the monitor runs.
enum berth_status monitor_find_silent(struct monitor *monitor, const char *what,
                                      struct berth_error *error);

// Called near the deadline of a wait for `rank` on the channel, in the operation `what`. Finds the
// rank that keeps all others waiting. BERTH_OK: it may take *seconds longer. Otherwise an error
// that names it, or one that was met meanwhile.
enum berth_status monitor_extend_wait(struct monitor *monitor, enum transport_channel channel,
                                      int rank, const char *what, double *seconds,
                                      struct berth_error *error);

#endif
