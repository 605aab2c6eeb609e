// SPDX-License-Identifier: Apache-2.0
// What is done with a block of a product's c right after it was written (struct product_end), for
// either kind of products (product.h, product_lanes.h). Products that are not computed block by
// block are followed by the operations on whole matrices (activations.h).
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

#endif
