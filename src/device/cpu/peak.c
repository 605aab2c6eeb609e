// SPDX-License-Identifier: Apache-2.0
// Measures the peak rate of multiply-adds. The clock is each thread's processor time, which other
// programs hardly disturb.
#include "core/clock.h"
#include "device/cpu/cpu.h"

double cpu_measure_peak(struct device *dev, enum dtype dtype, double seconds) {
    struct cpu *cpu = cpu_of(dev);
    double (*loop)(int64_t) = dtype == DTYPE_F32  ? cpu->kernels->peak_f32
                              : dtype == DTYPE_I8 ? cpu->int8->peak
                                                  : cpu->kernels->peak_bf16;
    const int64_t rounds = 100000;
    // Threads that share a processor take turns.
    const int at_once = cpu->threads < cpu->processors ? cpu->threads : cpu->processors;
    double best = 0, started = clock_now();
    do {
        double rate = 0;
#pragma omp parallel num_threads(cpu->threads) reduction(+ : rate)
        {
            const double before = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
            const double flops = loop(rounds);
            rate += flops / (clock_seconds(CLOCK_THREAD_CPUTIME_ID) - before);
        }
        rate *= (double)at_once / cpu->threads;
        best = rate > best ? rate : best;
    } while (clock_now() - started < seconds);
    return best;
}
