// SPDX-License-Identifier: Apache-2.0
// The sequences of an update, or the batches of a prediction, divided into parts that are computed
// apart: by ranks, or one after the other. A function of these and the number of parts alone, so
// every rank knows all parts, and they are the same whatever rank computes them.
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
    uint32_t *order;  // sequences part by part, in each as the update has them
    int64_t *indices; // the place of each in the update; of other items, their numbers
    size_t *starts;   // [parts + 1] in both
    double *costs;    // [capacity] predicted times, of each item
    uint32_t *owners; // [capacity] part of each item, or group of items
    double *loads;    // [parts] predicted times
    // Scratch: [capacity], and [parts].
    uint32_t *by_cost;
    size_t *counts;
    size_t *heap; // parts that have room; none has less to do than those at 2 i + 1 and 2 i + 2
};

// Of up to `capacity` items. division_done frees, also after a failure.
enum berth_status division_init(struct division *division, size_t parts, size_t capacity,
                                struct berth_error *error);
void division_done(struct division *division);

// Divides order[0 .. count) so that the parts' predicted times (bert_forward_flops) are close. A
// part gets whole groups of items (packer.h), and at most `max_items` items, rounded up to a group;
// the parts together have room for all.
void division_make(struct division *division, const struct packer_source *source,
                   const uint32_t *order, size_t count, const struct bert_config *config,
                   size_t max_items);

// Divides items 0, 1, ... count - 1, whose costs the caller has filled in, in the same way; `order`
// is left as it is.
void division_by_cost(struct division *division, size_t count, size_t max_items);

// Gives all sequences to one part of as many as there are ranks, each of which knows its own. The
// part has `count` places from part * count on; the others' loads are 0.
void division_assign_all(struct division *division, const struct packer_source *source,
                         const uint32_t *order, size_t count, const struct bert_config *config,
                         size_t part);

// The largest part's predicted time, divided by the mean of all.
double division_imbalance(const struct division *division);

#endif
