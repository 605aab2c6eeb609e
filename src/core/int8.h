// SPDX-License-Identifier: Apache-2.0
// Weights in int8: in a row w[k] is scale * q[k] with |q| <= 127, and each group of INT8_GROUP
// columns has a scale of its own. A row whose length is no multiple of INT8_GROUP is one group.
// Leaves out activations, which a device quantizes (quantize_row of
// device/cpu/kernels/product_int8.h).
#ifndef BERTH_CORE_INT8_H
#define BERTH_CORE_INT8_H

#include <stdint.h>
#include <string.h>

#define INT8_GROUP 64

// Rounds to the nearest integer, ties to even; |x| must be below 2^22. Compilers can vectorize it.
static inline int32_t int8_round(float x) {
    const float magic = 12582912.0f, sum = x + magic; // 1.5 * 2^23: sums with it are integers
    int32_t bits, zero;
    memcpy(&bits, &sum, sizeof bits);
    memcpy(&zero, &magic, sizeof zero);
    return bits - zero;
}

// The number of columns of a group, in rows of `columns` columns.
static inline int64_t int8_group(int64_t columns) {
    return columns % INT8_GROUP == 0 ? INT8_GROUP : columns;
}

// The number of groups of a row, at least one.
static inline int64_t int8_groups(int64_t columns) {
    return columns / int8_group(columns);
}

// Quantizes a row: q[columns], scales[int8_groups(columns)]. A scale is the group's largest
// absolute value / 127, with 17 significant bits, so that scale * q is exact in f32 and a row that
// was quantized before keeps its numbers. It is NaN if one of the group's values is not finite.
void int8_quantize(const float *row, int64_t columns, signed char *q, float *scales);

#endif
