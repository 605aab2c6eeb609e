// SPDX-License-Identifier: Apache-2.0
// Heap memory: all of Berth's code allocates here, so that a test can make the n-th allocation
// fail.
//
// Libraries keep their own allocators.
#ifndef BERTH_CORE_MEMORY_H
#define BERTH_CORE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

// As malloc, calloc, realloc, free and strdup; NULL when out of memory. memory_array* check
// count * size for overflow. Freeing NULL does nothing.
void *memory_new(size_t bytes);
void *memory_array(size_t count, size_t size);
void *memory_array_zeroed(size_t count, size_t size);
void *memory_resize(void *block, size_t count, size_t size);
char *memory_string(const char *text);
char *memory_string_of(const char *text, size_t length);
void memory_free(void *block);

// A variable of a function that holds a block, or NULL: the block is freed where the variable's
// block of code ends, however it is left. In place of a label and a call of memory_free.
#define OWNED __attribute__((cleanup(memory_free_held)))
void memory_free_held(void *variable);
// The same, after the variable's name, for what `done(&variable)` frees.
#define DONE_BY(done) __attribute__((cleanup(done)))

// Grows the array `block` (NULL: none yet) of *capacity elements of `size` bytes to at least
// `needed` elements and updates *capacity. The capacity at least doubles, so adding elements one by
// one is cheap. NULL when out of memory: `block` and *capacity are then unchanged.
void *memory_grow(void *block, size_t *capacity, size_t needed, size_t size);

// Large, 64-byte aligned, zeroed blocks, on huge pages where the system offers them. 0 bytes give a
// valid block.
void *memory_pages(size_t bytes);
void memory_pages_free(void *block, size_t bytes);
// Sets a range of such a block to zero and returns whole pages of it to the system. The ends of the
// range, which would share huge pages with other bytes, have small pages from then on.
void memory_pages_discard(void *range, size_t bytes);

// Bytes of the process's blocks of memory_pages for which the system has given no memory yet: they
// have not been written. Counts at most 1,024 blocks.
uint64_t memory_pages_reserved(void);

// Test hook: the `countdown`-th allocation from now (1 is the next) returns NULL, and so do all
// later ones when `persistent`; 0 disables the hook. Returns the number of allocations since the
// last call of this function.
uint64_t memory_fail_at(uint64_t countdown, int persistent);

#endif
