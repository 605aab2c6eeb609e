// SPDX-License-Identifier: Apache-2.0
// A thread with a beat: calls a function at short intervals until it is told to end. The start of a
// job (start.c) and the watchdog of a transport (watchdog.c) use one each.
#include "comm/watch.h"

#include "core/clock.h"
#include "core/thread.h"

// Called with the mutex held. Returns 0 if the thread must end.
static int wait_for_beat(struct watch *watch) {
    const double until = clock_now() + WATCH_BEAT_SECONDS;
    int failure = 0;
    while (!watch->stop_requested && failure == 0) {
        failure = thread_wait(&watch->changed, &watch->mutex, until);
    }
    return !watch->stop_requested;
}

static void *run(void *context) {
    struct watch *watch = context;
    pthread_mutex_lock(&watch->mutex);
    while (wait_for_beat(watch)) {
        watch->beat(watch->context);
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

static void destroy(struct watch *watch) {
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->mutex);
}

enum berth_status watch_start(struct watch *watch, struct berth_error *error) {
    watch->stop_requested = 0;
    thread_condition_init(&watch->changed);
    pthread_mutex_init(&watch->mutex, NULL);
    const int failure = thread_start(&watch->thread, run, watch);
    watch->is_running = failure == 0;
    if (failure != 0) {
        destroy(watch);
    }
    return failure == 0 ? BERTH_OK
                        : error_set_errno(error, BERTH_UNAVAILABLE, failure,
                                          "cannot start the watchdog thread");
}

void watch_end(struct watch *watch) {
    if (!watch->is_running) {
        return;
    }
    pthread_mutex_lock(&watch->mutex);
    watch->stop_requested = 1;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    destroy(watch);
    watch->is_running = 0;
}
