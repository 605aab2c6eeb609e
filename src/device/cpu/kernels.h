// SPDX-License-Identifier: Apache-2.0
// The kernels of the CPU device: one table of functions per instruction set. Their source is
// src/device/cpu/kernels/; kernels_*.c compile it once per instruction set. They work on the given
// rows, on the calling thread, and allocate nothing.
#ifndef BERTH_CPU_KERNELS_H
#define BERTH_CPU_KERNELS_H

#include "device/device.h"

// Columns are processed in chunks of this size, which one draw of 16 Philox blocks covers.
#define KERNEL_COLUMNS 128

// Rows and columns of the blocks of a product whose sums stay in registers.
#define PRODUCT_ROWS 8
#define PRODUCT_COLUMNS 48
#define PRODUCT_TILE_ROWS 32 // the same in tiles

static inline int64_t cpu_round_up(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

// Columns of a panel of b, which has n columns: two equal panels where the second would be narrow.
static inline int64_t product_panel(int64_t n) {
    return n > PRODUCT_COLUMNS && n <= 64 ? 32 : PRODUCT_COLUMNS;
}

// Panels that are packed together, so that each cache line is read once.
#define PACKED_PANELS 2

// The number of words of a depth: each is one f32 or two bf16.
static inline int64_t product_steps(int64_t depth, enum dtype dtype) {
    return dtype == DTYPE_F32 ? depth : (depth + 1) / 2;
}

// The epilogue of a product: what is done with each block of c while it is in the L1 cache: y =
// f(c), or c *= f'(u), f the activation. The matrices have the shape and dtype of c.
struct product_epilogue {
    enum activation activation;
    struct mat y; // may be c; empty: none
    struct mat u; // empty: none
    float *sums;  // [n], with u: the column sums of the new c are added to it
};

// The epilogue of the columns [first, first + count) of c.
static inline struct product_epilogue product_epilogue_columns(struct product_epilogue epilogue,
                                                               int64_t first, int64_t count) {
    epilogue.y = mat_is_empty(epilogue.y) ? epilogue.y : mat_columns(epilogue.y, first, count);
    epilogue.u = mat_is_empty(epilogue.u) ? epilogue.u : mat_columns(epilogue.u, first, count);
    epilogue.sums = epilogue.sums == NULL ? NULL : epilogue.sums + first;
    return epilogue;
}

// The epilogue of the rows [first, first + count) of c.
static inline struct product_epilogue product_epilogue_rows(struct product_epilogue epilogue,
                                                            int64_t first, int64_t count) {
    epilogue.y = mat_is_empty(epilogue.y) ? epilogue.y : mat_rows(epilogue.y, first, count);
    epilogue.u = mat_is_empty(epilogue.u) ? epilogue.u : mat_rows(epilogue.u, first, count);
    return epilogue;
}

// Rows that will be read soon but that the hardware prefetcher cannot predict, because they are far
// apart. A product now and then prefetches the next row of each matrix.
struct prefetch_queue {
    int parts;
    const char *row[4]; // the next row of each matrix
    int64_t stride[4];  // bytes from one row to the next
    int64_t bytes;      // of a row
    int64_t left;       // rows
};

// c[m, n] = a[m, k] b[k, n] (+ bias[n] or row_bias[m]) (+ c). A word is one f32, or two bf16
// neighbours of the depth k; a step is one word of the depth.
struct product {
    struct mat c;        // f32, or bf16 without accumulate
    int64_t depth;       // steps of a and b
    int64_t first, last; // multiply only the steps [first, last)
    const void *a;       // its words from step `first` on, in strips of PRODUCT_ROWS rows
    int64_t a_strip;     // bytes from one strip to the next,
    int64_t a_row;       // from one row of a strip to the next,
    int64_t a_step;      // from one step to the next
    int a_is_tiles;      // 1: a is in tiles (product_of_strips)
    const void *b;       // packed, or
    int64_t b_stride;    // not 0: f32 [k, n] as it is in memory, of this stride; n is whole vectors
    int64_t panel;       // columns of its panels
    const float *bias;   // [n]; NULL: none
    const float *row_bias; // [m], in place of bias; NULL: none
    const float *factors;  // [m], of the rows of a b, not with a bias; NULL: none
    int accumulate;
    int operands_cached;               // 1: a and b are in the L2 cache and need no prefetching
    int result_cached;                 // 1: so is c
    struct prefetch_queue *prefetches; // NULL: none
    struct product_epilogue epilogue;
};

#define PRODUCT_WORD_BYTES 4

// The words of b from column `column` on, the first of a panel of `width` columns, and the words
// from one step to the next.
static inline const uint32_t *product_panel_of(const struct product *p, int64_t column) {
    return (const uint32_t *)p->b + (p->b_stride > 0 ? column : column * p->depth);
}

static inline int64_t product_panel_step(const struct product *p, int64_t width) {
    return p->b_stride > 0 ? p->b_stride : width;
}

// c = a b with all steps, a as it is in memory.
static inline struct product product_of_rows(struct mat c, struct mat a, const void *b,
                                             int64_t steps) {
    const int64_t row = a.stride * (int64_t)dtype_size(a.dtype);
    return (struct product){.c = c,
                            .depth = steps,
                            .last = steps,
                            .a = a.data,
                            .a_strip = PRODUCT_ROWS * row,
                            .a_row = row,
                            .a_step = PRODUCT_WORD_BYTES,
                            .b = b,
                            .panel = product_panel(c.cols)};
}

// Words of a panel of tiles for a depth of k bf16: 16 rows, and steps rounded up to whole tiles.
static inline int64_t product_tile_words(int64_t k) {
    return 16 * cpu_round_up(product_steps(k, DTYPE_BF16), 16);
}

// c = a b with all steps, a packed in strips, or in tiles (kernels_strips_are_tiles).
static inline struct product product_of_strips(struct mat c, const void *strips, const void *b,
                                               int64_t steps, int are_tiles) {
    struct product product = {.c = c,
                              .depth = steps,
                              .last = steps,
                              .a = strips,
                              .a_strip = PRODUCT_ROWS * steps * PRODUCT_WORD_BYTES,
                              .a_row = PRODUCT_WORD_BYTES,
                              .a_step = PRODUCT_ROWS * PRODUCT_WORD_BYTES,
                              .b = b,
                              .panel = product_panel(c.cols)};
    if (are_tiles) {
        product.a_is_tiles = 1;
        product.a_strip = PRODUCT_ROWS * cpu_round_up(steps, 16) * PRODUCT_WORD_BYTES;
        product.a_row = product.a_step = 16 * PRODUCT_WORD_BYTES;
    }
    return product;
}

// Some query rows of one head of one sequence, as the attention kernels see them.
struct attention_rows {
    int64_t length; // L, the columns
    int64_t stride; // row stride of the matrices: L rounded up to 16
    int64_t first;  // the sequence's row that is row 0 of the matrices and vectors
    int64_t count;
    float scale; // 1 / sqrt(D)
    uint32_t head;
    int64_t global_index; // keys the dropout
    const struct dropout *dropout;
    float keep_scale;    // factor of kept elements; 1 without dropout
    uint16_t *masks;     // row by row, as in device/device.h; NULL: no dropout
    int64_t mask_stride; // words
    enum dtype dtype;    // of the probabilities written
};

// A range of the flat buffers, as the optimizer's kernels see it.
struct adamw_range {
    float *parameters, *gradients, *first_moment, *second_moment; // of the range's first element
    struct mat compute;                                           // [1, count]; empty: none
    double weight_decay;
    const struct adamw_args *args;
};

struct kernels {
    const char *name;
    int fused; // 1: multiply-adds are rounded once, and f32 has the bits that all such tables give

    // Rows [first, last) of the device operations of the same name. `partial` gets the partial sums
    // of the gradients of parameters over those rows:
    // [2][H] dgamma, dbeta for embed and a norm without dx, [3][H] dgamma, dbeta, dbias for norm.
    void (*embed_forward)(const struct embed_args *args, const struct batch *batch, int64_t first,
                          int64_t last);
    void (*embed_backward)(const struct embed_grad_args *args, const struct batch *batch,
                           int64_t first, int64_t last, float *partial);
    void (*norm_forward)(const struct norm_args *args, const struct batch *batch, int64_t first,
                         int64_t last);
    void (*norm_backward)(const struct norm_grad_args *args, const struct batch *batch,
                          int64_t first, int64_t last, float *partial);
    // y = dropout(x): one row [1, H] f32, masked as the token at `position` of sequence
    // `global_index`. y may be the memory of x.
    void (*drop_row)(struct mat y, struct mat x, const struct dropout *dropout,
                     int64_t global_index, int32_t position);
    // table[index[r]] += x[r] for every row of x in order; rows with a negative index are skipped.
    void (*scatter_add)(struct mat table, struct mat x, const int32_t *index);

    // y = f(u), f the activation; y may be the memory of u.
    void (*activation_forward)(struct mat y, struct mat u, enum activation activation);
    // du *= f'(u); sums[c] = column sums of the result.
    void (*activation_backward)(struct mat du, struct mat u, enum activation activation,
                                float *sums);
    // x[i] = f(x[i]); count is a multiple of 16.
    void (*activate)(float *x, int64_t count, enum activation activation);
    // sums[c] = sum over the rows of x.
    void (*column_sums)(struct mat x, float *sums);
    // total[i] += x[i]
    void (*add)(float *total, const float *x, int64_t count);

    // Draws the masks of the rows.
    void (*attention_masks)(const struct attention_rows *rows);
    // Both softmax kernels overwrite scores and dprobabilities. Inputs need not be set past the
    // length; outputs past the length are finite.
    // dropout(softmax(scale * scores)) for the query rows equals weights (at most 1) times the
    // factor of each row. lse[row * lse_stride] becomes the log-sum-exp (NULL: not wanted).
    void (*softmax_forward)(const struct attention_rows *rows, void *weights, float *factors,
                            float *scores, float *lse, int64_t lse_stride);
    // P = exp(scale * scores - lse); probabilities = dropout(P); dP = dropout'(dprobabilities);
    // dscores = scale * P * (dP - the row's sum of P * dP).
    void (*softmax_backward)(const struct attention_rows *rows, void *probabilities, void *dscores,
                             float *scores, float *dprobabilities, const float *lse,
                             int64_t lse_stride);

    // -log softmax(logits[row])[label]; dlogits[row] = scale * its gradient, where dlogits is not
    // empty. As device.h's class_loss.
    double (*cross_entropy)(struct mat dlogits, struct mat logits, int64_t row, int32_t label,
                            float scale);

    // to = from, converted; shapes equal.
    void (*copy)(struct mat to, struct mat from);
    double (*sum_squares)(const float *x, int64_t count);
    // Elements [first, last) of a range of the optimizer's update; `factor` multiplies the
    // gradients.
    void (*adamw)(const struct adamw_range *range, double factor, int64_t first, int64_t last);
    // The two passes of a layer-wise update over elements [first, last): first the new moments and
    // the sums of squares of the parameters and of their updates u; then p -= rate * u.
    void (*lamb_moments)(const struct adamw_range *range, double factor, int64_t first,
                         int64_t last, double squares[2]);
    void (*lamb_apply)(const struct adamw_range *range, double rate, int64_t first, int64_t last);

    // Products. A packed operand has k words for each of its columns or rows, whose number is
    // rounded up to 16. What a last word of bf16 lacks is zero, also in an operand that is not
    // packed.
    void (*product_f32)(const struct product *product);
    void (*product_bf16)(const struct product *product);
    int native_bf16; // 1: the processor multiplies bf16
    // Panels of the columns [first, last) of x [k, n]; first is a multiple of PRODUCT_COLUMNS, as
    // is last unless it is n. The layout is that of the same table's products.
    void (*pack_columns)(void *packed, struct mat x, int64_t first, int64_t last);
    // The same of x [n, k], whose rows are the columns of b.
    void (*pack_rows)(void *packed, struct mat x, int64_t first, int64_t last);
    // Strips of a, which is transposed: x has its columns from `first` on, of k. `first` is a
    // multiple of 32.
    void (*pack_strips)(void *packed, struct mat x, int64_t first, int64_t k);
    int strips_are_tiles; // in bf16: tiles of 16 rows and 16 words, to which a is padded

    // Runs `rounds` rounds of multiply-adds in registers; returns the number of floating-point
    // operations.
    double (*peak_f32)(int64_t rounds);
    double (*peak_bf16)(int64_t rounds);
};

extern const struct kernels kernels_generic;
#if defined(__x86_64__)
extern const struct kernels kernels_fma; // the generic source with fused multiply-adds
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
extern const struct kernels kernels_avx512bf16;
extern const struct kernels kernels_amx;
extern const struct kernels kernels_amx_emulated; // computes the same on a processor without AMX
#elif defined(__aarch64__)
extern const struct kernels kernels_neonbf16;
#endif

// Whether what pack_strips writes is tiles.
static inline int kernels_strips_are_tiles(const struct kernels *kernels, enum dtype dtype) {
    return kernels->strips_are_tiles && dtype == DTYPE_BF16;
}

// The table for `instructions` (NULL or "auto": the best that this processor supports); NULL and an
// error if the name is unknown or the processor does not support it.
const struct kernels *kernels_choose(const char *instructions, struct berth_error *error);

#endif
