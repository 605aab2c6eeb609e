// SPDX-License-Identifier: Apache-2.0
// Matrix products: c[m, n] = op(a)[m, k] * op(b)[k, n] (+ bias[n]) (+ c), row-major with free
// strides, in f32 or in bf16 with f32 accumulation. One product runs on one thread; the operations
// cut their work into tiles at fixed places and run the tiles in parallel, so that results do not
// depend on the number of threads.
//
// A plan is a product of one shape, made ready once and kept in a bounded cache. Where the
// processor multiplies bf16 natively (AVX-512 BF16) the library does it; elsewhere the operands are
// converted to f32 and multiplied there.
#ifndef BERTH_CPU_GEMM_H
#define BERTH_CPU_GEMM_H

#include "core/device.h"

struct kernels;
struct gemm;
struct gemm_plan;

struct gemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc; // row strides of a, b, c as they lie in memory
    enum dtype type;       // of a and b
    enum dtype c_type;
    int a_transposed; // a lies as [k, m]
    int b_transposed; // b lies as [n, k]
    int accumulate;   // add to c (f32)
    int bias;         // f32 [n] follows
    int pack_a;       // a transposed a is laid out on the thread's scratch first
    int pack_b;       // the library may ask for b in a layout of its own, see gemm_pack
};

// `native_bf16`: multiply bf16 as it is. The caller closes it.
enum berth_status gemm_open(int threads, int native_bf16, const struct kernels *kernels,
                            struct gemm **gemm, struct berth_error *error);
void gemm_close(struct gemm *gemm);
// Gives every thread `bytes` of scratch for conversions and the library's own needs.
enum berth_status gemm_reserve(struct gemm *gemm, size_t bytes, struct berth_error *error);

// Forgets the cached plans when there are so many that `wanted` more would exceed the bound. To be
// called at the start of an operation: plans that it gets afterwards stay valid until its end.
void gemm_trim(struct gemm *gemm, int wanted);
// The plan for a shape, from the cache or new; NULL and an error when the library refuses. Not to
// be called by two threads at a time.
const struct gemm_plan *gemm_plan(struct gemm *gemm, const struct gemm_shape *shape,
                                  struct berth_error *error);
// Bytes of b in the layout that the plan wants; 0: it takes b as it lies in memory. Plans whose
// shapes differ in m alone want the same layout, or none.
size_t gemm_pack_bytes(const struct gemm_plan *plan);
// Lays b out for the plan, on all threads; to be called outside of parallel regions. gemm_run then
// takes `packed` for b. 0, or the library's error.
int gemm_pack(struct gemm *gemm, const struct gemm_plan *plan, const void *b, void *packed);
// What a product of f32 with a transposed a takes from the heap at most, and gives back: the
// library's own copies of its operands, for which it knows no user's scratchpad. `columns` of c.
size_t gemm_heap_bytes(int64_t columns);
// Bytes of per-thread scratch that a plan uses.
size_t gemm_plan_scratch(const struct gemm_plan *plan);
// Runs a plan on thread number `thread`. 0, or the library's error.
int gemm_run(struct gemm *gemm, const struct gemm_plan *plan, int thread, const void *a,
             const void *b, void *c, const float *bias);
// Which kernel the library chose.
const char *gemm_plan_name(const struct gemm_plan *plan);
// The library's name and version.
const char *gemm_library(void);

#endif
