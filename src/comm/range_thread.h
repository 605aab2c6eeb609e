// SPDX-License-Identifier: Apache-2.0
// The thread that exchanges ranges, and the queue of ranges whose exchange was begun. It is what
// reduce_begin, gather_begin and wait of a communicator of several ranks call (ranks.c).
#ifndef BERTH_COMM_RANGE_THREAD_H
#define BERTH_COMM_RANGE_THREAD_H

#include "comm/pipeline.h"

#include <pthread.h>
#include <stdint.h>

struct queued_range;

struct range_thread {
    struct pipeline *pipeline;
    struct fault *fault;
    struct monitor *monitor;
    pthread_t thread;
    int is_running;
    double busy_since;         // busy_seconds lacks the time since then; the thread's own
    pthread_mutex_t mutex;     // of all below
    pthread_cond_t queued;     // something was begun, or the thread must end
    pthread_cond_t progressed; // something is completed, or an error was met
    struct queued_range *first, *last;
    int64_t begun, completed; // tickets
    int stop_requested;
    double published_at; // when `completed` and busy_seconds were last brought up to date
    // Waits count up to then, not until the waiter runs again, and work counts from when a range
    // was begun, so exposed seconds are no more than busy ones.
    double busy_seconds, exposed_seconds;
};

enum berth_status range_thread_start(struct range_thread *thread, struct pipeline *pipeline,
                                     struct berth_error *error);
// Waits for the exchanges that were begun, unless there was an error. Harmless if the thread was
// not started.
void range_thread_end(struct range_thread *thread);

// As in comm/comm.h.
int64_t range_thread_begin(struct range_thread *thread, const struct pipeline_phases *phases,
                           const struct comm_range *range);
void range_thread_wait(struct range_thread *thread, int64_t ticket);

// The number of exchanges begun so far.
int64_t range_thread_begun(struct range_thread *thread);

// Adds the bytes and seconds of exchanges of ranges to *stats.
void range_thread_stats(struct range_thread *thread, struct comm_stats *stats);

#endif
