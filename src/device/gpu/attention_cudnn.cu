// SPDX-License-Identifier: Apache-2.0
// Attention in inference by cuDNN's fused operation (cudnn_plan.h), if the user asks for it.
// Training stays with Berth's own kernels, whose backward pass needs their masks and log-sum-exp.
//
// A plan's bounds are rounded up to powers of two, so that few plans are made: a new one takes
// tenths of a second.
#include "device/gpu/attention.h"
#include "device/gpu/cudnn_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PLANS = 64, OFFSET_THREADS = 256 };
enum { MIN_SEQUENCES = 8, MAX_SEQUENCES = 1 << 16, MIN_LENGTH = 128 };
enum { MAX_OFFSETS = MAX_SEQUENCES + 8 }; // one more than sequences, rounded up to whole vectors
static constexpr size_t WORKSPACE_BYTES = 16 << 20;

// Where the sequences begin and how long they are, in device memory. From a batch's last sequence
// to the plan's bound, they are empty.
struct ragged {
    int64_t *qkv, *context; // [MAX_OFFSETS]
    int32_t *lengths;       // [MAX_SEQUENCES]
};

struct attention_cudnn {
    CUDNN(handle) library;
    void *memory; // device memory: the workspace, then the arrays of `ragged`
    struct ragged ragged;
    struct cudnn_plan plans[MAX_PLANS];
    int count, oldest; // where MAX_PLANS are in use, the oldest is replaced
};

// --- opening ------------------------------------------------------------------------------------

static gpu_error cudnn_error(CUDNN(status) status) {
    static thread_local char text[400];
    char reason[256] = "";
    if (status == CUDNN(STATUS_SUCCESS)) {
        return GPU_NO_ERROR;
    }
    CUDNN(GetLastErrorString)(reason, sizeof reason);
    snprintf(text, sizeof text, "cuDNN: %s%s%s", CUDNN(GetErrorString)(status),
             reason[0] != '\0' ? ": " : "", reason);
    return gpu_error{GPU_CUDNN, text};
}

size_t attention_cudnn_bytes(void) {
    return WORKSPACE_BYTES + 2 * MAX_OFFSETS * sizeof(int64_t) + MAX_SEQUENCES * sizeof(int32_t);
}

static gpu_error allocate_memory(struct attention_cudnn *cudnn) {
    const gpu_error error = gpu_memory_new(&cudnn->memory, attention_cudnn_bytes());
    if (error.code == 0) {
        cudnn->ragged.qkv = (int64_t *)((char *)cudnn->memory + WORKSPACE_BYTES);
        cudnn->ragged.context = cudnn->ragged.qkv + MAX_OFFSETS;
        cudnn->ragged.lengths = (int32_t *)(cudnn->ragged.context + MAX_OFFSETS);
    }
    return error;
}

gpu_error attention_cudnn_open(struct attention_cudnn **cudnn, gpu_stream stream) {
    const char *missing = cudnn_load();
    if (missing != NULL) {
        return gpu_error{GPU_CUDNN, missing};
    }
    struct attention_cudnn *opened = (struct attention_cudnn *)calloc(1, sizeof *opened);
    if (opened == NULL) {
        return gpu_error{GPU_OUT_OF_MEMORY, NULL};
    }
    gpu_error error = cudnn_error(CUDNN(Create)(&opened->library));
    if (error.code == 0) {
        error = cudnn_error(CUDNN(SetStream)(opened->library, gpu_native(stream)));
    }
    if (error.code == 0) {
        error = allocate_memory(opened);
    }
    if (error.code != 0) {
        attention_cudnn_close(opened);
        return error;
    }
    *cudnn = opened;
    return GPU_NO_ERROR;
}

void attention_cudnn_close(struct attention_cudnn *cudnn) {
    for (int i = 0; cudnn != NULL && i < cudnn->count; i++) {
        cudnn_plan_free(&cudnn->plans[i]);
    }
    if (cudnn != NULL && cudnn->library != NULL) {
        (void)CUDNN(Destroy)(cudnn->library);
        gpu_memory_free(cudnn->memory);
    }
    free(cudnn);
}

// --- plans --------------------------------------------------------------------------------------

static int64_t round_up_to_power_of_two(int64_t min, int64_t number) {
    int64_t power = min;
    while (power < number) {
        power *= 2;
    }
    return power;
}

static struct cudnn_shape shape_of(const struct attention_args *args, const struct batch *batch) {
    return {args->qkv.dtype == DTYPE_BF16 ? CUDNN(DATA_BFLOAT16) : CUDNN(DATA_HALF),
            round_up_to_power_of_two(MIN_SEQUENCES, batch->sequence_count),
            round_up_to_power_of_two(MIN_LENGTH, batch->max_length),
            args->heads,
            args->context.cols / args->heads,
            args->qkv.stride,
            args->context.stride};
}

// A slot for another plan. The GPU may still be using the plan that is evicted.
static struct cudnn_plan *plan_slot(struct gpu *gpu) {
    struct attention_cudnn *cudnn = gpu->cudnn;
    if (cudnn->count < MAX_PLANS) {
        return &cudnn->plans[cudnn->count++];
    }
    struct cudnn_plan *oldest = &cudnn->plans[cudnn->oldest];
    cudnn->oldest = (cudnn->oldest + 1) % MAX_PLANS;
    gpu_fail(gpu, "waiting", gpu_wait(gpu->stream));
    cudnn_plan_free(oldest);
    return oldest;
}

// NULL after an error.
static struct cudnn_plan *find_or_make_plan(struct gpu *gpu, const struct cudnn_shape *shape) {
    struct attention_cudnn *cudnn = gpu->cudnn;
    for (int i = 0; i < cudnn->count; i++) {
        if (memcmp(&cudnn->plans[i].shape, shape, sizeof *shape) == 0) {
            return &cudnn->plans[i];
        }
    }
    struct cudnn_plan plan;
    const struct cudnn_target target = {cudnn->library, NULL};
    const CUDNN(status) status = cudnn_plan_make(&plan, shape, &target, WORKSPACE_BYTES);
    if (status != CUDNN(STATUS_SUCCESS)) {
        gpu_fail(gpu, "planning attention", cudnn_error(status));
        cudnn_plan_free(&plan);
        return NULL;
    }
    struct cudnn_plan *slot = plan_slot(gpu);
    *slot = plan;
    return slot;
}

// --- offsets ------------------------------------------------------------------------------------

__global__ void __launch_bounds__(OFFSET_THREADS)
    attention_offsets_kernel(struct ragged to, struct batch batch, int64_t bound,
                             int64_t qkv_stride, int64_t context_stride) {
    const int64_t i = (int64_t)blockIdx.x * OFFSET_THREADS + threadIdx.x;
    const int64_t count = batch.sequence_count;
    if (i > bound) {
        return;
    }
    const int64_t first = batch.cu_seqlens[i < count ? i : count];
    to.qkv[i] = first * qkv_stride;
    to.context[i] = first * context_stride;
    if (i < bound) {
        to.lengths[i] = i < count ? batch.cu_seqlens[i + 1] - (int32_t)first : 0;
    }
}

static gpu_cost offsets_cost(struct ragged to, struct batch batch, int64_t bound,
                             int64_t qkv_stride, int64_t context_stride) {
    return {cost_words(batch.cu_seqlens, batch.sequence_count + 1),
            (uint64_t)(2 * (bound + 1)) * sizeof *to.qkv + cost_words(to.lengths, bound), 0};
}

// --- the operation ------------------------------------------------------------------------------

static bool is_supported(const struct attention_args *args, const struct batch *batch) {
    const int64_t size = args->context.cols / args->heads;
    return args->lse == NULL && args->dropout.threshold == 0 && args->qkv.dtype != DTYPE_F32 &&
           args->context.dtype == args->qkv.dtype && (size == 32 || size == 64 || size == 128) &&
           gpu_is_vectorizable(args->qkv) && gpu_is_vectorizable(args->context) &&
           batch->sequence_count <= MAX_SEQUENCES;
}

static CUDNN(status)
    set_arguments(CUDNN(descriptor) pack, void *pointers[CUDNN_TENSORS], void *workspace) {
    int64_t ids[CUDNN_TENSORS];
    for (int i = 0; i < CUDNN_TENSORS; i++) {
        ids[i] = cudnn_id(i);
    }
    TRY_CUDNN(CUDNN(BackendSetAttribute)(pack, CUDNN(ATTR_VARIANT_PACK_UNIQUE_IDS),
                                         CUDNN(TYPE_INT64), CUDNN_TENSORS, ids));
    TRY_CUDNN(CUDNN(BackendSetAttribute)(pack, CUDNN(ATTR_VARIANT_PACK_DATA_POINTERS),
                                         CUDNN(TYPE_VOID_PTR), CUDNN_TENSORS, pointers));
    TRY_CUDNN(CUDNN(BackendSetAttribute)(pack, CUDNN(ATTR_VARIANT_PACK_WORKSPACE),
                                         CUDNN(TYPE_VOID_PTR), 1, &workspace));
    return CUDNN(BackendFinalize)(pack);
}

static CUDNN(status) execute(struct attention_cudnn *cudnn, const struct cudnn_plan *plan,
                             void *pointers[CUDNN_TENSORS]) {
    CUDNN(descriptor) pack;
    TRY_CUDNN(CUDNN(BackendCreateDescriptor)(CUDNN(BACKEND_VARIANT_PACK_DESCRIPTOR), &pack));
    CUDNN(status) status = set_arguments(pack, pointers, cudnn->memory);
    if (status == CUDNN(STATUS_SUCCESS)) {
        status = CUDNN(BackendExecute)(cudnn->library, plan->execution_plan, pack);
    }
    CUDNN(BackendDestroyDescriptor)(pack);
    return status;
}

static void run_plan(struct gpu *gpu, const struct cudnn_plan *plan,
                     const struct attention_args *args, const struct batch *batch) {
    struct ragged to = gpu->cudnn->ragged;
    const struct cudnn_shape *shape = &plan->shape;
    const size_t part = (size_t)args->context.cols * dtype_size(args->qkv.dtype);
    float scale = 1.0f / sqrtf((float)shape->head_size);
    char *const qkv = (char *)args->qkv.data;
    gpu_run(gpu,
            {"attention_offsets", gpu_blocks(shape->sequences + 1, OFFSET_THREADS), OFFSET_THREADS},
            attention_offsets_kernel, offsets_cost, to, *batch, shape->sequences, shape->qkv_stride,
            shape->context_stride);
    void *pointers[CUDNN_TENSORS] = {qkv,        qkv + part, qkv + 2 * part, args->context.data,
                                     to.qkv,     to.qkv,     to.qkv,         to.context,
                                     to.lengths, to.lengths, &scale};
    if (gpu->status == BERTH_OK) {
        gpu_fail(gpu, "attention", cudnn_error(execute(gpu->cudnn, plan, pointers)));
    }
}

bool attention_cudnn_forward(struct gpu *gpu, const struct attention_args *args,
                             const struct batch *batch) {
    if (gpu->cudnn == NULL || gpu->status != BERTH_OK || !is_supported(args, batch)) {
        return false;
    }
    const struct cudnn_shape shape = shape_of(args, batch);
    const struct cudnn_plan *plan = find_or_make_plan(gpu, &shape);
    if (plan != NULL) {
        run_plan(gpu, plan, args, batch);
    }
    return plan != NULL;
}
