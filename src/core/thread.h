// SPDX-License-Identifier: Apache-2.0
// Threads of the library, waits with a deadline on the monotonic clock, which nobody sets, and a
// lock that threads get in turn.
#ifndef BERTH_CORE_THREAD_H
#define BERTH_CORE_THREAD_H

#include "core/error.h"

#include <pthread.h>
#include <stdint.h>

// Starts a thread that blocks all signals: they are for the program's own threads.
// Returns 0 or an error number.
int thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
// The same, with an error: BERTH_UNAVAILABLE says why the thread cannot start.
enum berth_status thread_open(pthread_t *thread, void *(*run)(void *context), void *context,
                              struct berth_error *error);

// Starts up to `wanted` threads, which all end before it returns. Returns how many there were at a
// time: fewer if the system refused the next one.
int thread_try(int wanted);

// Initialises a condition variable for thread_wait.
void thread_condition_init(pthread_cond_t *condition);
// Waits, under the mutex, for a signal or until clock_now() is `until`. Returns 0, or ETIMEDOUT
// at that time.
int thread_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double until);

// A lock that threads get in the order in which they asked for it. A thread that releases a mutex
// and acquires it again at once usually gets it before those that wait.
struct fair_lock {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t asked, released; // how often; whose number is `released` holds the lock
};

void fair_lock_init(struct fair_lock *lock);
void fair_lock_done(struct fair_lock *lock);
void fair_lock_acquire(struct fair_lock *lock);
void fair_lock_release(struct fair_lock *lock);

#endif
