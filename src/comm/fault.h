// SPDX-License-Identifier: Apache-2.0
// The first error that a communicator meets. Its threads share it: one sets it, none waits for
// other ranks from then on.
#ifndef BERTH_COMM_FAULT_H
#define BERTH_COMM_FAULT_H

#include "core/error.h"

#include <pthread.h>
#include <stdatomic.h>

struct fault {
    pthread_mutex_t mutex;
    atomic_int is_set;
    int is_foreign; // met by another rank, which reports it: without a message
    struct berth_error error;
};

void fault_init(struct fault *fault);
void fault_done(struct fault *fault);

// Keeps the error of something that returned `status`, if it is one and the first.
void fault_keep(struct fault *fault, enum berth_status status, const struct berth_error *error);

// Keeps the status of an error that another rank has met, if it is the first.
void fault_keep_foreign(struct fault *fault, enum berth_status status);

static inline int fault_is_set(const struct fault *fault) {
    return atomic_load_explicit(&fault->is_set, memory_order_acquire);
}

// The error that is kept, or BERTH_OK.
enum berth_status fault_status(struct fault *fault, struct berth_error *error);

#endif
