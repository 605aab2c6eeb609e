// SPDX-License-Identifier: Apache-2.0
// Cuts an operation on a range into steps, before it begins: as many as the largest part needs at a
// bounded number of elements each, for each group of owners. Leaves out running the steps
// (pipeline.h).
#include "comm/chunking.h"

#include "comm/host_window.h"

// Small enough for the caches.
#define LARGEST_PAYLOAD ((size_t)512 << 10)
// Of the parts that a library adds at once; smaller ones would be headers for the most part.
#define NATIVE_PAYLOAD ((size_t)1 << 10)

static size_t min_size(size_t x, size_t y) {
    return x < y ? x : y;
}

static size_t max_size(size_t x, size_t y) {
    return x > y ? x : y;
}

struct chunk_limits chunk_limits_of(int size, int local_size, size_t window_bytes,
                                    size_t message_bytes) {
    const size_t wanted = window_bytes / WINDOW_SLOTS / (size_t)local_size;
    const size_t area = max_size(wanted, CHUNK_CELLS * message_bytes);
    const size_t cells = min_size(area / message_bytes, (size_t)size);
    const size_t payload = min_size(area / cells, LARGEST_PAYLOAD);
    return (struct chunk_limits){.cells = (int)cells,
                                 .payload = payload - payload % (16 * sizeof(float)),
                                 .message = message_bytes,
                                 .received = 2 * window_bytes};
}

size_t chunk_limits_area(const struct chunk_limits *limits) {
    return (size_t)limits->cells * host_window_cell_bytes(limits->payload);
}

// --- an operation -------------------------------------------------------------------------------

static int64_t part_of(const struct comm_range *range, int rank) {
    return range->starts[rank + 1] - range->starts[rank];
}

// Where every rank has a cell, it is always the same one, and all ranks count as owners.
static void list_owners(struct chunking *chunking, const struct comm_range *range, int size,
                        int has_all, int *table) {
    int *owners = table, *places = table + size;
    for (int rank = 0; rank < size; rank++) {
        const int is_owner = has_all || part_of(range, rank) > 0;
        places[rank] = is_owner ? chunking->owner_count : -1;
        if (is_owner) {
            owners[chunking->owner_count++] = rank;
        }
    }
    chunking->owners = owners;
    chunking->places = places;
}

static int64_t largest_part(const struct comm_range *range, int size) {
    int64_t largest = 1;
    for (int rank = 0; rank < size; rank++) {
        largest = part_of(range, rank) > largest ? part_of(range, rank) : largest;
    }
    return largest;
}

// A library adds the parts of all hosts at once, so its chunks are rather smaller than its steps
// more.
static size_t native_payload(const struct chunk_limits *limits, size_t payload, int owners,
                             int hosts) {
    const size_t share = chunk_limits_area(limits) / (size_t)owners;
    const size_t header = host_window_cell_bytes(0);
    const size_t room = max_size(share > header ? share - header : 0, NATIVE_PAYLOAD);
    const size_t limit = (size_t)chunking_native_bytes(hosts) / (size_t)hosts;
    return min_size(min_size(payload, limit), owners > limits->cells ? room : payload);
}

struct chunking chunking_of(const struct comm_range *range, int size, int hosts,
                            const struct chunk_limits *limits, int *table) {
    struct chunking chunking = {0};
    const size_t wire = dtype_size(range->wire);
    size_t payload = max_size(limits->payload / sizeof(float) * wire, limits->message);
    list_owners(&chunking, range, size, size <= limits->cells, table);
    const int owners = chunking.owner_count > 0 ? chunking.owner_count : 1;
    int cells = limits->cells;
    if (range->native) {
        payload = native_payload(limits, payload, owners, hosts);
        cells = (int)(chunk_limits_area(limits) / host_window_cell_bytes(payload));
    }
    chunking.groups = (owners + cells - 1) / cells;
    const int64_t at_once = (owners + chunking.groups - 1) / chunking.groups;
    const int64_t bucket = range->bucket > at_once ? range->bucket / at_once : 1;
    chunking.elements = (int64_t)(payload / wire);
    if (range->bucket > 0 && bucket < chunking.elements) {
        chunking.elements = bucket;
    }
    chunking.cell_bytes = host_window_cell_bytes((size_t)chunking.elements * wire);
    chunking.steps =
        (largest_part(range, size) + chunking.elements - 1) / chunking.elements * chunking.groups;
    return chunking;
}

int64_t chunking_count(const struct chunking *chunking, const struct comm_range *range,
                       int64_t step, int owner) {
    const int place = chunking->places[owner];
    if (place < 0 || place % chunking->groups != step % chunking->groups) {
        return 0;
    }
    const int64_t first =
        range->starts[owner] + chunking_index(chunking, step) * chunking->elements;
    const int64_t left = range->starts[owner + 1] - first;
    return left < 0 ? 0 : left < chunking->elements ? left : chunking->elements;
}
