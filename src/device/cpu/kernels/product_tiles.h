// SPDX-License-Identifier: Apache-2.0
// Products of bf16 for AMX. The sums of 32 rows and 32 columns stay in four tiles while the loop
// runs over the depth, 16 words at a time; the other four hold the operands. b is packed into
// panels of 16 columns, so that a tile of it is consecutive memory. a is read in place, or packed
// in tiles if it is transposed, because a row of a tile is consecutive words of the depth. Every
// element is summed in the same order, wherever it is.
//
// Leaves out products of f32, and all that follows the sums (product.h).
#ifndef BERTH_CPU_KERNELS_PRODUCT_TILES_H
#define BERTH_CPU_KERNELS_PRODUCT_TILES_H

#include "device/cpu/kernels/products.h"
#include "device/cpu/kernels/tiles.h"

enum { TILE_BLOCK = 2 * TILE_ROWS };                  // rows and columns of a block
enum { TILE_VECTORS = TILE_BLOCK / VECTOR };          // of its columns
enum { TILE_LINE = TILE_WORDS * PRODUCT_WORD_BYTES }; // bytes of a row of a tile
enum { TILE_BYTES = TILE_ROWS * TILE_LINE };

// A block of the result: where its sums come from, and where they go.
struct tile_block {
    const char *a, *b;
    int64_t a_row, a_tile; // bytes from one row of a, from one tile of rows to the next
    int64_t a_turn;        // and to what the loop's next turn reads
    int64_t b_panel;       // bytes from one panel of b to the next
    int64_t rows, columns, steps;
    int is_whole; // a has all rows of the tiles
    float *sums;
    int64_t sums_row; // elements from one row to the next
    int adds;         // to what is there
};

// What is fetched while a block is multiplied, because the processor alone would do so too late.
struct tile_fetches {
    int64_t a_distance; // bytes from what is read of a to what is fetched; 0: nothing
    const char *next;   // in the next panels of b, of which each of the loop's turns fetches
    int64_t next_lines; // so many lines
    int results;        // lines of a row that the block will be written to or read from
    char *result[4];    // in the next row
    int64_t stride[4];
};

// What product_of_tiles works with.
struct tile_state {
    struct tiles *tiles;
    struct deferred_epilogue deferred;
    int64_t deferred_vectors; // that are left of its block; the next one is the second of a row if
                              // the number is odd
    float *sums;              // [TILE_BLOCK][TILE_BLOCK]
};

// --- beside the sums ----------------------------------------------------------------------------

// The next vector of the epilogue of the last block.
ALWAYS_INLINE void deferred_vector(struct tile_state *state) {
    struct deferred_epilogue *deferred = &state->deferred;
    const int64_t step = VECTOR * (int64_t)sizeof(uint16_t);
    const int is_second = state->deferred_vectors % 2;
    float *sums = deferred->sums == NULL ? NULL : deferred->sums + is_second * VECTOR;
    epilogue_vector(deferred->c, deferred->other, sums, DTYPE_BF16);
    deferred->c += is_second ? deferred->c_stride - step : step;
    deferred->other += is_second ? deferred->other_stride - step : step;
    state->deferred_vectors--;
}

ALWAYS_INLINE void finish_deferred_vectors(struct tile_state *state) {
    while (state->deferred_vectors > 0) {
        deferred_vector(state);
    }
}

// What follows a multiplication: where another thread runs on the same core, instructions of tiles
// that follow each other directly take half as long again; others between them cost nothing. `part`
// of four.
ALWAYS_INLINE void beside_tiles(struct tile_state *state, int part, int64_t vectors) {
    __asm__ volatile("nop\n\tnop\n\tnop\n\tnop");
    if (part < vectors && state->deferred_vectors > 0) {
        deferred_vector(state);
    }
}

// The same, which fetches a quarter of the tile of b that is read in the next turn.
ALWAYS_INLINE void fetch_tile(const char *tile, int quarter) {
    for (int i = 0; i < TILE_ROWS / 4; i++) {
        _mm_prefetch(tile + TILE_BYTES + (quarter * (TILE_ROWS / 4) + i) * TILE_LINE, _MM_HINT_T0);
    }
}

ALWAYS_INLINE void fetch_operands(struct tile_fetches *fetches, const struct tile_block *block,
                                  const char *a) {
    for (int64_t i = 0; fetches->a_distance > 0 && i < block->rows; i++) {
        _mm_prefetch(a + i * block->a_row + fetches->a_distance, _MM_HINT_T1);
    }
    for (int64_t i = 0; i < fetches->next_lines; i++, fetches->next += TILE_LINE) {
        _mm_prefetch(fetches->next, _MM_HINT_T1);
    }
}

ALWAYS_INLINE void fetch_result_rows(struct tile_fetches *fetches, int64_t count) {
    for (int part = 0; part < fetches->results; part++) {
        for (int64_t i = 0; i < count; i++, fetches->result[part] += fetches->stride[part]) {
            __builtin_prefetch(fetches->result[part], 1, 2);
        }
    }
}

// --- sums ---------------------------------------------------------------------------------------

// The last steps of both operands, or a where the tiles have more rows than it; zeros beyond.
struct tile_rest {
    uint32_t a[TILE_BLOCK][TILE_WORDS], b[TILE_VECTORS][TILE_ROWS][TILE_WORDS];
};

ALWAYS_INLINE void copy_rest_of_a(struct tile_rest *rest, const struct tile_block *block,
                                  const char *a, int64_t steps) {
    const __mmask16 mask = lanes_left(steps);
    for (int64_t i = 0; i < TILE_BLOCK; i++) {
        const char *row = a + i / TILE_ROWS * block->a_tile + i % TILE_ROWS * block->a_row;
        const __m512i words =
            i < block->rows ? _mm512_maskz_loadu_epi32(mask, row) : _mm512_setzero_si512();
        _mm512_storeu_si512(rest->a[i], words);
    }
}

ALWAYS_INLINE void copy_rest_of_b(struct tile_rest *rest, const struct tile_block *block,
                                  const char *b, int64_t steps, int column_tiles) {
    for (int j = 0; j < column_tiles; j++) {
        memset(rest->b[j], 0, sizeof rest->b[j]);
        memcpy(rest->b[j], b + j * block->b_panel, (size_t)steps * TILE_LINE);
    }
}

// A turn of the loop, with at most `vectors` of the epilogue of the last block. The sums of the
// first 16 rows are tiles 0 and 1, those of the others 2 and 3.
ALWAYS_INLINE void multiply_tiles(struct tile_state *state, const struct tile_block *from,
                                  int64_t vectors, int row_tiles, int column_tiles) {
    struct tiles *tiles = state->tiles;
    const char *a = from->a, *b = from->b, *second = b + from->b_panel;
    TILE_LOAD(tiles, 4, a, from->a_row);
    fetch_tile(b, 0);
    TILE_LOAD(tiles, 6, b, TILE_LINE);
    fetch_tile(b, 1);
    TILE_MULTIPLY(tiles, 0, 4, 6);
    fetch_tile(b, 2);
    beside_tiles(state, 0, vectors);
    if (column_tiles > 1) {
        TILE_LOAD(tiles, 7, second, TILE_LINE);
        fetch_tile(b, 3);
        TILE_MULTIPLY(tiles, 1, 4, 7);
        fetch_tile(second, 0);
        beside_tiles(state, 1, vectors);
    }
    if (row_tiles > 1) {
        TILE_LOAD(tiles, 5, a + from->a_tile, from->a_row);
        fetch_tile(second, 1);
        TILE_MULTIPLY(tiles, 2, 5, 6);
        fetch_tile(second, 2);
        beside_tiles(state, 2, vectors);
        if (column_tiles > 1) {
            TILE_MULTIPLY(tiles, 3, 5, 7);
            fetch_tile(second, 3);
            beside_tiles(state, 3, vectors);
        }
    }
}

ALWAYS_INLINE void begin_tiles(struct tiles *tiles, const struct tile_block *block, int row_tiles,
                               int column_tiles) {
    const int64_t stride = block->sums_row * (int64_t)sizeof *block->sums;
    const float *sums = block->sums, *below = sums + TILE_ROWS * block->sums_row;
    if (!block->adds) {
        TILE_ZERO(tiles, 0);
        TILE_ZERO(tiles, 1);
        TILE_ZERO(tiles, 2);
        TILE_ZERO(tiles, 3);
        return;
    }
    TILE_LOAD(tiles, 0, sums, stride);
    if (column_tiles > 1) {
        TILE_LOAD(tiles, 1, sums + TILE_WORDS, stride);
    }
    if (row_tiles > 1) {
        TILE_LOAD(tiles, 2, below, stride);
        if (column_tiles > 1) {
            TILE_LOAD(tiles, 3, below + TILE_WORDS, stride);
        }
    }
}

ALWAYS_INLINE void end_tiles(struct tiles *tiles, const struct tile_block *block, int row_tiles,
                             int column_tiles) {
    const int64_t stride = block->sums_row * (int64_t)sizeof *block->sums;
    float *sums = block->sums, *below = sums + TILE_ROWS * block->sums_row;
    TILE_STORE(tiles, 0, sums, stride);
    if (column_tiles > 1) {
        TILE_STORE(tiles, 1, sums + TILE_WORDS, stride);
    }
    if (row_tiles > 1) {
        TILE_STORE(tiles, 2, below, stride);
        if (column_tiles > 1) {
            TILE_STORE(tiles, 3, below + TILE_WORDS, stride);
        }
    }
}

// Multiplies all steps; beside them, finishes the last block and fetches this one's results.
ALWAYS_INLINE void sum_tiles(struct tile_state *state, const struct tile_block *block,
                             struct tile_fetches fetches, struct prefetch_queue *prefetches,
                             int row_tiles, int column_tiles) {
    const int64_t turns = (block->steps + TILE_WORDS - 1) / TILE_WORDS;
    const int64_t rows = turns > 0 ? (TILE_BLOCK + turns - 1) / turns : 0;
    const int64_t vectors = turns > 0 ? (TILE_VECTORS * TILE_BLOCK + turns - 1) / turns : 0;
    struct tile_rest rest;
    begin_tiles(state->tiles, block, row_tiles, column_tiles);
    for (int64_t turn = 0; turn < turns; turn++) {
        const int64_t left = block->steps - turn * TILE_WORDS;
        struct tile_block from = {.a = block->a + turn * block->a_turn,
                                  .b = block->b + turn * TILE_BYTES,
                                  .a_row = block->a_row,
                                  .a_tile = block->a_tile,
                                  .b_panel = block->b_panel};
        fetch_operands(&fetches, block, from.a);
        prefetch_next_rows(prefetches);
        if (left < TILE_WORDS || !block->is_whole) {
            copy_rest_of_a(&rest, block, from.a, left);
            from.a = (const char *)rest.a;
            from.a_row = TILE_LINE;
            from.a_tile = TILE_BYTES;
        }
        if (left < TILE_WORDS) {
            copy_rest_of_b(&rest, block, from.b, left, column_tiles);
            from.b = (const char *)rest.b;
            from.b_panel = TILE_BYTES;
        }
        multiply_tiles(state, &from, vectors, row_tiles, column_tiles);
        fetch_result_rows(&fetches, rows);
    }
    end_tiles(state->tiles, block, row_tiles, column_tiles);
}

ALWAYS_INLINE void sum_block(struct tile_state *state, const struct tile_block *block,
                             const struct tile_fetches *fetches,
                             struct prefetch_queue *prefetches) {
    if (block->columns > VECTOR && block->rows > TILE_ROWS) {
        sum_tiles(state, block, *fetches, prefetches, 2, 2);
    } else if (block->columns > VECTOR) {
        sum_tiles(state, block, *fetches, prefetches, 1, 2);
    } else if (block->rows > TILE_ROWS) {
        sum_tiles(state, block, *fetches, prefetches, 2, 1);
    } else {
        sum_tiles(state, block, *fetches, prefetches, 1, 1);
    }
}

// --- results ------------------------------------------------------------------------------------

// Writes the sums of at most PRODUCT_ROWS rows, with the bias.
ALWAYS_INLINE void write_strip(const struct product *p, const float *from, int64_t row,
                               int64_t column, const struct block *block, int vectors) {
    __m512 sum[PRODUCT_ROWS][VECTORS];
    begin_sums(p, sum, row, column, block, vectors);
#pragma GCC unroll 8
    for (int i = 0; i < PRODUCT_ROWS; i++) {
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) {
            const float *added = from + i * TILE_BLOCK + j * VECTOR;
            sum[i][j] = _mm512_add_ps(sum[i][j], _mm512_loadu_ps(added));
        }
    }
    write_sums(p, sum, row, column, block, vectors);
}

ALWAYS_INLINE void write_block(const struct product *p, const struct tile_block *from, int64_t row,
                               int64_t column) {
    for (int64_t i = 0; i < from->rows; i += PRODUCT_ROWS) {
        const struct block block = {.rows = chunk_length(i, from->rows, PRODUCT_ROWS),
                                    .columns = from->columns};
        const float *sums = from->sums + i * TILE_BLOCK;
        if (from->columns > VECTOR) {
            write_strip(p, sums, row + i, column, &block, 2);
        } else {
            write_strip(p, sums, row + i, column, &block, 1);
        }
    }
}

// Whether the tiles can be loaded from and stored to c.
ALWAYS_INLINE int sums_are_result(const struct product *p) {
    return p->c.dtype == DTYPE_F32 && p->bias == NULL && p->row_bias == NULL &&
           p->factors == NULL && !has_epilogue(p);
}

ALWAYS_INLINE void begin_epilogue(const struct product *p, struct tile_state *state,
                                  const struct tile_block *block, int64_t row, int64_t column) {
    if (defers_epilogue(p) && p->c.dtype == DTYPE_BF16 && block->columns == TILE_BLOCK) {
        state->deferred = deferred_epilogue_of(p, row, column, block->rows);
        state->deferred_vectors = TILE_VECTORS * block->rows;
        return;
    }
    for (int64_t i = 0; has_epilogue(p) && i < block->rows; i += PRODUCT_ROWS) {
        epilogue_block(p, row + i, column, chunk_length(i, block->rows, PRODUCT_ROWS),
                       block->columns);
    }
}

// --- the product --------------------------------------------------------------------------------

// By the last byte of each line: what precedes it, if rows do not begin with a line, has been
// fetched for the columns before.
ALWAYS_INLINE void fetch_result(struct tile_fetches *fetches, struct mat m, int64_t row,
                                int64_t column) {
    const int64_t size = (int64_t)dtype_size(m.dtype), line = 64;
    for (int64_t at = line; at <= TILE_BLOCK * size; at += line) {
        fetches->result[fetches->results] = (char *)row_at(m, row, column) + at - 1;
        fetches->stride[fetches->results++] = m.stride * size;
    }
}

ALWAYS_INLINE void fetch_results(struct tile_fetches *fetches, const struct product *p, int64_t row,
                                 int64_t column) {
    const struct mat y = p->epilogue.y, u = p->epilogue.u;
    fetches->results = 0;
    if (p->result_cached) {
        return;
    }
    fetch_result(fetches, p->c, row, column);
    if (!mat_is_empty(u)) {
        fetch_result(fetches, u, row, column);
    } else if (!mat_is_empty(y) && y.data != p->c.data) {
        fetch_result(fetches, y, row, column);
    }
}

// Sums that begin and end in c, if need be by way of the block of sums.
ALWAYS_INLINE void block_in_place(const struct product *p, struct tile_state *state,
                                  struct tile_block *block, struct tile_fetches *fetches,
                                  int64_t row, int64_t column) {
    const int is_whole = block->rows % TILE_ROWS == 0 && block->columns % TILE_WORDS == 0;
    const struct mat sums = {state->sums, block->rows, block->columns, TILE_BLOCK, DTYPE_F32};
    const struct mat c = mat_columns(mat_rows(p->c, row, block->rows), column, block->columns);
    block->adds = p->accumulate;
    block->sums = is_whole ? row_at(c, 0, 0) : state->sums;
    block->sums_row = is_whole ? c.stride : TILE_BLOCK;
    for (int64_t i = 0; !is_whole && p->accumulate && i < c.rows; i++) {
        memcpy(row_at(sums, i, 0), row_at(c, i, 0), (size_t)c.cols * sizeof(float));
    }
    sum_block(state, block, fetches, p->prefetches);
    for (int64_t i = 0; !is_whole && i < c.rows; i++) {
        memcpy(row_at(c, i, 0), row_at(sums, i, 0), (size_t)c.cols * sizeof(float));
    }
}

ALWAYS_INLINE void block_of_tiles(const struct product *p, struct tile_state *state,
                                  struct tile_block *block, struct tile_fetches *fetches,
                                  int64_t row, int64_t column) {
    fetch_results(fetches, p, row, column);
    if (sums_are_result(p)) {
        block_in_place(p, state, block, fetches, row, column);
        return;
    }
    block->sums = state->sums;
    block->sums_row = TILE_BLOCK;
    sum_block(state, block, fetches, p->prefetches);
    write_block(p, block, row, column);
    finish_deferred_vectors(state);
    begin_epilogue(p, state, block, row, column);
}

// All rows of the columns [column, column + columns), at most TILE_BLOCK.
ALWAYS_INLINE void tile_columns(const struct product *p, struct tile_state *state, int64_t column,
                                int64_t columns) {
    const int64_t blocks = (p->c.rows + TILE_BLOCK - 1) / TILE_BLOCK;
    const int64_t a_tile = TILE_ROWS / PRODUCT_ROWS * p->a_strip;
    struct tile_block block = {.a_row = p->a_row,
                               .a_tile = a_tile,
                               .a_turn = TILE_WORDS * p->a_step,
                               .b_panel = p->depth * TILE_LINE,
                               .columns = columns,
                               .steps = p->last - p->first};
    const int64_t turns = (block.steps + TILE_WORDS - 1) / TILE_WORDS;
    struct tile_fetches fetches = {.a_distance = 0};
    block.b = (const char *)p->b + column / VECTOR * block.b_panel + p->first * TILE_LINE;
    if (!p->operands_cached && column + columns < p->c.cols) {
        fetches.next = block.b + TILE_VECTORS * block.b_panel;
        fetches.next_lines = (TILE_VECTORS * TILE_ROWS + blocks - 1) / blocks;
    }
    for (int64_t row = 0; row < p->c.rows; row += TILE_BLOCK) {
        const int fetches_a = column == 0 && !p->operands_cached && !p->a_is_tiles;
        block.a = (const char *)p->a + row / TILE_ROWS * a_tile;
        block.rows = chunk_length(row, p->c.rows, TILE_BLOCK);
        block.is_whole = p->a_is_tiles || block.rows % TILE_ROWS == 0;
        fetches.a_distance = fetches_a && row + TILE_BLOCK < p->c.rows ? 2 * a_tile : 0;
        block_of_tiles(p, state, &block, &fetches, row, column);
        fetches.next += turns * fetches.next_lines * TILE_LINE;
    }
}

ALWAYS_INLINE void product_of_tiles(const struct product *p, struct tiles *tiles) {
    _Alignas(64) float sums[TILE_BLOCK * TILE_BLOCK];
    struct tile_state state = {.tiles = tiles, .sums = sums};
    configure_tiles(tiles);
    for (int64_t column = 0; column < p->c.cols; column += TILE_BLOCK) {
        tile_columns(p, &state, column, chunk_length(column, p->c.cols, TILE_BLOCK));
    }
    release_tiles(tiles);
    finish_deferred_vectors(&state);
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

static void pack_columns_of_tiles(void *packed, struct mat x, int64_t first, int64_t last) {
    const int64_t panel = x.dtype == DTYPE_F32 ? product_panel(x.cols) : TILE_WORDS;
    pack_columns_in(packed, x, first, last, panel);
}

static void pack_rows_of_tiles(void *packed, struct mat x, int64_t first, int64_t last) {
    const int64_t panel = x.dtype == DTYPE_F32 ? product_panel(x.rows) : TILE_WORDS;
    pack_rows_in(packed, x, first, last, panel);
}

// Two tiles, one panel apart.
ALWAYS_INLINE void pack_two_tiles(uint32_t *to, int64_t panel, struct mat x, int64_t step,
                                  int64_t column) {
    const __mmask32 mask = pair_mask(x, column);
    const int64_t steps = product_steps(x.rows, x.dtype);
    __m512i words[2][TILE_WORDS];
#pragma GCC unroll 16
    for (int i = 0; i < TILE_WORDS; i++) {
        __m512i both[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        if (step + i < steps) {
            words_of(both, x, step + i, column, mask);
        }
        words[0][i] = both[0];
        words[1][i] = both[1];
    }
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
        if (column + part * TILE_ROWS < x.cols) {
            transpose_words(words[part]);
#pragma GCC unroll 16
            for (int i = 0; i < TILE_ROWS; i++) {
                _mm512_storeu_si512(to + part * panel + i * TILE_WORDS, words[part][i]);
            }
        }
    }
}

// As pack_strips, in bf16 in tiles: 16 columns of x, which are rows of op(a), by 16 words of the
// depth. Rows and words that x lacks are zeros.
static void pack_tiles(void *packed, struct mat x, int64_t first, int64_t k) {
    if (x.dtype == DTYPE_F32) {
        pack_strips(packed, x, first, k);
        return;
    }
    const int64_t steps = product_steps(x.rows, x.dtype), panel = product_tile_words(k);
    uint32_t *to = (uint32_t *)packed + product_steps(first, x.dtype) * TILE_ROWS;
    for (int64_t step = 0; step < steps; step += TILE_WORDS, to += TILE_ROWS * TILE_WORDS) {
        for (int64_t i = 0; i < TILE_WORDS; i++) {
            prefetch_step(x, step + TILE_WORDS + i, 0, x.cols);
        }
        for (int64_t column = 0; column < x.cols; column += PAIR) {
            pack_two_tiles(to + column / TILE_ROWS * panel, panel, x, step, column);
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
