// SPDX-License-Identifier: Apache-2.0
// Linear layers: products split into tiles of rows (forward, dx) or of outputs (dw), each a
// single-threaded product, with the element-wise work done on each block of sums while it is in the
// cache.
#include "core/error.h"
#include "cpu/cpu.h"

#include <omp.h>
#include <string.h>

// Rows split into tiles of nearly equal size: the first `larger` have one unit more than the
// others, and the last may be shorter.
struct cut {
    int64_t total, count, units, larger; // units of a smaller tile
};

static struct cut cut_of(int64_t total, int64_t most) {
    const int64_t units = cpu_blocks(total, CPU_TILE_UNIT), group = CPU_TILE_GROUP;
    int64_t count = group * cpu_blocks(units * CPU_TILE_UNIT, group * most);
    count = count < units ? count : units;
    return (struct cut){total, count, units / count, units % count};
}

static int64_t cut_first(const struct cut *c, int64_t index) {
    int64_t larger = index < c->larger ? index : c->larger;
    return (index * c->units + larger) * CPU_TILE_UNIT;
}

static int64_t cut_size(const struct cut *c, int64_t index) {
    int64_t first = cut_first(c, index), end = cut_first(c, index + 1);
    return (end < c->total ? end : c->total) - first;
}

// Tiles have at most three sizes: the first, the last and those between them.
enum { CUT_SIZES = 3 };

static int64_t cut_example(const struct cut *c, int kind) {
    return kind == 0 ? 0 : kind == 1 ? c->count - 1 : c->count - (c->count > 1 ? 2 : 1);
}

static int cut_kind(const struct cut *c, int64_t index) {
    const int64_t size = cut_size(c, index);
    return size == cut_size(c, 0) ? 0 : size == cut_size(c, c->count - 1) ? 1 : 2;
}

static void fail_product(struct cpu *cpu, int status) {
    struct berth_error error;
    (void)error_set(&error, BERTH_INTERNAL, "oneDNN failed in a matrix product (status %d)",
                    status);
    cpu_fail(cpu, BERTH_INTERNAL, &error);
}

static void run(struct cpu *cpu, const struct gemm_plan *plan,
                const struct gemm_operands *operands) {
    int status = gemm_run(cpu->gemm, plan, omp_get_thread_num(), operands);
    if (status != 0) {
        fail_product(cpu, status);
    }
}

// Packs b for the tiles, which all read it; NULL when they use it as it is.
static const void *pack(struct cpu *cpu, const struct gemm_plan *const plans[CUT_SIZES],
                        const void *b) {
    for (int kind = 0; kind < CUT_SIZES && cpu->status == BERTH_OK; kind++) {
        size_t bytes = gemm_pack_bytes(plans[kind]);
        if (bytes > 0 && cpu_grow(cpu, (void **)&cpu->packed, &cpu->packed_bytes, bytes)) {
            gemm_pack(cpu->gemm, plans[kind], b, cpu->packed);
            return cpu->packed;
        }
    }
    return NULL;
}

// --- y = x * op(w) (+ bias) ---------------------------------------------------------------------

struct tiles {
    struct mat y, x, w;
    int w_transposed;
    int w_is_packed; // by cpu_pack
    const float *bias;
    struct cut cut; // of the rows
    const struct gemm_plan *plans[CUT_SIZES];
    const void *packed;     // w in the layout of the plans
    struct product_end end; // its sums are the first tile's; the other tiles' follow them
};

static struct tiles tiles_of(struct mat y, struct mat x, struct mat w, int w_transposed,
                             const float *bias) {
    struct tiles t = {.y = y, .x = x, .w = w, .w_transposed = w_transposed, .bias = bias};
    t.cut = cut_of(y.rows, CPU_TILE_ROWS);
    return t;
}

static struct gemm_shape tile_shape(const struct tiles *t, int64_t rows) {
    return (struct gemm_shape){
        .m = rows,
        .n = t->y.cols,
        .k = t->x.cols,
        .lda = t->x.stride,
        .ldb = t->w.stride,
        .ldc = t->y.stride,
        .type = t->x.dtype,
        .c_type = t->y.dtype,
        .b_transposed = t->w_transposed,
        .bias = t->bias != NULL,
        .pack_b = t->w_is_packed || t->cut.count >= CPU_TILE_GROUP,
        .packed = t->w_is_packed,
    };
}

// Gets the plans of all tiles and packs w; 0 after an error.
static int tile_plans(struct cpu *cpu, struct tiles *t) {
    if (cpu->status != BERTH_OK) {
        return 0;
    }
    gemm_trim(cpu->gemm, CUT_SIZES);
    for (int kind = 0; kind < CUT_SIZES && cpu->status == BERTH_OK; kind++) {
        struct gemm_shape shape = tile_shape(t, cut_size(&t->cut, cut_example(&t->cut, kind)));
        t->plans[kind] = cpu_plan(cpu, &shape);
    }
    t->packed = t->w_is_packed ? t->w.data : pack(cpu, t->plans, t->w.data);
    return cpu->status == BERTH_OK;
}

static struct mat tile_of(const struct tiles *t, struct mat m, int64_t index) {
    return mat_rows(m, cut_first(&t->cut, index), cut_size(&t->cut, index));
}

static const struct gemm_plan *tile_plan(const struct tiles *t, int64_t index) {
    return t->plans[cut_kind(&t->cut, index)];
}

static struct product_end tile_end(const struct tiles *t, int64_t index) {
    struct product_end end =
        product_end_rows(t->end, cut_first(&t->cut, index), cut_size(&t->cut, index));
    end.sums = end.sums == NULL ? NULL : end.sums + index * t->y.cols;
    return end;
}

static struct gemm_operands tile_operands(const struct tiles *t, int64_t index) {
    return (struct gemm_operands){
        .a = tile_of(t, t->x, index).data,
        .b = gemm_pack_bytes(tile_plan(t, index)) > 0 ? t->packed : t->w.data,
        .c = tile_of(t, t->y, index).data,
        .bias = t->bias,
        .end = tile_end(t, index),
    };
}

// What a thread takes: the columns [first, end) of a tile.
struct share {
    int64_t tile, first, end;
};

// Tiles that are fewer than the threads are shared by several. No sum depends on it: w is packed
// then, and a kernel adds up each element of y by itself.
static int64_t shares_of(const struct cpu *cpu, const struct tiles *t) {
    const int64_t parts = cpu_blocks(t->y.cols, gemm_part_columns(tile_plan(t, 0)));
    const int64_t wanted = 2 * cpu->threads / t->cut.count;
    return wanted < 1 || cpu->threads == 1 ? 1 : wanted < parts ? wanted : parts;
}

static struct share share_of(const struct tiles *t, int64_t shares, int64_t index) {
    const int64_t tile = index / shares, which = index % shares;
    const int64_t part = gemm_part_columns(tile_plan(t, tile)), cols = t->y.cols;
    const int64_t parts = cpu_blocks(cols, part), end = (which + 1) * parts / shares * part;
    return (struct share){tile, which * parts / shares * part, end < cols ? end : cols};
}

static void run_share(struct cpu *cpu, const struct tiles *t, const struct share *share) {
    const struct gemm_operands operands = tile_operands(t, share->tile);
    const int status = gemm_run_columns(cpu->gemm, tile_plan(t, share->tile), omp_get_thread_num(),
                                        &operands, share->first, share->end);
    if (status != 0) {
        fail_product(cpu, status);
    }
}

static void run_planned(struct cpu *cpu, const struct tiles *t) {
    const int64_t shares = shares_of(cpu, t);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t i = 0; i < t->cut.count * shares; i++) {
        const struct share share = share_of(t, shares, i);
        run_share(cpu, t, &share);
    }
}

static void run_tiles(struct cpu *cpu, struct tiles t) {
    if (tile_plans(cpu, &t)) {
        run_planned(cpu, &t);
    }
}

void cpu_linear_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                        const float *bias) {
    run_tiles(cpu_of(dev), tiles_of(y, x, w, 1, bias));
}

void cpu_linear_backward_input(struct device *dev, struct mat dx, struct mat dy, struct mat w) {
    run_tiles(cpu_of(dev), tiles_of(dx, dy, w, 0, NULL));
}

void cpu_linear_gelu_forward(struct device *dev, struct mat y, struct mat u, struct mat x,
                             struct mat w, const float *bias, enum activation activation) {
    struct tiles t = tiles_of(mat_is_empty(u) ? y : u, x, w, 1, bias);
    t.end = (struct product_end){.activation = activation, .y = y};
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
                               .b_transposed = 1,
                               .pack_b = 1};
}

int cpu_packs(struct device *dev, struct mat w) {
    const struct gemm_shape shape = packed_shape(w);
    return gemm_packs(cpu_of(dev)->gemm, &shape);
}

void cpu_pack(struct device *dev, struct mat w) {
    struct cpu *cpu = cpu_of(dev);
    const struct gemm_shape shape = packed_shape(w);
    const struct gemm_plan *plan = cpu_plan(cpu, &shape);
    if (plan == NULL ||
        cpu_grow(cpu, (void **)&cpu->packed, &cpu->packed_bytes, gemm_pack_bytes(plan)) == 0) {
        return;
    }
    memcpy(cpu->packed, w.data, gemm_pack_bytes(plan));
    gemm_pack(cpu->gemm, plan, cpu->packed, w.data);
}

void cpu_linear_packed_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                               const float *bias, enum activation activation) {
    struct tiles t = tiles_of(y, x, w, 1, bias);
    t.w_is_packed = 1;
    if (activation != ACTIVATION_LINEAR) {
        t.end = (struct product_end){.activation = activation, .y = y};
    }
    run_tiles(cpu_of(dev), t);
}

// --- gradients of GELU --------------------------------------------------------------------------

void cpu_linear_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat dy,
                              struct mat w, struct mat u, enum activation activation) {
    struct cpu *cpu = cpu_of(dev);
    struct tiles t = tiles_of(du, dy, w, 0, NULL);
    const size_t bytes = (size_t)(t.cut.count * du.cols) * sizeof(float);
    if (!tile_plans(cpu, &t) ||
        !cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes, bytes)) {
        return;
    }
    memset(cpu->partials, 0, bytes);
    t.end = (struct product_end){.activation = activation, .u = u, .sums = cpu->partials};
    run_planned(cpu, &t);
    if (dbias != NULL) {
        cpu_add_partials(cpu, dbias, cpu->partials, t.cut.count, du.cols, du.cols);
    }
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
        int64_t row = block * CPU_ROW_BLOCK, count = cpu_piece(row, du.rows, CPU_ROW_BLOCK);
        cpu->kernels->activation_backward(mat_rows(du, row, count), mat_rows(u, row, count),
                                          activation, cpu->partials + block * du.cols);
    }
    cpu_add_partials(cpu, dbias, cpu->partials, blocks, du.cols, du.cols);
}

// --- gradients of weights -----------------------------------------------------------------------

static int64_t tile_tokens(enum dtype dtype) {
    return dtype == DTYPE_F32 ? CPU_TILE_TOKENS / 2 : CPU_TILE_TOKENS;
}

// dw += dy^T * x for one piece of the tokens, split into tiles of dw's rows.
struct weight_tiles {
    struct mat dw, dy, x;
    struct cut cut; // of dw's rows
    const struct gemm_plan *plans[CUT_SIZES];
    const void *packed; // x in the layout of the plans
};

static struct gemm_shape weight_shape(const struct weight_tiles *t, int64_t rows) {
    return (struct gemm_shape){
        .m = rows,
        .n = t->dw.cols,
        .k = t->dy.rows,
        .lda = t->dy.stride,
        .ldb = t->x.stride,
        .ldc = t->dw.stride,
        .type = t->dy.dtype,
        .c_type = DTYPE_F32,
        .a_transposed = 1,
        .accumulate = 1,
        .pack_a = 1,
        .pack_b = t->cut.count >= CPU_TILE_GROUP,
    };
}

static void weight_tile(struct cpu *cpu, const struct weight_tiles *t, int64_t index) {
    const int64_t first = cut_first(&t->cut, index), rows = cut_size(&t->cut, index);
    const struct gemm_plan *plan = t->plans[cut_kind(&t->cut, index)];
    const struct gemm_operands operands = {
        .a = mat_columns(t->dy, first, rows).data,
        .b = gemm_pack_bytes(plan) > 0 ? t->packed : t->x.data,
        .c = mat_rows(t->dw, first, rows).data,
    };
    run(cpu, plan, &operands);
}

static void add_weight_piece(struct cpu *cpu, struct mat dw, struct mat dy, struct mat x) {
    struct weight_tiles t = {.dw = dw, .dy = dy, .x = x, .cut = cut_of(dw.rows, CPU_TILE_OUT)};
    gemm_trim(cpu->gemm, CUT_SIZES);
    for (int kind = 0; kind < CUT_SIZES && cpu->status == BERTH_OK; kind++) {
        struct gemm_shape shape = weight_shape(&t, cut_size(&t.cut, cut_example(&t.cut, kind)));
        t.plans[kind] = cpu_plan(cpu, &shape);
    }
    t.packed = pack(cpu, t.plans, x.data);
    if (cpu->status != BERTH_OK) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t i = 0; i < t.cut.count; i++) {
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
        cpu->kernels->column_sums(mat_rows(dy, row, cpu_piece(row, dy.rows, CPU_ROW_BLOCK)),
                                  cpu->partials + block * dy.cols);
    }
    cpu_add_partials(cpu, dbias, cpu->partials, blocks, dy.cols, dy.cols);
}

void cpu_linear_backward_weight(struct device *dev, struct mat dw, float *dbias, struct mat dy,
                                struct mat x) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t most = tile_tokens(dy.dtype);
    for (int64_t token = 0; token < dy.rows && cpu->status == BERTH_OK; token += most) {
        int64_t tokens = cpu_piece(token, dy.rows, most);
        add_weight_piece(cpu, dw, mat_rows(dy, token, tokens), mat_rows(x, token, tokens));
    }
    if (dbias != NULL && cpu->status == BERTH_OK) {
        add_column_sums(cpu, dbias, dy);
    }
}

// --- memory -------------------------------------------------------------------------------------

size_t cpu_linear_packed_bytes(const struct device_shape *shape) {
    if (shape->int8) { // only heads have other matrices
        return (size_t)((shape->hidden + 63) / 64 * 64 * shape->hidden) * sizeof(float);
    }
    const int64_t h = (shape->hidden + 63) / 64 * 64, i = (shape->intermediate + 63) / 64 * 64;
    const int64_t wide = 3 * h > i ? 3 * h : i,
                  tokens = shape->training ? tile_tokens(shape->compute) : 0;
    const int64_t layer = (h > tokens ? h : tokens) * wide;
    const int64_t words = shape->decoder_rows > 0 ? (shape->vocabulary + 63) / 64 * 64 * h : 0;
    return (size_t)(layer > words ? layer : words) * dtype_size(shape->compute);
}

size_t cpu_linear_partial_bytes(const struct device_shape *shape) {
    int64_t gelu =
        cut_of(batch_round(shape->batch.tokens), CPU_TILE_ROWS).count * shape->intermediate;
    const int64_t columns = 3 * shape->hidden > shape->outputs ? 3 * shape->hidden : shape->outputs;
    int64_t sums = cpu_blocks(batch_round(shape->batch.tokens), CPU_ROW_BLOCK) * columns;
    int64_t words = cpu_blocks(shape->decoder_rows, CPU_ROW_BLOCK) * shape->vocabulary;
    sums = sums > words ? sums : words;
    return (size_t)(gelu > sums ? gelu : sums) * sizeof(float);
}
