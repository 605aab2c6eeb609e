// SPDX-License-Identifier: Apache-2.0
// A second device for tests: the CPU's operations on memory that the host cannot access, like a
// GPU's (is_host is 0). memory_new returns addresses that are never accessible, not even after
// memory_free: a read or write by the host crashes. Operations run on the CPU device's blocks that
// belong to these addresses (translated_device.h), so results are the CPU's, byte for byte.
//
// device_gpu_open opens it: a program linked with this file instead of src/device/gpu gets it with
// `--device cuda`.
#ifndef BERTH_TESTS_DEVICE_GUARDED_DEVICE_H
#define BERTH_TESTS_DEVICE_GUARDED_DEVICE_H

#include "translated_device.h"

// The translation of a device that device_gpu_open has opened.
struct translated_device *guarded_translation(struct device *device);

#endif
