// SPDX-License-Identifier: Apache-2.0
// Threads of the library's own, and waits with an end by the monotonic clock, which nobody sets.
#ifndef BERTH_CORE_THREAD_H
#define BERTH_CORE_THREAD_H

#include "core/error.h"

#include <pthread.h>

// Starts a thread to which no signal is delivered: signals are for the program's own threads.
// Returns 0 or an error number.
int thread_start(pthread_t *thread, void *(*run)(void *context), void *context);
// The same with an error that says why there is no thread, BERTH_UNAVAILABLE.
enum berth_status thread_open(pthread_t *thread, void *(*run)(void *context), void *context,
                              struct berth_error *error);

// Initialises a condition for thread_wait.
void thread_condition_init(pthread_cond_t *condition);
// Waits, under the mutex, for a signal or until clock_now() is `until`. Returns 0, or ETIMEDOUT
// at that time.
int thread_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double until);

#endif
