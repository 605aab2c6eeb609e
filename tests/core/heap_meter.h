// SPDX-License-Identifier: Apache-2.0
// Counts the heap of a test program, which includes this once: an allocator that replaces the C
// library's, so that it also sees the calls of libraries. HEAP_METER_COUNTS is 0 with sanitizers,
// which have allocators of their own, and without glibc. Needs BERTH_TEST_SANITIZED.
#ifndef BERTH_TESTS_HEAP_METER_H
#define BERTH_TESTS_HEAP_METER_H

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !BERTH_TEST_SANITIZED && defined(__GLIBC__)
#define HEAP_METER_COUNTS 1
#else
#define HEAP_METER_COUNTS 0
#endif

// Bytes of the heap in use, and their maximum since the program last set it.
static atomic_llong heap_live, heap_peak;
static atomic_int heap_mappings __attribute__((unused)); // calls of mmap

#if HEAP_METER_COUNTS

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static void *heap_taken(void *block) {
    long long now = atomic_fetch_add(&heap_live, (long long)malloc_usable_size(block)) +
                    (long long)malloc_usable_size(block);
    long long before = atomic_load(&heap_peak);
    while (now > before && !atomic_compare_exchange_weak(&heap_peak, &before, now)) {
    }
    return block;
}

static void heap_given_back(void *block) {
    atomic_fetch_sub(&heap_live, (long long)malloc_usable_size(block));
}

void *malloc(size_t bytes) {
    return heap_taken(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t size) {
    return heap_taken(__libc_calloc(count, size));
}

void *realloc(void *block, size_t bytes) {
    heap_given_back(block);
    return heap_taken(__libc_realloc(block, bytes));
}

void *memalign(size_t alignment, size_t bytes) {
    return heap_taken(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return heap_taken(__libc_memalign(alignment, bytes));
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = heap_taken(__libc_memalign(alignment, bytes));
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    heap_given_back(block);
    __libc_free(block);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    atomic_fetch_add(&heap_mappings, 1);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}
#endif

#endif
