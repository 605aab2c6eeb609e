// SPDX-License-Identifier: Apache-2.0
// What a device module (berth-device-NAME.so) offers to the library that opens it: an object
// `berth_device_module` of this type, and no other name.
#ifndef BERTH_GPU_MODULE_H
#define BERTH_GPU_MODULE_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVICE_MODULE_SYMBOL "berth_device_module"

struct device_module {
    const char *berth;  // version of the library that it was built with
    size_t device_size; // sizeof(struct device)
    // BERTH_UNAVAILABLE: no such device, or the driver is missing or too old.
    enum berth_status (*open)(const struct device_options *options, struct device **device,
                              struct berth_error *error);
    // Like device_gpu_describe.
    enum berth_status (*describe)(int index, int *count, char text[160], struct berth_error *error);
};

#ifdef __cplusplus
extern const struct device_module berth_device_module;
}
#endif

#endif
