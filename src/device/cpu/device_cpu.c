// SPDX-License-Identifier: Apache-2.0
// Opens the CPU device: chooses the kernels, makes the table of operations that the model calls,
// and has the functions that compute nothing (memory, copies, times, errors). For this device the
// memory is the host's, so uploads are plain copies. The operations themselves are in the other
// files of this folder.
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/number.h"
#include "device/cpu/cpu.h"

#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

// Memory of a product per thread besides its operands: a packed tile of dy, or the sums of a tile
// whose depth is summed in chunks.
#define PRODUCT_BYTES ((size_t)2 << 20)

// --- memory and state ---------------------------------------------------------------------------

static const char *cpu_describe(struct device *dev) {
    return cpu_of(dev)->description;
}

static void cpu_close(struct device *dev) {
    if (dev == NULL) {
        return;
    }
    struct cpu *cpu = cpu_of(dev);
    gemm_close(cpu->gemm);
    memory_pages_free(cpu->partials, cpu->partial_bytes);
    memory_pages_free(cpu->packed, cpu->packed_bytes);
    memory_pages_free(cpu->quantized, cpu->quantized_bytes);
    memory_pages_free(cpu->attention, cpu->attention_bytes);
    memory_free(cpu);
}

static void *cpu_memory_new(struct device *dev, size_t bytes) {
    return memory_pages(bytes);
}

static void cpu_memory_free(struct device *dev, void *block, size_t bytes) {
    memory_pages_free(block, bytes);
}

static void cpu_discard(struct device *dev, void *block, size_t bytes) {
    memory_pages_discard(block, bytes);
}

static void cpu_upload(struct device *dev, void *to, const void *from_host, size_t bytes) {
    memcpy(to, from_host, bytes);
}

static void cpu_zero(struct device *dev, void *block, size_t bytes) {
    const size_t part = (size_t)1 << 20;
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (size_t first = 0; first < bytes; first += part) {
        memset((char *)block + first, 0, bytes - first < part ? bytes - first : part);
    }
}

static size_t partial_bytes(const struct device_shape *shape) {
    size_t norm = cpu_norm_partial_bytes(shape), linear = cpu_linear_partial_bytes(shape);
    return shape->training ? (norm > linear ? norm : linear) : 0;
}

static size_t cpu_workspace_bytes(struct device *dev, const struct device_shape *shape) {
    const struct cpu *cpu = cpu_of(dev);
    return partial_bytes(shape) + cpu_linear_packed_bytes(shape) + cpu_attention_bytes(cpu, shape) +
           cpu_quantized_bytes(cpu, shape) + (size_t)cpu->threads * PRODUCT_BYTES;
}

static enum berth_status cpu_status(struct device *dev, struct berth_error *error) {
    struct cpu *cpu = cpu_of(dev);
    enum berth_status status = cpu->status;
    if (status != BERTH_OK && error != NULL) {
        *error = cpu->error;
    }
    cpu->status = BERTH_OK;
    return status;
}

static void cpu_mark(struct device *dev, enum device_phase phase) {
    struct cpu *cpu = cpu_of(dev);
    const double now = clock_now();
    cpu->seconds[cpu->phase] += now - cpu->marked;
    cpu->marked = now;
    cpu->phase = phase;
}

static void cpu_times(struct device *dev, double seconds[DEVICE_PHASES]) {
    struct cpu *cpu = cpu_of(dev);
    cpu_mark(dev, cpu->phase);
    memcpy(seconds, cpu->seconds, sizeof cpu->seconds);
    memset(cpu->seconds, 0, sizeof cpu->seconds);
}

static enum berth_status cpu_reserve(struct device *dev, const struct device_shape *shape,
                                     struct berth_error *error) {
    struct cpu *cpu = cpu_of(dev);
    TRY(gemm_reserve(cpu->gemm, PRODUCT_BYTES, error));
    if (cpu_grow(cpu, (void **)&cpu->partials, &cpu->partial_bytes, partial_bytes(shape)) &&
        cpu_grow(cpu, (void **)&cpu->packed, &cpu->packed_bytes, cpu_linear_packed_bytes(shape)) &&
        cpu_grow(cpu, (void **)&cpu->quantized, &cpu->quantized_bytes,
                 cpu_quantized_bytes(cpu, shape))) {
        cpu_grow(cpu, (void **)&cpu->attention, &cpu->attention_bytes,
                 cpu_attention_bytes(cpu, shape));
    }
    return cpu_status(dev, error);
}

// Measures the peak rate of multiply-adds. The clock is each thread's processor time, which other
// programs hardly disturb.
static double cpu_measure_peak(struct device *dev, enum dtype dtype, double seconds) {
    struct cpu *cpu = cpu_of(dev);
    double (*loop)(int64_t) = dtype == DTYPE_F32  ? cpu->kernels->peak_f32
                              : dtype == DTYPE_I8 ? cpu->int8->peak
                                                  : cpu->kernels->peak_bf16;
    const int64_t rounds = 100000;
    // Threads that share a processor take turns.
    const int at_once = cpu->threads < cpu->processors ? cpu->threads : cpu->processors;
    double best = 0, started = clock_now();
    do {
        double rate = 0;
#pragma omp parallel num_threads(cpu->threads) reduction(+ : rate)
        {
            const double before = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
            const double flops = loop(rounds);
            rate += flops / (clock_seconds(CLOCK_THREAD_CPUTIME_ID) - before);
        }
        rate *= (double)at_once / cpu->threads;
        best = rate > best ? rate : best;
    } while (clock_now() - started < seconds);
    return best;
}

// --- opening ------------------------------------------------------------------------------------

static const struct device operations = {
    .name = "cpu",
    .is_host = 1,
    .dtypes = 1u << DTYPE_F32 | 1u << DTYPE_BF16 | 1u << DTYPE_I8,
    .fast_dtype = DTYPE_F32,
    .keeps_masks = 1,
    .describe = cpu_describe,
    .close = cpu_close,
    .memory_new = cpu_memory_new,
    .memory_free = cpu_memory_free,
    .upload = cpu_upload,
    .download = cpu_upload,
    .zero = cpu_zero,
    .discard = cpu_discard,
    .workspace_bytes = cpu_workspace_bytes,
    .reserve = cpu_reserve,
    .status = cpu_status,
    .mark = cpu_mark,
    .times = cpu_times,
#define OPERATION(name, ...) .name = cpu_##name,
#include "device/operations.inc"
#undef OPERATION
    .int8_bytes = cpu_int8_bytes,
    .int8_pack = cpu_int8_pack,
    .int8_finish = cpu_int8_finish,
    .linear_int8_forward = cpu_linear_int8_forward,
    .packs = cpu_packs,
    .pack = cpu_pack,
    .linear_packed_forward = cpu_linear_packed_forward,
    .measure_peak = cpu_measure_peak,
};

// Intel's processors multiply pairs of bf16 at half the speed of f32, unless they have tiles. The
// answer is the processor's, not a measurement's, so that a run is the same each time.
static int bf16_is_fast(const struct kernels *kernels) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return kernels->native_bf16 && (kernels->strips_are_tiles || !__builtin_cpu_is("intel"));
#else
    return kernels->native_bf16;
#endif
}

enum berth_status device_cpu_open(const struct device_options *options, struct device **device,
                                  struct berth_error *error) {
    struct berth_error own;
    error = error != NULL ? error : &own;
    const struct kernels *kernels = kernels_choose(options->instructions, error);
    if (kernels == NULL) {
        return error->status;
    }
    if (options->threads < 0 || options->threads > 4096) {
        return error_set(error, BERTH_USAGE, "threads: expected 0 (all) to 4096, found %d",
                         options->threads);
    }
    struct cpu *cpu = memory_array_zeroed(1, sizeof *cpu);
    if (cpu == NULL) {
        return error_no_memory(error, sizeof *cpu, "the CPU device");
    }
    cpu->kernels = kernels;
    cpu->int8 = int8_kernels_choose(kernels->name);
    cpu_set_t set;
    cpu->processors =
        sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : omp_get_num_procs();
    cpu->threads = options->threads > 0 ? options->threads : cpu->processors;
    cpu->device = operations;
    cpu->device.state = cpu;
    cpu->device.kernels = kernels->name;
    cpu->device.is_portable = kernels->fused;
    cpu->device.threads = cpu->threads;
    cpu->device.fast_dtype = bf16_is_fast(kernels) ? DTYPE_BF16 : DTYPE_F32;
    cpu->marked = clock_now();
    enum berth_status status = gemm_open(cpu->threads, kernels, &cpu->gemm, error);
    if (status != BERTH_OK) {
        memory_free(cpu);
        return status;
    }
    snprintf(cpu->description, sizeof cpu->description, "CPU, %s kernels%s, %d thread%s",
             kernels->name, kernels->fused ? "" : " (bytes of their own: no fused multiply-add)",
             cpu->threads, number_plural(cpu->threads));
    *device = &cpu->device;
    return BERTH_OK;
}
