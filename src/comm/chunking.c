// SPDX-License-Identifier: Apache-2.0
// Cuts an operation on a range into steps, before it begins: as many as the largest part needs at a
// bounded number of elements each. Leaves out running the steps (pipeline.h).
#include "comm/chunking.h"

static int64_t chunks_of(const struct comm_range *range, int size, int64_t elements) {
    int64_t largest = 1;
    for (int rank = 0; rank < size; rank++) {
        const int64_t part = range->starts[rank + 1] - range->starts[rank];
        largest = part > largest ? part : largest;
    }
    return (largest + elements - 1) / elements;
}

struct chunking chunking_of(const struct comm_range *range, int size, int hosts,
                            int64_t max_elements) {
    const int64_t native = chunking_native_bytes(hosts) / hosts / (int64_t)dtype_size(range->wire);
    max_elements = range->native && native < max_elements ? native : max_elements;
    const int64_t wanted = range->bucket > size ? range->bucket / size : 1;
    const int64_t elements = range->bucket > 0 && wanted < max_elements ? wanted : max_elements;
    return (struct chunking){elements, chunks_of(range, size, elements)};
}

int64_t chunking_count(const struct chunking *chunking, const struct comm_range *range,
                       int64_t chunk_index, int owner) {
    const int64_t first = range->starts[owner] + chunk_index * chunking->elements;
    const int64_t left = range->starts[owner + 1] - first;
    return left < 0 ? 0 : left < chunking->elements ? left : chunking->elements;
}
