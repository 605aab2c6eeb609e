// SPDX-License-Identifier: Apache-2.0
// The panels of rows, for either kind of products (product.h, product_lanes.h), each of which
// transposes TRANSPOSED rows at a time in its own way.
#ifndef BERTH_CPU_KERNELS_PRODUCT_PACK_H
#define BERTH_CPU_KERNELS_PRODUCT_PACK_H

#include "cpu/kernels/product.h"
#include "cpu/kernels/product_lanes.h"

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
