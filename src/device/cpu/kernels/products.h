// SPDX-License-Identifier: Apache-2.0
// The functions of struct kernels that multiply matrices, by whichever of product.h and
// product_lanes.h is compiled: the former with AVX-512, the latter with every other instruction
// set.
#ifndef BERTH_CPU_KERNELS_PRODUCTS_H
#define BERTH_CPU_KERNELS_PRODUCTS_H

#include "device/cpu/kernels/product.h"
#include "device/cpu/kernels/product_lanes.h"

static void product_f32(const struct product *p) {
    check_product_memory(p);
    multiply_f32(p);
}

static void product_bf16(const struct product *p) {
    check_product_memory(p);
    multiply_bf16(p);
}

#endif
