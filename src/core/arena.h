// SPDX-License-Identifier: Apache-2.0
// An arena allocates consecutive chunks of one block. With a NULL base it only measures: the same
// code runs once to find its worst case and once to allocate.
#ifndef BERTH_CORE_ARENA_H
#define BERTH_CORE_ARENA_H

#include <stddef.h>

#define ARENA_ALIGNMENT 64

struct arena {
    char *base;  // NULL: measuring only, arena_alloc returns NULL
    size_t size; // bytes at base; ignored while measuring
    size_t used; // bytes handed out, a multiple of ARENA_ALIGNMENT
    size_t peak; // the largest `used` so far
};

// Returns `bytes` bytes, rounded up to ARENA_ALIGNMENT. Asserts that a real arena is large enough:
// the same code measured it, so running out is a programming error.
void *arena_alloc(struct arena *arena, size_t bytes);

// Releases everything allocated after `mark` (an earlier value of `used`).
void arena_release(struct arena *arena, size_t mark);

#endif
