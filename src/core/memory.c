// SPDX-License-Identifier: Apache-2.0
// Heap memory with a hook for failures, whose counter is atomic, so that it works with threads; and
// whole pages for large buffers, which can be given back to the system and taken again. The device
// of the CPU takes its buffers here.
#include "core/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_ROOM 4 // elements of a growing array at first: there may be millions of short ones

#define HUGE_PAGE ((uintptr_t)2 << 20) // of x86-64, and of Arm with small pages of 4 KiB

#define BLOCKS_MAX 1024
#define PAGES_AT_ONCE ((size_t)1 << 15) // that mincore is asked about

// The blocks of memory_pages. Without a lock, which a fork could copy while it is held.
static struct {
    _Atomic(void *) block; // NULL: a free row
    atomic_size_t bytes;
} blocks[BLOCKS_MAX];

static atomic_uint_fast64_t calls;
static atomic_uint_fast64_t fail_at;
static atomic_int fail_for_ever;

static int should_fail(void) {
    uint64_t call = atomic_fetch_add(&calls, 1) + 1;
    uint64_t limit = atomic_load(&fail_at);
    return limit != 0 && (call == limit || (call > limit && atomic_load(&fail_for_ever)));
}

uint64_t memory_fail_at(uint64_t countdown, int persistent) {
    atomic_store(&fail_at, 0);
    uint64_t seen = atomic_exchange(&calls, 0);
    atomic_store(&fail_for_ever, persistent);
    atomic_store(&fail_at, countdown);
    return seen;
}

void *memory_new(size_t bytes) {
    return should_fail() ? NULL : malloc(bytes > 0 ? bytes : 1);
}

void *memory_array(size_t count, size_t size) {
    return memory_resize(NULL, count, size);
}

void *memory_array_zeroed(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || should_fail()) {
        return NULL;
    }
    return calloc(bytes > 0 ? bytes : 1, 1);
}

void *memory_resize(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || should_fail()) {
        return NULL;
    }
    return realloc(block, bytes > 0 ? bytes : 1);
}

void *memory_grow(void *block, size_t *capacity, size_t needed, size_t size) {
    if (block != NULL && needed <= *capacity) {
        return block;
    }
    size_t larger = *capacity * 2 + FIRST_ROOM; // if the sum wraps around, `needed` is larger
    larger = larger > needed ? larger : needed;
    void *grown = memory_resize(block, larger, size);
    if (grown != NULL) {
        *capacity = larger;
    }
    return grown;
}

char *memory_string(const char *text) {
    return memory_string_of(text, strlen(text));
}

char *memory_string_of(const char *text, size_t length) {
    char *copy = memory_new(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

void memory_free(void *block) {
    free(block);
}

void memory_free_held(void *variable) {
    void *block;
    memcpy(&block, variable, sizeof block);
    memory_free(block);
}

static uint64_t reserved_of(char *block, size_t bytes, size_t page) {
    unsigned char in_memory[PAGES_AT_ONCE];
    const size_t most = PAGES_AT_ONCE * page;
    uint64_t reserved = 0;
    for (size_t at = 0; at < bytes; at += most) {
        const size_t length = bytes - at < most ? bytes - at : most;
        const size_t pages = (length + page - 1) / page;
        if (mincore(block + at, length, in_memory) != 0) {
            return reserved; // another thread has just freed the block
        }
        for (size_t i = 0; i < pages; i++) {
            reserved += (in_memory[i] & 1) == 0 ? page : 0;
        }
    }
    return reserved;
}

uint64_t memory_pages_reserved(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t reserved = 0;
    for (size_t i = 0; i < BLOCKS_MAX; i++) {
        char *block = atomic_load(&blocks[i].block);
        reserved += block != NULL ? reserved_of(block, atomic_load(&blocks[i].bytes), page) : 0;
    }
    return reserved;
}

void *memory_pages(size_t bytes) {
    if (should_fail()) {
        return NULL;
    }
    void *block = mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        return NULL;
    }
    madvise(block, bytes, MADV_HUGEPAGE); // advice only: a refusal costs speed, nothing else
    void *none = NULL;
    size_t i = 0;
    while (i < BLOCKS_MAX && !atomic_compare_exchange_strong(&blocks[i].block, &none, block)) {
        none = NULL;
        i++;
    }
    if (i < BLOCKS_MAX) {
        atomic_store(&blocks[i].bytes, bytes);
    }
    return block;
}

// Without this, the first write next to the range would repopulate the pages that were returned.
static void split_huge_pages(char *first, char *last) {
    char *first_whole = (char *)(((uintptr_t)first + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    char *last_whole = (char *)((uintptr_t)last / HUGE_PAGE * HUGE_PAGE);
    if (first_whole > last_whole) { // within one huge page
        first_whole = last_whole = last;
    }
    if (first < first_whole) {
        madvise(first, (size_t)(first_whole - first), MADV_NOHUGEPAGE);
    }
    if (last_whole < last) {
        madvise(last_whole, (size_t)(last - last_whole), MADV_NOHUGEPAGE);
    }
}

void memory_pages_discard(void *range, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *from = range, *to = from + bytes;
    char *first = (char *)(((uintptr_t)from + page - 1) / page * page);
    char *last = (char *)((uintptr_t)to / page * page);
    if (first >= last || madvise(first, (size_t)(last - first), MADV_DONTNEED) != 0) {
        memset(from, 0, bytes);
        return;
    }
    split_huge_pages(first, last);
    memset(from, 0, (size_t)(first - from));
    memset(last, 0, (size_t)(to - last));
}

void memory_pages_free(void *block, size_t bytes) {
    if (block != NULL) {
        size_t i = 0;
        while (i < BLOCKS_MAX && atomic_load(&blocks[i].block) != block) {
            i++;
        }
        if (i < BLOCKS_MAX) {
            atomic_store(&blocks[i].bytes, 0);
            atomic_store(&blocks[i].block, NULL);
        }
        munmap(block, bytes > 0 ? bytes : 1);
    }
}
