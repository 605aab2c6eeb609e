// SPDX-License-Identifier: Apache-2.0
// The CUDA device of a build without CUDA: it says so.
#include "core/device.h"
#include "core/error.h"

enum berth_status device_cuda_open(const struct device_options *options, struct device **device,
                                   struct berth_error *error) {
    *device = NULL;
    return error_set(error, BERTH_UNAVAILABLE,
                     "device cuda: this build has no CUDA device; use --device cpu");
}
