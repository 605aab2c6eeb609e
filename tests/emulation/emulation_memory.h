// SPDX-License-Identifier: Apache-2.0
// The memory of the emulated GPU: as much as the host has, or BERTH_EMULATION_MEMORY in KiB. Each
// block is followed by a guard of NaNs, so reads past its end give wrong results. If a guard was
// overwritten, freeing the block ends the process.
#ifndef BERTH_EMULATION_MEMORY_H
#define BERTH_EMULATION_MEMORY_H

#include <map>
#include <stddef.h>
#include <stdint.h>

enum {
    EMULATED_ALIGNMENT = 256,
    EMULATED_POISON = 0xFF, // each byte of a guard
#if defined(__SANITIZE_ADDRESS__)
    EMULATED_GUARD = 0 // the sanitizer has its own
#else
    EMULATED_GUARD = 256 // bytes
#endif
};

uint64_t emulated_memory_left(void);
// Aligned to EMULATED_ALIGNMENT. NULL: out of memory.
void *emulated_memory_new(size_t bytes);
void emulated_memory_free(void *block);

// Host memory that a GPU copies to and from while the host continues. NULL: out of memory.
void *emulated_pinned_new(size_t bytes);
void emulated_pinned_free(void *block);
bool emulated_is_pinned(const void *address);

struct emulated_block {
    size_t bytes;
    // For emulation_counts.cpp: how the current launch has accessed each byte, and the range of
    // bytes that it has accessed.
    unsigned char *touched;
    size_t lowest, end;
};

// By address.
std::map<uintptr_t, struct emulated_block> &emulated_blocks(void);

#endif
