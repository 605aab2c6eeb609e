// SPDX-License-Identifier: Apache-2.0
// A device's copy of the batch that the host has filled: what operations read. Where the device's
// memory is the host's there is no copy, and the arrays are the host's own.
#ifndef BERTH_CORE_DEVICE_BATCH_H
#define BERTH_CORE_DEVICE_BATCH_H

#include "core/batch.h"
#include "core/device.h"
#include "core/error.h"

struct device_batch {
    struct batch batch; // for operations; its counts are the host batch's
    struct device *device;
    struct batch arrays; // into the block
    void *block;         // device memory; NULL where the host's serves
    size_t bytes;
};

// Room for batches of that extent, filled by batch_carve of the same. device_batch_done frees, also
// after a failure.
enum berth_status device_batch_init(struct device_batch *twin, struct device *device,
                                    const struct batch_extent *extent, struct berth_error *error);
void device_batch_done(struct device_batch *twin);

// Copies the whole block of the host's batch, by one upload, and returns the device's batch, which
// is good until the next call.
const struct batch *device_batch_upload(struct device_batch *twin, const struct batch *host);

#endif
