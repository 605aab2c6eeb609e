// SPDX-License-Identifier: Apache-2.0
// Helpers for the functions that return a kernel's cost (gpu_cost). Such a function has its
// kernel's parameters and may read the arrays that they point to, because only the emulation calls
// it.
#ifndef BERTH_GPU_COST_H
#define BERTH_GPU_COST_H

#include "device/device.h"
#include "device/gpu/gpu_api.h"

#include <algorithm>
#include <vector>

// The bytes of the first `rows` rows; 0 for an empty matrix.
static inline uint64_t cost_rows(const struct mat &m, int64_t rows) {
    return m.data != NULL ? (uint64_t)(rows * m.cols) * dtype_size(m.dtype) : 0;
}

static inline uint64_t cost_of(const struct mat &m) {
    return cost_rows(m, m.rows);
}

// The bytes of `count` floats or indices; 0 for NULL.
static inline uint64_t cost_words(const void *array, int64_t count) {
    return array != NULL ? (uint64_t)count * 4 : 0;
}

// The number of distinct values in an array.
template <class T> static inline int64_t cost_distinct(const T *numbers, int64_t count) {
    std::vector<T> sorted(numbers, numbers + count);
    std::sort(sorted.begin(), sorted.end());
    return std::unique(sorted.begin(), sorted.end()) - sorted.begin();
}

// The bytes that say where rows of a batch are in a dropout mask: each row's sequence, and that
// sequence's index in the update. cost_positions has the positions.
static inline uint64_t cost_mask(const struct dropout &dropout, const struct batch &batch) {
    return dropout.threshold != 0
               ? (uint64_t)batch.row_count * 4 + (uint64_t)batch.sequence_count * 8
               : 0;
}

static inline uint64_t cost_positions(const struct dropout &dropout, const struct batch &batch) {
    return dropout.threshold != 0 ? (uint64_t)batch.token_count * 4 : 0;
}

#endif
