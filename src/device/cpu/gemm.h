// SPDX-License-Identifier: Apache-2.0
// Matrix products: c[m, n] = op(a)[m, k] * op(b)[k, n] (+ bias) (+ c), row-major with free
// strides, in f32 or in bf16 with f32 accumulation. One product runs on one thread; the operations
// split their work into tiles at fixed points and run the tiles in parallel, so that results do not
// depend on the number of threads.
//
// Berth's kernels multiply every shape. If the processor multiplies bf16 natively they use that;
// otherwise the halves of words are multiplied as f32.
#ifndef BERTH_CPU_GEMM_H
#define BERTH_CPU_GEMM_H

#include "device/cpu/kernels.h"

struct gemm;

// With at most so many rows of c, packing b can take longer than the product.
enum { GEMM_FEW_ROWS = 16 };

struct gemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc; // row strides of a, b, c in memory
    enum dtype type;       // of a and b
    enum dtype c_type;
    int a_transposed; // a is stored as [k, m]
    int b_transposed; // b is stored as [n, k]
    int b_in_place;   // b is not packed (gemm_reads_in_place)
    int accumulate;   // add to c (f32)
    int bias;         // f32 [n] is given, or
    int row_bias;     // [m]
};

// The memory of one run.
struct gemm_operands {
    const void *a;
    const void *b; // packed by gemm_pack, or in place
    void *c;
    const float *bias; // if the shape has one
    struct product_epilogue epilogue;
};

// The caller closes it.
enum berth_status gemm_open(int threads, const struct kernels *kernels, struct gemm **gemm,
                            struct berth_error *error);
void gemm_close(struct gemm *gemm);
// Gives every thread `bytes` of scratch memory.
enum berth_status gemm_reserve(struct gemm *gemm, size_t bytes, struct berth_error *error);
// The scratch memory that a product needs on its thread. With fewer rows of c it needs no more.
size_t gemm_scratch_bytes(const struct gemm *gemm, const struct gemm_shape *shape);

// Whether b can be read where it is, by a product with few rows.
int gemm_reads_in_place(const struct gemm_shape *shape);
// Whether a b [k, n] that is stored transposed can be packed in its own memory.
int gemm_packs(const struct gemm_shape *shape);
// Bytes of b in the kernels' layout.
size_t gemm_pack_bytes(const struct gemm_shape *shape);
// Copies b into this layout, on all threads; call it outside parallel regions. The result serves
// products with any number of rows.
void gemm_pack(struct gemm *gemm, const struct gemm_shape *shape, const void *b, void *packed);
// Multiplies on thread `thread`, which has the scratch memory.
void gemm_run(struct gemm *gemm, const struct gemm_shape *shape, int thread,
              const struct gemm_operands *operands);
// The same for the columns [first, last) of c only. Both are multiples of gemm_column_block, or
// last is the number of columns.
void gemm_run_columns(struct gemm *gemm, const struct gemm_shape *shape, int thread,
                      const struct gemm_operands *operands, int64_t first, int64_t last);
// The number of columns by which a product can be divided; all columns if it cannot.
int64_t gemm_column_block(const struct gemm_shape *shape);

#endif
