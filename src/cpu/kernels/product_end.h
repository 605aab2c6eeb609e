// SPDX-License-Identifier: Apache-2.0
// What a product does beside its sums, for either kind of products (product.h, product_lanes.h): it
// asks for memory that will be read soon, and ends each block of c after it was written (struct
// product_end), at once or row by row beside the next block. Products that are not computed block
// by block are followed by the operations on whole matrices (activations.h).
#ifndef BERTH_CPU_KERNELS_PRODUCT_END_H
#define BERTH_CPU_KERNELS_PRODUCT_END_H

#include "cpu/kernels.h"
#include "cpu/kernels/activations.h"

// A block of the sums of a product, side by side.
struct block_values {
    float value[PRODUCT_ROWS * PRODUCT_COLUMNS];
    int64_t rows, columns, width; // columns rounded up to whole vectors
};

ALWAYS void load_block(struct block_values *to, struct mat m, int64_t row, int64_t column) {
    for (int64_t i = 0; i < to->rows; i++) {
        load(to->value + i * to->width, m, row + i, column, to->columns);
    }
}

ALWAYS void store_block_values(struct mat m, int64_t row, int64_t column,
                               const struct block_values *from) {
    for (int64_t i = 0; i < from->rows; i++) {
        store(m, row + i, column, from->value + i * from->width, from->columns);
    }
}

// Asks for the next row of each part, for the second-level cache.
ALWAYS void ask_ahead(struct rows_ahead *ahead) {
    if (ahead == NULL || ahead->left == 0) {
        return;
    }
    for (int part = 0; part < ahead->parts; part++) {
        const char *row = ahead->row[part], *line = row - (uintptr_t)row % 64;
        for (; line < row + ahead->bytes; line += 64) {
            __builtin_prefetch(line, 0, 2);
        }
        ahead->row[part] += ahead->stride[part];
    }
    ahead->left--;
}

ALWAYS int has_end(const struct product *p) {
    return !mat_is_empty(p->end.y) || !mat_is_empty(p->end.u);
}

// What a block of c will read and write; the compiler knows its columns.
ALWAYS void prefetch_ends(const struct product *p, int64_t row, int64_t column, int columns) {
    const struct mat y = p->end.y, u = p->end.u;
    prefetch_block(p->c, row, column, PRODUCT_ROWS, columns, 1);
    if (!mat_is_empty(y) && y.data != p->c.data) {
        prefetch_block(y, row, column, PRODUCT_ROWS, columns, 1);
    }
    if (!mat_is_empty(u)) {
        prefetch_block(u, row, column, PRODUCT_ROWS, columns, 0);
    }
}

// struct product_end, for some rows and columns of c from `row` and `column` on.
static void end_block(const struct product *p, int64_t row, int64_t column, int64_t rows,
                      int64_t columns) {
    const struct product_end *end = &p->end;
    const struct activation_row *f = &activation_rows[end->activation];
    struct block_values x = {.rows = rows, .columns = columns, .width = lanes_of(columns)};
    const int64_t count = rows * x.width;
    if (!mat_is_empty(end->y)) {
        load_block(&x, p->c, row, column);
        f->value(x.value, count);
        store_block_values(end->y, row, column, &x);
        return;
    }
    struct block_values g = {.rows = rows, .columns = columns, .width = x.width};
    load_block(&x, end->u, row, column);
    load_block(&g, p->c, row, column);
    f->slope(g.value, x.value, count);
    for (int64_t i = 0; i < rows; i++) {
        add(end->sums + column, g.value + i * g.width, columns);
    }
    store_block_values(p->c, row, column, &g);
}

#if defined(__AVX512F__)
// The rows of a block whose end is left for the steps of the next block: the processor computes
// these rows beside the products, which would wait for them otherwise. GELU only, on
// PRODUCT_COLUMNS columns: code that is short enough to stand between the products.
struct ending {
    int64_t rows; // 0: none
    enum dtype dtype;
    char *c, *other; // the next row of c, and of y or u
    int64_t c_stride, other_stride;
    float *sums; // NULL: y = f(c)
};

ALWAYS int ends_later(const struct product *p, int64_t columns) {
    return has_end(p) && p->end.activation == ACTIVATION_GELU_ERF && columns == PRODUCT_COLUMNS;
}

ALWAYS struct ending ending_of(const struct product *p, int64_t row, int64_t column, int64_t rows) {
    const int is_forward = !mat_is_empty(p->end.y);
    const struct mat other = is_forward ? p->end.y : p->end.u;
    const int64_t size = (int64_t)dtype_size(p->c.dtype);
    return (struct ending){.rows = rows,
                           .dtype = p->c.dtype,
                           .c = row_at(p->c, row, column),
                           .other = row_at(other, row, column),
                           .c_stride = p->c.stride * size,
                           .other_stride = other.stride * size,
                           .sums = is_forward ? NULL : p->end.sums + column};
}

ALWAYS void end_row(struct ending *ending) {
    const enum dtype dtype = ending->dtype;
    const int64_t step = LANES * (int64_t)dtype_size(dtype);
#pragma GCC unroll 3
    for (int v = 0; v < PRODUCT_COLUMNS / LANES; v++) {
        char *c = ending->c + v * step, *other = ending->other + v * step;
        const lanes value = lanes_from(c, dtype, LANES);
        if (ending->sums == NULL) {
            lanes_to(other, gelu_erf_lanes(value), dtype, LANES);
        } else {
            const lanes gradient = value * gelu_erf_slope_lanes(lanes_from(other, dtype, LANES));
            float *sums = ending->sums + v * LANES;
            lanes_store(sums, lanes_load(sums) + gradient);
            lanes_to(c, gradient, dtype, LANES);
        }
    }
    ending->c += ending->c_stride;
    ending->other += ending->other_stride;
    ending->rows--;
}

ALWAYS void end_rows(struct ending *ending) {
    while (ending->rows > 0) {
        end_row(ending);
    }
}
#endif

#endif
