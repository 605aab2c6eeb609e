// SPDX-License-Identifier: Apache-2.0
#include "train/machine.h"

#include "core/file.h"
#include "core/memory.h"
#include "train/cgroup.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define PROC_FILE_LIMIT (1 << 20)
#define PEAK_SECONDS 0.15 // of one reading
#define MEASURABLE_SECONDS 2.0
#define MFU_READINGS 3

double machine_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// The number after `key` in a file of "key  number kB" lines, in bytes; `missing` without one.
static uint64_t read_kilobytes(const char *path, const char *key, uint64_t missing) {
    char *text = NULL;
    size_t length;
    if (file_read(path, PROC_FILE_LIMIT, &text, &length, NULL) != BERTH_OK) {
        return missing;
    }
    const char *line = strstr(text, key);
    uint64_t bytes = line != NULL ? strtoull(line + strlen(key), NULL, 10) * 1024 : missing;
    memory_free(text);
    return bytes;
}

uint64_t machine_resident(void) {
    return read_kilobytes("/proc/self/status", "VmRSS:", 0);
}

uint64_t machine_peak_resident(void) {
    return read_kilobytes("/proc/self/status", "VmHWM:", 0);
}

static uint64_t rest(uint64_t limit, uint64_t used) {
    if (limit == UINT64_MAX) {
        return UINT64_MAX;
    }
    return limit > used ? limit - used : 0;
}

static uint64_t address_space_rest(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return UINT64_MAX;
    }
    return rest(limit.rlim_cur, read_kilobytes("/proc/self/status", "VmSize:", 0));
}

uint64_t machine_memory_available(const char **limit) {
    uint64_t least = read_kilobytes("/proc/meminfo", "MemAvailable:", UINT64_MAX);
    *limit = "the system's available memory";
    uint64_t space = address_space_rest();
    if (space < least) {
        least = space;
        *limit = "the address space limit (ulimit -v)";
    }
    uint64_t group = cgroup_memory_rest("");
    if (group < least) {
        least = group;
        *limit = "the cgroup's memory limit";
    }
    return least;
}

int machine_threads(const struct berth_config *config) {
    if (config->threads > 0) {
        return (int)config->threads;
    }
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
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

enum berth_status machine_device_open(const struct berth_config *config,
                                      const struct berth_log *log, struct device **device,
                                      struct berth_error *error) {
    const char *name = config->device != NULL ? config->device : "auto";
    struct device_options options = {.threads = (int)config->threads,
                                     .instructions = config->instructions};
    enum berth_status status;
    if (strcmp(name, "cuda") == 0) {
        status = device_cuda_open(&options, device, error);
    } else if (strcmp(name, "cpu") == 0) {
        status = device_cpu_open(&options, device, error);
    } else if (strcmp(name, "auto") == 0) {
        status = device_cuda_open(&options, device, NULL);
        if (status != BERTH_OK) {
            status = device_cpu_open(&options, device, error);
        }
    } else {
        return error_set(error, BERTH_USAGE,
                         "--device: unknown device '%s'; known: auto, cpu, cuda", name);
    }
    if (status == BERTH_OK) {
        log_note(log, "device: %s", (*device)->describe(*device));
    }
    return status;
}
