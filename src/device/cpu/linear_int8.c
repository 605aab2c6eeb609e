// SPDX-License-Identifier: Apache-2.0
// Linear layers with int8 weights. Rows are split into tiles and, if there are fewer tiles than
// threads, outputs into chunks. A thread quantizes the rows of its tile, multiplies, and applies
// the activation while the results are in its cache. Sums of a group are integers, and groups are
// added in one order, so results do not depend on how the work is split.
#include "core/int8.h"
#include "device/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define TILE_ROWS 192
#define TILE_MIN 64                    // minimum rows of a tile, if there are as many
#define CHUNK_COLUMNS (2 * INT8_PANEL) // the columns of a chunk are a multiple of this
#define ALIGNMENT 64

// --- packed matrices ----------------------------------------------------------------------------

// The arrays in the memory of a packed matrix; outputs are rounded up to whole vectors.
struct sections {
    float *scales; // [outputs][groups], in panels
    float *sums;   // [outputs]
    int32_t *ends; // [groups]
    int32_t *wide; // [wide]
    signed char *panels;
    size_t bytes;
    int64_t depth, groups;
};

static char *carve(size_t *used, void *base, size_t bytes) {
    char *array = (char *)base + *used;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return array;
}

static struct sections sections_of(const struct int8_matrix *m) {
    const size_t outputs = (size_t)cpu_round_up(m->rows, 16), groups = (size_t)int8_groups(m->cols);
    struct sections sections = {.depth = int8_depth(m->cols, m->wide), .groups = (int64_t)groups};
    sections.scales =
        (float *)carve(&sections.bytes, m->data, outputs * groups * sizeof *sections.scales);
    sections.sums = (float *)carve(&sections.bytes, m->data, outputs * sizeof *sections.sums);
    sections.ends = (int32_t *)carve(&sections.bytes, m->data, groups * sizeof *sections.ends);
    sections.wide =
        (int32_t *)carve(&sections.bytes, m->data, (size_t)m->wide * sizeof *sections.wide);
    sections.panels =
        (signed char *)carve(&sections.bytes, m->data, outputs * (size_t)sections.depth);
    return sections;
}

size_t cpu_int8_bytes(struct device *dev, const struct int8_matrix *shape) {
    const struct int8_matrix nowhere = {NULL, shape->rows, shape->cols, shape->wide};
    (void)dev;
    return sections_of(&nowhere).bytes;
}

// A panel of a matrix.
struct panel {
    signed char *weights; // [depth / INT8_STEP][width][INT8_STEP]
    float *scales;        // [groups][width]
    int64_t first, width; // outputs, including padding to whole vectors
};

static struct panel panel_of(const struct int8_matrix *m, const struct sections *sections,
                             int64_t row) {
    const int64_t first = row / INT8_PANEL * INT8_PANEL;
    return (struct panel){.weights = sections->panels + first * sections->depth,
                          .scales = sections->scales + first * sections->groups,
                          .first = first,
                          .width = cpu_round_up(cpu_chunk_length(first, m->rows, INT8_PANEL), 16)};
}

// The address of the weight of output `row` at depth k.
static signed char *weight_at(const struct panel *panel, int64_t row, int64_t k) {
    return panel->weights + (k / INT8_STEP * panel->width + row - panel->first) * INT8_STEP +
           k % INT8_STEP;
}

// A thread's memory for a quantized row.
struct quantized {
    float *scales;  // [groups]
    signed char *q; // [columns]
    size_t bytes;
};

static struct quantized quantized_of(void *base, int64_t columns) {
    struct quantized row = {.bytes = 0};
    row.scales = (float *)carve(&row.bytes, base, (size_t)int8_groups(columns) * sizeof(float));
    row.q = (signed char *)carve(&row.bytes, base, (size_t)columns);
    return row;
}

static void pack_row(const struct int8_matrix *m, const struct sections *sections, int64_t row,
                     const signed char *q, const float *scales) {
    const struct panel panel = panel_of(m, sections, row);
    const int64_t group = int8_group(m->cols);
    double sum = 0;
    const int64_t whole = m->cols / INT8_STEP * INT8_STEP;
    for (int64_t k = 0; k < whole; k += INT8_STEP) {
        memcpy(weight_at(&panel, row, k), q + k, INT8_STEP);
    }
    if (whole < m->cols) {
        memcpy(weight_at(&panel, row, whole), q + whole, (size_t)(m->cols - whole));
    }
    for (int64_t g = 0; g < sections->groups; g++) {
        int32_t group_sum = 0;
        for (int64_t k = g * group; k < (g + 1) * group; k++) {
            group_sum += q[k];
        }
        panel.scales[g * panel.width + row - panel.first] = scales[g];
        sum += (double)scales[g] * group_sum;
    }
    sections->sums[row] = (float)sum;
}

void cpu_int8_pack(struct device *dev, const struct int8_matrix *to, int64_t first, struct mat w,
                   const float *scales) {
    struct cpu *cpu = cpu_of(dev);
    const struct sections sections = sections_of(to);
    const size_t each = quantized_of(NULL, to->cols).bytes;
    if (!cpu_grow(cpu, (void **)&cpu->quantized, &cpu->quantized_bytes,
                  (size_t)cpu->threads * each)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t row = 0; row < w.rows; row++) {
        if (w.dtype == DTYPE_I8) {
            pack_row(to, &sections, first + row, (const signed char *)w.data + row * w.stride,
                     scales + row * sections.groups);
            continue;
        }
        const struct quantized own =
            quantized_of(cpu->quantized + (size_t)omp_get_thread_num() * each, to->cols);
        int8_quantize((const float *)w.data + row * w.stride, to->cols, own.q, own.scales);
        pack_row(to, &sections, first + row, own.q, own.scales);
    }
}

static struct int8_layout layout_of(const struct int8_matrix *m, const struct sections *sections) {
    return (struct int8_layout){.columns = m->cols,
                                .groups = sections->groups,
                                .ends = sections->ends,
                                .wide = sections->wide,
                                .wide_count = m->wide};
}

static void find_ends(const struct int8_matrix *m, const struct sections *sections) {
    const int64_t group = int8_group(m->cols);
    int64_t end = 0, wide = 0;
    for (int64_t g = 0; g < sections->groups; g++) {
        int64_t count = group;
        for (; wide < m->wide && sections->wide[wide] < (g + 1) * group; wide++) {
            count += INT8_COPIES - 1;
        }
        end += cpu_round_up(count, INT8_STEP);
        sections->ends[g] = (int32_t)end;
    }
}

static int64_t begin_of(const struct int8_layout *layout, int64_t group) {
    return group > 0 ? layout->ends[group - 1] : 0;
}

// Moves the groups of a panel, the last one first, to make room for the copies of wide columns.
static void spread_panel(const struct int8_layout *layout, const struct panel *panel) {
    const int64_t columns = layout->columns / layout->groups, width = panel->width;
    const int64_t own = cpu_round_up(columns, INT8_STEP);
    for (int64_t g = layout->groups - 1; g >= 0; g--) {
        signed char *to = panel->weights + begin_of(layout, g) * width;
        memmove(to, panel->weights + g * columns * width, (size_t)(own * width));
        memset(to + own * width, 0,
               (size_t)((layout->ends[g] - begin_of(layout, g) - own) * width));
    }
}

// Writes the weights of an output for the additional copies of wide columns.
static void copy_wide(const struct int8_layout *layout, const struct sections *sections,
                      const struct panel *panel, int64_t row) {
    const int64_t columns = layout->columns / layout->groups;
    int64_t wide = 0;
    for (int64_t g = 0; g < layout->groups; g++) {
        const int64_t begin = begin_of(layout, g), first = g * columns;
        const float scale = panel->scales[g * panel->width + row - panel->first];
        int64_t k = begin + columns;
        for (; wide < layout->wide_count && layout->wide[wide] < first + columns; wide++) {
            const signed char weight = *weight_at(panel, row, begin + layout->wide[wide] - first);
            for (int copy = 1; copy < INT8_COPIES; copy++, k++) {
                *weight_at(panel, row, k) = weight;
            }
            sections->sums[row] += (float)((INT8_COPIES - 1) * weight) * scale;
        }
    }
}

void cpu_int8_finish(struct device *dev, const struct int8_matrix *to, const int32_t *columns) {
    struct cpu *cpu = cpu_of(dev);
    const struct sections sections = sections_of(to);
    const struct int8_layout layout = layout_of(to, &sections);
    for (int64_t i = 0; i < to->wide; i++) {
        sections.wide[i] = columns[i];
    }
    find_ends(to, &sections);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t first = 0; first < to->rows; first += INT8_PANEL) {
        const struct panel panel = panel_of(to, &sections, first);
        spread_panel(&layout, &panel);
        for (int64_t row = first; row < first + cpu_chunk_length(first, to->rows, INT8_PANEL);
             row++) {
            copy_wide(&layout, &sections, &panel, row);
        }
    }
}

// --- y = f(x * w^T + bias) ----------------------------------------------------------------------

// A thread's slice of the device's scratch memory.
struct slice {
    struct int8_rows rows; // of TILE_ROWS
    size_t bytes;
};

static struct slice slice_of(void *base, int64_t columns, int64_t depth) {
    struct slice s = {.rows = {.depth = depth}};
    s.rows.values = (unsigned char *)carve(&s.bytes, base, (size_t)(TILE_ROWS * depth));
    s.rows.scales = (float *)carve(&s.bytes, base, TILE_ROWS * sizeof(float));
    s.rows.zeros = (int32_t *)carve(&s.bytes, base, TILE_ROWS * sizeof(int32_t));
    s.rows.buffer = (float *)carve(&s.bytes, base, (size_t)columns * sizeof(float));
    return s;
}

struct linear {
    struct mat y, x;
    struct sections sections;
    struct int8_layout layout;
    const float *bias;
    enum activation activation;
    int64_t tile_rows, tile_count;
    int64_t chunk_columns, chunk_count;
};

static struct linear linear_of(const struct cpu *cpu, struct mat y, struct mat x) {
    struct linear l = {.y = y, .x = x};
    const int64_t threads = cpu->threads;
    l.tile_count = cpu_blocks(y.rows, TILE_ROWS * threads) * threads;
    l.tile_rows = cpu_round_up(cpu_blocks(y.rows, l.tile_count), INT8_ROWS);
    l.tile_rows = l.tile_rows > TILE_MIN ? l.tile_rows : TILE_MIN;
    l.tile_count = cpu_blocks(y.rows, l.tile_rows);
    l.chunk_count = cpu_blocks(threads, l.tile_count);
    l.chunk_columns = cpu_round_up(cpu_blocks(y.cols, l.chunk_count), CHUNK_COLUMNS);
    l.chunk_count = cpu_blocks(y.cols, l.chunk_columns);
    return l;
}

// The outputs [first, first + y.cols) of some rows.
static void multiply(const struct cpu *cpu, const struct linear *l, const struct int8_rows *rows,
                     struct mat y, int64_t first) {
    const int plain = l->activation == ACTIVATION_LINEAR;
    const struct int8_product product = {.c = y,
                                         .kernels = plain ? NULL : cpu->kernels,
                                         .activation = l->activation,
                                         .a = rows,
                                         .layout = &l->layout,
                                         .panels = l->sections.panels + first * l->sections.depth,
                                         .scales = l->sections.scales + first * l->sections.groups,
                                         .sums = l->sections.sums + first,
                                         .bias = l->bias == NULL ? NULL : l->bias + first};
    cpu->int8->product(&product);
}

static void run_tile(const struct cpu *cpu, const struct linear *l, const struct slice *slice,
                     int64_t index) {
    const int64_t row = index / l->chunk_count * l->tile_rows;
    const int64_t first = index % l->chunk_count * l->chunk_columns;
    const int64_t count = cpu_chunk_length(row, l->y.rows, l->tile_rows);
    const int64_t columns = cpu_chunk_length(first, l->y.cols, l->chunk_columns);
    struct int8_rows rows = slice->rows;
    rows.count = count;
    cpu->int8->quantize(&rows, mat_rows(l->x, row, count), &l->layout);
    multiply(cpu, l, &rows, mat_columns(mat_rows(l->y, row, count), first, columns), first);
}

void cpu_linear_int8_forward(struct device *dev, struct mat y, struct mat x,
                             const struct int8_matrix *w, const float *bias,
                             enum activation activation) {
    struct cpu *cpu = cpu_of(dev);
    struct linear l = linear_of(cpu, y, x);
    l.sections = sections_of(w);
    l.layout = layout_of(w, &l.sections);
    l.bias = bias;
    l.activation = activation;
    const size_t each = slice_of(NULL, x.cols, l.sections.depth).bytes;
    if (cpu->status != BERTH_OK || !cpu_grow(cpu, (void **)&cpu->quantized, &cpu->quantized_bytes,
                                             (size_t)cpu->threads * each)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t i = 0; i < l.tile_count * l.chunk_count; i++) {
        const struct slice slice = slice_of(cpu->quantized + (size_t)omp_get_thread_num() * each,
                                            x.cols, l.sections.depth);
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
