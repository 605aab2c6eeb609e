// SPDX-License-Identifier: Apache-2.0
// The products of product.h, in f32, for instruction sets with shorter vectors than AVX-512's: in
// vectors of plain C, so that every instruction set has them. A block of 4 x 24 sums fills the 16
// registers of AVX2. The layouts and the order of a sum are those of product.h.
#ifndef BERTH_CPU_KERNELS_PRODUCT_LANES_H
#define BERTH_CPU_KERNELS_PRODUCT_LANES_H

#include "cpu/kernels.h"
#include "cpu/kernels/math.h"

#if !defined(__AVX512F__)

enum { EIGHT = 8, BLOCK_ROWS = PRODUCT_ROWS / 2, BLOCK_VECTORS = 3 };

typedef float eight __attribute__((vector_size(32)));

// --- the product --------------------------------------------------------------------------------

// Where a block reads and writes.
struct block {
    const char *row[BLOCK_ROWS]; // of a
    int64_t step;                // bytes of a from one step to the next
    const float *columns;        // of a panel of b
    int64_t width;               // of the panel
    int64_t steps;
};

ALWAYS eight eight_load(const float *from) {
    eight x;
    memcpy(&x, from, sizeof x);
    return x;
}

ALWAYS void block_sums(eight sum[BLOCK_ROWS][BLOCK_VECTORS], const struct block *block,
                       int vectors) {
    const char *const *row = block->row;
    const float *b = block->columns;
    int64_t at = 0;
#pragma GCC unroll 4
    for (int i = 0; i < BLOCK_ROWS; i++) {
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++) {
            sum[i][j] = (eight){0};
        }
    }
    for (int64_t step = 0; step < block->steps; step++, at += block->step, b += block->width) {
        eight columns[BLOCK_VECTORS];
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++) {
            columns[j] = eight_load(b + j * EIGHT);
        }
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK_ROWS; i++) {
            float word;
            memcpy(&word, row[i] + at, sizeof word);
#pragma GCC unroll 3
            for (int j = 0; j < vectors; j++) {
                sum[i][j] += word * columns[j];
            }
        }
    }
}

ALWAYS void store_sums(float *to, eight sum, int64_t count, int accumulate) {
    if (count >= EIGHT) {
        sum = accumulate ? sum + eight_load(to) : sum;
        memcpy(to, &sum, sizeof sum);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        to[i] = accumulate ? sum[i] + to[i] : sum[i];
    }
}

ALWAYS eight bias_from(const float *bias, int64_t count) {
    eight x = {0};
    memcpy(&x, bias, (size_t)piece(0, count, EIGHT) * sizeof *bias);
    return x;
}

ALWAYS void block_of(const struct product *p, const struct block *block, int64_t row,
                     int64_t column, int vectors) {
    eight sum[BLOCK_ROWS][BLOCK_VECTORS];
    const int64_t rows = piece(row, p->c.rows, BLOCK_ROWS);
    block_sums(sum, block, vectors);
#pragma GCC unroll 3
    for (int j = 0; j < vectors; j++) {
        const int64_t first = column + j * EIGHT, count = p->c.cols - first;
        if (count <= 0) {
            break;
        }
        const eight bias = p->bias == NULL ? (eight){0} : bias_from(p->bias + first, count);
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK_ROWS; i++) {
            if (i < rows) {
                store_sums(row_at(p->c, row + i, first), sum[i][j] + bias, count, p->accumulate);
            }
        }
    }
}

// All rows of some columns of a panel. The rows that the last block lacks are read as the last one.
ALWAYS void multiply_columns(const struct product *p, int64_t panel, int64_t width, int64_t skipped,
                             int vectors) {
    struct block block = {.step = p->a_step,
                          .columns =
                              (const float *)p->b + panel * p->depth + p->first * width + skipped,
                          .width = width,
                          .steps = p->last - p->first};
    for (int64_t row = 0; row < p->c.rows; row += BLOCK_ROWS) {
        for (int64_t i = 0; i < BLOCK_ROWS; i++) {
            const int64_t own = row + i < p->c.rows ? row + i : p->c.rows - 1;
            block.row[i] = (const char *)p->a + own / PRODUCT_ROWS * p->a_strip +
                           own % PRODUCT_ROWS * p->a_row + p->first * p->a_step;
        }
        block_of(p, &block, row, panel + skipped, vectors);
    }
}

static void product_f32(const struct product *p) {
    for (int64_t panel = 0; panel < p->c.cols; panel += p->panel) {
        const int64_t width = lanes_of(piece(panel, p->c.cols, p->panel));
        const int vectors = width % (BLOCK_VECTORS * EIGHT) == 0 ? BLOCK_VECTORS : 2;
        for (int64_t skipped = 0; skipped < width; skipped += vectors * EIGHT) {
            if (vectors == BLOCK_VECTORS) {
                multiply_columns(p, panel, width, skipped, BLOCK_VECTORS);
            } else {
                multiply_columns(p, panel, width, skipped, 2);
            }
        }
    }
}

// --- packing ------------------------------------------------------------------------------------

static void pack_columns(void *packed, struct mat x, int64_t first, int64_t last) {
    const int64_t panel = product_panel(x.cols);
    for (int64_t column = first; column < last; column += panel) {
        const int64_t count = piece(column, x.cols, panel), width = lanes_of(count);
        float *to = (float *)packed + column * x.rows;
        for (int64_t step = 0; step < x.rows; step++, to += width) {
            memcpy(to, row_at(x, step, column), (size_t)count * sizeof *to);
            memset(to + count, 0, (size_t)(width - count) * sizeof *to);
        }
    }
}

static void pack_strips(void *packed, struct mat x) {
    for (int64_t column = 0; column < x.cols; column += PRODUCT_ROWS) {
        const int64_t count = piece(column, x.cols, PRODUCT_ROWS);
        float *to = (float *)packed + column * x.rows;
        for (int64_t step = 0; step < x.rows; step++, to += PRODUCT_ROWS) {
            memcpy(to, row_at(x, step, column), (size_t)count * sizeof *to);
        }
    }
}

// Columns [column, column + 8) of a panel, from rows of x, 8 steps at a time.
ALWAYS void pack_transposed(float *to, int64_t width, struct mat x, int64_t column) {
    const int64_t count = piece(column, x.rows, EIGHT);
    for (int64_t from = 0; from < x.cols; from += EIGHT) {
        const int64_t steps = piece(from, x.cols, EIGHT);
        float words[EIGHT][EIGHT] = {0};
        for (int64_t i = 0; i < count; i++) {
            const float *row = row_at(x, column + i, from);
            for (int64_t step = 0; step < steps; step++) {
                words[step][i] = row[step];
            }
        }
        for (int64_t step = 0; step < steps; step++) {
            memcpy(to + (from + step) * width, words[step], sizeof words[step]);
        }
    }
}

static void pack_rows(void *packed, struct mat x, int64_t first, int64_t last) {
    const int64_t panel = product_panel(x.rows);
    for (int64_t column = first; column < last; column += panel) {
        const int64_t width = lanes_of(piece(column, x.rows, panel));
        float *to = (float *)packed + column * x.cols;
        for (int64_t j = 0; j < width; j += EIGHT) {
            pack_transposed(to + j, width, x, column + j);
        }
    }
}
#endif

#endif
