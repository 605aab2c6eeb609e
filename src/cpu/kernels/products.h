// SPDX-License-Identifier: Apache-2.0
// What is the same for either kind of products (product.h, product_lanes.h), each of which
// multiplies in its own way, and transposes TRANSPOSED rows at a time.
#ifndef BERTH_CPU_KERNELS_PRODUCTS_H
#define BERTH_CPU_KERNELS_PRODUCTS_H

#include "cpu/kernels/product.h"
#include "cpu/kernels/product_lanes.h"

static void product_f32(const struct product *p) {
    watch_product(p);
    multiply_f32(p);
}

static void product_bf16(const struct product *p) {
    watch_product(p);
    multiply_bf16(p);
}

// Panels whose columns are rows of x.
static void pack_rows(void *packed, struct mat x, int64_t first, int64_t last) {
    const int64_t steps = product_steps(x.cols, x.dtype), panel = product_panel(x.rows);
    for (int64_t column = first; column < last; column += panel) {
        const int64_t width = lanes_of(piece(column, x.rows, panel));
        uint32_t *to = (uint32_t *)packed + column * steps;
        for (int64_t j = 0; j < width; j += TRANSPOSED) {
            pack_transposed(to + j, width, x, column + j, steps);
        }
    }
}

#endif
