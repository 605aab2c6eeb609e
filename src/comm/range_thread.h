// SPDX-License-Identifier: Apache-2.0
// The thread that exchanges ranges, and the queue of those that were begun.
#ifndef BERTH_COMM_RANGE_THREAD_H
#define BERTH_COMM_RANGE_THREAD_H

#include "comm/pipeline.h"

#include <pthread.h>
#include <stdint.h>

struct queued_range;

struct range_thread {
    struct pipeline *pipeline;
    struct fault *fault;
    struct watch *watch;
    pthread_t thread;
    int is_running;
    double busy_since;     // what `busy_seconds` does not have; the thread's own
    pthread_mutex_t mutex; // of all below
    pthread_cond_t queued; // something was begun, or the thread shall end
    pthread_cond_t moved;  // something is completed, or an error was met
    struct queued_range *first, *last;
    int64_t begun, completed; // tickets
    int shall_end;
    double busy_seconds, exposed_seconds;
};

enum berth_status range_thread_start(struct range_thread *thread, struct pipeline *pipeline,
                                     struct berth_error *error);
// Waits for what was begun, unless there was an error. Harmless when it was not started.
void range_thread_end(struct range_thread *thread);

// As in core/comm.h.
int64_t range_thread_begin(struct range_thread *thread, const struct pipeline_kind *kind,
                           const struct comm_range *range);
void range_thread_wait(struct range_thread *thread, int64_t ticket);

// Exchanges that were begun so far.
int64_t range_thread_begun(struct range_thread *thread);

// Adds what ranges took to *stats.
void range_thread_stats(struct range_thread *thread, struct comm_stats *stats);

#endif
