// SPDX-License-Identifier: Apache-2.0
// The part of the flat buffers whose optimizer state a rank holds and updates: the whole buffer, or
// with ZeRO one of several parts that cover the table and do not overlap.
//
// Each range that the backward pass announces (param_range) is divided among all ranks, so that all
// of them work on it. Cuts are only where a block of the whole buffer starts (DEVICE_SUM_BLOCK): so
// the norm of the gradient is a sum over the same blocks, in the same order, whatever the number of
// ranks. An optimizer that needs norms of tensors has cuts only where a block of a tensor starts as
// well; then parts may be less even.
#ifndef BERTH_TRAIN_PARTITION_H
#define BERTH_TRAIN_PARTITION_H

#include "core/error.h"
#include "model/params.h"

#include <stddef.h>
#include <stdint.h>

// Elements [first, first + count) of the table; in the buffers of a part they start at `offset`.
struct partition_span {
    int64_t first, count, offset;
};

struct partition {
    struct partition_span *spans; // ascending
    size_t count;
    int64_t elements;
};

struct partition_rule {
    int size;      // ranks
    int by_tensor; // 1: norms of tensors are needed
};

// Where each rank's part of a range begins, and where the last one ends: starts[size + 1]. Cut as
// said above, so they are a little before the places that divide the range evenly, and the first
// may be before the range.
void partition_starts(const struct param_table *table, const struct partition_rule *rule,
                      struct param_range range, int64_t *starts);

// That of rank `rank`; the whole table where rule->size is 1. partition_done frees.
enum berth_status partition_init(struct partition *partition, const struct param_table *table,
                                 const struct partition_rule *rule, int rank,
                                 struct berth_error *error);
void partition_done(struct partition *partition);
// The elements of that part below element `end`.
int64_t partition_elements(const struct param_table *table, const struct partition_rule *rule,
                           int rank, int64_t end);

// The part of [first, first + count) in span number `index`; count 0: none.
struct partition_span partition_intersect(const struct partition *partition, size_t index,
                                          int64_t first, int64_t count);

#endif
