// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt or hipBLASLt, which has the same interface under other names
// (lt_cuda.h, lt_hip.h). They are column-major: our c[M, N] is their [N, M], so a and b are
// swapped. A plan (descriptors and the algorithm that the heuristic chose) is kept for each shape.
//
// The library adds a bias of the dtype of c. If that is not f32, the bias is first rounded into
// scratch memory.
#include "device/gpu/gemm.h"
#include "device/gpu/kernel.h"

#ifdef __CUDACC__
#include "device/gpu/lt_cuda.h"
#else
#include "device/gpu/lt_hip.h"
#endif

#include <stdlib.h>
#include <string.h>

enum { MAX_PLANS = 256, WORKSPACE_BYTES = 64 << 20, MAX_BIAS = 1 << 20, BIAS_THREADS = 256 };
enum { MAX_ALIGNMENT = 16 }; // bytes of the widest load

// What the choice of an algorithm depends on; compared byte by byte.
struct plan_key {
    int64_t rows, cols, inner, stride_a, stride_b, stride_c;
    int32_t operands, result; // enum dtype
    int32_t a_transposed, b_transposed, accumulates, has_bias;
    uint32_t alignment; // of a, b and c in bytes, at most MAX_ALIGNMENT
};

struct plan {
    struct plan_key key;
    LT(MatmulDesc_t) product;
    LT(MatrixLayout_t) a, b, c;
    LT(MatmulAlgo_t) algorithm;
};

struct gemm {
    LT(Handle_t) library;
    void *workspace; // device memory
    void *bias;      // device memory, of MAX_BIAS 2-byte numbers
    bool tf32;       // for operands in f32
    struct plan plans[MAX_PLANS];
    int count, oldest; // where MAX_PLANS are in use, the oldest is replaced
};

static lt_type type_of(enum dtype dtype) {
    return dtype == DTYPE_F32 ? LT_F32 : dtype == DTYPE_BF16 ? LT_BF16 : LT_F16;
}

gpu_error gemm_open(struct gemm **gemm, bool tf32) {
    struct gemm *opened = (struct gemm *)calloc(1, sizeof *opened);
    if (opened == NULL) {
        return gpu_error{GPU_OUT_OF_MEMORY, NULL};
    }
    opened->tf32 = tf32;
    gpu_error error = lt_load();
    if (error.code == 0) {
        error = lt_error(LT(Create)(&opened->library));
    }
    if (error.code == 0) {
        error = lt_check(opened->library);
    }
    if (error.code == 0) {
        error = gpu_memory_new(&opened->workspace, WORKSPACE_BYTES);
    }
    if (error.code == 0) {
        error = gpu_memory_new(&opened->bias, MAX_BIAS * sizeof(uint16_t));
    }
    if (error.code != 0) {
        gemm_close(opened);
        return error;
    }
    *gemm = opened;
    return GPU_NO_ERROR;
}

static void free_plan(struct plan *plan) {
    LT(MatmulDescDestroy)(plan->product);
    LT(MatrixLayoutDestroy)(plan->a);
    LT(MatrixLayoutDestroy)(plan->b);
    LT(MatrixLayoutDestroy)(plan->c);
}

void gemm_close(struct gemm *gemm) {
    for (int i = 0; gemm != NULL && i < gemm->count; i++) {
        free_plan(&gemm->plans[i]);
    }
    if (gemm != NULL && gemm->library != NULL) {
        LT(Destroy)(gemm->library);
        gpu_memory_free(gemm->workspace);
        gpu_memory_free(gemm->bias);
    }
    free(gemm);
}

size_t gemm_workspace_bytes(void) {
    return WORKSPACE_BYTES + MAX_BIAS * sizeof(uint16_t);
}

// --- plans --------------------------------------------------------------------------------------

static uint32_t alignment_of(const struct gemm_call *call) {
    const uintptr_t bits =
        (uintptr_t)call->a.data | (uintptr_t)call->b.data | (uintptr_t)call->c.data | MAX_ALIGNMENT;
    return (uint32_t)(bits & (~bits + 1)); // the lowest bit that is set
}

static struct plan_key key_of(const struct gemm_call *call) {
    struct plan_key key;
    memset(&key, 0, sizeof key); // padding is compared as well
    key.rows = call->c.rows;
    key.cols = call->c.cols;
    key.inner = call->a_transposed ? call->a.rows : call->a.cols;
    key.stride_a = call->a.stride;
    key.stride_b = call->b.stride;
    key.stride_c = call->c.stride;
    key.operands = call->a.dtype;
    key.result = call->c.dtype;
    key.a_transposed = call->a_transposed;
    key.b_transposed = call->b_transposed;
    key.accumulates = call->accumulates;
    key.has_bias = call->bias != NULL;
    key.alignment = alignment_of(call);
    return key;
}

#define TRY_LT(call)                                                                               \
    do {                                                                                           \
        lt_status try_status_ = (call);                                                            \
        if (try_status_ != LT_SUCCESS) {                                                           \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)

static lt_status set_layout(LT(MatrixLayout_t) * layout, struct mat m) {
    return LT(MatrixLayoutCreate)(layout, type_of(m.dtype), (uint64_t)m.cols, (uint64_t)m.rows,
                                  m.stride);
}

static lt_status set_bias(struct plan *plan, const void *bias) {
    return bias == NULL
               ? LT_SUCCESS
               : LT(MatmulDescSetAttribute)(plan->product, LT_NUMBER(MATMUL_DESC_BIAS_POINTER),
                                            &bias, sizeof bias);
}

// b is the library's first operand, a its second.
static lt_status describe(struct plan *plan, const struct gemm_call *call, const void *bias,
                          bool tf32) {
    const int32_t first = call->b_transposed ? LT_TRANSPOSED : LT_AS_IT_IS;
    const int32_t second = call->a_transposed ? LT_TRANSPOSED : LT_AS_IT_IS;
    const uint32_t epilogue =
        call->bias != NULL ? LT_NUMBER(EPILOGUE_BIAS) : LT_NUMBER(EPILOGUE_DEFAULT);
    const lt_type bias_type = type_of(call->c.dtype);
    const auto sums = tf32 && call->a.dtype == DTYPE_F32 ? LT_SUMS_TF32 : LT_SUMS_F32;
    TRY_LT(LT(MatmulDescCreate)(&plan->product, sums, LT_F32));
    TRY_LT(LT(MatmulDescSetAttribute)(plan->product, LT_NUMBER(MATMUL_DESC_TRANSA), &first,
                                      sizeof first));
    TRY_LT(LT(MatmulDescSetAttribute)(plan->product, LT_NUMBER(MATMUL_DESC_TRANSB), &second,
                                      sizeof second));
    TRY_LT(LT(MatmulDescSetAttribute)(plan->product, LT_NUMBER(MATMUL_DESC_EPILOGUE), &epilogue,
                                      sizeof epilogue));
    TRY_LT(LT(MatmulDescSetAttribute)(plan->product, LT_NUMBER(MATMUL_DESC_BIAS_DATA_TYPE),
                                      &bias_type, sizeof bias_type));
    TRY_LT(set_bias(plan, bias));
    TRY_LT(set_layout(&plan->b, call->b));
    TRY_LT(set_layout(&plan->a, call->a));
    return set_layout(&plan->c, call->c);
}

static lt_status choose_algorithm(struct gemm *gemm, struct plan *plan) {
    const size_t workspace = WORKSPACE_BYTES;
    LT(MatmulHeuristicResult_t) result;
    LT(MatmulPreference_t) preference;
    int found = 0;
    TRY_LT(LT(MatmulPreferenceCreate)(&preference));
    lt_status status = LT(MatmulPreferenceSetAttribute)(
        preference, LT_NUMBER(MATMUL_PREF_MAX_WORKSPACE_BYTES), &workspace, sizeof workspace);
    if (status == LT_SUCCESS) {
        status = lt_want_fixed_sums(preference);
    }
    if (status == LT_SUCCESS) {
        status = lt_set_alignment(preference, plan->key.alignment);
    }
    if (status == LT_SUCCESS) {
        status = LT(MatmulAlgoGetHeuristic)(gemm->library, plan->product, plan->b, plan->a, plan->c,
                                            plan->c, preference, 1, &result, &found);
    }
    LT(MatmulPreferenceDestroy)(preference);
    TRY_LT(status);
    if (found == 0) {
        return LT_NOT_SUPPORTED;
    }
    plan->algorithm = result.algo;
    return LT_SUCCESS;
}

// bias has the dtype of the result.
static struct plan *find_or_make_plan(struct gemm *gemm, const struct gemm_call *call,
                                      const void *bias, lt_status *status) {
    const struct plan_key key = key_of(call);
    for (int i = 0; i < gemm->count; i++) {
        if (memcmp(&gemm->plans[i].key, &key, sizeof key) == 0) {
            return &gemm->plans[i];
        }
    }
    struct plan made;
    memset(&made, 0, sizeof made);
    made.key = key;
    *status = describe(&made, call, bias, gemm->tf32);
    if (*status == LT_SUCCESS) {
        *status = choose_algorithm(gemm, &made);
    }
    if (*status != LT_SUCCESS) {
        free_plan(&made);
        return NULL;
    }
    struct plan *kept = &gemm->plans[gemm->count];
    if (gemm->count < MAX_PLANS) {
        gemm->count++;
    } else {
        kept = &gemm->plans[gemm->oldest];
        gemm->oldest = (gemm->oldest + 1) % MAX_PLANS;
        free_plan(kept);
    }
    *kept = made;
    return kept;
}

// --- products -----------------------------------------------------------------------------------

__global__ void __launch_bounds__(BIAS_THREADS)
    round_bias_kernel(struct mat rounded, const float *bias) {
    const int64_t column = (int64_t)blockIdx.x * BIAS_THREADS + threadIdx.x;
    if (column < rounded.cols) {
        set_number(rounded, 0, column, bias[column]);
    }
}

static gpu_cost round_bias_cost(struct mat rounded, const float *bias) {
    return {cost_words(bias, rounded.cols), cost_of(rounded), 0};
}

// NULL after an error.
static const void *rounded_bias(struct gpu *gpu, const struct gemm_call *call) {
    if (call->bias == NULL || call->c.dtype == DTYPE_F32) {
        return call->bias;
    }
    if (call->c.cols > MAX_BIAS) {
        gpu_fail(gpu, "matrix product", "a bias of more than 1048576 numbers in 16 bits");
        return NULL;
    }
    const struct mat rounded = {gpu->gemm->bias, 1, call->c.cols, call->c.cols, call->c.dtype};
    gpu_run(gpu, {"round_bias", gpu_blocks(call->c.cols, BIAS_THREADS), BIAS_THREADS},
            round_bias_kernel, round_bias_cost, rounded, call->bias);
    return gpu->gemm->bias;
}

static void run_whole(struct gpu *gpu, const struct gemm_call *call) {
    const float one = 1.0f, base = call->accumulates ? 1.0f : 0.0f;
    struct gemm *gemm = gpu->gemm;
    lt_status status = LT_SUCCESS;
    const void *bias = rounded_bias(gpu, call);
    if (gpu->status != BERTH_OK) {
        return;
    }
    struct plan *plan = find_or_make_plan(gemm, call, bias, &status);
    if (plan != NULL) {
        status = set_bias(plan, bias);
    }
    if (status == LT_SUCCESS) {
        status =
            LT(Matmul)(gemm->library, plan->product, &one, call->b.data, plan->b, call->a.data,
                       plan->a, &base, call->c.data, plan->c, call->c.data, plan->c,
                       &plan->algorithm, gemm->workspace, WORKSPACE_BYTES, lt_stream(gpu->stream));
    }
    gpu_fail(gpu, "matrix product", lt_error(status));
}

// --- odd ends -----------------------------------------------------------------------------------

// The fast kernels load 16 bytes at once and take only operands whose rows consist of such vectors.
// So a product whose rows begin at vectors, but do not end at one, is divided into a body of whole
// vectors and a tail.
enum gemm_side { GEMM_ROWS, GEMM_COLS, GEMM_INNER }; // of c[rows, cols] += a[rows, inner] b

enum { VECTOR = 8, FEW = 64 }; // numbers; products of FEW are not divided

// The rows or columns [first, first + count) of a matrix.
static struct mat cut(struct mat m, bool rows, int64_t first, int64_t count) {
    return rows ? mat_rows(m, first, count) : mat_columns(m, first, count);
}

// The part of the product that has only [first, first + count) of a side.
static struct gemm_call part_of(const struct gemm_call *call, enum gemm_side side, int64_t first,
                                int64_t count) {
    struct gemm_call part = *call;
    if (side != GEMM_INNER) {
        part.c = cut(call->c, side == GEMM_ROWS, first, count);
    }
    if (side != GEMM_COLS) {
        part.a = cut(call->a, (side == GEMM_ROWS) != call->a_transposed, first, count);
    }
    if (side != GEMM_ROWS) {
        part.b = cut(call->b, (side == GEMM_INNER) != call->b_transposed, first, count);
    }
    if (side == GEMM_COLS && call->bias != NULL) {
        part.bias = call->bias + first;
    }
    return part;
}

static bool begins_at_vectors(struct mat m) {
    return (uintptr_t)m.data % MAX_ALIGNMENT == 0 &&
           (uint64_t)m.stride * dtype_size(m.dtype) % MAX_ALIGNMENT == 0;
}

static bool has_odd_end(struct mat m) {
    return m.cols > FEW && m.cols % VECTOR != 0;
}

// The side to divide, if there is one.
static bool find_odd_side(const struct gemm_call *call, enum gemm_side *side) {
    const enum gemm_side of_a = call->a_transposed ? GEMM_ROWS : GEMM_INNER;
    const enum gemm_side of_b = call->b_transposed ? GEMM_INNER : GEMM_COLS;
    if (call->a.dtype == DTYPE_F32 || !begins_at_vectors(call->a) || !begins_at_vectors(call->b) ||
        !begins_at_vectors(call->c)) {
        return false;
    }
    *side = has_odd_end(call->c) ? GEMM_COLS : has_odd_end(call->a) ? of_a : of_b;
    return has_odd_end(call->c) || has_odd_end(call->a) || has_odd_end(call->b);
}

void gemm_run(struct gpu *gpu, const struct gemm_call *call) {
    enum gemm_side side;
    if (gpu->status != BERTH_OK || call->c.rows == 0) {
        return;
    }
    if (!find_odd_side(call, &side)) {
        run_whole(gpu, call);
        return;
    }
    const int64_t inner = call->a_transposed ? call->a.rows : call->a.cols;
    const int64_t all = side == GEMM_ROWS ? call->c.rows : side == GEMM_COLS ? call->c.cols : inner;
    const int64_t whole = all / VECTOR * VECTOR;
    struct gemm_call tail = part_of(call, side, whole, all - whole);
    struct gemm_call body = part_of(call, side, 0, whole);
    if (side == GEMM_INNER) { // the tail is small, and so is the error of rounding it to c
        tail.bias = NULL;
        body.accumulates = true;
    }
    gemm_run(gpu, &tail);
    gemm_run(gpu, &body);
}
