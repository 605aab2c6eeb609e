// SPDX-License-Identifier: Apache-2.0
// f32 to f16 and bf16, rounded to nearest, ties to even. NaNs stay NaNs, what is too large becomes
// an infinity.
#include "format/tensors/tensor.h"

#include <string.h>

static uint32_t to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// `bits` without its `dropped` lowest ones, rounded; a carry moves into the exponent, as it should.
static uint32_t shift_rounded(uint32_t bits, unsigned dropped) {
    uint32_t half = (uint32_t)1 << (dropped - 1);
    uint32_t odd = bits >> dropped & 1;
    return (bits + half - 1 + odd) >> dropped;
}

static uint16_t to_bf16(float value) {
    uint32_t bits = to_bits(value);
    int is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    return (uint16_t)(is_nan ? bits >> 16 | 0x40u : shift_rounded(bits, 16));
}

static uint16_t to_f16(float value) {
    uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) { // NaN
        return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
    }
    if (magnitude >= 0x477FF000u) { // 65520 and above
        return (uint16_t)(sign | 0x7C00u);
    }
    if (magnitude >= 0x38800000u) { // 2^-14: normal; the exponent's bias falls from 127 to 15
        return (uint16_t)(sign | shift_rounded(magnitude - 0x38000000u, 13));
    }
    if (magnitude < 0x33000000u) { // below 2^-25: rounds to 0
        return (uint16_t)sign;
    }
    uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u; // subnormal: multiples of 2^-24
    return (uint16_t)(sign | shift_rounded(mantissa, 126 - (magnitude >> 23)));
}

void tensor_narrow(enum tensor_dtype dtype, const float *from, size_t count, void *to) {
    for (size_t i = 0; i < count; i++) {
        uint16_t half = dtype == TENSOR_F16 ? to_f16(from[i]) : to_bf16(from[i]);
        memcpy((char *)to + 2 * i, &half, sizeof half);
    }
}
