// SPDX-License-Identifier: Apache-2.0
// The memory of the emulated GPU: as much as the host has, or BERTH_EMULATION_MEMORY in KiB.
#ifndef BERTH_GPU_EMULATION_MEMORY_H
#define BERTH_GPU_EMULATION_MEMORY_H

#include <map>
#include <stddef.h>
#include <stdint.h>

uint64_t emulated_memory_left(void);
// NULL: not so much is left.
void *emulated_memory_new(size_t bytes);
void emulated_memory_free(void *block);

struct emulated_block {
    size_t bytes;
    // Of emulation_counts.cpp: what the launch that runs has done with each byte, and between which
    // of them it has done anything.
    unsigned char *touched;
    size_t lowest, past;
};

// By address.
std::map<uintptr_t, struct emulated_block> &emulated_blocks(void);

#endif
