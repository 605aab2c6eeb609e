// SPDX-License-Identifier: Apache-2.0
// A 2-D view of numbers in device memory: all activations and parameters are 2-D. Views own
// nothing.
#ifndef BERTH_CORE_MAT_H
#define BERTH_CORE_MAT_H

#include <stddef.h>
#include <stdint.h>

// DTYPE_I8: weights with scales for each row, of inference (core/int8.h).
enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I8 };

static inline size_t dtype_size(enum dtype dtype) {
    return dtype == DTYPE_F32 ? 4 : dtype == DTYPE_I8 ? 1 : 2;
}

static inline const char *dtype_name(enum dtype dtype) {
    static const char *const names[] = {"f32", "bf16", "f16", "i8"};
    return names[dtype];
}

// rows x cols, row-major; element (r, c) is at data + (r * stride + c) * dtype_size(dtype).
struct mat {
    void *data;
    int64_t rows;
    int64_t cols;
    int64_t stride; // elements from one row to the next, >= cols
    enum dtype dtype;
};

static inline struct mat mat_of(void *data, int64_t rows, int64_t cols, enum dtype dtype) {
    return (struct mat){.data = data, .rows = rows, .cols = cols, .stride = cols, .dtype = dtype};
}

// The columns [first, first + count) of `m`, all rows.
static inline struct mat mat_columns(struct mat m, int64_t first, int64_t count) {
    m.data = (char *)m.data + (size_t)first * dtype_size(m.dtype);
    m.cols = count;
    return m;
}

// The rows [first, first + count) of `m`.
static inline struct mat mat_rows(struct mat m, int64_t first, int64_t count) {
    m.data = (char *)m.data + (size_t)(first * m.stride) * dtype_size(m.dtype);
    m.rows = count;
    return m;
}

static inline int mat_is_empty(struct mat m) {
    return m.data == NULL;
}

#endif
