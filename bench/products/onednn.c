// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN; no other file calls it. Uses matmul primitives on plain strided
// layouts, for one thread, with scratch memory from the caller (scratchpad mode "user"). Only its
// kernel for f32 with a transposed operand allocates memory itself: library_heap_bytes. Settings of
// oneDNN's global primitive cache are left alone.
#include "device/cpu/gemm_library.h"

#include "core/error.h"
#include "core/memory.h"
#include "device/cpu/kernels.h"
#include "device/cpu/onednn.h"

#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MEMORIES 6

struct library_product {
    struct gemm_shape shape;
    struct gemm_shape run; // what the library computes: `shape`, or its contiguous f32 form
    int converts;
    dnnl_primitive_t primitive;
    dnnl_primitive_t transposer; // NULL: a is used as it is
    size_t pad_bytes;
    char name[64];
    // Per thread: a, b, c, bias, scratchpad, a before it is transposed. Handles are set at each
    // run.
    dnnl_memory_t (*memories)[MEMORIES];
};

struct library {
    dnnl_engine_t engine;
    dnnl_stream_t *streams; // one per thread
    int threads;
    int native_bf16;
    const struct kernels *kernels;
};

static enum berth_status library_error(struct berth_error *error, dnnl_status_t status,
                                       const char *what, const struct gemm_shape *s) {
    return error_set(error, BERTH_INTERNAL,
                     "oneDNN cannot %s the product [%lld, %lld] x [%lld, %lld] of %s (status %d); "
                     "try another precision",
                     what, (long long)s->m, (long long)s->k, (long long)s->k, (long long)s->n,
                     dtype_name(s->type), (int)status);
}

enum berth_status library_open(int threads, int native_bf16, const struct kernels *kernels,
                               struct library **library, struct berth_error *error) {
    struct library *new = memory_array_zeroed(1, sizeof *new);
    if (new == NULL) {
        return error_no_memory(error, sizeof *new, "the matrix product library");
    }
    new->threads = threads;
    new->native_bf16 = native_bf16;
    new->kernels = kernels;
    new->streams = memory_array_zeroed((size_t)threads, sizeof(dnnl_stream_t));
    int ok = new->streams != NULL &&dnnl_engine_create(&new->engine, dnnl_cpu, 0) == dnnl_success;
    for (int t = 0; ok && t < threads; t++) {
        ok = dnnl_stream_create(&new->streams[t], new->engine, dnnl_stream_default_flags) ==
             dnnl_success;
    }
    if (!ok) {
        library_close(new);
        return error_set(error, BERTH_NO_MEMORY,
                         "out of memory for oneDNN with %d threads; try fewer threads", threads);
    }
    *library = new;
    return BERTH_OK;
}

void library_close(struct library *library) {
    if (library == NULL) {
        return;
    }
    for (int t = 0; library->streams != NULL && t < library->threads; t++) {
        if (library->streams[t] != NULL) {
            dnnl_stream_destroy(library->streams[t]);
        }
    }
    if (library->engine != NULL) {
        dnnl_engine_destroy(library->engine);
    }
    memory_free(library->streams);
    memory_free(library);
}

void library_product_free(struct library_product *product, int threads) {
    if (product == NULL) {
        return;
    }
    for (int t = 0; product->memories != NULL && t < threads; t++) {
        for (int i = 0; i < MEMORIES; i++) {
            if (product->memories[t][i] != NULL) {
                dnnl_memory_destroy(product->memories[t][i]);
            }
        }
    }
    if (product->transposer != NULL) {
        dnnl_primitive_destroy(product->transposer);
    }
    if (product->primitive != NULL) {
        dnnl_primitive_destroy(product->primitive);
    }
    memory_free(product->memories);
    memory_free(product);
}

const char *library_name(void) {
    static _Thread_local char text[48]; // of this thread's last call
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    return text;
}

// --- creating a product -------------------------------------------------------------------------

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
    return run;
}

static dnnl_status_t describe_matrix(onednn_layout *layout, int64_t rows, int64_t cols,
                                     int64_t stride, enum dtype type, int transposed) {
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : stride, transposed ? stride : 1};
    return onednn_layout_strides(layout, dims, type == DTYPE_F32 ? dnnl_f32 : dnnl_bf16, strides);
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
            status = onednn_append_sum(post_ops);
        }
        if (status == dnnl_success) {
            status = dnnl_primitive_attr_set_post_ops(*attributes, post_ops);
        }
        dnnl_post_ops_destroy(post_ops);
    }
    return status;
}

static dnnl_status_t make_memories(struct library *library, struct library_product *product,
                                   const onednn_view views[MEMORIES]) {
    for (int t = 0; t < library->threads; t++) {
        for (int i = 0; i < MEMORIES; i++) {
            if (views[i] != NULL) {
                dnnl_status_t status = dnnl_memory_create(&product->memories[t][i], views[i],
                                                          library->engine, DNNL_MEMORY_NONE);
                if (status != dnnl_success) {
                    return status;
                }
            }
        }
    }
    return dnnl_success;
}

static dnnl_status_t make_transposer(struct library *library, struct library_product *product,
                                     onednn_view from, onednn_view to) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&desc, from, library->engine, to, library->engine, NULL);
    if (status == dnnl_success) {
        status = dnnl_primitive_create(&product->transposer, desc);
    }
    dnnl_primitive_desc_destroy(desc);
    return status;
}

// The parts of a plan during its creation.
struct making {
    onednn_layout a, b, c, bias, a_source;
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

static dnnl_status_t choose(struct library *library, struct making *making,
                            const struct gemm_shape *s) {
    return onednn_matmul(&making->desc, library->engine, onednn_view_of(&making->a),
                         onednn_view_of(&making->b), s->bias ? onednn_view_of(&making->bias) : NULL,
                         onednn_view_of(&making->c), making->attributes);
}

static void making_done(struct making *making) {
    onednn_layout *const layouts[] = {&making->a, &making->b, &making->c, &making->bias,
                                      &making->a_source};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        onednn_layout_done(layouts[i]);
    }
    dnnl_primitive_desc_destroy(making->desc);
    dnnl_primitive_attr_destroy(making->attributes);
}

static const char *implementation(dnnl_primitive_desc_t desc) {
    const char *name = "";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
    return name;
}

static dnnl_status_t finish(struct library *library, struct library_product *product,
                            struct making *making) {
    const onednn_view pad = dnnl_primitive_desc_query_md(making->desc, dnnl_query_scratchpad_md, 0);
    const struct gemm_shape *s = &product->shape;
    const int transposes = s->a_transposed && !product->run.a_transposed;
    dnnl_status_t status = transposes
                               ? describe_matrix(&making->a_source, s->m, s->k, s->lda, s->type, 1)
                               : dnnl_success;
    const onednn_view a = onednn_view_of(&making->a), source = onednn_view_of(&making->a_source);
    const onednn_view views[MEMORIES] = {a,
                                         onednn_view_of(&making->b),
                                         onednn_view_of(&making->c),
                                         product->run.bias ? onednn_view_of(&making->bias) : NULL,
                                         pad,
                                         transposes ? source : NULL};
    snprintf(product->name, sizeof product->name, "%s", implementation(making->desc));
    product->pad_bytes = dnnl_memory_desc_get_size(pad);
    if (status == dnnl_success) {
        status = make_memories(library, product, views);
    }
    if (status == dnnl_success && transposes) {
        status = make_transposer(library, product, source, a);
    }
    return status == dnnl_success ? dnnl_primitive_create(&product->primitive, making->desc)
                                  : status;
}

static dnnl_status_t make_primitive(struct library *library, struct library_product *product) {
    struct making making = {.attributes = NULL};
    dnnl_status_t status = describe(&making, &product->run);
    if (status == dnnl_success) {
        status = choose(library, &making, &product->run);
    }
    if (status == dnnl_success) {
        status = finish(library, product, &making);
    }
    making_done(&making);
    return status;
}

enum berth_status library_product_new(struct library *library, const struct gemm_shape *shape,
                                      struct library_product **result, struct berth_error *error) {
    struct library_product *product = memory_array_zeroed(1, sizeof *product);
    if (product != NULL) {
        product->memories =
            memory_array_zeroed((size_t)library->threads, sizeof *product->memories);
    }
    if (product == NULL || product->memories == NULL) {
        memory_free(product);
        return error_no_memory(error, sizeof *product, "a matrix product");
    }
    product->shape = *shape;
    product->converts = shape->type != DTYPE_F32 && !library->native_bf16;
    product->run = product->converts ? shape_without_gaps(shape) : *shape;
    if (!product->converts && shape->pack_a && shape->a_transposed && shape->type != DTYPE_F32) {
        product->run.a_transposed = 0;
        product->run.lda = shape->k;
    }
    // The library splits a product for the number of threads that it sees when the primitive is
    // created.
    int outer = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t status = make_primitive(library, product);
    omp_set_num_threads(outer);
    if (status != dnnl_success) {
        library_product_free(product, library->threads);
        return library_error(error, status, "prepare", shape);
    }
    *result = product;
    return BERTH_OK;
}

const char *library_product_name(const struct library_product *product) {
    return product->name;
}

// --- running ------------------------------------------------------------------------------------

static size_t round64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t floats(int64_t rows, int64_t cols) {
    return round64((size_t)(rows * cols) * sizeof(float));
}

size_t library_scratch_bytes(const struct library_product *product) {
    const struct gemm_shape *s = &product->shape;
    size_t bytes = round64(product->pad_bytes);
    if (product->converts) {
        bytes += floats(s->m, s->k) + floats(s->k, s->n);
        bytes += s->c_type == DTYPE_F32 ? 0 : floats(s->m, s->n);
    } else if (product->transposer != NULL) {
        bytes += round64((size_t)(s->m * s->k) * dtype_size(s->type));
    }
    return bytes;
}

size_t library_heap_bytes(int64_t columns) {
    const int64_t block = 384; // rows and depth of the blocks that the library copies
    return (size_t)((columns + block) * block) * sizeof(float);
}

// Transposes a into the memory after the library's scratchpad.
static dnnl_status_t transpose(struct library *library, const struct library_product *product,
                               int thread, void *from, void *to) {
    dnnl_memory_t *memories = product->memories[thread];
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, memories[5]}, {DNNL_ARG_TO, memories[0]}};
    dnnl_memory_set_data_handle(memories[5], from);
    dnnl_memory_set_data_handle(memories[0], to);
    return dnnl_primitive_execute(product->transposer, library->streams[thread], 2, args);
}

static dnnl_status_t execute(struct library *library, const struct library_product *product,
                             int thread, void *const handles[5]) {
    static const int names[5] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS,
                                 DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[5];
    dnnl_status_t status = dnnl_success;
    int count = 0;
    for (int i = 0; i < 5; i++) {
        if (product->memories[thread][i] != NULL) {
            dnnl_memory_set_data_handle(product->memories[thread][i], handles[i]);
            args[count++] = (dnnl_exec_arg_t){names[i], product->memories[thread][i]};
        }
    }
    if (product->transposer != NULL) {
        char *behind = (char *)handles[4] + round64(product->pad_bytes);
        status = transpose(library, product, thread, handles[0], behind);
    }
    return status == dnnl_success
               ? dnnl_primitive_execute(product->primitive, library->streams[thread], count, args)
               : status;
}

// Some of the library's f32 kernels (gemm:jit) use the stack pointer for memory of theirs on the
// heap. A signal meanwhile would have its frame, of 3 KB with AVX-512, written over what is before
// that memory. So signals wait, but for those of the thread's own errors.
static dnnl_status_t execute_undisturbed(struct library *library,
                                         const struct library_product *product, int thread,
                                         void *const handles[5]) {
    static const int own_errors[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t waiting, before;
    sigfillset(&waiting);
    for (size_t i = 0; i < sizeof own_errors / sizeof *own_errors; i++) {
        sigdelset(&waiting, own_errors[i]);
    }
    pthread_sigmask(SIG_BLOCK, &waiting, &before);
    const dnnl_status_t status = execute(library, product, thread, handles);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static int run_primitive(struct library *library, const struct library_product *product, int thread,
                         void *const handles[5]) {
    if (omp_in_parallel()) {
        return (int)execute_undisturbed(library, product, thread, handles);
    }
    // A region of one thread does not count as parallel, so some of the library's kernels would
    // start threads.
    int outer = omp_get_max_threads();
    omp_set_num_threads(1);
    int status = (int)execute_undisturbed(library, product, thread, handles);
    omp_set_num_threads(outer);
    return status;
}

static int run_converted(struct library *library, const struct library_product *product, int thread,
                         void *const handles[5]) {
    const struct gemm_shape *s = &product->shape, *r = &product->run;
    char *next = (char *)handles[4] + round64(product->pad_bytes);
    struct mat a = operand(handles[0], s->m, s->k, s->lda, s->type, s->a_transposed);
    struct mat a32 = operand(next, s->m, s->k, r->lda, DTYPE_F32, s->a_transposed);
    next += floats(s->m, s->k);
    struct mat b = operand(handles[1], s->k, s->n, s->ldb, s->type, s->b_transposed);
    struct mat b32 = operand(next, s->k, s->n, r->ldb, DTYPE_F32, s->b_transposed);
    next += floats(s->k, s->n);
    struct mat c = operand(handles[2], s->m, s->n, s->ldc, s->c_type, 0);
    struct mat c32 = s->c_type == DTYPE_F32 ? c : operand(next, s->m, s->n, r->ldc, DTYPE_F32, 0);
    library->kernels->copy(a32, a);
    library->kernels->copy(b32, b);
    void *const converted[5] = {a32.data, b32.data, c32.data, handles[3], handles[4]};
    int status = run_primitive(library, product, thread, converted);
    if (s->c_type != DTYPE_F32) {
        library->kernels->copy(c, c32);
    }
    return status;
}

int library_run(struct library *library, const struct library_product *product, int thread,
                const struct gemm_operands *operands, void *scratch) {
    void *const handles[5] = {(void *)(uintptr_t)operands->a, (void *)(uintptr_t)operands->b,
                              operands->c, (void *)(uintptr_t)operands->bias, scratch};
    return product->converts ? run_converted(library, product, thread, handles)
                             : run_primitive(library, product, thread, handles);
}
