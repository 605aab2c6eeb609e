// SPDX-License-Identifier: Apache-2.0
// gpu_api.h for the host: the emulation runs the kernels, in the host's memory. A stream does
// nothing until the host waits for it (emulation_stream.h).
#ifndef BERTH_EMULATION_API_HOST_H
#define BERTH_EMULATION_API_HOST_H

#include "device/device.h"
#include "emulation/emulation.h"
#include "emulation/emulation_counts.h"
#include "emulation/emulation_memory.h"
#include "emulation/emulation_stream.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>

#define GPU_KIND "emulated"
#define GPU_HAS_TF32 1
#define GPU_CODE_BYTES ((size_t)0)
// 0: no measurement, whose number of products would depend on time, among the counts.
#define GPU_PEAK_SIDE (emulated_counts_wanted() ? 0 : 64)
#define GPU_UNROLL

struct gpu_stream {
    struct emulated_stream *queue;
};

static inline void *gpu_native(gpu_stream stream) {
    return stream.queue;
}

// BERTH_EMULATION_FAULT=CALL:N:CODE makes the process's N-th call of CALL fail with that error, and
// after it every call of any kind. CALL is a kernel's name, or "open", "memory", "pinned",
// "upload", "download", "wait", "mark". Only GPU_OUT_OF_MEMORY fails a single
// call.
inline gpu_error emulated_fault(const char *call) {
    static const char *const wanted = getenv("BERTH_EMULATION_FAULT");
    static int calls, broken;
    const size_t length = wanted != NULL ? strcspn(wanted, ":") : 0;
    int number, code;
    if (wanted == NULL || broken != 0) {
        return gpu_error{broken, NULL};
    }
    if (strlen(call) != length || strncmp(wanted, call, length) != 0 ||
        sscanf(wanted + length, ":%d:%d", &number, &code) != 2 || ++calls != number) {
        return GPU_NO_ERROR;
    }
    broken = code == GPU_OUT_OF_MEMORY ? 0 : code;
    return gpu_error{code, NULL};
}

// --- the device ---------------------------------------------------------------------------------

// bits = 2 bits + the carry of x + y
static inline void gpu_shift_in_carry(uint32_t &bits, uint32_t x, uint32_t y) {
    bits = 2 * bits + (x + y < x);
}

static inline gpu_error gpu_count(int *count) {
    *count = emulated_gpus();
    return GPU_NO_ERROR;
}

// Selects the device for this thread's calls from now on.
static inline gpu_error gpu_use(int index) {
    emulated_use_gpu(index);
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_describe(int index, char text[160]) {
    snprintf(text, 160, "kernels run by the host, warps of %d", GPU_WARP);
    return GPU_NO_ERROR;
}

// BERTH_EMULATION_SHARED, or an H100's.
static inline gpu_error gpu_max_shared_bytes(int index, size_t *bytes) {
    const char *given = getenv("BERTH_EMULATION_SHARED");
    *bytes = given != NULL ? strtoull(given, NULL, 10) : GPU_MAX_SHARED_BYTES;
    return GPU_NO_ERROR;
}

static inline bool gpu_has_wgmma(int index) {
    return GPU_WARP == 32;
}

static inline uint64_t gpu_id_of(int index) {
    return (uint64_t)index + 1;
}

// The emulated GPU may be opened any number of times, each time with its own number of threads.
static inline gpu_error gpu_open(int index, const struct device_options *options,
                                 gpu_stream *stream) {
    const gpu_error error = emulated_fault("open");
    if (error.code == 0) {
        emulated_use_gpu(index);
        stream->queue =
            emulated_stream_open(options->threads > 0 ? options->threads : omp_get_num_procs());
    }
    return error;
}

// Another stream, for copies.
static inline gpu_error gpu_stream_new(gpu_stream *stream) {
    stream->queue = emulated_stream_open(1);
    return GPU_NO_ERROR;
}

static inline void gpu_close(gpu_stream stream) {
    emulated_stream_close(stream.queue);
}

static inline gpu_error gpu_memory_left(uint64_t *bytes) {
    *bytes = emulated_memory_left();
    return GPU_NO_ERROR;
}

// As in CUDA, an allocation of no bytes succeeds and gives NULL.
static inline gpu_error gpu_memory_new(void **block, size_t bytes) {
    *block = NULL;
    const gpu_error error = emulated_fault("memory");
    if (bytes == 0) {
        return error;
    }
    if (error.code == 0) {
        *block = emulated_memory_new(bytes);
    }
    return *block != NULL || error.code != 0 ? error : gpu_error{GPU_OUT_OF_MEMORY, NULL};
}

// Waits for all streams, as a GPU's runtime does.
static inline gpu_error gpu_memory_free(void *block) {
    emulated_stream_wait_all();
    emulated_memory_free(block);
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_pinned_new(void **block, size_t bytes) {
    *block = emulated_pinned_new(bytes);
    return *block != NULL ? emulated_fault("pinned") : gpu_error{GPU_OUT_OF_MEMORY, NULL};
}

static inline void gpu_pinned_free(void *block) {
    emulated_pinned_free(block);
}

static inline gpu_error gpu_zero(void *block, size_t bytes, gpu_stream stream) {
    emulated_stream_add(stream.queue, {[=](int) {
                            emulated_counts_add("zero", {0, bytes, 0});
                            if (!emulated_is_dry()) {
                                memset(block, 0, bytes);
                            }
                        }});
    return GPU_NO_ERROR;
}

static inline void emulated_copy(const char *name, void *to, const void *from, size_t bytes,
                                 gpu_cost cost, gpu_stream stream) {
    emulated_stream_add(stream.queue, {[=](int) {
                            emulated_counts_add(name, cost);
                            memcpy(to, from, bytes);
                        }});
}

static inline gpu_error gpu_upload(void *to, const void *from_pinned, size_t bytes,
                                   gpu_stream stream) {
    if (!emulated_is_pinned(from_pinned)) {
        return gpu_error{1, "an upload from memory that is not pinned"};
    }
    emulated_copy("upload", to, from_pinned, bytes, {0, bytes, 0}, stream);
    return emulated_fault("upload");
}

// Counts the waits that block the host.
static inline void emulated_wait(struct emulated_stream *queue, uint64_t position) {
    if (!emulated_stream_is_done(queue, position)) {
        emulated_counts_add("host wait", {0, 0, 0});
    }
    emulated_stream_wait(queue, position);
}

// If the memory is not pinned, the host waits for the copy.
static inline gpu_error gpu_download(void *to_host, const void *from, size_t bytes,
                                     gpu_stream stream) {
    const bool waits = !emulated_is_pinned(to_host);
    emulated_copy("download", to_host, from, bytes, {bytes, 0, 0}, stream);
    if (waits) {
        emulated_wait(stream.queue, emulated_stream_position(stream.queue));
    }
    return emulated_fault("download");
}

static inline gpu_error gpu_wait(gpu_stream stream) {
    emulated_wait(stream.queue, emulated_stream_position(stream.queue));
    return emulated_fault("wait");
}

struct gpu_event {
    struct emulated_stream *queue;
    uint64_t position;
    double *passed; // when the stream reached it, by the host's clock; NULL: not timed
};

static inline gpu_error gpu_event_new(gpu_event *event) {
    *event = gpu_event{NULL, 0, NULL};
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_event_new_timed(gpu_event *event) {
    *event = gpu_event{NULL, 0, (double *)malloc(sizeof(double))};
    return event->passed != NULL ? GPU_NO_ERROR : gpu_error{GPU_OUT_OF_MEMORY, NULL};
}

static inline void gpu_event_free(gpu_event event) {
    free(event.passed);
}

static inline gpu_error gpu_event_record(gpu_event *event, gpu_stream stream) {
    double *passed = event->passed;
    if (passed != NULL) {
        emulated_stream_add(stream.queue, {[=](int) {
                                emulated_counts_add("mark", {0, 0, 0});
                                *passed = omp_get_wtime();
                            }});
    }
    event->queue = stream.queue;
    event->position = emulated_stream_position(stream.queue);
    return passed != NULL ? emulated_fault("mark") : GPU_NO_ERROR;
}

static inline gpu_error gpu_event_wait(const gpu_event *event) {
    if (event->queue != NULL) {
        emulated_wait(event->queue, event->position);
    }
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_event_done(const gpu_event *event, bool *done) {
    *done = event->queue == NULL || emulated_stream_advance(event->queue, event->position);
    return GPU_NO_ERROR;
}

// A query does not advance the stream.
static inline gpu_error gpu_event_seconds(const gpu_event *from, const gpu_event *to, bool *known,
                                          double *seconds) {
    *known = emulated_stream_is_done(from->queue, from->position) &&
             emulated_stream_is_done(to->queue, to->position);
    *seconds = *known ? *to->passed - *from->passed : 0;
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_stream_wait(gpu_stream stream, const gpu_event *event) {
    struct emulated_stream *other = event->queue;
    const uint64_t position = event->position;
    emulated_stream_add(
        stream.queue,
        {[](int) {}, [=] { return other == NULL || emulated_stream_advance(other, position); }});
    return GPU_NO_ERROR;
}

// --- launches -----------------------------------------------------------------------------------

// Starts a kernel. The stream must belong to the GPU that the thread uses.
template <class... Parameters, class... Arguments>
static inline gpu_error gpu_launch(const gpu_shape &shape, gpu_stream stream,
                                   void (*kernel)(Parameters...), gpu_cost (*cost)(Parameters...),
                                   Arguments... arguments) {
    if (!emulated_stream_is_current(stream.queue)) {
        return gpu_error{GPU_WRONG_HANDLE, NULL};
    }
    size_t max_shared_bytes;
    (void)gpu_max_shared_bytes(0, &max_shared_bytes);
    if (shape.shared > max_shared_bytes) {
        return gpu_error{1, NULL};
    }
    using parameters = std::tuple<Parameters...>;
    struct call {
        void (*kernel)(Parameters...);
        parameters arguments;
    };
    const call packed = {kernel, parameters(arguments...)};
    const auto run = [=](int threads) {
        const emulated_launch launch = {shape.kernel,
                                        dim3((unsigned)shape.blocks),
                                        dim3(shape.threads),
                                        shape.shared,
                                        [](const void *given) {
                                            const call *own = (const call *)given;
                                            std::apply(own->kernel, own->arguments);
                                        },
                                        &packed};
        const bool counts = emulated_counts_wanted();
        if (counts) {
            emulated_counts_begin(shape.kernel, std::apply(cost, packed.arguments));
        }
        if (!emulated_is_dry()) {
            emulated_run(&launch, threads);
        }
        if (counts) {
            emulated_counts_end();
        }
    };
    emulated_stream_add(stream.queue, {run});
    return emulated_fault(shape.kernel);
}

#endif
