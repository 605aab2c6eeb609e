// SPDX-License-Identifier: Apache-2.0
// Linear layers: products cut into tiles of rows (forward, dx) or of outputs (dw), each one
// single-threaded product, with the element-wise work done on the tile while it is in the cache.
#include "core/error.h"
#include "cpu/cpu.h"

#include <omp.h>

struct tiles {
    struct mat y, x, w; // y = x * op(w) (+ bias)
    int w_transposed;
    const float *bias;
};

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
    };
}

// The plans for a full tile and for the last one; 0 after an error.
static int tile_plans(struct cpu *cpu, const struct tiles *t, const struct gemm_plan *plans[2]) {
    const int64_t rest = t->y.rows % CPU_TILE_ROWS;
    plans[0] = plans[1] = NULL;
    if (cpu->status != BERTH_OK) {
        return 0;
    }
    gemm_trim(cpu->gemm, 2);
    if (t->y.rows >= CPU_TILE_ROWS) {
        struct gemm_shape full = tile_shape(t, CPU_TILE_ROWS);
        plans[0] = cpu_plan(cpu, &full);
    }
    if (rest > 0 && cpu->status == BERTH_OK) {
        struct gemm_shape last = tile_shape(t, rest);
        plans[1] = cpu_plan(cpu, &last);
    }
    return cpu->status == BERTH_OK;
}

static void run(struct cpu *cpu, const struct gemm_plan *plan, const void *a, const void *b,
                void *c, const float *bias) {
    int status = gemm_run(cpu->gemm, plan, omp_get_thread_num(), a, b, c, bias);
    if (status != 0) {
        struct berth_error error;
        error_set(&error, BERTH_INTERNAL, "oneDNN failed in a matrix product (status %d)", status);
        cpu_fail(cpu, BERTH_INTERNAL, &error);
    }
}

static void run_tile(struct cpu *cpu, const struct tiles *t, const struct gemm_plan *plans[2],
                     int64_t row) {
    int64_t rows = cpu_piece(row, t->y.rows, CPU_TILE_ROWS);
    run(cpu, plans[rows != CPU_TILE_ROWS], mat_rows(t->x, row, rows).data, t->w.data,
        mat_rows(t->y, row, rows).data, t->bias);
}

static void run_tiles(struct cpu *cpu, const struct tiles *t) {
    const struct gemm_plan *plans[2];
    if (!tile_plans(cpu, t, plans)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t row = 0; row < t->y.rows; row += CPU_TILE_ROWS) {
        run_tile(cpu, t, plans, row);
    }
}

void cpu_linear_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                        const float *bias) {
    const struct tiles t = {y, x, w, 1, bias};
    run_tiles(cpu_of(dev), &t);
}

void cpu_linear_backward_input(struct device *dev, struct mat dx, struct mat dy, struct mat w) {
    const struct tiles t = {dx, dy, w, 0, NULL};
    run_tiles(cpu_of(dev), &t);
}

void cpu_linear_gelu_forward(struct device *dev, struct mat y, struct mat u, struct mat x,
                             struct mat w, const float *bias, enum activation activation) {
    struct cpu *cpu = cpu_of(dev);
    const struct tiles t = {mat_is_empty(u) ? y : u, x, w, 1, bias};
    const struct gemm_plan *plans[2];
    if (!tile_plans(cpu, &t, plans)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t row = 0; row < y.rows; row += CPU_TILE_ROWS) {
        int64_t rows = cpu_piece(row, y.rows, CPU_TILE_ROWS);
        run_tile(cpu, &t, plans, row);
        cpu->kernels->gelu_forward(mat_rows(y, row, rows), mat_rows(t.y, row, rows), activation);
    }
}

void cpu_linear_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat dy,
                              struct mat w, struct mat u, enum activation activation) {
    struct cpu *cpu = cpu_of(dev);
    const struct tiles t = {du, dy, w, 0, NULL};
    const struct gemm_plan *plans[2];
    const int64_t blocks = cpu_blocks(du.rows, CPU_TILE_ROWS);
    if (!tile_plans(cpu, &t, plans) || !cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes,
                                                 (size_t)(blocks * du.cols) * sizeof(float))) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t row = block * CPU_TILE_ROWS, rows = cpu_piece(row, du.rows, CPU_TILE_ROWS);
        run_tile(cpu, &t, plans, row);
        cpu->kernels->gelu_backward(mat_rows(du, row, rows), mat_rows(u, row, rows), activation,
                                    cpu->partials + block * du.cols);
    }
    if (dbias != NULL) {
        cpu_add_partials(cpu, dbias, cpu->partials, blocks, du.cols, du.cols);
    }
}

// --- gradients of weights -----------------------------------------------------------------------

static struct gemm_shape weight_shape(struct mat dw, struct mat dy, struct mat x, int64_t rows,
                                      int64_t tokens) {
    return (struct gemm_shape){
        .m = rows,
        .n = dw.cols,
        .k = tokens,
        .lda = dy.stride,
        .ldb = x.stride,
        .ldc = dw.stride,
        .type = dy.dtype,
        .c_type = DTYPE_F32,
        .a_transposed = 1,
        .accumulate = 1,
    };
}

// Plans by [last tile of outputs][last piece of tokens].
static int weight_plans(struct cpu *cpu, struct mat dw, struct mat dy, struct mat x,
                        const struct gemm_plan *plans[2][2]) {
    const int64_t outs[2] = {CPU_TILE_OUT, dw.rows % CPU_TILE_OUT};
    const int64_t tokens[2] = {CPU_TILE_TOKENS, dy.rows % CPU_TILE_TOKENS};
    gemm_trim(cpu->gemm, 4);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            plans[i][j] = NULL;
            int used = outs[i] > 0 && tokens[j] > 0 && outs[i] <= dw.rows && tokens[j] <= dy.rows;
            if (used && cpu->status == BERTH_OK) {
                struct gemm_shape shape = weight_shape(dw, dy, x, outs[i], tokens[j]);
                plans[i][j] = cpu_plan(cpu, &shape);
            }
        }
    }
    return cpu->status == BERTH_OK;
}

static void weight_tile(struct cpu *cpu, struct mat dw, struct mat dy, struct mat x, int64_t out,
                        const struct gemm_plan *plans[2][2]) {
    int64_t outs = cpu_piece(out, dw.rows, CPU_TILE_OUT);
    for (int64_t token = 0; token < dy.rows; token += CPU_TILE_TOKENS) {
        int64_t tokens = cpu_piece(token, dy.rows, CPU_TILE_TOKENS);
        struct mat piece = mat_columns(mat_rows(dy, token, tokens), out, outs);
        run(cpu, plans[outs != CPU_TILE_OUT][tokens != CPU_TILE_TOKENS], piece.data,
            mat_rows(x, token, tokens).data, mat_rows(dw, out, outs).data, NULL);
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
    const struct gemm_plan *plans[2][2];
    if (cpu->status != BERTH_OK || !weight_plans(cpu, dw, dy, x, plans)) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t out = 0; out < dw.rows; out += CPU_TILE_OUT) {
        weight_tile(cpu, dw, dy, x, out, plans);
    }
    if (dbias != NULL) {
        add_column_sums(cpu, dbias, dy);
    }
}

// --- memory -------------------------------------------------------------------------------------

size_t cpu_linear_partial_bytes(const struct device_shape *shape) {
    int64_t gelu = cpu_blocks(shape->max_rows, CPU_TILE_ROWS) * shape->intermediate;
    int64_t sums = cpu_blocks(shape->max_rows, CPU_ROW_BLOCK) * 3 * shape->hidden;
    return (size_t)(gelu > sums ? gelu : sums) * sizeof(float);
}
