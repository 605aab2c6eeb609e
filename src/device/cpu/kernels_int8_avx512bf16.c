// SPDX-License-Identifier: Apache-2.0
// The kernels of int8 compiled for the instruction set in this file's name (flags in room.cmake),
// and those for AMX, which differ in the products.
#if defined(__x86_64__)
#define INT8_TABLE int8_avx512bf16
#define INT8_NAME "avx512bf16"
#include "device/cpu/kernels/product_int8_tiles.h"

const struct int8_kernels int8_amx = {
    .name = "amx", .quantize = quantize, .product = product_int8_tiles, .peak = peak_int8_tiles};

const struct int8_kernels int8_amx_emulated = {.name = "amx-emulated",
                                               .quantize = quantize,
                                               .product = product_int8_emulated_tiles,
                                               .peak = peak};
#endif
