// SPDX-License-Identifier: Apache-2.0
// The order in which a training run takes the items of a source in an epoch: a permutation by seed
// and epoch, or for losses that compare the texts of a group, groups in which no text is twice.
// train/engine/feed.c asks for it at the beginning of an epoch; which items go into a micro-batch
// is left to packer.h.
#ifndef BERTH_DATA_EPOCH_ORDER_H
#define BERTH_DATA_EPOCH_ORDER_H

#include "core/error.h"
#include "data/batches/packer.h"

#include <stddef.h>
#include <stdint.h>

// Fills order[source->count] with the permutation of packer_shuffle. If the texts of the source
// have numbers, items that share a text are then in different groups. That is certain where
// epoch_order_is_certain; otherwise some groups may have a text twice.
enum berth_status epoch_order_make(const struct packer_source *source, uint64_t seed, int64_t epoch,
                                   uint32_t *order, struct berth_error *error);

// Of a source with numbers: the item that shares its texts with the most others, and how many these
// are, an item that shares two texts counted twice.
struct epoch_order_sharing {
    size_t item, others;
};
enum berth_status epoch_order_find_sharing(const struct packer_source *source,
                                           struct epoch_order_sharing *sharing,
                                           struct berth_error *error);
// Of the groups more than twice as many as the others must be.
int epoch_order_is_certain(const struct packer_source *source,
                           const struct epoch_order_sharing *sharing);

#endif
