// SPDX-License-Identifier: Apache-2.0
// Opens what a job runs on, by the settings: threads, the device (the best GPU, or the CPU), the
// communicator, and the compute type that all ranks can use. Also reads how much memory the process
// has and may still take, from /proc and the limits. Every job begins here; devices and
// communicators themselves are in src/device/ and src/comm/.
#include "train/machine/machine.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/thread.h"
#include "settings/settings.h"
#include "train/machine/cgroup.h"
#include "train/machine/cores.h"
#include "train/machine/rank_facts.h"

#include <assert.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define PROC_FILE_LIMIT (1 << 20)
// The reserve of a process limit for memory that no plan counts: reserved but unused
// heaps, gaps between mappings. Measured: 44 MiB with UNCOUNTED_BYTES of plan.c.
#define RESERVED_ADDRESSES ((uint64_t)40 << 20)
#define PEAK_SECONDS 0.15 // of one measurement
#define MEASURABLE_SECONDS 2.0
#define MFU_READINGS 3

// The number after `key` in a file of "key  number" lines; `missing` if the key is absent.
static uint64_t read_count(const char *path, const char *key, uint64_t missing) {
    char *text = NULL;
    size_t length;
    if (file_read(path, PROC_FILE_LIMIT, &text, &length, NULL) != BERTH_OK) {
        return missing;
    }
    const char *line = strstr(text, key);
    uint64_t count = line != NULL ? strtoull(line + strlen(key), NULL, 10) : missing;
    memory_free(text);
    return count;
}

// The same for "key  number kB" lines, in bytes.
static uint64_t read_kilobytes(const char *path, const char *key, uint64_t missing) {
    uint64_t count = read_count(path, key, UINT64_MAX);
    return count == UINT64_MAX ? missing : count * 1024;
}

uint64_t machine_resident(void) {
    return read_kilobytes("/proc/self/status", "VmRSS:", 0);
}

uint64_t machine_peak_resident(void) {
    return read_kilobytes("/proc/self/status", "VmHWM:", 0);
}

static uint64_t remaining(uint64_t limit, uint64_t used) {
    if (limit == UINT64_MAX) {
        return UINT64_MAX;
    }
    return limit > used ? limit - used : 0;
}

// Limits of the process, and the keys of their usage in /proc/self/status.
static const struct {
    int resource;
    const char *used, *name;
} process_limits[] = {{RLIMIT_AS, "VmSize:", "the address space limit (ulimit -v)"},
                      {RLIMIT_DATA, "VmData:", "the data size limit (ulimit -d)"}};

// What such a limit leaves, minus the reserve, because a failed mapping within a library may end
// the process.
static uint64_t remaining_under_limit(size_t i) {
    struct rlimit limit;
    if (getrlimit(process_limits[i].resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return UINT64_MAX;
    }
    uint64_t used = read_kilobytes("/proc/self/status", process_limits[i].used, 0);
    return remaining(limit.rlim_cur, used + RESERVED_ADDRESSES);
}

uint64_t machine_memory_available(const char **limit) {
    const uint64_t reserved = memory_pages_reserved();
    uint64_t available =
        remaining(read_kilobytes("/proc/meminfo", "MemAvailable:", UINT64_MAX), reserved);
    *limit = "the system's available memory";
    for (size_t i = 0; i < sizeof process_limits / sizeof *process_limits; i++) {
        uint64_t space = remaining_under_limit(i);
        if (space < available) {
            available = space;
            *limit = process_limits[i].name;
        }
    }
    uint64_t group = remaining(cgroup_memory_available(""), reserved);
    if (group < available) {
        available = group;
        *limit = "the cgroup's memory limit";
    }
    return available;
}

// Stack size of OpenMP's threads.
static uint64_t stack_size(void) {
    pthread_attr_t attributes;
    size_t size = 0;
    if (pthread_getattr_default_np(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &size);
        pthread_attr_destroy(&attributes);
    }
    return size;
}

// Not inlined: clang calls its OpenMP at the beginning of a function with a parallel region. That
// call maps memory and ends the process if it cannot, so the limit must have been checked before.
static __attribute__((noinline)) void start_threads(int threads) {
#ifdef __GLIBC__
    // Otherwise it reserves 64 MiB of addresses as a heap for each thread, if available.
    mallopt(M_ARENA_MAX, 1);
#endif
#pragma omp parallel num_threads(threads)
    memory_free(memory_new(1)); // keeps the region from being empty
}

enum berth_status machine_start_threads(int threads, struct berth_error *error) {
    static _Thread_local int known = 1; // OpenMP keeps threads for each thread that calls it
    if (threads <= known || cores_is_forked_child()) {
        return BERTH_OK;
    }
    const uint64_t space = remaining_under_limit(0), each = stack_size();
    const uint64_t running = read_count("/proc/self/status", "Threads:", 1);
    const uint64_t missing = (uint64_t)threads > running ? (uint64_t)threads - running : 0;
    if (space != UINT64_MAX && each * missing > space) {
        return error_set(error, BERTH_CONFIG,
                         "%d threads need %" PRIu64 " MiB for their stacks and %s leaves %" PRIu64
                         " MiB; threads %" PRIu64 " would fit",
                         threads, each * missing >> 20, process_limits[0].name, space >> 20,
                         running + space / each);
    }
    const int startable = 1 + threads_startable(threads - 1);
    if (startable < threads) {
        return error_set(error, BERTH_CONFIG,
                         "only %d of %d threads can be started: raise the limit (ulimit -u, or the "
                         "cgroup's limit of processes), or use fewer threads",
                         startable, threads);
    }
    if (remaining_under_limit(0) != UINT64_MAX) {
        start_threads(threads);
    }
    known = threads;
    return BERTH_OK;
}

int machine_threads(const struct machine_settings *settings) {
    return cores_threads((int)settings->threads);
}

double machine_peak_flops(struct device *device, enum dtype dtype, int readings) {
    double best = NAN;
    for (int i = 0; i < readings && device->measure_peak != NULL; i++) {
        double reading = device->measure_peak(device, dtype, PEAK_SECONDS);
        best = isnan(best) || reading > best ? reading : best;
    }
    return best;
}

double machine_mfu(struct device *device, enum dtype dtype, double flops, double seconds) {
    return seconds >= MEASURABLE_SECONDS
               ? flops / seconds / machine_peak_flops(device, dtype, MFU_READINGS)
               : NAN;
}

// --- the device ---------------------------------------------------------------------------------

// The best GPU, or else the CPU, with a reason.
static enum berth_status open_best(const struct device_options *options,
                                   const struct berth_log *log, struct device **device,
                                   struct berth_error *error) {
    struct berth_error refusal;
    const char *why = NULL;
    int has_failed = 0;
    for (const char *const *kind = device_gpu_kinds; *kind != NULL; kind++) {
        if (strcmp(*kind, "emulated") == 0 || !device_gpu_has_module(*kind)) {
            continue;
        }
        const char *missing = device_gpu_missing(*kind);
        if (missing == NULL && device_gpu_open(*kind, options, device, &refusal) == BERTH_OK) {
            log_detail(log, "device: %s (auto)", (*device)->describe(*device));
            return BERTH_OK;
        }
        if (missing == NULL) {
            log_warning(log, "%s", refusal.message);
            has_failed = 1;
        }
        why = why != NULL ? why : missing;
    }
    TRY(device_cpu_open(options, device, error));
    log_detail(log, "device: %s (auto: %s)", (*device)->describe(*device),
               has_failed    ? "no GPU can be used"
               : why != NULL ? why
                             : "this build has no device for GPUs");
    return BERTH_OK;
}

// "cuda:1": kind "cuda", index 1; "cuda": index -1. NULL: no GPU's name.
static const char *gpu_kind_of(const char *name, int *index) {
    const size_t length = strcspn(name, ":");
    const char *const *kind = device_gpu_kinds;
    while (*kind != NULL && (strlen(*kind) != length || strncmp(*kind, name, length) != 0)) {
        kind++;
    }
    *index = name[length] == ':' ? atoi(name + length + 1) : -1;
    return *kind;
}

enum berth_status machine_device_open(const struct machine_settings *settings,
                                      const struct comm *comm, const struct berth_log *log,
                                      struct device **device, struct berth_error *error) {
    const char *name = settings->device != NULL ? settings->device : "auto";
    struct device_options options = {.threads = machine_threads(settings),
                                     .instructions = settings->instructions,
                                     .index = -1,
                                     .local_rank = comm->local_rank,
                                     .ranks = comm->size,
                                     .local_ranks = comm->local_size,
                                     .tf32 = settings->tf32};
    TRY(machine_start_threads(options.threads, error));
    if (cores_is_forked_child()) {
        log_note(log, "threads: 1, because this process was forked from one that had already used "
                      "the library; a newly started process uses all the threads it may");
    }
    if (strcmp(name, "auto") == 0) {
        TRY(open_best(&options, log, device, error));
    } else {
        const char *kind = gpu_kind_of(name, &options.index);
        if (kind != NULL) {
            TRY(device_gpu_open(kind, &options, device, error));
        } else {
            TRY(device_cpu_open(&options, device, error));
        }
        log_detail(log, "device: %s", (*device)->describe(*device));
    }
    assert(device_check(*device) == NULL);
    if (settings->tf32 && !(*device)->tf32) {
        log_note(log, "tf32 has no effect: the device %s does not support it", (*device)->name);
    }
    if (settings->instructions != NULL && strcmp(settings->instructions, "auto") != 0 &&
        !(*device)->is_host) {
        log_note(log,
                 "instructions has no effect: it selects those of the CPU, and the device is %s",
                 (*device)->name);
    }
    return BERTH_OK;
}

enum berth_status machine_compare_devices(struct comm *comm, const struct device *device,
                                          enum berth_precision precision, int zero_stage,
                                          const struct berth_log *log, struct berth_error *error) {
    char own[64], first[64];
    if (comm->size == 1) {
        return BERTH_OK;
    }
    (void)snprintf(own, sizeof own, "%s with %s kernels", device->name,
                   precision == BERTH_FP32 && device->is_portable ? "portable" : device->kernels);
    memcpy(first, own, sizeof first);
    comm->broadcast(comm, first, sizeof first, 0);
    TRY(comm->status(comm, error));
    const size_t kind = strlen(device->name) + 1; // with the blank
    const int is_other_kind = strncmp(own, first, kind) != 0, differs = strcmp(own, first) != 0;
    int other = differs ? comm->size - comm->rank : 0; // the lowest such rank, from the last
    enum berth_status status = BERTH_OK;
    if (is_other_kind || (differs && zero_stage == 0)) {
        status = error_set(error, BERTH_CONFIG,
                           "the device is %s, but %s on rank 0, so their sums would differ; %s",
                           own, first,
                           is_other_kind ? "name a device that all ranks have, or start ranks only "
                                           "on hosts that have it"
                                         : "set instructions to those that all hosts have, or "
                                           "zero_stage 1, with which each weight has one owner");
    }
    TRY(comm_settle_stop(comm, status, &other, error));
    if (other > 0) {
        log_note(log,
                 "rank %d (host %s) has other kernels than rank 0: the last digits depend on "
                 "which rank computes what",
                 comm->size - other, comm->host_names[comm->size - other]);
    }
    return BERTH_OK;
}

// --- the ranks ----------------------------------------------------------------------------------

// The jobs are compared first, because different jobs make different calls.
static enum berth_status compare_ranks(struct comm *comm, const char *job,
                                       const struct settings *config, struct berth_error *error) {
    TRY(rank_facts_compare_job(comm, job, error));
    return rank_facts_compare_settings(comm, config, error);
}

enum berth_status machine_comm_open(const char *job, const struct settings *config,
                                    struct berth_log *log, struct comm **comm,
                                    struct berth_error *error) {
    const struct comm_options options = {
        .topology = config->machine.topology,
        .name = config->machine.comm != NULL ? config->machine.comm : "auto",
        .timeout_seconds = (double)config->machine.comm_timeout,
        .start_timeout_seconds = (double)config->machine.start_timeout};
    cores_leave_first_place(); // before the connection's threads start
    TRY(comm_open(&options, comm, error));
    assert(comm_check(*comm) == NULL);
    if ((*comm)->size == 1) {
        return BERTH_OK;
    }
    if ((*comm)->rank > 0) {
        *log = (struct berth_log){0};
    }
    char racks[32] = "";
    if ((*comm)->rack_count > 1) {
        snprintf(racks, sizeof racks, " in %d racks", (*comm)->rack_count);
    }
    log_note(log, "ranks: %d on %d host%s%s, connected by %s", (*comm)->size, (*comm)->host_count,
             (*comm)->host_count > 1 ? "s" : "", racks, (*comm)->name);
    if (config->machine.topology != NULL && (*comm)->rack_count == 1) {
        log_note(log, "topology has no effect: all hosts are in one rack");
    }
    enum berth_status status = compare_ranks(*comm, job, config, error);
    if (status == BERTH_OK) {
        status = cores_divide(*comm, (int)config->machine.threads, log, error);
    }
    if (status != BERTH_OK) {
        (*comm)->close(*comm);
        *comm = comm_self();
    }
    return status;
}

// Indexed by enum berth_precision; the names are those of --precision.
static const struct {
    const char *name;
    enum dtype dtype;
} precisions[] = {[BERTH_FP32] = {"fp32", DTYPE_F32},
                  [BERTH_BF16] = {"bf16", DTYPE_BF16},
                  [BERTH_FP16] = {"fp16", DTYPE_F16},
                  [BERTH_INT8] = {"int8", DTYPE_I8},
                  [BERTH_PRECISION_AUTO] = {"auto", DTYPE_F32}};

const char *machine_precision_name(enum berth_precision precision) {
    return precisions[precision].name;
}

static enum berth_status check_dtype(const struct machine_settings *settings,
                                     const struct device *device, enum dtype dtype,
                                     struct berth_error *error) {
    return (device->dtypes >> dtype & 1) != 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "precision %s: the device %s does not support it; use precision auto",
                           precisions[settings->precision].name, device->name);
}

// bf16 if it is fast on the devices of all ranks, else fp32: ranks that compute in different types
// would not train the same model.
static enum berth_status find_fast_dtype(struct comm *comm, const struct device *device,
                                         const struct berth_log *log, enum dtype *fast,
                                         struct berth_error *error) {
    // The lowest rank without fast bf16, counted from the last; 0: none.
    int slow = device->fast_dtype == DTYPE_BF16 ? 0 : comm->size - comm->rank;
    TRY(comm->agree(comm, BERTH_OK, &slow, error));
    *fast = slow == 0 ? DTYPE_BF16 : DTYPE_F32;
    if (device->fast_dtype == DTYPE_BF16 && slow > 0) {
        const int rank = comm->size - slow;
        log_note(log, "rank %d (host %s) has no fast bf16, so all ranks compute in fp32", rank,
                 comm->host_names[rank]);
    }
    return BERTH_OK;
}

enum berth_status machine_compute_dtype(struct machine_settings *settings, struct comm *comm,
                                        const struct device *device, const struct berth_log *log,
                                        enum dtype *compute, struct berth_error *error) {
    if (settings->precision == BERTH_PRECISION_AUTO) {
        TRY(find_fast_dtype(comm, device, log, compute, error));
        settings->precision = *compute == DTYPE_BF16 ? BERTH_BF16 : BERTH_FP32;
        log_detail(log, "precision: %s (auto%s)", precisions[settings->precision].name,
                   *compute == device->fast_dtype ? ", the faster one on this device" : "");
    }
    *compute = precisions[settings->precision].dtype;
    if (settings->precision == BERTH_INT8) {
        return error_set(error, BERTH_CONFIG,
                         "precision int8 is only for prediction: train in fp32 or bf16, then "
                         "predict, answer or embed with precision int8");
    }
    return check_dtype(settings, device, *compute, error);
}

enum berth_status machine_inference_dtype(struct machine_settings *settings, struct comm *comm,
                                          const struct device *device, const struct berth_log *log,
                                          enum dtype *compute, struct berth_error *error) {
    if (settings->precision != BERTH_INT8) {
        return machine_compute_dtype(settings, comm, device, log, compute, error);
    }
    *compute = DTYPE_F32; // whose bytes are the same with every instruction set
    // Only in host memory: model/int8.c quantizes words and chooses wide columns on the host.
    return device->is_host
               ? check_dtype(settings, device, DTYPE_I8, error)
               : error_set(error, BERTH_CONFIG,
                           "precision int8: the device %s does not support it; use precision auto",
                           device->name);
}
