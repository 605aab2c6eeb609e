// SPDX-License-Identifier: Apache-2.0
// Prepares operands for the kernels' products (kernels/products.h): packs what they cannot read in
// place, and cuts rows and depth so that what is read again stays in the cache.
#include "device/cpu/gemm.h"

#include "core/error.h"
#include "core/memory.h"
#include "device/cpu/kernels.h"

#include <string.h>
#include <unistd.h>

// The part of the L2 cache that rows of a fill while the loop runs over the panels of b.
#define ROWS_SHARE 0.375
#define L2_BYTES ((int64_t)1 << 20) // if the system does not say
#define COLUMN_BLOCK ((int64_t)2 * PRODUCT_COLUMNS)
// A depth of more than twice this many steps is summed in chunks, whose panels stay in the L2
// cache.
#define STEPS_MAX 1024

struct gemm {
    char **scratch; // one per thread
    size_t scratch_bytes;
    int threads;
    int64_t rows_bytes; // of a, multiplied at once
    const struct kernels *kernels;
};

static int64_t l2_bytes(void) {
#if defined(_SC_LEVEL2_CACHE_SIZE)
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? bytes : L2_BYTES;
#else
    return L2_BYTES;
#endif
}

enum berth_status gemm_open(int threads, const struct kernels *kernels, struct gemm **gemm,
                            struct berth_error *error) {
    struct gemm *new = memory_array_zeroed(1, sizeof *new);
    char **scratch = memory_array_zeroed((size_t)threads, sizeof *scratch);
    if (new == NULL || scratch == NULL) {
        memory_free(new);
        memory_free(scratch);
        return error_no_memory(error, sizeof *new + (size_t)threads * sizeof *scratch,
                               "matrix products");
    }
    new->threads = threads;
    new->rows_bytes = (int64_t)(ROWS_SHARE * (double)l2_bytes());
    new->kernels = kernels;
    new->scratch = scratch;
    *gemm = new;
    return BERTH_OK;
}

static void scratch_free(struct gemm *gemm) {
    for (int t = 0; t < gemm->threads; t++) {
        memory_pages_free(gemm->scratch[t], gemm->scratch_bytes);
        gemm->scratch[t] = NULL;
    }
    gemm->scratch_bytes = 0;
}

void gemm_close(struct gemm *gemm) {
    if (gemm == NULL) {
        return;
    }
    scratch_free(gemm);
    memory_free(gemm->scratch);
    memory_free(gemm);
}

enum berth_status gemm_reserve(struct gemm *gemm, size_t bytes, struct berth_error *error) {
    if (bytes <= gemm->scratch_bytes) {
        return BERTH_OK;
    }
    scratch_free(gemm);
    gemm->scratch_bytes = bytes;
    for (int t = 0; t < gemm->threads; t++) {
        gemm->scratch[t] = memory_pages(bytes);
        if (gemm->scratch[t] == NULL) {
            scratch_free(gemm);
            return error_no_memory(error, bytes, "the scratch memory of matrix products");
        }
    }
    return BERTH_OK;
}

// --- memory --------------------------------------------------------------------------------------

static size_t packed_a_bytes(const struct gemm_shape *s) {
    const int64_t steps = cpu_round_up(product_steps(s->k, s->type), 16);
    return s->a_transposed ? (size_t)(cpu_round_up(s->m, 16) * steps) * PRODUCT_WORD_BYTES : 0;
}

static int64_t depth_chunks(const struct gemm_shape *s) {
    const int64_t steps = product_steps(s->k, s->type);
    return steps > 2 * STEPS_MAX ? (steps + STEPS_MAX - 1) / STEPS_MAX : 1;
}

// Memory for the f32 sums of several chunks, if c is not f32.
static size_t sums_bytes(const struct gemm_shape *s) {
    return depth_chunks(s) > 1 && s->c_type != DTYPE_F32 ? (size_t)(s->m * s->n) * sizeof(float)
                                                         : 0;
}

// The number of rows whose part of a, of so many steps, stays in the cache, in whole blocks of the
// kernels.
static int64_t rows_at_once(const struct gemm *gemm, int64_t steps) {
    const int64_t unit = gemm->kernels->strips_are_tiles ? PRODUCT_TILE_ROWS : PRODUCT_ROWS;
    const int64_t units = gemm->rows_bytes / (steps * PRODUCT_WORD_BYTES * unit);
    return units > 0 ? units * unit : unit;
}

// Whether rows of a end within a word.
static int pads_a(const struct gemm_shape *s) {
    return !s->a_transposed && s->type != DTYPE_F32 && s->k % 2 != 0;
}

// Memory for the last chunk of such rows with the missing halves, as many as are multiplied at
// once.
static size_t padded_a_bytes(const struct gemm *gemm, const struct gemm_shape *s) {
    const int64_t before = (depth_chunks(s) - 1) * STEPS_MAX;
    const int64_t steps = product_steps(s->k, s->type) - before, rows = rows_at_once(gemm, steps);
    return pads_a(s) ? (size_t)((rows < s->m ? rows : s->m) * steps) * PRODUCT_WORD_BYTES : 0;
}

// The memory of a before that of the sums.
static size_t a_bytes(const struct gemm *gemm, const struct gemm_shape *s) {
    return packed_a_bytes(s) + padded_a_bytes(gemm, s);
}

size_t gemm_scratch_bytes(const struct gemm *gemm, const struct gemm_shape *shape) {
    return a_bytes(gemm, shape) + sums_bytes(shape);
}

// --- packing -------------------------------------------------------------------------------------

int gemm_reads_in_place(const struct gemm_shape *shape) {
    return shape->type == DTYPE_F32 && !shape->b_transposed && shape->n % 16 == 0;
}

size_t gemm_pack_bytes(const struct gemm_shape *shape) {
    return (size_t)(cpu_round_up(shape->n, 16) * product_steps(shape->k, shape->type)) *
           PRODUCT_WORD_BYTES;
}

int gemm_packs(const struct gemm_shape *shape) {
    const size_t bytes = (size_t)(shape->n * shape->k) * dtype_size(shape->type);
    return shape->ldb == shape->k && gemm_pack_bytes(shape) == bytes;
}

// An operand as it is in memory.
static struct mat stored(const void *data, int64_t rows, int64_t cols, int64_t stride,
                         enum dtype type) {
    return (struct mat){(void *)(uintptr_t)data, rows, cols, stride, type};
}

void gemm_pack(struct gemm *gemm, const struct gemm_shape *shape, const void *b, void *packed) {
    const int64_t n = shape->n, columns = PACKED_PANELS * product_panel(n);
#pragma omp parallel for num_threads(gemm->threads) schedule(dynamic) if (n > columns)
    for (int64_t first = 0; first < n; first += columns) {
        const int64_t last = first + columns < n ? first + columns : n;
        if (shape->b_transposed) {
            gemm->kernels->pack_rows(packed, stored(b, shape->n, shape->k, shape->ldb, shape->type),
                                     first, last);
        } else {
            gemm->kernels->pack_columns(
                packed, stored(b, shape->k, shape->n, shape->ldb, shape->type), first, last);
        }
    }
}

// --- running -------------------------------------------------------------------------------------

int64_t gemm_column_block(const struct gemm_shape *shape) {
    const int is_divisible = !shape->a_transposed && depth_chunks(shape) == 1;
    return is_divisible && shape->n > COLUMN_BLOCK ? COLUMN_BLOCK : shape->n;
}

// The product, with a in place or packed to the thread's scratch memory.
static struct product product_of(const struct gemm *gemm, const struct gemm_shape *s,
                                 const struct gemm_operands *operands, char *scratch) {
    const struct mat c = stored(operands->c, s->m, s->n, s->ldc, s->c_type);
    struct product product;
    if (s->a_transposed) {
        gemm->kernels->pack_strips(scratch, stored(operands->a, s->k, s->m, s->lda, s->type), 0,
                                   s->k);
        product = product_of_strips(c, scratch, operands->b, product_steps(s->k, s->type),
                                    kernels_strips_are_tiles(gemm->kernels, s->type));
    } else {
        const struct mat a = stored(operands->a, s->m, s->k, s->lda, s->type);
        product = product_of_rows(c, a, operands->b, product_steps(s->k, s->type));
    }
    product.b_stride = s->b_in_place ? s->ldb : 0;
    product.bias = s->bias ? operands->bias : NULL;
    product.row_bias = s->row_bias ? operands->bias : NULL;
    product.accumulate = s->accumulate;
    return product;
}

// Copies rows of a, whose depth is odd, with a zero after each.
static const void *pad_rows(const struct gemm *gemm, const struct product *p, void *padded) {
    const int64_t steps = p->last - p->first;
    const struct mat rows = {(void *)(uintptr_t)p->a, p->c.rows, 2 * steps - 1,
                             p->a_row / (int64_t)dtype_size(DTYPE_BF16), DTYPE_BF16};
    const struct mat to = mat_of(padded, p->c.rows, 2 * steps, DTYPE_BF16);
    gemm->kernels->copy(mat_columns(to, 0, rows.cols), rows);
    for (int64_t row = 0; row < to.rows; row++) {
        memset(mat_columns(mat_rows(to, row, 1), rows.cols, 1).data, 0, dtype_size(to.dtype));
    }
    return padded;
}

// Multiplies one block of rows after the other, so that a stays in the cache.
static void run_rows(const struct gemm *gemm, const struct gemm_shape *s,
                     const struct product *whole, void *scratch) {
    const int64_t rows = rows_at_once(gemm, whole->last - whole->first);
    for (int64_t row = 0; row < whole->c.rows; row += rows) {
        const int64_t left = whole->c.rows - row;
        struct product product = *whole;
        product.a = (const char *)whole->a + row / PRODUCT_ROWS * whole->a_strip;
        product.c = mat_rows(whole->c, row, left < rows ? left : rows);
        product.row_bias = whole->row_bias == NULL ? NULL : whole->row_bias + row;
        product.epilogue = product_epilogue_rows(whole->epilogue, row, product.c.rows);
        if (pads_a(s) && product.last == product.depth) {
            product.a = pad_rows(gemm, &product, scratch);
            product.a_row = (product.last - product.first) * PRODUCT_WORD_BYTES;
            product.a_strip = PRODUCT_ROWS * product.a_row;
        }
        if (s->type == DTYPE_F32) {
            gemm->kernels->product_f32(&product);
        } else {
            gemm->kernels->product_bf16(&product);
        }
    }
}

// Multiplies one chunk of the depth after the other.
static void run_depth_chunks(const struct gemm *gemm, const struct gemm_shape *s,
                             struct product whole, char *scratch) {
    const struct mat c = whole.c;
    if (sums_bytes(s) > 0) {
        whole.c = mat_of(scratch + a_bytes(gemm, s), c.rows, c.cols, DTYPE_F32);
    }
    for (int64_t first = 0; first < whole.depth; first += STEPS_MAX) {
        struct product product = whole;
        product.first = first;
        product.last = first + STEPS_MAX < whole.depth ? first + STEPS_MAX : whole.depth;
        product.a = (const char *)whole.a + first * whole.a_step;
        product.bias = first == 0 ? whole.bias : NULL;
        product.row_bias = first == 0 ? whole.row_bias : NULL;
        product.accumulate = whole.accumulate || first > 0;
        run_rows(gemm, s, &product, scratch);
    }
    if (whole.c.data != c.data) {
        gemm->kernels->copy(c, whole.c);
    }
}

// The epilogue of a product that was not computed block by block.
static void run_epilogue(const struct gemm *gemm, const struct gemm_shape *s,
                         const struct gemm_operands *operands) {
    const struct product_epilogue *epilogue = &operands->epilogue;
    const struct mat c = stored(operands->c, s->m, s->n, s->ldc, s->c_type);
    if (!mat_is_empty(epilogue->y)) {
        gemm->kernels->activation_forward(epilogue->y, c, epilogue->activation);
    } else if (!mat_is_empty(epilogue->u)) {
        gemm->kernels->activation_backward(c, epilogue->u, epilogue->activation, epilogue->sums);
    }
}

void gemm_run(struct gemm *gemm, const struct gemm_shape *shape, int thread,
              const struct gemm_operands *operands) {
    char *scratch = gemm->scratch[thread];
    struct product product = product_of(gemm, shape, operands, scratch);
    if (depth_chunks(shape) > 1) {
        run_depth_chunks(gemm, shape, product, scratch);
        run_epilogue(gemm, shape, operands);
    } else {
        product.epilogue = operands->epilogue;
        run_rows(gemm, shape, &product, scratch);
    }
}

void gemm_run_columns(struct gemm *gemm, const struct gemm_shape *shape, int thread,
                      const struct gemm_operands *operands, int64_t first, int64_t last) {
    if (last - first == shape->n) {
        gemm_run(gemm, shape, thread, operands);
        return;
    }
    char *scratch = gemm->scratch[thread];
    struct product product = product_of(gemm, shape, operands, scratch);
    product.c = mat_columns(product.c, first, last - first);
    product.epilogue = product_epilogue_columns(operands->epilogue, first, last - first);
    product.b = product_panel_of(&product, first);
    product.bias = product.bias == NULL ? NULL : product.bias + first;
    run_rows(gemm, shape, &product, scratch);
}
