// SPDX-License-Identifier: Apache-2.0
// The device's copy of a batch that the host has filled. A device that uses the host's memory makes
// no copy: its arrays are the host's.
#ifndef BERTH_DEVICE_DEVICE_BATCH_H
#define BERTH_DEVICE_DEVICE_BATCH_H

#include "core/batch.h"
#include "core/error.h"
#include "device/device.h"

struct device_batch {
    struct batch batch; // for operations; its counts are the host batch's
    struct device *device;
    struct batch arrays; // inside the block
    void *block;         // device memory; NULL where the device uses the host's
    size_t bytes;
};

// Allocates room for batches of up to `extent`; the host's batches must be carved with the same
// extent (batch_carve). device_batch_done frees it, also after a failure.
enum berth_status device_batch_init(struct device_batch *copy, struct device *device,
                                    const struct batch_extent *extent, struct berth_error *error);
void device_batch_done(struct device_batch *copy);

// Copies the whole block of the host's batch in one upload and returns the device's batch, which is
// valid until the next call.
const struct batch *device_batch_upload(struct device_batch *copy, const struct batch *host);

#endif
