// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for the instruction set in this file's name (flags in room.cmake).
#if defined(__x86_64__)
#define KERNELS_TABLE kernels_fma
#define KERNELS_NAME "fma"
#include "device/cpu/kernels/table.h"
#endif
