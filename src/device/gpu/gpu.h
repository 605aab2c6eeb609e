// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the files of the GPU device. Each operation of device/device.h is a
// function gpu_NAME here, which starts kernels in the device's stream and returns.
#ifndef BERTH_GPU_GPU_H
#define BERTH_GPU_GPU_H

#include "device/device.h"
#include "device/gpu/gpu_api.h"

// Pinned memory for uploads, in two halves: the host fills one while the stream copies the other.
struct gpu_staging {
    unsigned char *block;
    gpu_event copied[2]; // the last copy of each half
    int next;            // half
};

// Copies to the host that run beside the operations, in a stream of their own.
enum { GPU_FETCHES = 64 }; // the last ones, each with its own event

struct gpu_fetches {
    gpu_stream stream;
    bool is_open;
    gpu_event computed;            // the data of the next copy
    gpu_event copied[GPU_FETCHES]; // the last copies
    int64_t count;
};

// Pinned memory of the device's user: uploads from it need no staging.
enum { GPU_PINNED = 4 }; // uploads from further blocks are staged

struct gpu_pinned {
    const char *block; // NULL: none
    size_t bytes;
};

// Events at the calls of `mark`. An upload waits for the copy before the last one, so during an
// update the stream has fewer than GPU_MARKS marks still to reach.
enum { GPU_MARKS = 64 };

struct gpu_marks {
    gpu_event events[GPU_MARKS];
    enum device_phase phases[GPU_MARKS]; // the phases that begin there
    int64_t first, count;                // marks before `first` are already added up
    double seconds[DEVICE_PHASES];
};

struct gpu {
    struct device device;
    gpu_stream stream;
    bool is_open;            // the stream
    int index;               // of the GPU
    size_t max_shared_bytes; // bytes of shared memory that a block may have
    bool uses_wgmma;         // attention by products of warpgroups (mma.h)
    struct gpu_staging staging;
    struct gpu_fetches fetches;
    struct gpu_pinned pinned[GPU_PINNED];
    struct gpu_marks marks;
    char description[200]; // "cuda:1, NVIDIA H200, ..."

    struct gpu_peers *peers; // NULL: no exchanges with other ranks' GPUs
    int ranks, local_ranks;  // of the job, of this host

    float *partials; // scratch: sums of blocks of threads in the current operation
    size_t partial_bytes;
    struct gemm *gemm;
    struct attention_cudnn *cudnn; // NULL: attention by Berth's own kernels

    enum berth_status status; // the first error since the last call of status
    struct berth_error error;
};

// Keeps the error of a call (faults.h), if there is one and it is the first.
void gpu_fail(struct gpu *gpu, const char *call, gpu_error error);

// Called first by every function of the device's table: each host thread has its own current GPU,
// and the caller's thread may not be the one that opened the device.
static inline struct gpu *gpu_of(struct device *dev) {
    struct gpu *gpu = (struct gpu *)dev->state;
    if (gpu->is_open) {
        gpu_fail(gpu, "choosing the GPU", gpu_use(gpu->index));
    }
    return gpu;
}

// As the device's status.
enum berth_status gpu_status(struct device *dev, struct berth_error *error);
// gpu_fail for what the device cannot compute.
static inline void gpu_fail(struct gpu *gpu, const char *call, const char *unsupported) {
    gpu_fail(gpu, call, gpu_error{GPU_NOT_SUPPORTED, unsupported});
}
// Scratch memory for `count` floats, valid until the next call; NULL after an error. Allocates
// nothing up to what was reserved.
float *gpu_partials(struct gpu *gpu, int64_t count);
// Sums that are adjacent in each row of partials: `count` of them, of `columns` numbers each.
enum { GPU_SUMS = 3 };

struct gpu_sums {
    float *to[GPU_SUMS];
    int count;
    int64_t columns;
};

// to[k][i] += partials[0][k columns + i] + partials[1][k columns + i] + ..., over `blocks` rows
// that are `stride` floats apart, in an order that depends only on their number.
void gpu_add_partials(struct gpu *gpu, const struct gpu_sums *sums, const float *partials,
                      int64_t blocks, int64_t stride);

// Zeroes the rows from `first` on.
void gpu_zero_rows(struct gpu *gpu, struct mat m, int64_t first);

// Whether kernels may read eight neighbouring numbers of a row at once, up to the last columns.
static inline bool gpu_has_vector_rows(const struct mat &m) {
    return (uintptr_t)m.data % 16 == 0 && m.stride % 8 == 0;
}

// Whether rows consist of such vectors.
static inline bool gpu_is_vectorizable(const struct mat &m) {
    return gpu_has_vector_rows(m) && m.cols % 8 == 0;
}

static inline int64_t gpu_blocks(int64_t count, int64_t block) {
    return (count + block - 1) / block;
}

// A block of threads adds up at least GPU_GRADIENT_ROWS rows, and more if there would be more than
// `most` blocks. A block has up to four groups, with as many rows each.
enum { GPU_GRADIENT_ROWS = 32 };

static inline int64_t gpu_gradient_rows(int64_t rows, int64_t most) {
    const int64_t each = gpu_blocks(gpu_blocks(rows, most), 4) * 4;
    return each > GPU_GRADIENT_ROWS ? each : (int64_t)GPU_GRADIENT_ROWS;
}

// --- launches -----------------------------------------------------------------------------------

// Starts the kernel, unless an earlier call has failed.
template <class... Parameters, class... Arguments>
static inline void gpu_run(struct gpu *gpu, struct gpu_shape shape, void (*kernel)(Parameters...),
                           gpu_cost (*cost)(Parameters...), Arguments... arguments) {
    if (gpu->status != BERTH_OK || shape.blocks <= 0) {
        return;
    }
    gpu_fail(gpu, shape.kernel,
             gpu_launch(shape, gpu->stream, kernel, cost, Parameters(arguments)...));
}

// --- peers.cu -----------------------------------------------------------------------------------

const char *gpu_peers_id(struct device *dev, char id[DEVICE_PEERS_ID]);
enum berth_status gpu_peers_open(struct device *dev, struct comm *comm,
                                 const char id[DEVICE_PEERS_ID], struct berth_error *error);
void gpu_peers_close(struct device *dev);
int64_t gpu_peers_reduce(struct device *dev, const struct comm_range *range);
int64_t gpu_peers_gather(struct device *dev, const struct comm_range *range);
void gpu_peers_wait(struct device *dev, int64_t ticket);
// The device memory that exchanges with other ranks take.
size_t gpu_peers_bytes(int ranks, int local_ranks);
// The host waits for the event, or for the whole of the device's stream (NULL). These may wait for
// other ranks; the wait also ends if one of them is lost.
void gpu_wait_with_peers(struct gpu *gpu, const gpu_event *event);
// If there are peers, waits for all operations and exchanges like gpu_wait_with_peers. Called
// before what may wait for all streams of the GPU.
void gpu_drain_peers(struct gpu *gpu);

// --- attention_cudnn.cu -------------------------------------------------------------------------

gpu_error attention_cudnn_open(struct attention_cudnn **cudnn, gpu_stream stream);
void attention_cudnn_close(struct attention_cudnn *cudnn);
// The device memory that it keeps.
size_t attention_cudnn_bytes(void);

// --- operations ---------------------------------------------------------------------------------

// The operations (device/operations.inc), each in the source of its subject.
#define LIST(...) __VA_ARGS__
#define OPERATION(name, parameters, arguments) void gpu_##name(struct device *dev, LIST parameters);
#include "device/operations.inc"
#undef OPERATION
#undef LIST
// norm.cu
size_t gpu_norm_partial_bytes(const struct device_shape *shape);
// tables.cu
// Adds args->scratch, the gradient of each row of the batch, to the tables' gradients.
void gpu_add_to_tables(struct gpu *gpu, const struct embed_grad_args *args,
                       const struct batch *batch);
size_t gpu_tables_partial_bytes(const struct device_shape *shape);
// linear.cu
size_t gpu_linear_partial_bytes(const struct device_shape *shape);
// attention.cu
size_t gpu_attention_partial_bytes(const struct device_shape *shape);
// peak.cu: also NaN where memory is short
double gpu_measure_peak(struct device *dev, enum dtype dtype, double seconds);

#endif
