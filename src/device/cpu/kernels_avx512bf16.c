// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for the instruction set in this file's name (flags in room.cmake), and those
// for AMX, which differ in the products of bf16.
#if defined(__x86_64__)
#define KERNELS_TABLE kernels_avx512bf16
#define KERNELS_NAME "avx512bf16"
#include "device/cpu/kernels/product_tiles.h"
#include "device/cpu/kernels/table.h"

const struct kernels kernels_amx = {
    .name = "amx",
    KERNELS_SHARED,
    .pack_columns = pack_columns_of_tiles,
    .pack_rows = pack_rows_of_tiles,
    .pack_strips = pack_tiles,
    .strips_are_tiles = 1,
    .native_bf16 = 1,
    .product_bf16 = product_bf16_tiles,
    .peak_bf16 = peak_bf16_tiles,
};

const struct kernels kernels_amx_emulated = {
    .name = "amx-emulated",
    KERNELS_SHARED,
    .pack_columns = pack_columns_of_tiles,
    .pack_rows = pack_rows_of_tiles,
    .pack_strips = pack_tiles,
    .strips_are_tiles = 1,
    .native_bf16 = 1,
    .product_bf16 = product_bf16_emulated_tiles,
    .peak_bf16 = peak_bf16_emulated_tiles,
};
#endif
