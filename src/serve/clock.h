// SPDX-License-Identifier: Apache-2.0
// Seconds of the monotonic clock; only differences mean anything.
#ifndef BERTH_SERVE_CLOCK_H
#define BERTH_SERVE_CLOCK_H

#include <time.h>

static inline double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
