// SPDX-License-Identifier: Apache-2.0
// Measurements of the CPU device for `berth bench peak|gemm|ops`: they measure and return numbers;
// printing is the caller's.
#ifndef BERTH_CPU_BENCH_CPU_H
#define BERTH_CPU_BENCH_CPU_H

#include "core/device.h"

// One measured operation: the best of several runs. A floor of its time is
// max(flops / peak, bytes / bandwidth).
struct bench_line {
    char name[64];
    double seconds;
    double flops; // of the matrix products, 0 where there are none
    double bytes; // that must cross the memory bus when nothing is in a cache
};

// What the operations are run at: rows of activations that are sequences of `length` tokens each.
struct bench_geometry {
    int64_t rows, length;
    int64_t hidden, intermediate, heads, vocabulary;
    enum dtype compute;
};

#define BENCH_LINES 40

// FLOP/s of all threads together in multiply-adds of this dtype (f32 or bf16), over about
// `seconds`.
double bench_peak(struct device *dev, enum dtype dtype, double seconds);
// Bytes per second that all threads together read, over about `seconds`; 0 when memory is out.
double bench_bandwidth(struct device *dev, double seconds);
// Runs every operation of the contract `repeats` times, best time each, in the order of a training
// step. *count lines are filled (at most BENCH_LINES).
enum berth_status bench_ops(struct device *dev, const struct bench_geometry *geometry, int repeats,
                            struct bench_line lines[BENCH_LINES], int *count,
                            struct berth_error *error);
// As bench_ops, only the matrix products.
enum berth_status bench_gemm(struct device *dev, const struct bench_geometry *geometry, int repeats,
                             struct bench_line lines[BENCH_LINES], int *count,
                             struct berth_error *error);

#endif
