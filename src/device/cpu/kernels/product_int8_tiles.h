// SPDX-License-Identifier: Apache-2.0
// Int8 products for AMX. A tile of sums has 16 rows and 16 outputs; a group of 64 columns is one
// multiplication of tiles, whose sums are then converted, scaled and added while the next group's
// are computed. What is left of a group, because of the copies of wide columns, is multiplied by
// AVX-512 then. The integers and all that follows them are those of product_int8.h.
#ifndef BERTH_CPU_KERNELS_PRODUCT_INT8_TILES_H
#define BERTH_CPU_KERNELS_PRODUCT_INT8_TILES_H

#include "device/cpu/kernels/product_int8.h"
#include "device/cpu/kernels/tiles.h"

enum { TILE_DEPTH = TILE_WORDS * INT8_STEP }; // columns that are multiplied at once
enum { TILE_BLOCKS = TILE_ROWS / INT8_ROWS }; // blocks of sums of a tile
enum { QUARTER = TILE_ROWS / 4 };             // rows that are added between two instructions

typedef int32_t tile_integers[TILE_ROWS][TILE_WORDS];

// 16 rows of a, and where their sums are added.
struct tile_rows {
    const unsigned char *a;
    int64_t depth;        // bytes from one row to the next
    struct block *blocks; // [TILE_BLOCKS]
};

// 16 outputs of a panel.
struct tile_strip {
    const signed char *b; // of the panel's step 0
    int64_t b_step;       // bytes from one step to the next
    const float *scales;  // of group 0
    int64_t width;        // scales from one group to the next
    int64_t column;       // of the panel
};

// What is fetched of the next panel for each group, because the processor would do so too late.
struct tile_fetch {
    const signed char *next;
    int64_t lines;
};

// The integers of a group without what is left of it, from `rest` to `end`.
struct tile_group {
    int32_t (*integers)[TILE_WORDS]; // [TILE_ROWS]
    int64_t rest, end;
    __m512 scales;
};

// --- sums ---------------------------------------------------------------------------------------

// Multiplies what is left of a group, converts, scales and adds: a quarter of the rows.
ALWAYS_INLINE void add_quarter(__m512 sums[TILE_ROWS], const struct tile_group *group,
                               const struct tile_strip *strip, const struct tile_rows *rows,
                               int quarter) {
    __m512i integers[QUARTER];
#pragma GCC unroll 4
    for (int i = 0; i < QUARTER; i++) {
        integers[i] = _mm512_load_si512(group->integers[quarter * QUARTER + i]);
    }
    for (int64_t at = group->rest; at < group->end; at += INT8_STEP) {
        const vector_columns columns = columns_at(strip->b + at / INT8_STEP * strip->b_step);
#pragma GCC unroll 4
        for (int i = 0; i < QUARTER; i++) {
            const vector_word word = word_at(rows->a + (quarter * QUARTER + i) * rows->depth + at);
            integers[i] = add_products(integers[i], word, columns);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < QUARTER; i++) {
        __m512 *sum = &sums[quarter * QUARTER + i];
        *sum = _mm512_add_ps(*sum, _mm512_mul_ps(_mm512_cvtepi32_ps(integers[i]), group->scales));
    }
}

// The integers of a group, in tile `n` with operands in the tiles `left` and `right`; the last
// group is added between the instructions of tiles. A group of less than a tile is the only one, so
// there is none to add.
#define SUM_GROUP(n, left, right)                                                                  \
    do {                                                                                           \
        TILE_ZERO(tiles, n);                                                                       \
        for (int64_t at = first; at < group->rest; at += TILE_DEPTH) {                             \
            const int is_first = at == first;                                                      \
            TILE_LOAD(tiles, left, rows->a + at, rows->depth);                                     \
            if (is_first) {                                                                        \
                add_quarter(sums, last, strip, rows, 0);                                           \
            }                                                                                      \
            TILE_LOAD(tiles, right, strip->b + at / INT8_STEP * strip->b_step, strip->b_step);     \
            if (is_first) {                                                                        \
                add_quarter(sums, last, strip, rows, 1);                                           \
            }                                                                                      \
            TILE_MULTIPLY_BYTES(tiles, n, left, right);                                            \
            if (is_first) {                                                                        \
                add_quarter(sums, last, strip, rows, 2);                                           \
            }                                                                                      \
        }                                                                                          \
        TILE_STORE(tiles, n, group->integers, sizeof group->integers[0]);                          \
    } while (0)

ALWAYS_INLINE void sum_group(struct tiles *tiles, const struct tile_strip *strip,
                             const struct tile_rows *rows, int64_t first, int is_odd,
                             __m512 sums[TILE_ROWS], const struct tile_group *last,
                             const struct tile_group *group) {
    if (is_odd) {
        SUM_GROUP(1, 4, 5);
    } else {
        SUM_GROUP(0, 2, 3);
    }
    add_quarter(sums, last, strip, rows, 3);
}

// The sums of 16 rows and 16 outputs stay in registers while the groups are added.
ALWAYS_INLINE void add_tile_groups(struct tiles *tiles, const struct tile_strip *strip,
                                   const struct tile_rows *rows, const struct int8_layout *layout,
                                   struct tile_fetch *fetch) {
    _Alignas(64) tile_integers integers[2] = {{{0}}};
    struct tile_group last = {.integers = integers[1], .scales = _mm512_setzero_ps()};
    __m512 sums[TILE_ROWS];
#pragma GCC unroll 16
    for (int i = 0; i < TILE_ROWS; i++) {
        sums[i] = _mm512_loadu_ps(rows->blocks[i / INT8_ROWS].sums[i % INT8_ROWS] + strip->column);
    }
    for (int64_t g = 0, first = 0; g < layout->groups; first = layout->ends[g++]) {
        const int64_t end = layout->ends[g], rest = first + (end - first) / TILE_DEPTH * TILE_DEPTH;
        const struct tile_group group = {integers[g % 2], rest, end,
                                         _mm512_loadu_ps(strip->scales + g * strip->width)};
        for (int64_t i = 0; i < fetch->lines; i++, fetch->next += 64) {
            _mm_prefetch(fetch->next, _MM_HINT_T1);
        }
        sum_group(tiles, strip, rows, first, g % 2 != 0, sums, &last, &group);
        last = group;
    }
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; quarter++) {
        add_quarter(sums, &last, strip, rows, quarter);
    }
#pragma GCC unroll 16
    for (int i = 0; i < TILE_ROWS; i++) {
        _mm512_storeu_ps(rows->blocks[i / INT8_ROWS].sums[i % INT8_ROWS] + strip->column, sums[i]);
    }
}

// --- the product --------------------------------------------------------------------------------

// 16 rows of a panel of `columns` outputs.
ALWAYS_INLINE void rows_of_panel(const struct int8_product *p, struct tiles *tiles,
                                 const struct tile_rows *rows, int64_t row, int64_t panel,
                                 int64_t columns, struct tile_fetch *fetch) {
    const int64_t width = cpu_round_up(columns, TILE_WORDS);
    for (int i = 0; i < TILE_BLOCKS; i++) {
        const int64_t own = row + i * INT8_ROWS;
        rows->blocks[i].width = width;
        begin_block(p, &rows->blocks[i], own < p->c.rows ? own : p->c.rows - 1, panel, width);
        prefetch_block(p->c, own, panel, INT8_ROWS, INT8_PANEL, 1);
    }
    for (int64_t column = 0; column < width; column += TILE_WORDS) {
        const struct tile_strip strip = {.b = p->panels + panel * p->a->depth + column * INT8_STEP,
                                         .b_step = width * INT8_STEP,
                                         .scales = p->scales + panel * p->layout->groups + column,
                                         .width = width,
                                         .column = column};
        add_tile_groups(tiles, &strip, rows, p->layout, fetch);
    }
    for (int i = 0; i < TILE_BLOCKS && row + i * INT8_ROWS < p->c.rows; i++) {
        write_block(p, &rows->blocks[i], row + i * INT8_ROWS, panel, columns);
    }
}

ALWAYS_INLINE void tile_panel_of(const struct int8_product *p, struct tiles *tiles, int64_t panel,
                                 int64_t columns) {
    const int64_t depth = p->a->depth, width = cpu_round_up(columns, TILE_WORDS);
    const int64_t parts =
        cpu_round_up(p->c.rows, TILE_ROWS) / TILE_ROWS * (width / TILE_WORDS) * p->layout->groups;
    struct tile_fetch fetch = {.next = p->panels + (panel + columns) * depth};
    struct block blocks[TILE_BLOCKS];
    if (panel + columns < p->c.cols) {
        fetch.lines = (depth * width / 64 + parts - 1) / parts;
    }
    for (int64_t row = 0; row < p->c.rows; row += TILE_ROWS) {
        const struct tile_rows rows = {
            .a = p->a->values + row * depth, .depth = depth, .blocks = blocks};
        rows_of_panel(p, tiles, &rows, row, panel, columns, &fetch);
    }
}

ALWAYS_INLINE void product_of_int8_tiles(const struct int8_product *p, struct tiles *tiles) {
    configure_tiles(tiles);
    for (int64_t panel = 0; panel < p->c.cols; panel += INT8_PANEL) {
        tile_panel_of(p, tiles, panel, chunk_length(panel, p->c.cols, INT8_PANEL));
    }
    release_tiles(tiles);
}

static void product_int8_tiles(const struct int8_product *p) {
    product_of_int8_tiles(p, NULL);
}

static void product_int8_emulated_tiles(const struct int8_product *p) {
    struct tiles tiles;
    product_of_int8_tiles(p, &tiles);
}

// --- the peak -----------------------------------------------------------------------------------

static double peak_int8_tiles(int64_t rounds) {
    struct tiles *tiles = NULL;
    const signed char operand[TILE_WORDS][TILE_DEPTH] = {{1}};
    configure_tiles(tiles);
    TILE_ZERO(tiles, 0);
    TILE_ZERO(tiles, 1);
    TILE_LOAD(tiles, 4, operand, sizeof operand[0]);
    TILE_LOAD(tiles, 5, operand, sizeof operand[0]);
    for (int64_t round = 0; round < rounds; round++) {
        TILE_MULTIPLY_BYTES(tiles, 0, 4, 5);
        TILE_MULTIPLY_BYTES(tiles, 1, 4, 5);
    }
    release_tiles(tiles);
    return (double)rounds * 2 * TILE_ROWS * TILE_WORDS * TILE_DEPTH * 2;
}

#endif
