// SPDX-License-Identifier: Apache-2.0
// Code that all devices share.
#include "device/device.h"

#include "core/error.h"

#include <inttypes.h>

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
