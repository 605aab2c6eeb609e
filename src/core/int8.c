// SPDX-License-Identifier: Apache-2.0
#include "core/int8.h"

#include <math.h>
#include <string.h>

#define LARGEST 127.0f
// The smallest scale; the numbers of a group with a smaller one become 0.
#define SCALE_LEAST 0x1p-100f

// Rounded to 17 significant bits.
static float short_scale(float scale) {
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits = (bits + 0x40u) & ~0x7Fu;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static float quantize_group(const float *row, int64_t count, signed char *q) {
    float most = 0.0f;
    int is_finite = 1;
    for (int64_t i = 0; i < count; i++) {
        const float size = fabsf(row[i]);
        most = size > most ? size : most;
        is_finite &= isfinite(row[i]) != 0;
    }
    const float scale = short_scale(most / LARGEST);
    if (!is_finite || scale < SCALE_LEAST) {
        memset(q, 0, (size_t)count);
        return is_finite ? 0.0f : NAN;
    }
    for (int64_t i = 0; i < count; i++) {
        q[i] = (signed char)rintf(row[i] / scale);
    }
    return scale;
}

void int8_quantize(const float *row, int64_t columns, signed char *q, float *scales) {
    const int64_t group = int8_group(columns), groups = int8_groups(columns);
    for (int64_t g = 0; g < groups; g++) {
        scales[g] = quantize_group(row + g * group, group, q + g * group);
    }
}
