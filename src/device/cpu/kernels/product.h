// SPDX-License-Identifier: Apache-2.0
// Matrix products for AVX-512: a block of 8 x 48 sums stays in 24 registers while the loop runs
// over the whole depth. One step of the loop multiplies a word of a with a word of b: one f32, or
// two bf16 that are adjacent in the depth. b is packed into panels of 48 columns; a is read in
// place or packed in strips of 8 rows. Every element is summed in the same order, wherever it is in
// a block. The epilogue of a block (product_epilogue.h) can run while the next block is multiplied.
//
// Leaves out other instruction sets (product_lanes.h), chunks of the depth (gemm.c), and threads.
#ifndef BERTH_CPU_KERNELS_PRODUCT_H
#define BERTH_CPU_KERNELS_PRODUCT_H

#include "device/cpu/kernels/product_epilogue.h"
#include "device/cpu/kernels/sanitizer.h"

#if defined(__AVX512F__)
#include <immintrin.h>

enum { WORD = 4, VECTOR = 16, VECTORS = PRODUCT_COLUMNS / VECTOR };

// --- the product --------------------------------------------------------------------------------

// Where a block reads and writes.
struct block {
    const char *row[PRODUCT_ROWS]; // of a
    int64_t step;                  // bytes of a from one step to the next
    const float *panel;            // of b
    int64_t panel_step;            // words of b from one step to the next
    int64_t steps;
    int64_t rows, columns;     // of c
    int operands_cached;       // 1: a and b need no prefetching
    int64_t prefetch_distance; // bytes from what is read of a to what is fetched for the next block
                               // of rows
    const char *next; // in the next panel of b, which the processor alone would fetch too late: so
    int64_t next_lines; // many lines are fetched for every FETCHED_STEPS
};

#define FETCHED_STEPS 16

// Without instructions for pairs of bf16, a step takes two rounds: the low halves of all words, as
// f32, then the high halves.
#if defined(__AVX512BF16__)
enum { ROUNDS_OF_PAIRS = 1 };
#else
enum { ROUNDS_OF_PAIRS = 2 };
#endif

ALWAYS_INLINE __m512 operand_of(__m512 word, int rounds, int round) {
    const __m512i bits = (__m512i)word;
    if (rounds == 1) {
        return word;
    }
    return (__m512)(round == 0 ? _mm512_slli_epi32(bits, 16)
                               : _mm512_and_si512(bits, _mm512_set1_epi32((int)0xFFFF0000)));
}

ALWAYS_INLINE __m512 multiply_add(__m512 sum, __m512 a, __m512 b, int pairs) {
#if defined(__AVX512BF16__)
    if (pairs) {
        return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
    }
#endif
    return _mm512_fmadd_ps(a, b, sum);
}

// A word in all lanes. Two bf16 need not lie at a multiple of four bytes.
ALWAYS_INLINE __m512 word_of(const char *from) {
    float word;
    memcpy(&word, from, sizeof word);
    return _mm512_set1_ps(word);
}

ALWAYS_INLINE void block_sums(__m512 sum[PRODUCT_ROWS][VECTORS], const struct block *block,
                              struct deferred_epilogue *deferred, struct prefetch_queue *prefetches,
                              int vectors, int pairs) {
    const char *const *row = block->row;
    const int rounds = pairs ? ROUNDS_OF_PAIRS : 1;
    const char *next = block->next;
    const int64_t b_step = block->panel_step;
    const float *b = block->panel, *end = b + block->steps * b_step;
    for (int64_t at = 0; b < end;) {
        const float *stop = b + chunk_length(0, end - b, FETCHED_STEPS * b_step);
        if (!block->operands_cached) {
#pragma GCC unroll 8
            for (int i = 0; i < PRODUCT_ROWS; i++) {
                _mm_prefetch(row[i] + at + block->prefetch_distance, _MM_HINT_T1);
            }
            for (int64_t i = 0; i < block->next_lines; i++, next += 64) {
                _mm_prefetch(next, _MM_HINT_T1);
            }
        }
        prefetch_next_rows(prefetches);
        if (deferred->rows > 0) {
            deferred_row(deferred);
        }
        for (; b < stop; at += block->step, b += b_step) {
#pragma GCC unroll 2
            for (int round = 0; round < rounds; round++) {
                __m512 columns[VECTORS];
#pragma GCC unroll 3
                for (int j = 0; j < vectors; j++) {
                    columns[j] = operand_of(_mm512_loadu_ps(b + j * VECTOR), rounds, round);
                }
#pragma GCC unroll 8
                for (int i = 0; i < PRODUCT_ROWS; i++) {
                    const __m512 word = operand_of(word_of(row[i] + at), rounds, round);
#pragma GCC unroll 3
                    for (int j = 0; j < vectors; j++) {
                        sum[i][j] = multiply_add(sum[i][j], word, columns[j], pairs);
                    }
                }
            }
        }
    }
}

ALWAYS_INLINE void scale_sums(__m512 sum[PRODUCT_ROWS][VECTORS], const float *factors, int64_t rows,
                              int vectors) {
#pragma GCC unroll 8
    for (int i = 0; i < PRODUCT_ROWS; i++) {
        const __m512 factor = _mm512_set1_ps(factors[i < rows ? i : rows - 1]);
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++) {
            sum[i][j] = _mm512_mul_ps(sum[i][j], factor);
        }
    }
}

ALWAYS_INLINE void store_sums(void *to, __m512 sum, __mmask16 mask, enum dtype dtype,
                              int accumulate) {
    if (dtype == DTYPE_F32) {
        sum = accumulate ? _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, to)) : sum;
        _mm512_mask_storeu_ps(to, mask, sum);
        return;
    }
#if defined(__AVX512BF16__)
    _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(sum));
#else
    float lane[VECTOR];
    _mm512_storeu_ps(lane, sum);
    store_bf16(to, lane, __builtin_popcount(mask));
#endif
}

// Writes the sums of a block, whose first element is at `to`. Compile-time constants keep the
// instructions few, because no product overlaps with them.
ALWAYS_INLINE void store_block(void *to, int64_t stride, __m512 sum[PRODUCT_ROWS][VECTORS],
                               const struct block *block, int vectors, enum dtype dtype,
                               int accumulate) {
    const int64_t size = (int64_t)dtype_size(dtype);
    if (block->rows == PRODUCT_ROWS && block->columns == vectors * VECTOR) {
#pragma GCC unroll 8
        for (int i = 0; i < PRODUCT_ROWS; i++) {
#pragma GCC unroll 3
            for (int j = 0; j < vectors; j++) {
                store_sums((char *)to + (i * stride + j * VECTOR) * size, sum[i][j], 0xFFFF, dtype,
                           accumulate);
            }
        }
        return;
    }
#pragma GCC unroll 3
    for (int j = 0; j < vectors; j++) {
        const __mmask16 mask = lanes_left(block->columns - j * VECTOR);
#pragma GCC unroll 8
        for (int i = 0; i < PRODUCT_ROWS; i++) {
            if (i < block->rows) {
                store_sums((char *)to + (i * stride + j * VECTOR) * size, sum[i][j], mask, dtype,
                           accumulate);
            }
        }
    }
}

// The sums begin with the bias.
ALWAYS_INLINE void begin_sums(const struct product *p, __m512 sum[PRODUCT_ROWS][VECTORS],
                              int64_t row, int64_t column, const struct block *block, int vectors) {
    if (p->row_bias != NULL) {
#pragma GCC unroll 8
        for (int i = 0; i < PRODUCT_ROWS; i++) {
#pragma GCC unroll 3
            for (int j = 0; j < vectors; j++) {
                sum[i][j] = _mm512_set1_ps(i < block->rows ? p->row_bias[row + i] : 0);
            }
        }
        return;
    }
#pragma GCC unroll 3
    for (int j = 0; j < vectors; j++) {
        const __m512 bias = p->bias == NULL
                                ? _mm512_setzero_ps()
                                : _mm512_maskz_loadu_ps(lanes_left(block->columns - j * VECTOR),
                                                        p->bias + column + j * VECTOR);
#pragma GCC unroll 8
        for (int i = 0; i < PRODUCT_ROWS; i++) {
            sum[i][j] = bias;
        }
    }
}

ALWAYS_INLINE void write_sums(const struct product *p, __m512 sum[PRODUCT_ROWS][VECTORS],
                              int64_t row, int64_t column, const struct block *block, int vectors) {
    void *to = row_at(p->c, row, column);
    if (p->factors != NULL) {
        scale_sums(sum, p->factors + row, block->rows, vectors);
    }
    if (p->c.dtype != DTYPE_F32) {
        store_block(to, p->c.stride, sum, block, vectors, DTYPE_BF16, 0);
    } else if (p->accumulate) {
        store_block(to, p->c.stride, sum, block, vectors, DTYPE_F32, 1);
    } else {
        store_block(to, p->c.stride, sum, block, vectors, DTYPE_F32, 0);
    }
}

ALWAYS_INLINE void block_of(const struct product *p, const struct block *block,
                            struct deferred_epilogue *deferred, int64_t row, int64_t column,
                            int vectors, int pairs) {
    __m512 sum[PRODUCT_ROWS][VECTORS];
    if (!p->result_cached) {
        prefetch_block_of_c(p, row, column, PRODUCT_ROWS, vectors * VECTOR);
    }
    begin_sums(p, sum, row, column, block, vectors);
    block_sums(sum, block, deferred, p->prefetches, vectors, pairs);
    write_sums(p, sum, row, column, block, vectors);
    finish_deferred(deferred);
    if (defers_epilogue(p) && block->columns == PRODUCT_COLUMNS) {
        *deferred = deferred_epilogue_of(p, row, column, block->rows);
    } else if (has_epilogue(p)) {
        epilogue_block(p, row, column, block->rows, block->columns);
    }
}

// Lines of a panel of b to fetch with each part of each strip of a, so that all strips fetch it.
ALWAYS_INLINE int64_t next_lines_of(const struct product *p, int64_t column, int vectors) {
    const int64_t strips = (p->c.rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS;
    return column + p->panel < p->c.cols ? (FETCHED_STEPS * vectors + strips - 1) / strips : 0;
}

// All rows of one panel. Rows missing in the last strip are read as its last row.
ALWAYS_INLINE void panel_of(const struct product *p, struct deferred_epilogue *deferred,
                            int64_t column, int vectors, int pairs) {
    const float *panel = (const float *)product_panel_of(p, column);
    const int64_t panel_step = product_panel_step(p, vectors * VECTOR);
    struct block block = {.step = p->a_step,
                          .panel = panel + p->first * panel_step,
                          .panel_step = panel_step,
                          .steps = p->last - p->first,
                          .columns = chunk_length(column, p->c.cols, p->panel),
                          .operands_cached = p->operands_cached,
                          .next_lines = next_lines_of(p, column, vectors)};
    block.next = (const char *)(block.panel + p->depth * vectors * VECTOR);
    for (int64_t row = 0; row < p->c.rows; row += PRODUCT_ROWS) {
        block.prefetch_distance = column == 0 && row + PRODUCT_ROWS < p->c.rows ? p->a_strip : 0;
        const char *strip = (const char *)p->a + row / PRODUCT_ROWS * p->a_strip;
        block.rows = chunk_length(row, p->c.rows, PRODUCT_ROWS);
        for (int64_t i = 0; i < PRODUCT_ROWS; i++) {
            block.row[i] = strip + (i < block.rows ? i : block.rows - 1) * p->a_row;
        }
        block_of(p, &block, deferred, row, column, vectors, pairs);
        block.next += (block.steps + FETCHED_STEPS - 1) / FETCHED_STEPS * block.next_lines * 64;
    }
}

ALWAYS_INLINE void product_of(const struct product *p, int pairs) {
    struct deferred_epilogue deferred = {.rows = 0};
    for (int64_t column = 0; column < p->c.cols; column += p->panel) {
        const int64_t left = chunk_length(column, p->c.cols, p->panel);
        if (left > 2 * VECTOR) {
            panel_of(p, &deferred, column, 3, pairs);
        } else if (left > VECTOR) {
            panel_of(p, &deferred, column, 2, pairs);
        } else {
            panel_of(p, &deferred, column, 1, pairs);
        }
    }
    finish_deferred(&deferred);
}

NO_SANITIZE static void multiply_f32(const struct product *p) {
    product_of(p, 0);
}

NO_SANITIZE static void multiply_bf16(const struct product *p) {
    product_of(p, 1);
}

// --- packing ------------------------------------------------------------------------------------

// Columns of a step that are read at once: a line of memory in bf16.
enum { PAIR = 2 * VECTOR };

// Which of the columns from `column` on are columns of x.
ALWAYS_INLINE __mmask32 pair_mask(struct mat x, int64_t column) {
    return (__mmask32)(((uint64_t)1 << chunk_length(column, x.cols, PAIR)) - 1);
}

// The words of the depth's step `step` of x [depth, columns], from column `column`.
ALWAYS_INLINE void words_of(__m512i words[2], struct mat x, int64_t step, int64_t column,
                            __mmask32 mask) {
    if (x.dtype == DTYPE_F32) {
        words[0] = _mm512_maskz_loadu_epi32((__mmask16)mask, row_at(x, step, column));
        words[1] =
            _mm512_maskz_loadu_epi32((__mmask16)(mask >> VECTOR), row_at(x, step, column + VECTOR));
        return;
    }
    const __m512i first = _mm512_setr_epi32(
        0x200000, 0x210001, 0x220002, 0x230003, 0x240004, 0x250005, 0x260006, 0x270007, 0x280008,
        0x290009, 0x2A000A, 0x2B000B, 0x2C000C, 0x2D000D, 0x2E000E, 0x2F000F); // i + 32, i
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(VECTOR));
    const __m512i even = _mm512_maskz_loadu_epi16(mask, row_at(x, 2 * step, column));
    const __m512i odd = 2 * step + 1 < x.rows
                            ? _mm512_maskz_loadu_epi16(mask, row_at(x, 2 * step + 1, column))
                            : _mm512_setzero_si512();
    words[0] = _mm512_permutex2var_epi16(even, first, odd);
    words[1] = _mm512_permutex2var_epi16(even, second, odd);
}

// Rows of a few columns are too far apart for the hardware prefetcher: they are prefetched this
// many steps before they are packed.
#define STEPS_AHEAD 32
// While a block is transposed, this many elements of each of the next rows are prefetched.
#define FIRST_WORDS 64

ALWAYS_INLINE void prefetch_step(struct mat x, int64_t step, int64_t column, int64_t width) {
    const int64_t rows = x.dtype == DTYPE_F32 ? 1 : 2;
    if ((step + 1) * rows <= x.rows) {
        for (int64_t row = step * rows; row < (step + 1) * rows; row++) {
            prefetch(x, row, column, width, 0);
        }
    }
}

// The destination of each vector of some adjacent panels, and the distance to that of the next
// step.
struct panels {
    int64_t count; // of vectors
    uint32_t *to[PACKED_PANELS * VECTORS];
    int64_t step[PACKED_PANELS * VECTORS];
};

ALWAYS_INLINE struct panels panels_of(void *packed, struct mat x, int64_t first, int64_t last,
                                      int64_t panel) {
    const int64_t steps = product_steps(x.rows, x.dtype);
    struct panels panels = {.count = 0};
    for (int64_t column = first; column < last; column += panel) {
        const int64_t width = lanes_of(chunk_length(column, x.cols, panel));
        for (int64_t j = 0; j < width; j += VECTOR, panels.count++) {
            panels.to[panels.count] = (uint32_t *)packed + column * steps + j;
            panels.step[panels.count] = width;
        }
    }
    return panels;
}

// `panel`: columns of a panel, which are whole vectors.
ALWAYS_INLINE void pack_columns_in(void *packed, struct mat x, int64_t first, int64_t last,
                                   int64_t panel) {
    const int64_t steps = product_steps(x.rows, x.dtype);
    const int64_t limit = PACKED_PANELS * PRODUCT_COLUMNS / panel * panel;
    for (int64_t from = first; from < last; from += limit) {
        const int64_t columns = chunk_length(from, last, limit);
        const struct panels panels = panels_of(packed, x, from, from + columns, panel);
        for (int64_t step = 0; step < steps; step++) {
            prefetch_step(x, step + STEPS_AHEAD, from, columns);
#pragma GCC unroll 6
            for (int64_t v = 0; v < PACKED_PANELS * VECTORS; v += 2) {
                if (v >= panels.count) {
                    break;
                }
                const int64_t column = from + v * VECTOR;
                __m512i words[2];
                words_of(words, x, step, column, pair_mask(x, column));
                _mm512_storeu_si512(panels.to[v] + step * panels.step[v], words[0]);
                if (v + 1 < panels.count) {
                    _mm512_storeu_si512(panels.to[v + 1] + step * panels.step[v + 1], words[1]);
                }
            }
        }
    }
}

static void pack_columns(void *packed, struct mat x, int64_t first, int64_t last) {
    pack_columns_in(packed, x, first, last, product_panel(x.cols));
}

ALWAYS_INLINE void store_strips(uint32_t *to, int64_t strip, __m512i words) {
    _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(words));
    _mm256_storeu_si256((__m256i *)(to + strip), _mm512_extracti64x4_epi64(words, 1));
}

// Four strips of 8 rows of op(a) are 32 columns of x.
static void pack_strips(void *packed, struct mat x, int64_t first, int64_t k) {
    const int64_t steps = product_steps(x.rows, x.dtype);
    const int64_t strip = PRODUCT_ROWS * product_steps(k, x.dtype);
    const int64_t begin = PRODUCT_ROWS * product_steps(first, x.dtype);
    for (int64_t column = 0; column < x.cols; column += PAIR) {
        const __mmask32 mask = pair_mask(x, column);
        uint32_t *to = (uint32_t *)packed + column / PRODUCT_ROWS * strip + begin;
        for (int64_t step = 0; step < steps; step++, to += PRODUCT_ROWS) {
            prefetch_step(x, step + STEPS_AHEAD, column, chunk_length(column, x.cols, PAIR));
            __m512i words[2];
            words_of(words, x, step, column, mask);
            store_strips(to, strip, words[0]);
            if (column + VECTOR < x.cols) {
                store_strips(to + 2 * strip, strip, words[1]);
            }
        }
    }
}

// Transposes 16 x 16 words: in each of four rounds, words whose index differs in one bit are
// swapped.
ALWAYS_INLINE void transpose_words(__m512i row[VECTOR]) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 4
    for (int apart = 1; apart < VECTOR; apart *= 2) {
        const __mmask16 set = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(apart));
        // Lane i of the low row: its own word, or where bit `apart` of i is set, the word i - apart
        // of the other row.
        const __m512i low =
            _mm512_mask_add_epi32(lane, set, lane, _mm512_set1_epi32(VECTOR - apart));
        const __m512i high = _mm512_mask_add_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(apart)),
                                                   set, lane, _mm512_set1_epi32(VECTOR));
#pragma GCC unroll 16
        for (int i = 0; i < VECTOR; i++) {
            if ((i & apart) == 0) {
                const __m512i one = row[i], other = row[i + apart];
                row[i] = _mm512_permutex2var_epi32(one, low, other);
                row[i + apart] = _mm512_permutex2var_epi32(one, high, other);
            }
        }
    }
}

// Words of a row of x from `step` on; those that it lacks are zeros.
ALWAYS_INLINE __m512i words_of_row(struct mat x, int64_t row, int64_t step) {
    return x.dtype == DTYPE_F32
               ? _mm512_maskz_loadu_epi32(lanes_left(x.cols - step), row_at(x, row, step))
               : _mm512_maskz_loadu_epi16(pair_mask(x, 2 * step), row_at(x, row, 2 * step));
}

// Columns [column, column + 16) of the panel, from rows of x.
ALWAYS_INLINE void pack_transposed(uint32_t *to, int64_t width, struct mat x, int64_t column,
                                   int64_t steps) {
    for (int64_t step = 0; step < steps; step += VECTOR) {
        __m512i row[VECTOR];
#pragma GCC unroll 16
        for (int i = 0; i < VECTOR; i++) {
            if (step == 0 && column + VECTOR + i < x.rows) {
                prefetch(x, column + VECTOR + i, 0, chunk_length(0, x.cols, FIRST_WORDS), 0);
            }
            row[i] =
                column + i < x.rows ? words_of_row(x, column + i, step) : _mm512_setzero_si512();
        }
        transpose_words(row);
#pragma GCC unroll 16
        for (int i = 0; i < VECTOR; i++) {
            if (step + i < steps) {
                _mm512_storeu_si512(to + (step + i) * width, row[i]);
            }
        }
    }
}

// Panels whose columns are rows of x.
ALWAYS_INLINE void pack_rows_in(void *packed, struct mat x, int64_t first, int64_t last,
                                int64_t panel) {
    const int64_t steps = product_steps(x.cols, x.dtype);
    for (int64_t column = first; column < last; column += panel) {
        const int64_t width = lanes_of(chunk_length(column, x.rows, panel));
        uint32_t *to = (uint32_t *)packed + column * steps;
        for (int64_t j = 0; j < width; j += VECTOR) {
            pack_transposed(to + j, width, x, column + j, steps);
        }
    }
}

static void pack_rows(void *packed, struct mat x, int64_t first, int64_t last) {
    pack_rows_in(packed, x, first, last, product_panel(x.rows));
}
#endif

#endif
