// SPDX-License-Identifier: Apache-2.0
// Embedding and layer norm over blocks of rows. Gradients of parameters: every block of
// CPU_ROW_BLOCK rows yields partial sums, which are added in block order.
#include "device/cpu/cpu.h"

size_t cpu_norm_partial_bytes(const struct device_shape *shape) {
    return (size_t)(cpu_blocks(batch_round(shape->batch.tokens), CPU_ROW_BLOCK) * 3 *
                    shape->hidden) *
           sizeof(float);
}

void cpu_embed_forward(struct device *dev, const struct embed_args *args,
                       const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t row = 0; row < args->y.rows; row += CPU_ROW_BLOCK) {
        cpu->kernels->embed_forward(args, batch, row,
                                    row + cpu_chunk_length(row, args->y.rows, CPU_ROW_BLOCK));
    }
}

void cpu_norm_forward(struct device *dev, const struct norm_args *args, const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t row = 0; row < args->y.rows; row += CPU_ROW_BLOCK) {
        cpu->kernels->norm_forward(args, batch, row,
                                   row + cpu_chunk_length(row, args->y.rows, CPU_ROW_BLOCK));
    }
}

// --- backward -----------------------------------------------------------------------------------

// A backward kernel over the rows [first, last); `args` are the operation's.
typedef void block_function(const struct kernels *kernels, const void *args,
                            const struct batch *batch, int64_t first, int64_t last, float *partial);

static void norm_block(const struct kernels *kernels, const void *args, const struct batch *batch,
                       int64_t first, int64_t last, float *partial) {
    kernels->norm_backward(args, batch, first, last, partial);
}

static void embed_block(const struct kernels *kernels, const void *args, const struct batch *batch,
                        int64_t first, int64_t last, float *partial) {
    kernels->embed_backward(args, batch, first, last, partial);
}

// The gradients of parameters that a kernel computes partial sums of, [count][columns] per block.
struct block_sums {
    float *to[3];
    int64_t count, rows, columns;
};

// Runs the kernel over all blocks of rows and adds up their partial sums; 0 after an error.
static int run_blocks(struct cpu *cpu, block_function *run, const void *args,
                      const struct batch *batch, const struct block_sums *sums) {
    const int64_t rows = sums->rows, stride = sums->count * sums->columns;
    const int64_t blocks = cpu_blocks(rows, CPU_ROW_BLOCK);
    if (!cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes,
                  (size_t)(blocks * stride) * sizeof(float))) {
        return 0;
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t row = block * CPU_ROW_BLOCK;
        run(cpu->kernels, args, batch, row, row + cpu_chunk_length(row, rows, CPU_ROW_BLOCK),
            cpu->partials + block * stride);
    }
    for (int64_t i = 0; i < sums->count; i++) {
        cpu_add_partials(cpu, sums->to[i], cpu->partials + i * sums->columns, blocks, stride,
                         sums->columns);
    }
    return 1;
}

void cpu_norm_backward(struct device *dev, const struct norm_grad_args *args,
                       const struct batch *batch) {
    const struct block_sums sums = {{args->dgamma, args->dbeta, args->dbias},
                                    mat_is_empty(args->dx) ? 2 : 3,
                                    args->dy.rows,
                                    args->dy.cols};
    run_blocks(cpu_of(dev), norm_block, args, batch, &sums);
}

// Adds tokens to the tables in order. Each thread handles a slice of columns, so that no two
// threads write the same element and the order of additions is fixed.
static void add_to_tables(struct cpu *cpu, const struct embed_grad_args *args,
                          const struct batch *batch) {
    const int64_t columns = args->dy.cols, rows = batch->token_count;
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        int64_t count = cpu_chunk_length(c, columns, KERNEL_COLUMNS);
        struct mat x = mat_rows(mat_columns(args->scratch, c, count), 0, rows);
        cpu->kernels->scatter_add(mat_columns(args->dword, c, count), x, batch->ids);
        cpu->kernels->scatter_add(mat_columns(args->dposition, c, count), x, batch->positions);
        if (!mat_is_empty(args->dtype_table)) {
            cpu->kernels->scatter_add(mat_columns(args->dtype_table, c, count), x, batch->type_ids);
        }
    }
}

void cpu_embed_backward(struct device *dev, const struct embed_grad_args *args,
                        const struct batch *batch) {
    const struct block_sums sums = {{args->dgamma, args->dbeta}, 2, args->dy.rows, args->dy.cols};
    if (run_blocks(cpu_of(dev), embed_block, args, batch, &sums)) {
        add_to_tables(cpu_of(dev), args, batch);
    }
}
