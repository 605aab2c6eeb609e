// SPDX-License-Identifier: Apache-2.0
// How an operation on a range is cut into steps (pipeline.h): whose parts, and how much of each,
// one step covers.
//
// The owners of a range are the ranks whose parts are not empty. If the window has a cell for every
// rank, each step covers a chunk of every part. Otherwise the owners take turns in groups, evenly
// spaced so that each group has owners on as many hosts as it can, and chunks are as large as a
// message should be at least.
#ifndef BERTH_COMM_CHUNKING_H
#define BERTH_COMM_CHUNKING_H

#include "comm/comm.h"

#include <stddef.h>
#include <stdint.h>

// The bytes of the parts of a group in a step of a native range, at most. For more than 512 KB
// MPICH takes as many rounds as there are hosts, else their logarithm. With few hosts, fewer and
// larger steps were faster, but a part of more than 256 KB arrives later over TCP than several of
// that size.
enum { CHUNKING_FEW_HOSTS = 16 };
static inline int64_t chunking_native_bytes(int hosts) {
    return hosts <= CHUNKING_FEW_HOSTS ? (int64_t)hosts << 18 : 448 << 10;
}

// What there is memory for; the same on all ranks.
struct chunk_limits {
    int cells;      // owners in a step, at most
    size_t payload; // bytes of a part's elements in a step, at most, if they travel in f32
    size_t message; // of other types, the bytes that are sent at least if the part has as many
    // Bytes that the ranks of a host receive in the reduces that are under way, unless a chunk from
    // each host for each of these ranks takes more.
    size_t received;
};

// An area of CHUNK_CELLS such messages is the least that a rank gets of the window.
enum { CHUNK_CELLS = 4 };

// The limits for `size` ranks, of which at most `local_size` share a window of `window_bytes` for
// the elements of all cells, or of CHUNK_CELLS * message_bytes in each area if that is more.
struct chunk_limits chunk_limits_of(int size, int local_size, size_t window_bytes,
                                    size_t message_bytes);
// The bytes of a rank's area of the window in a slot.
size_t chunk_limits_area(const struct chunk_limits *limits);

struct chunking {
    int64_t elements;  // of a part in one step, at most
    int64_t steps;     // at least one
    int groups;        // of owners; step s is the turn of group s % groups
    size_t cell_bytes; // of a chunk in the window, with its header
    int owner_count;
    const int *owners; // [owner_count] ascending
    const int *places; // [size] of each rank among the owners; -1: it is none
};

// hosts: also the ranks of a group of native.c. `table` [2 * size] holds the lists for as long as
// the result is used.
struct chunking chunking_of(const struct comm_range *range, int size, int hosts,
                            const struct chunk_limits *limits, int *table);

// The number of elements of `owner`'s part in a step of an operation; may be 0.
int64_t chunking_count(const struct chunking *chunking, const struct comm_range *range,
                       int64_t step, int owner);
// Where a chunk is in its part: the chunks before it in that part.
static inline int64_t chunking_index(const struct chunking *chunking, int64_t step) {
    return step / chunking->groups;
}
// The number of an owner's cell in the areas of its steps.
static inline int chunking_cell(const struct chunking *chunking, int owner) {
    return chunking->places[owner] / chunking->groups;
}

#endif
