// SPDX-License-Identifier: Apache-2.0
// What AddressSanitizer sees of the loops over registers. It keeps their sums in memory and looks
// at every access, which takes most of the time of a sanitized training run. So they are compiled
// without it, and the memory that a product reads and writes is looked at once before. Without the
// sanitizer this is nothing.
#ifndef BERTH_CPU_KERNELS_WATCH_H
#define BERTH_CPU_KERNELS_WATCH_H

#include "cpu/kernels.h"
#include "cpu/kernels/math.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))

static void watch(const void *from, int64_t bytes) {
    const char *bad =
        bytes > 0 ? __asan_region_is_poisoned((void *)(uintptr_t)from, (size_t)bytes) : NULL;
    if (bad != NULL) {
        (void)*(const volatile char *)bad; // the sanitizer reports it
    }
}

static void watch_row(struct mat m, int64_t row) {
    watch(row_at(m, row, 0), mat_is_empty(m) ? 0 : m.cols * (int64_t)dtype_size(m.dtype));
}

static void watch_product(const struct product *p) {
    const int64_t steps = p->last - p->first;
    for (int64_t row = 0; row < p->c.rows && steps > 0; row++) {
        const char *a = (const char *)p->a + row / PRODUCT_ROWS * p->a_strip +
                        row % PRODUCT_ROWS * p->a_row + p->first * p->a_step;
        watch(a, (steps - 1) * p->a_step + PRODUCT_WORD_BYTES);
        watch_row(p->c, row);
        watch_row(p->end.y, row);
        watch_row(p->end.u, row);
    }
    for (int64_t column = 0; column < p->c.cols; column += p->panel) {
        const int64_t width = lanes_of(piece(column, p->c.cols, p->panel));
        watch((const float *)p->b + column * p->depth + p->first * width,
              steps * width * (int64_t)sizeof(float));
    }
    watch(p->bias, p->bias != NULL ? p->c.cols * (int64_t)sizeof *p->bias : 0);
}
#else
#define UNWATCHED

ALWAYS void watch_product(const struct product *p) {
    (void)p;
}
#endif

#endif
