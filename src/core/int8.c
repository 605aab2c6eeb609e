// SPDX-License-Identifier: Apache-2.0
// Quantizes rows of weights to int8, with the same bits on every processor: when a model is loaded
// for inference in int8, and when one is converted. The products are the device's (cpu/int8.h).
#include "core/int8.h"

#include <math.h>
#include <string.h>

#define LARGEST 127.0f
// The smallest scale; the numbers of a group with a smaller one become 0.
#define SCALE_MIN 0x1p-100f

// Rounded to 17 significant bits.
static float short_scale(float scale) {
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits = (bits + 0x40u) & ~0x7Fu;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

// The largest absolute value; one that is not finite is larger than all others, because bits of
// positive numbers are ordered as the numbers are.
static float largest_of(const float *row, int64_t count) {
    int32_t max = 0;
    float largest;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        bits &= 0x7FFFFFFF;
        max = bits > max ? bits : max;
    }
    memcpy(&largest, &max, sizeof largest);
    return largest;
}

static float quantize_group(const float *row, int64_t count, signed char *q) {
    const float largest = largest_of(row, count), scale = short_scale(largest / LARGEST);
    const int is_finite = isfinite(largest) != 0;
    if (!is_finite || scale < SCALE_MIN) {
        memset(q, 0, (size_t)count);
        return is_finite ? 0.0f : NAN;
    }
    for (int64_t i = 0; i < count; i++) {
        q[i] = (signed char)int8_round(row[i] / scale);
    }
    return scale;
}

void int8_quantize(const float *row, int64_t columns, signed char *q, float *scales) {
    const int64_t group = int8_group(columns), groups = int8_groups(columns);
    for (int64_t g = 0; g < groups; g++) {
        scales[g] = quantize_group(row + g * group, group, q + g * group);
    }
}
