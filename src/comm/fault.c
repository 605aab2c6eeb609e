// SPDX-License-Identifier: Apache-2.0
#include "comm/fault.h"

void fault_init(struct fault *fault) {
    *fault = (struct fault){0};
    pthread_mutex_init(&fault->mutex, NULL);
}

void fault_done(struct fault *fault) {
    pthread_mutex_destroy(&fault->mutex);
}

static void keep(struct fault *fault, const struct berth_error *error, int is_foreign) {
    pthread_mutex_lock(&fault->mutex);
    if (!fault_is_set(fault)) {
        fault->error = *error;
        fault->is_foreign = is_foreign;
        atomic_store_explicit(&fault->is_set, 1, memory_order_release);
    }
    pthread_mutex_unlock(&fault->mutex);
}

void fault_keep(struct fault *fault, enum berth_status status, const struct berth_error *error) {
    if (status != BERTH_OK) {
        keep(fault, error, 0);
    }
}

void fault_keep_foreign(struct fault *fault, enum berth_status status) {
    keep(fault, &(struct berth_error){.status = status}, 1);
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
