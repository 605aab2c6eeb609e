// SPDX-License-Identifier: Apache-2.0
// bf16 is the upper half of an f32. f16 has 1 sign, 5 exponent (bias 15) and 10 mantissa bits.
#include "format/tensor_convert.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files and memory have one byte order");

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 0x1Fu, mantissa = half & 0x3FFu;
    if (exponent == 0) { // zero and subnormals: mantissa * 2^-24
        float value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15; // 31: infinities and NaNs
    return from_bits(sign | wide << 23 | mantissa << 13);
}

int tensor_is_convertible(enum tensor_dtype dtype) {
    return dtype == TENSOR_F32 || dtype == TENSOR_F16 || dtype == TENSOR_BF16 ||
           dtype == TENSOR_F64;
}

static void convert_halves(enum tensor_dtype dtype, const char *from, size_t count, float *to) {
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        to[i] = dtype == TENSOR_F16 ? from_f16(half) : from_bits((uint32_t)half << 16);
    }
}

void tensor_convert(enum tensor_dtype dtype, const void *from, size_t count, float *to) {
    if (dtype == TENSOR_F32) {
        memcpy(to, from, count * sizeof *to);
    } else if (dtype == TENSOR_F64) {
        for (size_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, (const char *)from + 8 * i, sizeof value);
            to[i] = (float)value;
        }
    } else {
        convert_halves(dtype, from, count, to);
    }
}
