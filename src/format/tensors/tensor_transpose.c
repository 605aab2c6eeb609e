// SPDX-License-Identifier: Apache-2.0
// In squares, so that both sides stay within the nearest cache.
#include "format/tensors/tensor.h"

#include <string.h>

#define SQUARE 32

// Inlined once for each size that is a constant.
static inline void transpose(const char *from, int64_t rows, int64_t cols, size_t size, char *to) {
    for (int64_t row = 0; row < rows; row += SQUARE) {
        int64_t row_end = row + SQUARE < rows ? row + SQUARE : rows;
        for (int64_t col = 0; col < cols; col += SQUARE) {
            int64_t col_end = col + SQUARE < cols ? col + SQUARE : cols;
            for (int64_t j = col; j < col_end; j++) {
                for (int64_t i = row; i < row_end; i++) {
                    memcpy(to + (size_t)(j * rows + i) * size, from + (size_t)(i * cols + j) * size,
                           size);
                }
            }
        }
    }
}

void tensor_transpose(const void *from, int64_t rows, int64_t cols, size_t size, void *to) {
    if (size == 4) {
        transpose(from, rows, cols, 4, to);
    } else if (size == 2) {
        transpose(from, rows, cols, 2, to);
    } else {
        transpose(from, rows, cols, size, to);
    }
}
