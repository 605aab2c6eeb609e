// SPDX-License-Identifier: Apache-2.0
// The steps of an operation on a range (pipeline.h): how many, and how much of each part in one.
#ifndef BERTH_COMM_CHUNKING_H
#define BERTH_COMM_CHUNKING_H

#include "core/comm.h"

#include <stdint.h>

struct chunking {
    int64_t elements; // of a part in a step, at most
    int64_t chunks;   // steps, at least one
};

// Where the memory holds `most` elements of a part.
struct chunking chunking_of(const struct comm_range *range, int size, int64_t most);
// Elements of `owner`'s part in step `chunk` of an operation; may be 0.
int64_t chunking_count(const struct chunking *chunking, const struct comm_range *range,
                       int64_t chunk, int owner);

#endif
