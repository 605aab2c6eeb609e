// SPDX-License-Identifier: Apache-2.0
// Linear layers: products split into tiles of rows (forward, dx) or of outputs (dw), each a
// single-threaded product, with the element-wise work done on each block of sums while it is in the
// cache.
#include "core/error.h"
#include "device/cpu/cpu.h"

#include <assert.h>
#include <omp.h>
#include <string.h>

// Rows split into tiles of nearly equal size: the first `larger` have one more unit than the
// others, and the last may be shorter.
struct tiling {
    int64_t total, count, units, larger; // units of a smaller tile
};

static struct tiling tiling_of(int64_t total, int64_t limit) {
    const int64_t units = cpu_blocks(total, CPU_TILE_UNIT), group = CPU_TILE_GROUP;
    int64_t count = group * cpu_blocks(units * CPU_TILE_UNIT, group * limit);
    count = count < units ? count : units;
    return (struct tiling){total, count, units / count, units % count};
}

static int64_t tile_first(const struct tiling *c, int64_t index) {
    int64_t larger = index < c->larger ? index : c->larger;
    return (index * c->units + larger) * CPU_TILE_UNIT;
}

static int64_t tile_size(const struct tiling *c, int64_t index) {
    int64_t first = tile_first(c, index), end = tile_first(c, index + 1);
    return (end < c->total ? end : c->total) - first;
}

// Reserves the threads' memory for a product and others with fewer rows; 0 after an error.
static int reserve_product(struct cpu *cpu, const struct gemm_shape *shape) {
    struct berth_error error;
    const enum berth_status status =
        gemm_reserve(cpu->gemm, gemm_scratch_bytes(cpu->gemm, shape), &error);
    if (status != BERTH_OK) {
        cpu_fail(cpu, status, &error);
    }
    return cpu->status == BERTH_OK;
}

// Packs b, which all tiles read; NULL after an error.
static const void *pack(struct cpu *cpu, const struct gemm_shape *shape, const void *b) {
    if (!cpu_grow(cpu, (void **)&cpu->packed, &cpu->packed_bytes, gemm_pack_bytes(shape))) {
        return NULL;
    }
    gemm_pack(cpu->gemm, shape, b, cpu->packed);
    return cpu->packed;
}

// --- y = x * op(w) (+ bias) ---------------------------------------------------------------------

struct tiles {
    struct mat y, x, w;
    int w_transposed;
    int w_is_packed; // by cpu_pack
    const float *bias;
    int bias_is_of_rows;              // [rows of y], not [columns]
    struct tiling tiling;             // of the rows
    const void *packed;               // w in the kernels' layout, or in place
    struct product_epilogue epilogue; // sums: those of the first tile, followed by the others'
};

static struct tiles tiles_of(struct mat y, struct mat x, struct mat w, int w_transposed,
                             const float *bias) {
    assert(mat_check(&y) == NULL && mat_check(&x) == NULL && mat_check(&w) == NULL);
    struct tiles t = {.y = y, .x = x, .w = w, .w_transposed = w_transposed, .bias = bias};
    t.tiling = tiling_of(y.rows, CPU_TILE_ROWS);
    return t;
}

// A b that a product of so many rows in all reads where it is.
static struct gemm_shape in_place(struct gemm_shape shape, int64_t rows) {
    shape.b_in_place = rows <= GEMM_FEW_ROWS && gemm_reads_in_place(&shape);
    return shape;
}

static struct gemm_shape tile_shape(const struct tiles *t, int64_t index) {
    const struct gemm_shape shape = {
        .m = tile_size(&t->tiling, index),
        .n = t->y.cols,
        .k = t->x.cols,
        .lda = t->x.stride,
        .ldb = t->w.stride,
        .ldc = t->y.stride,
        .type = t->x.dtype,
        .c_type = t->y.dtype,
        .b_transposed = t->w_transposed,
        .bias = t->bias != NULL && !t->bias_is_of_rows,
        .row_bias = t->bias != NULL && t->bias_is_of_rows,
    };
    return in_place(shape, t->y.rows);
}

// Reserves memory for all tiles and packs w; 0 after an error.
static int prepare_tiles(struct cpu *cpu, struct tiles *t) {
    const struct gemm_shape first = tile_shape(t, 0);
    const int packs = !t->w_is_packed && !first.b_in_place;
    t->packed = reserve_product(cpu, &first) && packs ? pack(cpu, &first, t->w.data) : t->w.data;
    return cpu->status == BERTH_OK;
}

static struct mat tile_of(const struct tiles *t, struct mat m, int64_t index) {
    return mat_rows(m, tile_first(&t->tiling, index), tile_size(&t->tiling, index));
}

static struct product_epilogue tile_epilogue(const struct tiles *t, int64_t index) {
    struct product_epilogue epilogue = product_epilogue_rows(
        t->epilogue, tile_first(&t->tiling, index), tile_size(&t->tiling, index));
    epilogue.sums = epilogue.sums == NULL ? NULL : epilogue.sums + index * t->y.cols;
    return epilogue;
}

static struct gemm_operands tile_operands(const struct tiles *t, int64_t index) {
    return (struct gemm_operands){
        .a = tile_of(t, t->x, index).data,
        .b = t->packed,
        .c = tile_of(t, t->y, index).data,
        .bias = t->bias_is_of_rows && t->bias != NULL ? t->bias + tile_first(&t->tiling, index)
                                                      : t->bias,
        .epilogue = tile_epilogue(t, index),
    };
}

// A work item of a thread: the columns [first, end) of a tile.
struct tile_slice {
    int64_t tile, first, end;
};

// If there are fewer tiles than threads, several threads share a tile. No sum depends on this: a
// kernel sums each element of y independently.
static int64_t slices_per_tile(const struct cpu *cpu, const struct tiles *t, int64_t block) {
    const int64_t blocks = cpu_blocks(t->y.cols, block);
    const int64_t wanted = 2 * cpu->threads / t->tiling.count;
    return wanted < 1 || cpu->threads == 1 ? 1 : wanted < blocks ? wanted : blocks;
}

static struct tile_slice tile_slice_of(const struct tiles *t, int64_t block, int64_t slices,
                                       int64_t index) {
    const int64_t which = index % slices, cols = t->y.cols;
    const int64_t blocks = cpu_blocks(cols, block), end = (which + 1) * blocks / slices * block;
    return (struct tile_slice){index / slices, which * blocks / slices * block,
                               end < cols ? end : cols};
}

static void run_prepared(struct cpu *cpu, const struct tiles *t) {
    const struct gemm_shape first = tile_shape(t, 0);
    const int64_t block = gemm_column_block(&first), slices = slices_per_tile(cpu, t, block);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t i = 0; i < t->tiling.count * slices; i++) {
        const struct tile_slice slice = tile_slice_of(t, block, slices, i);
        const struct gemm_shape shape = tile_shape(t, slice.tile);
        const struct gemm_operands operands = tile_operands(t, slice.tile);
        gemm_run_columns(cpu->gemm, &shape, omp_get_thread_num(), &operands, slice.first,
                         slice.end);
    }
}

static void run_tiles(struct cpu *cpu, struct tiles t) {
    if (prepare_tiles(cpu, &t)) {
        run_prepared(cpu, &t);
    }
}

// The same of few rows, computed as y^T = w x^T: x is packed, and w is read where it is. The bytes
// are the same, because each element is the same sum.
static void run_transposed(struct cpu *cpu, struct mat y, struct mat x, struct mat w,
                           const float *bias) {
    const size_t bytes = (size_t)(y.rows * y.cols) * sizeof(float);
    if (!cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes, bytes)) {
        return;
    }
    struct tiles t = tiles_of(mat_of(cpu->partials, y.cols, y.rows, DTYPE_F32), w, x, 1, bias);
    t.bias_is_of_rows = 1;
    run_tiles(cpu, t);
    for (int64_t row = 0; row < y.rows; row++) {
        float *to = mat_rows(y, row, 1).data;
        for (int64_t column = 0; column < y.cols; column++) {
            to[column] = cpu->partials[column * y.rows + row];
        }
    }
}

void cpu_linear_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                        const float *bias) {
    const int is_f32 = x.dtype == DTYPE_F32 && y.dtype == DTYPE_F32;
    if (is_f32 && y.rows <= GEMM_FEW_ROWS && y.rows < w.rows) {
        run_transposed(cpu_of(dev), y, x, w, bias);
    } else {
        run_tiles(cpu_of(dev), tiles_of(y, x, w, 1, bias));
    }
}

void cpu_linear_backward_input(struct device *dev, struct mat dx, struct mat dy, struct mat w) {
    run_tiles(cpu_of(dev), tiles_of(dx, dy, w, 0, NULL));
}

void cpu_linear_gelu_forward(struct device *dev, struct mat y, struct mat u, struct mat x,
                             struct mat w, const float *bias, enum activation activation) {
    struct tiles t = tiles_of(mat_is_empty(u) ? y : u, x, w, 1, bias);
    t.epilogue = (struct product_epilogue){.activation = activation, .y = y};
    run_tiles(cpu_of(dev), t);
}

// --- packed weights -----------------------------------------------------------------------------

static struct gemm_shape packed_shape(struct mat w) {
    return (struct gemm_shape){.m = CPU_TILE_ROWS,
                               .n = w.rows,
                               .k = w.cols,
                               .lda = w.cols,
                               .ldb = w.stride,
                               .ldc = w.rows,
                               .type = w.dtype,
                               .c_type = w.dtype,
                               .b_transposed = 1};
}

int cpu_packs(struct device *dev, struct mat w) {
    const struct gemm_shape shape = packed_shape(w);
    return gemm_packs(&shape);
}

void cpu_pack(struct device *dev, struct mat w) {
    struct cpu *cpu = cpu_of(dev);
    const struct gemm_shape shape = packed_shape(w);
    const size_t bytes = gemm_pack_bytes(&shape);
    if (cpu_grow(cpu, (void **)&cpu->packed, &cpu->packed_bytes, bytes)) {
        memcpy(cpu->packed, w.data, bytes);
        gemm_pack(cpu->gemm, &shape, cpu->packed, w.data);
    }
}

void cpu_linear_packed_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                               const float *bias, enum activation activation) {
    struct tiles t = tiles_of(y, x, w, 1, bias);
    t.w_is_packed = 1;
    if (activation != ACTIVATION_LINEAR) {
        t.epilogue = (struct product_epilogue){.activation = activation, .y = y};
    }
    run_tiles(cpu_of(dev), t);
}

// --- gradients of GELU --------------------------------------------------------------------------

void cpu_linear_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat dy,
                              struct mat w, struct mat u, enum activation activation) {
    struct cpu *cpu = cpu_of(dev);
    struct tiles t = tiles_of(du, dy, w, 0, NULL);
    const size_t bytes = (size_t)(t.tiling.count * du.cols) * sizeof(float);
    if (!prepare_tiles(cpu, &t) ||
        !cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes, bytes)) {
        return;
    }
    memset(cpu->partials, 0, bytes);
    t.epilogue = (struct product_epilogue){.activation = activation, .u = u, .sums = cpu->partials};
    run_prepared(cpu, &t);
    cpu_add_partials(cpu, dbias, cpu->partials, t.tiling.count, du.cols, du.cols);
}

void cpu_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat u,
                       enum activation activation) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t blocks = cpu_blocks(du.rows, CPU_ROW_BLOCK);
    if (!cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes,
                  (size_t)(blocks * du.cols) * sizeof(float))) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t row = block * CPU_ROW_BLOCK, count = cpu_chunk_length(row, du.rows, CPU_ROW_BLOCK);
        cpu->kernels->activation_backward(mat_rows(du, row, count), mat_rows(u, row, count),
                                          activation, cpu->partials + block * du.cols);
    }
    cpu_add_partials(cpu, dbias, cpu->partials, blocks, du.cols, du.cols);
}

// --- gradients of weights -----------------------------------------------------------------------

static int64_t tile_tokens(enum dtype dtype) {
    return dtype == DTYPE_F32 ? CPU_TILE_TOKENS / 2 : CPU_TILE_TOKENS;
}

// dw += dy^T * x for one chunk of the tokens, split into tiles of dw's rows.
struct weight_tiles {
    struct mat dw, dy, x;
    struct tiling tiling; // of dw's rows
    const void *packed;   // x in the kernels' layout, or in place
};

static struct gemm_shape weight_shape(const struct weight_tiles *t, int64_t index) {
    const struct gemm_shape shape = {
        .m = tile_size(&t->tiling, index),
        .n = t->dw.cols,
        .k = t->dy.rows,
        .lda = t->dy.stride,
        .ldb = t->x.stride,
        .ldc = t->dw.stride,
        .type = t->dy.dtype,
        .c_type = DTYPE_F32,
        .a_transposed = 1,
        .accumulate = 1,
    };
    return in_place(shape, t->dw.rows);
}

static void weight_tile(struct cpu *cpu, const struct weight_tiles *t, int64_t index) {
    const int64_t first = tile_first(&t->tiling, index), rows = tile_size(&t->tiling, index);
    const struct gemm_shape shape = weight_shape(t, index);
    const struct gemm_operands operands = {
        .a = mat_columns(t->dy, first, rows).data,
        .b = t->packed,
        .c = mat_rows(t->dw, first, rows).data,
    };
    gemm_run(cpu->gemm, &shape, omp_get_thread_num(), &operands);
}

static void add_weight_chunk(struct cpu *cpu, struct mat dw, struct mat dy, struct mat x) {
    struct weight_tiles t = {
        .dw = dw, .dy = dy, .x = x, .tiling = tiling_of(dw.rows, CPU_TILE_OUT)};
    const struct gemm_shape first = weight_shape(&t, 0);
    if (!reserve_product(cpu, &first)) {
        return;
    }
    t.packed = first.b_in_place ? x.data : pack(cpu, &first, x.data);
    if (t.packed == NULL) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t i = 0; i < t.tiling.count; i++) {
        weight_tile(cpu, &t, i);
    }
}

static void add_column_sums(struct cpu *cpu, float *dbias, struct mat dy) {
    const int64_t blocks = cpu_blocks(dy.rows, CPU_ROW_BLOCK);
    if (!cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes,
                  (size_t)(blocks * dy.cols) * sizeof(float))) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t row = block * CPU_ROW_BLOCK;
        cpu->kernels->column_sums(mat_rows(dy, row, cpu_chunk_length(row, dy.rows, CPU_ROW_BLOCK)),
                                  cpu->partials + block * dy.cols);
    }
    cpu_add_partials(cpu, dbias, cpu->partials, blocks, dy.cols, dy.cols);
}

void cpu_linear_backward_weight(struct device *dev, struct mat dw, float *dbias, struct mat dy,
                                struct mat x) {
    struct cpu *cpu = cpu_of(dev);
    assert(mat_check(&dw) == NULL && mat_check(&dy) == NULL && mat_check(&x) == NULL);
    const int64_t limit = tile_tokens(dy.dtype);
    for (int64_t token = 0; token < dy.rows && cpu->status == BERTH_OK; token += limit) {
        int64_t tokens = cpu_chunk_length(token, dy.rows, limit);
        add_weight_chunk(cpu, dw, mat_rows(dy, token, tokens), mat_rows(x, token, tokens));
    }
    if (dbias != NULL && cpu->status == BERTH_OK) {
        add_column_sums(cpu, dbias, dy);
    }
}

// --- memory -------------------------------------------------------------------------------------

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// A head multiplies in f32: with its own matrix, with the pooler's, and to train embeddings with
// the vectors of the batch. The rows of the largest of these.
static int64_t head_rows(const struct device_shape *shape) {
    const int64_t vectors = shape->training ? shape->batch.sequences : 0;
    return cpu_round_up(larger(larger(shape->outputs, vectors), shape->hidden), 64);
}

static size_t head_packed_bytes(const struct device_shape *shape) {
    return (size_t)(head_rows(shape) * cpu_round_up(shape->hidden, 64)) * sizeof(float);
}

size_t cpu_linear_packed_bytes(const struct device_shape *shape) {
    const int64_t h = cpu_round_up(shape->hidden, 64), i = cpu_round_up(shape->intermediate, 64);
    const int64_t tokens = shape->training ? tile_tokens(shape->compute) : 0;
    const int64_t layer = larger(h, tokens) * larger(3 * h, i);
    const int64_t words = shape->decoder_rows > 0 ? cpu_round_up(shape->vocabulary, 64) * h : 0;
    const size_t head = head_packed_bytes(shape);
    const size_t body = shape->int8 ? 0 // packed once, in its own memory
                                    : (size_t)larger(layer, words) * dtype_size(shape->compute);
    return head > body ? head : body;
}

size_t cpu_linear_partial_bytes(const struct device_shape *shape) {
    int64_t gelu =
        tiling_of(batch_round(shape->batch.tokens), CPU_TILE_ROWS).count * shape->intermediate;
    const int64_t columns = 3 * shape->hidden > shape->outputs ? 3 * shape->hidden : shape->outputs;
    int64_t sums = cpu_blocks(batch_round(shape->batch.tokens), CPU_ROW_BLOCK) * columns;
    int64_t words = cpu_blocks(shape->decoder_rows, CPU_ROW_BLOCK) * shape->vocabulary;
    sums = larger(larger(sums, words), GEMM_FEW_ROWS * head_rows(shape)); // run_transposed
    return (size_t)(gelu > sums ? gelu : sums) * sizeof(float);
}
