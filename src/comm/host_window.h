// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of a host share. It has a few slots, which are used in turn. In each slot,
// every rank of the host has an area with one cell for each owner of the slot's step (chunking.h).
// Each area has a mark, which says for which step the area was filled, and for which step its rank
// has read the areas of the others.
//
// The memory is an anonymous file that the host's first rank creates and the others open through
// /proc, so neither the size of /dev/shm nor the remains of a killed job matter.
#ifndef BERTH_COMM_HOST_WINDOW_H
#define BERTH_COMM_HOST_WINDOW_H

#include "comm/range_message.h"
#include "core/error.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// The steps in flight at once: enough to fill a link of 1 Gbit/s with a delay of 15 ms.
enum { WINDOW_SLOTS = 8 };

struct window_shape {
    int local_size; // ranks of the host
    size_t area;    // bytes of the cells of a rank in a slot (chunk_limits_area)
};

struct window_mark {
    _Atomic int64_t filled;   // step + 1
    _Atomic int64_t emptied;  // step + 1
    struct range_label label; // of the step for which it was filled
};

// Counts the changes of all marks, for ranks that sleep until there is one.
struct window_events {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

struct host_window {
    struct window_shape shape;
    void *memory;
    size_t bytes;   // 0: there is no window
    int descriptor; // of the file, in the process that created it; else -1
    int is_shared;
};

// The bytes of a cell for `payload` bytes of elements.
size_t host_window_cell_bytes(size_t payload);
// The bytes of a window, for all ranks of the host together.
size_t host_window_bytes(const struct window_shape *shape);

// For a rank that shares memory with no other. host_window_done frees it, also after an error.
enum berth_status host_window_private(struct host_window *window, const struct window_shape *shape,
                                      struct berth_error *error);
// For the host's first rank, and for the others once the first one has created it.
enum berth_status host_window_create(struct host_window *window, const struct window_shape *shape,
                                     struct berth_error *error);
enum berth_status host_window_open(struct host_window *window, const struct window_shape *shape,
                                   int64_t process, int descriptor, struct berth_error *error);
// Once all have opened it; harmless where there is no window.
void host_window_close_file(struct host_window *window);
void host_window_done(struct host_window *window);

// Cell `cell` of a rank's area, if cells have `cell_bytes`.
struct range_header *host_window_cell(const struct host_window *window, int64_t step, int local,
                                      int cell, size_t cell_bytes);
// Keeps counting while the process of that rank of the host runs (watchdog.h).
_Atomic uint32_t *host_window_heartbeats(const struct host_window *window, int local);
struct window_mark *host_window_mark(const struct host_window *window, int64_t step, int local);

// Announces that a mark has changed.
void host_window_signal(const struct host_window *window);
// The number of changes so far. host_window_sleep returns at once if it is no longer `seen`, else
// after the next change or `microseconds`.
uint32_t host_window_events(const struct host_window *window);
void host_window_sleep(const struct host_window *window, uint32_t seen, int microseconds);

#endif
