// SPDX-License-Identifier: Apache-2.0
#include "core/thread.h"

#include <signal.h>
#include <time.h>

int thread_start(pthread_t *thread, void *(*run)(void *context), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failure = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

enum berth_status thread_open(pthread_t *thread, void *(*run)(void *context), void *context,
                              struct berth_error *error) {
    const int failure = thread_start(thread, run, context);
    return failure == 0
               ? BERTH_OK
               : error_set_errno(error, BERTH_UNAVAILABLE, failure, "cannot start a thread");
}

struct trial {
    int wanted, started;
};

// Each thread starts the next one and waits for it, so that all of them live at the end.
static void *start_next(void *context) {
    struct trial *trial = context;
    pthread_t next;
    trial->started++;
    if (trial->started < trial->wanted && thread_start(&next, start_next, trial) == 0) {
        pthread_join(next, NULL);
    }
    return NULL;
}

int thread_try(int wanted) {
    struct trial trial = {.wanted = wanted + 1}; // with this one
    (void)start_next(&trial);
    return trial.started - 1;
}

void thread_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

int thread_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double until) {
    const time_t seconds = (time_t)until;
    const struct timespec end = {.tv_sec = seconds,
                                 .tv_nsec = (long)((until - (double)seconds) * 1e9)};
    return pthread_cond_timedwait(condition, mutex, &end);
}

void fair_lock_init(struct fair_lock *lock) {
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_cond_init(&lock->changed, NULL);
    lock->asked = lock->released = 0;
}

void fair_lock_done(struct fair_lock *lock) {
    pthread_mutex_destroy(&lock->mutex);
    pthread_cond_destroy(&lock->changed);
}

void fair_lock_acquire(struct fair_lock *lock) {
    pthread_mutex_lock(&lock->mutex);
    const uint64_t number = lock->asked++;
    while (lock->released != number) {
        pthread_cond_wait(&lock->changed, &lock->mutex);
    }
    pthread_mutex_unlock(&lock->mutex);
}

void fair_lock_release(struct fair_lock *lock) {
    pthread_mutex_lock(&lock->mutex);
    lock->released++;
    pthread_cond_broadcast(&lock->changed);
    pthread_mutex_unlock(&lock->mutex);
}
