// SPDX-License-Identifier: Apache-2.0
// What the emulated GPU does, counted. BERTH_EMULATION_COUNTS=FILE writes a line for each kernel as
// the process ends: name, launches, bytes of device memory that its plan (gpu_cost) reads and
// writes, operations. With BERTH_EMULATION_DRY=1 nothing is computed: the plan of a run that is too
// large for the host.
//
// The module that is compiled with EMULATION_COUNTED has a call at each load and store of a kernel.
// It ends the process where a launch reads or writes other bytes than its plan says, or does other
// products on matrix units, and counts how a warp's accesses fall together: sectors of 32 bytes of
// device memory, and the passes that shared memory of 32 banks needs for them, beside the fewest
// possible.
#ifndef BERTH_GPU_EMULATION_COUNTS_H
#define BERTH_GPU_EMULATION_COUNTS_H

#include <stddef.h>
#include <stdint.h>

struct gpu_cost;

bool emulated_is_dry(void);
bool emulated_counts_wanted(void);
// Counts something that is no kernel.
void emulated_counts_add(const char *name, struct gpu_cost cost);
// Before and after a launch. `end` compares.
void emulated_counts_begin(const char *kernel, struct gpu_cost plan);
void emulated_counts_end(void);

// The thread that runs: its place in the block, and shared memory.
struct emulated_thread {
    int warp, lane;
    const unsigned char *shared;
    size_t shared_bytes;
};

#if defined(EMULATION_COUNTED)
#define EMULATION_THREADS(threads) 1 // of the host: accesses are counted one after another
// An access of the thread that runs. `site` tells instructions apart.
void emulated_count_access(const void *address, size_t bytes, bool writes, const void *site);
// A warp has done so many multiplications and additions on matrix units.
void emulated_count_operations(uint64_t operations);
// The lanes of a warp have met: accesses before and after are not of one instruction. -1: of all.
void emulated_count_meeting(int warp);
#else
#define EMULATION_THREADS(threads) (threads)
static inline void emulated_count_access(const void *address, size_t bytes, bool writes,
                                         const void *site) {
}
static inline void emulated_count_operations(uint64_t operations) {
}
static inline void emulated_count_meeting(int warp) {
}
#endif

// emulation.cpp: false, where no kernel runs.
bool emulated_running(struct emulated_thread *thread);

#endif
