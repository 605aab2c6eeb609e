// SPDX-License-Identifier: Apache-2.0
// The host column of gpu_api.h: kernels run by the emulation, memory of the host, calls that return
// when they are done.
#ifndef BERTH_GPU_API_HOST_H
#define BERTH_GPU_API_HOST_H

#include "core/device.h"
#include "gpu/emulation.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <tuple>
#include <unistd.h>

#define GPU_KIND "emulated"

struct gpu_stream {
    int threads; // of the host
};

// NULL: no error, else what went wrong.
typedef const char *gpu_error;

static inline gpu_error gpu_memory_new(void **block, size_t bytes) {
    *block = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *block != NULL ? NULL : "out of memory";
}

static inline gpu_error gpu_memory_free(void *block) {
    free(block);
    return NULL;
}

static inline gpu_error gpu_zero(void *block, size_t bytes, gpu_stream stream) {
    memset(block, 0, bytes);
    return NULL;
}

static inline gpu_error gpu_upload(void *to, const void *from_host, size_t bytes,
                                   gpu_stream stream) {
    memcpy(to, from_host, bytes);
    return NULL;
}

static inline gpu_error gpu_download(void *to_host, const void *from, size_t bytes,
                                     gpu_stream stream) {
    memcpy(to_host, from, bytes);
    return NULL;
}

static inline gpu_error gpu_wait(gpu_stream stream) {
    return NULL;
}

// Any number of devices at once; each has the threads that it is given.
static inline gpu_error gpu_open(const struct device_options *options, gpu_stream *stream,
                                 char description[160]) {
    stream->threads = options->threads > 0 ? options->threads : omp_get_num_procs();
    snprintf(description, 160, "emulated GPU, warps of %d, %d thread%s of the host", GPU_WARP,
             stream->threads, stream->threads == 1 ? "" : "s");
    return NULL;
}

static inline void gpu_close(gpu_stream stream) {
}

// As much as the host has.
static inline gpu_error gpu_memory_left(uint64_t *bytes) {
    *bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return NULL;
}

// Starts a kernel.
template <class... Parameters, class... Arguments>
static inline gpu_error gpu_launch(const char *name, dim3 grid, unsigned threads,
                                   size_t dynamic_shared, gpu_stream stream,
                                   void (*kernel)(Parameters...), Arguments... arguments) {
    struct call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };
    const call packed = {kernel, std::tuple<Parameters...>(arguments...)};
    const emulated_launch launch = {name,
                                    grid,
                                    dim3(threads),
                                    dynamic_shared,
                                    [](const void *given) {
                                        const call *own = (const call *)given;
                                        std::apply(own->kernel, own->arguments);
                                    },
                                    &packed};
    emulated_run(&launch, stream.threads);
    return NULL;
}

#endif
