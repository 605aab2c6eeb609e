// SPDX-License-Identifier: Apache-2.0
// Kernels with typical errors, and correct ones for comparison, to test the emulation.
//
//   broken_kernels NAME    runs that kernel and prints whether its numbers are "right" or "wrong",
//                          unless the emulation ends the process
#include "device/gpu/gpu_api.h"
#include "device/gpu/mma.h"

enum { THREADS = 128, BLOCKS = 3, NUMBERS = THREADS * BLOCKS };

// out[i] of `count` numbers x.
typedef void (*kernel_function)(float *out, const float *x, int count);

// --- sums of a block's numbers ------------------------------------------------------------------

template <bool BARRIER, uint64_t MASK, int PARTS>
__global__ void sum_kernel(float *out, const float *x, int count) {
    GPU_SHARED(float, parts, PARTS);
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = x[i];
    for (int lanes = GPU_WARP / 2; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(MASK, sum, lanes);
    }
    if (threadIdx.x % GPU_WARP == 0) {
        parts[threadIdx.x / GPU_WARP] = sum;
    }
    if (BARRIER) {
        __syncthreads();
    }
    sum = 0;
    for (int warp = 0; warp < PARTS; warp++) {
        sum += parts[warp];
    }
    out[i] = sum;
}

static float expected_sum(const float *x, int i) {
    float sum = 0;
    for (int k = 0; k < THREADS; k++) {
        sum += x[i / THREADS * THREADS + k];
    }
    return sum;
}

// --- numbers of a neighbour ---------------------------------------------------------------------

// Twice the number of the previous (-1) or next (1) thread, or the thread's own at either end of
// the block. Without the second barrier, numbers may change before a thread reads them, depending
// on the order of threads.
template <int BESIDE, bool BARRIER>
__global__ void shift_kernel(float *out, const float *x, int count) {
    GPU_SHARED(float, row, THREADS);
    const int own = (int)threadIdx.x, i = (int)(blockIdx.x * blockDim.x) + own;
    const int beside = own + BESIDE >= 0 && own + BESIDE < THREADS ? own + BESIDE : own;
    row[own] = x[i];
    __syncthreads();
    const float found = row[beside];
    if (BARRIER) {
        __syncthreads();
    }
    row[own] = 2 * found;
    out[i] = row[own];
}

template <int BESIDE> static float expected_shift(const float *x, int i) {
    const int beside = i % THREADS + BESIDE;
    return 2 * x[beside >= 0 && beside < THREADS ? i + BESIDE : i];
}

// --- barriers that not all threads reach --------------------------------------------------------

__global__ void half_barrier_kernel(float *out, const float *x, int count) {
    if (threadIdx.x < THREADS / 2) {
        __syncthreads();
    }
}

__global__ void two_barriers_kernel(float *out, const float *x, int count) {
    if (threadIdx.x < THREADS / 2) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

// --- lanes --------------------------------------------------------------------------------------

__global__ void returned_lanes_kernel(float *out, const float *x, int count) {
    if (threadIdx.x % 2 == 0) {
        out[threadIdx.x] = __shfl_xor_sync(GPU_ALL_LANES, 1.0f, 2);
    }
}

__global__ void two_shuffles_kernel(float *out, const float *x, int count) {
    float number;
    if (threadIdx.x % GPU_WARP < 8) {
        number = __shfl_xor_sync(GPU_ALL_LANES, 1.0f, 1);
    } else {
        number = __shfl_xor_sync(GPU_ALL_LANES, 1.0f, 2);
    }
    out[threadIdx.x] = number;
}

__global__ void foreign_lane_kernel(float *out, const float *x, int count) {
    if (threadIdx.x % GPU_WARP < 8) {
        out[threadIdx.x] = __shfl_xor_sync(0xFF, 1.0f, 8);
    }
}

// --- addresses ----------------------------------------------------------------------------------

// out[i] = x[i]; the wrong ones read or write one number past the end.
template <int READ, int WRITTEN>
__global__ void copy_kernel(float *out, const float *x, int count) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const float number = x[i + READ];
    out[i + WRITTEN] = READ == 0 ? number : x[i] + 0 * number;
}

static float expected_copy(const float *x, int i) {
    return x[i];
}

template <int SHIFT> __global__ void vector_kernel(float *out, const float *x, int count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 4 == 0 && i + 8 <= (unsigned)count) {
        gpu_write16(out + i, gpu_read16(x + i + SHIFT));
    } else if (i % 4 == 0) {
        gpu_write16(out + i, gpu_read16(x + i));
    }
}

// A thread copies for its neighbours, which takes a wait and a barrier.
template <bool WAITS, bool BARRIER>
__global__ void async_kernel(float *out, const float *x, int count) {
    GPU_SHARED(float, row, THREADS);
    const unsigned own = threadIdx.x, i = blockIdx.x * blockDim.x + own;
    if (own % 4 == 0) {
        gpu_copy_start<16>(row + own, x + i, true);
    }
    if (WAITS) {
        gpu_copies_wait();
    }
    if (BARRIER) {
        __syncthreads();
    }
    out[i] = row[own];
}

__global__ void large_kernel(float *out, const float *x, int count) {
    GPU_SHARED(float, rows, GPU_MAX_SHARED_BYTES / 4 + 1);
    rows[threadIdx.x] = 0;
}

// --- the table ----------------------------------------------------------------------------------

static gpu_cost cost(float *out, const float *x, int count) {
    return {(uint64_t)count * 4, (uint64_t)count * 4, 0};
}

static constexpr uint64_t ALL = GPU_ALL_LANES, HALF = 0xFFFF;
static constexpr int WARPS = THREADS / GPU_WARP;

static const struct {
    const char *name;
    kernel_function kernel;
    float (*expected)(const float *x, int i);
} kernels[] = {
    {"sum", sum_kernel<true, ALL, WARPS>, expected_sum},
    {"sum without a barrier", sum_kernel<false, ALL, WARPS>, expected_sum},
    {"sum of a part too many", sum_kernel<true, ALL, WARPS + 1>, expected_sum},
    {"sum by half a mask", sum_kernel<true, HALF, WARPS>, expected_sum},
    {"left", shift_kernel<-1, true>, expected_shift<-1>},
    {"left without a barrier", shift_kernel<-1, false>, expected_shift<-1>},
    {"right", shift_kernel<1, true>, expected_shift<1>},
    {"right without a barrier", shift_kernel<1, false>, expected_shift<1>},
    {"half a barrier", half_barrier_kernel, expected_copy},
    {"two barriers", two_barriers_kernel, expected_copy},
    {"lanes that returned", returned_lanes_kernel, expected_copy},
    {"two shuffles", two_shuffles_kernel, expected_copy},
    {"a lane outside the mask", foreign_lane_kernel, expected_copy},
    {"copy", copy_kernel<0, 0>, expected_copy},
    {"copy that reads a number too far", copy_kernel<1, 0>, expected_copy},
    {"copy that writes a number too far", copy_kernel<0, 1>, expected_copy},
    {"vectors", vector_kernel<0>, expected_copy},
    {"vectors at a wrong address", vector_kernel<1>, expected_copy},
    {"copies", async_kernel<true, true>, expected_copy},
    {"copies that nobody waits for", async_kernel<false, true>, expected_copy},
    {"copies without a barrier", async_kernel<true, false>, expected_copy},
    {"too much shared memory", large_kernel, expected_copy},
};

static bool has_expected(const float *out, const float *x, float (*expected)(const float *, int)) {
    bool same = true;
    for (int i = 0; i < NUMBERS; i++) {
        same = same && out[i] == expected(x, i);
    }
    return same;
}

static int run(kernel_function kernel, float (*expected)(const float *x, int i)) {
    struct device_options options = {};
    const size_t bytes = NUMBERS * sizeof(float);
    gpu_stream stream;
    float found[NUMBERS];
    void *x, *out, *pinned;
    options.threads = 1;
    if (gpu_pinned_new(&pinned, bytes).code != 0) {
        return 2;
    }
    float *const numbers = (float *)pinned;
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = (float)(i * 7 % 64);
    }
    if (gpu_open(0, &options, &stream).code != 0 || gpu_memory_new(&x, bytes).code != 0 ||
        gpu_memory_new(&out, bytes).code != 0 || gpu_upload(x, numbers, bytes, stream).code != 0 ||
        gpu_launch(gpu_shape{"kernel", BLOCKS, THREADS}, stream, kernel, cost, (float *)out,
                   (const float *)x, (int)NUMBERS)
                .code != 0 ||
        gpu_download(found, out, bytes, stream).code != 0 || gpu_wait(stream).code != 0) {
        return 2;
    }
    puts(has_expected(found, numbers, expected) ? "right" : "wrong");
    (void)gpu_memory_free(x);
    (void)gpu_memory_free(out);
    gpu_pinned_free(pinned);
    gpu_close(stream);
    return 0;
}

// Prints the errors of calls that CUDA rejects, and whether an allocation of no bytes is NULL.
static int refused_calls(void) {
    struct device_options options = {};
    float number = 0;
    gpu_stream stream;
    void *x, *none = &number;
    options.threads = 1;
    if (gpu_open(0, &options, &stream).code != 0 || gpu_memory_new(&x, sizeof number).code != 0) {
        return 2;
    }
    const int upload = gpu_upload(x, &number, sizeof number, stream).code;
    const int empty = gpu_memory_new(&none, 0).code;
    const auto launch = [&] {
        return gpu_launch(gpu_shape{"kernel", BLOCKS, THREADS}, stream, copy_kernel<0, 0>, cost,
                          (float *)x, (const float *)x, 0)
            .code;
    };
    (void)gpu_use(1);
    const int other = launch();
    (void)gpu_use(0);
    printf("%d %d %s %d\n", upload, empty, none == NULL ? "null" : "a block", other);
    (void)gpu_memory_free(x);
    gpu_close(stream);
    return 0;
}

int main(int count, char **arguments) {
    for (const auto &row : kernels) {
        if (count == 2 && strcmp(row.name, arguments[1]) == 0) {
            return run(row.kernel, row.expected);
        }
    }
    if (count == 2 && strcmp(arguments[1], "refused calls") == 0) {
        return refused_calls();
    }
    fputs("usage: broken_kernels NAME\n", stderr);
    return 2;
}
