// SPDX-License-Identifier: Apache-2.0
// Epilogues and prefetching, for both implementations of products (product.h, product_lanes.h). The
// epilogue of a block of c runs after the block is written, either at once or row by row during the
// next block. Products that are not computed block by block are followed by the operations on whole
// matrices (activations.h).
#ifndef BERTH_CPU_KERNELS_PRODUCT_EPILOGUE_H
#define BERTH_CPU_KERNELS_PRODUCT_EPILOGUE_H

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/activations.h"

// A block of a matrix, its rows one after the other.
struct block_values {
    float value[PRODUCT_ROWS * PRODUCT_COLUMNS];
    int64_t rows, columns, width; // columns rounded up to whole vectors
};

// The fields are assigned, because an initializer would clear all values first.
ALWAYS_INLINE void load_block(struct block_values *to, struct mat m, int64_t row, int64_t column,
                              int64_t rows, int64_t columns) {
    to->rows = rows;
    to->columns = columns;
    to->width = lanes_of(columns);
    for (int64_t i = 0; i < rows; i++) {
        float *values = to->value + i * to->width;
        load(values, m, row + i, column, columns);
        memset(values + columns, 0, (size_t)(to->width - columns) * sizeof *values);
    }
}

ALWAYS_INLINE void store_block_values(struct mat m, int64_t row, int64_t column,
                                      const struct block_values *from) {
    for (int64_t i = 0; i < from->rows; i++) {
        store(m, row + i, column, from->value + i * from->width, from->columns);
    }
}

// Prefetches the next row of each matrix into the L2 cache.
ALWAYS_INLINE void prefetch_next_rows(struct prefetch_queue *prefetches) {
    if (prefetches == NULL || prefetches->left == 0) {
        return;
    }
    for (int part = 0; part < prefetches->parts; part++) {
        const char *row = prefetches->row[part], *line = row - (uintptr_t)row % 64;
        for (; line < row + prefetches->bytes; line += 64) {
            __builtin_prefetch(line, 0, 2);
        }
        prefetches->row[part] += prefetches->stride[part];
    }
    prefetches->left--;
}

ALWAYS_INLINE int has_epilogue(const struct product *p) {
    return !mat_is_empty(p->epilogue.y) || !mat_is_empty(p->epilogue.u);
}

// Prefetches what a block of c will read and write; the compiler knows its rows and columns.
ALWAYS_INLINE void prefetch_block_of_c(const struct product *p, int64_t row, int64_t column,
                                       int rows, int columns) {
    const struct mat y = p->epilogue.y, u = p->epilogue.u;
    prefetch_block(p->c, row, column, rows, columns, 1);
    if (!mat_is_empty(y) && y.data != p->c.data) {
        prefetch_block(y, row, column, rows, columns, 1);
    }
    if (!mat_is_empty(u)) {
        prefetch_block(u, row, column, rows, columns, 0);
    }
}

// struct product_epilogue, for some rows and columns of c from `row` and `column` on.
static void epilogue_block(const struct product *p, int64_t row, int64_t column, int64_t rows,
                           int64_t columns) {
    const struct product_epilogue *epilogue = &p->epilogue;
    const struct activation_row *f = &activation_rows[epilogue->activation];
    const int64_t count = rows * lanes_of(columns);
    struct block_values x, g;
    if (!mat_is_empty(epilogue->y)) {
        load_block(&x, p->c, row, column, rows, columns);
        f->value(x.value, count);
        store_block_values(epilogue->y, row, column, &x);
        return;
    }
    load_block(&x, epilogue->u, row, column, rows, columns);
    load_block(&g, p->c, row, column, rows, columns);
    f->slope(g.value, x.value, count);
    for (int64_t i = 0; i < rows; i++) {
        add(epilogue->sums + column, g.value + i * g.width, columns);
    }
    store_block_values(p->c, row, column, &g);
}

#if defined(__AVX512F__)
// The rows of a block whose epilogue is deferred to the next block: interleaved with the multiply
// loop, they cost little, whereas the loop would otherwise wait for them. Only for GELU on whole
// blocks, whose code is short enough to be interleaved.
struct deferred_epilogue {
    int64_t rows; // 0: none
    enum dtype dtype;
    char *c, *other; // the next row of c, and of y or u
    int64_t c_stride, other_stride;
    float *sums; // NULL: y = f(c)
};

ALWAYS_INLINE int defers_epilogue(const struct product *p) {
    return has_epilogue(p) && p->epilogue.activation == ACTIVATION_GELU_ERF;
}

ALWAYS_INLINE struct deferred_epilogue deferred_epilogue_of(const struct product *p, int64_t row,
                                                            int64_t column, int64_t rows) {
    const int is_forward = !mat_is_empty(p->epilogue.y);
    const struct mat other = is_forward ? p->epilogue.y : p->epilogue.u;
    const int64_t size = (int64_t)dtype_size(p->c.dtype);
    return (struct deferred_epilogue){.rows = rows,
                                      .dtype = p->c.dtype,
                                      .c = row_at(p->c, row, column),
                                      .other = row_at(other, row, column),
                                      .c_stride = p->c.stride * size,
                                      .other_stride = other.stride * size,
                                      .sums = is_forward ? NULL : p->epilogue.sums + column};
}

// One vector of the epilogue.
ALWAYS_INLINE void epilogue_vector(char *c, char *other, float *sums, enum dtype dtype) {
    const lanes value = lanes_from(c, dtype, LANES);
    if (sums == NULL) {
        lanes_to(other, gelu_erf_lanes(value), dtype, LANES);
        return;
    }
    const lanes gradient = value * gelu_erf_slope_lanes(lanes_from(other, dtype, LANES));
    lanes_store(sums, lanes_load(sums) + gradient);
    lanes_to(c, gradient, dtype, LANES);
}

ALWAYS_INLINE void deferred_row(struct deferred_epilogue *deferred) {
    const enum dtype dtype = deferred->dtype;
    const int64_t step = LANES * (int64_t)dtype_size(dtype);
#pragma GCC unroll 3
    for (int v = 0; v < PRODUCT_COLUMNS / LANES; v++) {
        float *sums = deferred->sums == NULL ? NULL : deferred->sums + v * LANES;
        epilogue_vector(deferred->c + v * step, deferred->other + v * step, sums, dtype);
    }
    deferred->c += deferred->c_stride;
    deferred->other += deferred->other_stride;
    deferred->rows--;
}

ALWAYS_INLINE void finish_deferred(struct deferred_epilogue *deferred) {
    while (deferred->rows > 0) {
        deferred_row(deferred);
    }
}
#endif

#endif
