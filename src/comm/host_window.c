// SPDX-License-Identifier: Apache-2.0
// The memory in which the ranks of a host add their values: where each rank's area, its cells
// and its marks are, how the shared file is created and opened, and the futex on which ranks sleep
// until another one has made progress. step.c decides what is written, and when.
#include "comm/host_window.h"

#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CACHE_LINE = 64 }; // bytes that processors keep together

// --- layout: events, beats, marks, cells ---------------------------------------------------------

static size_t rounded(size_t bytes) {
    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static size_t mark_bytes(void) {
    return rounded(sizeof(struct window_mark));
}

size_t host_window_cell_bytes(size_t payload) {
    return rounded(sizeof(struct range_header) + payload);
}

static size_t area_count(const struct window_shape *shape) {
    return (size_t)WINDOW_SLOTS * (size_t)shape->local_size;
}

static size_t marks_offset(const struct window_shape *shape) {
    return rounded(sizeof(struct window_events)) +
           rounded((size_t)shape->local_size * sizeof(uint32_t));
}

static size_t cells_offset(const struct window_shape *shape) {
    return marks_offset(shape) + area_count(shape) * mark_bytes();
}

size_t host_window_bytes(const struct window_shape *shape) {
    return cells_offset(shape) + area_count(shape) * shape->area;
}

static size_t area_of(const struct host_window *window, int64_t step, int local) {
    return (size_t)(step % WINDOW_SLOTS) * (size_t)window->shape.local_size + (size_t)local;
}

_Atomic uint32_t *host_window_heartbeats(const struct host_window *window, int local) {
    return (_Atomic uint32_t *)(void *)((char *)window->memory +
                                        rounded(sizeof(struct window_events))) +
           local;
}

struct window_mark *host_window_mark(const struct host_window *window, int64_t step, int local) {
    return (void *)((char *)window->memory + marks_offset(&window->shape) +
                    area_of(window, step, local) * mark_bytes());
}

struct range_header *host_window_cell(const struct host_window *window, int64_t step, int local,
                                      int cell, size_t cell_bytes) {
    const struct window_shape *shape = &window->shape;
    return (void *)((char *)window->memory + cells_offset(shape) +
                    area_of(window, step, local) * shape->area + (size_t)cell * cell_bytes);
}

// --- memory -------------------------------------------------------------------------------------

static struct host_window window_of(const struct window_shape *shape) {
    return (struct host_window){
        .shape = *shape, .bytes = host_window_bytes(shape), .descriptor = -1};
}

enum berth_status host_window_private(struct host_window *window, const struct window_shape *shape,
                                      struct berth_error *error) {
    *window = window_of(shape);
    window->memory = memory_pages(window->bytes);
    return window->memory != NULL ? BERTH_OK
                                  : error_no_memory(error, window->bytes, "messages of exchanges");
}

static enum berth_status map(struct host_window *window, int descriptor,
                             struct berth_error *error) {
    void *memory = mmap(NULL, window->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
        return error_set_errno(error, BERTH_UNAVAILABLE, errno,
                               "cannot map %zu bytes that the ranks of a host share",
                               window->bytes);
    }
    window->memory = memory;
    window->is_shared = 1;
    return BERTH_OK;
}

enum berth_status host_window_create(struct host_window *window, const struct window_shape *shape,
                                     struct berth_error *error) {
    *window = window_of(shape);
    window->descriptor = memfd_create("berth-ranks", MFD_CLOEXEC);
    if (window->descriptor < 0 || ftruncate(window->descriptor, (off_t)window->bytes) != 0) {
        return error_set_errno(error, BERTH_UNAVAILABLE, errno,
                               "cannot allocate %zu bytes that the ranks of a host share",
                               window->bytes);
    }
    return map(window, window->descriptor, error);
}

enum berth_status host_window_open(struct host_window *window, const struct window_shape *shape,
                                   int64_t process, int descriptor, struct berth_error *error) {
    char path[64];
    *window = window_of(shape);
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%d", process, descriptor);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        return error_set_errno(error, BERTH_UNAVAILABLE, errno, "cannot open %s", path);
    }
    const enum berth_status status = map(window, file, error);
    close(file);
    return status;
}

void host_window_close_file(struct host_window *window) {
    if (window->bytes > 0 && window->descriptor >= 0) {
        close(window->descriptor);
        window->descriptor = -1;
    }
}

void host_window_done(struct host_window *window) {
    if (window->bytes == 0) {
        return;
    }
    host_window_close_file(window);
    if (window->is_shared) {
        munmap(window->memory, window->bytes);
    } else {
        memory_pages_free(window->memory, window->bytes);
    }
    *window = (struct host_window){0};
}

// --- sleeping until a mark changes --------------------------------------------------------------

static struct window_events *events_of(const struct host_window *window) {
    return window->memory;
}

uint32_t host_window_events(const struct host_window *window) {
    return atomic_load(&events_of(window)->count);
}

void host_window_signal(const struct host_window *window) {
    struct window_events *events = events_of(window);
    atomic_fetch_add(&events->count, 1);
    if (atomic_load(&events->sleepers) > 0) {
        syscall(SYS_futex, &events->count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

void host_window_sleep(const struct host_window *window, uint32_t seen, int microseconds) {
    struct window_events *events = events_of(window);
    const struct timespec time = {.tv_nsec = microseconds * 1000L};
    atomic_fetch_add(&events->sleepers, 1);
    syscall(SYS_futex, &events->count, FUTEX_WAIT, seen, &time, NULL, 0);
    atomic_fetch_sub(&events->sleepers, 1);
}
