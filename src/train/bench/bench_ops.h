// SPDX-License-Identifier: Apache-2.0
// Measurements of a device's single operations for `berth bench peak|gemm|ops`, through the
// contract of core/device.h alone: they measure and return numbers; printing is the caller's.
#ifndef BERTH_TRAIN_BENCH_OPS_H
#define BERTH_TRAIN_BENCH_OPS_H

#include "core/device.h"

#include <time.h>

// One measured operation: the best of several runs. A floor of its time is
// max(flops / peak, bytes / bandwidth).
struct bench_line {
    const char *name;
    double seconds;
    double flops; // of the matrix products, 0 where there are none
    double bytes; // that must cross the memory bus when nothing is in a cache
};

#define BENCH_LINES 60

struct bench_lines {
    struct bench_line line[BENCH_LINES];
    int count;
};

// What the operations are run at: rows of activations that are sequences of `length` tokens each.
struct bench_geometry {
    int64_t rows, length;
    int64_t hidden, intermediate, heads, vocabulary;
    enum dtype compute;
};

struct bench_timing {
    clockid_t clock;
    int repeats; // runs of each operation
};

// The clock for a device with so many threads: the processor time of the only thread, which other
// programs do not disturb, or the wall clock.
clockid_t bench_clock(const struct device *dev, int threads);

// Bytes per second that the device reads from its memory, over about `seconds`; 0 when memory is
// out.
double bench_bandwidth(struct device *dev, clockid_t clock, double seconds);

// Runs every use of every operation in op_table.h, or of the matrix products only, each once before
// its time is taken. Errors: memory, the device's.
enum berth_status bench_ops(struct device *dev, const struct bench_geometry *geometry,
                            int products_only, struct bench_timing timing,
                            struct bench_lines *lines, struct berth_error *error);

#endif
