// SPDX-License-Identifier: Apache-2.0
// The time of operations: on the host until the device's status reports completion, on other
// devices by their marks. `berth bench` and bench_operations measure with it; what is measured is
// theirs.
#include "bench/timing.h"

#include "core/clock.h"
#include "core/error.h"

clockid_t bench_clock(const struct device *dev, int threads) {
    return dev->is_host && threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
}

double bench_begin_time(struct device *dev, clockid_t clock) {
    if (!dev->is_host) {
        dev->mark(dev, DEVICE_PHASE_FORWARD);
    }
    return clock_seconds(clock);
}

enum berth_status bench_end_time(struct device *dev, clockid_t clock, double begin, double *seconds,
                                 struct berth_error *error) {
    double phases[DEVICE_PHASES];
    if (dev->is_host) {
        TRY(dev->status(dev, error));
        *seconds = clock_seconds(clock) - begin;
        return BERTH_OK;
    }
    dev->mark(dev, DEVICE_PHASE_OTHER);
    TRY(dev->status(dev, error));
    dev->times(dev, phases);
    *seconds = phases[DEVICE_PHASE_FORWARD];
    return BERTH_OK;
}

double bench_bandwidth(struct device *dev, clockid_t clock, double seconds) {
    const int64_t count = (int64_t)64 << 20;
    const size_t bytes = (size_t)count * sizeof(float);
    const struct device_range all = {.count = count};
    const size_t sums_bytes = (size_t)count / DEVICE_SUM_BLOCK * sizeof(double);
    const size_t whole = bytes + sums_bytes + sizeof all;
    char *block = dev->memory_new(dev, whole);
    if (block == NULL) {
        return 0;
    }
    double *sums = (double *)(void *)(block + bytes);
    struct device_range *range = (struct device_range *)(void *)(block + bytes + sums_bytes);
    dev->zero(dev, block, bytes);
    dev->upload(dev, range, &all, sizeof all);
    double best = 0, started = clock_seconds(clock);
    do {
        double taken = 0;
        const double begin = bench_begin_time(dev, clock);
        dev->squares(dev, sums, (const float *)(void *)block, range, 1);
        (void)bench_end_time(dev, clock, begin, &taken, NULL);
        const double rate = taken > 0 ? (double)bytes / taken : 0;
        best = rate > best ? rate : best;
    } while (clock_seconds(clock) - started < seconds);
    dev->memory_free(dev, block, whole);
    return best;
}
