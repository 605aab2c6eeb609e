// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for the instruction set in this file's name (flags in room.cmake).
#if defined(__aarch64__)
#define KERNELS_TABLE kernels_neonbf16
#define KERNELS_NAME "neonbf16"
#include "device/cpu/kernels/table.h"
#endif
