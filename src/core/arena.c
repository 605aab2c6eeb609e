// SPDX-License-Identifier: Apache-2.0
// Hands out consecutive pieces of a block, or, if there is no block, only counts their bytes. The
// layout of activations and of the optimizer's lists is written with it, so that planning and
// allocating run the same code.
#include "core/arena.h"

#include <assert.h>

void *arena_alloc(struct arena *arena, size_t bytes) {
    size_t rounded = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    size_t begin = arena->used;
    arena->used = begin + rounded;
    if (arena->used > arena->peak) {
        arena->peak = arena->used;
    }
    if (arena->base == NULL) {
        return NULL;
    }
    assert(arena->used <= arena->size);
    return arena->base + begin;
}

void arena_release(struct arena *arena, size_t mark) {
    assert(mark <= arena->used);
    arena->used = mark;
}
