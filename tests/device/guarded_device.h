// SPDX-License-Identifier: Apache-2.0
// A second device for tests: the CPU's operations on memory that the host cannot access, like a
// GPU's. It has is_host = 0. memory_new returns addresses that are never accessible, even after
// memory_free: a host read or write there crashes. Operations run on the CPU device's blocks behind
// these addresses (translated_device.h), so results are the CPU's, byte for byte.
//
// device_gpu_open opens it: a program linked with this file instead of src/gpu gets it with
// `--device cuda`.
#ifndef BERTH_TESTS_DEVICE_GUARDED_DEVICE_H
#define BERTH_TESTS_DEVICE_GUARDED_DEVICE_H

#include "translated_device.h"

// The structure of a device that device_gpu_open opened.
struct translated_device *guarded_translation(struct device *device);

#endif
