// SPDX-License-Identifier: Apache-2.0
// A product by oneDNN on plain strided operands, to compare Berth's with. This header hides oneDNN.
// program.c alone calls it.
#ifndef BERTH_BENCH_YARDSTICK_H
#define BERTH_BENCH_YARDSTICK_H

#include "device/cpu/gemm.h"

struct yardstick;

// The product of a shape, for the calling thread; NULL if oneDNN refuses it. The caller frees it.
struct yardstick *yardstick_new(const struct gemm_shape *shape);
void yardstick_free(struct yardstick *product);
// b is as it is in memory; there is no epilogue.
void yardstick_run(const struct yardstick *product, const struct gemm_operands *operands);
// Which kernel oneDNN chose.
const char *yardstick_kernel(const struct yardstick *product);
// Its name and version.
const char *yardstick_version(void);

#endif
