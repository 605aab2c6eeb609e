// SPDX-License-Identifier: Apache-2.0
// The peak of this machine's multiply-adds. With one thread the clock is that thread's processor
// time, which other programs do not disturb; with more it is the wall clock.
#include "cpu/cpu.h"

#include <time.h>

static double now(const struct cpu *cpu) {
    struct timespec t;
    clock_gettime(cpu->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cpu_measure_peak(struct device *dev, enum dtype dtype, double seconds) {
    struct cpu *cpu = cpu_of(dev);
    double (*loop)(int64_t) = dtype == DTYPE_F32  ? cpu->kernels->peak_f32
                              : dtype == DTYPE_I8 ? cpu->int8->peak
                                                  : cpu->kernels->peak_bf16;
    const int64_t rounds = 100000;
    double best = 0, started = now(cpu);
    do {
        double flops = 0, before = now(cpu);
#pragma omp parallel num_threads(cpu->threads) reduction(+ : flops)
        flops += loop(rounds);
        double rate = flops / (now(cpu) - before);
        best = rate > best ? rate : best;
    } while (now(cpu) - started < seconds);
    return best;
}
