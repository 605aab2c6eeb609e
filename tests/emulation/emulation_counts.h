// SPDX-License-Identifier: Apache-2.0
// Counts what the emulated GPU does. With BERTH_EMULATION_COUNTS=FILE, the process writes a line
// for each kernel as it ends: name, launches, bytes of device memory read and written, and
// operations, all according to the kernel's cost function (gpu_cost). With BERTH_EMULATION_DRY=1
// nothing is computed, so the costs of a run can be listed that is too large for the host.
//
// The module that is compiled with EMULATION_COUNTED has a call at each load and store of a kernel.
// It ends the process if a launch reads or writes other bytes than its cost says, or does other
// products on matrix units. It also counts how a warp's accesses coalesce: sectors of 32 bytes of
// device memory, and the passes that shared memory of 32 banks needs, next to the fewest possible.
#ifndef BERTH_EMULATION_COUNTS_H
#define BERTH_EMULATION_COUNTS_H

#include <stddef.h>
#include <stdint.h>

struct gpu_cost;

bool emulated_is_dry(void);
bool emulated_counts_wanted(void);
// Counts something other than a kernel.
void emulated_counts_add(const char *name, struct gpu_cost cost);
// Called before and after a launch; emulated_counts_end compares accesses with the cost.
void emulated_counts_begin(const char *kernel, struct gpu_cost cost);
void emulated_counts_end(void);

// The running thread: its warp and lane, and the block's shared memory.
struct emulated_thread {
    int warp, lane;
    const unsigned char *shared;
    size_t shared_bytes;
};

#if defined(EMULATION_COUNTED)
#define EMULATION_THREADS(threads) 1 // host threads: accesses are counted one at a time
// Counts an access of the running thread. `site` identifies the instruction.
void emulated_count_access(const void *address, size_t bytes, bool writes, const void *site);
// Counts a warp's multiplications and additions on matrix units.
void emulated_count_operations(uint64_t operations);
// The lanes of a warp have synchronized, so earlier and later accesses are of different
// instructions. -1: those of all warps.
void emulated_count_sync(int warp);
#else
#define EMULATION_THREADS(threads) (threads)
static inline void emulated_count_access(const void *address, size_t bytes, bool writes,
                                         const void *site) {
}
static inline void emulated_count_operations(uint64_t operations) {
}
static inline void emulated_count_sync(int warp) {
}
#endif

// emulation.cpp. False: no kernel is running.
bool emulated_running(struct emulated_thread *thread);

#endif
