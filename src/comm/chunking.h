// SPDX-License-Identifier: Apache-2.0
// How an operation on a range is cut into steps (pipeline.h): how many, and how much of each rank's
// part one step covers.
#ifndef BERTH_COMM_CHUNKING_H
#define BERTH_COMM_CHUNKING_H

#include "comm/comm.h"

#include <stdint.h>

// The bytes of the parts of a group in a step of a native range, at most. For more than 512 KB
// MPICH takes as many rounds as there are hosts, else their logarithm. With few hosts, fewer and
// larger steps were faster, but a part of more than 256 KB arrives later over TCP than several of
// that size.
enum { CHUNKING_FEW_HOSTS = 16 };
static inline int64_t chunking_native_bytes(int hosts) {
    return hosts <= CHUNKING_FEW_HOSTS ? (int64_t)hosts << 18 : 448 << 10;
}

struct chunking {
    int64_t elements; // of a part in one step, at most
    int64_t chunks;   // steps, at least one
};

// max_elements: those of a part for which there is memory. A group has a rank of each host.
struct chunking chunking_of(const struct comm_range *range, int size, int hosts,
                            int64_t max_elements);
// The number of elements of `owner`'s part in step `chunk_index` of an operation; may be 0.
int64_t chunking_count(const struct chunking *chunking, const struct comm_range *range,
                       int64_t chunk_index, int owner);

#endif
