// SPDX-License-Identifier: Apache-2.0
// Keeps the first error of a communicator for all of its threads. Whoever meets an error sets it
// here; every wait looks here, and `status` and `agree` return it.
#include "comm/fault.h"

void fault_init(struct fault *fault) {
    *fault = (struct fault){0};
    pthread_mutex_init(&fault->mutex, NULL);
}

void fault_done(struct fault *fault) {
    pthread_mutex_destroy(&fault->mutex);
}

static void set_first(struct fault *fault, const struct berth_error *error, int is_remote) {
    pthread_mutex_lock(&fault->mutex);
    if (!fault_is_set(fault)) {
        fault->error = *error;
        fault->is_remote = is_remote;
        atomic_store_explicit(&fault->is_set, 1, memory_order_release);
    }
    pthread_mutex_unlock(&fault->mutex);
}

void fault_set(struct fault *fault, enum berth_status status, const struct berth_error *error) {
    if (status != BERTH_OK) {
        set_first(fault, error, 0);
    }
}

void fault_set_remote(struct fault *fault, enum berth_status status) {
    set_first(fault, &(struct berth_error){.status = status}, 1);
}

// Once set, the error never changes.
enum berth_status fault_status(struct fault *fault, struct berth_error *error) {
    if (!fault_is_set(fault)) {
        return BERTH_OK;
    }
    if (error != NULL) {
        *error = fault->error;
    }
    return fault->error.status;
}
