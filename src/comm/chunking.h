// SPDX-License-Identifier: Apache-2.0
// How an operation on a range is cut into steps (pipeline.h): how many, and how much of each rank's
// part one step covers.
#ifndef BERTH_COMM_CHUNKING_H
#define BERTH_COMM_CHUNKING_H

#include "comm/comm.h"

#include <stdint.h>

// Of the parts of a group in a step of a native range, at most. For more than 512 KB MPICH takes as
// many rounds as there are hosts; and larger messages arrive later over TCP than several of this
// size.
enum { CHUNKING_NATIVE_BYTES = 448 << 10 };

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
