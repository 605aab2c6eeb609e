// SPDX-License-Identifier: Apache-2.0
// Products of bf16 for AMX. The sums of 32 rows and 32 columns, or of 64 rows and 16 columns, stay
// in four tiles while the loop runs over the depth, 16 words at a time: four, because a sum must
// not be added to before its last addition is finished. b has the panels of product.h, whose steps
// are the rows of a tile. a is read in place; a transposed a is packed by rows, because a row of a
// tile is consecutive words of the depth. Every element is summed in the same order, wherever it
// is.
//
// Leaves out products of f32, and all that follows the sums (product.h).
#ifndef BERTH_CPU_KERNELS_PRODUCT_TILES_H
#define BERTH_CPU_KERNELS_PRODUCT_TILES_H

#include "cpu/kernels/product.h"
#include "cpu/kernels/tiles.h"

enum { TALL_ROWS = 4 * TILE_ROWS, WIDE_ROWS = 2 * TILE_ROWS, WIDE_COLUMNS = 2 * TILE_WORDS };
enum { TILE_BYTES = TILE_WORDS * PRODUCT_WORD_BYTES }; // of a row

// Where sums come from.
struct tile_source {
    const char *a, *b;
    int64_t a_row, b_row; // bytes from one row of a, from one step of b, to the next
    int64_t rows, steps;
    int64_t prefetch_distance; // bytes from what is read of a to what is fetched; 0: nothing
    const char *next;          // in the next panel of b, of which each of the loop's turns fetches
    int64_t next_lines;        // so many lines
};

// The last steps of both operands, or a where the tiles have more rows than it; zeros beyond.
struct tile_rest {
    uint32_t a[TALL_ROWS][TILE_WORDS], b[TILE_WORDS][WIDE_COLUMNS];
};

ALWAYS_INLINE void copy_rest_of_a(struct tile_rest *rest, const struct tile_source *source,
                                  const char *a, int64_t steps, int row_tiles) {
    const __mmask16 mask = lanes_left(steps);
    for (int64_t i = 0; i < row_tiles * TILE_ROWS; i++) {
        const __m512i row = i < source->rows ? _mm512_maskz_loadu_epi32(mask, a + i * source->a_row)
                                             : _mm512_setzero_si512();
        _mm512_storeu_si512(rest->a[i], row);
    }
}

ALWAYS_INLINE void copy_rest_of_b(struct tile_rest *rest, const struct tile_source *source,
                                  const char *b, int64_t steps, int column_tiles) {
    for (int64_t i = 0; i < TILE_WORDS; i++) {
        for (int j = 0; j < column_tiles; j++) {
            const char *from = b + i * source->b_row + j * TILE_BYTES;
            const __m512i row = i < steps ? _mm512_loadu_si512(from) : _mm512_setzero_si512();
            _mm512_storeu_si512(rest->b[i] + j * TILE_WORDS, row);
        }
    }
}

// The sums of the first 16 rows are tiles 0 and 1, those of the others 2 and 3.
ALWAYS_INLINE void multiply_wide(struct tiles *tiles, const char *a, int64_t a_row, const char *b,
                                 int64_t b_row, int row_tiles) {
    TILE_LOAD(tiles, 4, a, a_row);
    TILE_LOAD(tiles, 6, b, b_row);
    TILE_MULTIPLY(tiles, 0, 4, 6);
    TILE_LOAD(tiles, 7, b + TILE_BYTES, b_row);
    TILE_MULTIPLY(tiles, 1, 4, 7);
    if (row_tiles > 1) {
        TILE_LOAD(tiles, 5, a + TILE_ROWS * a_row, a_row);
        TILE_MULTIPLY(tiles, 2, 5, 6);
        TILE_MULTIPLY(tiles, 3, 5, 7);
    }
}

// A tile of sums for each 16 rows.
ALWAYS_INLINE void multiply_tall(struct tiles *tiles, const char *a, int64_t a_row, const char *b,
                                 int64_t b_row, int row_tiles) {
    TILE_LOAD(tiles, 7, b, b_row);
    TILE_LOAD(tiles, 4, a, a_row);
    TILE_MULTIPLY(tiles, 0, 4, 7);
    if (row_tiles > 1) {
        TILE_LOAD(tiles, 5, a + TILE_ROWS * a_row, a_row);
        TILE_MULTIPLY(tiles, 1, 5, 7);
    }
    if (row_tiles > 2) {
        TILE_LOAD(tiles, 6, a + 2 * TILE_ROWS * a_row, a_row);
        TILE_MULTIPLY(tiles, 2, 6, 7);
    }
    if (row_tiles > 3) {
        TILE_LOAD(tiles, 4, a + 3 * TILE_ROWS * a_row, a_row);
        TILE_MULTIPLY(tiles, 3, 4, 7);
    }
}

// Stores the tiles' sums, PRODUCT_COLUMNS to a row.
ALWAYS_INLINE void store_tiles(struct tiles *tiles, float *to, int row_tiles, int column_tiles) {
    const int64_t stride = PRODUCT_COLUMNS * (int64_t)sizeof *to;
    const int64_t second = column_tiles > 1 ? TILE_WORDS : TILE_ROWS * PRODUCT_COLUMNS;
    const int64_t third = (column_tiles > 1 ? 1 : 2) * TILE_ROWS * PRODUCT_COLUMNS;
    const int count = row_tiles * column_tiles;
    TILE_STORE(tiles, 0, to, stride);
    if (count > 1) {
        TILE_STORE(tiles, 1, to + second, stride);
    }
    if (count > 2) {
        TILE_STORE(tiles, 2, to + third, stride);
    }
    if (count > 3) {
        TILE_STORE(tiles, 3, to + third + second, stride);
    }
}

ALWAYS_INLINE void prefetch_operands(const struct tile_source *source, const char *a,
                                     const char **next) {
    for (int64_t i = 0; source->prefetch_distance > 0 && i < source->rows; i++) {
        _mm_prefetch(a + i * source->a_row + source->prefetch_distance, _MM_HINT_T1);
    }
    for (int64_t i = 0; i < source->next_lines; i++, *next += 64) {
        _mm_prefetch(*next, _MM_HINT_T1);
    }
}

// Multiplies all steps.
ALWAYS_INLINE void sum_tiles(struct tiles *tiles, float *to, const struct tile_source *source,
                             struct deferred_epilogue *deferred, struct prefetch_queue *prefetches,
                             int row_tiles, int column_tiles) {
    const int lacks_rows = source->rows < row_tiles * TILE_ROWS;
    const char *next = source->next;
    struct tile_rest rest;
    TILE_ZERO(tiles, 0);
    TILE_ZERO(tiles, 1);
    TILE_ZERO(tiles, 2);
    TILE_ZERO(tiles, 3);
    for (int64_t step = 0; step < source->steps; step += TILE_WORDS) {
        const int64_t left = source->steps - step;
        const char *a = source->a + step * PRODUCT_WORD_BYTES,
                   *b = source->b + step * source->b_row;
        int64_t a_row = source->a_row, b_row = source->b_row;
        prefetch_operands(source, a, &next);
        prefetch_next_rows(prefetches);
        if (left < TILE_WORDS || lacks_rows) {
            copy_rest_of_a(&rest, source, a, left, row_tiles);
            a = (const char *)rest.a;
            a_row = sizeof rest.a[0];
        }
        if (left < TILE_WORDS) {
            copy_rest_of_b(&rest, source, b, left, column_tiles);
            b = (const char *)rest.b;
            b_row = sizeof rest.b[0];
        }
        if (column_tiles > 1) {
            multiply_wide(tiles, a, a_row, b, b_row, row_tiles);
        } else {
            multiply_tall(tiles, a, a_row, b, b_row, row_tiles);
        }
        if (deferred->rows > 0) { // beside the tiles' products
            deferred_row(deferred);
        }
    }
    store_tiles(tiles, to, row_tiles, column_tiles);
}

// Sums of 32 columns.
ALWAYS_INLINE void sum_wide(struct tiles *tiles, float *to, const struct product *p,
                            const struct tile_source *block, struct deferred_epilogue *deferred) {
    struct tile_source source = *block;
    for (int64_t row = 0; row < block->rows; row += WIDE_ROWS) {
        float *sums = to + row * PRODUCT_COLUMNS;
        source.a = block->a + row * block->a_row;
        source.rows = chunk_length(row, block->rows, WIDE_ROWS);
        if (source.rows > TILE_ROWS) {
            sum_tiles(tiles, sums, &source, deferred, p->prefetches, 2, 2);
        } else {
            sum_tiles(tiles, sums, &source, deferred, p->prefetches, 1, 2);
        }
        source.next_lines = 0;
    }
}

// Sums of 16 columns.
ALWAYS_INLINE void sum_tall(struct tiles *tiles, float *to, const struct product *p,
                            const struct tile_source *block, struct deferred_epilogue *deferred) {
    struct tile_source source = *block;
    source.prefetch_distance = source.next_lines = 0;
    if (block->rows > 3 * TILE_ROWS) {
        sum_tiles(tiles, to, &source, deferred, p->prefetches, 4, 1);
    } else if (block->rows > 2 * TILE_ROWS) {
        sum_tiles(tiles, to, &source, deferred, p->prefetches, 3, 1);
    } else if (block->rows > TILE_ROWS) {
        sum_tiles(tiles, to, &source, deferred, p->prefetches, 2, 1);
    } else {
        sum_tiles(tiles, to, &source, deferred, p->prefetches, 1, 1);
    }
}

// Writes the sums of at most PRODUCT_ROWS rows, with the bias.
ALWAYS_INLINE void write_strip(const struct product *p, const float *from, int64_t row,
                               int64_t column, const struct block *block, int vectors) {
    __m512 sum[PRODUCT_ROWS][VECTORS];
    begin_sums(p, sum, column, block, vectors);
#pragma GCC unroll 8
    for (int i = 0; i < PRODUCT_ROWS; i++) {
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++) {
            const float *added = from + i * PRODUCT_COLUMNS + j * VECTOR;
            sum[i][j] = _mm512_add_ps(sum[i][j], _mm512_loadu_ps(added));
        }
    }
    write_sums(p, sum, row, column, block, vectors);
}

ALWAYS_INLINE void write_block(const struct product *p, const float *from, int64_t row,
                               int64_t column, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i += PRODUCT_ROWS, from += PRODUCT_ROWS * PRODUCT_COLUMNS) {
        const struct block block = {.rows = chunk_length(i, rows, PRODUCT_ROWS),
                                    .columns = columns};
        if (columns > 2 * VECTOR) {
            write_strip(p, from, row + i, column, &block, 3);
        } else if (columns > VECTOR) {
            write_strip(p, from, row + i, column, &block, 2);
        } else {
            write_strip(p, from, row + i, column, &block, 1);
        }
    }
}

ALWAYS_INLINE void begin_epilogue(const struct product *p, struct deferred_epilogue *deferred,
                                  int64_t row, int64_t column, int64_t rows, int64_t columns) {
    if (defers_epilogue(p, columns)) {
        *deferred = deferred_epilogue_of(p, row, column, rows);
        return;
    }
    for (int64_t i = 0; has_epilogue(p) && i < rows; i += PRODUCT_ROWS) {
        epilogue_block(p, row + i, column, chunk_length(i, rows, PRODUCT_ROWS), columns);
    }
}

// All rows of one panel.
ALWAYS_INLINE void tiles_panel_of(const struct product *p, struct tiles *tiles,
                                  struct deferred_epilogue *deferred, int64_t column) {
    _Alignas(64) float sums[TALL_ROWS * PRODUCT_COLUMNS];
    const int64_t columns = chunk_length(column, p->c.cols, p->panel), width = lanes_of(columns);
    const int64_t steps = p->last - p->first, blocks = (p->c.rows + TALL_ROWS - 1) / TALL_ROWS;
    const int is_wide = width >= WIDE_COLUMNS, has_rest = width % WIDE_COLUMNS != 0;
    struct tile_source source = {
        .a_row = p->a_row, .b_row = width * PRODUCT_WORD_BYTES, .steps = steps};
    const char *panel =
        (const char *)p->b + column * p->depth * PRODUCT_WORD_BYTES + p->first * source.b_row;
    if (!p->operands_cached && column + p->panel < p->c.cols) {
        source.next = panel + p->depth * source.b_row;
        source.next_lines = (width + blocks - 1) / blocks;
    }
    for (int64_t row = 0; row < p->c.rows; row += TALL_ROWS) {
        const int is_followed = row + TALL_ROWS < p->c.rows;
        source.a = (const char *)p->a + row * p->a_row + p->first * PRODUCT_WORD_BYTES;
        source.b = panel;
        source.rows = chunk_length(row, p->c.rows, TALL_ROWS);
        source.prefetch_distance =
            !p->operands_cached && column == 0 && is_followed ? TALL_ROWS * p->a_row : 0;
        if (is_wide) {
            sum_wide(tiles, sums, p, &source, deferred);
            source.b += WIDE_COLUMNS * PRODUCT_WORD_BYTES;
        }
        if (has_rest) {
            sum_tall(tiles, sums + (is_wide ? WIDE_COLUMNS : 0), p, &source, deferred);
        }
        source.next += (steps + TILE_WORDS - 1) / TILE_WORDS * source.next_lines * 64;
        write_block(p, sums, row, column, source.rows, columns);
        finish_deferred(deferred);
        begin_epilogue(p, deferred, row, column, source.rows, columns);
    }
}

ALWAYS_INLINE void product_of_tiles(const struct product *p, struct tiles *tiles) {
    struct deferred_epilogue pending = {.rows = 0};
    configure_tiles(tiles);
    for (int64_t column = 0; column < p->c.cols; column += p->panel) {
        tiles_panel_of(p, tiles, &pending, column);
    }
    release_tiles(tiles);
    finish_deferred(&pending);
}

NO_SANITIZE static void multiply_by_tiles(const struct product *p) {
    product_of_tiles(p, NULL);
}

NO_SANITIZE static void multiply_by_emulated_tiles(const struct product *p) {
    struct tiles tiles;
    product_of_tiles(p, &tiles);
}

static void product_bf16_tiles(const struct product *p) {
    check_product_memory(p);
    multiply_by_tiles(p);
}

static void product_bf16_emulated_tiles(const struct product *p) {
    check_product_memory(p);
    multiply_by_emulated_tiles(p);
}

// --- packing ------------------------------------------------------------------------------------

// As pack_strips, in bf16 by rows.
static void pack_rows_of_strips(void *packed, struct mat x, int64_t first, int64_t k) {
    if (x.dtype == DTYPE_F32) {
        pack_strips(packed, x, first, k);
        return;
    }
    const int64_t steps = product_steps(x.rows, x.dtype), row = product_steps(k, x.dtype);
    uint32_t *to = (uint32_t *)packed + product_steps(first, x.dtype);
    for (int64_t column = 0; column < x.cols; column += PAIR) {
        const __mmask32 mask = pair_mask(x, column);
        const int64_t columns = chunk_length(column, x.cols, PAIR);
        for (int64_t step = 0; step < steps; step += VECTOR) {
            __m512i words[2][VECTOR];
            for (int i = 0; i < VECTOR; i++) {
                __m512i both[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
                if (step + i < steps) {
                    prefetch_step(x, step + i + STEPS_AHEAD, column, columns);
                    words_of(both, x, step + i, column, mask);
                }
                words[0][i] = both[0];
                words[1][i] = both[1];
            }
            transpose_words(words[0]);
            transpose_words(words[1]);
            for (int64_t i = 0; i < columns; i++) {
                _mm512_mask_storeu_epi32(to + (column + i) * row + step, lanes_left(steps - step),
                                         words[i / VECTOR][i % VECTOR]);
            }
        }
    }
}

// --- the peak -----------------------------------------------------------------------------------

ALWAYS_INLINE double peak_of_tiles(struct tiles *tiles, int64_t rounds) {
    uint32_t operand[TILE_ROWS][TILE_WORDS];
    for (int i = 0; i < TILE_ROWS * TILE_WORDS; i++) {
        operand[i / TILE_WORDS][i % TILE_WORDS] = 0x3C003C00u + (uint32_t)i * 0x10001u;
    }
    configure_tiles(tiles);
    TILE_ZERO(tiles, 0);
    TILE_ZERO(tiles, 1);
    TILE_ZERO(tiles, 2);
    TILE_ZERO(tiles, 3);
    TILE_LOAD(tiles, 4, operand, sizeof operand[0]);
    TILE_LOAD(tiles, 5, operand, sizeof operand[0]);
    for (int64_t round = 0; round < rounds; round++) {
        TILE_MULTIPLY(tiles, 0, 4, 5);
        TILE_MULTIPLY(tiles, 1, 4, 5);
        TILE_MULTIPLY(tiles, 2, 4, 5);
        TILE_MULTIPLY(tiles, 3, 4, 5);
    }
    release_tiles(tiles);
    return (double)rounds * 4 * TILE_ROWS * TILE_WORDS * 2 * TILE_WORDS * 2;
}

NO_SANITIZE static double peak_bf16_tiles(int64_t rounds) {
    return peak_of_tiles(NULL, rounds);
}

NO_SANITIZE static double peak_bf16_emulated_tiles(int64_t rounds) {
    struct tiles tiles;
    return peak_of_tiles(&tiles, rounds / 64);
}

#endif
