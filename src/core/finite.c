// SPDX-License-Identifier: Apache-2.0
// Looks for infinities and NaN by the exponents' bits, in pieces that compilers turn into vector
// code, then number by number in the piece that has one. Weights that are read, results that are
// written, and gradients are checked so.
#include "core/finite.h"

#include <math.h>
#include <string.h>

#define PIECE ((int64_t)4096)
#define EXPONENT INT32_C(0x7F800000) // bits that are all set in an infinity and in NaN

// No early exit, so that the compiler can vectorize the loop.
static int is_finite(const float *numbers, int64_t count) {
    int32_t max = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        bits &= EXPONENT;
        max = bits > max ? bits : max;
    }
    return max < EXPONENT;
}

int64_t finite_count(const float *numbers, int64_t count) {
    int64_t first = 0;
    while (count - first > PIECE && is_finite(numbers + first, PIECE)) {
        first += PIECE;
    }
    while (first < count && isfinite(numbers[first])) {
        first++;
    }
    return first;
}
