// SPDX-License-Identifier: Apache-2.0
// The products of product.h for instruction sets without AVX-512, in the compiler's vector types,
// so that every instruction set has them. The sums of a block stay in registers for a chunk of the
// depth, whose part of a panel of b stays in the L1 cache; then they wait in memory for the next
// chunk. b is packed into panels of 16 columns. The order of sums is that of product.h. Two bf16
// are multiplied one after the other, as f32, unless the processor multiplies pairs.
#ifndef BERTH_CPU_KERNELS_PRODUCT_LANES_H
#define BERTH_CPU_KERNELS_PRODUCT_LANES_H

#include "device/cpu/kernels/product_epilogue.h"
#include "device/cpu/kernels/sanitizer.h"

#if !defined(__AVX512F__)

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>
#endif

// A block's rows and its vectors of columns, whose sums leave registers for operands, and the rows
// of a shorter block at the end of a group of rows.
#if defined(__AVX2__)
enum { VECTORS = 2, BLOCK_ROWS = 6, LAST_ROWS = 4 }; // of 16 registers
#elif defined(__aarch64__)
enum { VECTORS = 4, BLOCK_ROWS = 5, LAST_ROWS = 4 }; // of 32
#else
enum { VECTORS = 4, BLOCK_ROWS = 3, LAST_ROWS = 3 }; // of 16
#endif
// Columns of a panel of b, whatever their number in all.
enum { PANEL = VECTORS * LANES };
// A panel stays in the L1 cache for so many steps, while a group of rows is multiplied by it.
enum { CHUNK_STEPS = 256, GROUP_ROWS = 16 * BLOCK_ROWS };
enum { FETCHED_STEPS = 16 };

// --- the product --------------------------------------------------------------------------------

// What a block reads, and its sums of earlier steps.
struct block {
    lanes (*sums)[VECTORS];
    const lanes *begin;          // what the sums begin with; NULL: there are earlier steps
    const char *row[BLOCK_ROWS]; // of a
    int64_t step;                // bytes of a from one step to the next
    const uint32_t *columns;     // of a panel of b
    int64_t columns_step;        // words of b from one step to the next
    int64_t steps;
    const char *next;   // after these steps of the panel, which the next blocks read: so many lines
    int64_t next_lines; // are fetched for every FETCHED_STEPS
};

// What a word is: one f32, or two bf16, which are multiplied as a pair or one after the other.
enum word_kind { WORD_SINGLE, WORD_PAIR, WORD_HALVES };

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define WORD_BF16 WORD_PAIR
#else
#define WORD_BF16 WORD_HALVES
#endif

// A word in all lanes. It is spread as a float, or GCC would shift it before.
ALWAYS_INLINE lane_words word_of(const char *from) {
    float word;
    memcpy(&word, from, sizeof word);
#if defined(__AVX2__)
    return (lane_words)_mm256_set1_ps(word);
#else
    return (lane_words)(lanes){word, word, word, word};
#endif
}

// The words as f32, or their first or second halves.
ALWAYS_INLINE lanes operand_of(lane_words x, enum word_kind kind, int round) {
    return (lanes)(kind != WORD_HALVES ? x : round == 0 ? x << 16 : x & 0xFFFF0000u);
}

ALWAYS_INLINE lanes multiply_add(lanes sum, lanes a, lanes b, enum word_kind kind) {
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    if (kind == WORD_PAIR) {
        return (lanes)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
    }
#endif
    return lanes_fused(a, b, sum);
}

// Adds the products of some rows and a panel to their sums.
ALWAYS_INLINE void add_products(const struct block *block, int rows, enum word_kind kind) {
    const char *const *row = block->row;
    const int64_t b_step = block->columns_step;
    const uint32_t *b = block->columns, *end = b + block->steps * b_step;
    const int rounds = kind == WORD_HALVES ? 2 : 1;
    const char *next = block->next;
    lanes sum[BLOCK_ROWS][VECTORS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++) {
            sum[i][j] = block->begin != NULL ? block->begin[j] : block->sums[i][j];
        }
    }
    for (int64_t at = 0; b < end;) {
        const uint32_t *stop = b + chunk_length(0, end - b, FETCHED_STEPS * b_step);
        for (int64_t i = 0; i < block->next_lines; i++, next += 64) {
            __builtin_prefetch(next, 0, 2);
        }
        for (; b < stop; at += block->step, b += b_step) {
#pragma GCC unroll 2
            for (int round = 0; round < rounds; round++) {
                lanes columns[VECTORS];
                if (kind == WORD_HALVES) {
                    // Words are loaded again for their second halves: they would fill the
                    // registers.
                    __asm__ volatile("" ::: "memory");
                }
#pragma GCC unroll 4
                for (int j = 0; j < VECTORS; j++) {
                    lane_words word;
                    memcpy(&word, b + j * LANES, sizeof word);
                    columns[j] = operand_of(word, kind, round);
                }
#pragma GCC unroll 6
                for (int i = 0; i < rows; i++) {
                    const lanes all = operand_of(word_of(row[i] + at), kind, round);
#pragma GCC unroll 4
                    for (int j = 0; j < VECTORS; j++) {
                        sum[i][j] = multiply_add(sum[i][j], all, columns[j], kind);
                    }
                }
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++) {
            block->sums[i][j] = sum[i][j];
        }
    }
}

typedef void add_function(const struct block *block);

// Not inlined, so that the sums of each have all registers.
#define ADD_FUNCTION(name, rows, kind)                                                             \
    NO_SANITIZE static __attribute__((noinline)) void name(const struct block *block) {            \
        add_products(block, rows, kind);                                                           \
    }
ADD_FUNCTION(add_singles, BLOCK_ROWS, WORD_SINGLE)
ADD_FUNCTION(add_last_singles, LAST_ROWS, WORD_SINGLE)
ADD_FUNCTION(add_bf16, BLOCK_ROWS, WORD_BF16)
ADD_FUNCTION(add_last_bf16, LAST_ROWS, WORD_BF16)

// Writes the first rows and columns of a block of c.
ALWAYS_INLINE void write_sums(const struct product *p, lanes sum[BLOCK_ROWS][VECTORS], int64_t row,
                              int64_t column, int64_t rows, int64_t columns) {
#pragma GCC unroll 4
    for (int j = 0; j < VECTORS; j++) {
        const int64_t first = column + j * LANES, left = columns - j * LANES;
        if (left <= 0) {
            break;
        }
#pragma GCC unroll 6
        for (int i = 0; i < BLOCK_ROWS; i++) {
            if (i < rows) {
                void *to = row_at(p->c, row + i, first);
                lanes x = sum[i][j] * (p->factors == NULL ? 1.0f : p->factors[row + i]);
                x = p->accumulate ? x + lanes_from(to, DTYPE_F32, left) : x;
                lanes_to(to, x, p->c.dtype, left);
            }
        }
    }
}

ALWAYS_INLINE void write_block(const struct product *p, lanes sum[BLOCK_ROWS][VECTORS], int64_t row,
                               int64_t column, int64_t rows) {
    const int64_t columns = chunk_length(column, p->c.cols, PANEL);
    if (columns == PANEL) {
        write_sums(p, sum, row, column, rows, PANEL);
    } else {
        write_sums(p, sum, row, column, rows, columns);
    }
    if (has_epilogue(p)) {
        epilogue_block(p, row, column, rows, columns);
    }
}

// Some steps of all blocks of a group of rows and a panel.
struct part {
    int64_t row, end, column; // of c
    int64_t first, last;      // steps
    lanes bias[VECTORS];      // of the panel, or zeros
};

ALWAYS_INLINE void set_bias(const struct product *p, struct part *part) {
#pragma GCC unroll 4
    for (int j = 0; j < VECTORS; j++) {
        const int64_t first = part->column + j * LANES;
        part->bias[j] = p->bias == NULL ? (lanes){0}
                                        : lanes_from(p->bias + first, DTYPE_F32, p->c.cols - first);
    }
}

// Rows that a block lacks are read as its last one.
ALWAYS_INLINE void multiply_block(const struct product *p, const struct part *part,
                                  struct block *block, int64_t row, int64_t rows,
                                  add_function *add_block) {
#pragma GCC unroll 6
    for (int64_t i = 0; i < BLOCK_ROWS; i++) {
        const int64_t own = row + (i < rows ? i : rows - 1);
        block->row[i] = (const char *)p->a + own / PRODUCT_ROWS * p->a_strip +
                        own % PRODUCT_ROWS * p->a_row + (part->first - p->first) * p->a_step;
    }
    const int is_last = part->last == p->last;
    if (is_last && !p->result_cached) {
        prefetch_block_of_c(p, row, part->column, BLOCK_ROWS, PANEL);
    }
    add_block(block);
    block->next += (block->steps + FETCHED_STEPS - 1) / FETCHED_STEPS * block->next_lines * 64;
    if (is_last) {
        prefetch_next_rows(p->prefetches);
        write_block(p, block->sums, row, part->column, rows);
    }
}

// Whether the next block is of LAST_ROWS: two of them rather than a whole block and a few rows. The
// halves of bf16 need registers, too, so their blocks all are.
ALWAYS_INLINE int is_short(int64_t rows_left, enum word_kind kind) {
    return kind == WORD_HALVES || rows_left <= LAST_ROWS || rows_left == 2 * LAST_ROWS - 1 ||
           rows_left == 2 * LAST_ROWS;
}

ALWAYS_INLINE void multiply_part(const struct product *p, const struct part *part,
                                 lanes (*sums)[VECTORS], enum word_kind kind) {
    add_function *const whole = kind == WORD_SINGLE ? add_singles : add_bf16;
    add_function *const last = kind == WORD_SINGLE ? add_last_singles : add_last_bf16;
    const int64_t blocks = (part->end - part->row + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const uint32_t *panel = product_panel_of(p, part->column);
    const int64_t panel_step = product_panel_step(p, PANEL);
    struct block block = {
        .begin = part->first == p->first && p->row_bias == NULL ? part->bias : NULL,
        .step = p->a_step,
        .columns = panel + part->first * panel_step,
        .columns_step = panel_step,
        .steps = part->last - part->first,
        .next = (const char *)(panel + part->last * panel_step),
        .next_lines = p->operands_cached ? 0 : (FETCHED_STEPS + blocks - 1) / blocks,
    };
    for (int64_t row = part->row, rows; row < part->end; row += rows) {
        const int shorter = is_short(part->end - row, kind);
        rows = chunk_length(row, part->end, shorter ? LAST_ROWS : BLOCK_ROWS);
        block.sums = sums + (row - part->row);
        multiply_block(p, part, &block, row, rows, shorter ? last : whole);
    }
}

// A group of rows and a panel, at least once where there are no steps.
ALWAYS_INLINE void multiply_group(const struct product *p, struct part part, enum word_kind kind) {
    lanes sums[GROUP_ROWS + BLOCK_ROWS][VECTORS];
    set_bias(p, &part);
    for (int64_t i = 0; i < GROUP_ROWS + BLOCK_ROWS && p->row_bias != NULL; i++) {
        const float bias = part.row + i < part.end ? p->row_bias[part.row + i] : 0;
        for (int j = 0; j < VECTORS; j++) {
            sums[i][j] = (lanes){0} + bias;
        }
    }
    part.last = p->first;
    do {
        part.first = part.last;
        part.last += chunk_length(part.first, p->last, CHUNK_STEPS);
        multiply_part(p, &part, sums, kind);
    } while (part.last < p->last);
}

ALWAYS_INLINE void product_of(const struct product *p, enum word_kind kind) {
    for (int64_t row = 0; row < p->c.rows; row += GROUP_ROWS) {
        struct part part = {.row = row, .end = row + chunk_length(row, p->c.rows, GROUP_ROWS)};
        for (; part.column < p->c.cols; part.column += PANEL) {
            multiply_group(p, part, kind);
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

// `width` words of the depth's step `step` of x [depth, columns], from column `column`, of which x
// has `count`.
ALWAYS_INLINE void pack_first_words(uint32_t *to, int64_t width, struct mat x, int64_t step,
                                    int64_t column, int64_t count) {
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

ALWAYS_INLINE void pack_words(uint32_t *to, int64_t width, struct mat x, int64_t step,
                              int64_t column) {
    if (x.cols - column >= width) {
        pack_first_words(to, width, x, step, column, width);
    } else {
        pack_first_words(to, width, x, step, column, x.cols - column);
    }
}

static void pack_columns(void *packed, struct mat x, int64_t first, int64_t last) {
    const int64_t steps = product_steps(x.rows, x.dtype);
    for (int64_t step = 0; step < steps; step++) {
        for (int64_t column = first; column < last; column += PANEL) {
            pack_words((uint32_t *)packed + column * steps + step * PANEL, PANEL, x, step, column);
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

// Transposes a square of words: in each round, words whose index differs in one bit are swapped.
ALWAYS_INLINE void transpose_words(lane_words row[LANES]) {
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        const lane_words one = row[i], other = row[i + 1];
#if defined(__AVX2__)
        row[i] = LANES_OF_BOTH(one, other, 0, 8, 2, 10, 4, 12, 6, 14);
        row[i + 1] = LANES_OF_BOTH(one, other, 1, 9, 3, 11, 5, 13, 7, 15);
#else
        row[i] = LANES_OF_BOTH(one, other, 0, 4, 2, 6);
        row[i + 1] = LANES_OF_BOTH(one, other, 1, 5, 3, 7);
#endif
    }
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += i % 2 == 0 ? 1 : 3) {
        const lane_words one = row[i], other = row[i + 2];
#if defined(__AVX2__)
        row[i] = LANES_OF_BOTH(one, other, 0, 1, 8, 9, 4, 5, 12, 13);
        row[i + 2] = LANES_OF_BOTH(one, other, 2, 3, 10, 11, 6, 7, 14, 15);
#else
        row[i] = LANES_OF_BOTH(one, other, 0, 1, 4, 5);
        row[i + 2] = LANES_OF_BOTH(one, other, 2, 3, 6, 7);
#endif
    }
#if defined(__AVX2__)
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const lane_words one = row[i], other = row[i + 4];
        row[i] = LANES_OF_BOTH(one, other, 0, 1, 2, 3, 8, 9, 10, 11);
        row[i + 4] = LANES_OF_BOTH(one, other, 4, 5, 6, 7, 12, 13, 14, 15);
    }
#endif
}

// A square of a panel: `count` steps from `step` on, of LANES columns that are rows of x, which
// have so many bytes there.
ALWAYS_INLINE void pack_square(uint32_t *to, struct mat x, int64_t column, int64_t step,
                               int64_t count, int64_t bytes) {
    lane_words row[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        row[i] = (lane_words){0};
        if (column + i < x.rows) {
            memcpy(&row[i], row_at(x, column + i, step * (x.dtype == DTYPE_F32 ? 1 : 2)),
                   (size_t)bytes);
        }
    }
    transpose_words(row);
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        if (i < count) {
            memcpy(to + i * PANEL, &row[i], sizeof row[i]);
        }
    }
}

// Columns [column, column + LANES) of a panel.
ALWAYS_INLINE void pack_transposed(uint32_t *to, struct mat x, int64_t column, int64_t steps) {
    const int64_t bytes = x.cols * (int64_t)dtype_size(x.dtype);
    int64_t step = 0;
    for (; (step + LANES) * PRODUCT_WORD_BYTES <= bytes; step += LANES) {
        pack_square(to + step * PANEL, x, column, step, LANES, LANES * PRODUCT_WORD_BYTES);
    }
    if (step < steps) {
        pack_square(to + step * PANEL, x, column, step, steps - step,
                    bytes - step * PRODUCT_WORD_BYTES);
    }
}

static void pack_rows(void *packed, struct mat x, int64_t first, int64_t last) {
    const int64_t steps = product_steps(x.cols, x.dtype);
    for (int64_t column = first; column < last; column += PANEL) {
        uint32_t *to = (uint32_t *)packed + column * steps;
        for (int64_t j = 0; j < PANEL; j += LANES) {
            pack_transposed(to + j, x, column + j, steps);
        }
    }
}
#endif

#endif
