// SPDX-License-Identifier: Apache-2.0
// The arithmetic of exchanges on the host: conversions between types, and sums along the fixed tree
// of core/reduction_tree.h.
#ifndef BERTH_COMM_NUMBERS_H
#define BERTH_COMM_NUMBERS_H

#include "core/mat.h"

#include <stddef.h>
#include <stdint.h>

struct addend {
    const void *data;
    enum dtype dtype;
    int leaves; // of the tree: 1, or the size of the subtree whose sum it is
};

// to[i] = from[i], rounded to nearest, ties to even, if `to_dtype` is narrower. The types are
// equal, or one is f32 and the other bf16 or f16.
void numbers_convert(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype,
                     int64_t count);

// to[i] = the sum of addends[0][i], addends[1][i], ..., which have `leaves` leaves in all, added in
// f32 along the tree over these. `to` may be the memory of an addend.
void numbers_sum(void *to, enum dtype dtype, const struct addend *addends, int leaves,
                 int64_t count);

// to[i] = to[i] + from[i], added in f32 and rounded to the dtype that both have.
void numbers_add(enum dtype dtype, void *to, const void *from, int64_t count);

#endif
