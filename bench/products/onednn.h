// SPDX-License-Identifier: Apache-2.0
// The calls of oneDNN that differ between its versions 2.6 and 3; only yardstick.c includes it.
#ifndef BERTH_BENCH_ONEDNN_H
#define BERTH_BENCH_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR < 2 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6)
#error "bench_products needs oneDNN 2.6 or later"
#endif

// A layout in memory: onednn_layout is owned (onednn_layout_done), onednn_view is how it is passed.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t onednn_layout;
typedef const_dnnl_memory_desc_t onednn_view;

static inline onednn_view onednn_view_of(const onednn_layout *layout) {
    return *layout;
}

static inline void onednn_layout_done(onednn_layout *layout) {
    dnnl_memory_desc_destroy(*layout);
}

static inline dnnl_status_t onednn_layout_strides(onednn_layout *layout, const dnnl_dims_t dims,
                                                  dnnl_data_type_t type,
                                                  const dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(layout, 2, dims, type, strides);
}

static inline dnnl_status_t onednn_append_sum(dnnl_post_ops_t operations) {
    return dnnl_post_ops_append_sum(operations, 1.0f, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t onednn_matmul(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                          onednn_view a, onednn_view b, onednn_view bias,
                                          onednn_view c, const_dnnl_primitive_attr_t attributes) {
    return dnnl_matmul_primitive_desc_create(desc, engine, a, b, bias, c, attributes);
}
#else
typedef dnnl_memory_desc_t onednn_layout;
typedef const dnnl_memory_desc_t *onednn_view;

static inline onednn_view onednn_view_of(const onednn_layout *layout) {
    return layout;
}

static inline void onednn_layout_done(onednn_layout *layout) {
}

static inline dnnl_status_t onednn_layout_strides(onednn_layout *layout, const dnnl_dims_t dims,
                                                  dnnl_data_type_t type,
                                                  const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(layout, 2, dims, type, strides);
}

static inline dnnl_status_t onednn_append_sum(dnnl_post_ops_t operations) {
    return dnnl_post_ops_append_sum(operations, 1.0f);
}

static inline dnnl_status_t onednn_matmul(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                          onednn_view a, onednn_view b, onednn_view bias,
                                          onednn_view c, const_dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t matmul;
    const dnnl_status_t status = dnnl_matmul_desc_init(&matmul, a, b, bias, c);
    return status == dnnl_success
               ? dnnl_primitive_desc_create(desc, &matmul, attributes, engine, NULL)
               : status;
}
#endif

#endif
