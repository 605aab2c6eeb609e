// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for the instruction set in this file's name, with the flags in room.cmake.
// kernels_choose.c takes one of these tables when the device is opened.
#if defined(__aarch64__)
#define KERNELS_TABLE kernels_neonbf16
#define KERNELS_NAME "neonbf16"
#include "device/cpu/kernels/table.h"
#endif
