// SPDX-License-Identifier: Apache-2.0
// Attention over packed sequences as a cuDNN graph of one operation, and the plan that cuDNN makes
// of it. Nothing is executed here, and a description of a GPU is enough, so that tests can let the
// library check the graph on a machine without a GPU.
//
// q, k, v and o are [sequences, heads, length, head size] with the strides of the packed matrices.
// Each sequence begins at a ragged offset instead of a multiple of a stride, and its length is in
// device memory. So a plan serves every batch within its bounds; sequences beyond the batch's own
// have no rows.
#ifndef BERTH_GPU_CUDNN_PLAN_H
#define BERTH_GPU_CUDNN_PLAN_H

#include "device/gpu/cudnn.h"

#include <string.h>

// Compared byte by byte; there is no padding.
struct cudnn_shape {
    int64_t type;              // CUDNN(DATA_HALF) or CUDNN(DATA_BFLOAT16)
    int64_t sequences, length; // at most
    int64_t heads, head_size;
    int64_t qkv_stride, context_stride; // between rows, in numbers
};

// The tensors of the graph; cudnn_id is the unique id of each.
enum cudnn_tensor {
    CUDNN_Q,
    CUDNN_K,
    CUDNN_V,
    CUDNN_O,
    CUDNN_Q_OFFSETS, // [sequences + 1] int64: index of the number where a sequence's q begins
    CUDNN_K_OFFSETS,
    CUDNN_V_OFFSETS,
    CUDNN_O_OFFSETS,
    CUDNN_Q_LENGTHS, // [sequences] int32: rows
    CUDNN_KV_LENGTHS,
    CUDNN_SCALE, // in host memory
    CUDNN_TENSORS
};

static inline int64_t cudnn_id(int tensor) {
    return tensor + 1;
}

enum { MAX_CUDNN_CONFIGS = 8, MAX_CUDNN_DESCRIPTORS = CUDNN_TENSORS + 3 + 2 * MAX_CUDNN_CONFIGS };

// Descriptors refer to those that they were made from, so all of them live as long as the plan.
struct cudnn_plan {
    struct cudnn_shape shape;
    CUDNN(descriptor) descriptors[MAX_CUDNN_DESCRIPTORS];
    int count;
    CUDNN(descriptor) tensors[CUDNN_TENSORS];
    CUDNN(descriptor) execution_plan;
    int64_t workspace; // bytes that it needs
};

// The GPU to plan for: that of a handle, or a described one; the other member is NULL.
struct cudnn_target {
    CUDNN(handle) handle;
    CUDNN(descriptor) description;
};

#define TRY_CUDNN(call)                                                                            \
    do {                                                                                           \
        const CUDNN(status) try_status_ = (call);                                                  \
        if (try_status_ != CUDNN(STATUS_SUCCESS)) {                                                \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)

static inline CUDNN(status)
    cudnn_descriptor_new(struct cudnn_plan *plan, int type, CUDNN(descriptor) * made) {
    TRY_CUDNN(CUDNN(BackendCreateDescriptor)(type, made));
    plan->descriptors[plan->count++] = *made;
    return CUDNN(STATUS_SUCCESS);
}

static inline void cudnn_plan_free(struct cudnn_plan *plan) {
    while (plan->count > 0) {
        CUDNN(BackendDestroyDescriptor)(plan->descriptors[--plan->count]);
    }
}

static inline CUDNN(status)
    cudnn_set_descriptor(CUDNN(descriptor) to, int name, CUDNN(descriptor) descriptor) {
    return CUDNN(BackendSetAttribute)(to, name, CUDNN(TYPE_BACKEND_DESCRIPTOR), 1, &descriptor);
}

static inline CUDNN(status) cudnn_set_int64(CUDNN(descriptor) to, int name, int64_t number) {
    return CUDNN(BackendSetAttribute)(to, name, CUDNN(TYPE_INT64), 1, &number);
}

// --- the graph ----------------------------------------------------------------------------------

struct cudnn_layout {
    int type;
    int64_t sizes[4], strides[4];
    CUDNN(descriptor) offsets; // NULL: none
};

static inline CUDNN(status) cudnn_tensor_new(struct cudnn_plan *plan, enum cudnn_tensor tensor,
                                             const struct cudnn_layout *layout) {
    const int64_t alignment = 16;
    const bool is_by_value = tensor == CUDNN_SCALE;
    CUDNN(descriptor) made;
    TRY_CUDNN(cudnn_descriptor_new(plan, CUDNN(BACKEND_TENSOR_DESCRIPTOR), &made));
    TRY_CUDNN(CUDNN(BackendSetAttribute)(made, CUDNN(ATTR_TENSOR_DATA_TYPE), CUDNN(TYPE_DATA_TYPE),
                                         1, &layout->type));
    TRY_CUDNN(CUDNN(BackendSetAttribute)(made, CUDNN(ATTR_TENSOR_DIMENSIONS), CUDNN(TYPE_INT64), 4,
                                         layout->sizes));
    TRY_CUDNN(CUDNN(BackendSetAttribute)(made, CUDNN(ATTR_TENSOR_STRIDES), CUDNN(TYPE_INT64), 4,
                                         layout->strides));
    TRY_CUDNN(cudnn_set_int64(made, CUDNN(ATTR_TENSOR_UNIQUE_ID), cudnn_id(tensor)));
    TRY_CUDNN(cudnn_set_int64(made, CUDNN(ATTR_TENSOR_BYTE_ALIGNMENT), alignment));
    TRY_CUDNN(CUDNN(BackendSetAttribute)(made, CUDNN(ATTR_TENSOR_IS_BY_VALUE), CUDNN(TYPE_BOOLEAN),
                                         1, &is_by_value));
    if (layout->offsets != NULL) {
        TRY_CUDNN(
            cudnn_set_descriptor(made, CUDNN(ATTR_TENSOR_RAGGED_OFFSET_DESC), layout->offsets));
    }
    plan->tensors[tensor] = made;
    return CUDNN(BackendFinalize)(made);
}

// A vector of `count` numbers.
static inline CUDNN(status)
    cudnn_vector_new(struct cudnn_plan *plan, enum cudnn_tensor tensor, int type, int64_t count) {
    const struct cudnn_layout layout = {type, {count, 1, 1, 1}, {1, 1, 1, 1}, NULL};
    return cudnn_tensor_new(plan, tensor, &layout);
}

// A tensor with heads side by side in rows that are `stride` numbers apart.
static inline CUDNN(status) cudnn_heads_new(struct cudnn_plan *plan, enum cudnn_tensor tensor,
                                            enum cudnn_tensor offsets, int64_t stride) {
    const struct cudnn_shape *s = &plan->shape;
    TRY_CUDNN(cudnn_vector_new(plan, offsets, CUDNN(DATA_INT64), s->sequences + 1));
    const struct cudnn_layout layout = {(int)s->type,
                                        {s->sequences, s->heads, s->length, s->head_size},
                                        {s->length * stride, s->head_size, stride, 1},
                                        plan->tensors[offsets]};
    return cudnn_tensor_new(plan, tensor, &layout);
}

static inline CUDNN(status) cudnn_tensors_new(struct cudnn_plan *plan) {
    const struct cudnn_shape *s = &plan->shape;
    TRY_CUDNN(cudnn_heads_new(plan, CUDNN_Q, CUDNN_Q_OFFSETS, s->qkv_stride));
    TRY_CUDNN(cudnn_heads_new(plan, CUDNN_K, CUDNN_K_OFFSETS, s->qkv_stride));
    TRY_CUDNN(cudnn_heads_new(plan, CUDNN_V, CUDNN_V_OFFSETS, s->qkv_stride));
    TRY_CUDNN(cudnn_heads_new(plan, CUDNN_O, CUDNN_O_OFFSETS, s->context_stride));
    TRY_CUDNN(cudnn_vector_new(plan, CUDNN_Q_LENGTHS, CUDNN(DATA_INT32), s->sequences));
    TRY_CUDNN(cudnn_vector_new(plan, CUDNN_KV_LENGTHS, CUDNN(DATA_INT32), s->sequences));
    return cudnn_vector_new(plan, CUDNN_SCALE, CUDNN(DATA_FLOAT), 1);
}

static inline CUDNN(status) cudnn_operation_new(struct cudnn_plan *plan, CUDNN(descriptor) * made) {
    static const struct {
        int name;
        enum cudnn_tensor tensor;
    } operands[] = {{CUDNN(ATTR_OPERATION_SDPA_FWD_QDESC), CUDNN_Q},
                    {CUDNN(ATTR_OPERATION_SDPA_FWD_KDESC), CUDNN_K},
                    {CUDNN(ATTR_OPERATION_SDPA_FWD_VDESC), CUDNN_V},
                    {CUDNN(ATTR_OPERATION_SDPA_FWD_ODESC), CUDNN_O},
                    {CUDNN(ATTR_OPERATION_SDPA_FWD_SCALEDESC), CUDNN_SCALE},
                    {CUDNN(ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC), CUDNN_Q_LENGTHS},
                    {CUDNN(ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC), CUDNN_KV_LENGTHS}};
    TRY_CUDNN(cudnn_descriptor_new(plan, CUDNN(BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR), made));
    for (const auto &operand : operands) {
        TRY_CUDNN(cudnn_set_descriptor(*made, operand.name, plan->tensors[operand.tensor]));
    }
    return CUDNN(BackendFinalize)(*made);
}

static inline CUDNN(status)
    cudnn_graph_new(struct cudnn_plan *plan, const struct cudnn_target *target,
                    CUDNN(descriptor) * made) {
    CUDNN(descriptor) operation;
    TRY_CUDNN(cudnn_tensors_new(plan));
    TRY_CUDNN(cudnn_operation_new(plan, &operation));
    TRY_CUDNN(cudnn_descriptor_new(plan, CUDNN(BACKEND_OPERATIONGRAPH_DESCRIPTOR), made));
    if (target->handle != NULL) {
        TRY_CUDNN(CUDNN(BackendSetAttribute)(*made, CUDNN(ATTR_OPERATIONGRAPH_HANDLE),
                                             CUDNN(TYPE_HANDLE), 1, &target->handle));
    }
    TRY_CUDNN(cudnn_set_descriptor(*made, CUDNN(ATTR_OPERATIONGRAPH_OPS), operation));
    return CUDNN(BackendFinalize)(*made);
}

// --- the plan -----------------------------------------------------------------------------------

// The engine configurations that the heuristic suggests, the best one first.
static inline CUDNN(status)
    cudnn_find_configs(struct cudnn_plan *plan, const struct cudnn_target *target,
                       CUDNN(descriptor) configs[MAX_CUDNN_CONFIGS], int64_t *count) {
    const int mode = CUDNN(HEUR_MODE_A);
    CUDNN(descriptor) graph, heuristic;
    TRY_CUDNN(cudnn_graph_new(plan, target, &graph));
    TRY_CUDNN(cudnn_descriptor_new(plan, CUDNN(BACKEND_ENGINEHEUR_DESCRIPTOR), &heuristic));
    TRY_CUDNN(cudnn_set_descriptor(heuristic, CUDNN(ATTR_ENGINEHEUR_OPERATION_GRAPH), graph));
    TRY_CUDNN(CUDNN(BackendSetAttribute)(heuristic, CUDNN(ATTR_ENGINEHEUR_MODE),
                                         CUDNN(TYPE_HEUR_MODE), 1, &mode));
    if (target->description != NULL) {
        TRY_CUDNN(cudnn_set_descriptor(heuristic, CUDNN(ATTR_ENGINEHEUR_DEVICEPROP),
                                       target->description));
    }
    TRY_CUDNN(CUDNN(BackendFinalize)(heuristic));
    for (int i = 0; i < MAX_CUDNN_CONFIGS; i++) {
        TRY_CUDNN(cudnn_descriptor_new(plan, CUDNN(BACKEND_ENGINECFG_DESCRIPTOR), &configs[i]));
    }
    return CUDNN(BackendGetAttribute)(heuristic, CUDNN(ATTR_ENGINEHEUR_RESULTS),
                                      CUDNN(TYPE_BACKEND_DESCRIPTOR), MAX_CUDNN_CONFIGS, count,
                                      configs);
}

static inline CUDNN(status) cudnn_try_config(struct cudnn_plan *plan, CUDNN(descriptor) config) {
    int64_t found = 0;
    TRY_CUDNN(cudnn_descriptor_new(plan, CUDNN(BACKEND_EXECUTION_PLAN_DESCRIPTOR),
                                   &plan->execution_plan));
    TRY_CUDNN(cudnn_set_descriptor(plan->execution_plan, CUDNN(ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                                   config));
    TRY_CUDNN(CUDNN(BackendFinalize)(plan->execution_plan));
    return CUDNN(BackendGetAttribute)(plan->execution_plan,
                                      CUDNN(ATTR_EXECUTION_PLAN_WORKSPACE_SIZE), CUDNN(TYPE_INT64),
                                      1, &found, &plan->workspace);
}

// Plans with the first configuration that cuDNN can compile and that fits max_workspace. This takes
// tenths of a second. The caller frees the plan, also after an error.
static inline CUDNN(status)
    cudnn_plan_make(struct cudnn_plan *plan, const struct cudnn_shape *shape,
                    const struct cudnn_target *target, int64_t max_workspace) {
    CUDNN(descriptor) configs[MAX_CUDNN_CONFIGS];
    CUDNN(status) last = CUDNN(STATUS_NOT_SUPPORTED);
    int64_t count = 0;
    memset(plan, 0, sizeof *plan);
    plan->shape = *shape;
    TRY_CUDNN(cudnn_find_configs(plan, target, configs, &count));
    for (int64_t i = 0; i < count; i++) {
        const CUDNN(status) status = cudnn_try_config(plan, configs[i]);
        if (status == CUDNN(STATUS_SUCCESS) && plan->workspace <= max_workspace) {
            return status;
        }
        last = status != CUDNN(STATUS_SUCCESS) ? status : last;
    }
    return last;
}

#endif
