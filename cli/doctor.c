// SPDX-License-Identifier: Apache-2.0
// berth doctor: what this machine and this build offer. Uses library internals: it opens the
// communicator and the device to see what the library would choose, and tries every instruction
// set. It changes nothing, and its lines are what a report of a fault should contain.
#include "cli.h"
#include "comm/comm.h"
#include "comm/mpi.h"
#include "core/json_line.h"
#include "core/launcher.h"
#include "core/text_util.h"
#include "settings/settings.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COMM_SECONDS 60 // for processes to meet

// CMake says how the program was built and with which libraries.
#ifndef BERTH_BUILD_TYPE
#define BERTH_BUILD_TYPE "unknown"
#endif
#ifndef BERTH_BUILD_OPTIONS
#define BERTH_BUILD_OPTIONS ""
#endif
#ifndef BERTH_BUILD_LIBRARIES
#define BERTH_BUILD_LIBRARIES ""
#endif

static const struct option_row options[] = {
    {CLI_FLAG("json"), .help = "print one JSON object"},
    {CLI_TEXT("comm", "auto"), .unit = "NAME", .choices = "auto|self|openmpi|mpich",
     .help = "how the processes of a job are connected"},
    {CLI_TEXT("precision", "auto"), .unit = "TYPE", .choices = "fp32|bf16|fp16|int8|auto",
     .help = "check whether the device can predict in this number format"},
};

// Prints one fact at a time, for people or as a member of an object.
struct machine_info {
    int json;
    struct json_line line;
};

static void put_text(struct machine_info *info, const char *key, const char *value) {
    if (info->json) {
        json_line_text(&info->line, key, value);
    } else {
        printf("%-24s %s\n", key, value);
    }
}

// People see the value divided by 1 << shift, with its unit; JSON has the value itself.
static void put_number(struct machine_info *info, const char *key, int64_t value, int shift,
                       const char *unit) {
    if (info->json) {
        json_line_integer(&info->line, key, value);
    } else {
        printf("%-24s %" PRId64 "%s\n", key, value >> shift, unit);
    }
}

static void put_integer(struct machine_info *info, const char *key, int64_t value) {
    put_number(info, key, value, 0, "");
}

static void put_memory(struct machine_info *info, const char *key, uint64_t bytes) {
    put_number(info, key, (int64_t)bytes, 20, " MiB");
}

// The value of the first line of a /proc file that begins with `key`.
static int find_proc_line(const char *path, const char *key, char *value, size_t size) {
    char line[8192];
    int found = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && colon != NULL) {
            colon[strcspn(colon, "\n")] = '\0';
            snprintf(value, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
            found = 1;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

// Adds a word to a list with blanks.
static void add_word(char *list, size_t size, const char *word) {
    const size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used > 0 ? " " : "", word);
}

static void put_processor(struct machine_info *info) {
    static const char *const wanted[] = {
        "sse2",        "avx2",        "fma",      "avx_vnni", "avx512f", "avx512bw", "avx512vl",
        "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8", "asimd",   "bf16"};
    char model[256] = "unknown", flags[8192] = "", found[256] = "";
    find_proc_line("/proc/cpuinfo", "model name", model, sizeof model);
    if (!find_proc_line("/proc/cpuinfo", "flags", flags, sizeof flags)) {
        find_proc_line("/proc/cpuinfo", "Features", flags, sizeof flags); // the key on ARM
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (words_contain(flags, ' ', wanted[i])) {
            add_word(found, sizeof found, wanted[i]);
        }
    }
    put_text(info, "processor", model);
    put_text(info, "processor_features", found);
    put_integer(info, "processors_online", sysconf(_SC_NPROCESSORS_ONLN));
}

// The instruction sets that this machine supports: "generic avx2 avx512".
static void put_instructions(struct machine_info *info) {
    static const char *const sets[] = {"generic",    "fma", "avx2",    "avx512",
                                       "avx512bf16", "amx", "neonbf16"};
    char usable[128] = "", portable[128] = "";
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct device_options options_of_set = {.threads = 1, .instructions = sets[i]};
        struct device *device;
        if (device_cpu_open(&options_of_set, &device, NULL) == BERTH_OK) {
            add_word(usable, sizeof usable, sets[i]);
            if (device->is_portable) {
                add_word(portable, sizeof portable, sets[i]);
            }
            device->close(device);
        }
    }
    put_text(info, "instruction_sets", usable);
    put_text(info, "same_bytes", portable); // in fp32 and int8, here and elsewhere
}

// The GPUs of a kind: "cuda:0, NVIDIA H200, ...; ...", or why there are none: "no
// berth-device-hip.so in ...".
static void describe_gpus(const char *kind, char *text, size_t size) {
    char gpu[160];
    struct berth_error error;
    int count = 1;
    size_t used = 0;
    for (int i = 0; i < count && used < size; i++) {
        const char *separator = i > 0 ? "; " : "";
        const int is_fine = device_gpu_describe(kind, i, &count, gpu, &error) == BERTH_OK;
        used += (size_t)(is_fine ? snprintf(text + used, size - used, "%s%s:%d, %s", separator,
                                            kind, i, gpu)
                                 : snprintf(text + used, size - used, "%s%s", separator,
                                            error.message));
    }
}

// The number formats that a device predicts in: "fp32 bf16 int8".
static void put_precisions(struct machine_info *info, const struct device *device) {
    char found[64] = "";
    for (enum berth_precision i = 0; i < BERTH_PRECISION_AUTO; i++) {
        struct settings config = {.machine.precision = i};
        enum dtype compute;
        if (machine_inference_dtype(&config.machine, comm_self(), device, NULL, &compute, NULL) ==
            BERTH_OK) {
            add_word(found, sizeof found, machine_precision_name(i));
        }
    }
    put_text(info, "precisions", found);
}

static enum berth_status put_device(struct machine_info *info, struct settings *config,
                                    struct berth_error *error) {
    struct device *device;
    enum dtype compute;
    char processors[1024] = "unknown";
    TRY(machine_device_open(&config->machine, comm_self(), NULL, &device, error));
    put_text(info, "device", device->describe(device));
    // Prints a line for each kind of GPU: which ones there are, or why there is none.
    char key[32], text[2048];
    for (const char *const *kind = device_gpu_kinds; *kind != NULL; kind++) {
        snprintf(key, sizeof key, "device_%s", *kind);
        describe_gpus(*kind, text, sizeof text);
        put_text(info, key, text);
    }
    find_proc_line("/proc/self/status", "Cpus_allowed_list", processors, sizeof processors);
    put_text(info, "processors_usable", processors);
    put_integer(info, "threads", machine_threads(&config->machine));
    enum berth_status status =
        machine_inference_dtype(&config->machine, comm_self(), device, NULL, &compute, error);
    put_text(info, "precision", machine_precision_name(config->machine.precision));
    put_precisions(info, device);
    device->close(device);
    return status;
}

// Opens it, so that `mpirun berth doctor` tells whether jobs of several processes would start.
static enum berth_status put_comm(struct machine_info *info, struct cli_call *call,
                                  struct berth_error *error) {
    struct berth_log log = cli_log(call);
    const char *name = cli_value(call, "comm");
    char host[HOST_NAME_MAX + 1] = "";
    struct comm *comm;
    call->config.machine.comm = name != NULL ? name : "auto";
    call->config.machine.comm_timeout = call->config.machine.start_timeout = COMM_SECONDS;
    gethostname(host, sizeof host - 1);
    put_text(info, "host", host);
    TRY(machine_comm_open("doctor", &call->config, &log, &comm, error));
    put_text(info, "comm", comm->name);
    put_integer(info, "ranks", comm->size);
    put_integer(info, "rank", comm->rank);
    put_integer(info, "ranks_of_host", comm->local_size);
    put_integer(info, "hosts", comm->host_count);
    int stop = 0;
    enum berth_status status = comm->agree(comm, BERTH_OK, &stop, error);
    comm->close(comm);
    return status;
}

static enum berth_status run_doctor(struct cli_call *call, struct berth_error *error) {
    struct machine_info info = {.json = cli_flag(call, "json")};
    if (info.json) {
        json_line_open(&info.line, NULL, '{');
    }
    put_text(&info, "version", berth_version());
    put_text(&info, "compiler", __VERSION__);
    put_text(&info, "build_type", BERTH_BUILD_TYPE);
    put_text(&info, "build_options", BERTH_BUILD_OPTIONS);
    put_text(&info, "libraries", BERTH_BUILD_LIBRARIES);
    put_processor(&info);
    put_instructions(&info);
    const char *limit = NULL;
    uint64_t available = machine_memory_available(&limit);
    put_memory(&info, "memory_total",
               (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    if (available != UINT64_MAX) {
        put_memory(&info, "memory_available", available);
    }
    if (limit != NULL) {
        put_text(&info, "memory_limit", limit);
    }
    struct launch launch = launch_find();
    put_text(&info, "launcher", launch.launcher != NULL ? launch.launcher->name : "none");
    put_integer(&info, "processes", launch.size);
    put_integer(&info, "process_rank", launch.rank);
    // "openmpi (Open MPI v4.1.4), mpich (MPICH 4.0.2)"
    char found[512] = "", version[COMM_VERSION_SIZE];
    for (const char *const *name = mpi_modules; *name != NULL; name++) {
        size_t used = strlen(found);
        if (mpi_module_version(*name, version)) {
            snprintf(found + used, sizeof found - used, "%s%s (%s)", used > 0 ? ", " : "", *name,
                     version);
        }
    }
    put_text(&info, "comm_modules", found[0] != '\0' ? found : "none");
    enum berth_status status = cli_set(call, "precision", cli_value(call, "precision"), error);
    if (status == BERTH_OK) {
        status = put_comm(&info, call, error);
    }
    if (status == BERTH_OK) {
        status = put_device(&info, &call->config, error);
    }
    if (info.json && status == BERTH_OK) {
        json_line_close(&info.line, '}');
        status = cli_put_json(&info.line, error);
    }
    json_line_done(&info.line);
    return status;
}

const struct cli_verb cli_doctor = {
    .name = "doctor",
    .summary = "show what this machine and this build support",
    .usage = "[--json] [--comm NAME] [--precision TYPE]",
    .example = "berth doctor\nmpirun -n 2 berth doctor --json",
    CLI_OWN_OPTIONS(options),
    .processes = CLI_EACH,
    .run = run_doctor,
};
