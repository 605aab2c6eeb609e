// SPDX-License-Identifier: Apache-2.0
// Opens the device of a module (module.h).
#include "core/modules.h"
#include "gpu/module.h"

enum berth_status device_gpu_open(const char *name, const struct device_options *options,
                                  struct device **device, struct berth_error *error) {
    const struct module_request request = {
        .kind = "device",
        .name = name,
        .symbol = DEVICE_MODULE_SYMBOL,
        .if_missing =
            "this build has no such device; use --device cpu, or name the module's folder "
            "in " MODULE_PATH_VARIABLE,
        .if_broken = "install the GPU's libraries that it was built with, or use --device cpu",
    };
    const void *object;
    *device = NULL;
    TRY(module_open(&request, &object, error));
    const struct device_module *module = object;
    TRY(module_check(&request, module->berth, module->device_size, sizeof(struct device), error));
    return module->open(options, device, error);
}
