// SPDX-License-Identifier: Apache-2.0
// The cache of plans, and the choice between Berth's kernels (kernels/product.h) and those of the
// library (gemm_library.h).
#include "device/cpu/gemm.h"

#include "core/error.h"
#include "core/memory.h"
#include "device/cpu/gemm_library.h"
#include "device/cpu/kernels.h"

#include <string.h>
#include <unistd.h>

#define PLANS_MAX 512
#define BUCKETS 1024
// The part of the L2 cache that rows of a fill while the loop runs over the panels of b.
#define ROWS_SHARE 0.375
#define L2_BYTES ((int64_t)1 << 20) // if the system does not say
#define COLUMN_BLOCK ((int64_t)2 * PRODUCT_COLUMNS)
// A depth of more than twice this many steps is summed in chunks, whose panels stay in the L2
// cache.
#define STEPS_MAX 1024

struct gemm_plan {
    struct gemm_plan *next;
    struct gemm_shape shape;
    void (*kernel)(const struct product *product); // NULL: the library
    struct library_product *library;
    size_t scratch_bytes; // per thread
};

struct gemm {
    struct library *library;
    char **scratch; // one per thread
    size_t scratch_bytes;
    int threads;
    int64_t rows_bytes; // of a, multiplied at once
    const struct kernels *kernels;
    int plan_count;
    struct gemm_plan *buckets[BUCKETS];
};

static int64_t l2_bytes(void) {
#if defined(_SC_LEVEL2_CACHE_SIZE)
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? bytes : L2_BYTES;
#else
    return L2_BYTES;
#endif
}

enum berth_status gemm_open(int threads, int native_bf16, const struct kernels *kernels,
                            struct gemm **gemm, struct berth_error *error) {
    struct gemm *new = memory_array_zeroed(1, sizeof *new);
    if (new == NULL) {
        return error_no_memory(error, sizeof *new, "the matrix product cache");
    }
    new->threads = threads;
    new->rows_bytes = (int64_t)(ROWS_SHARE * (double)l2_bytes());
    new->kernels = kernels;
    new->scratch = memory_array_zeroed((size_t)threads, sizeof *new->scratch);
    enum berth_status status =
        new->scratch == NULL ? error_no_memory(error, (size_t)threads * sizeof *new->scratch,
                                               "the matrix product cache")
                             : library_open(threads, native_bf16, kernels, &new->library, error);
    if (status != BERTH_OK) {
        gemm_close(new);
        return status;
    }
    *gemm = new;
    return BERTH_OK;
}

static void plan_free(struct gemm_plan *plan, int threads) {
    library_product_free(plan->library, threads);
    memory_free(plan);
}

static void plans_free(struct gemm *gemm) {
    for (int i = 0; i < BUCKETS; i++) {
        while (gemm->buckets[i] != NULL) {
            struct gemm_plan *plan = gemm->buckets[i];
            gemm->buckets[i] = plan->next;
            plan_free(plan, gemm->threads);
        }
    }
    gemm->plan_count = 0;
}

static void scratch_free(struct gemm *gemm) {
    for (int t = 0; gemm->scratch != NULL && t < gemm->threads; t++) {
        memory_pages_free(gemm->scratch[t], gemm->scratch_bytes);
        gemm->scratch[t] = NULL;
    }
    gemm->scratch_bytes = 0;
}

void gemm_close(struct gemm *gemm) {
    if (gemm == NULL) {
        return;
    }
    plans_free(gemm);
    scratch_free(gemm);
    library_close(gemm->library);
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

void gemm_trim(struct gemm *gemm, int wanted) {
    if (gemm->plan_count + wanted > PLANS_MAX) {
        plans_free(gemm);
    }
}

const char *gemm_plan_name(const struct gemm_plan *plan) {
    return plan->kernel != NULL ? "berth" : library_product_name(plan->library);
}

const char *gemm_library(void) {
    return library_name();
}

size_t gemm_heap_bytes(int64_t columns) {
    return library_heap_bytes(columns);
}

// --- creating a plan -----------------------------------------------------------------------------

static uint64_t shape_hash(const struct gemm_shape *s) {
    const int64_t words[] = {s->m,          s->n,           s->k,      s->lda,          s->ldb,
                             s->ldc,        s->type,        s->c_type, s->a_transposed, s->bias,
                             s->accumulate, s->b_transposed};
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        hash = (hash ^ (uint64_t)words[i]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static int shape_equal(const struct gemm_shape *x, const struct gemm_shape *y) {
    return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda && x->ldb == y->ldb &&
           x->ldc == y->ldc && x->type == y->type && x->c_type == y->c_type &&
           x->a_transposed == y->a_transposed && x->b_transposed == y->b_transposed &&
           x->accumulate == y->accumulate && x->bias == y->bias && x->pack_a == y->pack_a &&
           x->packed == y->packed;
}

static size_t packed_a_bytes(const struct gemm_shape *s) {
    const int64_t steps = cpu_round_up(product_steps(s->k, s->type), 16);
    return s->a_transposed ? (size_t)(cpu_round_up(s->m, 16) * steps) * PRODUCT_WORD_BYTES : 0;
}

static size_t packed_b_bytes(const struct gemm_shape *s) {
    return (size_t)(cpu_round_up(s->n, 16) * product_steps(s->k, s->type)) * PRODUCT_WORD_BYTES;
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

// The kernel for a shape; NULL: the library multiplies it. With AVX-512, few rows or columns would
// leave most of a block empty, and packing b does not pay off for few rows.
static void (*kernel_of(const struct gemm *gemm,
                        const struct gemm_shape *s))(const struct product *) {
    const int is_f32 = s->type == DTYPE_F32;
    const int is_small = s->m < 2 * PRODUCT_ROWS || s->n < 16;
    if ((!is_f32 && s->k % 2 != 0) ||
        (is_small && !gemm->kernels->multiplies_all_shapes && !s->packed)) {
        return NULL;
    }
    return is_f32 ? gemm->kernels->product_f32 : gemm->kernels->product_bf16;
}

static struct gemm_plan *plan_new(struct gemm *gemm, const struct gemm_shape *shape,
                                  struct berth_error *error) {
    struct gemm_plan *plan = memory_array_zeroed(1, sizeof *plan);
    if (plan == NULL) {
        (void)error_no_memory(error, sizeof *plan, "a matrix product");
        return NULL;
    }
    plan->shape = *shape;
    plan->kernel = kernel_of(gemm, shape);
    if (plan->kernel != NULL) {
        plan->scratch_bytes = packed_a_bytes(shape) + sums_bytes(shape);
        return plan;
    }
    if (library_product_new(gemm->library, shape, &plan->library, error) != BERTH_OK) {
        memory_free(plan);
        return NULL;
    }
    plan->scratch_bytes = library_scratch_bytes(plan->library);
    return plan;
}

const struct gemm_plan *gemm_plan(struct gemm *gemm, const struct gemm_shape *shape,
                                  struct berth_error *error) {
    struct gemm_plan **bucket = &gemm->buckets[shape_hash(shape) % BUCKETS];
    for (struct gemm_plan *plan = *bucket; plan != NULL; plan = plan->next) {
        if (shape_equal(&plan->shape, shape)) {
            return plan;
        }
    }
    struct gemm_plan *plan = plan_new(gemm, shape, error);
    if (plan == NULL) {
        return NULL;
    }
    if (gemm_reserve(gemm, plan->scratch_bytes, error) != BERTH_OK) {
        plan_free(plan, gemm->threads);
        return NULL;
    }
    plan->next = *bucket;
    *bucket = plan;
    gemm->plan_count++;
    return plan;
}

int gemm_packs(const struct gemm *gemm, const struct gemm_shape *shape) {
    struct gemm_shape packed = *shape;
    packed.packed = 1;
    const size_t bytes = (size_t)(shape->n * shape->k) * dtype_size(shape->type);
    return shape->ldb == shape->k && packed_b_bytes(shape) == bytes &&
           kernel_of(gemm, &packed) != NULL;
}

// --- packing -------------------------------------------------------------------------------------

size_t gemm_pack_bytes(const struct gemm_plan *plan) {
    return plan->kernel != NULL ? packed_b_bytes(&plan->shape) : 0;
}

// An operand as it is in memory.
static struct mat stored(const void *data, int64_t rows, int64_t cols, int64_t stride,
                         enum dtype type) {
    return (struct mat){(void *)(uintptr_t)data, rows, cols, stride, type};
}

static void pack_panels(const struct gemm *gemm, const struct gemm_shape *s, const void *b,
                        void *packed, int64_t first, int64_t last) {
    if (s->b_transposed) {
        gemm->kernels->pack_rows(packed, stored(b, s->n, s->k, s->ldb, s->type), first, last);
    } else {
        gemm->kernels->pack_columns(packed, stored(b, s->k, s->n, s->ldb, s->type), first, last);
    }
}

void gemm_pack(struct gemm *gemm, const struct gemm_plan *plan, const void *b, void *packed) {
    const int64_t n = plan->shape.n, columns = PACKED_PANELS * product_panel(n);
#pragma omp parallel for num_threads(gemm->threads) schedule(dynamic) if (n > columns)
    for (int64_t first = 0; first < n; first += columns) {
        const int64_t last = first + columns < n ? first + columns : n;
        pack_panels(gemm, &plan->shape, b, packed, first, last);
    }
}

// --- running -------------------------------------------------------------------------------------

int64_t gemm_column_block(const struct gemm_plan *plan) {
    const int64_t n = plan->shape.n;
    const struct gemm_shape *s = &plan->shape;
    const int is_divisible = plan->kernel != NULL && !s->a_transposed && depth_chunks(s) == 1;
    return is_divisible && n > COLUMN_BLOCK ? COLUMN_BLOCK : n;
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
    product.bias = s->bias ? operands->bias : NULL;
    product.accumulate = s->accumulate;
    return product;
}

// The number of rows whose part of a stays in the cache, in whole blocks of the kernels.
static int64_t rows_at_once(const struct gemm *gemm, const struct product *whole) {
    const int64_t row_bytes = (whole->last - whole->first) * PRODUCT_WORD_BYTES;
    const int64_t unit = gemm->kernels->strips_are_tiles ? PRODUCT_TILE_ROWS : PRODUCT_ROWS;
    const int64_t units = gemm->rows_bytes / (row_bytes * unit);
    return units > 0 ? units * unit : unit;
}

// Multiplies one block of rows after the other, so that a stays in the cache.
static void run_rows(const struct gemm *gemm, const struct gemm_plan *plan,
                     const struct product *whole) {
    const int64_t rows = rows_at_once(gemm, whole);
    for (int64_t row = 0; row < whole->c.rows; row += rows) {
        const int64_t left = whole->c.rows - row;
        struct product product = *whole;
        product.a = (const char *)whole->a + row / PRODUCT_ROWS * whole->a_strip;
        product.c = mat_rows(whole->c, row, left < rows ? left : rows);
        product.epilogue = product_epilogue_rows(whole->epilogue, row, product.c.rows);
        plan->kernel(&product);
    }
}

// Multiplies one chunk of the depth after the other.
static void run_depth_chunks(const struct gemm *gemm, const struct gemm_plan *plan,
                             struct product whole, void *sums) {
    const struct mat c = whole.c;
    if (sums_bytes(&plan->shape) > 0) {
        whole.c = mat_of(sums, c.rows, c.cols, DTYPE_F32);
    }
    for (int64_t first = 0; first < whole.depth; first += STEPS_MAX) {
        struct product product = whole;
        product.first = first;
        product.last = first + STEPS_MAX < whole.depth ? first + STEPS_MAX : whole.depth;
        product.bias = first == 0 ? whole.bias : NULL;
        product.accumulate = whole.accumulate || first > 0;
        run_rows(gemm, plan, &product);
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

int gemm_run(struct gemm *gemm, const struct gemm_plan *plan, int thread,
             const struct gemm_operands *operands) {
    const struct gemm_shape *s = &plan->shape;
    char *scratch = gemm->scratch[thread];
    if (plan->kernel == NULL) {
        const int status = library_run(gemm->library, plan->library, thread, operands, scratch);
        if (status == 0) {
            run_epilogue(gemm, s, operands);
        }
        return status;
    }
    struct product product = product_of(gemm, s, operands, scratch);
    if (depth_chunks(s) > 1) {
        run_depth_chunks(gemm, plan, product, scratch + plan->scratch_bytes - sums_bytes(s));
        run_epilogue(gemm, s, operands);
    } else {
        product.epilogue = operands->epilogue;
        run_rows(gemm, plan, &product);
    }
    return 0;
}

int gemm_run_columns(struct gemm *gemm, const struct gemm_plan *plan, int thread,
                     const struct gemm_operands *operands, int64_t first, int64_t last) {
    if (last - first == plan->shape.n) {
        return gemm_run(gemm, plan, thread, operands);
    }
    struct product product = product_of(gemm, &plan->shape, operands, gemm->scratch[thread]);
    product.c = mat_columns(product.c, first, last - first);
    product.epilogue = product_epilogue_columns(operands->epilogue, first, last - first);
    product.b = (const char *)product.b + (size_t)(first * product.depth) * PRODUCT_WORD_BYTES;
    product.bias = product.bias == NULL ? NULL : product.bias + first;
    run_rows(gemm, plan, &product);
    return 0;
}
