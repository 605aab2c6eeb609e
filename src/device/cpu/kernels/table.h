// SPDX-License-Identifier: Apache-2.0
// Puts all kernels of one instruction set into its table (struct kernels): included by kernels_*.c,
// which name the table and are compiled with the flags of their set. kernels_choose.c takes one of
// the tables when the device is opened.
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/activations.h"
#include "device/cpu/kernels/cross_entropy.h"
#include "device/cpu/kernels/norm.h"
#include "device/cpu/kernels/optimizer.h"
#include "device/cpu/kernels/peak.h"
#include "device/cpu/kernels/products.h"
#include "device/cpu/kernels/softmax.h"

// clang-format off
#define KERNELS_SHARED                                                                             \
    .fused = KERNELS_FUSE,                                                                         \
    .embed_forward = embed_forward,                                                                \
    .embed_backward = embed_backward,                                                              \
    .norm_forward = norm_forward,                                                                  \
    .norm_backward = norm_backward,                                                                \
    .drop_row = drop_row,                                                                          \
    .scatter_add = scatter_add,                                                                    \
    .activation_forward = activation_forward,                                                      \
    .activation_backward = activation_backward,                                                    \
    .activate = activate,                                                                          \
    .column_sums = column_sums,                                                                    \
    .add = add,                                                                                    \
    .attention_masks = attention_masks,                                                            \
    .softmax_forward = softmax_forward,                                                            \
    .softmax_backward = softmax_backward,                                                          \
    .cross_entropy = cross_entropy,                                                                \
    .copy = copy,                                                                                  \
    .sum_squares = sum_squares,                                                                    \
    .adamw = adamw,                                                                                \
    .lamb_moments = lamb_moments,                                                                  \
    .lamb_apply = lamb_apply,                                                                      \
    .product_f32 = product_f32,                                                                    \
    .peak_f32 = peak_f32
// clang-format on

const struct kernels KERNELS_TABLE = {
    .name = KERNELS_NAME,
    KERNELS_SHARED,
    .pack_columns = pack_columns,
    .pack_rows = pack_rows,
    .pack_strips = pack_strips,
    .product_bf16 = product_bf16,
#if defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    .native_bf16 = 1,
#endif
    .peak_bf16 = peak_bf16,
};
