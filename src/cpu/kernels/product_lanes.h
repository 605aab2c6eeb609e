// SPDX-License-Identifier: Apache-2.0
// The products of product.h for instruction sets without AVX-512, in the compiler's vector types,
// so that every instruction set has them. The sums of a block of 4 rows, some vectors of columns
// and a word fill the processor's registers. Layouts and the order of sums are those of product.h.
// Two bf16 are multiplied one after the other, as f32, unless the processor multiplies pairs.
#ifndef BERTH_CPU_KERNELS_PRODUCT_LANES_H
#define BERTH_CPU_KERNELS_PRODUCT_LANES_H

#include "cpu/kernels/product_epilogue.h"
#include "cpu/kernels/sanitizer.h"

#if !defined(__AVX512F__)

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>
#endif

// Numbers of a vector, which is what a register holds: GCC keeps the sums of longer ones in memory.
// Vectors of a block's columns: of f32, and where pairs of bf16 take registers for their halves.
#if defined(__AVX2__)
enum { VECTOR = 8, VECTORS = 3, VECTORS_OF_HALVES = 2 }; // of 16 registers
#elif defined(__aarch64__)
enum { VECTOR = 4, VECTORS = 6, VECTORS_OF_HALVES = 4 }; // of 32
#else
enum { VECTOR = 4, VECTORS = 3, VECTORS_OF_HALVES = 4 }; // of 16
#endif
enum { VECTORS_MOST = VECTORS > VECTORS_OF_HALVES ? VECTORS : VECTORS_OF_HALVES };
enum { BLOCK_ROWS = PRODUCT_ROWS / 2, TRANSPOSED = 8 };

typedef float numbers __attribute__((vector_size(VECTOR * 4)));
typedef uint32_t words __attribute__((vector_size(VECTOR * 4)));

// --- the product --------------------------------------------------------------------------------

// Where a block reads and writes.
struct block {
    const char *row[BLOCK_ROWS]; // of a
    int64_t step;                // bytes of a from one step to the next
    const uint32_t *columns;     // of a panel of b
    int64_t width;               // of the panel
    int64_t steps;
};

// What a word is: one f32, or two bf16, which are multiplied as a pair or one after the other.
enum word_kind { WORD_SINGLE, WORD_PAIR, WORD_HALVES };

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define WORD_BF16 WORD_PAIR
#else
#define WORD_BF16 WORD_HALVES
#endif

ALWAYS_INLINE words words_from(const uint32_t *from) {
    words x;
    memcpy(&x, from, sizeof x);
    return x;
}

// The words as f32, or their first or second halves.
ALWAYS_INLINE numbers operand_of(words x, enum word_kind kind, int round) {
    return (numbers)(kind != WORD_HALVES ? x : round == 0 ? x << 16 : x & 0xFFFF0000u);
}

ALWAYS_INLINE numbers multiply_add(numbers sum, numbers a, numbers b, enum word_kind kind) {
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    if (kind == WORD_PAIR) {
        return (numbers)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
    }
#endif
    return sum + a * b;
}

ALWAYS_INLINE void block_sums(numbers sum[BLOCK_ROWS][VECTORS_MOST], const struct block *block,
                              int vectors, enum word_kind kind) {
    const char *const *row = block->row;
    const uint32_t *b = block->columns;
    const int rounds = kind == WORD_HALVES ? 2 : 1;
    int64_t at = 0;
#pragma GCC unroll 4
    for (int i = 0; i < BLOCK_ROWS; i++) {
#pragma GCC unroll 6
        for (int j = 0; j < vectors; j++) {
            sum[i][j] = (numbers){0};
        }
    }
    for (int64_t step = 0; step < block->steps; step++, at += block->step, b += block->width) {
#pragma GCC unroll 2
        for (int round = 0; round < rounds; round++) {
            numbers columns[VECTORS_MOST];
#pragma GCC unroll 6
            for (int j = 0; j < vectors; j++) {
                columns[j] = operand_of(words_from(b + j * VECTOR), kind, round);
            }
#pragma GCC unroll 4
            for (int i = 0; i < BLOCK_ROWS; i++) {
                uint32_t word;
                memcpy(&word, row[i] + at, sizeof word);
                const numbers all = operand_of(word + (words){0}, kind, round);
#pragma GCC unroll 6
                for (int j = 0; j < vectors; j++) {
                    sum[i][j] = multiply_add(sum[i][j], all, columns[j], kind);
                }
            }
        }
    }
}

// The first `count` numbers of a vector, and zeros.
ALWAYS_INLINE numbers numbers_from(const float *from, int64_t count) {
    numbers x = {0};
    memcpy(&x, from, (size_t)chunk_length(0, count, VECTOR) * sizeof *from);
    return x;
}

ALWAYS_INLINE void store_sums(void *to, enum dtype dtype, numbers sum, int64_t count,
                              int accumulate) {
    float lane[VECTOR];
    if (dtype == DTYPE_F32) {
        sum = accumulate ? sum + numbers_from(to, count) : sum;
        memcpy(to, &sum, (size_t)chunk_length(0, count, VECTOR) * sizeof(float));
        return;
    }
    memcpy(lane, &sum, sizeof lane);
    store_bf16(to, lane, chunk_length(0, count, VECTOR));
}

ALWAYS_INLINE void block_of(const struct product *p, const struct block *block, int64_t row,
                            int64_t column, int vectors, enum word_kind kind) {
    numbers sum[BLOCK_ROWS][VECTORS_MOST];
    const int64_t rows = chunk_length(row, p->c.rows, BLOCK_ROWS);
    prefetch_next_rows(p->prefetches);
    block_sums(sum, block, vectors, kind);
#pragma GCC unroll 6
    for (int j = 0; j < vectors; j++) {
        const int64_t first = column + j * VECTOR, count = p->c.cols - first;
        if (count <= 0) {
            break;
        }
        const numbers bias = p->bias == NULL ? (numbers){0} : numbers_from(p->bias + first, count);
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK_ROWS; i++) {
            if (i < rows) {
                const float factor = p->factors == NULL ? 1.0f : p->factors[row + i];
                store_sums(row_at(p->c, row + i, first), p->c.dtype, sum[i][j] * factor + bias,
                           count, p->accumulate);
            }
        }
    }
    if (has_epilogue(p)) {
        epilogue_block(p, row, column, rows, chunk_length(column, p->c.cols, vectors * VECTOR));
    }
}

// All rows of some columns of a panel. Rows missing in the last block are read as the last row.
ALWAYS_INLINE void multiply_columns(const struct product *p, int64_t panel, int64_t width,
                                    int64_t skipped, int vectors, enum word_kind kind) {
    struct block block = {.step = p->a_step,
                          .columns = (const uint32_t *)p->b + panel * p->depth + p->first * width +
                                     skipped,
                          .width = width,
                          .steps = p->last - p->first};
    for (int64_t row = 0; row < p->c.rows; row += BLOCK_ROWS) {
        for (int64_t i = 0; i < BLOCK_ROWS; i++) {
            const int64_t own = row + i < p->c.rows ? row + i : p->c.rows - 1;
            block.row[i] = (const char *)p->a + own / PRODUCT_ROWS * p->a_strip +
                           own % PRODUCT_ROWS * p->a_row + p->first * p->a_step;
        }
        block_of(p, &block, row, panel + skipped, vectors, kind);
    }
}

ALWAYS_INLINE void product_of(const struct product *p, enum word_kind kind) {
    for (int64_t panel = 0; panel < p->c.cols; panel += p->panel) {
        const int64_t columns = chunk_length(panel, p->c.cols, p->panel);
        const int64_t width = lanes_of(columns);
        const int is_wide = kind != WORD_HALVES && width % (VECTORS * VECTOR) == 0;
        const int vectors = is_wide ? VECTORS : VECTORS_OF_HALVES;
        for (int64_t skipped = 0; skipped < columns; skipped += vectors * VECTOR) {
            if (is_wide) {
                multiply_columns(p, panel, width, skipped, VECTORS, kind);
            } else {
                multiply_columns(p, panel, width, skipped, VECTORS_OF_HALVES, kind);
            }
        }
    }
}

NO_SANITIZE static void multiply_f32(const struct product *p) {
    product_of(p, WORD_SINGLE);
}

NO_SANITIZE static void multiply_bf16(const struct product *p) {
    product_of(p, WORD_BF16);
}

// --- packing ------------------------------------------------------------------------------------

// `width` words of the depth's step `step` of x [depth, columns], from column `column`.
ALWAYS_INLINE void pack_words(uint32_t *to, int64_t width, struct mat x, int64_t step,
                              int64_t column) {
    const int64_t count = chunk_length(column, x.cols, width);
    if (x.dtype == DTYPE_F32) {
        memcpy(to, row_at(x, step, column), (size_t)count * sizeof *to);
    } else {
        const uint16_t *even = row_at(x, 2 * step, column);
        const uint16_t *odd = 2 * step + 1 < x.rows ? row_at(x, 2 * step + 1, column) : NULL;
        for (int64_t j = 0; j < count; j++) {
            to[j] = even[j] | (odd == NULL ? 0 : (uint32_t)odd[j] << 16);
        }
    }
    memset(to + count, 0, (size_t)(width - count) * sizeof *to);
}

static void pack_columns(void *packed, struct mat x, int64_t first, int64_t last) {
    const int64_t steps = product_steps(x.rows, x.dtype), panel = product_panel(x.cols);
    for (int64_t column = first; column < last; column += panel) {
        const int64_t width = lanes_of(chunk_length(column, x.cols, panel));
        uint32_t *to = (uint32_t *)packed + column * steps;
        for (int64_t step = 0; step < steps; step++, to += width) {
            pack_words(to, width, x, step, column);
        }
    }
}

static void pack_strips(void *packed, struct mat x, int64_t first, int64_t k) {
    const int64_t steps = product_steps(x.rows, x.dtype);
    for (int64_t column = 0; column < x.cols; column += PRODUCT_ROWS) {
        uint32_t *to = (uint32_t *)packed + column * product_steps(k, x.dtype) +
                       PRODUCT_ROWS * product_steps(first, x.dtype);
        for (int64_t step = 0; step < steps; step++, to += PRODUCT_ROWS) {
            pack_words(to, PRODUCT_ROWS, x, step, column);
        }
    }
}

// Columns [column, column + 8) of a panel, from rows of x, 8 steps at a time.
ALWAYS_INLINE void pack_transposed(uint32_t *to, int64_t width, struct mat x, int64_t column,
                                   int64_t steps) {
    const int64_t count = chunk_length(column, x.rows, TRANSPOSED),
                  elements = x.dtype == DTYPE_F32 ? 1 : 2;
    for (int64_t from = 0; from < steps; from += TRANSPOSED) {
        const int64_t few = chunk_length(from, steps, TRANSPOSED);
        uint32_t block[TRANSPOSED][TRANSPOSED] = {0};
        for (int64_t i = 0; i < count; i++) {
            uint32_t row[TRANSPOSED];
            memcpy(row, row_at(x, column + i, from * elements), (size_t)few * sizeof *row);
            for (int64_t step = 0; step < few; step++) {
                block[step][i] = row[step];
            }
        }
        for (int64_t step = 0; step < few; step++) {
            memcpy(to + (from + step) * width, block[step], sizeof block[step]);
        }
    }
}
#endif

#endif
