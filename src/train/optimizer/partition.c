// SPDX-License-Identifier: Apache-2.0
// Cuts each range of the parameter table into one part for each rank, at the blocks by which sums
// are added, and lists the parts of one rank. Where there are more ranks than blocks, the others'
// parts are empty. State, optimizer, exchange and checkpoints take this list as what a rank owns.
#include "train/optimizer/partition.h"

#include "core/memory.h"
#include "device/device.h"

// The start of the tensor that contains element `position` or precedes the gap around it.
static int64_t tensor_start(const struct param_table *table, int64_t position) {
    size_t low = 0, high = table->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (table->params[middle].offset <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return table->params[low].offset;
}

// The last position up to `position` at which the table may be cut.
static int64_t cut_before(const struct param_table *table, const struct partition_rule *rule,
                          int64_t position) {
    if (position == table->total) {
        return position;
    }
    position -= position % DEVICE_SUM_BLOCK;
    while (rule->by_tensor && (position - tensor_start(table, position)) % DEVICE_SUM_BLOCK != 0) {
        position -= DEVICE_SUM_BLOCK;
    }
    return position;
}

// The block at which the part that begins at `position` begins: the last block of the table belongs
// to the last range even if it is not full.
static int64_t block_of(const struct param_table *table, int64_t position) {
    return position == table->total ? device_sum_blocks(position) : position / DEVICE_SUM_BLOCK;
}

// Where a rank's part of a range begins; for rank = size where the last one ends. The blocks of the
// range are dealt evenly, and where they do not come out even, each range goes on where the one
// before it ended: the number of blocks before a range says at which rank that is. So a rank that
// owns one block less of this layer, or none, owns one more of another.
static int64_t cut_of(const struct param_table *table, const struct partition_rule *rule,
                      struct param_range range, int rank) {
    const int64_t first = block_of(table, range.first);
    const int64_t blocks = block_of(table, range.first + range.count) - first;
    const int64_t cut = first + (rank * blocks + first % rule->size) / rule->size;
    const int64_t position = cut * DEVICE_SUM_BLOCK;
    return cut_before(table, rule, position < table->total ? position : table->total);
}

void partition_starts(const struct param_table *table, const struct partition_rule *rule,
                      struct param_range range, int64_t *starts) {
    for (int rank = 0; rank <= rule->size; rank++) {
        starts[rank] = cut_of(table, rule, range, rank);
    }
}

enum berth_status partition_init(struct partition *partition, const struct param_table *table,
                                 const struct partition_rule *rule, int rank,
                                 struct berth_error *error) {
    const size_t ranges = param_range_count(table);
    *partition = (struct partition){.spans = memory_array(ranges, sizeof *partition->spans)};
    if (partition->spans == NULL) {
        return error_no_memory(error, ranges * sizeof *partition->spans,
                               "the spans of a partition");
    }
    for (size_t i = 0; i < ranges; i++) {
        const struct param_range range = param_range(table, i);
        const int64_t first = cut_of(table, rule, range, rank);
        const int64_t end = cut_of(table, rule, range, rank + 1);
        struct partition_span *last =
            partition->count > 0 ? &partition->spans[partition->count - 1] : NULL;
        if (end > first) {
            if (last != NULL && last->first + last->count == first) {
                last->count += end - first;
            } else {
                partition->spans[partition->count++] =
                    (struct partition_span){first, end - first, partition->elements};
            }
            partition->elements += end - first;
        }
    }
    return BERTH_OK;
}

int64_t partition_elements(const struct param_table *table, const struct partition_rule *rule,
                           int rank, int64_t end) {
    int64_t elements = 0;
    for (size_t i = 0; i < param_range_count(table); i++) {
        const struct param_range range = param_range(table, i);
        const int64_t first = cut_of(table, rule, range, rank);
        const int64_t after = cut_of(table, rule, range, rank + 1);
        elements += (after < end ? after : end) - (first < end ? first : end);
    }
    return elements;
}

void partition_done(struct partition *partition) {
    memory_free(partition->spans);
    *partition = (struct partition){0};
}

struct partition_span partition_intersect(const struct partition *partition, size_t index,
                                          int64_t first, int64_t count) {
    const struct partition_span *span = &partition->spans[index];
    const int64_t own_end = span->first + span->count, end = first + count;
    const int64_t begin = first > span->first ? first : span->first;
    const int64_t stop = end < own_end ? end : own_end;
    return (struct partition_span){begin, stop > begin ? stop - begin : 0,
                                   span->offset + (begin - span->first)};
}
