// SPDX-License-Identifier: Apache-2.0
// Divides the sequences of an update, or the batches of a prediction, into parts that are computed
// separately: by different ranks, or one after another. The division depends only on the items and
// the number of parts, so every rank knows all parts, and they are the same whichever rank computes
// them.
#ifndef BERTH_TRAIN_DIVISION_H
#define BERTH_TRAIN_DIVISION_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "model/config.h"

#include <stddef.h>
#include <stdint.h>

struct division {
    size_t parts;
    size_t capacity;  // items: sequences, batches
    uint32_t *order;  // sequences, part by part, each in the order of the update
    int64_t *indices; // index of each in the update; of other items, their number
    size_t *starts;   // [parts + 1] in both
    double *costs;    // [capacity] predicted times, of each item
    uint32_t *owners; // [capacity] part of each item or group of items
    double *loads;    // [parts] predicted times
    // Scratch: [capacity], and [parts].
    uint32_t *by_cost;
    size_t *counts;
    size_t *heap; // binary min-heap, by load, of the parts that have room
};

// For up to `capacity` items. Call division_done even after a failure.
enum berth_status division_init(struct division *division, size_t parts, size_t capacity,
                                struct berth_error *error);
void division_done(struct division *division);

// Divides order[0 .. count) so that the parts' predicted times (bert_forward_flops) are close. A
// part gets whole groups of items (packer.h), at most `max_items` items rounded up to a group; the
// parts together must have room for all.
void division_make(struct division *division, const struct packer_source *source,
                   const uint32_t *order, size_t count, const struct bert_config *config,
                   size_t max_items);

// Divides items 0 to count - 1 in the same way, by the costs that the caller has filled in. Leaves
// `order` unchanged.
void division_by_cost(struct division *division, size_t count, size_t max_items);

// Assigns all sequences to one of as many parts as there are ranks: each rank knows only its own
// sequences. Their indices begin at part * count; the loads of the other parts are 0.
void division_assign_all(struct division *division, const struct packer_source *source,
                         const uint32_t *order, size_t count, const struct bert_config *config,
                         size_t part);

// The largest predicted time of a part, divided by the mean.
double division_imbalance(const struct division *division);

#endif
