// SPDX-License-Identifier: Apache-2.0
// Clocks in seconds, as a double; only differences are meaningful. Rates, deadlines and profiles
// read them, and never the time of day, which may jump.
#ifndef BERTH_CORE_CLOCK_H
#define BERTH_CORE_CLOCK_H

#include <time.h>

// 0 for a clock that cannot be read, such as the processor time of a thread that has ended.
static inline double clock_seconds(clockid_t clock) {
    struct timespec now = {0, 0};
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// The time of the monotonic clock.
static inline double clock_now(void) {
    return clock_seconds(CLOCK_MONOTONIC);
}

#endif
