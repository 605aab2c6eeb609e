// SPDX-License-Identifier: Apache-2.0
// A second device, for tests: the CPU's operations on memory that the host cannot touch, as a
// GPU's. It says is_host = 0. What memory_new hands out are addresses without access, for ever: the
// host that reads or writes there dies of it, also after memory_free. Operations run on the CPU
// device's blocks behind these addresses (translated_device.h), so results are the CPU's, byte for
// byte.
//
// It is opened by device_cuda_open: a program that is linked with this file in place of src/gpu
// gets it for `--device cuda`.
#ifndef BERTH_TESTS_DEVICE_GUARDED_DEVICE_H
#define BERTH_TESTS_DEVICE_GUARDED_DEVICE_H

#include "translated_device.h"

// The structure of a device that device_cuda_open opened.
struct translated_device *guarded_translation(struct device *device);

#endif
