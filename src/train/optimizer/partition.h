// SPDX-License-Identifier: Apache-2.0
// The part of the flat buffers whose optimizer state a rank holds and updates: the whole buffer, or
// with ZeRO one of several disjoint parts that cover the table.
//
// Each range that the backward pass announces (param_range) is divided among all ranks, so that all
// of them work on it. Parts begin only at the blocks of the whole buffer (DEVICE_SUM_BLOCK), so the
// norm of the gradient is a sum over the same blocks in the same order for any number of ranks. For
// an optimizer that needs norms of tensors they also begin only at blocks of a tensor; then the
// parts may be less even.
//
// A block is also the least that a rank owns, so a range of fewer blocks than ranks has only as
// many owners as blocks, evenly spaced over the ranks and so over their hosts. The next range
// begins with other owners: of ranges with equal numbers of blocks, such as the layers of an
// encoder, no rank owns more than one block more than another.
#ifndef BERTH_TRAIN_PARTITION_H
#define BERTH_TRAIN_PARTITION_H

#include "core/error.h"
#include "model/params.h"

#include <stddef.h>
#include <stdint.h>

// Elements [first, first + count) of the table. In the buffers of the part they begin at `offset`.
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

// Sets starts[size + 1] to where each rank's part of a range begins, and where the last one ends.
// Because parts begin at blocks, the first may be before the range.
void partition_starts(const struct param_table *table, const struct partition_rule *rule,
                      struct param_range range, int64_t *starts);

// The partition of a rank; the whole table if rule->size is 1. Call partition_done to free it.
enum berth_status partition_init(struct partition *partition, const struct param_table *table,
                                 const struct partition_rule *rule, int rank,
                                 struct berth_error *error);
void partition_done(struct partition *partition);
// The number of elements of a rank's part that are below element `end`.
int64_t partition_elements(const struct param_table *table, const struct partition_rule *rule,
                           int rank, int64_t end);

// The intersection of [first, first + count) with span `index`; count 0: it is empty.
struct partition_span partition_intersect(const struct partition *partition, size_t index,
                                          int64_t first, int64_t count);

#endif
