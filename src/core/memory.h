// SPDX-License-Identifier: Apache-2.0
// Heap memory behind one door, so that a test can make the n-th allocation fail.
//
// Everything of ours allocates here; libraries keep their own allocators.
#ifndef BERTH_CORE_MEMORY_H
#define BERTH_CORE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

// As malloc, calloc, realloc, free and strdup; NULL when memory is out. memory_array* check
// count * size for overflow. Freeing NULL does nothing.
void *memory_new(size_t bytes);
void *memory_array(size_t count, size_t size);
void *memory_array_zeroed(size_t count, size_t size);
void *memory_resize(void *block, size_t count, size_t size);
char *memory_string(const char *text);
char *memory_string_of(const char *text, size_t length);
void memory_free(void *block);

// An array that grows at its end: `block` (NULL: none yet), which has room for *capacity elements
// of `size` bytes, with room for at least `needed`. Where it must grow, its room is doubled, so
// that elements that come one by one cost little; *capacity tells it. NULL when memory is out: then
// `block` and *capacity are as before.
void *memory_grow(void *block, size_t *capacity, size_t needed, size_t size);

// Large, 64-byte aligned, zeroed blocks on huge pages where the system offers them.
// `bytes` of 0 gives a valid block.
void *memory_pages(size_t bytes);
void memory_pages_free(void *block, size_t bytes);

// Test hook: the call number `countdown` from now (1 is the next) returns NULL, once, or for ever
// after when `persistent`; 0 switches the hook off. Returns the number of calls seen since the last
// call of this function.
uint64_t memory_fail_at(uint64_t countdown, int persistent);

#endif
