// SPDX-License-Identifier: Apache-2.0
// What api_cuda.h and api_hip.h share, which include this after what differs. HIP has CUDA's calls,
// types and errors under other names; GPU_CALL makes either: cudaMalloc, hipMalloc.
#ifndef BERTH_GPU_API_DEVICE_H
#define BERTH_GPU_API_DEVICE_H

#include "device/device.h"

#include <string.h>

// An estimate of the memory that the driver itself takes: for code, which it loads when a kernel
// first runs.
#define GPU_CODE_BYTES ((size_t)256 << 20)
#define GPU_PEAK_SIDE 8192           // of the cube whose product tells the speed
#define GPU_UNROLL _Pragma("unroll") // before a loop over an array that must stay in registers
#define GPU_SHARED(type, name, count) __shared__ type name[count]
#define GPU_DYNAMIC_SHARED(type, name)                                                             \
    extern __shared__ __align__(1024) unsigned char gpu_dynamic_shared[];                          \
    type *const name = (type *)gpu_dynamic_shared

// --- numbers ------------------------------------------------------------------------------------

static __device__ __forceinline__ float gpu_float(uint32_t bits) {
    return __uint_as_float(bits);
}

static __device__ __forceinline__ uint32_t gpu_bits(float x) {
    return __float_as_uint(x);
}

static __device__ __forceinline__ float gpu_from_f16(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}

static __device__ __forceinline__ uint16_t gpu_f16(float x) {
    return __half_as_ushort(__float2half_rn(x));
}

// 16 bytes at an address that is a multiple of 16.
static __device__ __forceinline__ uint4 gpu_read16(const void *from) {
    return *(const uint4 *)from;
}

static __device__ __forceinline__ void gpu_write16(void *to, uint4 x) {
    *(uint4 *)to = x;
}

static __device__ __forceinline__ float gpu_exp(float x) {
    return expf(x);
}

// --- the device ---------------------------------------------------------------------------------

struct gpu_stream {
    GPU_CALL(Stream_t) stream;
};

static inline void *gpu_native(gpu_stream stream) {
    return stream.stream;
}

static inline gpu_error gpu_error_of(GPU_CALL(Error_t) error) {
    return error == GPU_CALL(Success) ? GPU_NO_ERROR
                                      : gpu_error{(int)error, GPU_CALL(GetErrorString)(error)};
}

static_assert((int)GPU_CALL(ErrorInsufficientDriver) == GPU_NO_DRIVER &&
                  (int)GPU_CALL(ErrorNoDevice) == GPU_NO_DEVICE &&
                  (int)GPU_CALL(ErrorInvalidDevice) == GPU_WRONG_INDEX &&
                  (int)GPU_CALL(ErrorNotSupported) == GPU_NOT_SUPPORTED,
              "CUDA's numbers");

// Another stream, for copies, of the device that this thread uses.
static inline gpu_error gpu_stream_new(gpu_stream *stream) {
    return gpu_error_of(
        GPU_CALL(StreamCreateWithFlags)(&stream->stream, GPU_CALL(StreamNonBlocking)));
}

// Selects the device for this thread's calls from now on.
static inline gpu_error gpu_use(int index) {
    return gpu_error_of(GPU_CALL(SetDevice)(index));
}

// Hashes the 16 bytes that identify a GPU, or a partition of one, to a number below 2^40.
static inline uint64_t gpu_hash_name(const void *name) {
    uint64_t halves[2];
    memcpy(halves, name, sizeof halves);
    return (halves[0] ^ halves[1] * 0x9E3779B97F4A7C15u) >> 24;
}

static inline gpu_error gpu_open(int index, const struct device_options *options,
                                 gpu_stream *stream) {
    gpu_error error = gpu_use(index);
    return error.code != 0 ? error : gpu_stream_new(stream);
}

static inline void gpu_close(gpu_stream stream) {
    (void)GPU_CALL(StreamDestroy)(stream.stream);
}

static inline gpu_error gpu_memory_new(void **block, size_t bytes) {
    return gpu_error_of(GPU_CALL(Malloc)(block, bytes));
}

static inline gpu_error gpu_memory_free(void *block) {
    return gpu_error_of(GPU_CALL(Free)(block));
}

static inline gpu_error gpu_memory_left(uint64_t *bytes) {
    size_t left, all;
    gpu_error error = gpu_error_of(GPU_CALL(MemGetInfo)(&left, &all));
    *bytes = error.code == 0 ? left : 0;
    return error;
}

static inline gpu_error gpu_zero(void *block, size_t bytes, gpu_stream stream) {
    return gpu_error_of(GPU_CALL(MemsetAsync)(block, 0, bytes, stream.stream));
}

// From pinned memory, which must not change until the stream has reached this copy.
static inline gpu_error gpu_upload(void *to, const void *from_pinned, size_t bytes,
                                   gpu_stream stream) {
    return gpu_error_of(
        GPU_CALL(MemcpyAsync)(to, from_pinned, bytes, GPU_CALL(MemcpyHostToDevice), stream.stream));
}

static inline gpu_error gpu_download(void *to_host, const void *from, size_t bytes,
                                     gpu_stream stream) {
    return gpu_error_of(
        GPU_CALL(MemcpyAsync)(to_host, from, bytes, GPU_CALL(MemcpyDeviceToHost), stream.stream));
}

static inline gpu_error gpu_wait(gpu_stream stream) {
    return gpu_error_of(GPU_CALL(StreamSynchronize)(stream.stream));
}

// A point in a stream.
struct gpu_event {
    GPU_CALL(Event_t) event;
};

static inline gpu_error gpu_event_new(gpu_event *event) {
    return gpu_error_of(
        GPU_CALL(EventCreateWithFlags)(&event->event, GPU_CALL(EventDisableTiming)));
}

// An event with a time.
static inline gpu_error gpu_event_new_timed(gpu_event *event) {
    return gpu_error_of(GPU_CALL(EventCreate)(&event->event));
}

static inline void gpu_event_free(gpu_event event) {
    if (event.event != NULL) {
        (void)GPU_CALL(EventDestroy)(event.event);
    }
}

static inline gpu_error gpu_event_record(gpu_event *event, gpu_stream stream) {
    return gpu_error_of(GPU_CALL(EventRecord)(event->event, stream.stream));
}

// The host waits until the stream has reached the point where the event was last recorded, if any.
static inline gpu_error gpu_event_wait(const gpu_event *event) {
    return gpu_error_of(GPU_CALL(EventSynchronize)(event->event));
}

// Whether the stream has reached that point.
static inline gpu_error gpu_event_done(const gpu_event *event, bool *done) {
    const GPU_CALL(Error_t) error = GPU_CALL(EventQuery)(event->event);
    *done = error == GPU_CALL(Success);
    return error == GPU_CALL(ErrorNotReady) ? GPU_NO_ERROR : gpu_error_of(error);
}

// The seconds between two timed events of a stream as they were last recorded; *known becomes false
// if the stream has not reached both.
static inline gpu_error gpu_event_seconds(const gpu_event *from, const gpu_event *to, bool *known,
                                          double *seconds) {
    float milliseconds = 0;
    const GPU_CALL(Error_t) error =
        GPU_CALL(EventElapsedTime)(&milliseconds, from->event, to->event);
    *known = error == GPU_CALL(Success);
    *seconds = 1e-3 * (double)milliseconds;
    return error == GPU_CALL(ErrorNotReady) ? GPU_NO_ERROR : gpu_error_of(error);
}

// Whatever is added to the stream from now on waits for the event as it was last recorded.
static inline gpu_error gpu_stream_wait(gpu_stream stream, const gpu_event *event) {
    return gpu_error_of(GPU_CALL(StreamWaitEvent)(stream.stream, event->event, 0));
}

// --- launches -----------------------------------------------------------------------------------

// Starts a kernel. Returns the launch's own error, because the one that the runtime keeps for the
// thread may stem from any earlier call.
template <class... Parameters>
static inline gpu_error gpu_launch(const gpu_shape &shape, gpu_stream stream,
                                   void (*kernel)(Parameters...), gpu_cost (*)(Parameters...),
                                   Parameters... arguments) {
    const size_t usual_shared = 48 * 1024;
    if (shape.shared > usual_shared) {
        gpu_error error = gpu_error_of(GPU_CALL(FuncSetAttribute)(
            (const void *)kernel, GPU_CALL(FuncAttributeMaxDynamicSharedMemorySize),
            (int)shape.shared));
        if (error.code != 0) {
            return error;
        }
    }
    void *given[] = {(void *)&arguments...};
    return gpu_error_of(GPU_CALL(LaunchKernel)((const void *)kernel, dim3((unsigned)shape.blocks),
                                               dim3(shape.threads), given, shape.shared,
                                               stream.stream));
}

#endif
