// SPDX-License-Identifier: Apache-2.0
// Measures a device's single operations, through the interface of device/device.h only, so that
// every device is measured alike. The program bench_operations prints what it returns; whole steps
// are measured by bench.h.
#ifndef BERTH_BENCH_OPS_H
#define BERTH_BENCH_OPS_H

#include "device/device.h"

#include <time.h>

// One measured operation: the best of several runs. max(flops / peak, bytes / bandwidth) is a lower
// bound for its time.
struct bench_line {
    const char *name;
    double seconds;
    double flops;        // of its matrix products; 0 if it has none
    double bytes;        // memory traffic without caches
    enum dtype products; // dtype of their operands
};

#define BENCH_LINES 70

struct bench_lines {
    struct bench_line line[BENCH_LINES];
    int count;
};

// The shapes of the operations: activations whose rows are sequences of `length` tokens each.
struct bench_geometry {
    int64_t rows, length;
    int64_t hidden, intermediate, heads, vocabulary;
    enum dtype compute;
};

struct bench_timing {
    clockid_t clock; // for operations on the host
    int repeats;     // runs of each operation
};

// Which operations are measured.
struct bench_choice {
    int products_only; // those that are matrix products
    const char *only;  // those whose name contains this; NULL: all
};

// Measures every chosen use of every operation in op_table.h that the device supports, each after
// one untimed run. BERTH_USAGE if nothing is chosen.
enum berth_status bench_ops(struct device *dev, const struct bench_geometry *geometry,
                            struct bench_choice choice, struct bench_timing timing,
                            struct bench_lines *lines, struct berth_error *error);

#endif
