// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other beside the exchanges. A thread of each rank answers where the rank is,
// whatever its other threads do, and announces the first error that the rank meets, so that all
// ranks end at once.
//
// Nothing is sent while all goes well. A rank whose wait has reached the deadline asks the rank
// that it waits for; that one may wait for a third, which is asked next, and so on. At the end of
// the chain is a rank that does not answer (stopped, cut off, dead) or one that works. A rank that
// works in a phase without exchanges is not late as long as its process uses the processor; in an
// update it is late when its time is over, whatever it does.
//
// Not found here: a rank whose process is gone. The launcher notices, and ends the others.
#ifndef BERTH_COMM_WATCH_H
#define BERTH_COMM_WATCH_H

#include "comm/fault.h"
#include "comm/topology.h"
#include "comm/transport.h"
#include "core/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

// After which a rank that was asked is taken for silent.
#define WATCH_ANSWER_SECONDS 2.0

// Where a rank is: what its job's thread does, and what the thread that exchanges ranges does.
struct standing {
    int64_t awaited;       // rank that a call or an agreement waits for; -1: none
    int64_t range_awaited; // likewise, of the exchanges of ranges
    int64_t waits_for_range;
    int64_t phase; // enum comm_phase
    int64_t update;
    double seconds; // since it began to wait or to work, or in a long phase last did some work
    double range_seconds; // since it began to wait
};

struct watch_letter;

struct watch {
    struct transport *transport;
    const struct topology *topology;
    struct fault *fault;
    double timeout_seconds;
    clockid_t range_clock; // processor time of the thread that exchanges ranges
    pthread_t thread;
    int is_running;
    // Of the rank's other threads.
    _Atomic int awaited[TRANSPORT_CHANNELS]; // rank + 1 that a wait on the channel is for; 0: none
    _Atomic int range_waiters;               // callers that wait for ranges
    _Atomic int phase;
    _Atomic int64_t update;
    _Atomic double since;       // when the job's thread last began or ceased to wait, or entered
    _Atomic double range_since; // when the other one last began to wait
    _Atomic double worked_at;   // when the process last used the processor
    // The thread's own.
    double sampled_at, sampled; // seconds, seconds of processor time
    struct watch_letter *sent;  // whose sending is not completed
    pthread_mutex_t inquiry;    // one question at a time
    pthread_mutex_t mutex;      // of all below
    pthread_cond_t changed;
    int asked; // rank to ask; -1: none
    int64_t question;
    int is_answered;
    struct standing answer;
    int silent;       // rank + 1 that was asked and did not answer; 0: none
    int is_announced; // this rank's error
    int shall_end;
};

// Starts the thread; all above it is filled in before. Of a watch that is not running, all other
// functions are harmless.
enum berth_status watch_start(struct watch *watch, struct berth_error *error);
// Announces this rank's error, if there is one. Letters may be under way until the transport is
// closed: then watch_done.
void watch_end(struct watch *watch);
void watch_done(struct watch *watch);

void watch_enter(struct watch *watch, enum comm_phase phase, int64_t update);

// A thread waits for `rank` on the channel; -1: it waits no longer.
void watch_wait(struct watch *watch, enum transport_channel channel, int rank);
// One caller more or less waits for a range.
void watch_wait_range(struct watch *watch, int more);

// Near the deadline of a wait for `rank` on the channel, in `what`: finds the rank that keeps all
// others. BERTH_OK: it may take *seconds more. Else an error that names it; also one that was met
// meanwhile.
enum berth_status watch_judge(struct watch *watch, enum transport_channel channel, int rank,
                              const char *what, double *seconds, struct berth_error *error);

#endif
