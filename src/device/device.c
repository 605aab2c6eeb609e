// SPDX-License-Identifier: Apache-2.0
// What does not depend on the kind of device: the check of an open one, which machine.c makes when
// it has opened it for a job, and the error of one whose memory is full, for whoever allocates.
#include "device/device.h"

#include "core/check.h"
#include "core/error.h"

#include <inttypes.h>
#include <stddef.h>

enum {
#define OPERATION(name, ...) OPERATION_##name,
#include "device/operations.inc"
#undef OPERATION
    OPERATION_COUNT
};
_Static_assert(offsetof(struct device, measure_peak) ==
                   offsetof(struct device, embed_forward) + OPERATION_COUNT * sizeof(void *),
               "operations.inc has every operation");

static int has_all_operations(const struct device *device) {
#define OPERATION(name, ...) device->name != NULL &&
    return
#include "device/operations.inc"
        1;
#undef OPERATION
}

static const char *check_memory(const struct device *device) {
    CLAUSE(device->memory_new != NULL && device->memory_free != NULL && device->upload != NULL &&
               device->download != NULL && device->zero != NULL && device->discard != NULL,
           "a device allocates, copies and clears memory");
    CLAUSE(device->workspace_bytes != NULL && device->reserve != NULL && device->status != NULL &&
               device->mark != NULL && device->times != NULL && device->describe != NULL &&
               device->close != NULL,
           "a device reserves memory, keeps its error and its times, and can be closed");
    CLAUSE(!device->is_host || device->pinned_new == NULL,
           "the host's memory needs no pinned copy");
    CLAUSE((device->pinned_new != NULL) == (device->pinned_free != NULL) &&
               (device->pinned_new != NULL) == (device->fetch_begin != NULL) &&
               (device->pinned_new != NULL) == (device->fetch_wait != NULL),
           "pinned memory and fetches come together");
    CLAUSE((device->peers_id != NULL) == (device->peers_open != NULL) &&
               (device->peers_id != NULL) == (device->peers_close != NULL) &&
               (device->peers_id != NULL) == (device->peers_reduce != NULL) &&
               (device->peers_id != NULL) == (device->peers_gather != NULL) &&
               (device->peers_id != NULL) == (device->peers_wait != NULL),
           "a device exchanges with its peers by all of these functions, or by none");
    return NULL;
}

const char *device_check(const struct device *device) {
    CLAUSE(device->name != NULL && device->kernels != NULL, "a device and its kernels have names");
    CLAUSE(device->threads >= 1, "the host has at least one thread for the device's work");
    CLAUSE(device->dtypes >> DTYPE_F32 & 1, "every device computes in f32");
    CLAUSE(device->dtypes >> device->fast_dtype & 1, "a device has its fast dtype");
    const char *broken = check_memory(device);
    CLAUSE(broken != NULL || has_all_operations(device), "a device has every operation");
    const int has_int8 = (int)(device->dtypes >> DTYPE_I8 & 1);
    CLAUSE(!has_int8 == (device->int8_bytes == NULL) && !has_int8 == (device->int8_pack == NULL) &&
               !has_int8 == (device->int8_finish == NULL) &&
               !has_int8 == (device->linear_int8_forward == NULL),
           "the bit of i8 stands for all operations on int8 matrices");
    CLAUSE((device->packs != NULL) == (device->pack != NULL) &&
               (device->packs != NULL) == (device->linear_packed_forward != NULL),
           "packed weights have all of their operations, or none");
    return broken;
}

enum berth_status device_no_memory(struct device *device, size_t bytes, const char *purpose,
                                   struct berth_error *error) {
    const char *limit;
    if (device->is_host || device->memory_available == NULL) {
        return error_no_memory(error, bytes, purpose);
    }
    TRY(device->status(device, error));
    const uint64_t left = device->memory_available(device, &limit);
    return error_set(error, BERTH_NO_MEMORY,
                     "device %s: out of memory: %zu bytes for %s, %s has %" PRIu64 " MiB left",
                     device->describe(device), bytes, purpose, limit, left >> 20);
}
