// SPDX-License-Identifier: Apache-2.0
// Linear layers with weights in int8. Rows are cut into tiles, and where these are fewer than the
// threads, outputs into parts; a thread quantizes the rows of its tile, multiplies, and applies the
// activation while the results are in its cache. Sums are integers, so results do not depend on how
// the work is cut.
#include "core/int8.h"
#include "cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define TILE_ROWS 192
#define TILE_LEAST 64                 // rows of a tile where there are as many
#define PART_COLUMNS (2 * INT8_PANEL) // outputs that are computed before their activation
#define ALIGNMENT 64

// --- packed matrices ----------------------------------------------------------------------------

// The parts of a matrix's memory; outputs are rounded up to whole vectors.
struct parts {
    float *scales;    // [outputs]
    int32_t *sums;    // [outputs]
    int32_t *columns; // [wide]
    signed char *panels;
    size_t bytes;
    int64_t depth;
};

static char *take(size_t *used, void *base, size_t bytes) {
    char *part = (char *)base + *used;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return part;
}

static struct parts parts_of(const struct int8_matrix *m) {
    const size_t outputs = (size_t)int8_round_up(m->rows, 16);
    struct parts parts = {.depth = int8_depth(m->cols, m->wide)};
    parts.scales = (float *)take(&parts.bytes, m->data, outputs * sizeof *parts.scales);
    parts.sums = (int32_t *)take(&parts.bytes, m->data, outputs * sizeof *parts.sums);
    parts.columns = (int32_t *)take(&parts.bytes, m->data, (size_t)m->wide * sizeof *parts.columns);
    parts.panels = (signed char *)take(&parts.bytes, m->data, outputs * (size_t)parts.depth);
    return parts;
}

size_t cpu_int8_bytes(struct device *dev, const struct int8_matrix *shape) {
    const struct int8_matrix nowhere = {NULL, shape->rows, shape->cols, shape->wide};
    (void)dev;
    return parts_of(&nowhere).bytes;
}

// Where the weight of an output and a place of the depth is.
static signed char *weight_at(const struct int8_matrix *m, const struct parts *parts, int64_t row,
                              int64_t place) {
    const int64_t panel = row / INT8_PANEL * INT8_PANEL;
    const int64_t width = int8_round_up(cpu_piece(panel, m->rows, INT8_PANEL), 16);
    return parts->panels + panel * parts->depth +
           (place / INT8_STEP * width + row - panel) * INT8_STEP + place % INT8_STEP;
}

static void pack_row(const struct int8_matrix *m, const struct parts *parts, int64_t row,
                     const float *w, signed char *q) {
    int32_t sum = 0;
    parts->scales[row] = int8_quantize(w, m->cols, q);
    for (int64_t k = 0; k < m->cols; k++) {
        *weight_at(m, parts, row, k) = q[k];
        sum += q[k];
    }
    parts->sums[row] = sum;
}

void cpu_int8_pack(struct device *dev, const struct int8_matrix *to, int64_t first, struct mat w) {
    struct cpu *cpu = cpu_of(dev);
    const struct parts parts = parts_of(to);
    const size_t each = (size_t)int8_round_up(to->cols, ALIGNMENT);
    if (!cpu_grow(cpu, (void **)&cpu->quantized, &cpu->quantized_bytes,
                  (size_t)cpu->threads * each)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t row = 0; row < w.rows; row++) {
        signed char *q = (signed char *)cpu->quantized + (size_t)omp_get_thread_num() * each;
        pack_row(to, &parts, first + row, (const float *)w.data + row * w.stride, q);
    }
}

void cpu_int8_widen(struct device *dev, const struct int8_matrix *to, const int32_t *columns) {
    struct cpu *cpu = cpu_of(dev);
    const struct parts parts = parts_of(to);
    memcpy(parts.columns, columns, (size_t)to->wide * sizeof *columns);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t row = 0; row < to->rows; row++) {
        int64_t place = to->cols;
        for (int64_t i = 0; i < to->wide; i++) {
            const signed char weight = *weight_at(to, &parts, row, columns[i]);
            for (int copy = 1; copy < INT8_COPIES; copy++, place++) {
                *weight_at(to, &parts, row, place) = weight;
            }
            parts.sums[row] += (INT8_COPIES - 1) * weight;
        }
    }
}

// --- y = f(x * w^T + bias) ----------------------------------------------------------------------

// A thread's slice of the device's scratch memory.
struct slice {
    struct int8_rows rows; // of TILE_ROWS
    float *results;        // [TILE_ROWS][PART_COLUMNS]
    size_t bytes;
};

static struct slice slice_of(void *base, int64_t columns, int64_t depth) {
    struct slice s = {.rows = {.depth = depth}};
    s.rows.values = (unsigned char *)take(&s.bytes, base, (size_t)(TILE_ROWS * depth));
    s.rows.scales = (float *)take(&s.bytes, base, TILE_ROWS * sizeof(float));
    s.rows.zeros = (int32_t *)take(&s.bytes, base, TILE_ROWS * sizeof(int32_t));
    s.rows.buffer = (float *)take(&s.bytes, base, (size_t)columns * sizeof(float));
    s.results = (float *)take(&s.bytes, base, TILE_ROWS * PART_COLUMNS * sizeof(float));
    return s;
}

struct linear {
    struct mat y, x;
    const struct int8_matrix *w;
    struct parts parts;
    const float *bias;
    enum activation activation;
    int64_t tile_rows, tile_count;
    int64_t part_columns, part_count;
};

static struct linear linear_of(const struct cpu *cpu, struct mat y, struct mat x) {
    struct linear l = {.y = y, .x = x};
    const int64_t threads = cpu->threads;
    l.tile_count = cpu_blocks(y.rows, TILE_ROWS * threads) * threads;
    l.tile_rows = int8_round_up(cpu_blocks(y.rows, l.tile_count), INT8_ROWS);
    l.tile_rows = l.tile_rows > TILE_LEAST ? l.tile_rows : TILE_LEAST;
    l.tile_count = cpu_blocks(y.rows, l.tile_rows);
    l.part_count = cpu_blocks(threads, l.tile_count);
    l.part_columns = int8_round_up(cpu_blocks(y.cols, l.part_count), PART_COLUMNS);
    l.part_count = cpu_blocks(y.cols, l.part_columns);
    return l;
}

// The outputs [first, first + y.cols) of the rows of a tile.
static void multiply(const struct cpu *cpu, const struct linear *l, const struct slice *slice,
                     struct mat y, int64_t first) {
    const int plain = l->activation == ACTIVATION_LINEAR;
    const struct mat results = mat_of(slice->results, y.rows, y.cols, DTYPE_F32);
    const struct int8_product product = {.c = plain ? y : results,
                                         .a = &slice->rows,
                                         .panels = l->parts.panels + first * l->parts.depth,
                                         .scales = l->parts.scales + first,
                                         .sums = l->parts.sums + first,
                                         .bias = l->bias == NULL ? NULL : l->bias + first};
    cpu->int8->product(&product);
    if (!plain) {
        cpu->kernels->activation_forward(y, results, l->activation);
    }
}

static void run_tile(const struct cpu *cpu, const struct linear *l, const struct slice *slice,
                     int64_t index) {
    const int64_t row = index / l->part_count * l->tile_rows;
    const int64_t first = index % l->part_count * l->part_columns;
    const int64_t count = cpu_piece(row, l->y.rows, l->tile_rows);
    const int64_t end = first + cpu_piece(first, l->y.cols, l->part_columns);
    const struct int8_wide wide = {l->parts.columns, l->w->wide};
    struct slice own = *slice;
    own.rows.count = count;
    cpu->int8->quantize(&own.rows, mat_rows(l->x, row, count), &wide);
    const struct mat y = mat_rows(l->y, row, count);
    for (int64_t at = first; at < end; at += PART_COLUMNS) {
        multiply(cpu, l, &own, mat_columns(y, at, cpu_piece(at, end, PART_COLUMNS)), at);
    }
}

void cpu_linear_int8_forward(struct device *dev, struct mat y, struct mat x,
                             const struct int8_matrix *w, const float *bias,
                             enum activation activation) {
    struct cpu *cpu = cpu_of(dev);
    struct linear l = linear_of(cpu, y, x);
    l.w = w;
    l.parts = parts_of(w);
    l.bias = bias;
    l.activation = activation;
    const size_t each = slice_of(NULL, x.cols, l.parts.depth).bytes;
    if (cpu->status != BERTH_OK || !cpu_grow(cpu, (void **)&cpu->quantized, &cpu->quantized_bytes,
                                             (size_t)cpu->threads * each)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t i = 0; i < l.tile_count * l.part_count; i++) {
        const struct slice slice =
            slice_of(cpu->quantized + (size_t)omp_get_thread_num() * each, x.cols, l.parts.depth);
        run_tile(cpu, &l, &slice, i);
    }
}

size_t cpu_quantized_bytes(const struct cpu *cpu, const struct device_shape *shape) {
    const int64_t widest =
        shape->hidden > shape->intermediate ? shape->hidden : shape->intermediate;
    return shape->int8 ? (size_t)cpu->threads *
                             slice_of(NULL, widest, int8_depth(widest, DEVICE_INT8_WIDE)).bytes
                       : 0;
}
