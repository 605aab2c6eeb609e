// SPDX-License-Identifier: Apache-2.0
// The device's twin of a batch: one block of memory, one upload a batch. The packer fills the
// host's arrays (data/batches/packer.h), operations read these.
#include "device/device_batch.h"

enum berth_status device_batch_init(struct device_batch *copy, struct device *device,
                                    const struct batch_extent *extent, struct berth_error *error) {
    *copy = (struct device_batch){.device = device};
    if (device->is_host) {
        return BERTH_OK;
    }
    copy->bytes = batch_carve(&copy->arrays, NULL, extent);
    copy->block = device->memory_new(device, copy->bytes);
    if (copy->block == NULL) {
        return device_no_memory(device, copy->bytes, "the device's copy of a batch", error);
    }
    batch_carve(&copy->arrays, copy->block, extent);
    return BERTH_OK;
}

void device_batch_done(struct device_batch *copy) {
    if (copy->block != NULL) {
        copy->device->memory_free(copy->device, copy->block, copy->bytes);
    }
    *copy = (struct device_batch){0};
}

const struct batch *device_batch_upload(struct device_batch *copy, const struct batch *host) {
    if (copy->block == NULL) {
        copy->batch = *host;
        return &copy->batch;
    }
    // The block begins with the ids (batch_carve).
    copy->device->upload(copy->device, copy->block, host->ids, copy->bytes);
    struct batch *batch = &copy->batch;
    *batch = copy->arrays;
    batch->token_count = host->token_count;
    batch->row_count = host->row_count;
    batch->sequence_count = host->sequence_count;
    batch->max_length = host->max_length;
    batch->objective = host->objective;
    batch->masked_count = host->masked_count;
    batch->masked_weight = host->masked_weight;
    batch->head.count = host->head.count;
    if (host->word_rows == NULL) {
        batch->word_rows = NULL;
    }
    return batch;
}
