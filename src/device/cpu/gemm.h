// SPDX-License-Identifier: Apache-2.0
// Matrix products: c[m, n] = op(a)[m, k] * op(b)[k, n] (+ bias[n]) (+ c), row-major with free
// strides, in f32 or in bf16 with f32 accumulation. One product runs on one thread; the operations
// split their work into tiles at fixed points and run the tiles in parallel, so that results do not
// depend on the number of threads.
//
// A plan is a product of one shape, prepared once and kept in a bounded cache. Berth's kernels
// compute the products; with AVX-512, oneDNN computes those that are too small to fill a block of a
// kernel. If the processor multiplies bf16 natively (AVX-512 BF16), both use that; otherwise
// operands are converted to f32 first.
#ifndef BERTH_CPU_GEMM_H
#define BERTH_CPU_GEMM_H

#include "device/cpu/kernels.h"

struct gemm;
struct gemm_plan;

struct gemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc; // row strides of a, b, c in memory
    enum dtype type;       // of a and b
    enum dtype c_type;
    int a_transposed; // a is stored as [k, m]
    int b_transposed; // b is stored as [n, k]
    int accumulate;   // add to c (f32)
    int bias;         // f32 [n] follows
    int pack_a;       // a transposed a is first copied to the thread's scratch memory
    int packed;       // a kernel multiplies whatever the number of rows; requires gemm_packs
};

// The memory of one run.
struct gemm_operands {
    const void *a;
    const void *b; // as it is, or packed by gemm_pack if the plan has gemm_pack_bytes
    void *c;
    const float *bias; // if the shape has one
    struct product_epilogue epilogue;
};

// `native_bf16`: multiply bf16 without conversion. The caller closes it.
enum berth_status gemm_open(int threads, int native_bf16, const struct kernels *kernels,
                            struct gemm **gemm, struct berth_error *error);
void gemm_close(struct gemm *gemm);
// Gives every thread `bytes` of scratch for conversions and the library's own needs.
enum berth_status gemm_reserve(struct gemm *gemm, size_t bytes, struct berth_error *error);

// Frees all cached plans when `wanted` more would exceed the limit. Call it at the start of an
// operation: the plans it gets afterwards stay valid until its end.
void gemm_trim(struct gemm *gemm, int wanted);
// The plan for a shape, from the cache or new; NULL and an error if the library refuses it. Not
// thread-safe.
const struct gemm_plan *gemm_plan(struct gemm *gemm, const struct gemm_shape *shape,
                                  struct berth_error *error);
// Whether a b [k, n] that is stored transposed can be packed in its own memory, for products with
// any number of rows.
int gemm_packs(const struct gemm *gemm, const struct gemm_shape *shape);
// Bytes of b in the kernels' layout; 0: the plan uses b as it is in memory.
size_t gemm_pack_bytes(const struct gemm_plan *plan);
// Copies b into the plan's layout, on all threads; call it outside parallel regions. gemm_run then
// takes `packed` for b.
void gemm_pack(struct gemm *gemm, const struct gemm_plan *plan, const void *b, void *packed);
// The maximum heap memory of a library product in f32 with a transposed a and `columns` columns of
// c: it copies its operands to the heap, not to the scratchpad, and frees them at its end.
size_t gemm_heap_bytes(int64_t columns);
// Runs a plan on thread `thread`. 0, or the library's error.
int gemm_run(struct gemm *gemm, const struct gemm_plan *plan, int thread,
             const struct gemm_operands *operands);
// The same for the columns [first, last) of c only. Both are multiples of gemm_column_block, or
// last is the number of columns.
int gemm_run_columns(struct gemm *gemm, const struct gemm_plan *plan, int thread,
                     const struct gemm_operands *operands, int64_t first, int64_t last);
// The number of columns by which a plan can be divided; all columns if it cannot.
int64_t gemm_column_block(const struct gemm_plan *plan);
// Which kernel runs the plan.
const char *gemm_plan_name(const struct gemm_plan *plan);
// The library's name and version.
const char *gemm_library(void);

#endif
