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
    twin->batch = *host;
    if (twin->block != NULL) {
        // The block begins with the ids (batch_carve).
        twin->device->upload(twin->device, twin->block, host->ids, twin->bytes);
        struct batch *batch = &twin->batch;
        const struct batch *own = &twin->arrays;
        batch->ids = own->ids;
        batch->type_ids = own->type_ids;
        batch->positions = own->positions;
        batch->sequences = own->sequences;
        batch->word_rows = host->word_rows != NULL ? own->word_rows : NULL;
        batch->cu_seqlens = own->cu_seqlens;
        batch->places = own->places;
        batch->start_positions = own->start_positions;
        batch->end_positions = own->end_positions;
        batch->labels = own->labels;
        batch->targets = own->targets;
        batch->shares = own->shares;
        batch->masked_rows = own->masked_rows;
        batch->masked_labels = own->masked_labels;
    }
    return &twin->batch;
}
