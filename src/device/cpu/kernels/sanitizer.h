// SPDX-License-Identifier: Apache-2.0
// Checks for AddressSanitizer. Instrumented, the inner loops of products keep their sums in memory
// and check every access, which would take most of the time of a sanitized training run. So they
// are compiled without it, and the memory that a product reads and writes is checked once in
// advance. Without the sanitizer the check is empty.
#ifndef BERTH_CPU_KERNELS_SANITIZER_H
#define BERTH_CPU_KERNELS_SANITIZER_H

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/math.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined")))

static void check_memory(const void *from, int64_t bytes) {
    const char *bad =
        bytes > 0 ? __asan_region_is_poisoned((void *)(uintptr_t)from, (size_t)bytes) : NULL;
    if (bad != NULL) {
        (void)*(const volatile char *)bad; // the sanitizer reports it
    }
}

static void check_row(struct mat m, int64_t row) {
    check_memory(row_at(m, row, 0), mat_is_empty(m) ? 0 : m.cols * (int64_t)dtype_size(m.dtype));
}

static void check_product_memory(const struct product *p) {
    const int64_t steps = p->last - p->first;
    if (p->a_is_tiles) {
        check_memory(p->a, cpu_round_up(p->c.rows, 16) / PRODUCT_ROWS * p->a_strip);
    }
    for (int64_t row = 0; row < p->c.rows && steps > 0; row++) {
        const char *a =
            (const char *)p->a + row / PRODUCT_ROWS * p->a_strip + row % PRODUCT_ROWS * p->a_row;
        check_memory(a, p->a_is_tiles ? 0 : (steps - 1) * p->a_step + PRODUCT_WORD_BYTES);
        check_row(p->c, row);
        check_row(p->epilogue.y, row);
        check_row(p->epilogue.u, row);
    }
    for (int64_t step = p->first; step < p->last && p->b_stride > 0; step++) {
        check_memory((const float *)p->b + step * p->b_stride, p->c.cols * (int64_t)sizeof(float));
    }
    for (int64_t column = 0; column < p->c.cols && p->b_stride == 0; column += p->panel) {
        const int64_t width = cpu_round_up(chunk_length(column, p->c.cols, p->panel), 16);
        check_memory((const float *)p->b + column * p->depth + p->first * width,
                     steps * width * (int64_t)sizeof(float));
    }
    check_memory(p->row_bias, p->row_bias != NULL ? p->c.rows * (int64_t)sizeof *p->row_bias : 0);
    check_memory(p->bias, p->bias != NULL ? p->c.cols * (int64_t)sizeof *p->bias : 0);
}
#else
#define NO_SANITIZE

ALWAYS_INLINE void check_product_memory(const struct product *p) {
    (void)p;
}
#endif

#endif
