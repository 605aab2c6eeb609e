// SPDX-License-Identifier: Apache-2.0
// Int8 products of activations, quantized to bytes row by row, with packed weights. There is one
// table of kernels per instruction set; all of them compute the same integers.
//
// A row x[k] is scale * (u[k] - zero), u from 0 to 255. Some columns are wide: their values are
// much larger than the others. Each is divided among INT8_COPIES columns with the same weights, so
// that the other columns keep their precision. Weights have a scale for each group of columns
// (core/int8.h), so the depth of a product is divided likewise: each group's columns, then the
// additional copies of its wide ones, then zeros up to a whole step.
//
// Packed weights are panels of INT8_PANEL outputs. Each step of a panel holds INT8_STEP consecutive
// elements of the depth for every output. Scales are in panels as well, those of a group adjacent.
#ifndef BERTH_CPU_INT8_H
#define BERTH_CPU_INT8_H

#include "device/cpu/kernels.h"

#define INT8_PANEL 48
#define INT8_STEP 4
#define INT8_ROWS 8       // rows of a block of sums
#define INT8_ROWS_UNIT 16 // rows that a product may read together
#define INT8_COPIES 4     // of a wide column

// The depth of rows and panels in memory; it does not depend on which columns are wide.
static inline int64_t int8_depth(int64_t columns, int64_t wide_count) {
    return cpu_round_up(columns, INT8_STEP) + wide_count * cpu_round_up(INT8_COPIES - 1, INT8_STEP);
}

// How the depth is divided.
struct int8_layout {
    int64_t columns, groups;
    const int32_t *ends; // [groups] end of each in the depth
    const int32_t *wide; // [wide_count] columns, ascending
    int64_t wide_count;
};

// Quantized rows.
struct int8_rows {
    unsigned char *values; // [count][depth], and memory up to a multiple of INT8_ROWS_UNIT rows
    float *scales;         // [count]
    int32_t *zeros;        // [count]
    float *buffer;         // [columns] scratch memory
    int64_t count, depth;
};

// c[m, n] = f(a[m, k] b[n, k]^T (+ bias[n])) for the outputs of some whole panels.
struct int8_product {
    struct mat c;                  // f32 or bf16
    const struct kernels *kernels; // which have f; NULL: none
    enum activation activation;    // f
    const struct int8_rows *a;
    const struct int8_layout *layout;
    const signed char *panels;
    const float *scales; // of the panels
    const float *sums;   // [n] of b's rows, over the whole depth
    const float *bias;   // [n]; NULL: none
};

struct int8_kernels {
    const char *name;
    // Quantizes the rows of x, f32 or bf16. A row with a number that is not finite gets the scale
    // NaN.
    void (*quantize)(const struct int8_rows *rows, struct mat x, const struct int8_layout *layout);
    void (*product)(const struct int8_product *product);
    // As struct kernels' peak_f32.
    double (*peak)(int64_t rounds);
};

extern const struct int8_kernels int8_generic;
#if defined(__x86_64__)
extern const struct int8_kernels int8_avx2;
extern const struct int8_kernels int8_avxvnni;
extern const struct int8_kernels int8_avx512vnni;
extern const struct int8_kernels int8_avx512bf16;
extern const struct int8_kernels int8_amx;
extern const struct int8_kernels int8_amx_emulated;
#elif defined(__aarch64__)
extern const struct int8_kernels int8_dotprod;
#endif

// The fastest table that this processor supports and whose vectors are no wider than those of
// `instructions`, the name of a table of kernels.h.
const struct int8_kernels *int8_kernels_choose(const char *instructions);
// Lists the tables that this processor supports, fastest first, at most `limit`. Returns their
// number.
size_t int8_kernels_all(const struct int8_kernels **tables, size_t limit);

#endif
