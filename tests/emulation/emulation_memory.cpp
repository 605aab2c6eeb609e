// SPDX-License-Identifier: Apache-2.0
// Blocks of device and pinned memory; see emulation_memory.h.
#include "emulation/emulation_memory.h"

#include "emulation/emulation_counts.h"
#include "device/gpu/gpu_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t used;

std::map<uintptr_t, struct emulated_block> &emulated_blocks(void) {
    static std::map<uintptr_t, struct emulated_block> blocks;
    return blocks;
}

uint64_t emulated_memory_left(void) {
    static const char *const limit = getenv("BERTH_EMULATION_MEMORY");
    const uint64_t all = limit != NULL ? strtoull(limit, NULL, 10) << 10 : 0;
    if (limit != NULL) {
        return all > used ? all - used : 0;
    }
    return (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

// In a dry run, blocks are mapped without reserving host memory, because nobody writes them.
static void *allocate(size_t bytes) {
    if (!emulated_is_dry()) {
        void *block = NULL;
        if (posix_memalign(&block, EMULATED_ALIGNMENT, bytes + EMULATED_GUARD) != 0) {
            return NULL;
        }
        memset((unsigned char *)block + bytes, EMULATED_POISON, EMULATED_GUARD);
        return block;
    }
    void *block = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return block != MAP_FAILED ? block : NULL;
}

void *emulated_memory_new(size_t bytes) {
    void *block = bytes <= emulated_memory_left() ? allocate(bytes) : NULL;
    if (block != NULL) {
        emulated_blocks()[(uintptr_t)block] = {bytes, NULL, SIZE_MAX, 0};
        used += bytes;
    }
    return block;
}

static std::map<uintptr_t, size_t> &pinned_blocks(void) {
    static std::map<uintptr_t, size_t> blocks;
    return blocks;
}

void *emulated_pinned_new(size_t bytes) {
    void *block = malloc(bytes);
    if (block != NULL) {
        pinned_blocks()[(uintptr_t)block] = bytes;
    }
    return block;
}

void emulated_pinned_free(void *block) {
    pinned_blocks().erase((uintptr_t)block);
    free(block);
}

bool emulated_is_pinned(const void *address) {
    auto next = pinned_blocks().upper_bound((uintptr_t)address);
    return next != pinned_blocks().begin() &&
           (uintptr_t)address < std::prev(next)->first + std::prev(next)->second;
}

static void check_guard(const void *block, size_t bytes) {
    const unsigned char *guard = (const unsigned char *)block + bytes;
    for (size_t i = 0; i < EMULATED_GUARD; i++) {
        if (guard[i] != EMULATED_POISON) {
            fprintf(stderr, "emulated GPU: the memory after a block of %zu bytes was written\n",
                    bytes);
            abort();
        }
    }
}

void emulated_memory_free(void *block) {
    if (block == NULL) {
        return;
    }
    const auto found = emulated_blocks().find((uintptr_t)block);
    const size_t bytes = found->second.bytes;
    free(found->second.touched);
    emulated_blocks().erase(found);
    used -= bytes;
    if (emulated_is_dry()) {
        munmap(block, bytes + 1);
    } else {
        check_guard(block, bytes);
        free(block);
    }
}
