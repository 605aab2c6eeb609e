// SPDX-License-Identifier: Apache-2.0
// Distinct byte strings, numbered from 0 in the order of their insertion.
//
// A hash table with open addressing over one pool of bytes. Leaves out removal.
#ifndef BERTH_CORE_STRING_INDEX_H
#define BERTH_CORE_STRING_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define STRING_INDEX_NONE UINT32_MAX

struct string_index {
    char *pool;
    size_t *starts; // [count + 1] where each string begins in the pool
    size_t count, capacity, pool_capacity;
    uint32_t *
        slots; // [slot_count] string numbers; STRING_INDEX_NONE: free; slot_count is a power of two
    size_t slot_count;
};

// The number of bytes[0 .. length), inserted when it is new; STRING_INDEX_NONE when out of memory
// or full (2^32 - 1 strings). Zero-initialise the index before the first call.
uint32_t string_index_put(struct string_index *index, const char *bytes, size_t length);
// The number, or STRING_INDEX_NONE.
uint32_t string_index_find(const struct string_index *index, const char *bytes, size_t length);
void string_index_done(struct string_index *index);

static inline const char *string_index_bytes(const struct string_index *index, size_t number) {
    return index->pool + index->starts[number];
}
static inline size_t string_index_length(const struct string_index *index, size_t number) {
    return index->starts[number + 1] - index->starts[number];
}

#endif
