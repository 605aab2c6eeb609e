// SPDX-License-Identifier: Apache-2.0
// The table of counts, and the accesses of a launch compared with its cost; see emulation_counts.h.
#include "emulation/emulation_counts.h"

#include "emulation/emulation_memory.h"
#include "device/gpu/gpu_api.h"

#include <inttypes.h>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <unordered_map>
#include <vector>

struct counts {
    uint64_t launches;
    gpu_cost cost;
    uint64_t accessed, sectors;           // bytes that lanes accessed; sectors, by warp
    uint64_t shared_passes, shared_least; // of shared memory
};

static std::map<std::string, struct counts> table;

bool emulated_is_dry(void) {
    static const char *const dry = getenv("BERTH_EMULATION_DRY");
    return dry != NULL && strcmp(dry, "1") == 0;
}

static void write_table(void) {
    FILE *file = fopen(getenv("BERTH_EMULATION_COUNTS"), "w");
    if (file == NULL) {
        perror("emulated GPU: BERTH_EMULATION_COUNTS");
        return;
    }
    fputs("kernel\tlaunches\tloads\tstores\toperations\taccessed\tsectors\tshared_passes\t"
          "shared_least\n",
          file);
    for (const auto &row : table) {
        const struct counts &c = row.second;
        fprintf(file,
                "%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                "\t%" PRIu64 "\t%" PRIu64 "\n",
                row.first.c_str(), c.launches, c.cost.loads, c.cost.stores, c.cost.operations,
                c.accessed, c.sectors, c.shared_passes, c.shared_least);
    }
    fclose(file);
}

static bool writes_table(void) {
    static const bool written =
        getenv("BERTH_EMULATION_COUNTS") != NULL && atexit(write_table) == 0;
    return written;
}

void emulated_counts_add(const char *name, gpu_cost cost) {
    if (writes_table()) {
        struct counts &c = table[name];
        c.launches++;
        c.cost.loads += cost.loads;
        c.cost.stores += cost.stores;
        c.cost.operations += cost.operations;
    }
}

#if !defined(EMULATION_COUNTED)

bool emulated_counts_wanted(void) {
    return writes_table();
}

void emulated_counts_begin(const char *kernel, gpu_cost cost) {
    emulated_counts_add(kernel, cost);
}

void emulated_counts_end(void) {
}

#else

// --- accesses of a launch -----------------------------------------------------------------------

enum { READ = 1, WRITTEN = 2, SECTOR = 32, BANKS = 32, BANK_BYTES = 4 };

// A lane's access in one execution of an instruction by its warp.
struct access {
    uintptr_t address;
    size_t bytes;
};

// The instructions that a warp executed since its lanes last synchronized, by instruction and by
// how often a lane had executed it.
struct warp_accesses {
    std::map<std::pair<const void *, unsigned>, std::vector<struct access>> shared, global;
    std::map<std::pair<const void *, int>, unsigned> executions; // by instruction and lane
};

static struct {
    const char *kernel; // NULL: none runs
    gpu_cost cost;
    uint64_t operations; // on matrix units
    std::unordered_map<int, struct warp_accesses> warps;
} launch;

bool emulated_counts_wanted(void) {
    return true;
}

void emulated_counts_begin(const char *kernel, gpu_cost cost) {
    emulated_counts_add(kernel, cost);
    launch.kernel = kernel;
    launch.cost = cost;
    launch.operations = 0;
}

static void touch(uintptr_t address, size_t bytes, unsigned char how) {
    auto found = emulated_blocks().upper_bound(address);
    if (found == emulated_blocks().begin()) {
        return;
    }
    found--;
    struct emulated_block &block = found->second;
    const size_t first = address - found->first;
    if (first >= block.bytes + EMULATED_GUARD) {
        return; // not the GPU's memory
    }
    if (first + bytes > block.bytes) {
        fprintf(stderr,
                "emulated GPU: kernel %s %s %zu bytes at offset %zu of a block of %zu bytes\n",
                launch.kernel, how == WRITTEN ? "writes" : "reads", bytes, first, block.bytes);
        abort();
    }
    if (block.touched == NULL) {
        block.touched = (unsigned char *)calloc(block.bytes, 1);
    }
    for (size_t i = first; i < first + bytes; i++) {
        block.touched[i] |= how;
    }
    block.lowest = first < block.lowest ? first : block.lowest;
    block.end = first + bytes > block.end ? first + bytes : block.end;
}

void emulated_count_access(const void *address, size_t bytes, bool writes, const void *site) {
    struct emulated_thread thread;
    if (launch.kernel == NULL) {
        return;
    }
    touch((uintptr_t)address, bytes, writes ? WRITTEN : READ);
    if (!emulated_running(&thread)) {
        return;
    }
    const bool shared = (const unsigned char *)address >= thread.shared &&
                        (const unsigned char *)address < thread.shared + thread.shared_bytes;
    const auto found = emulated_blocks().upper_bound((uintptr_t)address);
    if (!shared && found == emulated_blocks().begin()) {
        return;
    }
    if (!shared) {
        const auto &block = *std::prev(found);
        if ((uintptr_t)address - block.first >= block.second.bytes) {
            return;
        }
    }
    struct warp_accesses &warp = launch.warps[thread.warp];
    const unsigned execution = warp.executions[{site, thread.lane}]++;
    auto &accesses = shared ? warp.shared : warp.global;
    accesses[{site, execution}].push_back({(uintptr_t)address, bytes});
}

void emulated_count_operations(uint64_t operations) {
    launch.operations += operations;
}

// --- how accesses coalesce ----------------------------------------------------------------------

static void count_sectors(struct counts &c, const std::vector<struct access> &accesses) {
    std::map<uintptr_t, bool> sectors;
    for (const struct access &access : accesses) {
        c.accessed += access.bytes;
        for (uintptr_t at = access.address / SECTOR;
             at <= (access.address + access.bytes - 1) / SECTOR; at++) {
            sectors[at] = true;
        }
    }
    c.sectors += sectors.size();
}

// In a pass, shared memory serves 128 bytes from different banks; lanes may share words.
static void count_passes(struct counts &c, const std::vector<struct access> &accesses) {
    const size_t bytes = accesses[0].bytes, words = bytes < BANK_BYTES ? 1 : bytes / BANK_BYTES;
    const size_t per_pass = BANKS / words;
    for (size_t first = 0; first < accesses.size(); first += per_pass) {
        std::map<uintptr_t, bool> asked[BANKS];
        size_t max = 0;
        for (size_t i = first; i < first + per_pass && i < accesses.size(); i++) {
            for (size_t word = 0; word < words; word++) {
                const uintptr_t at = accesses[i].address / BANK_BYTES + word;
                asked[at % BANKS][at] = true;
                max = asked[at % BANKS].size() > max ? asked[at % BANKS].size() : max;
            }
        }
        c.shared_passes += max;
        c.shared_least++;
    }
}

static void count_warp(struct warp_accesses &warp) {
    struct counts &c = table[launch.kernel];
    for (const auto &execution : warp.global) {
        count_sectors(c, execution.second);
    }
    for (const auto &execution : warp.shared) {
        count_passes(c, execution.second);
    }
    warp = {};
}

void emulated_count_sync(int warp) {
    for (auto &accesses : launch.warps) {
        if (warp < 0 || accesses.first == warp) {
            count_warp(accesses.second);
        }
    }
}

// --- comparison with the cost -------------------------------------------------------------------

static gpu_cost found_bytes(void) {
    gpu_cost found = {0, 0, 0};
    for (auto &entry : emulated_blocks()) {
        struct emulated_block &block = entry.second;
        for (size_t i = block.lowest; i < block.end; i++) {
            found.loads += (block.touched[i] & READ) != 0;
            found.stores += (block.touched[i] & WRITTEN) != 0;
            block.touched[i] = 0;
        }
        block.lowest = SIZE_MAX;
        block.end = 0;
    }
    return found;
}

void emulated_counts_end(void) {
    emulated_count_sync(-1);
    const gpu_cost found = found_bytes();
    const bool has_products = launch.operations == 0 || launch.operations == launch.cost.operations;
    if (!emulated_is_dry() &&
        (found.loads != launch.cost.loads || found.stores != launch.cost.stores || !has_products)) {
        fprintf(stderr,
                "emulated GPU: kernel %s reads %" PRIu64 " bytes, writes %" PRIu64
                " and does %" PRIu64 " operations on matrix units, its cost says %" PRIu64
                ", %" PRIu64 " and %" PRIu64 "\n",
                launch.kernel, found.loads, found.stores, launch.operations, launch.cost.loads,
                launch.cost.stores, launch.cost.operations);
        abort();
    }
    launch.kernel = NULL;
}

// --- the compiler's calls at loads and stores ---------------------------------------------------

// The functions that -fsanitize=thread makes the compiler call; the sanitizer itself is not linked.
#define COUNTED(bytes)                                                                             \
    void __tsan_read##bytes(void *at) {                                                            \
        emulated_count_access(at, bytes, false, __builtin_return_address(0));                      \
    }                                                                                              \
    void __tsan_write##bytes(void *at) {                                                           \
        emulated_count_access(at, bytes, true, __builtin_return_address(0));                       \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *at) {                                                  \
        emulated_count_access(at, bytes, false, __builtin_return_address(0));                      \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *at) {                                                 \
        emulated_count_access(at, bytes, true, __builtin_return_address(0));                       \
    }

extern "C" {
COUNTED(1)
COUNTED(2)
COUNTED(4)
COUNTED(8)
COUNTED(16)
void __tsan_read_range(void *at, long bytes) {
    emulated_count_access(at, (size_t)bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void *at, long bytes) {
    emulated_count_access(at, (size_t)bytes, true, __builtin_return_address(0));
}
void __tsan_vptr_update(void *, void *) {
}
void __tsan_vptr_read(void *) {
}
void __tsan_init(void) {
}
void __tsan_func_entry(void *) {
}
void __tsan_func_exit(void *) {
}
}

#endif
