// SPDX-License-Identifier: Apache-2.0
// The first error of a communicator, which its threads share: once one of them sets it, none waits
// for other ranks any longer.
#ifndef BERTH_COMM_FAULT_H
#define BERTH_COMM_FAULT_H

#include "core/error.h"

#include <pthread.h>
#include <stdatomic.h>

struct fault {
    pthread_mutex_t mutex;
    atomic_int is_set;
    int is_remote; // met by another rank, which reports it; has no message
    struct berth_error error;
};

void fault_init(struct fault *fault);
void fault_done(struct fault *fault);

// Sets the error of a function that returned `status`, if that is an error and the first one.
void fault_set(struct fault *fault, enum berth_status status, const struct berth_error *error);

// Sets the status of an error that another rank has met, if it is the first one.
void fault_set_remote(struct fault *fault, enum berth_status status);

static inline int fault_is_set(const struct fault *fault) {
    return atomic_load_explicit(&fault->is_set, memory_order_acquire);
}

// The error that is set, or BERTH_OK.
enum berth_status fault_status(struct fault *fault, struct berth_error *error);

#endif
