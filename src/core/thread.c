// SPDX-License-Identifier: Apache-2.0
// Starts threads that receive no signals, so that the program's handlers run in its first thread,
// and has waits and a fair lock for them. Loops that compute use OpenMP instead.
#include "core/thread.h"

#include "core/memory.h"

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

static void *wait_for_unlock(void *mutex) {
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

int threads_startable(int count) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = memory_array((size_t)count, sizeof *threads);
    int started = 0;
    pthread_mutex_lock(&mutex);
    while (threads != NULL && started < count &&
           thread_start(&threads[started], wait_for_unlock, &mutex) == 0) {
        started++;
    }
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    memory_free(threads);
    return started;
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
