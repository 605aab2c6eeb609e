// SPDX-License-Identifier: Apache-2.0
// The gradients of the embeddings' tables: words, positions and types. The gradient of each row of
// the batch, which norm.cu computes, is added to the rows of the tables that it came from, in a
// fixed order.
#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"

// --- kernels ------------------------------------------------------------------------------------

enum { TABLE_THREADS = 128 };

// Addresses an element of an f32 matrix, as the tables' gradients are.
DEVICE float *float_at(const struct mat &m, int64_t row, int64_t column) {
    return (float *)m.data + row * m.stride + column;
}

// The rows of a word are consecutive in word_rows: a run. A block of threads adds the rows of
// WORD_ROWS entries of word_rows. The sum of a run that lies within them is added to the table. Of
// a run that does not, the block stores its partial sum: in partials[block, 0] if the run begins in
// an earlier block, else in partials[block, 1]. A second kernel adds the partial sums of each such
// run. All sums are in the order of word_rows.
enum { WORD_ROWS = 32, WORD_AHEAD = 8, JOIN_BLOCKS = 6 };

enum run_end { RUN_CONTINUES, RUN_COMPLETE, PARTIAL_OF_EARLIER_RUN, PARTIAL_OF_OWN_RUN };

struct word_block {
    int32_t *rows, *ids; // [WORD_ROWS + 2]: from the entry before the block to the one after it
    int32_t *run_ends;   // [WORD_ROWS + 2] enum run_end: what ends at the entry
};

// Each thread has an entry of word_rows; -1 is no word.
DEVICE void find_run_ends(const struct word_block &own, const struct batch &batch) {
    const int i = (int)threadIdx.x;
    const int64_t index = (int64_t)blockIdx.x * WORD_ROWS + i - 1;
    const bool exists = index >= 0 && index < batch.token_count;
    if (i < WORD_ROWS + 2) {
        own.rows[i] = exists ? batch.word_rows[index] : -1;
        own.ids[i] = exists ? batch.ids[own.rows[i]] : -1;
    }
    __syncthreads();
    if (i >= 1 && i <= WORD_ROWS) {
        const bool continues = own.ids[i + 1] == own.ids[i];
        own.run_ends[i] = !exists || (continues && i < WORD_ROWS) ? RUN_CONTINUES
                          : own.ids[0] == own.ids[i]              ? PARTIAL_OF_EARLIER_RUN
                          : continues                             ? PARTIAL_OF_OWN_RUN
                                                                  : RUN_COMPLETE;
    }
    __syncthreads();
}

__global__ void __launch_bounds__(SUM_THREADS)
    word_gradient_kernel(struct mat dword, float *partials, struct mat gradient,
                         struct batch batch) {
    GPU_SHARED(int32_t, rows, WORD_ROWS + 2);
    GPU_SHARED(int32_t, ids, WORD_ROWS + 2);
    GPU_SHARED(int32_t, run_ends, WORD_ROWS + 2);
    find_run_ends(word_block{rows, ids, run_ends}, batch);
    float *const block_partials = partials + (int64_t)blockIdx.x * 2 * dword.cols;
    for (int64_t column = threadIdx.x; column < dword.cols; column += SUM_THREADS) {
        float sum = 0.0f;
        for (int first = 1; first <= WORD_ROWS; first += WORD_AHEAD) {
            float x[WORD_AHEAD], before[WORD_AHEAD];
            GPU_UNROLL
            for (int k = 0; k < WORD_AHEAD; k++) {
                const int i = first + k;
                x[k] = rows[i] >= 0 ? *float_at(gradient, rows[i], column) : 0.0f;
                before[k] = run_ends[i] == RUN_COMPLETE ? *float_at(dword, ids[i], column) : 0.0f;
            }
            GPU_UNROLL
            for (int k = 0; k < WORD_AHEAD; k++) {
                const int i = first + k;
                sum += x[k];
                if (run_ends[i] == RUN_CONTINUES) {
                    continue;
                }
                if (run_ends[i] == RUN_COMPLETE) {
                    *float_at(dword, ids[i], column) = before[k] + sum;
                } else {
                    block_partials[(run_ends[i] == PARTIAL_OF_OWN_RUN ? dword.cols : 0) + column] =
                        sum;
                }
                sum = 0.0f;
            }
        }
    }
}

static __host__ __device__ __forceinline__ int32_t word_at(const struct batch &batch,
                                                           int64_t index) {
    return batch.ids[batch.word_rows[index]];
}

// Whether a run begins in that block of entries and continues in the next one.
static __host__ __device__ __forceinline__ bool run_crosses_blocks(const struct batch &batch,
                                                                   int64_t block) {
    const int64_t first = block * WORD_ROWS, next = first + WORD_ROWS;
    const int32_t id = word_at(batch, next - 1),
                  before = first > 0 ? word_at(batch, first - 1) : -1;
    return (int)(word_at(batch, next) == id) & (int)(before != id);
}

// Adds the partial sums of the run that begins in a block of entries and continues after it;
// JOIN_BLOCKS blocks of threads share its columns.
__global__ void __launch_bounds__(SUM_THREADS)
    word_partials_kernel(struct mat dword, const float *partials, struct batch batch) {
    const int64_t own = blockIdx.x / JOIN_BLOCKS;
    const int64_t blocks = (batch.token_count + WORD_ROWS - 1) / WORD_ROWS;
    if (!run_crosses_blocks(batch, own)) {
        return;
    }
    const int32_t id = word_at(batch, own * WORD_ROWS + WORD_ROWS - 1);
    int32_t found = 0; // words ascend, so the blocks that begin with this one are consecutive
    for (int64_t block = own + 1 + threadIdx.x; block < blocks; block += SUM_THREADS) {
        found += word_at(batch, block * WORD_ROWS) == id ? 1 : 0;
    }
    const int32_t later = block_sum<SUM_THREADS>(found);
    const float *block_partials = partials + own * 2 * dword.cols;
    for (int64_t first = blockIdx.x % JOIN_BLOCKS * SUM_COLUMNS; first < dword.cols;
         first += JOIN_BLOCKS * SUM_COLUMNS) {
        const int64_t column = first + sum_column();
        const bool has_column = column < dword.cols;
        const float sum = sum_of_rows<SUM_SEGMENTS>(block_partials + 2 * dword.cols + column, later,
                                                    2 * dword.cols, has_column);
        if (threadIdx.x < SUM_COLUMNS && has_column) {
            *float_at(dword, id, column) += block_partials[dword.cols + column] + sum;
        }
    }
}

// Rows that a thread reads before it adds them.
enum { TABLE_AHEAD = 16 };
// The most blocks for the gradient of the types: six for each of an H100's multiprocessors.
enum { TYPE_BLOCKS = 6 * 132 };

// TABLE_THREADS columns of the sum of a position's rows, in the order of their sequences.
__global__ void __launch_bounds__(TABLE_THREADS)
    position_gradient_kernel(struct mat dposition, struct mat gradient, struct batch batch) {
    const int64_t across = (dposition.cols + TABLE_THREADS - 1) / TABLE_THREADS;
    const int64_t position = blockIdx.x / across;
    const int64_t column = blockIdx.x % across * TABLE_THREADS + threadIdx.x;
    if (column >= dposition.cols) {
        return;
    }
    float sum = *float_at(dposition, position, column);
    for (int64_t first = 0; first < batch.sequence_count; first += TABLE_AHEAD) {
        float x[TABLE_AHEAD];
        GPU_UNROLL
        for (int i = 0; i < TABLE_AHEAD; i++) {
            const int64_t s = first + i < batch.sequence_count ? first + i : first;
            const int64_t row = batch.cu_seqlens[s] + position;
            const bool is_added = first + i == s && row < batch.cu_seqlens[s + 1];
            x[i] = is_added ? *float_at(gradient, row, column) : 0.0f;
        }
        GPU_UNROLL
        for (int i = 0; i < TABLE_AHEAD; i++) {
            sum += x[i];
        }
    }
    *float_at(dposition, position, column) = sum;
}

// partials[block, type, column]: the sums over the block's rows of that type, two types at a time.
__global__ void __launch_bounds__(TABLE_THREADS)
    type_gradient_kernel(float *partials, struct mat gradient, int64_t types, struct batch batch,
                         int64_t rows) {
    const int64_t first = (int64_t)blockIdx.x * rows;
    const int64_t end = first + rows < batch.token_count ? first + rows : batch.token_count;
    const int64_t columns = gradient.cols, pairs = (types + 1) / 2;
    for (int64_t i = threadIdx.x; i < pairs * columns; i += TABLE_THREADS) {
        const int64_t type = i / columns * 2, column = i % columns;
        float sums[2] = {0.0f, 0.0f};
        for (int64_t row = first; row < end; row += TABLE_AHEAD) {
            float x[TABLE_AHEAD];
            int64_t of[TABLE_AHEAD]; // the rows' types
            GPU_UNROLL
            for (int k = 0; k < TABLE_AHEAD; k++) {
                const bool exists = row + k < end;
                of[k] = exists ? batch.type_ids[row + k] : -1;
                x[k] = exists ? *float_at(gradient, row + k, column) : 0.0f;
            }
            GPU_UNROLL
            for (int k = 0; k < TABLE_AHEAD; k++) {
                sums[0] += of[k] == type ? x[k] : 0.0f;
                sums[1] += of[k] == type + 1 ? x[k] : 0.0f;
            }
        }
        float *const to = partials + ((int64_t)blockIdx.x * types + type) * columns + column;
        to[0] = sums[0];
        if (type + 1 < types) {
            to[columns] = sums[1];
        }
    }
}

// --- costs --------------------------------------------------------------------------------------

static int64_t count_crossing_runs(const struct batch &batch) {
    int64_t count = 0;
    for (int64_t block = 0; block + 1 < gpu_blocks(batch.token_count, WORD_ROWS); block++) {
        count += run_crosses_blocks(batch, block);
    }
    return count;
}

// Of a run that crosses blocks, the block where it begins and each later one has a partial sum.
static int64_t count_word_partials(const struct batch &batch) {
    int64_t count = count_crossing_runs(batch);
    for (int64_t index = WORD_ROWS; index < batch.token_count; index += WORD_ROWS) {
        count += word_at(batch, index) == word_at(batch, index - 1);
    }
    return count;
}

static gpu_cost word_gradient_cost(struct mat dword, float *partials, struct mat gradient,
                                   struct batch batch) {
    const int64_t words = cost_distinct(batch.ids, batch.token_count) - count_crossing_runs(batch);
    return {cost_words(batch.ids, 2 * batch.token_count) + cost_rows(dword, words) +
                cost_rows(gradient, batch.token_count),
            cost_rows(dword, words) + cost_words(partials, count_word_partials(batch) * dword.cols),
            0};
}

// Reads the words on both sides of each boundary between blocks.
static gpu_cost word_partials_cost(struct mat dword, const float *partials, struct batch batch) {
    const int64_t boundaries = gpu_blocks(batch.token_count, WORD_ROWS) - 1;
    const uint64_t words = cost_rows(dword, count_crossing_runs(batch));
    return {cost_words(batch.ids, 4 * boundaries) + words +
                cost_words(partials, count_word_partials(batch) * dword.cols),
            words, 0};
}

static gpu_cost position_gradient_cost(struct mat dposition, struct mat gradient,
                                       struct batch batch) {
    const uint64_t positions = cost_rows(dposition, batch.max_length);
    return {cost_words(batch.cu_seqlens, batch.sequence_count + 1) + positions +
                cost_rows(gradient, batch.token_count),
            positions, 0};
}

static gpu_cost type_gradient_cost(float *partials, struct mat gradient, int64_t types,
                                   struct batch batch, int64_t rows) {
    return {cost_words(batch.type_ids, batch.token_count) + cost_rows(gradient, batch.token_count),
            cost_words(partials, gpu_blocks(batch.token_count, rows) * types * gradient.cols), 0};
}

// --- launches -----------------------------------------------------------------------------------

size_t gpu_tables_partial_bytes(const struct device_shape *shape) {
    const int64_t sums = shape->types > 2 ? shape->types : 2; // 2: the partial sums of words
    static_assert((int)GPU_GRADIENT_ROWS >= (int)WORD_ROWS,
                  "at least as many blocks of words as of rows");
    return (size_t)(gpu_blocks(batch_round(shape->batch.tokens), WORD_ROWS) * sums *
                    shape->hidden) *
           sizeof(float);
}

void gpu_add_to_tables(struct gpu *gpu, const struct embed_grad_args *args,
                       const struct batch *batch) {
    const struct mat gradient = args->scratch;
    const int64_t types = args->dtype_table.rows, columns = gradient.cols,
                  words = gpu_blocks(batch->token_count, WORD_ROWS),
                  each = gpu_gradient_rows(batch->token_count, TYPE_BLOCKS),
                  blocks = gpu_blocks(batch->token_count, each);
    float *partials = gpu_partials(gpu, words * (types > 2 ? types : 2) * columns);
    gpu_run(gpu, {"word_gradient", words, SUM_THREADS}, word_gradient_kernel, word_gradient_cost,
            args->dword, partials, gradient, *batch);
    gpu_run(gpu, {"word_partials", (words - 1) * JOIN_BLOCKS, SUM_THREADS}, word_partials_kernel,
            word_partials_cost, args->dword, (const float *)partials, *batch);
    gpu_run(gpu,
            {"position_gradient", batch->max_length * gpu_blocks(columns, TABLE_THREADS),
             TABLE_THREADS},
            position_gradient_kernel, position_gradient_cost, args->dposition, gradient, *batch);
    if (types > 0) {
        gpu_run(gpu, {"type_gradient", blocks, TABLE_THREADS}, type_gradient_kernel,
                type_gradient_cost, partials, gradient, types, *batch, each);
    }
    for (int64_t type = 0; type < types; type += GPU_SUMS) {
        struct gpu_sums to = {{}, 0, columns};
        for (; to.count < GPU_SUMS && type + to.count < types; to.count++) {
            to.to[to.count] = (float *)mat_rows(args->dtype_table, type + to.count, 1).data;
        }
        gpu_add_partials(gpu, &to, partials + type * columns, blocks, types * columns);
    }
}
