// SPDX-License-Identifier: Apache-2.0
// Opens a GPU and makes the table of operations that the model calls; the functions that compute
// nothing are here: memory, copies, pinned memory and fetches, timing by events, and errors with
// their remedy. The operations are in the other files of this folder, the loading of the module in
// open.c.
#include "device/gpu/faults.h"
#include "device/gpu/gemm.h"
#include "device/gpu/gpu.h"
#include "device/gpu/mma.h"
#include "device/gpu/module.h"

extern "C" {
#include "core/error.h"
#include "core/memory.h"
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- errors -------------------------------------------------------------------------------------

// "device cuda:0, NVIDIA H200, ...: adamw: an illegal memory access (error 700): remedy"
static enum berth_status report(const char *device, const char *call, gpu_error failure,
                                struct berth_error *error) {
    const struct fault *fault = fault_of(failure.code);
    return error_set(error, fault->status, "device %s: %s: %s (error %d): %s", device, call,
                     failure.text != NULL ? failure.text : fault->text, failure.code,
                     fault->remedy);
}

void gpu_fail(struct gpu *gpu, const char *call, gpu_error error) {
    if (gpu->status == BERTH_OK && error.code != 0) {
        gpu->status = report(gpu->description, call, error, &gpu->error);
    }
}

static void wait_for_stream(struct gpu *gpu, const char *call) {
    if (gpu->peers != NULL) {
        gpu_wait_with_peers(gpu, NULL);
    } else {
        gpu_fail(gpu, call, gpu_wait(gpu->stream));
    }
}

static gpu_error wait_for_event(struct gpu *gpu, const gpu_event *event) {
    if (gpu->peers == NULL) {
        return gpu_event_wait(event);
    }
    gpu_wait_with_peers(gpu, event);
    return GPU_NO_ERROR;
}

enum berth_status gpu_status(struct device *dev, struct berth_error *error) {
    struct gpu *gpu = gpu_of(dev);
    wait_for_stream(gpu, "waiting");
    const enum berth_status first = gpu->status;
    if (first != BERTH_OK && error != NULL) {
        *error = gpu->error;
    }
    gpu->status = BERTH_OK;
    return first;
}

// --- memory -------------------------------------------------------------------------------------

static void *memory_new_zeroed(struct device *dev, size_t bytes) {
    struct gpu *gpu = gpu_of(dev);
    void *block;
    const size_t requested = bytes > 0 ? bytes : 1; // NULL would look like a failure
    if (gpu_memory_new(&block, requested).code != 0) {
        return NULL;
    }
    gpu_fail(gpu, "zeroing memory", gpu_zero(block, bytes, gpu->stream));
    return block;
}

static void memory_free_block(struct device *dev, void *block, size_t bytes) {
    struct gpu *gpu = gpu_of(dev);
    if (block != NULL) {
        gpu_drain_peers(gpu);
        gpu_fail(gpu, "freeing memory", gpu_memory_free(block));
    }
}

static constexpr size_t STAGING_BYTES = 4 << 20; // of each half

static gpu_error open_staging(struct gpu_staging *staging) {
    void *block = NULL;
    gpu_error error = gpu_pinned_new(&block, 2 * STAGING_BYTES);
    staging->block = (unsigned char *)block;
    for (int half = 0; half < 2 && error.code == 0; half++) {
        error = gpu_event_new(&staging->copied[half]);
    }
    return error;
}

static void close_staging(struct gpu_staging *staging) {
    for (gpu_event event : staging->copied) {
        gpu_event_free(event);
    }
    gpu_pinned_free(staging->block);
}

// Waits only for the copy before the last one, which is long complete if updates follow each other.
static gpu_error upload_chunk(struct gpu *gpu, void *to, const void *from_host, size_t bytes) {
    struct gpu_staging *staging = &gpu->staging;
    gpu_event *copied = &staging->copied[staging->next];
    unsigned char *half = staging->block + (size_t)staging->next * STAGING_BYTES;
    staging->next = 1 - staging->next;
    gpu_error error = wait_for_event(gpu, copied);
    if (error.code == 0) {
        memcpy(half, from_host, bytes);
        error = gpu_upload(to, half, bytes, gpu->stream);
    }
    return error.code == 0 ? gpu_event_record(copied, gpu->stream) : error;
}

static bool is_pinned(const struct gpu *gpu, const void *address) {
    for (const struct gpu_pinned &pinned : gpu->pinned) {
        const uintptr_t block = (uintptr_t)pinned.block, own = (uintptr_t)address;
        if (pinned.block != NULL && own >= block && own - block < pinned.bytes) {
            return true;
        }
    }
    return false;
}

static void upload(struct device *dev, void *to, const void *from_host, size_t bytes) {
    struct gpu *gpu = gpu_of(dev);
    if (gpu->status == BERTH_OK && is_pinned(gpu, from_host)) {
        gpu_fail(gpu, "upload", gpu_upload(to, from_host, bytes, gpu->stream));
        return;
    }
    for (size_t done = 0; done < bytes && gpu->status == BERTH_OK; done += STAGING_BYTES) {
        const size_t left = bytes - done, chunk = left < STAGING_BYTES ? left : STAGING_BYTES;
        gpu_fail(gpu, "upload",
                 upload_chunk(gpu, (char *)to + done, (const char *)from_host + done, chunk));
    }
}

// A copy to memory that is not pinned waits for the stream, which may wait for a lost rank.
static void download(struct device *dev, void *to_host, const void *from, size_t bytes) {
    struct gpu *gpu = gpu_of(dev);
    if (gpu->peers != NULL) {
        gpu_wait_with_peers(gpu, NULL);
    }
    gpu_fail(gpu, "download", gpu_download(to_host, from, bytes, gpu->stream));
    gpu_fail(gpu, "download", gpu_wait(gpu->stream));
}

// --- copies beside the operations ---------------------------------------------------------------

static gpu_error open_fetches(struct gpu_fetches *fetches) {
    gpu_error error = gpu_stream_new(&fetches->stream);
    fetches->is_open = error.code == 0;
    if (error.code == 0) {
        error = gpu_event_new(&fetches->computed);
    }
    for (int i = 0; i < GPU_FETCHES && error.code == 0; i++) {
        error = gpu_event_new(&fetches->copied[i]);
    }
    return error;
}

static void close_fetches(struct gpu_fetches *fetches) {
    if (fetches->is_open) {
        (void)gpu_wait(fetches->stream);
        gpu_event_free(fetches->computed);
        for (gpu_event event : fetches->copied) {
            gpu_event_free(event);
        }
        gpu_close(fetches->stream);
    }
}

// Replaces the first entry whose block is `old`; NULL finds a free entry.
static void replace_pinned(struct gpu *gpu, const void *old, struct gpu_pinned own) {
    for (struct gpu_pinned &pinned : gpu->pinned) {
        if (pinned.block == old) {
            pinned = own;
            return;
        }
    }
}

// The first call also opens the stream.
static void *pinned_new(struct device *dev, size_t bytes) {
    struct gpu *gpu = gpu_of(dev);
    void *block = NULL;
    if (!gpu->fetches.is_open) {
        gpu_fail(gpu, "opening a stream", open_fetches(&gpu->fetches));
    }
    bytes = bytes > 0 ? bytes : 1;
    if (gpu->status != BERTH_OK || gpu_pinned_new(&block, bytes).code != 0) {
        return NULL;
    }
    replace_pinned(gpu, NULL, gpu_pinned{(const char *)block, bytes});
    return block;
}

static void pinned_free(struct device *dev, void *block, size_t bytes) {
    struct gpu *gpu = gpu_of(dev);
    gpu_drain_peers(gpu);
    (void)gpu_wait(gpu->stream); // for uploads from this memory
    (void)gpu_wait(gpu->fetches.stream);
    replace_pinned(gpu, block, gpu_pinned{NULL, 0});
    gpu_pinned_free(block);
}

static gpu_error begin_fetch(struct gpu *gpu, gpu_event *copied, void *to, const void *from,
                             size_t bytes) {
    struct gpu_fetches *fetches = &gpu->fetches;
    gpu_error error = gpu_event_record(&fetches->computed, gpu->stream);
    if (error.code == 0) {
        error = gpu_stream_wait(fetches->stream, &fetches->computed);
    }
    if (error.code == 0) {
        error = gpu_download(to, from, bytes, fetches->stream);
    }
    return error.code == 0 ? gpu_event_record(copied, fetches->stream) : error;
}

static int64_t fetch_begin(struct device *dev, void *to_pinned, const void *from, size_t bytes) {
    struct gpu *gpu = gpu_of(dev);
    struct gpu_fetches *fetches = &gpu->fetches;
    const int64_t fetch = ++fetches->count;
    if (gpu->status == BERTH_OK) {
        gpu_fail(gpu, "download",
                 begin_fetch(gpu, &fetches->copied[fetch % GPU_FETCHES], to_pinned, from, bytes));
    }
    return fetch;
}

// The event may already belong to a later copy; waiting for that is correct, too.
static void fetch_wait(struct device *dev, int64_t fetch) {
    struct gpu *gpu = gpu_of(dev);
    if (gpu->status == BERTH_OK) {
        gpu_fail(gpu, "download", wait_for_event(gpu, &gpu->fetches.copied[fetch % GPU_FETCHES]));
    }
}

static void zero(struct device *dev, void *block, size_t bytes) {
    struct gpu *gpu = gpu_of(dev);
    gpu_fail(gpu, "zeroing memory", gpu_zero(block, bytes, gpu->stream));
}

static uint64_t memory_available(struct device *dev, const char **limit) {
    uint64_t bytes;
    *limit = "the GPU's memory";
    gpu_fail(gpu_of(dev), "asking for memory", gpu_memory_left(&bytes));
    return bytes;
}

// --- scratch memory -----------------------------------------------------------------------------

float *gpu_partials(struct gpu *gpu, int64_t count) {
    const size_t bytes = (size_t)count * sizeof(float);
    if (bytes > gpu->partial_bytes) {
        gpu_fail(gpu, "freeing memory", gpu_memory_free(gpu->partials));
        gpu->partial_bytes = 0;
        gpu->partials = NULL;
        void *block;
        gpu_error error = gpu_memory_new(&block, bytes);
        if (error.code != 0) {
            gpu_fail(gpu, "scratch memory", error);
            return NULL;
        }
        gpu->partials = (float *)block;
        gpu->partial_bytes = bytes;
    }
    return gpu->partials;
}

static size_t partial_bytes(const struct device_shape *shape) {
    const size_t sizes[] = {gpu_norm_partial_bytes(shape), gpu_tables_partial_bytes(shape),
                            gpu_linear_partial_bytes(shape), gpu_attention_partial_bytes(shape)};
    size_t largest = 0;
    for (size_t size : sizes) {
        largest = shape->training && size > largest ? size : largest;
    }
    return largest;
}

static size_t workspace_bytes(struct device *dev, const struct device_shape *shape) {
    const size_t peers =
        gpu_of(dev)->ranks > 1 ? gpu_peers_bytes(gpu_of(dev)->ranks, gpu_of(dev)->local_ranks) : 0;
    const size_t cudnn = gpu_of(dev)->cudnn != NULL ? attention_cudnn_bytes() : 0;
    return partial_bytes(shape) + gemm_workspace_bytes() + cudnn + peers + GPU_CODE_BYTES;
}

static enum berth_status reserve(struct device *dev, const struct device_shape *shape,
                                 struct berth_error *error) {
    (void)gpu_partials(gpu_of(dev), (int64_t)(partial_bytes(shape) / sizeof(float)));
    return gpu_status(dev, error);
}

// --- time ---------------------------------------------------------------------------------------

static gpu_error open_marks(struct gpu_marks *marks) {
    gpu_error error = GPU_NO_ERROR;
    for (int i = 0; i < GPU_MARKS && error.code == 0; i++) {
        error = gpu_event_new_timed(&marks->events[i]);
    }
    return error;
}

static void close_marks(struct gpu_marks *marks) {
    for (gpu_event event : marks->events) {
        gpu_event_free(event);
    }
}

// Adds up the time between the marks that the stream has passed, without waiting.
static gpu_error add_passed_marks(struct gpu_marks *marks) {
    bool known = true;
    double seconds;
    gpu_error error = GPU_NO_ERROR;
    while (error.code == 0 && known && marks->first + 1 < marks->count) {
        const int64_t from = marks->first % GPU_MARKS, to = (marks->first + 1) % GPU_MARKS;
        error = gpu_event_seconds(&marks->events[from], &marks->events[to], &known, &seconds);
        if (error.code == 0 && known) {
            marks->seconds[marks->phases[from]] += seconds;
            marks->first++;
        }
    }
    return error;
}

// Without uploads, the stream may be so far behind that the host must wait.
static gpu_error free_a_mark(struct gpu *gpu) {
    struct gpu_marks *marks = &gpu->marks;
    gpu_error error = add_passed_marks(marks);
    if (error.code == 0 && marks->count - marks->first == GPU_MARKS) {
        error = wait_for_event(gpu, &marks->events[(marks->first + 1) % GPU_MARKS]);
        error = error.code == 0 ? add_passed_marks(marks) : error;
    }
    return error;
}

static gpu_error add_mark(struct gpu *gpu, enum device_phase phase) {
    struct gpu_marks *marks = &gpu->marks;
    const int64_t mark = marks->count % GPU_MARKS;
    gpu_error error = marks->count - marks->first == GPU_MARKS ? free_a_mark(gpu) : GPU_NO_ERROR;
    if (error.code == 0 && marks->count - marks->first < GPU_MARKS) {
        error = gpu_event_record(&marks->events[mark], gpu->stream);
        marks->phases[mark] = phase;
        marks->count += error.code == 0;
    }
    return error;
}

static void mark(struct device *dev, enum device_phase phase) {
    struct gpu *gpu = gpu_of(dev);
    if (gpu->status == BERTH_OK) {
        gpu_fail(gpu, "mark", add_mark(gpu, phase));
    }
}

static void times(struct device *dev, double seconds[DEVICE_PHASES]) {
    struct gpu *gpu = gpu_of(dev);
    gpu_fail(gpu, "mark", add_passed_marks(&gpu->marks));
    memcpy(seconds, gpu->marks.seconds, sizeof gpu->marks.seconds);
    memset(gpu->marks.seconds, 0, sizeof gpu->marks.seconds);
}

// --- opening ------------------------------------------------------------------------------------

static const char *describe(struct device *dev) {
    return gpu_of(dev)->description;
}

static void close_device(struct device *dev) {
    if (dev == NULL) {
        return;
    }
    struct gpu *gpu = gpu_of(dev);
    gpu_peers_close(dev);
    if (gpu->is_open) {
        (void)gpu_wait(gpu->stream);
    }
    gpu_memory_free(gpu->partials);
    gemm_close(gpu->gemm);
    attention_cudnn_close(gpu->cudnn);
    close_staging(&gpu->staging);
    close_marks(&gpu->marks);
    close_fetches(&gpu->fetches);
    if (gpu->is_open) {
        gpu_close(gpu->stream);
    }
    memory_free(gpu);
}

static void fill_table(struct device *device) {
    device->name = device->kernels = GPU_KIND;
    device->dtypes = 1u << DTYPE_F32 | 1u << DTYPE_BF16 | 1u << DTYPE_F16;
    device->fast_dtype = DTYPE_BF16;
    device->wants_word_rows = 1;
    device->keeps_masks = GPU_HAS_MMA; // the plain kernels draw them again
    device->describe = describe;
    device->close = close_device;
    device->memory_new = memory_new_zeroed;
    device->memory_free = memory_free_block;
    device->upload = upload;
    device->download = download;
    device->pinned_new = pinned_new;
    device->pinned_free = pinned_free;
    device->fetch_begin = fetch_begin;
    device->fetch_wait = fetch_wait;
    device->peers_id = gpu_peers_id;
    device->peers_open = gpu_peers_open;
    device->peers_close = gpu_peers_close;
    device->peers_reduce = gpu_peers_reduce;
    device->peers_gather = gpu_peers_gather;
    device->peers_wait = gpu_peers_wait;
    device->zero = zero;
    device->discard = zero;
    device->memory_available = memory_available;
    device->workspace_bytes = workspace_bytes;
    device->reserve = reserve;
    device->status = gpu_status;
    device->mark = mark;
    device->times = times;
#define OPERATION(name, ...) device->name = gpu_##name;
#include "device/operations.inc"
#undef OPERATION
    device->measure_peak = gpu_measure_peak;
}

static enum berth_status count_devices(int *count, struct berth_error *error) {
    gpu_error failure = gpu_count(count);
    if (failure.code == 0 && *count == 0) {
        failure = gpu_error{GPU_NO_DEVICE, NULL};
    }
    return failure.code == 0 ? BERTH_OK : report(GPU_KIND, "opening", failure, error);
}

static enum berth_status describe_device(int index, int *count, char text[160],
                                         struct berth_error *error) {
    TRY(count_devices(count, error));
    if (index >= *count) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "device " GPU_KIND
                         ":%d: no such GPU; the last one visible to this process "
                         "is " GPU_KIND ":%d",
                         index, *count - 1);
    }
    gpu_error failure = gpu_describe(index, text);
    char name[32];
    snprintf(name, sizeof name, GPU_KIND ":%d", index);
    return failure.code == 0 ? BERTH_OK : report(name, "opening", failure, error);
}

// The kernels of attention: Berth's own by products of warps (the default) or of warpgroups, or
// cuDNN's in inference.
enum attention_choice { ATTENTION_OWN, ATTENTION_WGMMA, ATTENTION_CUDNN, ATTENTION_CHOICES };

static enum berth_status read_attention(int *choice, struct berth_error *error) {
    static const char *const names[ATTENTION_CHOICES] = {"own", "wgmma", "cudnn"};
    const char *found = getenv(GPU_ATTENTION_VARIABLE);
    for (*choice = 0; *choice < ATTENTION_CHOICES; ++*choice) {
        if (found == NULL || strcmp(found, names[*choice]) == 0) {
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE,
                     "environment variable " GPU_ATTENTION_VARIABLE
                     ": expected own, wgmma or cudnn, found \"%s\"; unset it to use Berth's own "
                     "kernels",
                     found);
}

static gpu_error open_attention(struct gpu *gpu, int choice) {
    gpu->uses_wgmma = choice == ATTENTION_WGMMA && gpu_has_wgmma(gpu->index);
    if (choice == ATTENTION_WGMMA && !gpu->uses_wgmma) {
        return gpu_error{GPU_NOT_SUPPORTED, "attention by products of warpgroups needs a GPU of "
                                            "compute capability 9.0, and a build for it"};
    }
    return choice == ATTENTION_CUDNN ? attention_cudnn_open(&gpu->cudnn, gpu->stream)
                                     : GPU_NO_ERROR;
}

// After an error, the caller closes what was opened.
static enum berth_status open_all(struct gpu *gpu, const struct device_options *options,
                                  struct berth_error *error) {
    int count, attention, index = options->index;
    char text[160];
    TRY(read_attention(&attention, error));
    TRY(count_devices(&count, error));
    if (index < 0) {
        index = options->local_rank % count;
    }
    TRY(describe_device(index, &count, text, error));
    snprintf(gpu->description, sizeof gpu->description, GPU_KIND ":%d, %s", index, text);
    gpu_error failure = gpu_open(index, options, &gpu->stream);
    gpu->is_open = failure.code == 0;
    gpu->index = index;
    if (failure.code == 0) {
        failure = gpu_max_shared_bytes(index, &gpu->max_shared_bytes);
    }
    if (failure.code == 0) {
        failure = open_staging(&gpu->staging);
    }
    if (failure.code == 0) {
        failure = open_marks(&gpu->marks);
    }
    if (failure.code == 0) {
        failure = gemm_open(&gpu->gemm, options->tf32 && GPU_HAS_TF32);
    }
    if (failure.code == 0) {
        failure = open_attention(gpu, attention);
    }
    return failure.code == 0 ? BERTH_OK : report(gpu->description, "opening", failure, error);
}

// Unused in hipcc's pass for the GPU, which leaves out the module object.
[[maybe_unused]] static enum berth_status open_device(const struct device_options *options,
                                                      struct device **device,
                                                      struct berth_error *error) {
    struct gpu *gpu = (struct gpu *)memory_array_zeroed(1, sizeof *gpu);
    if (gpu == NULL) {
        return error_no_memory(error, sizeof *gpu, "the device");
    }
    gpu->device.state = gpu;
    enum berth_status status = open_all(gpu, options, error);
    if (status != BERTH_OK) {
        close_device(&gpu->device);
        return status;
    }
    fill_table(&gpu->device);
    gpu->ranks = options->ranks;
    gpu->local_ranks = options->local_ranks;
    gpu->device.gpu_id = gpu_id_of(gpu->index);
    gpu->device.tf32 = options->tf32 && GPU_HAS_TF32;
    *device = &gpu->device;
    return BERTH_OK;
}

#ifndef __HIP_DEVICE_COMPILE__ // hipcc would put a constant on the GPU, too
extern "C" __attribute__((visibility("default"))) const struct device_module berth_device_module = {
    BERTH_VERSION, sizeof(struct device), open_device, describe_device};
#endif
