// SPDX-License-Identifier: Apache-2.0
// Products by oneDNN's matmul primitives, with a scratchpad of their own, to compare Berth's
// kernels with. program.c calls it in turn with ours; what differs between oneDNN's versions is in
// onednn.h, and yardstick.h hides both.
#include "bench/products/yardstick.h"

#include "bench/products/onednn.h"
#include "core/memory.h"

#include <stdio.h>
#include <string.h>

enum { MEMORIES = 4 };

struct yardstick {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t memories[MEMORIES]; // a, b, c, bias
    char kernel[64];
};

static dnnl_status_t describe_matrix(onednn_layout *layout, int64_t rows, int64_t cols,
                                     int64_t stride, enum dtype type, int transposed) {
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : stride, transposed ? stride : 1};
    return onednn_layout_strides(layout, dims, type == DTYPE_F32 ? dnnl_f32 : dnnl_bf16, strides);
}

static int describe(onednn_layout layouts[MEMORIES], const struct gemm_shape *s) {
    return describe_matrix(&layouts[0], s->m, s->k, s->lda, s->type, s->a_transposed) ==
               dnnl_success &&
           describe_matrix(&layouts[1], s->k, s->n, s->ldb, s->type, s->b_transposed) ==
               dnnl_success &&
           describe_matrix(&layouts[2], s->m, s->n, s->ldc, s->c_type, 0) == dnnl_success &&
           describe_matrix(&layouts[3], 1, s->n, s->n, DTYPE_F32, 0) == dnnl_success;
}

static dnnl_primitive_attr_t attributes_new(int accumulate) {
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t sum = NULL;
    int good = dnnl_primitive_attr_create(&attributes) == dnnl_success;
    if (good && accumulate) {
        good = dnnl_post_ops_create(&sum) == dnnl_success &&
               onednn_append_sum(sum) == dnnl_success &&
               dnnl_primitive_attr_set_post_ops(attributes, sum) == dnnl_success;
        dnnl_post_ops_destroy(sum);
    }
    if (!good) {
        dnnl_primitive_attr_destroy(attributes);
        return NULL;
    }
    return attributes;
}

static int make_primitive(struct yardstick *y, const onednn_layout layouts[MEMORIES], int bias,
                          dnnl_primitive_attr_t attributes) {
    dnnl_primitive_desc_t desc = NULL;
    const char *kernel = "";
    const int good =
        onednn_matmul(&desc, y->engine, onednn_view_of(&layouts[0]), onednn_view_of(&layouts[1]),
                      bias ? onednn_view_of(&layouts[3]) : NULL, onednn_view_of(&layouts[2]),
                      attributes) == dnnl_success &&
        dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &kernel) == dnnl_success &&
        dnnl_primitive_create(&y->primitive, desc) == dnnl_success;
    snprintf(y->kernel, sizeof y->kernel, "%s", kernel);
    dnnl_primitive_desc_destroy(desc);
    return good;
}

static int make(struct yardstick *y, const struct gemm_shape *shape) {
    onednn_layout layouts[MEMORIES] = {0};
    const dnnl_primitive_attr_t attributes = attributes_new(shape->accumulate);
    int good =
        attributes != NULL && describe(layouts, shape) &&
        dnnl_engine_create(&y->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&y->stream, y->engine, dnnl_stream_default_flags) == dnnl_success &&
        make_primitive(y, layouts, shape->bias, attributes);
    for (int i = 0; i < (shape->bias ? MEMORIES : MEMORIES - 1); i++) {
        good = good && dnnl_memory_create(&y->memories[i], onednn_view_of(&layouts[i]), y->engine,
                                          DNNL_MEMORY_NONE) == dnnl_success;
    }
    for (int i = 0; i < MEMORIES; i++) {
        onednn_layout_done(&layouts[i]);
    }
    dnnl_primitive_attr_destroy(attributes);
    return good;
}

struct yardstick *yardstick_new(const struct gemm_shape *shape) {
    struct yardstick *y = memory_array_zeroed(1, sizeof *y);
    if (y != NULL && !make(y, shape)) {
        yardstick_free(y);
        return NULL;
    }
    return y;
}

void yardstick_free(struct yardstick *product) {
    if (product == NULL) {
        return;
    }
    for (int i = 0; i < MEMORIES; i++) {
        dnnl_memory_destroy(product->memories[i]);
    }
    dnnl_primitive_destroy(product->primitive);
    dnnl_stream_destroy(product->stream);
    dnnl_engine_destroy(product->engine);
    memory_free(product);
}

void yardstick_run(const struct yardstick *product, const struct gemm_operands *operands) {
    static const int names[MEMORIES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                        DNNL_ARG_BIAS};
    const void *const handles[MEMORIES] = {operands->a, operands->b, operands->c, operands->bias};
    dnnl_exec_arg_t args[MEMORIES];
    int count = 0;
    for (int i = 0; i < MEMORIES; i++) {
        if (product->memories[i] != NULL) {
            dnnl_memory_set_data_handle(product->memories[i], (void *)(uintptr_t)handles[i]);
            args[count++] = (dnnl_exec_arg_t){names[i], product->memories[i]};
        }
    }
    dnnl_primitive_execute(product->primitive, product->stream, count, args);
    dnnl_stream_wait(product->stream);
}

const char *yardstick_kernel(const struct yardstick *product) {
    return product->kernel;
}

const char *yardstick_version(void) {
    static char text[48];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    return text;
}
