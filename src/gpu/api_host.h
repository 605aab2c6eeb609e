// SPDX-License-Identifier: Apache-2.0
// The host column of gpu_api.h: kernels run by the emulation, memory of the host, calls that return
// when they are done.
#ifndef BERTH_GPU_API_HOST_H
#define BERTH_GPU_API_HOST_H

#include "core/device.h"
#include "gpu/emulation.h"

#include <malloc.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <unistd.h>

#define GPU_KIND "emulated"
#define GPU_UNROLL

struct gpu_stream {
    int threads; // of the host
};

// BERTH_EMULATION_FAULT=CALL:N:CODE: the N-th of these calls of the process fails with that error,
// as all that follow do, of whatever kind. CALL: a kernel's name, or "memory", "upload",
// "download", "wait". Only the memory that is missing once may be there later.
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

// As much as the host has, or BERTH_EMULATION_MEMORY in KiB, less what is in use.
inline uint64_t emulated_memory_used;

static inline gpu_error gpu_memory_left(uint64_t *bytes) {
    static const char *const limit = getenv("BERTH_EMULATION_MEMORY");
    const uint64_t all = limit != NULL ? strtoull(limit, NULL, 10) << 10 : 0;
    *bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (limit != NULL) {
        *bytes = all > emulated_memory_used ? all - emulated_memory_used : 0;
    }
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_memory_new(void **block, size_t bytes) {
    const gpu_error error = emulated_fault("memory");
    uint64_t left;
    *block = NULL;
    if (error.code == 0 && gpu_memory_left(&left).code == 0 && bytes <= left) {
        *block = aligned_alloc(256, (bytes + 255) / 256 * 256);
    }
    emulated_memory_used += *block != NULL ? malloc_usable_size(*block) : 0;
    return *block != NULL || error.code != 0 ? error : gpu_error{GPU_OUT_OF_MEMORY, NULL};
}

static inline gpu_error gpu_memory_free(void *block) {
    emulated_memory_used -= malloc_usable_size(block);
    free(block);
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_zero(void *block, size_t bytes, gpu_stream stream) {
    memset(block, 0, bytes);
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_upload(void *to, const void *from_host, size_t bytes,
                                   gpu_stream stream) {
    memcpy(to, from_host, bytes);
    return emulated_fault("upload");
}

static inline gpu_error gpu_download(void *to_host, const void *from, size_t bytes,
                                     gpu_stream stream) {
    memcpy(to_host, from, bytes);
    return emulated_fault("download");
}

static inline gpu_error gpu_wait(gpu_stream stream) {
    return emulated_fault("wait");
}

static inline gpu_error gpu_count(int *count) {
    *count = 1;
    return GPU_NO_ERROR;
}

static inline gpu_error gpu_describe(int index, char text[160]) {
    snprintf(text, 160, "kernels run by the host, warps of %d", GPU_WARP);
    return GPU_NO_ERROR;
}

// It may be opened any number of times; each has the threads that it is given.
static inline gpu_error gpu_open(int index, const struct device_options *options,
                                 gpu_stream *stream) {
    stream->threads = options->threads > 0 ? options->threads : omp_get_num_procs();
    return emulated_fault("open");
}

static inline void gpu_close(gpu_stream stream) {
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
    return emulated_fault(name);
}

#endif
