// SPDX-License-Identifier: Apache-2.0
// A hash table from byte strings to their numbers, over one pool of bytes that only grows.
// Vocabularies, labels and columns are looked up in it while files are read.
#include "core/string_index.h"

#include "core/memory.h"

#include <string.h>

#define FIRST_SLOTS 1024

// FNV-1a, with its high bits folded into the low ones, which choose the slot.
static size_t hash_of(const char *bytes, size_t length) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    }
    return (size_t)(hash ^ hash >> 32);
}

// The slot that holds the string, or the free one for it.
static size_t slot_of(const struct string_index *index, const char *bytes, size_t length) {
    size_t mask = index->slot_count - 1;
    size_t slot = hash_of(bytes, length) & mask;
    for (;; slot = (slot + 1) & mask) {
        uint32_t number = index->slots[slot];
        if (number == STRING_INDEX_NONE ||
            (string_index_length(index, number) == length &&
             memcmp(string_index_bytes(index, number), bytes, length) == 0)) {
            return slot;
        }
    }
}

// At most half of the slots are in use.
static int grow_slots(struct string_index *index) {
    if (index->count < index->slot_count / 2) {
        return 1;
    }
    size_t count = index->slot_count > 0 ? index->slot_count * 2 : FIRST_SLOTS;
    uint32_t *slots = memory_array(count, sizeof *slots);
    if (slots == NULL) {
        return 0;
    }
    memset(slots, 0xFF, count * sizeof *slots);
    memory_free(index->slots);
    index->slots = slots;
    index->slot_count = count;
    for (size_t i = 0; i < index->count; i++) {
        const char *bytes = string_index_bytes(index, i);
        slots[slot_of(index, bytes, string_index_length(index, i))] = (uint32_t)i;
    }
    return 1;
}

uint32_t string_index_put(struct string_index *index, const char *bytes, size_t length) {
    if (index->count == STRING_INDEX_NONE || !grow_slots(index)) {
        return STRING_INDEX_NONE;
    }
    size_t slot = slot_of(index, bytes, length);
    if (index->slots[slot] != STRING_INDEX_NONE) {
        return index->slots[slot];
    }
    size_t *starts = memory_grow(index->starts, &index->capacity, index->count + 2, sizeof *starts);
    if (starts == NULL) {
        return STRING_INDEX_NONE;
    }
    starts[0] = 0;
    index->starts = starts;
    char *pool = memory_grow(index->pool, &index->pool_capacity, starts[index->count] + length, 1);
    if (pool == NULL) {
        return STRING_INDEX_NONE;
    }
    index->pool = pool;
    size_t begin = index->starts[index->count];
    memcpy(index->pool + begin, bytes, length);
    index->starts[index->count + 1] = begin + length;
    index->slots[slot] = (uint32_t)index->count;
    return (uint32_t)index->count++;
}

uint32_t string_index_find(const struct string_index *index, const char *bytes, size_t length) {
    return index->slot_count > 0 ? index->slots[slot_of(index, bytes, length)] : STRING_INDEX_NONE;
}

void string_index_done(struct string_index *index) {
    memory_free(index->pool);
    memory_free(index->starts);
    memory_free(index->slots);
    *index = (struct string_index){.pool = NULL};
}
