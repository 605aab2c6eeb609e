// SPDX-License-Identifier: Apache-2.0
// The data types, and conversion to f32: bf16 is the upper half of an f32; f16 has 1 sign, 5
// exponent (bias 15) and 10 mantissa bits. Called while weights are loaded, saved or converted, for
// a piece at a time.
#include "format/tensors/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- data types ---------------------------------------------------------------------------------

static const struct dtype_row {
    const char *name;
    unsigned bits;
    enum tensor_dtype dtype;
} dtype_rows[] = {
    {"BOOL", 8, TENSOR_BOOL},
    {"U8", 8, TENSOR_U8},
    {"I8", 8, TENSOR_I8},
    {"I16", 16, TENSOR_I16},
    {"U16", 16, TENSOR_U16},
    {"F16", 16, TENSOR_F16},
    {"BF16", 16, TENSOR_BF16},
    {"I32", 32, TENSOR_I32},
    {"U32", 32, TENSOR_U32},
    {"F32", 32, TENSOR_F32},
    {"F64", 64, TENSOR_F64},
    {"I64", 64, TENSOR_I64},
    {"U64", 64, TENSOR_U64},
    {"F4", 4, TENSOR_OTHER},
    {"F6_E2M3", 6, TENSOR_OTHER},
    {"F6_E3M2", 6, TENSOR_OTHER},
    {"F8_E5M2", 8, TENSOR_OTHER},
    {"F8_E4M3", 8, TENSOR_OTHER},
    {"F8_E8M0", 8, TENSOR_OTHER},
    {"F8_E4M3FNUZ", 8, TENSOR_OTHER},
    {"F8_E5M2FNUZ", 8, TENSOR_OTHER},
    {"C64", 64, TENSOR_OTHER},
};

static const struct dtype_row *row_of_name(const char *name) {
    for (size_t i = 0; i < sizeof dtype_rows / sizeof *dtype_rows; i++) {
        if (strcmp(dtype_rows[i].name, name) == 0) {
            return &dtype_rows[i];
        }
    }
    return NULL;
}

int tensor_dtype_parse(const char *name, struct tensor_entry *entry) {
    const struct dtype_row *row = row_of_name(name);
    if (row == NULL) {
        return 0;
    }
    entry->dtype = row->dtype;
    snprintf(entry->dtype_name, sizeof entry->dtype_name, "%s", row->name);
    return 1;
}

unsigned tensor_dtype_bits(const char *name) {
    const struct dtype_row *row = row_of_name(name);
    return row != NULL ? row->bits : 0;
}

const char *tensor_dtype_name(enum tensor_dtype dtype) {
    return dtype < TENSOR_OTHER ? dtype_rows[dtype].name : "other";
}

size_t tensor_dtype_size(enum tensor_dtype dtype) {
    return dtype < TENSOR_OTHER ? dtype_rows[dtype].bits / 8 : 0;
}

// --- sizes and shapes ---------------------------------------------------------------------------

int tensor_entry_elements(const struct tensor_entry *entry, uint64_t *count) {
    int overflow = 0;
    *count = 1;
    for (int i = 0; i < entry->rank; i++) {
        overflow |= __builtin_mul_overflow(*count, (uint64_t)entry->shape[i], count);
    }
    return !overflow && *count <= INT64_MAX;
}

size_t tensor_out_elements(const struct tensor_out *tensor) {
    size_t elements = 1;
    for (int i = 0; i < tensor->rank; i++) {
        elements *= (size_t)tensor->shape[i];
    }
    return elements;
}

size_t tensor_out_bytes(const struct tensor_out *tensor) {
    return tensor_out_elements(tensor) * tensor_dtype_size(tensor->dtype);
}

void tensor_print_shape(char *text, size_t size, const int64_t *shape, int rank) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < rank && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)shape[i]);
    }
    if (used < size) {
        snprintf(text + used, size - used, "]");
    }
}

// --- to f32 -------------------------------------------------------------------------------------

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
        for (size_t i = 0; i < count; i++) {
            uint16_t half;
            memcpy(&half, from + 2 * i, sizeof half);
            to[i] = dtype == TENSOR_F16 ? from_f16(half) : from_bits((uint32_t)half << 16);
        }
    }
}

// --- f32 to f16 and bf16 ------------------------------------------------------------------------
// Rounded to nearest, ties to even. NaNs stay NaNs; too large values become infinities.

static uint32_t to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// `bits` without its `dropped` lowest bits, rounded; a carry correctly increments the exponent.
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

size_t tensor_count_overflows(enum tensor_dtype dtype, const float *from, size_t count) {
    const float limit = dtype == TENSOR_F16 ? 65520.0f : 0x1.FFp127f; // rounded to infinity
    size_t overflows = 0;
    for (size_t i = 0; i < count; i++) {
        const float size = fabsf(from[i]);
        overflows += size >= limit && size < INFINITY;
    }
    return overflows;
}

// --- transposing --------------------------------------------------------------------------------

// The side of a square block: source and destination fit the nearest cache.
#define TILE 32

// Inlined for each constant size.
static inline void transpose(const char *from, int64_t rows, int64_t cols, size_t size, char *to) {
    for (int64_t row = 0; row < rows; row += TILE) {
        int64_t row_end = row + TILE < rows ? row + TILE : rows;
        for (int64_t col = 0; col < cols; col += TILE) {
            int64_t col_end = col + TILE < cols ? col + TILE : cols;
            for (int64_t j = col; j < col_end; j++) {
                for (int64_t i = row; i < row_end; i++) {
                    memcpy(to + (size_t)(j * rows + i) * size, from + (size_t)(i * cols + j) * size,
                           size);
                }
            }
        }
    }
}

void tensor_transpose(const void *from, int64_t rows, int64_t cols, size_t size, void *to) {
    if (size == 4) {
        transpose(from, rows, cols, 4, to);
    } else if (size == 2) {
        transpose(from, rows, cols, 2, to);
    } else {
        transpose(from, rows, cols, size, to);
    }
}
