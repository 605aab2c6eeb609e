// SPDX-License-Identifier: Apache-2.0
// The time that operations of a device take, and the rate at which it reads its memory. `berth
// bench` and bench_operations use it.
#ifndef BERTH_BENCH_TIMING_H
#define BERTH_BENCH_TIMING_H

#include "device/device.h"

#include <time.h>

// The clock for a device with `threads` threads: for a single thread its CPU time, which other
// programs do not disturb; otherwise wall-clock time.
clockid_t bench_clock(const struct device *dev, int threads);

double bench_begin_time(struct device *dev, clockid_t clock);
// Waits for completion. A device's time excludes launching and synchronising by the host.
enum berth_status bench_end_time(struct device *dev, clockid_t clock, double begin, double *seconds,
                                 struct berth_error *error);

// The device's memory read bandwidth in bytes per second, measured for about `seconds`; 0: out of
// memory.
double bench_bandwidth(struct device *dev, clockid_t clock, double seconds);

#endif
