// SPDX-License-Identifier: Apache-2.0
// Matrix products through oneDNN; no other file includes it. Uses matmul primitives over plain
// strided layouts, for one thread, with scratch memory from the caller (scratchpad mode "user").
// Only its kernel for f32 with a transposed operand allocates memory itself: gemm_heap_bytes.
//
// One operand may first be reordered into the layout that the library's kernels read fastest
// (columns in blocks of 64, rows in blocks of 16 or 16 pairs), which pays when many tiles share it.
// The library's global primitive cache keeps its settings.
#include "cpu/gemm.h"

#include "core/error.h"
#include "core/memory.h"
#include "cpu/kernels.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#define PLANS_MAX 512
#define BUCKETS 1024
#define MEMORIES 6

struct gemm_plan {
    struct gemm_plan *next;
    struct gemm_shape shape;
    struct gemm_shape
        run; // the product that the library computes: `shape`, or its f32 form without gaps
    int converts;
    dnnl_primitive_t primitive;
    dnnl_primitive_t packer; // NULL: b is used as it is
    dnnl_memory_t packer_memories[2];
    size_t pack_bytes;
    dnnl_primitive_t transposer; // NULL: a is used as it is
    size_t pad_bytes;
    char name[64];
    // Per thread: a, b, c, bias, scratchpad, a before it is transposed. Handles are set at each
    // run.
    dnnl_memory_t (*memories)[MEMORIES];
};

struct gemm {
    dnnl_engine_t engine;
    dnnl_stream_t *streams; // one per thread
    char **scratch;         // one per thread
    size_t scratch_bytes;
    int threads;
    int native_bf16;
    const struct kernels *kernels;
    int plan_count;
    struct gemm_plan *buckets[BUCKETS];
};

static enum berth_status library_error(struct berth_error *error, dnnl_status_t status,
                                       const char *what, const struct gemm_shape *s) {
    return error_set(error, BERTH_INTERNAL,
                     "oneDNN cannot %s the product [%lld, %lld] x [%lld, %lld] of %s (status %d); "
                     "try another --precision",
                     what, (long long)s->m, (long long)s->k, (long long)s->k, (long long)s->n,
                     dtype_name(s->type), (int)status);
}

enum berth_status gemm_open(int threads, int native_bf16, const struct kernels *kernels,
                            struct gemm **gemm, struct berth_error *error) {
    struct gemm *new = memory_array_zeroed(1, sizeof *new);
    if (new == NULL) {
        return error_no_memory(error, sizeof *new, "the matrix product cache");
    }
    new->threads = threads;
    new->native_bf16 = native_bf16;
    new->kernels = kernels;
    new->streams = memory_array_zeroed((size_t)threads, sizeof(dnnl_stream_t));
    new->scratch = memory_array_zeroed((size_t)threads, sizeof *new->scratch);
    int ok = new->streams != NULL &&new->scratch !=
             NULL &&dnnl_engine_create(&new->engine, dnnl_cpu, 0) == dnnl_success;
    for (int t = 0; ok && t < threads; t++) {
        ok = dnnl_stream_create(&new->streams[t], new->engine, dnnl_stream_default_flags) ==
             dnnl_success;
    }
    if (!ok) {
        gemm_close(new);
        return error_set(error, BERTH_NO_MEMORY,
                         "cannot initialise oneDNN for %d threads; try fewer --threads", threads);
    }
    *gemm = new;
    return BERTH_OK;
}

static void plan_free(struct gemm_plan *plan, int threads) {
    for (int t = 0; plan->memories != NULL && t < threads; t++) {
        for (int i = 0; i < MEMORIES; i++) {
            if (plan->memories[t][i] != NULL) {
                dnnl_memory_destroy(plan->memories[t][i]);
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        if (plan->packer_memories[i] != NULL) {
            dnnl_memory_destroy(plan->packer_memories[i]);
        }
    }
    if (plan->packer != NULL) {
        dnnl_primitive_destroy(plan->packer);
    }
    if (plan->transposer != NULL) {
        dnnl_primitive_destroy(plan->transposer);
    }
    if (plan->primitive != NULL) {
        dnnl_primitive_destroy(plan->primitive);
    }
    memory_free(plan->memories);
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
    for (int t = 0; gemm->streams != NULL && t < gemm->threads; t++) {
        if (gemm->streams[t] != NULL) {
            dnnl_stream_destroy(gemm->streams[t]);
        }
    }
    if (gemm->engine != NULL) {
        dnnl_engine_destroy(gemm->engine);
    }
    memory_free(gemm->streams);
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
    return plan->name;
}

const char *gemm_library(void) {
    static char text[48];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    return text;
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
           x->pack_b == y->pack_b;
}

// Rows and columns of an operand in memory.
static struct mat operand(void *data, int64_t rows, int64_t cols, int64_t stride, enum dtype type,
                          int transposed) {
    return transposed ? (struct mat){data, cols, rows, stride, type}
                      : (struct mat){data, rows, cols, stride, type};
}

static struct gemm_shape shape_without_gaps(const struct gemm_shape *s) {
    struct gemm_shape run = *s;
    run.lda = s->a_transposed ? s->m : s->k;
    run.ldb = s->b_transposed ? s->k : s->n;
    run.ldc = s->c_type == DTYPE_F32 ? s->ldc : s->n;
    run.type = run.c_type = DTYPE_F32;
    run.pack_b = 0; // b is converted for every tile in any case
    return run;
}

static dnnl_status_t describe_matrix(dnnl_memory_desc_t *desc, int64_t rows, int64_t cols,
                                     int64_t stride, enum dtype type, int transposed) {
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : stride, transposed ? stride : 1};
    return dnnl_memory_desc_init_by_strides(desc, 2, dims, type == DTYPE_F32 ? dnnl_f32 : dnnl_bf16,
                                            strides);
}

static dnnl_status_t make_attributes(dnnl_primitive_attr_t *attributes, int accumulate) {
    dnnl_post_ops_t post_ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status == dnnl_success) {
        status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    }
    if (status == dnnl_success && accumulate) {
        status = dnnl_post_ops_create(&post_ops);
        if (status == dnnl_success) {
            status = dnnl_post_ops_append_sum(post_ops, 1.0f);
        }
        if (status == dnnl_success) {
            status = dnnl_primitive_attr_set_post_ops(*attributes, post_ops);
        }
        dnnl_post_ops_destroy(post_ops);
    }
    return status;
}

static dnnl_status_t make_memories(struct gemm *gemm, struct gemm_plan *plan,
                                   const dnnl_memory_desc_t *descs[MEMORIES]) {
    for (int t = 0; t < gemm->threads; t++) {
        for (int i = 0; i < MEMORIES; i++) {
            if (descs[i] != NULL) {
                dnnl_status_t status = dnnl_memory_create(&plan->memories[t][i], descs[i],
                                                          gemm->engine, DNNL_MEMORY_NONE);
                if (status != dnnl_success) {
                    return status;
                }
            }
        }
    }
    return dnnl_success;
}

// The layout that the library's kernels for large products read; 0 when they do not accept it.
static int packed_layout(dnnl_memory_desc_t *desc, const struct gemm_shape *s) {
    const dnnl_dims_t dims = {s->k, s->n};
    const int half = s->type != DTYPE_F32;
    return s->pack_b && s->n >= 64 && s->k >= 64 &&
           dnnl_memory_desc_init_by_tag(desc, 2, dims, half ? dnnl_bf16 : dnnl_f32,
                                        half ? dnnl_BA16a64b2a : dnnl_BA16a64b) == dnnl_success;
}

static dnnl_status_t make_packer(struct gemm *gemm, struct gemm_plan *plan,
                                 const dnnl_memory_desc_t *plain,
                                 const dnnl_memory_desc_t *packed) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&desc, plain, gemm->engine, packed, gemm->engine, NULL);
    if (status == dnnl_success) {
        omp_set_num_threads(gemm->threads);
        status = dnnl_primitive_create(&plan->packer, desc);
        omp_set_num_threads(1);
    }
    const dnnl_memory_desc_t *descs[2] = {plain, packed};
    for (int i = 0; i < 2 && status == dnnl_success; i++) {
        status =
            dnnl_memory_create(&plan->packer_memories[i], descs[i], gemm->engine, DNNL_MEMORY_NONE);
    }
    plan->pack_bytes = dnnl_memory_desc_get_size(packed);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

static dnnl_status_t make_transposer(struct gemm *gemm, struct gemm_plan *plan,
                                     const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&desc, from, gemm->engine, to, gemm->engine, NULL);
    if (status == dnnl_success) {
        status = dnnl_primitive_create(&plan->transposer, desc);
    }
    dnnl_primitive_desc_destroy(desc);
    return status;
}

// The parts of a plan during its creation.
struct making {
    dnnl_memory_desc_t a, b, c, bias, packed, a_source;
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t desc;
};

static dnnl_status_t describe(struct making *making, const struct gemm_shape *s) {
    dnnl_status_t status =
        describe_matrix(&making->a, s->m, s->k, s->lda, s->type, s->a_transposed);
    if (status == dnnl_success) {
        status = describe_matrix(&making->b, s->k, s->n, s->ldb, s->type, s->b_transposed);
    }
    if (status == dnnl_success) {
        status = describe_matrix(&making->c, s->m, s->n, s->ldc, s->c_type, 0);
    }
    if (status == dnnl_success) {
        status = describe_matrix(&making->bias, 1, s->n, s->n, DTYPE_F32, 0);
    }
    return status == dnnl_success ? make_attributes(&making->attributes, s->accumulate) : status;
}

static dnnl_status_t choose(struct gemm *gemm, struct making *making, const struct gemm_shape *s,
                            const dnnl_memory_desc_t *b) {
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status =
        dnnl_matmul_desc_init(&matmul, &making->a, b, s->bias ? &making->bias : NULL, &making->c);
    return status == dnnl_success
               ? dnnl_primitive_desc_create(&making->desc, &matmul, making->attributes,
                                            gemm->engine, NULL)
               : status;
}

static const char *implementation(dnnl_primitive_desc_t desc) {
    const char *name = "";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
    return name;
}

static dnnl_status_t finish(struct gemm *gemm, struct gemm_plan *plan, struct making *making,
                            const dnnl_memory_desc_t *b) {
    const dnnl_memory_desc_t *pad =
        dnnl_primitive_desc_query_md(making->desc, dnnl_query_scratchpad_md, 0);
    const struct gemm_shape *s = &plan->shape;
    const int transposes = s->a_transposed && !plan->run.a_transposed;
    const dnnl_memory_desc_t *descs[MEMORIES] = {&making->a, b,
                                                 &making->c, plan->run.bias ? &making->bias : NULL,
                                                 pad,        transposes ? &making->a_source : NULL};
    snprintf(plan->name, sizeof plan->name, "%s", implementation(making->desc));
    plan->pad_bytes = dnnl_memory_desc_get_size(pad);
    dnnl_status_t status = transposes
                               ? describe_matrix(&making->a_source, s->m, s->k, s->lda, s->type, 1)
                               : dnnl_success;
    if (status == dnnl_success) {
        status = make_memories(gemm, plan, descs);
    }
    if (status == dnnl_success && transposes) {
        status = make_transposer(gemm, plan, &making->a_source, &making->a);
    }
    if (status == dnnl_success && b == &making->packed) {
        status = make_packer(gemm, plan, &making->b, b);
    }
    return status == dnnl_success ? dnnl_primitive_create(&plan->primitive, making->desc) : status;
}

static dnnl_status_t make_primitive(struct gemm *gemm, struct gemm_plan *plan) {
    struct making making = {.attributes = NULL};
    const dnnl_memory_desc_t *b = &making.b;
    dnnl_status_t status = describe(&making, &plan->run);
    if (status == dnnl_success && packed_layout(&making.packed, &plan->run)) {
        dnnl_status_t packs = choose(gemm, &making, &plan->run, &making.packed);
        if (packs == dnnl_success && strncmp(implementation(making.desc), "brg", 3) == 0) {
            b = &making.packed;
        } else { // other kernels are slow with this layout
            dnnl_primitive_desc_destroy(making.desc);
            making.desc = NULL;
        }
    }
    if (status == dnnl_success && making.desc == NULL) {
        status = choose(gemm, &making, &plan->run, b);
    }
    if (status == dnnl_success) {
        status = finish(gemm, plan, &making, b);
    }
    dnnl_primitive_desc_destroy(making.desc);
    dnnl_primitive_attr_destroy(making.attributes);
    return status;
}

static struct gemm_plan *plan_new(struct gemm *gemm, const struct gemm_shape *shape,
                                  struct berth_error *error) {
    struct gemm_plan *plan = memory_array_zeroed(1, sizeof *plan);
    if (plan != NULL) {
        plan->memories = memory_array_zeroed((size_t)gemm->threads, sizeof *plan->memories);
    }
    if (plan == NULL || plan->memories == NULL) {
        memory_free(plan);
        (void)error_no_memory(error, sizeof *plan, "a matrix product");
        return NULL;
    }
    plan->shape = *shape;
    plan->converts = shape->type != DTYPE_F32 && !gemm->native_bf16;
    plan->run = plan->converts ? shape_without_gaps(shape) : *shape;
    if (!plan->converts && shape->pack_a && shape->a_transposed) {
        plan->run.a_transposed = 0;
        plan->run.lda = shape->k;
    }
    // The library splits a product for the number of threads that it sees when the primitive is
    // created.
    int outer = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t status = make_primitive(gemm, plan);
    omp_set_num_threads(outer);
    if (status != dnnl_success) {
        plan_free(plan, gemm->threads);
        (void)library_error(error, status, "prepare", shape);
        return NULL;
    }
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
    if (gemm_plan_scratch(plan) > gemm->scratch_bytes &&
        gemm_reserve(gemm, gemm_plan_scratch(plan), error) != BERTH_OK) {
        plan_free(plan, gemm->threads);
        return NULL;
    }
    plan->next = *bucket;
    *bucket = plan;
    gemm->plan_count++;
    return plan;
}

// --- running ------------------------------------------------------------------------------------

size_t gemm_pack_bytes(const struct gemm_plan *plan) {
    return plan->packer == NULL ? 0 : plan->pack_bytes;
}

int gemm_pack(struct gemm *gemm, const struct gemm_plan *plan, const void *b, void *packed) {
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, plan->packer_memories[0]},
                                     {DNNL_ARG_TO, plan->packer_memories[1]}};
    dnnl_memory_set_data_handle(plan->packer_memories[0], (void *)(uintptr_t)b);
    dnnl_memory_set_data_handle(plan->packer_memories[1], packed);
    int outer = omp_get_max_threads();
    omp_set_num_threads(gemm->threads);
    int status = (int)dnnl_primitive_execute(plan->packer, gemm->streams[0], 2, args);
    omp_set_num_threads(outer);
    return status;
}

static size_t round64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t floats(int64_t rows, int64_t cols) {
    return round64((size_t)(rows * cols) * sizeof(float));
}

size_t gemm_plan_scratch(const struct gemm_plan *plan) {
    const struct gemm_shape *s = &plan->shape;
    size_t bytes = round64(plan->pad_bytes);
    if (plan->converts) {
        bytes += floats(s->m, s->k) + floats(s->k, s->n);
        bytes += s->c_type == DTYPE_F32 ? 0 : floats(s->m, s->n);
    } else if (plan->transposer != NULL) {
        bytes += round64((size_t)(s->m * s->k) * dtype_size(s->type));
    }
    return bytes;
}

size_t gemm_heap_bytes(int64_t columns) {
    const int64_t block = 384; // rows and depth of the blocks that the library copies
    return (size_t)((columns + block) * block) * sizeof(float);
}

// Transposes a into the memory after the library's scratchpad.
static dnnl_status_t transpose(struct gemm *gemm, const struct gemm_plan *plan, int thread,
                               void *from, void *to) {
    dnnl_memory_t *memories = plan->memories[thread];
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, memories[5]}, {DNNL_ARG_TO, memories[0]}};
    dnnl_memory_set_data_handle(memories[5], from);
    dnnl_memory_set_data_handle(memories[0], to);
    return dnnl_primitive_execute(plan->transposer, gemm->streams[thread], 2, args);
}

static dnnl_status_t execute(struct gemm *gemm, const struct gemm_plan *plan, int thread,
                             void *const handles[5]) {
    static const int names[5] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS,
                                 DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[5];
    dnnl_status_t status = dnnl_success;
    int count = 0;
    for (int i = 0; i < 5; i++) {
        if (plan->memories[thread][i] != NULL) {
            dnnl_memory_set_data_handle(plan->memories[thread][i], handles[i]);
            args[count++] = (dnnl_exec_arg_t){names[i], plan->memories[thread][i]};
        }
    }
    if (plan->transposer != NULL) {
        char *behind = (char *)handles[4] + round64(plan->pad_bytes);
        status = transpose(gemm, plan, thread, handles[0], behind);
    }
    return status == dnnl_success
               ? dnnl_primitive_execute(plan->primitive, gemm->streams[thread], count, args)
               : status;
}

static int run_primitive(struct gemm *gemm, const struct gemm_plan *plan, int thread,
                         void *const handles[5]) {
    if (omp_in_parallel()) {
        return (int)execute(gemm, plan, thread, handles);
    }
    // A region of one thread does not count as parallel, so some of the library's kernels would
    // start threads.
    int outer = omp_get_max_threads();
    omp_set_num_threads(1);
    int status = (int)execute(gemm, plan, thread, handles);
    omp_set_num_threads(outer);
    return status;
}

static int run_converted(struct gemm *gemm, const struct gemm_plan *plan, int thread,
                         void *const handles[5]) {
    const struct gemm_shape *s = &plan->shape, *r = &plan->run;
    char *next = (char *)handles[4] + round64(plan->pad_bytes);
    struct mat a = operand(handles[0], s->m, s->k, s->lda, s->type, s->a_transposed);
    struct mat a32 = operand(next, s->m, s->k, r->lda, DTYPE_F32, s->a_transposed);
    next += floats(s->m, s->k);
    struct mat b = operand(handles[1], s->k, s->n, s->ldb, s->type, s->b_transposed);
    struct mat b32 = operand(next, s->k, s->n, r->ldb, DTYPE_F32, s->b_transposed);
    next += floats(s->k, s->n);
    struct mat c = operand(handles[2], s->m, s->n, s->ldc, s->c_type, 0);
    struct mat c32 = s->c_type == DTYPE_F32 ? c : operand(next, s->m, s->n, r->ldc, DTYPE_F32, 0);
    gemm->kernels->copy(a32, a);
    gemm->kernels->copy(b32, b);
    void *const converted[5] = {a32.data, b32.data, c32.data, handles[3], handles[4]};
    int status = run_primitive(gemm, plan, thread, converted);
    if (s->c_type != DTYPE_F32) {
        gemm->kernels->copy(c, c32);
    }
    return status;
}

int gemm_run(struct gemm *gemm, const struct gemm_plan *plan, int thread, const void *a,
             const void *b, void *c, const float *bias) {
    void *const handles[5] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c,
                              (void *)(uintptr_t)bias, gemm->scratch[thread]};
    return plan->converts ? run_converted(gemm, plan, thread, handles)
                          : run_primitive(gemm, plan, thread, handles);
}
