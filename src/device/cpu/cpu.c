// SPDX-License-Identifier: Apache-2.0
// What the operations of the CPU device share: memory that grows when a larger shape comes, the
// first error, which stays until it is asked for, zeros for slack rows, and the sum of partial sums
// in fixed order.
#include "device/cpu/cpu.h"

#include "core/error.h"
#include "core/memory.h"

#include <string.h>

void cpu_fail(struct cpu *cpu, enum berth_status status, const struct berth_error *error) {
#pragma omp critical(berth_cpu_fail)
    if (cpu->status == BERTH_OK) {
        cpu->status = status;
        cpu->error = *error;
    }
}

int cpu_grow(struct cpu *cpu, void **block, size_t *have, size_t bytes) {
    if (bytes <= *have) {
        return cpu->status == BERTH_OK;
    }
    memory_pages_free(*block, *have);
    *block = memory_pages(bytes);
    *have = *block == NULL ? 0 : bytes;
    if (*block == NULL) {
        struct berth_error error;
        enum berth_status status = error_no_memory(&error, bytes, "the CPU's scratch memory");
        cpu_fail(cpu, status, &error);
    }
    return cpu->status == BERTH_OK;
}

void cpu_zero_rows(struct mat m, int64_t first) {
    for (int64_t row = first; !mat_is_empty(m) && row < m.rows; row++) {
        memset(mat_rows(m, row, 1).data, 0, (size_t)m.cols * dtype_size(m.dtype));
    }
}

void cpu_add_partials(struct cpu *cpu, float *total, const float *partials, int64_t blocks,
                      int64_t stride, int64_t count) {
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t c = 0; c < count; c += 256) {
        for (int64_t block = 0; block < blocks; block++) {
            cpu->kernels->add(total + c, partials + block * stride + c,
                              cpu_chunk_length(c, count, 256));
        }
    }
}
