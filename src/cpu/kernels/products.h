// SPDX-License-Identifier: Apache-2.0
// Code shared by both implementations of products (product.h, product_lanes.h). Each of them
// defines multiply_* and pack_transposed, which transposes TRANSPOSED rows at a time.
#ifndef BERTH_CPU_KERNELS_PRODUCTS_H
#define BERTH_CPU_KERNELS_PRODUCTS_H

#include "cpu/kernels/product.h"
#include "cpu/kernels/product_lanes.h"

static void product_f32(const struct product *p) {
    check_product_memory(p);
    multiply_f32(p);
}

static void product_bf16(const struct product *p) {
    check_product_memory(p);
    multiply_bf16(p);
}

// Panels whose columns are rows of x.
ALWAYS_INLINE void pack_rows_in(void *packed, struct mat x, int64_t first, int64_t last,
                                int64_t panel) {
    const int64_t steps = product_steps(x.cols, x.dtype);
    for (int64_t column = first; column < last; column += panel) {
        const int64_t width = lanes_of(chunk_length(column, x.rows, panel));
        uint32_t *to = (uint32_t *)packed + column * steps;
        for (int64_t j = 0; j < width; j += TRANSPOSED) {
            pack_transposed(to + j, width, x, column + j, steps);
        }
    }
}

static void pack_rows(void *packed, struct mat x, int64_t first, int64_t last) {
    pack_rows_in(packed, x, first, last, product_panel(x.rows));
}

#endif
