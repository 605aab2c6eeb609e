// SPDX-License-Identifier: Apache-2.0
// A 2-D view of numbers in device memory: all activations and parameters are 2-D. The model makes
// views of its buffers (model/activations.h, model/params.h) and hands them to the operations of a
// device (device/device.h), which alone read and write the numbers.
#ifndef BERTH_CORE_MAT_H
#define BERTH_CORE_MAT_H

#include "core/check.h"

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
//
// A view owns nothing and is passed by value. It is not changed, only replaced by another view of
// the same memory (mat_rows, mat_columns). One without data is empty: an operand that is not there,
// whose other members mean nothing. Of every other view, what mat_check says is true.
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

// NULL, or what is not true of a view that is not empty (core/check.h).
static inline const char *mat_check(const struct mat *m) {
    CLAUSE(m->rows >= 0 && m->cols >= 0, "the numbers of rows and columns are not negative");
    CLAUSE(m->stride >= m->cols, "a row fits into its stride");
    CLAUSE((unsigned)m->dtype <= DTYPE_I8, "the dtype is one of enum dtype");
    CLAUSE((uintptr_t)m->data % dtype_size(m->dtype) == 0, "the data is aligned to its dtype");
    return NULL;
}

static inline int mat_is_empty(struct mat m) {
    return m.data == NULL;
}

#endif
