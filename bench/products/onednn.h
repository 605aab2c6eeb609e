// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN, only for gemm.c, whose rules apply. This header hides the library.
#ifndef BERTH_CPU_GEMM_LIBRARY_H
#define BERTH_CPU_GEMM_LIBRARY_H

#include "device/cpu/gemm.h"

struct library;
struct library_product;

enum berth_status library_open(int threads, int native_bf16, const struct kernels *kernels,
                               struct library **library, struct berth_error *error);
void library_close(struct library *library);
const char *library_name(void);

// A product of one shape; the caller frees it with the same number of threads. BERTH_NO_MEMORY, or
// BERTH_INTERNAL when the library refuses it.
enum berth_status library_product_new(struct library *library, const struct gemm_shape *shape,
                                      struct library_product **result, struct berth_error *error);
void library_product_free(struct library_product *product, int threads);
// Which kernel the library chose.
const char *library_product_name(const struct library_product *product);
size_t library_scratch_bytes(const struct library_product *product);
size_t library_heap_bytes(int64_t columns);
// 0, or the library's error.
int library_run(struct library *library, const struct library_product *product, int thread,
                const struct gemm_operands *operands, void *scratch);

#endif
