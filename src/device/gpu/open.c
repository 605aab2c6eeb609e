// SPDX-License-Identifier: Apache-2.0
// The host's side of GPU devices: finds the module of a kind, checks that it was built with this
// program, and opens its device for machine.c. Before a module is loaded, it looks whether there is
// a driver at all, because a module's libraries take hundreds of megabytes.
#include "core/modules.h"
#include "device/gpu/module.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

const char *const device_gpu_kinds[] = {"cuda", "hip", "emulated", NULL};

static enum berth_status open_module(const char *kind, const struct device_module **module,
                                     struct berth_error *error) {
    const struct module_request request = {
        .kind = "device",
        .name = kind,
        .symbol = DEVICE_MODULE_SYMBOL,
        .if_missing = "this build has no such device; use device cpu, or set " MODULE_PATH_VARIABLE
                      " to the module's folder",
        .if_broken = "install the GPU's libraries that it was built with, or use device cpu",
    };
    const void *object;
    TRY(module_open(&request, &object, error));
    *module = object;
    return module_check(&request, (*module)->berth, (*module)->device_size, sizeof(struct device),
                        error);
}

enum berth_status device_gpu_open(const char *kind, const struct device_options *options,
                                  struct device **device, struct berth_error *error) {
    const struct device_module *module;
    *device = NULL;
    TRY(open_module(kind, &module, error));
    TRY(module->open(options, device, error));
    (*device)->threads = options->threads > 0 ? options->threads : 1;
    return BERTH_OK;
}

enum berth_status device_gpu_describe(const char *kind, int index, int *count, char text[160],
                                      struct berth_error *error) {
    const struct device_module *module;
    *count = 0;
    TRY(open_module(kind, &module, error));
    return module->describe(index, count, text, error);
}

// The evidence of a driver: its library, or its device file. It is checked before a module is
// loaded, because a module's libraries take hundreds of megabytes, too much for a machine without a
// GPU.
static const struct {
    const char *kind, *evidence, *missing;
} drivers[] = {{"cuda", "libcuda.so.1", "no NVIDIA driver is installed (libcuda.so.1)"},
               {"hip", "/dev/kfd", "no AMD GPU driver is loaded (/dev/kfd)"}};

static int has_evidence(const char *evidence) {
    return evidence[0] == '/' ? access(evidence, F_OK) == 0 : dlopen(evidence, RTLD_LAZY) != NULL;
}

int device_gpu_has_module(const char *kind) {
    return module_exists("device", kind);
}

const char *device_gpu_missing(const char *kind) {
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        if (strcmp(drivers[i].kind, kind) == 0 && !has_evidence(drivers[i].evidence)) {
            return drivers[i].missing;
        }
    }
    return NULL;
}
