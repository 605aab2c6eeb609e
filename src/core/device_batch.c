// SPDX-License-Identifier: Apache-2.0
#include "core/device_batch.h"

enum berth_status device_batch_init(struct device_batch *twin, struct device *device,
                                    const struct batch_extent *extent, struct berth_error *error) {
    *twin = (struct device_batch){.device = device};
    if (device->is_host) {
        return BERTH_OK;
    }
    twin->bytes = batch_carve(&twin->arrays, NULL, extent);
    twin->block = device->memory_new(device, twin->bytes);
    if (twin->block == NULL) {
        return error_no_memory(error, twin->bytes, "the device's copy of a batch");
    }
    batch_carve(&twin->arrays, twin->block, extent);
    return BERTH_OK;
}

void device_batch_done(struct device_batch *twin) {
    if (twin->block != NULL) {
        twin->device->memory_free(twin->device, twin->block, twin->bytes);
    }
    *twin = (struct device_batch){0};
}

const struct batch *device_batch_upload(struct device_batch *twin, const struct batch *host) {
    if (twin->block == NULL) {
        twin->batch = *host;
        return &twin->batch;
    }
    // The block begins with the ids (batch_carve).
    twin->device->upload(twin->device, twin->block, host->ids, twin->bytes);
    struct batch *batch = &twin->batch;
    *batch = twin->arrays;
    batch->token_count = host->token_count;
    batch->row_count = host->row_count;
    batch->sequence_count = host->sequence_count;
    batch->max_length = host->max_length;
    batch->masked_count = host->masked_count;
    batch->masked_weight = host->masked_weight;
    if (host->word_rows == NULL) {
        batch->word_rows = NULL;
    }
    return batch;
}
