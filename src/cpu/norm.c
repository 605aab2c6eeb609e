// SPDX-License-Identifier: Apache-2.0
// Embedding and layer norm over blocks of rows. Gradients of parameters: every block of
// CPU_ROW_BLOCK rows gives partial sums, which are added in the order of the blocks.
#include "cpu/cpu.h"

size_t cpu_norm_partial_bytes(const struct device_shape *shape) {
    return (size_t)(cpu_blocks(shape->max_rows, CPU_ROW_BLOCK) * 3 * shape->hidden) * sizeof(float);
}

void cpu_embed_forward(struct device *dev, const struct embed_args *args,
                       const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t row = 0; row < args->y.rows; row += CPU_ROW_BLOCK) {
        cpu->kernels->embed_forward(args, batch, row,
                                    row + cpu_piece(row, args->y.rows, CPU_ROW_BLOCK));
    }
}

void cpu_norm_forward(struct device *dev, const struct norm_args *args, const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t row = 0; row < args->y.rows; row += CPU_ROW_BLOCK) {
        cpu->kernels->norm_forward(args, batch, row,
                                   row + cpu_piece(row, args->y.rows, CPU_ROW_BLOCK));
    }
}

void cpu_norm_backward(struct device *dev, const struct norm_grad_args *args,
                       const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t rows = args->dy.rows, columns = args->dy.cols;
    const int64_t blocks = cpu_blocks(rows, CPU_ROW_BLOCK), stride = 3 * columns;
    if (!cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes,
                  (size_t)(blocks * stride) * sizeof(float))) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t row = block * CPU_ROW_BLOCK;
        cpu->kernels->norm_backward(args, batch, row, row + cpu_piece(row, rows, CPU_ROW_BLOCK),
                                    cpu->partials + block * stride);
    }
    cpu_add_partials(cpu, args->dgamma, cpu->partials, blocks, stride, columns);
    cpu_add_partials(cpu, args->dbeta, cpu->partials + columns, blocks, stride, columns);
    cpu_add_partials(cpu, args->dbias, cpu->partials + 2 * columns, blocks, stride, columns);
}

// Tokens are added to the tables in their order, one slice of columns at a time, so that no two
// threads meet in a row and the order of additions is fixed.
static void add_to_tables(struct cpu *cpu, const struct embed_grad_args *args,
                          const struct batch *batch) {
    const int64_t columns = args->dy.cols, rows = batch->token_count;
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        int64_t count = cpu_piece(c, columns, KERNEL_COLUMNS);
        struct mat x = mat_rows(mat_columns(args->scratch, c, count), 0, rows);
        cpu->kernels->scatter_add(mat_columns(args->dword, c, count), x, batch->ids);
        cpu->kernels->scatter_add(mat_columns(args->dposition, c, count), x, batch->positions);
        cpu->kernels->scatter_add(mat_columns(args->dtype_table, c, count), x, batch->type_ids);
    }
}

void cpu_embed_backward(struct device *dev, const struct embed_grad_args *args,
                        const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t rows = args->dy.rows, columns = args->dy.cols;
    const int64_t blocks = cpu_blocks(rows, CPU_ROW_BLOCK), stride = 2 * columns;
    if (!cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes,
                  (size_t)(blocks * stride) * sizeof(float))) {
        return;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t row = block * CPU_ROW_BLOCK;
        cpu->kernels->embed_backward(args, batch, row, row + cpu_piece(row, rows, CPU_ROW_BLOCK),
                                     cpu->partials + block * stride);
    }
    cpu_add_partials(cpu, args->dgamma, cpu->partials, blocks, stride, columns);
    cpu_add_partials(cpu, args->dbeta, cpu->partials + columns, blocks, stride, columns);
    add_to_tables(cpu, args, batch);
}
