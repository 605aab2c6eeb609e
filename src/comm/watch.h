// SPDX-License-Identifier: Apache-2.0
// A thread that watches something of its process at short intervals, whatever the process's other
// threads do. Time is counted in its beats, so that a process that was stopped for a while does not
// count as hung afterwards.
#ifndef BERTH_COMM_WATCH_H
#define BERTH_COMM_WATCH_H

#include "core/error.h"

#include <pthread.h>

#define WATCH_BEAT_SECONDS 0.1

struct watch {
    void (*beat)(void *context); // called by the thread
    void *context;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int is_running, stop_requested;
};

// Starts the thread; the caller has set the members above it.
enum berth_status watch_start(struct watch *watch, struct berth_error *error);
// Ends it; harmless if it is not running.
void watch_end(struct watch *watch);

#endif
